/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PA_SYMBOLIZER_PRIV_H
#define PA_SYMBOLIZER_PRIV_H

#include "ksyms/ksyms.h"
#include "symbolizer/symbolizer.h"

/* A batch of addresses of one image on its way to the pool, owned by whoever has it. */
struct symbolizer_job {
	uint32_t image;
	uint64_t *addrs; /* addrs[n] ascending, unique; malloc'ed, moves on to the result */
	size_t n;
	struct trk_open from; /* files only */
};

/* Answers to a batch. */
struct symbolizer_result {
	uint32_t image;
	uint64_t *addrs; /* addrs[batch.n] */
	struct sym_batch batch;
};

/* Addresses of one image that were not sent yet. Thread: W, then C. */
struct symbolizer_group {
	VEC(uint64_t) addrs;
	uint64_t due_ns;      /* when the next batch goes; 0: nothing waits */
	uint64_t interval_ns; /* doubles with every batch */
};

/* An address to be named: key of `requested` and `keys`. */
struct symbolizer_key {
	uint64_t addr;
	uint32_t image;
	uint32_t pad; /* 0: keys are compared as bytes */
};

struct symbolizer {
	struct symbolizer_options o;
	struct pool *pool;
	struct sym_files *files;     /* locks inside */
	struct kernel_names *kernel; /* locks inside */
	struct queue *jobs;          /* struct symbolizer_job */
	_Atomic bool late;
	struct symbolizer_group *groups; /* groups[n_groups] by image; W, then C */
	uint32_t n_groups;
	struct intern *requested; /* struct symbolizer_key; as well */

	/* Guards what follows up to results; a leaf. */
	pthread_mutex_t lock;
	pthread_cond_t changed; /* outstanding fell to 0; CLOCK_MONOTONIC */
	bool has_lock;
	uint32_t kicks;       /* jobs of ours in the pool: at most one a thread */
	uint64_t outstanding; /* batches that were sent and have no result yet */
	VEC(struct symbolizer_result) results;

	/* C, in and after symbolizer_finish. */
	struct intern *keys; /* struct symbolizer_key -> index of names */
	VEC(struct sym_named) names;
};

/* symbolizer_work.c: the pool's side */
void symbolizer_kick(struct symbolizer *s); /* a job was queued */
/* Moves a result in; one without memory is counted. */
void symbolizer_add_result(struct symbolizer *s, struct symbolizer_result *res);
void symbolizer_job_done(struct symbolizer_job *job);

/* symbolizer_kernel.c: /proc/kallsyms, or what was kept of it, read once something is asked for;
 * records of what BPF and tracing make and drop meanwhile; and kallsyms again where both have no
 * name for an address and something was loaded since. */
struct kernel_names;
int kernel_names_new(struct tally *tally, struct kernel_names **ret); /* 0, -ENOMEM */
struct kernel_names *kernel_names_free(struct kernel_names *k);
void kernel_names_record(struct kernel_names *k, const struct ev_proc *ev); /* any thread */
/* As ksyms_resolve. Any thread. */
int kernel_names_resolve(struct kernel_names *k, const uint64_t *addrs, size_t n,
                         struct sym_batch *ret);
/* The same once sampling has ended: looks once more, in a new reading where that can tell more. */
int kernel_names_resolve_again(struct kernel_names *k, const uint64_t *addrs, size_t n,
                               struct sym_batch *ret);
int kernel_names_error(struct kernel_names *k); /* symbolizer_kernel_error */

#endif
