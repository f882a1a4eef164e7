/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source - the modes of a capture as values: on-CPU samples, off-CPU intervals, scheduler
 * statistics. Inside the library a new mode is one file, one row of src_all and its number in
 * enum src_id. The session runs the sources that the options select through this table. What users
 * see of a mode is in the public header (its bit, output and kind) and in the command line.
 *
 * A source is opened before the walker's maps are loaded, so that it can ask for their sizes.
 * Calls in their order; a NULL is left out:
 *
 *   check          refuses options
 *   open           makes its state; may read facts of the machine, loads nothing
 *   config         sets what it needs of the walker
 *   load           loads its programs, over the walker's maps
 *   start          attaches and enables: from here on it may record
 *   begin          all sources have started
 *   backlog, drain, drain_all, reread
 *                  drain and tracker threads, while the capture runs
 *   end            control thread: stops recording
 *   finish         drain thread: hands on all that was recorded
 *   collect        drain and tracker threads have ended: adds its counters and notes
 *   product        makes the results that need no stacks
 *   built          the profile of its samples or intervals was made
 *   statistics, coverage
 *                  add its quality lines, before and after those about stacks
 *   encode         makes the bytes of its output
 *   free           at any time; NULL is accepted
 *
 * Thread: control where none is named.
 */
#ifndef PA_SOURCE_H
#define PA_SOURCE_H

#include "perfagent/perfagent.h"
#include "profile/profile.h"
#include "result/result.h"
#include "sampler/sampler.h"
#include "tally/tally.h"
#include "target/target.h"

/* The parts of a capture that all its sources share; lives longer than they do. The control thread
 * writes it. */
struct src_env {
	const struct pfa_options *o;
	struct target *target;
	struct tally *tally;
	struct smp_walker *walker; /* from load on */
	struct prof_agg *agg;      /* from start on; NULL: no source walks stacks */
	const uint32_t *cpus;      /* cpus[n_cpus]: online when the capture began, ascending */
	uint32_t n_cpus;
	uint32_t left_out;         /* modes that could not be started alongside others */
	uint64_t start_ns, end_ns; /* CLOCK_MONOTONIC; from start and from end on */
	uint64_t start_realtime_ns;
};

/* The results of a source. */
struct src_product {
	struct result_kind kind;
	struct result result;         /* model NULL: not asked for, or not built */
	struct result_lines quality;  /* lines about the profile */
	struct met_snapshot *metrics; /* NULL: it has none */
};

struct source {
	uint32_t mode;        /* PFA_MODE_… */
	const char *title;    /* for messages: "off-CPU profile is left out: …" */
	const char *programs; /* likewise: the "off-CPU" programs */
	bool required;        /* the capture does not start without it; else it is left out */
	/* It records stacks: the capture needs the tracker, unwind tables and the symbolizer. */
	bool walks;
	uint32_t profile_kind; /* enum pfa_kind, of sources that make a profile (with .kind) */
	size_t output;         /* offset of its struct pfa_output in struct pfa_options */

	int (*check)(const struct pfa_options *o, struct err *err);
	int (*open)(const struct src_env *env, void **ret, struct err *err);
	void (*config)(const void *src, struct abi_config *cfg, struct load_sizes *sizes);
	int (*load)(void *src, struct err *err);
	int (*start)(void *src, struct err *err);
	void (*begin)(void *src);
	/* Hands on stacks that existed before the capture, again while more than 0 are left.
	 * @room: how many deferred samples the sink has room for; @tables: walk them by tables.
	 * Thread: drain. */
	size_t (*backlog)(void *src, bool tables, size_t room, const struct smp_sink *sink);
	void (*drain)(void *src, const struct smp_sink *sink, uint64_t now); /* thread: drain */
	/* Hands on all counts up to now: for a snapshot, and adds the measured time to @ret; or
	 * (@ret NULL) those to which the end of a JIT epoch matters. @open: gets off-CPU intervals
	 * that have not ended; NULL: they are not read. Thread: drain. */
	void (*drain_all)(void *src, const struct smp_sink *sink, const struct smp_sink *open,
	                  struct result_cpu_reading *ret);
	/* As smp_offcpu_reread. Thread: tracker. */
	bool (*reread)(const void *src, struct ev_deferred *c, uint8_t *buf);
	void (*end)(void *src);
	void (*finish)(void *src, const struct smp_sink *sink); /* thread: drain */
	void (*collect)(void *src);
	int (*product)(void *src, struct src_product *p, struct err *err);
	/* Returns the measured time that scales weights; NULL: they stay. Borrowed until free. */
	const struct result_cpu_time *(*cpu_time)(const void *src);
	void (*kind)(const void *src, struct result_kind *ret); /* of its profile */
	void (*built)(void *src, const struct src_product *p, struct pfa_stats *final);
	int (*statistics)(const void *src, const struct src_product *p,
	                  const struct pfa_stats *final, struct result_lines *to);
	int (*coverage)(const void *src, const struct pfa_stats *final, struct result_lines *to);
	/* Adds its counters to @all and its statistics to @ret, while it runs. Any thread, while
	 * the session holds the source. Returns 0, -ENOMEM, errno of reading them. */
	int (*running)(const void *src, struct abi_counters *all, struct pfa_stats *ret);
	uint64_t (*locked_bytes)(const void *src);
	int (*encode)(const struct src_product *p, const struct pfa_options *o, struct sbuf *b);
	void *(*free)(void *src);
};

enum src_id { SRC_ONCPU = 0, SRC_SCHED, SRC_OFFCPU, SRC_CNT };
/* By enum src_id, the order in which they are called. */
extern const struct source *const src_all[SRC_CNT];
extern const struct source src_oncpu, src_offcpu, src_sched;

/**
 * src_output - returns the output of the options that is its own
 */
static inline const struct pfa_output *src_output(const struct source *s,
                                                  const struct pfa_options *o)
{
	return (const struct pfa_output *)((const char *)o + s->output);
}
/**
 * src_product_done - free the results of a source; leaves them zeroed
 */
void src_product_done(struct src_product *p);

#endif
