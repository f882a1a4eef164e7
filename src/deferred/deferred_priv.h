/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PA_DEFERRED_PRIV_H
#define PA_DEFERRED_PRIV_H

#include "deferred/deferred.h"

#include <stdatomic.h>

/* ---- tables ---------------------------------------------------------------------------------- */

enum deferred_table_state {
	DEFERRED_TABLE_NEW = 0,
	DEFERRED_TABLE_QUEUED, /* the pool has it */
	DEFERRED_TABLE_DONE,   /* built, or known to be impossible */
	DEFERRED_TABLE_LATER,  /* no room; tried again */
};
/* The table of one image. Thread: tracker; state and due_ns: the pool while it is QUEUED. */
struct deferred_table {
	_Atomic enum deferred_table_state state;
	uint32_t seen;   /* abi_image.wanted when it was queued */
	uint32_t asked;  /* by deferred samples since then */
	bool last;       /* queued after the end of sampling */
	uint64_t due_ns; /* not built again before, CLOCK_MONOTONIC */
};

/* An image on its way to the pool, which owns it: item of a job. */
struct deferred_job {
	uint32_t image;
	struct trk_open from;
};

/* ---- samples --------------------------------------------------------------------------------- */

#define DEFERRED_WINDOWS      8
#define DEFERRED_WINDOW_BYTES 4096
/* A piece of an image's file, and 8 bytes of the next one. */
struct deferred_window {
	uint32_t image; /* 0: free */
	uint32_t len;
	uint64_t off; /* a multiple of DEFERRED_WINDOW_BYTES */
	uint8_t bytes[DEFERRED_WINDOW_BYTES + 8];
};

/* A sample whose walk reached the end of its snapshot; count.ustack is the part before. */
struct deferred_cut {
	struct ev_count count;
	uint64_t heuristic;  /* ev_deferred.heuristic */
	bool is_placeholder; /* no sample: count.ustack is a placeholder stack id */
};

struct deferred {
	struct deferred_options o;
	struct pool *pool;
	bool has_tables;
	struct uw_rules *rules; /* tracker, pool: locks inside */
	struct uw_store *store;
	struct abi_image *images; /* images[n_images]; shared with the programs */
	uint32_t n_images;
	_Atomic bool all; /* deferred_options.all, until the budget is full */

	pthread_mutex_t lock;   /* guards outstanding; leaf */
	pthread_cond_t changed; /* a table was built */
	uint32_t outstanding;   /* jobs in the pool */

	/* Control until the tracker is started, then the tracker. */
	struct deferred_table *image; /* image[n_images], by id */
	uint64_t scan_ns, epoch_ns;
	bool hurry;     /* retry samples in this round */
	bool finishing; /* sampling has ended */
	_Atomic bool abandoned;
	_Atomic bool cancel; /* no table is needed any more: the pool stops its jobs */

	/* Samples without their tables: the tracker's. Number and bytes include those in the queue
	 * to it. */
	struct deferred_sample *waiting;
	_Atomic uint32_t pending;
	_Atomic uint64_t pending_bytes;
	struct prof_agg *walked;      /* tracker until it is joined, then control */
	struct stream *stream;        /* the same: of the counts in walked; NULL: none */
	VEC(struct deferred_cut) cut; /* the same */
	struct deferred_window window[DEFERRED_WINDOWS];
	uint32_t next_window;
	uint8_t stack[SMP_STACK_BYTES]; /* tracker: a stack that is read again */
	struct uw_walk walk;
	struct ev_frame frames[ABI_MAX_USER_FRAMES];
};

/* deferred_tables.c */
/* Allocates what tables need. Returns: 0, -EINVAL, -ENOMEM. */
int deferred_tables_new(struct deferred *d);
/* Whether the image's table is neither built nor known to be impossible. */
bool deferred_absent(const struct deferred *d, uint32_t image);
/* A sample needs the image's table. Tracker. */
void deferred_ask(struct deferred *d, uint32_t image);
/* Hands the most wanted tables to the pool, as many as it has room for. Returns: how many are being
 * built, and how many more are wanted. Tracker, and control before it. */
size_t deferred_build_wanted(struct deferred *d, uint64_t now);
/* Waits until a table is built or 50 ms have passed; returns at once while none is being built. */
void deferred_await_table(struct deferred *d);

/* deferred_samples.c */
/* Reads bytes of an image at a file offset. Returns how many; 0: it cannot be read.
 * Tracker, control. */
size_t deferred_image_read(const struct deferred *d, const struct trk_image *img, uint64_t off,
                           void *buf, size_t len);
/* Walks the samples that can be walked now, or (@final) all. Returns how many are left. Tracker. */
size_t deferred_retry(struct deferred *d, uint64_t now, bool final);
void deferred_samples_done(struct deferred *d);

#endif
