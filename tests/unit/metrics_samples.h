/* SPDX-License-Identifier: Apache-2.0 */
/* metrics_samples.h - made-up snapshots, by name: for the golden files and for other readers */
#ifndef PA_METRICS_SAMPLES_H
#define PA_METRICS_SAMPLES_H

#include <stdio.h>

#include "metrics/metrics.h"

#define MS 1000000ULL

/* Constants: whatever fails here is a bug of the test. */
#define SAMPLE_MUST(call)                                                                          \
	do {                                                                                       \
		int must_ = (call);                                                                \
		if (must_ != 0) {                                                                  \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,              \
			        err_symbol(must_));                                                \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static void sample_comm(char comm[static MET_COMM_LEN], const char *bytes)
{
	memset(comm, 0, MET_COMM_LEN);
	memcpy(comm, bytes, MIN_OF(strlen(bytes), (size_t)MET_COMM_LEN));
}

static struct met_summary sample_time(uint64_t count, uint64_t unit_ns)
{
	return (struct met_summary){
	        .count = count,
	        .total_ns = count * unit_ns * 3,
	        .min_ns = unit_ns / 2,
	        .max_ns = unit_ns * 200,
	        .mean_ns = unit_ns * 3,
	        .p50_ns = unit_ns,
	        .p95_ns = unit_ns * 10,
	        .p99_ns = unit_ns * 50,
	        .p999_ns = unit_ns * 150 + 499,
	};
}

static void sample_entry(struct met_entry *e, uint32_t pid, const char *comm, uint64_t scale)
{
	static const uint64_t reasons[MET_REASON_CNT] = {40, 1, 50, 6, 2, 0, 1};

	met_entry_init(e);
	e->pid = pid;
	sample_comm(e->comm, comm);
	for (int i = 0; i < MET_REASON_CNT; i++) {
		e->reason[i] = reasons[i] * scale;
		e->switches += e->reason[i];
	}
	e->time[MET_SLICE] = sample_time(100 * scale, 200000);
	e->time[MET_RUNQ] = sample_time(90 * scale, 7000);
	e->time[MET_OFF] = sample_time(59 * scale, MS);
	e->ns[MET_SLICE] = 60 * MS * scale;
	e->ns[MET_RUNQ] = 1890000 * scale;
	e->ns[MET_OFF] = 300 * MS * scale + 1;
}

static void sample_counter(struct met_entry *e, enum met_counter_id id, uint32_t core_type,
                           uint64_t raw, uint64_t enabled_ns, uint64_t running_ns)
{
	SAMPLE_MUST(vec_push(&e->counters,
	                     (struct met_counter){
	                             .id = id,
	                             .core_type = core_type,
	                             .value = met_counter_scale(raw, enabled_ns, running_ns),
	                             .raw = raw,
	                             .enabled_ns = enabled_ns,
	                             .running_ns = running_ns,
	                     }));
}

static void sample_error(struct met_entry *e, enum met_counter_id id, uint32_t core_type, int error)
{
	SAMPLE_MUST(
	        vec_push(&e->counters,
	                 (struct met_counter){.id = id, .core_type = core_type, .error = error}));
}

static void sample_software(struct met_entry *e)
{
	sample_counter(e, MET_COUNTER_PAGE_FAULTS, 0, 17, 0, 0);
	sample_counter(e, MET_COUNTER_MIGRATIONS, 0, 0, 0, 0);
	sample_counter(e, MET_COUNTER_SWITCHES, 0, e->switches, 0, 0);
}

static void sample_hardware(struct met_entry *e, uint64_t scale)
{
	sample_counter(e, MET_COUNTER_CYCLES, 0, 123456789 * scale, 50 * MS, 50 * MS);
	sample_counter(e, MET_COUNTER_INSTRUCTIONS, 0, 246913578 * scale, 50 * MS, 50 * MS);
	sample_counter(e, MET_COUNTER_CACHE_REFERENCES, 0, 500000 * scale, 50 * MS, 25 * MS);
	sample_counter(e, MET_COUNTER_CACHE_MISSES, 0, 61728 * scale, 50 * MS, 49999999);
	sample_counter(e, MET_COUNTER_BRANCHES, 0, 20000000 * scale, 50 * MS, 50 * MS);
	sample_counter(e, MET_COUNTER_BRANCH_MISSES, 0, 100400 * scale, 50 * MS, 50 * MS);
}

static void sample_no_hardware(struct met_entry *e, int error)
{
	for (int id = 0; id < MET_COUNTER_CNT; id++) {
		if (met_counter_is_hardware((enum met_counter_id)id))
			sample_error(e, (enum met_counter_id)id, 0, error);
	}
}

static void sample_threads(struct met_entry *e, uint32_t n, const char *comm)
{
	for (uint32_t i = 0; i < n; i++) {
		struct met_thread t = {
		        .tid = e->pid + i,
		        .ns = {e->ns[MET_SLICE] / (i + 2) / 2, 1000 * i, MS * i},
		        .reason = {i, 0, 2},
		};

		sample_comm(t.comm, comm);
		SAMPLE_MUST(vec_push(&e->threads, t));
	}
}

static void sample_add(struct met_snapshot *s, struct met_entry *e)
{
	SAMPLE_MUST(vec_push(&s->procs, *e));
}

/* ---- the samples ---------------------------------------------------------------------------- */

static void fill_one(struct met_snapshot *s)
{
	struct met_entry e;

	s->scope = MET_PIDS;
	sample_entry(&s->all, 0, "", 1);
	sample_entry(&e, 4711, "worker", 1);
	sample_hardware(&e, 1);
	sample_software(&e);
	sample_threads(&e, 2, "worker/0");
	e.ended_threads = 3;
	SAMPLE_MUST(met_entry_label(&e, "service", "shop"));
	sample_add(s, &e);
}

static void fill_vm(struct met_snapshot *s)
{
	struct met_entry e;

	s->scope = MET_PIDS;
	sample_entry(&s->all, 0, "", 1);
	sample_entry(&e, 4711, "worker", 1);
	e.time[MET_RUNQ] = (struct met_summary){0};
	sample_no_hardware(&e, -ENOENT);
	sample_software(&e);
	sample_threads(&e, 40, "pool");
	sample_add(s, &e);
	SAMPLE_MUST(met_snapshot_note(s, "sched_wakeup could not be attached: EPERM"));
}

static void fill_several(struct met_snapshot *s)
{
	struct met_entry e;

	s->scope = MET_PIDS;
	sample_entry(&s->all, 0, "", 3);
	sample_hardware(&s->all, 3);
	for (uint32_t i = 0; i < 2; i++) {
		sample_entry(&e, 300 + i, i ? "second" : "first", 2 - i);
		sample_hardware(&e, 2 - i);
		sample_threads(&e, i ? 1 : 12, "t");
		if (i == 0) {
			SAMPLE_MUST(met_entry_label(&e, "pod", "shop-1"));
			SAMPLE_MUST(met_entry_label(&e, "zone", "north, east"));
		}
		sample_add(s, &e);
	}
	met_entry_init(&e);
	e.pid = 302;
	sample_comm(e.comm, "sleeper");
	sample_no_hardware(&e, -ENOENT);
	sample_add(s, &e);
}

static void fill_system(struct met_snapshot *s)
{
	struct met_entry *e = &s->all;

	s->scope = MET_ALL;
	s->cpus_offline = 1;
	s->other_threads = 12;
	sample_entry(e, 0, "", 1000);
	/* One place in the counters, held by somebody else; others are forbidden or unknown. */
	sample_counter(e, MET_COUNTER_CYCLES, 0, 5000000000, 8000 * MS, 1);
	sample_counter(e, MET_COUNTER_INSTRUCTIONS, 0, 0, 8000 * MS, 0);
	sample_error(e, MET_COUNTER_CACHE_REFERENCES, 0, -EACCES);
	sample_error(e, MET_COUNTER_CACHE_MISSES, 0, -ENOENT);
	sample_error(e, MET_COUNTER_BRANCHES, 0, -EXFULL);
	sample_counter(e, MET_COUNTER_PAGE_FAULTS, 0, 17, 0, 0);
	sample_error(e, MET_COUNTER_SWITCHES, 0, -EPERM);
	SAMPLE_MUST(met_snapshot_label(s, "host", "db-1"));
	SAMPLE_MUST(met_snapshot_label(s, "zone", "north, east"));
}

static void fill_per_pid(struct met_snapshot *s)
{
	struct met_entry e;

	s->scope = MET_PER_PID;
	s->other_threads = 7;
	s->missed_events = 3;
	s->dropped_events = 5;
	sample_entry(&s->all, 0, "", 6);
	sample_hardware(&s->all, 6);
	sample_entry(&e, 31, "kworker/u8:3", 1);
	e.time[MET_OFF] = e.time[MET_RUNQ] = (struct met_summary){0};
	sample_no_hardware(&e, -ENOENT);
	sample_add(s, &e);
	sample_entry(&e, 0, "", 2);
	sample_hardware(&e, 2);
	sample_add(s, &e);
	sample_entry(&e, 4194303, "a\x1b[2Jb\nc", 3);
	sample_hardware(&e, 3);
	sample_software(&e);
	sample_threads(&e, 3, "x");
	sample_add(s, &e);
}

static void fill_hybrid(struct met_snapshot *s)
{
	struct met_entry *e = &s->all;

	s->scope = MET_ALL;
	SAMPLE_MUST(met_snapshot_core_type(s, "cpu_core"));
	SAMPLE_MUST(met_snapshot_core_type(s, "cpu_atom"));
	SAMPLE_MUST(met_snapshot_core_type(s, "cpu_lowpower"));
	sample_entry(e, 0, "", 10);
	sample_counter(e, MET_COUNTER_CYCLES, 0, 100000, 10 * MS, 10 * MS);
	sample_counter(e, MET_COUNTER_CYCLES, 1, 20000, 10 * MS, 5 * MS);
	sample_counter(e, MET_COUNTER_CYCLES, 2, 0, 0, 0);
	sample_counter(e, MET_COUNTER_INSTRUCTIONS, 0, 250000, 10 * MS, 10 * MS);
	sample_counter(e, MET_COUNTER_INSTRUCTIONS, 1, 20000, 10 * MS, 5 * MS);
	sample_counter(e, MET_COUNTER_INSTRUCTIONS, 2, 0, 0, 0);
	sample_counter(e, MET_COUNTER_CACHE_MISSES, 0, 50, 10 * MS, 10 * MS);
	sample_error(e, MET_COUNTER_CACHE_MISSES, 1, -ENOENT);
	sample_error(e, MET_COUNTER_CACHE_MISSES, 2, -ENOENT);
	sample_software(e);
}

static void fill_empty(struct met_snapshot *s)
{
	s->scope = MET_PIDS;
	sample_no_hardware(&s->all, -ENOENT);
	SAMPLE_MUST(met_snapshot_note(s, "process 4711 had ended before the capture"));
}

/* Names that want to be something else, numbers at their ends. */
static void fill_hostile(struct met_snapshot *s)
{
	static const char *const names[] = {
	        "\"}],\\\"x",
	        "\x1b]0;pwned\x07",
	        "\xff\xfe\xc0\xaf",
	        "\xc2\x9b\x33\x31m",
	        "caf\xc3\xa9 \xe2\x82\xac",
	        "cut \xe2\x82",
	        "16 bytes, no NUL",
	        "\t\r\n\x7f",
	        "%s%n%p",
	        "",
	};
	struct met_entry e;

	s->scope = MET_PER_PID;
	s->time_realtime_ns = s->duration_ns = UINT64_MAX;
	s->cpus = s->cpus_offline = UINT32_MAX;
	s->other_threads = UINT64_MAX;
	SAMPLE_MUST(met_snapshot_core_type(s, "cpu\x1b[1m"));
	SAMPLE_MUST(met_snapshot_core_type(s, "\"\\\xff"));
	sample_entry(&s->all, 0, "", 1);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		sample_entry(&e, UINT32_MAX - (uint32_t)i, names[i], 1);
		sample_add(s, &e);
	}
	met_entry_init(&e);
	e.pid = 1;
	sample_comm(e.comm, names[1]);
	for (int i = 0; i < MET_TIME_CNT; i++) {
		memset(&e.time[i], 0xff, sizeof(e.time[i]));
		e.ns[i] = UINT64_MAX;
	}
	for (int i = 0; i < MET_REASON_CNT; i++)
		e.reason[i] = UINT64_MAX;
	e.switches = UINT64_MAX;
	e.ended_threads = UINT64_MAX;
	for (int id = 0; id < MET_COUNTER_CNT; id++)
		sample_counter(&e, (enum met_counter_id)id, 1, UINT64_MAX, UINT64_MAX, 1);
	sample_error(&e, MET_COUNTER_CYCLES, 0, -9999);
	sample_counter(&e, MET_COUNTER_CYCLES, 99, 1, 1, 1); /* a core type that is none */
	sample_threads(&e, 1, names[2]);
	SAMPLE_MUST(met_entry_label(&e, "a=b\n", "\x1b[31m\xff\"'\\"));
	sample_add(s, &e);
	SAMPLE_MUST(met_snapshot_label(s, "a=b\n", "\x1b[31m\xff\"'\\"));
	SAMPLE_MUST(met_snapshot_note(s, "two\nlines, \xf0\x9f\x98 cut"));
}

static const struct metrics_sample {
	const char *name;
	void (*fill)(struct met_snapshot *s);
} metrics_samples[] = {
        {"one", fill_one},       {"vm", fill_vm},           {"several", fill_several},
        {"system", fill_system}, {"per-pid", fill_per_pid}, {"hybrid", fill_hybrid},
        {"empty", fill_empty},   {"hostile", fill_hostile},
};

static struct met_snapshot *metrics_sample(const struct metrics_sample *which)
{
	struct met_snapshot *s;

	SAMPLE_MUST(met_snapshot_new(&s));
	s->time_realtime_ns = 1767225600123456789ULL;
	s->duration_ns = 5000 * MS + 499999;
	s->cpus = 8;
	which->fill(s);
	if (s->core_types.n == 0)
		SAMPLE_MUST(met_snapshot_core_type(s, ""));
	met_snapshot_sort(s);
	return s;
}

#endif
