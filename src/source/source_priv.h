/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PA_SOURCE_PRIV_H
#define PA_SOURCE_PRIV_H

#include "metrics/metrics.h"
#include "proc/proc.h"
#include "source/source.h"

/* The encode of sources with a profile. */
int src_encode_pprof(const struct src_product *p, const struct pfa_options *o, struct sbuf *b);

/* ---- on-CPU ---------------------------------------------------------------------------------- */

struct oncpu {
	const struct src_env *env;
	struct smp_oncpu *sampler;
	struct pev_spec spec;
	bool cycles;
	struct result_cpu_time *cpu_time; /* NULL: not measured, or not yet */
	uint64_t idle_start_ns;           /* of all CPUs when sampling began; 0: not known */
	uint64_t idle_ns;                 /* of all CPUs while sampling */
};

/* ---- off-CPU --------------------------------------------------------------------------------- */

/* Reads the counters of its programs, running or final. Returns 0, -ENOMEM, errno of bpf(2).
 * Thread: any. */
int src_offcpu_counters(const void *src, struct abi_counters *ret);
/* Adds a note if many switch events were missed, by the counters in the tally. */
void src_offcpu_note_missed(const struct src_env *env);
/* Adds a note if threads of the target sleep without any interval. @off: may be NULL. */
void src_offcpu_note_hidden(const struct src_env *env, const struct smp_offcpu *off);

/* ---- scheduler statistics -------------------------------------------------------------------- */

struct sched {
	const struct src_env *env;
	struct load_sched *loader;
	struct proc_cpus *cpus;
	struct pev_counters counters;
	uint32_t n_counting;                 /* counters that are open on some CPU */
	uint32_t counting[PEV_HARDWARE_CNT]; /* which: enum met_counter_id */
	uint64_t folded_ns;                  /* thread: drain */
	bool nested;                         /* our pid namespace is not the initial one */
	bool enabled, others;                /* others: there are processes without a slot */
	bool per_process;

	/* While the snapshot is made. */
	/* By core type and counter: how long it was enabled and counted, over all CPUs. Reading
	 * that at each switch would cost as much as the counter. */
	struct pev_count times[PROC_CORE_TYPES_MAX][PEV_HARDWARE_CNT];
	struct met_snapshot *snap;
	uint64_t ended_missed; /* threads that ended after a missed switch event */
	/* Processes of threads that the final scan returned, and of living ones that it did not;
	 * with duplicates. */
	VEC(uint32_t) shown, hidden;
	/* By slot. Two CPUs that add a process at once give it two slots. */
	struct slot {
		uint32_t tgid, first; /* first: the first slot of its process */
		uint64_t start_ns;
		uint32_t entry; /* of first: index in snap->procs + 1 */
		bool several;
		uint64_t total_ns[MET_TIME_CNT]; /* of first, where there are several */
		struct met_hist *hist; /* of first, where there are several: hist[MET_TIME_CNT] */
	} slots[ABI_SCHED_PROCS + 1];
	struct met_hist *hist; /* hist[MET_TIME_CNT], of the current entry */
	uint64_t
	        total_ns[MET_TIME_CNT]; /* of the current entry: exact sums of the values in hist */
	uint64_t begin_ns, end_ns;
	bool scanned; /* the final scan of all threads succeeded */
	int error;
};

/* src_sched_read.c: fills p->snap. @total: gets the sums over all processes. Returns 0, -ENOMEM,
 * errno of bpf(2). */
int sched_read(struct sched *p, struct load_sched_total *total, struct err *err);

#endif
