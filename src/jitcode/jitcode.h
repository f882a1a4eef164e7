/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jitcode - functions of the JIT code of one process by address and time, from perf maps and
 * jitdumps.
 * Thread: one at a time for each object.
 */
#ifndef PA_JITCODE_H
#define PA_JITCODE_H

#include "symbolize/symbolize.h"

/*
 * JIT code of one process by address and time, from a perf-map and from a jitdump. A perf-map has
 * no times: a line holds from its first reading on, and a line of the first reading always. A
 * jitdump has times. Later code replaces the code that it overlaps.
 */
struct jitcode;
/**
 * jitcode_new - an empty object
 * @max_bytes: cap of memory; lines and records over it are counted and dropped; 0: 64 MiB
 * Returns: 0, -ENOMEM.
 */
int jitcode_new(size_t max_bytes, struct jitcode **ret);
struct jitcode *jitcode_free(struct jitcode *j);
void jitcode_freep(struct jitcode **j);
/**
 * jitcode_read_map - read the lines appended to a perf-map since the last call
 * @fd:     regular file; a file that has shrunk or is another one is read from its beginning
 * @now_ns: CLOCK_MONOTONIC
 * An unfinished last line is left for the next call unless @final.
 * Returns: number of new entries that replaced others, -ENOMEM, errno of pread.
 */
int jitcode_read_map(struct jitcode *j, int fd, uint64_t now_ns, bool final);
/**
 * jitcode_read_dump - read the records appended to a jitdump since the last call
 * Times are CLOCK_MONOTONIC, or with arch timestamps in the header the time of the reading.
 * Returns: as jitcode_read_map; -EINVAL (no jitdump, or another byte order).
 */
int jitcode_read_dump(struct jitcode *j, int fd, uint64_t now_ns);
/**
 * jitcode_more - did the last reading stop before the end, at the bound of one call?
 */
bool jitcode_more(const struct jitcode *j);
/**
 * jitcode_find - the code at an address
 * @time_ns: CLOCK_MONOTONIC; UINT64_MAX: newest
 * @ret: strings live until the next call with @j; file and line if the producer wrote them. The
 * line is that of the function if there is none for the address. If no code was there at @time_ns,
 * returns the first code after it: a map is read later than it is written, and the sampled code was
 * there.
 * Returns: 0, -ENOENT, -ENOMEM. Cost: O(log^2 n); O(n log n) for the first look-up of older code
 * after a replacement.
 */
int jitcode_find(struct jitcode *j, uint64_t addr, uint64_t time_ns, struct sym_frame *ret);
/**
 * jitcode_version - the same number as long as the same code lies at an address
 * Returns: 0 if there is none now.
 */
uint32_t jitcode_version(const struct jitcode *j, uint64_t addr);
/**
 * jitcode_bytes, jitcode_limit - memory held; set another @max_bytes
 * Look-ups by time need up to as much again.
 */
size_t jitcode_bytes(const struct jitcode *j);
void jitcode_limit(struct jitcode *j, size_t max_bytes);
struct jitcode_stats {
	uint64_t entries, reused; /* functions; those that replaced others */
	uint64_t bad;             /* damaged lines and records, skipped */
	uint64_t over_limit;
};
const struct jitcode_stats *jitcode_stats(const struct jitcode *j);

#endif
