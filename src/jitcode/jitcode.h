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
 * Code of one process by address and time: from a perf-map (no times: a line is taken to be true
 * from when it was first read; what was there at the first reading, from ever) and from a jitdump
 * (with times). Later code takes the place of what it overlaps.
 */
struct jitcode;
/**
 * jitcode_new - no code yet
 * @max_bytes: of memory; lines and records past it are counted and left out; 0: 64 MiB
 * Returns: 0, -ENOMEM.
 */
int jitcode_new(size_t max_bytes, struct jitcode **ret);
struct jitcode *jitcode_free(struct jitcode *j);
void jitcode_freep(struct jitcode **j);
/**
 * jitcode_read_map - lines that were appended to a perf-map since the last call
 * @fd:     regular file; a file that has shrunk or is another one is read from its beginning
 * @now_ns: CLOCK_MONOTONIC
 * An unfinished last line is left for the next call unless @final.
 * Returns: number of new entries that took the place of others, -ENOMEM, errno of pread.
 */
int jitcode_read_map(struct jitcode *j, int fd, uint64_t now_ns, bool final);
/**
 * jitcode_read_dump - records that were appended to a jitdump since the last call
 * Times are those of the dump's clock, CLOCK_MONOTONIC where its header does not say otherwise
 * (arch timestamps are taken as "when they were read").
 * Returns: as jitcode_read_map; -EINVAL (no jitdump, or another byte order).
 */
int jitcode_read_dump(struct jitcode *j, int fd, uint64_t now_ns);
/**
 * jitcode_more - did the last reading end because it had read enough for one call, before the end?
 */
bool jitcode_more(const struct jitcode *j);
/**
 * jitcode_find - the code at an address
 * @time_ns: CLOCK_MONOTONIC; UINT64_MAX: newest
 * @ret: strings live until the next call with @j; file and line where the producer tells them, the
 * line of the function where it does not tell that of the address
 * Where nothing was there at @time_ns it is what came first after it: a map is read later than it
 * is written, and what was sampled was there.
 * Returns: 0, -ENOENT, -ENOMEM. Cost: O(log^2 n); after new code that took the place of other the
 * first with a time before it O(n log n).
 */
int jitcode_find(struct jitcode *j, uint64_t addr, uint64_t time_ns, struct sym_frame *ret);
/**
 * jitcode_version - the same number as long as the same code lies at an address
 * Returns: 0 where none is now.
 */
uint32_t jitcode_version(const struct jitcode *j, uint64_t addr);
/**
 * jitcode_bytes, jitcode_limit - memory held; another @max_bytes, with which more may be taken in
 * Look-ups by time need up to as much again.
 */
size_t jitcode_bytes(const struct jitcode *j);
void jitcode_limit(struct jitcode *j, size_t max_bytes);
struct jitcode_stats {
	uint64_t entries, reused; /* that took the place of others */
	uint64_t bad;             /* damaged lines and records, skipped */
	uint64_t over_limit;
};
const struct jitcode_stats *jitcode_stats(const struct jitcode *j);

#endif
