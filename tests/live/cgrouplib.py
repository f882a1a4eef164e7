# SPDX-License-Identifier: Apache-2.0
"""Cgroups for tests, in a group of our own."""
import contextlib
import os
import time

from livelib import STARTED, WAIT_S, check


def cgroup2():
    with open('/proc/self/mounts', encoding='utf-8') as f:
        for line in f:
            words = line.split()
            if words[2] == 'cgroup2':
                return words[1].replace('\\040', ' ')
    return None


@contextlib.contextmanager
def cgroups():
    """Folders outer, outer/inner and other in a group of our own; None where there can be none."""
    mount = cgroup2()
    top = f'{mount}/perf-agent-test-{os.getpid()}'
    names = ['', '/outer', '/outer/inner', '/other']
    made = []
    try:
        for name in names:
            os.mkdir(top + name)
            made.append(top + name)
        yield mount, top
    except (PermissionError, FileNotFoundError) as e:
        if made or (mount and not isinstance(e, PermissionError)):
            raise
        yield mount, None
    finally:
        for p in STARTED:
            if p.poll() is None:
                p.kill()
            p.wait(WAIT_S)
        for path in reversed(made):
            until = time.monotonic() + WAIT_S
            while True:
                try:
                    os.rmdir(path)
                    break
                except OSError:  # what has ended there is not quite gone
                    check(time.monotonic() < until, f'{path} does not go')


def enter(path, w):
    with open(f'{path}/cgroup.procs', 'w', encoding='ascii') as f:
        f.write(str(w.pid))


def no_cgroups(mount):
    return 'no folder can be made in ' + mount if mount else 'no cgroup v2 file system is mounted'
