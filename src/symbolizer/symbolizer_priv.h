/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PA_SYMBOLIZER_PRIV_H
#define PA_SYMBOLIZER_PRIV_H

#include "ksyms/ksyms.h"
#include "symbolizer/symbolizer.h"

/* A batch of addresses of one image on its way to the pool. Whoever holds it owns it. */
struct symbolizer_job {
	uint32_t image;
	uint64_t *addrs; /* addrs[n] ascending, unique; malloc'ed, moved into the result */
	size_t n;
	struct trk_open from; /* files only */
};

/* Results of a batch. */
struct symbolizer_result {
	uint32_t image;
	uint64_t *addrs; /* addrs[batch.n] */
	struct sym_batch batch;
};

/* Addresses of one image that are not sent yet. Thread: tracker, then control. */
struct symbolizer_group {
	VEC(uint64_t) addrs;
	uint64_t due_ns;      /* when the next batch is sent; 0: no address waits */
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
	struct symbolizer_group *groups; /* groups[n_groups] by image; tracker, then control */
	uint32_t n_groups;
	struct intern *requested; /* struct symbolizer_key; the same threads */

	/* Guards the members down to results; a leaf. */
	pthread_mutex_t lock;
	pthread_cond_t changed; /* outstanding fell to 0; CLOCK_MONOTONIC */
	bool has_lock;
	uint32_t kicks;       /* the module's jobs in the pool: at most one a thread */
	uint64_t outstanding; /* batches that were sent and have no result yet */
	VEC(struct symbolizer_result) results;

	/* Control, in symbolizer_collect, and from symbolizer_finish on. */
	size_t collected;    /* of results */
	struct intern *keys; /* struct symbolizer_key -> index of names */
	VEC(struct sym_named) names;
};

/* symbolizer_work.c: the pool's side */
void symbolizer_kick(struct symbolizer *s); /* a job was queued */
/* Moves a result in; one without memory is counted. */
void symbolizer_add_result(struct symbolizer *s, struct symbolizer_result *res);
void symbolizer_job_done(struct symbolizer_job *job);

/* symbolizer_kernel.c: /proc/kallsyms or its cache, read at the first request; records of code that
 * BPF and tracing add and remove meanwhile; and kallsyms again, if both have no name for an address
 * and code was loaded since. */
struct kernel_names;
int kernel_names_new(struct tally *tally, struct kernel_names **ret); /* 0, -ENOMEM */
struct kernel_names *kernel_names_free(struct kernel_names *k);
void kernel_names_record(struct kernel_names *k, const struct ev_proc *ev); /* any thread */
/* As ksyms_resolve. Any thread. */
int kernel_names_resolve(struct kernel_names *k, const uint64_t *addrs, size_t n,
                         struct sym_batch *ret);
/* The same after sampling: looks up once more, in a new reading if that can have more. */
int kernel_names_resolve_again(struct kernel_names *k, const uint64_t *addrs, size_t n,
                               struct sym_batch *ret);
int kernel_names_error(struct kernel_names *k); /* symbolizer_kernel_error */

#endif
