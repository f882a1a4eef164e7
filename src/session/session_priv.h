/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PA_SESSION_PRIV_H
#define PA_SESSION_PRIV_H

#include "deferred/deferred.h"
#include "encode/encode.h"
#include "jit/jit.h"
#include "label/label.h"
#include "profile/profile.h"
#include "sampler/sampler.h"
#include "session/session.h"
#include "source/source.h"
#include "symbolizer/symbolizer.h"
#include "tally/tally.h"
#include "target/target.h"
#include "track/track.h"

#include <stdatomic.h>

#define SES_QUEUE_ITEMS 8192 /* process events and frames on their way to W */
#define SES_ITEM_FRAMES 20
#define SES_ROUND_ITEMS 1000 /* of W's queue in one round */

/* ---- what goes through the queue to W -------------------------------------------------------- */

/* An address to be symbolized: file offset in an image, or kernel address. */
struct ses_addr {
	uint64_t addr;
	uint32_t image;
};

struct ses_item {
	enum {
		SES_ITEM_PROC,
		SES_ITEM_FRAMES_,
		SES_ITEM_DEFERRED,  /* a deferred sample; the item owns it */
		SES_ITEM_JIT,       /* a process was sampled in code that has no file */
		SES_ITEM_WAKER,     /* a process wakes threads of the target */
		SES_ITEM_WAKE,      /* a table was built: nothing but the round that follows */
		SES_ITEM_WATERMARK, /* all process events up to settled_ns were handed on */
	} type;
	uint32_t n; /* FRAMES: addrs[n]; JIT: jit.addrs[n] */
	union {
		struct {
			struct ev_proc ev;
			char *long_path; /* malloc'ed, the item's; NULL: the path fits */
			char path[256];
		} proc;
		struct ses_addr addrs[SES_ITEM_FRAMES];
		struct deferred_sample *deferred;
		struct ev_proc_id waker;
		struct {
			struct ev_proc_id proc;
			uint64_t addrs[JIT_ADDRS];
		} jit;
		uint64_t watermark_ns; /* CLOCK_MONOTONIC */
	};
};

/* ---- the command ----------------------------------------------------------------------------- */

struct ses_command {
	pid_t pid;    /* 0: none */
	int go_fd;    /* writing lets it execute */
	int error_fd; /* errno of a failed exec */
	int status;
	bool ended;
	bool lost; /* somebody else reaped it: its status is unknown */
};
void ses_command_init(struct ses_command *c);
int ses_command_spawn(const char *const *argv, struct ses_command *ret, struct err *err);
/* Lets it execute: 0, or the errno of exec. */
int ses_command_go(struct ses_command *c, const char *name, struct err *err);
/* Reaps it if it has ended: 1, 0 it runs, -ECHILD ended and its status is unknown, -EINVAL no
 * command. */
int ses_command_poll(struct ses_command *c);
/* Before go: ends and reaps it. After go: closes descriptors only, the program goes on. */
void ses_command_done(struct ses_command *c);

/* ---- the session ----------------------------------------------------------------------------- */

enum ses_state { SES_NEW, SES_RUNNING, SES_STOPPED };

/* What sources that walk stacks need; all zero without one. */
struct ses_walk {
	struct trk *trk; /* W's while it runs */
	struct pev_sideband *sideband;
	struct prof_agg *agg; /* D's until it is joined, then C's */
	struct deferred *deferred;
	struct jit *jit;
	struct pool *pool; /* B */
	struct symbolizer *symbolizer;
	struct queue *queue;              /* of struct ses_item, D and B -> W */
	_Atomic bool events_dropped;      /* D -> W: the queue was full, read all processes again */
	_Atomic uint64_t follow_until_ns; /* W -> D: until then process events are read often */
	uint64_t replaced;                /* W: trk_stats.replaced when that was set last */
	int scan_error;                   /* W: of its first scan */
	uint64_t hash_seed;               /* of stacks */
	uint64_t prepare_ns;              /* that start waited for unwind tables */
};

/* What the library itself costs. CPU time, ns. */
struct ses_cost {
	uint64_t setup_ns;   /* of C inside start, and of the threads up to then */
	uint64_t before_ns;  /* of the threads before sampling began: part of the setup */
	uint64_t capture_ns; /* of the threads until sampling ended; from end_ns on */
	uint64_t stop_ns;    /* C's CPU clock when sampling ended */
	uint64_t locked_bytes;
};

struct ses {
	struct tally tally; /* of the newest capture; kernel and offcpu: final, under stats_lock */
	struct pfa_options o; /* pointers are owned */
	struct ses_hooks hooks;
	enum ses_state state;
	struct labels *labels;
	_Atomic bool interrupted; /* by ses_interrupt */

	/* Of one capture; made by ses_start, most of it released by ses_stop. */
	struct src_env env;
	struct target target;
	struct ses_command cmd;
	uint32_t *cpus; /* cpus[env.n_cpus] */
	struct smp_walker *walker;
	void *src[SRC_CNT];  /* by index of src_all; NULL: not asked for, or left out */
	struct err left_out; /* why the first was left out */
	struct ses_walk walk;
	struct thread drain, tracker;
	int stop_fd; /* eventfd: D must finish */

	/* For ses_stats of any thread: guards state, final, tally's counters of the kernel side,
	 * env.start_ns and end_ns, cost and the threads where they change; C reads them without.
	 * While RUNNING walker and src stay, so that holding this is enough to use them. Leaf. */
	pthread_mutex_t stats_lock;
	struct ses_cost cost;
	struct pfa_stats final; /* without its size */

	/* Results, until the next start. By index of src_all. */
	struct src_product product[SRC_CNT];
	struct enc_output *out[SRC_CNT]; /* NULL: written nowhere; gone after ses_stop */
	uint32_t written;                /* modes whose output was written whole */
};

/* The sources of a capture with index and state. */
#define ses_each_source(s, i, p)                                                                   \
	for (size_t i = 0; i < SRC_CNT; i++)                                                       \
		for (void *p = (s)->src[i]; p; p = NULL)

/* ses_options.c */
int ses_options_check(const struct pfa_options *o, struct err *err);       /* 0, -EINVAL, -ENOMEM */
int ses_options_dup(const struct pfa_options *o, struct pfa_options *ret); /* 0, -ENOMEM */
void ses_options_done(struct pfa_options *o);

/* ses_start.c: everything of ses_start between the states. What a failure leaves is released by the
 * caller. */
int ses_start_capture(struct ses *s, struct err *err);

/* ses_sizes.c: entries of the walker's maps, deferred samples of a process. */
void ses_sizes(const struct ses *s, bool walks, struct load_sizes *z);
uint32_t ses_deferred_quota(const struct ses *s);

/* ses_walk.c: what stacks need: the aggregation, the tracker, tables, the symbolizer. */
int ses_walk_open(struct ses *s, struct err *err);
int ses_walk_new(struct ses *s); /* of it, what D adds to: 0, -ENOMEM */
/* @rules, @backing: NULL: frame pointers only. 0, -EINVAL, -ENOMEM. */
int ses_deferred_new(struct ses *s, const struct uw_rules_mem *rules,
                     const struct uw_backing *backing, struct abi_control *control,
                     struct err *err);
/* Ends B; what the symbolizer has not answered is left without names. C. */
void ses_walk_stop(struct ses *s);
void ses_walk_free(struct ses *s);  /* all of it; threads have ended */
void ses_walk_count(struct ses *s); /* to the tally; D and W have ended */
/* Tells the kernel side that samples of the calling thread are the agent's. */
void ses_agent_thread(const struct ses *s, uint32_t slot);

/* ses_threads.c */
int ses_threads_start(struct ses *s, struct err *err); /* W and D */
void ses_threads_stop(struct ses *s); /* D and W end; B goes on until ses_walk_stop */
/* One round of W: a bounded number of items, then what must not wait for the rest of them. -EPIPE
 * when the queue is closed and empty. */
int ses_tracker_round(struct ses *s);
/* Deferred samples that W has room for, with half of its queue left for side-band events. D. */
size_t ses_deferred_room(const struct ses *s);

/* ses_check.c: what can be known before anything is opened, and what a refusal means. */
int ses_check_start(const struct ses *s, struct err *err);
int ses_check_descriptors(const struct ses *s,
                          struct err *err);                 /* -EMFILE: RLIMIT_NOFILE is too low */
void ses_check_privileges(struct ses *s, int kernel_error); /* symbolizer_kernel_error */
/* Adds the reason to a refusal of the kernel whose cause is not known. Returns @code. */
int ses_explain(int code, struct err *err);

/* ses_result.c: the profiles. C. */
int ses_profile_build(struct ses *s, struct err *err);
void ses_kind(struct ses *s, size_t i); /* of the profile of source @i, as far as it is known */
int ses_write_outputs(struct ses *s, struct err *err); /* all, whatever becomes of one */

/* ses_quality.c: the lines that the profile of source @i says of itself. */
int ses_quality_add(struct ses *s, size_t i);

/* ses_cost.c */
uint64_t ses_threads_cpu_ns(struct ses *s); /* of D, W and B so far */
/* Of the capture itself: threads and BPF programs, until sampling ended. */
uint64_t ses_agent_cpu_ns(struct ses *s, const struct abi_counters *c);
uint64_t ses_locked_bytes(const struct ses *s);

static inline int ses_first(int before, int r)
{
	return before < 0 ? before : r;
}

#endif
