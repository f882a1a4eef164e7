/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sampler - the samples and intervals of the sources: perf events, the BPF programs, and their
 * records, checked. Thread: the control thread opens and starts, the drain thread drains and
 * finishes; counters: any.
 */
#ifndef PA_SAMPLER_H
#define PA_SAMPLER_H

#include "bpf/abi/abi.h"
#include "event/event.h"
#include "loader/loader.h"
#include "perfevent/perfevent.h"

/* Receives the records. The drain thread calls it, in the calls that drain and finish. */
struct smp_sink {
	void (*stack)(void *arg, const struct ev_stack *s);
	void (*count)(void *arg, const struct ev_count *c);
	void (*thread)(void *arg, const struct ev_thread *t);
	void (*deferred)(void *arg,
	                 const struct ev_deferred *c); /* may be NULL: counted, not handed on */
	void (*waker)(void *arg, const struct ev_waker *w); /* may be NULL */
	void *arg;
};

/* ---- the walker -------------------------------------------------------------------------------
 */

/* The maps that the programs of all modes share: target, filters, process map, unwind tables, rings
 * and thread names. Each mode loads its programs over them. */
struct smp_walker;

struct smp_walker_stats {
	uint64_t ring_samples;     /* in records with their stacks, or one by one */
	uint64_t ring_intervals;   /* off-CPU intervals that came one by one */
	uint64_t deferred_samples; /* handed on for a walk; without those of ABI_WALK_DEFER_ALL */
	uint64_t bad_records;      /* records of both rings that contradict themselves */
	uint64_t read_errors;      /* failed reads of a table */
};

/**
 * smp_walker_open, smp_walker_free - load the maps, and the programs that @sizes asks for
 * No program runs yet. Free accepts NULL and returns NULL; modes must be freed before.
 * Returns: 0, -ENOMEM, errors of load_oncpu_open.
 */
int smp_walker_open(const struct abi_config *cfg, const struct load_sizes *sizes,
                    struct smp_walker **ret, struct err *err);
struct smp_walker *smp_walker_free(struct smp_walker *w);
void smp_walker_freep(struct smp_walker **w);
/**
 * smp_walker_drain - hand on the stacks and deferred samples in the rings, and thread names once
 * their table is half full
 * Returns: 0, or the first negative errno of reading a table; each is counted in read_errors, and
 * the capture goes on.
 */
int smp_walker_drain(struct smp_walker *w, const struct smp_sink *sink);
/**
 * smp_walker_drain_threads - hand on the thread names now, and empty their table
 * Returns: as smp_walker_drain.
 */
int smp_walker_drain_threads(struct smp_walker *w, const struct smp_sink *sink);
/**
 * smp_walker_detach - detach the programs of the walker and of on-CPU samples
 */
void smp_walker_detach(struct smp_walker *w);
/**
 * smp_walker_finish - hand on all records that are left, after all modes were finished
 * Returns: as smp_walker_drain.
 */
int smp_walker_finish(struct smp_walker *w, const struct smp_sink *sink);
/**
 * smp_walker_loader - the BPF object, for writers of its maps; borrowed until smp_walker_free
 */
struct load_oncpu *smp_walker_loader(struct smp_walker *w);
/**
 * smp_walker_poll_fd - descriptor that is readable when the ring is past its fill mark
 */
int smp_walker_poll_fd(const struct smp_walker *w);
/**
 * smp_walker_stats - written by smp_walker_drain and _finish; borrowed until smp_walker_free
 */
const struct smp_walker_stats *smp_walker_stats(const struct smp_walker *w);

/* ---- on-CPU -----------------------------------------------------------------------------------
 */

struct smp_oncpu;

struct smp_oncpu_options {
	struct pev_spec spec;
	bool cpu_time; /* measure the on-CPU time of the targets: cfg's cpu_time */
};

struct smp_oncpu_stats {
	uint64_t read_samples; /* read from the tables of counts */
	uint64_t read_errors;  /* failed reads of a table */
	int cpu_time_error;    /* negative errno: on-CPU time is not measured; else 0 */
};

/**
 * smp_oncpu_open, smp_oncpu_free - sample with the program of a walker
 * @walker: has the sampling program; must live longer
 * Free detaches and closes; counts that smp_oncpu_finish has not handed on are lost. NULL is
 * accepted, free returns NULL.
 * Returns: 0, -ENOMEM.
 */
int smp_oncpu_open(struct smp_walker *walker, const struct smp_oncpu_options *o,
                   struct smp_oncpu **ret);
struct smp_oncpu *smp_oncpu_free(struct smp_oncpu *s);
/**
 * smp_oncpu_start - open an event on each CPU, attach the program, enable
 * @cpus: cpus[n_cpus]; those that are offline are skipped, see smp_oncpu_skipped_cpus
 * With cpu_time it measures the on-CPU time of the targets. If that fails sampling continues, and
 * smp_oncpu_stats has the error. Another failure detaches and closes all.
 * Returns: 0, errors of pev_open_cpus, load_oncpu_attach or pev_set_enable.
 */
int smp_oncpu_start(struct smp_oncpu *s, const uint32_t *cpus, uint32_t n_cpus, struct err *err);
/**
 * smp_oncpu_drain - hand on the counts once their table is half full; after smp_walker_drain
 * smp_oncpu_drain_all - hand on the counts up to now
 * Returns: 0, negative errno of reading the table, counted in read_errors.
 * Cost: a drain waits a grace period, see load_counts_drain.
 */
int smp_oncpu_drain(struct smp_oncpu *s, const struct smp_sink *sink);
int smp_oncpu_drain_all(struct smp_oncpu *s, const struct smp_sink *sink);
/**
 * smp_oncpu_end - end sampling now; counts stay for smp_oncpu_finish
 * Thread: control, while the drain thread may still drain. Returns: 0, errors of pev_set_disable.
 */
int smp_oncpu_end(struct smp_oncpu *s);
/**
 * smp_oncpu_finish - end sampling unless smp_oncpu_end did, then hand on all counts
 * Continues after a failure. smp_walker_finish hands on their stacks and names.
 * Returns: as smp_oncpu_drain, or errors of pev_set_disable.
 */
int smp_oncpu_finish(struct smp_oncpu *s, const struct smp_sink *sink);
/**
 * smp_oncpu_stats - written by the calls that drain; borrowed until smp_oncpu_free
 */
const struct smp_oncpu_stats *smp_oncpu_stats(const struct smp_oncpu *s);
/**
 * smp_oncpu_skipped_cpus - how many CPUs smp_oncpu_start found offline
 */
uint32_t smp_oncpu_skipped_cpus(const struct smp_oncpu *s);
/* On-CPU time and weight of samples of a thread. */
struct smp_cpu_time {
	struct ev_proc_id proc; /* exec_id 0: of all its programs */
	uint32_t tid;
	bool foreign_ns;
	uint64_t ran_ns, seen;
};
struct smp_cpu_time_cost {
	uint64_t prog_ns;
	uint64_t missed; /* intervals with a missed switch event */
	uint64_t full;   /* intervals of threads without an entry: the table was full */
};
typedef void (*smp_cpu_time_fn)(void *arg, const struct smp_cpu_time *t);
/**
 * smp_oncpu_split_times - as smp_oncpu_times, up to now while it runs. Thread: drain.
 */
int smp_oncpu_split_times(struct smp_oncpu *s, smp_cpu_time_fn fn, void *arg,
                          struct smp_cpu_time *ret, struct smp_cpu_time_cost *ret_cost);
/**
 * smp_oncpu_times - hand on the on-CPU time between switch events of each thread; after
 * smp_oncpu_finish
 * @ret:      sums of threads without an entry; only ran_ns and seen
 * @ret_cost: time of the program at switches, and switches that it missed
 * Returns: 0, -ENODATA (it was not measured), -ENOMEM, errno of reading the tables.
 */
int smp_oncpu_times(struct smp_oncpu *s, smp_cpu_time_fn fn, void *arg, struct smp_cpu_time *ret,
                    struct smp_cpu_time_cost *ret_cost);
/* ---- records ----------------------------------------------------------------------------------
 */

/**
 * smp_record_parse - decode a record of the ring of stacks
 * @rec:    struct abi_stack and its frames, or struct abi_stack_sample before them; @len bytes, the
 *          rest is ignored
 * @frames: frames[ABI_MAX_USER_FRAMES] to decode into, also on failure; ret->frames points there
 * Returns: 0, 1 (with a sample, in *ret_count), 2 (a waker, in *ret_waker), 3 (no stack, but one
 * sample or interval with its time, in *ret_count), -EINVAL (cut off, hash 0, a sample of another
 * stack, a time of 0, or a kind, outcome, state, flag, count or frame that does not exist).
 * Pure; fuzzed.
 */
int smp_record_parse(const void *rec, size_t len, struct ev_frame *frames, struct ev_stack *ret,
                     struct ev_count *ret_count, struct ev_waker *ret_waker);
/**
 * smp_deferred_parse - decode a record of the ring of deferred samples
 * @rec: struct abi_deferred and its bytes; @len bytes, the rest is ignored
 * @ret: ret->bytes points into @rec
 * Its registers past those of this processor are 0.
 * Returns: 0, -EINVAL (cut off, more bytes than ABI_DEFERRED_BYTES, or no image's id). Pure;
 * fuzzed.
 */
int smp_deferred_parse(const void *rec, size_t len, struct ev_deferred *ret);
/**
 * smp_frame_decode - decode a user frame of a record
 * @ret: written also on failure
 * Returns: 0, -EINVAL (a space that does not exist). Pure.
 */
int smp_frame_decode(uint64_t v, struct ev_frame *ret);

/* ---- off-CPU --------------------------------------------------------------------------------- */

/* Off-CPU intervals, as counts with a state. The walker hands on their stacks, names and deferred
 * samples. Threads as above. */
struct smp_offcpu;

struct smp_offcpu_stats {
	uint64_t read_intervals;  /* read from the tables */
	uint64_t open_intervals;  /* still open when the capture ended */
	uint64_t ended_intervals; /* ended without a switch event; the final task scan found them */
	uint64_t blocked;         /* threads that were blocked when the capture began */
	uint64_t blocked_lost;    /* of those, without a stack: no room or no time to read it */
	uint64_t refused;         /* of those, whose memory we may not read */
	uint64_t begin_ns, end_ns; /* CLOCK_MONOTONIC */
	uint64_t read_errors;
};

/**
 * smp_offcpu_open - load the programs; none runs yet
 * @base: must live longer
 * Returns: 0, errors of load_offcpu_open.
 */
int smp_offcpu_open(struct smp_walker *base, const struct load_offcpu_options *o,
                    struct smp_offcpu **ret, struct err *err);
struct smp_offcpu *smp_offcpu_free(struct smp_offcpu *o);
void smp_offcpu_freep(struct smp_offcpu **o);
/**
 * smp_offcpu_start - attach the programs
 * Returns: 0, errors of load_offcpu_attach.
 */
int smp_offcpu_start(struct smp_offcpu *o, struct err *err);
/**
 * smp_offcpu_begin - count intervals from the end of the call on
 * @scan: for threads that are blocked already
 * Returns: 0, errors of that scan.
 */
int smp_offcpu_begin(struct smp_offcpu *o, bool scan);
/**
 * smp_offcpu_blocked - hand on the stacks of threads that were blocked when the capture began
 * @tables: hand them on as deferred samples, for a walk by call-frame information; else walk them
 *          here, by frame pointers
 * @room:   how many deferred samples of SMP_STACK_BYTES the sink has room for
 * To be called after smp_offcpu_begin, again until no thread is left. smp_offcpu_finish hands on
 * the rest without stacks. Thread: drain.
 * Returns: how many threads are left. Cost: some 10 us for each stack.
 */
size_t smp_offcpu_blocked(struct smp_offcpu *o, bool tables, size_t room,
                          const struct smp_sink *sink);
/* Bytes read of a blocked thread's stack, from a little below its stack pointer on: as many steps
 * as the bits of ev_deferred.holes. */
#define SMP_STACK_STEPS 32U
#define SMP_STACK_BYTES (SMP_STACK_STEPS * EV_DEFERRED_STEP)
/**
 * smp_offcpu_reread - read a stack again while the interval of its deferred sample is open
 * @c:   has a placeholder; gets addr, len, holes and bytes of the stack that was read
 * @buf: buf[SMP_STACK_BYTES], where c->bytes are then
 * Returns: true; false, with @c as it was: the interval is closed, the capture ends, or the process
 * cannot be read. Thread: tracker.
 */
bool smp_offcpu_reread(const struct smp_offcpu *o, struct ev_deferred *c, uint8_t *buf);
/**
 * smp_offcpu_drain - as smp_oncpu_drain, of closed intervals
 */
int smp_offcpu_drain(struct smp_offcpu *o, const struct smp_sink *sink);
/**
 * smp_offcpu_drain_all - the same, of all intervals that were closed up to now
 */
int smp_offcpu_drain_all(struct smp_offcpu *o, const struct smp_sink *sink);
/**
 * smp_offcpu_open_intervals - hand on what the threads have that are off their CPU for SMP_OPEN_NS or more:
 * their open interval up to now, and closed ones that are not in the tables yet
 * With load_offcpu_options.max_ns an open interval is handed on from the thread's wake-up on: before, it can
 * still become too long.
 * They are handed on again by the next call, and once they are closed. Thread: drain, before it drains the
 * rings, which have the stacks.
 * Returns: 0, errno of bpf(2). Cost: O(threads with an entry).
 */
#define SMP_OPEN_NS 1000000000ULL
int smp_offcpu_open_intervals(struct smp_offcpu *o, const struct smp_sink *sink);
/**
 * smp_offcpu_end - stop opening and closing intervals
 * Thread: control, before the drain thread finishes.
 */
void smp_offcpu_end(struct smp_offcpu *o);
/**
 * smp_offcpu_finish - end it, then hand on all intervals, open ones too
 * To be called before smp_walker_finish, which hands on the rest of their stacks and names.
 */
int smp_offcpu_finish(struct smp_offcpu *o, const struct smp_sink *sink);
/**
 * smp_offcpu_knows - has a living thread of the process an entry? After smp_offcpu_finish.
 * Cost: O(threads with an entry).
 */
bool smp_offcpu_knows(const struct smp_offcpu *o, uint32_t tgid);
const struct smp_offcpu_stats *smp_offcpu_stats(const struct smp_offcpu *o);
struct load_offcpu *smp_offcpu_loader(struct smp_offcpu *o);

#endif
