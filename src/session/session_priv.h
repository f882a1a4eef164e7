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
#include "stream/stream.h"
#include "symbolizer/symbolizer.h"
#include "tally/tally.h"
#include "target/target.h"
#include "track/track.h"

#include <stdatomic.h>

#define SES_QUEUE_ITEMS 8192 /* process events and frames for the tracker */
#define SES_ITEM_FRAMES 20
#define SES_ROUND_ITEMS 1000 /* items that the tracker handles in one round */

/* ---- items of the tracker's queue ------------------------------------------------------------ */

/* An address to be symbolized: file offset in an image, or kernel address. */
struct ses_addr {
	uint64_t addr;
	uint32_t image;
};

struct ses_item {
	enum {
		SES_ITEM_PROC,
		SES_ITEM_FRAMES_,
		SES_ITEM_DEFERRED, /* a deferred sample; the item owns it */
		SES_ITEM_JIT,      /* a process was sampled in JIT code */
		SES_ITEM_WAKER,    /* the process of a waker */
		SES_ITEM_WAKE, /* a table was built: wakes the tracker, whose round does the rest */
		SES_ITEM_WATERMARK, /* all process events up to watermark_ns were handed on */
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
	bool lost; /* another waiter reaped it: its status is unknown */
};
void ses_command_init(struct ses_command *c);
int ses_command_spawn(const char *const *argv, struct ses_command *ret, struct err *err);
/* Lets it execute. Returns 0, or the errno of exec. */
int ses_command_go(struct ses_command *c, const char *name, struct err *err);
/* Reaps it if it has ended. Returns 1 (ended), 0 (runs), -ECHILD (ended, status unknown), -EINVAL
 * (no command). */
int ses_command_poll(struct ses_command *c);
/* Before go: kills and reaps it. After go: closes descriptors only, the program keeps running. */
void ses_command_done(struct ses_command *c);

/* ---- the session ----------------------------------------------------------------------------- */

enum ses_state { SES_NEW, SES_RUNNING, SES_STOPPED };

/* The parts for sources that walk stacks; all zero without one. */
struct ses_walk {
	struct trk *trk; /* the tracker thread's while it runs */
	struct pev_sideband *sideband;
	struct prof_agg *agg; /* the drain thread's until it is joined, then the control thread's */
	struct stream *stream; /* as agg; NULL: no output needs the time of each sample */
	struct deferred *deferred;
	struct jit *jit;
	struct pool *pool; /* symbolizer threads */
	struct symbolizer *symbolizer;
	struct queue *queue; /* of struct ses_item; drain and symbolizer threads -> tracker */
	_Atomic bool events_dropped; /* drain -> tracker: the queue was full, rescan /proc */
	_Atomic uint64_t
	        follow_until_ns; /* tracker -> drain: read process events often until then */
	uint64_t replaced;       /* tracker: trk_stats.replaced when that was set last */
	int scan_error;          /* tracker: of its first scan */
	uint64_t hash_seed;      /* of stacks */
	uint64_t prepare_ns;     /* time that start waited for unwind tables */
};

/* Hands state of the drain thread and of the tracker to the control thread, for snapshots. */
struct ses_handover {
	pthread_mutex_t lock; /* guards the members below; a leaf */
	pthread_cond_t changed;
	bool wanted, given; /* control waits for the tracker's turn; it has it */
	bool asked;         /* control waits for the drain thread's copy */
};

/* Copies of a capture's counts, for snapshots. Thread: control; the drain thread while it answers.
 */
struct ses_copy {
	struct prof_agg *all;                  /* what was copied so far */
	struct prof_agg *since[2];             /* by enum pfa_kind; NULL: none was asked for */
	struct prof_seen seen;                 /* of the drain thread's aggregation */
	struct deferred_seen walked;           /* of the tracker's */
	struct result_cpu_reading now, before; /* before: of the last profile since the last */
	bool is_before;                        /* now becomes before with the next copy */
	uint64_t moment_ns;                    /* CLOCK_MONOTONIC; of the copy */
	uint64_t since_ns[2], dropped[2], dropped_before[2];
	/* Intervals that had not ended; before: those of the last profile since the last one, which are
	 * subtracted from the next; left: what that one lacks of them, which is subtracted later. */
	VEC(struct ev_count) open, open_before, open_left;
	bool with_open;   /* for the drain thread: read them */
	size_t requested; /* stacks of `all` whose frames were requested */
	bool same;        /* for the drain thread: copy nothing */
	int error;        /* of the drain thread's part */
};

/* The cost of the library itself: CPU time in ns, memory. */
struct ses_cost {
	uint64_t setup_ns;   /* of the control thread in start, and of the threads up to then */
	uint64_t before_ns;  /* of the threads before sampling began: part of the setup */
	uint64_t capture_ns; /* of the threads until sampling ended; from end_ns on */
	uint64_t stop_ns;    /* CPU clock of the control thread when sampling ended */
	uint64_t locked_bytes;
};

struct ses {
	struct tally tally; /* of the newest capture; kernel and offcpu: final, under stats_lock */
	struct pfa_options o; /* pointers are owned */
	struct ses_hooks hooks;
	enum ses_state state;
	struct labels *labels;
	_Atomic bool interrupted; /* by ses_interrupt */

	/* State of one capture; made by ses_start, most of it released by ses_stop. */
	struct src_env env;
	struct target target;
	struct ses_command cmd;
	uint32_t *cpus; /* cpus[env.n_cpus] */
	struct smp_walker *walker;
	void *src[SRC_CNT];  /* by index of src_all; NULL: not selected, or left out */
	struct err left_out; /* error of the first mode that was left out */
	struct ses_walk walk;
	struct thread drain, tracker;
	int stop_fd; /* eventfd: makes the drain thread finish, or copy for a snapshot */
	struct ses_handover handover;
	struct ses_copy *copy;   /* NULL: no snapshot yet */
	_Atomic bool keep_epoch; /* control -> drain: a snapshot is built, end no JIT epoch */

	/* For ses_stats of any thread: guards changes of state, final, tally's counters of the
	 * kernel side, env.start_ns and end_ns, cost and the threads. The control thread reads
	 * them without it. While RUNNING walker and src stay: a holder may use them. Leaf. */
	pthread_mutex_t stats_lock;
	struct ses_cost cost;
	struct pfa_stats final; /* without its size */

	struct result_lines added; /* by ses_add_statistic */

	/* Results, until the next start. By index of src_all. */
	struct src_product product[SRC_CNT];
	struct enc_output *out[SRC_CNT]; /* NULL: written nowhere; freed by ses_stop */
	uint32_t written;                /* modes whose output was written completely */
	struct enc_output *extra[PFA_EXTRA_OUTPUTS_MAX]; /* by index of o.extra_outputs; as out */
	uint32_t extra_written;                          /* bits: as pfa_extra_outputs_written */
};

/* The sources of a capture with index and state. */
#define ses_each_source(s, i, p)                                                                   \
	for (size_t i = 0; i < SRC_CNT; i++)                                                       \
		for (void *p = (s)->src[i]; p; p = NULL)

/* ses_options.c */
int ses_options_check(const struct pfa_options *o, struct err *err);       /* 0, -EINVAL, -ENOMEM */
int ses_options_dup(const struct pfa_options *o, struct pfa_options *ret); /* 0, -ENOMEM */
void ses_options_done(struct pfa_options *o);

/* ses_extra.c: outputs of profiles besides pprof. */
/* Appends the bytes of a profile. @format: enum pfa_profile_format. 0, -EINVAL, -ENOMEM, -E2BIG. */
int ses_encode(uint32_t format, uint32_t root, const struct enc_flame_profile *profiles, size_t n,
               bool offcpu, struct sbuf *b);
int ses_extra_check(const struct pfa_options *o, struct err *err); /* 0, -EINVAL, -E2BIG */
/* 0, -ENOMEM; done frees what it made in either case. */
int ses_extra_dup(const struct pfa_options *o, struct pfa_options *ret);
void ses_extra_done(struct pfa_options *o);
int ses_extra_open(struct ses *s, struct err *err);  /* what enc_output_open gives */
int ses_extra_write(struct ses *s, struct err *err); /* all; the first failure */
void ses_extra_close(struct ses *s);

/* ses_start.c: starts a capture; the caller changes the state, and releases everything after a
 * failure. */
int ses_start_capture(struct ses *s, struct err *err);

/* ses_sizes.c: returns the sizes of the walker's maps; deferred samples of a process. */
void ses_sizes(const struct ses *s, bool walks, struct load_sizes *z);
uint32_t ses_deferred_quota(const struct ses *s);

/* ses_stream.c: samples one by one. */
/* Whether an output needs the time of each sample. */
bool ses_streams(const struct ses *s);
/* Makes the events of a time line, of the profile of a source. @ret: the caller's to free. Returns
 * 0, -ENOMEM. */
int ses_stream_times(const struct ses *s, size_t source, struct enc_time_sample **ret,
                     size_t *ret_n);
/* Returns how many samples and intervals of the profiles the stream lacks; after its end. */
uint64_t ses_stream_lost(const struct ses *s);
/* Orders the stream, scales its weights to those of the profiles, counts what it lacks. After all threads have ended. Returns 0, -ENOMEM. */
int ses_stream_finish(struct ses *s);

/* ses_perf_data.c: writes the samples of @modes as perf.data, and commits the output.
 * @compress: level of zstd, 0: none. Returns 0,
 * -ENOMEM, -E2BIG, errors of enc_output_append and enc_output_commit. */
int ses_perf_data_write(struct ses *s, uint32_t modes, uint32_t compress, struct enc_output *to,
                        struct err *err);

/* ses_walk.c: the parts for stacks: aggregation, tracker, tables, JIT code, symbolizer. */
int ses_walk_open(struct ses *s, struct err *err);
/* Makes the parts that the drain thread adds to. Returns 0, -ENOMEM. */
int ses_walk_new(struct ses *s);
/* Makes s->walk.deferred. @rules, @backing: NULL: frame pointers only. Returns 0,
 * -EINVAL, -ENOMEM. */
int ses_deferred_new(struct ses *s, const struct uw_rules_mem *rules,
                     const struct uw_backing *backing, struct abi_control *control,
                     struct err *err);
/* Ends the symbolizer threads; addresses without an answer stay without names. */
void ses_walk_stop(struct ses *s);
void ses_walk_free(struct ses *s);  /* frees all of it; threads have ended */
void ses_walk_count(struct ses *s); /* adds its counters to the tally; threads have ended */
/* Has the kernel side count samples of the calling thread as the agent's. */
void ses_agent_thread(const struct ses *s, uint32_t slot);

/* ses_threads.c */
int ses_threads_start(struct ses *s, struct err *err); /* drain and tracker threads */
void ses_threads_stop(struct ses *s); /* both end; symbolizer threads run until ses_walk_stop */
/* One round of the tracker: handles a bounded number of items, then publishes what the programs
 * need. Returns -EPIPE when the queue is closed and empty. */
int ses_tracker_round(struct ses *s);
/* Returns how many deferred samples the tracker has room for, with half of its queue left for
 * side-band events. Thread: drain. */
size_t ses_deferred_room(const struct ses *s);

/* ses_check.c: checks before anything is opened, and the causes of refusals. */
int ses_check_proc(struct err *err); /* /proc is of our pid namespace */
int ses_check_descriptors(const struct ses *s,
                          struct err *err);                 /* -EMFILE: RLIMIT_NOFILE is too low */
void ses_check_privileges(struct ses *s, int kernel_error); /* symbolizer_kernel_error */
/* Adds the reason to a refusal of the kernel whose cause is not known. Returns @code. */
int ses_explain(int code, struct err *err);

/* ses_live.c: state of the other threads, while they run. */
int ses_live_init(struct ses_handover *h); /* 0, errno of pthread_cond_init */
void ses_live_done(struct ses_handover *h);
/* Tracker: gives its state away while the control thread wants it. */
void ses_live_offer(struct ses_handover *h);
/* Control: owns the tracker's state from take to give. */
void ses_live_take(struct ses *s);
void ses_live_give(struct ses *s);
/* Control: has the drain thread copy what it has, and waits. @same: it copies nothing, but has ended
 * what it was doing before. Returns 0, -ENOMEM. */
int ses_live_copy(struct ses *s, bool same);
/* Drain: whether a copy was asked for; makes it, of all that was sampled up to now. */
bool ses_live_asked(struct ses *s);
void ses_live_answer(struct ses *s, const struct smp_sink *sink);
struct ses_copy *ses_copy_free(struct ses_copy *c); /* NULL is accepted and returned */

/* ses_result.c: the profiles. */
/* The meaning of addresses, for one build. */
struct ses_meaning {
	struct ses *s;
	bool live;           /* of a running capture: the tracker has its turn now and then */
	uint64_t held_ns;    /* live: since when the control thread has the tracker's state */
	uint64_t unnamed;    /* live: addresses whose names have not arrived */
	struct intern *keys; /* struct raw_key -> index of frames; NULL without memory */
	VEC(struct ev_frame) frames; /* raw frames, resolved to their mappings */
};
void ses_meaning_init(struct ses *s, bool live, struct ses_meaning *ret);
void ses_meaning_done(struct ses_meaning *k);
/* Requests names: of raw frames of all counts; of the other frames of stacks from number @first on. */
void ses_meaning_request(struct ses_meaning *k, const struct prof_agg *counts,
                         const struct prof_agg *stacks, size_t first);
struct result_source ses_meaning_source(struct ses_meaning *k);
int ses_profile_build(struct ses *s, struct err *err);
void ses_kind(struct ses *s, size_t i); /* sets the kind of the profile of source @i */
int ses_write_outputs(struct ses *s, struct err *err); /* all of them, also after a failure */

/* ses_quality.c: adds the quality lines of the profile of source @i. */
int ses_quality_add(struct ses *s, size_t i);
/* The same as text for a shell: args[len] as /proc/PID/cmdline has it, and a NUL after them. Control
 * bytes become '?'. Whole arguments up to 4 KiB, then "...". Returns: 0, -ENOMEM, -E2BIG. */
int ses_quote_command(const char *args, size_t len, struct sbuf *to);

/* ses_cost.c */
/* Returns the CPU time of drain, tracker and symbolizer threads so far. */
uint64_t ses_threads_cpu_ns(struct ses *s);
/* Returns the CPU time of the capture itself: threads and BPF programs, until sampling ended. */
uint64_t ses_agent_cpu_ns(struct ses *s, const struct abi_counters *c);
uint64_t ses_locked_bytes(const struct ses *s);

static inline int ses_first(int before, int r)
{
	return before < 0 ? before : r;
}

#endif
