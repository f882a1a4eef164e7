// SPDX-License-Identifier: Apache-2.0
/*
 * bench-walk PID RATE SECONDS plain|no-walk-cache|no-cache|no-window|no-inline|fp: prints one JSON
 * line with the cost of a sample of this process on the kernel side. All its tables are built
 * before sampling. The time is the programs' own clock, without ticks on other processes.
 */
#include <stdio.h>

#include "../tests/live/stack_capture.h"

static const struct {
	const char *name;
	uint32_t flags;
	bool no_inline, frame_pointers;
} modes[] = {
        {"plain", 0, false, false},
        {"no-walk-cache", ABI_WALK_NO_CPU_CACHE, false, false},
        {"no-cache", ABI_WALK_NO_CACHE | ABI_WALK_NO_CPU_CACHE, false, false},
        {"no-window", ABI_WALK_NO_WINDOW, false, false},
        {"no-inline", 0, true, false},
        {"fp", 0, false, true},
};

int main(int argc, char **argv)
{
	struct cap_options o = {0};
	struct err err = {0};
	struct cap *c;
	uint64_t pid, rate, seconds, seen, frames, heuristic, ns, walk_hit, hit, miss, complete = 0;
	size_t mode = 0;

	while (argc == 5 && mode < ARRAY_SIZE(modes) && strcmp(argv[4], modes[mode].name) != 0)
		mode++;
	if (argc != 5 || mode == ARRAY_SIZE(modes) || parse_u64(argv[1], 10, &pid) < 0 ||
	    parse_u64(argv[2], 10, &rate) < 0 || parse_u64(argv[3], 10, &seconds) < 0) {
		fprintf(stderr, "usage: bench-walk PID RATE SECONDS MODE\n");
		return 2;
	}
	o.pid = (uint32_t)pid;
	o.rate_hz = (uint32_t)rate;
	o.walk_flags = modes[mode].flags;
	o.no_inline = modes[mode].no_inline;
	o.frame_pointers = modes[mode].frame_pointers;
	if (cap_start(&o, &c, &err) < 0 || cap_run(c, (uint32_t)seconds * 1000) < 0 ||
	    cap_finish(c) < 0) {
		fprintf(stderr, "bench-walk: %s\n", err.msg);
		return 1;
	}
	seen = cap_counter(c, ABI_CNT_SEEN);
	frames = cap_counter(c, ABI_CNT_FRAMES);
	heuristic = cap_counter(c, ABI_CNT_FRAMES_HEURISTIC);
	ns = cap_counter(c, ABI_CNT_PROG_NS);
	walk_hit = cap_counter(c, ABI_CNT_WALK_CACHE_HIT);
	hit = cap_counter(c, ABI_CNT_CACHE_HIT);
	miss = cap_counter(c, ABI_CNT_CACHE_MISS);
	for (size_t i = 0; i < c->stacks.n; i++)
		complete += c->stacks.p[i].walk == EV_WALK_ROOT;
	printf("{\"mode\":\"%s\",\"rate_hz\":%llu,\"samples\":%llu,\"frames\":%llu,"
	       "\"heuristic\":%llu,\"ns\":%llu,\"walk_cache_hits\":%llu,\"cache_hits\":%llu,"
	       "\"cache_misses\":%llu,\"stacks\":%zu,\"complete_stacks\":%llu}\n",
	       modes[mode].name, (unsigned long long)rate, (unsigned long long)seen,
	       (unsigned long long)frames, (unsigned long long)heuristic, (unsigned long long)ns,
	       (unsigned long long)walk_hit, (unsigned long long)hit, (unsigned long long)miss,
	       c->stacks.n, (unsigned long long)complete);
	cap_free(c);
	return seen ? 0 : 1;
}
