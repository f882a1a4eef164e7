/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of the walker's maps, by target, rate and CPUs. Thread: control. */
#include "session/session_priv.h"

#include <dirent.h>

#include "proc/proc.h"

/* Entries of the process map, 32 bytes each. */
#define RANGES_MAX         (1ULL << 20)
#define RANGES_SPARE       1024ULL
#define RANGES_PER_PROCESS 24ULL /* of browsers and desktops; others have 6 */
#define RANGES_COUNTED     16    /* processes whose mappings are counted for it */

static uint32_t pow2_at_least(uint64_t v)
{
	uint32_t p = 1;

	while (p < v && p < (1U << 30))
		p *= 2;
	return p;
}

static int count_mapping(void *arg, const struct ev_mapping *m)
{
	(void)m;
	(*(uint64_t *)arg)++;
	return 0;
}

static uint64_t count_processes(void)
{
	DIR *d = opendir("/proc");
	uint64_t n = 0;

	for (struct dirent *e; d && (e = readdir(d));)
		n += e->d_name[0] >= '1' && e->d_name[0] <= '9';
	if (d)
		(void)closedir(d); /* only read from */
	return n;
}

/* Returns the size of the process map, by the executable mappings that exist now. There is room for
 * two lists of a process: a new list is written before the old one is freed. */
static uint32_t range_entries(const struct ses *s)
{
	uint64_t n = 0;

	if (s->o.target == PFA_TARGET_PID && !tgt_follows(&s->target) &&
	    s->target.n <= RANGES_COUNTED) {
		/* The first scan meets an error again, and reports it. */
		for (uint32_t i = 0; i < s->target.n; i++)
			(void)proc_maps_read(s->target.pids[i], count_mapping, &n, NULL, NULL);
		n = MAX_OF(2 * n + RANGES_SPARE, 16384ULL);
	} else {
		if (tgt_all(&s->target))
			n = RANGES_PER_PROCESS * count_processes();
		else
			n = 2 * RANGES_PER_PROCESS * s->target.n;
		n = MAX_OF(n, 65536ULL);
	}
	return pow2_at_least(MIN_OF(n, RANGES_MAX));
}

/* A record of the stream has 112 bytes. A second of all samples; of off-CPU intervals the tenth of a
 * second, the drain interval, of 1.4 million switches a second. */
#define STREAM_RING_MIN    (1ULL << 20)
#define STREAM_RING_MAX    (64ULL << 20)
#define STREAM_RING_OFFCPU (16ULL << 20)

static uint64_t stream_ring(const struct ses *s, uint64_t per_s)
{
	uint64_t n = MIN_OF(MAX_OF(128 * per_s, STREAM_RING_MIN), STREAM_RING_MAX);

	return s->o.modes & PFA_MODE_OFFCPU ? MAX_OF(n, STREAM_RING_OFFCPU) : n;
}

void ses_sizes(const struct ses *s, bool walks, struct load_sizes *z)
{
	const bool one = s->o.target == PFA_TARGET_PID && !tgt_tree(&s->target);
	const uint64_t per_s = (uint64_t)s->o.sample_rate_hz * s->env.n_cpus,
	               page = (uint64_t)sysconf(_SC_PAGESIZE);

	z->no_sample = true; /* unless a source needs it */
	if (!walks) {
		/* Target and filters only, whose sizes are set. */
		z->no_walk = true;
		z->ring_bytes = z->deferred_ring_bytes = (uint32_t)page;
		z->count_entries = z->thread_entries = z->range_entries = z->proc_entries =
		        z->shipped_entries = 1;
		return;
	}
	/* Stacks: a second of nothing but new, deep stacks would need too much. 256 KiB hold 1,000
	 * of 30 frames, and a stack that was dropped comes again. */
	z->ring_bytes = pow2_at_least(
	        MAX_OF(s->o.ring_bytes ? s->o.ring_bytes
	                               : (one ? 262144U : MAX_OF(524288U, s->env.n_cpus * 65536U)),
	               page));
	if (ses_streams(s) && !s->o.ring_bytes)
		z->ring_bytes = MAX_OF(z->ring_bytes, pow2_at_least(stream_ring(s, per_s)));
	/* Counts: half a table must outlast a drain interval in which every sample is new. */
	z->count_entries = s->o.count_entries
	                           ? s->o.count_entries
	                           : (uint32_t)MIN_OF(MAX_OF(per_s, 8192ULL), 1ULL << 20);
	z->thread_entries = one ? 4096 : 16384;
	z->range_entries = s->o.range_entries ? s->o.range_entries : range_entries(s);
	z->proc_entries = one ? 64 : 32768;
	z->shipped_entries = one ? 16384 : 65536;
	if (s->o.unwind == PFA_UNWIND_FP)
		return;
	/* 32 bytes each. On a machine with more files the rest is unwound heuristically. */
	z->image_entries = tgt_all(&s->target) ? 65536 : 8192;
	/* 64 or 128 deferred samples until the drain thread has been woken; more are unwound
	 * heuristically. */
	z->deferred_ring_bytes = pow2_at_least(MAX_OF((one ? 1ULL : 2ULL) << 20, page));
}

/* Returns how many samples of a process in an image without a table are deferred: enough for a
 * quarter of a second on one CPU, until the drain thread was woken and the table built. More are
 * unwound heuristically. The size of their ring is a second bound. */
uint32_t ses_deferred_quota(const struct ses *s)
{
	return MIN_OF(MAX_OF(s->o.sample_rate_hz / 4, 32U), 1024U);
}
