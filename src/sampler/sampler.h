/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sampler - the samples of one source: perf events, the BPF program on them, and what comes back,
 * checked. Thread: opened and started by C, then drained and finished by D; counters: any.
 */
#ifndef PA_SAMPLER_H
#define PA_SAMPLER_H

#include "bpf/abi/abi.h"
#include "event/event.h"
#include "loader/loader.h"
#include "perfevent/perfevent.h"

struct smp;

struct smp_options {
	struct abi_config cfg; /* what to sample; sizes are filled in by the loader */
	struct load_sizes sizes;
	struct pev_spec spec;
};

/* Who takes what comes back. Called by D, in smp_drain and smp_finish. */
struct smp_sink {
	void (*stack)(void *arg, const struct ev_stack *s);
	void (*count)(void *arg, const struct ev_count *c);
	void (*thread)(void *arg, const struct ev_thread *t);
	void *arg;
};

/* Figures of the user side. */
struct smp_stats {
	uint64_t taken_samples;  /* read from the tables of counts */
	uint64_t bad_records;    /* ring records that contradict themselves */
	uint64_t read_errors;    /* failed reads of a table */
	uint64_t expected_ticks; /* time or events over the period; 0 where the period is not fixed
	                          */
	uint64_t enabled_ns;     /* summed over the events */
};

/* Loads the program. */
int smp_open(const struct smp_options *o, struct smp **ret, struct err *err);
/* Opens an event on each CPU, attaches and enables. @follow_pid != 0: samples this process and what
 * it forks (TREE). */
int smp_start(struct smp *s, const uint32_t *cpus, uint32_t n_cpus, uint32_t follow_pid,
              struct err *err);
/* Stacks and names that arrived; counts too once their table is half full. 0 or errno (counted,
 * sampling goes on). */
int smp_drain(struct smp *s, const struct smp_sink *sink);
/* Ends sampling, then hands on everything that is left. */
int smp_finish(struct smp *s, const struct smp_sink *sink);
struct smp *smp_free(struct smp *s);
void smp_freep(struct smp **s);

struct load_oncpu *smp_loader(struct smp *s);
int smp_poll_fd(const struct smp *s); /* readable when the ring passed its fill mark */
const struct smp_stats *smp_stats(const struct smp *s);
uint32_t smp_skipped_cpus(const struct smp *s);

/**
 * smp_record_parse - one record of the ring of stacks
 * @frames: frames[ABI_MAX_USER_FRAMES] to decode into; ret->frames points there
 * Returns: 0, -EINVAL. Pure; fuzzed.
 */
int smp_record_parse(const void *rec, size_t len, struct ev_frame *frames, struct ev_stack *ret);

#endif
