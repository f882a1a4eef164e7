# SPDX-License-Identifier: Apache-2.0
"""A reader of perf.data of its own: records, samples with their frames as (file, offset), and what must always hold."""
import collections
import struct

MMAP, LOST, COMM, EXIT, FORK, SAMPLE, MMAP2, LOST_SAMPLES, KSYMBOL, ROUND = 1, 2, 3, 4, 7, 9, 10, 13, 17, 68
CONTEXT = {2**64 - 128: 'kernel', 2**64 - 512: 'user'}
FEATURES = {2: 'build_id', 3: 'hostname', 4: 'osrelease', 5: 'version', 6: 'arch', 7: 'nrcpus', 8: 'cpudesc', 9: 'cpuid',
            10: 'total_mem', 11: 'cmdline', 12: 'event_desc', 21: 'sample_time', 23: 'clockid', 27: 'compressed', 29: 'clock_data'}
Sample = collections.namedtuple('Sample', 'event pid tid cpu time period mode comm frames')


def text(data):
    return data.split(b'\0', 1)[0].decode('utf-8', 'surrogateescape')


class PerfData:
    def __init__(self, path):
        with open(path, 'rb') as f:
            self.data = f.read()
        magic, size, attr_size, attrs, attrs_size, at, self.data_size = struct.unpack_from('<8s6Q', self.data)
        assert magic == b'PERFILE2' and size == 104, (magic, size)
        features, = struct.unpack_from('<Q', self.data, 72)
        self.sections = {}
        for i, bit in enumerate(b for b in range(64) if features >> b & 1):
            start, length = struct.unpack_from('<2Q', self.data, at + self.data_size + 16 * i)
            assert start + length <= len(self.data), (bit, start, length)
            self.sections[FEATURES[bit]] = self.data[start:start + length]
        self.events = self.event_names()
        assert attrs_size // attr_size == len(self.events), self.events
        self.samples, self.records = [], collections.Counter()
        self.comms, self.maps, self.lost, self.paths = {}, {}, 0, set()
        self.read(at, at + self.data_size)

    def event_names(self):
        """{id: name}"""
        data, ret = self.sections['event_desc'], {}
        n, attr_size = struct.unpack_from('<2I', data)
        at = 8
        for _ in range(n):
            ids, length = struct.unpack_from('<2I', data, at + attr_size)
            at += attr_size + 8
            ret[struct.unpack_from('<Q', data, at + length)[0]] = text(data[at:at + length])
            at += length + 8 * ids
        return ret

    def read(self, at, end):
        last = 0
        while at < end:
            kind, misc, size = struct.unpack_from('<IHH', self.data, at)
            assert size >= 8 and size % 8 == 0 and at + size <= end, (at, kind, size)
            body = self.data[at + 8:at + size]
            self.records[kind] += 1
            if kind == SAMPLE:
                time = self.sample(misc, body)
            elif kind == ROUND:
                time = last
            else:
                time = struct.unpack_from('<Q', body, len(body) - 24)[0]
                self.other(kind, body)
            assert time >= last, ('records are in order of time', at, time, last)
            last = time
            at += size

    def other(self, kind, body):
        pid, tid = struct.unpack_from('<2I', body)
        if kind == COMM:
            self.comms[tid] = text(body[8:])
        elif kind == MMAP2:
            start, length, pgoff = struct.unpack_from('<3Q', body, 8)
            path = text(body[64:])
            self.paths.add(path)
            self.maps.setdefault(pid, []).insert(0, (start, start + length, pgoff, path))
        elif kind == FORK:
            pid, ppid, tid, ptid = struct.unpack_from('<4I', body)
            if pid != ppid:
                self.maps[pid] = list(self.maps.get(ppid, []))
            self.comms[tid] = self.comms.get(ptid)
        elif kind in (LOST, LOST_SAMPLES):
            self.lost += struct.unpack_from('<Q', body, 8 if kind == LOST else 0)[0]

    def place(self, pid, addr):
        """(file, offset), or the address where nothing is mapped."""
        for start, end, pgoff, path in self.maps.get(pid, []):
            if start <= addr < end:
                return path, addr - start + pgoff
        return '', addr

    def sample(self, misc, body):
        ident, ip, pid, tid, time, cpu, _, period, n = struct.unpack_from('<2Q2IQ2I2Q', body)
        assert len(body) == 56 + 8 * n, (len(body), n)
        mode, frames = None, []
        for addr in struct.unpack_from(f'<{n}Q', body, 56):
            if addr in CONTEXT:
                mode = CONTEXT[addr]
            elif mode == 'kernel':
                frames.append(('[kernel]', addr))
            else:
                frames.append(self.place(pid, addr))
        assert n == 0 or struct.unpack_from('<Q', body, 64)[0] == ip, 'ip is the leaf'
        self.samples.append(Sample(self.events[ident], pid, tid, cpu, time, period, misc & 7, self.comms.get(tid), tuple(frames)))
        return time

    def of(self, event):
        return [s for s in self.samples if s.event == event]
