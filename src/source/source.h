/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source - the modes of a capture as values: on-CPU samples, off-CPU intervals, scheduler
 * statistics. A new mode is one file and one row of src_all. The session runs whatever the options
 * select through this table and knows none of them by name.
 *
 * A source is opened before the walker's maps are loaded, so that it can say what it needs of them.
 * Calls in their order, where a NULL is left out:
 *
 *   check          what can be known from the options alone
 *   open           its own state; may look at the machine, loads nothing
 *   config         what it needs of the walker
 *   load           its programs, beside the walker's
 *   start          attach and enable: from here on it may record
 *   begin          all sources have started
 *   backlog drain take reread     D and W, while the capture runs
 *   end            C: nothing is recorded from here on
 *   finish         D: hand on all that was recorded
 *   collect        D and W have ended: counters and notes
 *   product        what it makes without stacks
 *   built          the profile of its samples or intervals was made
 *   statistics coverage   lines that the profile says about itself, before and after those about
 * stacks encode         the bytes of its output free           at any time; NULL is accepted
 *
 * Thread: C where none is named.
 */
#ifndef PA_SOURCE_H
#define PA_SOURCE_H

#include "perfagent/perfagent.h"
#include "profile/profile.h"
#include "result/result.h"
#include "sampler/sampler.h"
#include "tally/tally.h"
#include "target/target.h"

/* What a capture gives each of its sources; lives longer than they do. Written by C. */
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

/* What a source leaves behind. */
struct src_product {
	struct result_kind kind;
	struct result result;         /* model NULL: not asked for, or not built */
	struct result_lines quality;  /* of the profile */
	struct met_snapshot *metrics; /* NULL: it has none */
};

struct source {
	uint32_t mode;        /* PFA_MODE_… */
	const char *title;    /* for messages: "off-CPU profile is left out: …" */
	const char *programs; /* likewise: the "off-CPU" programs */
	bool required;        /* the capture does not start without it; else it is left out */
	/* It records stacks: the capture needs the tracker, unwind tables and the symbolizer. */
	bool walks;
	size_t output; /* offset of its struct pfa_output in struct pfa_options */

	int (*check)(const struct pfa_options *o, struct err *err);
	int (*open)(const struct src_env *env, void **ret, struct err *err);
	void (*config)(const void *src, struct abi_config *cfg, struct load_sizes *sizes);
	int (*load)(void *src, struct err *err);
	int (*start)(void *src, struct err *err);
	void (*begin)(void *src);
	/* Stacks that were to be had before the capture; again while more than 0 are left. @room:
	 * how many deferred samples can be taken; @tables: whether they are walked by tables. D. */
	size_t (*backlog)(void *src, bool tables, size_t room, const struct smp_sink *sink);
	void (*drain)(void *src, const struct smp_sink *sink, uint64_t now); /* D */
	void (*drain_all)(void *src, const struct smp_sink *sink); /* all counts up to now; D */
	/* As smp_offcpu_reread. W. */
	bool (*reread)(const void *src, struct ev_deferred *c, uint8_t *buf);
	void (*end)(void *src);
	void (*finish)(void *src, const struct smp_sink *sink); /* D */
	void (*collect)(void *src);
	int (*product)(void *src, struct src_product *p, struct err *err);
	/* Measured time that scales weights; NULL: they stay as they are. Borrowed until free. */
	const struct result_cpu_time *(*cpu_time)(const void *src);
	void (*kind)(const void *src, struct result_kind *ret); /* of its profile */
	void (*built)(void *src, const struct src_product *p, struct pfa_stats *final);
	int (*statistics)(const void *src, const struct src_product *p,
	                  const struct pfa_stats *final, struct result_lines *to);
	int (*coverage)(const void *src, const struct pfa_stats *final, struct result_lines *to);
	/* Adds its counters to @all and its figures to @ret, while it runs. Any thread, while the
	 * session holds the source. 0, -ENOMEM, errno of reading them. */
	int (*running)(const void *src, struct abi_counters *all, struct pfa_stats *ret);
	uint64_t (*locked_bytes)(const void *src);
	int (*encode)(const struct src_product *p, const struct pfa_options *o, struct sbuf *b);
	void *(*free)(void *src);
};

enum src_id { SRC_ONCPU = 0, SRC_OFFCPU, SRC_SCHED, SRC_CNT };
/* By enum src_id, which is the order in which they are asked. */
extern const struct source *const src_all[SRC_CNT];
extern const struct source src_oncpu, src_offcpu, src_sched;

/**
 * src_output - where the options send its output
 */
static inline const struct pfa_output *src_output(const struct source *s,
                                                  const struct pfa_options *o)
{
	return (const struct pfa_output *)((const char *)o + s->output);
}
/**
 * src_product_done - free what a source left; leaves it zeroed
 */
void src_product_done(struct src_product *p);

#endif
