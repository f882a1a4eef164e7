/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PA_SESSION_PRIV_H
#define PA_SESSION_PRIV_H

#include "deferred/deferred.h"
#include "jit/jit.h"
#include "profile/profile.h"
#include "result/result.h"
#include "sampler/sampler.h"
#include "session/session.h"
#include "symbolizer/symbolizer.h"
#include "tally/tally.h"
#include "track/track.h"
#include "unwind/unwind.h"

#include <stdatomic.h>

#define SES_B_MAX       4    /* naming threads: more do not pay (design: cores - 1, at most 4) */
#define SES_QUEUE_W     8192 /* process events and frames on their way to W */
#define SES_POOL_JOBS   256  /* tables and turns of the symbolizer that wait */
#define SES_ITEM_FRAMES 20
#define SES_ROUND_ITEMS 1000  /* of W's queue in one round */
#define SES_NAMING_MS   30000 /* all naming after the end of sampling */
#define SES_TAG_BYTES   4096  /* longest tag, and how many there may be */
#define SES_TAGS_MAX    1024

/* ---- what goes through queues ---------------------------------------------------------------- */

/* An address to be named: file offset in an image, or kernel address. */
struct ses_addr {
	uint64_t addr;
	uint32_t image;
};

/* D, B -> W */
struct ses_item {
	enum {
		SES_ITEM_PROC,
		SES_ITEM_FRAMES_,
		SES_ITEM_COPY,    /* a first sample; the item owns it */
		SES_ITEM_JIT,     /* a process was sampled in code that has no file */
		SES_ITEM_WAKER,   /* a process wakes threads of the target */
		SES_ITEM_WAKE,    /* a table came: nothing but the round that follows */
		SES_ITEM_SETTLED, /* all process events up to settled_ns are behind us */
	} type;
	uint32_t n; /* FRAMES: addrs[n]; JIT: jit.addrs[n] */
	union {
		struct {
			struct ev_proc ev;
			char *long_path; /* malloc'ed, owned by the item, when the path does not fit
			                  */
			char path[256];
		} proc;
		struct ses_addr addrs[SES_ITEM_FRAMES];
		struct deferred_sample *copy;
		struct ev_proc_id waker;
		struct {
			struct ev_proc_id proc;
			uint64_t addrs[JIT_ADDRS];
		} jit;
		uint64_t settled_ns; /* CLOCK_MONOTONIC */
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
int ses_command_spawn(const char *const *argv, struct ses_command *ret, struct err *err);
/* Lets it execute: 0, or the errno of exec. */
int ses_command_go(struct ses_command *c, const char *name, struct err *err);
/* Reaps it if it has ended: 1, 0 it runs, -ECHILD ended with a status that nobody can tell, -EINVAL
 * no command. */
int ses_command_poll(struct ses_command *c);
/* Before go: ends and reaps it. After go: closes descriptors only, the program goes on. */
void ses_command_done(struct ses_command *c);

/* ---- processes and filters ------------------------------------------------------------------- */

/* Of PID; made by ses_targets_check. */
struct ses_targets {
	uint32_t *pids; /* pids[n], ascending */
	int *fds;       /* fds[n]: their pidfds; -EBADF: it has ended, or ended_fd has it (n = 1) */
	uint32_t n;
	uint32_t left;  /* that have not ended; n > 1: D's */
	int epoll_fd;   /* n > 1: readable when one of them ends */
	uint32_t *tids; /* tids[n_tids], ascending */
	uint32_t n_tids;
	VEC(int) cgroups; /* folders, until ses_targets_load */
};

/* ses_off.c */
int ses_off_options(const struct ses_options *o, struct err *err); /* 0, -EINVAL */
int ses_off_open(struct ses *s, struct err *err);                  /* behind the sampler */
/* The off-CPU programs' own, and added to those of the others. RUNNING: as counters_now. */
int ses_off_counters_now(const struct ses *s, struct abi_counters *ret, struct abi_counters *all);
void ses_off_figures(struct ses *s);          /* to counters. C, at the end */
uint32_t ses_off_states(const struct ses *s); /* bit 1 << enum ev_off */
void ses_off_kept(struct ses *s);             /* once its model is built */

/* ses_pmu.c */
int ses_pmu_options(const struct ses_options *o, struct err *err); /* 0, -EINVAL */
/* Behind the sampler. After a failure too ses_pmu_free is needed. */
int ses_pmu_open(struct ses *s, struct err *err);
int ses_pmu_start(struct ses *s, struct err *err);
void ses_pmu_fold(struct ses *s, uint64_t now);      /* D */
void ses_pmu_end(struct ses *s);                     /* counts no more */
int ses_pmu_collect(struct ses *s, struct err *err); /* into s->metrics; once D has ended */
uint64_t ses_pmu_locked_bytes(const struct ses *s);
void ses_pmu_free(struct ses *s);

/* ses_labels.c: what enrichers say of processes. C, in ses_stop. */
struct ses_proc_labels {
	struct met_label *v; /* v[n] */
	uint32_t n;          /* at most SES_LABELS_MAX */
};
/* Asks the enrichers where that was not done yet: 0, -ENOMEM. @comm: where track does not know it;
 * may be NULL. @ret: borrowed until ses_labels_free; no enricher: empty. */
int ses_labels_of(struct ses *s, const struct ev_proc_id *proc, bool foreign_ns, const char *comm,
                  struct ses_proc_labels *ret);
int ses_labels_metrics(struct ses *s, struct err *err); /* to the entries of s->metrics */
void ses_labels_free(struct ses *s);

/* ses_targets.c */
size_t ses_numbers_cnt(const int32_t *v); /* of a 0-terminated list; NULL: 0 */
int ses_targets_options(const struct ses_options *o, struct err *err); /* 0, -EINVAL, -ENOMEM */
/* Processes, threads and cgroups exist; opens a pidfd of each process. What is left of the capture
 * before is released. */
int ses_targets_check(struct ses *s, struct err *err);
void ses_targets_done(struct ses *s);
bool ses_targets_have(const struct ses_targets *t, uint32_t pid);
bool ses_targets_have_tid(const struct ses_targets *t, uint32_t tid);
/* Does the kernel side need a table of processes? */
bool ses_targets_tree(const struct ses *s);
void ses_targets_config(const struct ses *s, struct abi_config *cfg, struct load_sizes *sizes);
int ses_targets_load(struct ses *s, struct load_oncpu *l, struct err *err); /* fills the tables */
bool ses_targets_ended(const struct ses *s);                                /* all of them */
/* Of several: makes ended_fd. Before D starts. */
int ses_targets_watch(struct ses *s, struct err *err);
void ses_targets_look(struct ses *s); /* which have ended? D */
/* "pid 12 (nginx)"; "12, 13 and 7 more" */
int ses_targets_text(const struct ses *s, struct sbuf *b);
int ses_numbers_text(const uint32_t *v, uint32_t n, struct sbuf *b);
/* "filter_comm" and a name, and so on: each filter that is asked for, up to the first that fn does
 * not return 0 for. */
int ses_targets_each_filter(const struct ses *s,
                            int (*fn)(void *arg, const char *key, const char *value), void *arg);
bool ses_targets_filtered(const struct ses *s); /* is there one? */

/* ---- the session ----------------------------------------------------------------------------- */

/* One profile of a capture. */
struct ses_product {
	struct enc_output *out; /* NULL: it is written nowhere */
	struct result result;   /* its model NULL: not asked for, or not built */
	VEC(char *) quality;
};

enum ses_state { SES_NEW, SES_RUNNING, SES_STOPPED };

struct ses {
	struct tally tally; /* of the newest capture; kernel and offcpu: final, under stats_lock */
	struct ses_options o; /* pointers are owned: see ses_options_dup */
	enum ses_state state;
	struct {
		ses_enrich_fn fn;
		void *arg;
	} enrichers[SES_ENRICHERS_MAX];
	uint32_t n_enrichers;
	_Atomic bool interrupted; /* by ses_interrupt */

	/* Of one capture; made by ses_start, most of it gone after ses_stop. */
	struct smp *smp;
	struct smp_off *off; /* NULL: not asked for, or not to be had */
	struct ses_pmu *pmu; /* as well */
	struct enc_output *pmu_out;
	uint32_t written;       /* modes whose output was written whole */
	uint32_t without;       /* modes that could not be started beside others */
	struct err without_why; /* of the first */
	struct trk *trk;
	struct pev_sideband *sideband;
	struct prof_agg *agg; /* D until it is joined, then C */
	struct deferred *deferred;
	struct jit *jit;
	struct result_cpu_time *cpu_time; /* NULL: not measured, or not yet */
	uint64_t hash_seed;               /* of stacks */
	struct ses_command cmd;
	int ended_fd; /* pidfd of the target; of several an eventfd */
	struct ses_targets targets;
	int stop_fd; /* eventfd: D must finish */
	char target_comm[64];
	uint32_t target_pid; /* the first that was given */
	uint32_t *cpus, n_cpus;
	struct pev_spec spec;
	bool cycles;

	struct thread d, w;
	struct pool *pool; /* B */
	struct symbolizer *symbolizer;
	struct queue *q_w;
	_Atomic bool events_dropped; /* D -> W: the queue was full, look at all processes again */
	_Atomic uint64_t follow_until_ns; /* W -> D: until then process events are read often */
	uint64_t replaced;                /* W: trk_stats.replaced when that was set last */
	int scan_error;                   /* W: of its first scan */

	/* Figures. */
	/* For ses_stats of any thread: guards state, final, the figures up to kernel_counters and
	 * ses_thread.made where they change; C reads them without. While RUNNING smp stays, so that
	 * holding this is enough to use it. Leaf. */
	pthread_mutex_t stats_lock;
	uint64_t start_ns, end_ns;
	uint64_t idle_start_ns; /* of all our CPUs when sampling began; 0: not known */
	uint64_t idle_ns;       /* of all our CPUs while sampling; final */
	uint64_t start_realtime_ns;
	uint64_t setup_cpu_ns;   /* C's CPU time inside start */
	uint64_t capture_cpu_ns; /* of the threads until sampling ended; from end_ns on */
	uint64_t stop_cpu_ns;    /* C's CPU clock when sampling ended */
	uint64_t before_cpu_ns;  /* of the threads before sampling began: part of the setup */
	uint64_t prepare_ns;     /* that start waited for unwind tables */
	uint64_t locked_bytes;
	struct ses_stats final;

	/* Results, until the next start. */
	struct ses_product product[SES_KIND_CNT];
	struct ses_product *now;   /* the one that is being built; C */
	struct ses_labels *labels; /* NULL: nobody was asked; gone after ses_stop */
	struct met_snapshot *metrics;
};

/* Are stacks walked? Without it there is no tracker, no aggregation, no symbolizer, and nothing
 * that they need: scheduler statistics alone. */
static inline bool ses_walks(const struct ses *s)
{
	return (s->o.modes & (SES_PROFILE | SES_OFFCPU)) != 0;
}

static inline bool ses_has(const struct ses *s, enum ses_kind kind)
{
	return kind == SES_KIND_ONCPU ? (s->o.modes & SES_PROFILE) != 0 : s->off != NULL;
}

/* ses_start.c: everything of ses_start between the states. What a failure leaves is released by the
 * caller. */
int ses_start_capture(struct ses *s, struct err *err);

/* ses_threads.c */
int ses_jit_new(struct ses *s); /* 0, -ENOMEM */
/* @rules, @backing: NULL: frame pointers only. 0, -EINVAL, -ENOMEM. */
int ses_deferred_new(struct ses *s, const struct uw_rules_mem *rules,
                     const struct uw_backing *backing, struct abi_control *control,
                     struct err *err);
/* Deferred samples that W has room for, with half of its queue left for side-band events. D. */
size_t ses_deferred_room(const struct ses *s);
int ses_prepare_check(void *arg); /* 0, -ESRCH: the target ended, -EINTR: interrupted */
int ses_naming_start(struct ses *s, struct err *err);  /* B */
int ses_threads_start(struct ses *s, struct err *err); /* W and D */
void ses_threads_stop(struct ses *s); /* D and W end; B goes on until ses_naming_stop */
/* Ends B; what the symbolizer has not named is left without names. C. */
void ses_naming_stop(struct ses *s);
/* One round of W: a bounded number of items, then what must not wait for the rest of them. -EPIPE
 * when the queue is closed and empty. */
int ses_identify_round(struct ses *s);

/* ses_check.c: what can be known before anything is opened, and what a refusal means. */
int ses_check_target(struct ses *s, struct err *err);
int ses_check_descriptors(const struct ses *s,
                          struct err *err);                 /* -EMFILE: RLIMIT_NOFILE is too low */
void ses_check_privileges(struct ses *s, int kernel_error); /* symbolizer_kernel_error */
/* How many threads of a process sleep, of those that are asked for. */
uint64_t ses_asleep_cnt(const struct ses_targets *t, uint32_t pid);
/* Of a capture of processes that had no waits at all: a note when threads of theirs sleep. C, at
 * the end of sampling. */
void ses_check_waits(struct ses *s);
int ses_explain(int code, struct err *err);

/* ses_result.c: the profiles. C. */
int ses_profile_build(struct ses *s, struct err *err);

/* ses_quality.c */
int ses_quality_add(struct ses *s, enum ses_kind kind, const struct result_quality *q);
uint64_t ses_threads_cpu_ns(struct ses *s); /* of D, W and B so far */
/* Of the capture itself: threads and BPF programs, until sampling ended. */
uint64_t ses_agent_cpu_ns(struct ses *s, const struct abi_counters *c);

#endif
