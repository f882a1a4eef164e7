/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PA_SESSION_PRIV_H
#define PA_SESSION_PRIV_H

#include "profile/profile.h"
#include "sampler/sampler.h"
#include "session/session.h"
#include "symbolize/symbolize.h"
#include "track/track.h"
#include "unwind/unwind.h"

#include <stdatomic.h>

#define SES_B_MAX        4 /* naming threads: more do not pay (design: cores - 1, at most 4) */
#define SES_KERNEL_IMAGE 0 /* group of kernel addresses; images count from 1 */
#define SES_NOTES_MAX    64
#define SES_QUEUE_W      8192 /* process events and frames on their way to W */
#define SES_QUEUE_JOBS   4096
#define SES_ITEM_FRAMES  20
#define SES_ROUND_ITEMS  1000 /* of W's queue in one round */
#define SES_TAG_BYTES    4096 /* longest tag, and how many there may be */
#define SES_TAGS_MAX     1024

enum ses_counter_id {
#define X(id, name, unit, kind, help) SES_CNT_##id,
#include "session/counters.def"
#undef X
	SES_CNT_MAX
};

/* ---- what goes through queues ---------------------------------------------------------------- */

/* An address to be named: file offset in an image, or kernel address. */
struct ses_addr {
	uint64_t addr;
	uint32_t image;
	uint32_t pad; /* 0: keys are compared as bytes */
};

struct ses_copy;

/* D, B -> W */
struct ses_item {
	enum {
		SES_ITEM_PROC,
		SES_ITEM_FRAMES_,
		SES_ITEM_COPY, /* a first sample; the item owns it */
		SES_ITEM_WAKE, /* a table came: nothing but the round that follows */
	} type;
	uint32_t n; /* FRAMES: addrs[n] */
	union {
		struct {
			struct ev_proc ev;
			char *long_path; /* malloc'ed, owned by the item, when the path does not fit
			                  */
			char path[256];
		} proc;
		struct ses_addr addrs[SES_ITEM_FRAMES];
		struct ses_copy *copy;
	};
};

/* W, C -> B: owned by B; the addresses then by the result. */
struct ses_job {
	enum { SES_JOB_NAMES = 0, SES_JOB_TABLE } type;
	uint32_t image;
	uint64_t *addrs; /* addrs[n] ascending, unique; malloc'ed */
	size_t n;
	int fd; /* kept open by track, or the job's own */
	bool close_fd;
	const void *mem; /* or bytes */
	size_t mem_len;
	enum ev_reason reason; /* != NAMED: the image cannot be read */
	bool no_file;          /* nor is there anything to read: [vsyscall], [uprobes] */
};

/* B -> C, by the list of results */
struct ses_result {
	uint32_t image;
	uint64_t *addrs;
	struct sym_batch batch;
};

/* Addresses of one image that wait to be named. Thread: W, then C. */
struct ses_group {
	VEC(uint64_t) addrs;
	uint64_t due_ns;      /* when the next batch goes; 0: nothing waits */
	uint64_t interval_ns; /* doubles with every batch: a symbol table is read a few times, not
	                         once a second */
};

/* ---- names ----------------------------------------------------------------------------------- */

/* Which name belongs to which address, once all batches are in. Thread: C. */
struct ses_names {
	struct intern *keys;        /* struct ses_addr -> index */
	VEC(struct sym_name) names; /* strings: borrowed from ses.results */
};

void ses_names_done(struct ses_names *n);
/* From the results that B left: 0, -ENOMEM, -E2BIG. B must have ended. */
int ses_names_collect(struct ses *s, struct ses_names *n);
struct sym_name ses_name_find(const struct ses_names *n, uint32_t image, uint64_t addr);

/* Raw frames of processes at their places. Thread: C. */
struct ses_places {
	struct intern *keys; /* process and frame -> index; NULL without memory */
	VEC(struct ev_frame) frames;
};
void ses_places_init(struct ses_places *p); /* @p is all zero */
void ses_places_done(struct ses_places *p);
/* A raw frame at its place in this process; RAW as it was, if it is no code there. Looked up once:
 * threads and samples share addresses. */
void ses_place_raw(struct ses *s, struct ses_places *p, const struct ev_proc_id *proc,
                   const struct ev_frame *f, struct ev_frame *ret);
/* Asks for what the raw frames turn out to be, and for frames that the queue to W had no place for.
 */
void ses_request_rest(struct ses *s, struct ses_places *p);

/* ---- unwind tables and first samples --------------------------------------------------------- */

enum ses_table_state {
	SES_TABLE_NEW = 0,
	SES_TABLE_QUEUED, /* B has it */
	SES_TABLE_DONE,   /* B has said what there is: a table, or that there is none */
	SES_TABLE_LATER,  /* there was no room for it; tried again */
};
/* Of one image. W's, but for state and due_ns: B's from the time it is QUEUED until it is not. */
struct ses_table {
	_Atomic enum ses_table_state state;
	uint32_t seen;   /* abi_image.wanted when it was queued */
	uint32_t asked;  /* by first samples since then */
	bool last;       /* queued after the end of sampling */
	uint64_t due_ns; /* not built again before, CLOCK_MONOTONIC */
};

#define SES_WINDOWS      8
#define SES_WINDOW_BYTES 4096
/* A piece of an image's file, and 8 bytes of the next one. */
struct ses_window {
	uint32_t image; /* 0: free */
	uint32_t len;
	uint64_t off; /* a multiple of SES_WINDOW_BYTES */
	uint8_t bytes[SES_WINDOW_BYTES + 8];
};

/* A first sample whose walk came to the end of its copy; count.ustack is what was found. */
struct ses_cut {
	struct ev_count count;
	uint64_t guess; /* ev_copy.guess */
};

/* Of one capture; there is none with frame pointers only. */
struct ses_tables {
	struct uw_rules *rules; /* W, B: locks inside */
	struct uw_store *store;
	struct abi_image *images; /* images[n_images]; shared with the programs */
	uint32_t n_images;
	struct abi_control *control;
	_Atomic bool
	        all; /* every image that is mapped is wanted: DWARF, until the budget is full */

	pthread_mutex_t lock;   /* guards outstanding; leaf */
	pthread_cond_t changed; /* a table came */
	uint32_t outstanding;   /* jobs that B has not done yet */

	/* C until W is started, then W. */
	struct ses_table *image; /* image[n_images], by id */
	uint64_t scan_ns, epoch_ns;
	bool hurry;     /* look at first samples in this round */
	bool finishing; /* sampling has ended */
	_Atomic bool abandoned;
	_Atomic bool cancel; /* nobody needs a table any more: B drops what it is at */

	/* First samples that wait: of W; their number and bytes with those still in the queue. */
	struct ses_copy *copies;
	_Atomic uint32_t pending;
	_Atomic uint64_t pending_bytes;
	struct prof_agg *walked; /* W until it is joined, then C */
	VEC(struct ses_cut) cut; /* as well */
	struct ses_window window[SES_WINDOWS];
	uint32_t next_window;
	struct uw_walk walk;
	struct ev_frame frames[ABI_MAX_USER_FRAMES];
};

/* ses_tables.c */
/* Rules, store and what belongs to them: 0, -EINVAL, -ENOMEM. After a failure too ses_tables_free
 * is needed. */
int ses_tables_new(struct ses *s, const struct uw_rules_mem *rules,
                   const struct uw_backing *backing, struct abi_control *control, struct err *err);
void ses_tables_free(struct ses *s);
/* UNWIND_DWARF: builds the tables of all images that are known now, and waits for them, at most a
 * minute. 0, -ESRCH (the target ended), -EINTR (ses_interrupt). C, before W and after B are
 * started. */
int ses_tables_prepare(struct ses *s);
/* Asks B for what is wanted; walks first samples whose tables came. W. */
void ses_tables_round(struct ses *s, uint64_t now);
/* Waits for the tables that first samples still need, then walks all that are left. W, at its end.
 */
void ses_tables_finish(struct ses *s);
void ses_table_job(struct ses *s, struct ses_job *job); /* B; takes what @job owns */
/* No program and no walk knows yet whether there is a table. */
bool ses_table_absent(const struct ses_tables *t, uint32_t image);
void ses_table_ask(struct ses_tables *t, uint32_t image); /* for a first sample. W */
void ses_tables_figures(struct ses *s);                   /* to counters. C, at the end */

/* ses_copies.c */
/* Bytes of an image at a file offset: how many there are, 0 where it cannot be read. W, C. */
size_t ses_image_read(const struct ses *s, const struct trk_image *img, uint64_t off, void *buf,
                      size_t len);
void ses_copy_take(struct ses *s, const struct ev_copy *c); /* D */
void ses_copy_handle(struct ses *s, struct ses_copy *k);    /* W; takes it */
void ses_copy_free(struct ses_copy *k);                     /* one that is still in the queue */
/* Walks those that can be walked now, @final: all. Returns: how many are left. W. */
size_t ses_copies_retry(struct ses *s, uint64_t now, bool final);
void ses_copies_free(struct ses_tables *t);
void ses_copies_merge(struct ses *s); /* into s->agg. C, after D and W */

/* ---- guesses --------------------------------------------------------------------------------- */

/* Where a caller was guessed. */
struct ses_gap {
	uint32_t image; /* 0: no mapping was known there */
	bool bare;      /* it has no table now: none to be had, given up for others, or not built */
};
struct ses_gaps {
	VEC(struct ses_gap) v;
};

/* ses_gaps.c */
/* Was the caller of frame @i of a guessed stack found by a guess, as far as the tables of now tell?
 * Then its file is appended to @to, unless it stands there from index @first on. @placed: the frame
 * where it lies. 0, -ENOMEM, -E2BIG. C. */
int ses_gap_add(const struct ses *s, const struct ev_stack *st, uint32_t i,
                const struct ev_frame *placed, struct ses_gaps *to, size_t first);

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

/* ---- the session ----------------------------------------------------------------------------- */

enum ses_state { SES_NEW, SES_RUNNING, SES_STOPPED };

struct ses_thread {
	struct ses *s;
	uint32_t slot; /* of abi_control.agent_tids */
	pthread_t id;
	bool made;               /* and not yet joined; changes under stats_lock */
	_Atomic uint64_t cpu_ns; /* set when it ends */
};

struct ses {
	struct ses_options o; /* pointers are owned: see ses_options_dup */
	enum ses_state state;
	_Atomic bool interrupted; /* by ses_interrupt */

	/* Of one capture; made by ses_start, most of it gone after ses_stop. */
	struct enc_output *out;
	struct smp *smp;
	struct trk *trk;
	struct pev_sideband *sideband;
	struct prof_agg *agg;      /* D until it is joined, then C */
	struct ses_tables *tables; /* NULL: frame pointers only */
	uint64_t hash_seed;        /* of stacks */
	struct ses_command cmd;
	int ended_fd; /* pidfd of the target */
	int stop_fd;  /* eventfd: D must finish */
	char target_comm[64];
	uint32_t target_pid;
	uint32_t *cpus, n_cpus;
	struct pev_spec spec;
	bool cycles;

	struct ses_thread d, w, b[SES_B_MAX];
	uint32_t n_b;
	struct queue *q_w, *q_jobs;
	/* What B found. No queue: there is as much of it as distinct addresses were asked for, and
	 * all is kept to the end. Guarded by results_lock, a leaf, while B runs; then C's. */
	pthread_mutex_t results_lock;
	VEC(struct ses_result) results;
	_Atomic bool events_dropped; /* D -> W: the queue was full, look at all processes again */
	int scan_error;              /* W: of its first scan */

	struct ses_group *groups; /* by image id; W, then C */
	uint32_t n_groups;
	struct intern
	        *requested; /* struct ses_addr that went to B or waits in a group; W, then C */

	pthread_mutex_t kernel_lock; /* guards kernel, kernel_error: loaded once by whichever B
	                                comes first; leaf */
	struct sym_kernel *kernel;
	int kernel_error;
	bool kernel_tried;

	/* Figures. */
	/* For ses_stats of any thread: guards state, final, the figures up to kernel_counters and
	 * ses_thread.made where they change; C reads them without. While RUNNING smp stays, so that
	 * holding this is enough to use it. Leaf. */
	pthread_mutex_t stats_lock;
	uint64_t start_ns, end_ns;
	uint64_t idle_start_ns; /* of all our CPUs when sampling began; 0: not known */
	uint64_t start_realtime_ns;
	uint64_t setup_cpu_ns;   /* C's CPU time inside start */
	uint64_t capture_cpu_ns; /* of the threads until sampling ended; from end_ns on */
	uint64_t stop_cpu_ns;    /* C's CPU clock when sampling ended */
	uint64_t before_cpu_ns;  /* of the threads before sampling began: part of the setup */
	uint64_t prepare_ns;     /* that start waited for unwind tables */
	struct abi_counters kernel_counters; /* final */
	_Atomic uint64_t counters[SES_CNT_MAX];
	uint64_t locked_bytes;
	struct ses_stats final;

	/* Results, until the next start. */
	struct prof_model *model;
	char *notes[SES_NOTES_MAX];
	size_t n_notes;
	VEC(char *) quality;
};

void ses_note_add(struct ses *s, const char *fmt, ...) PRINTF_FMT(2, 3);
static inline void ses_count(struct ses *s, enum ses_counter_id id, uint64_t n)
{
	atomic_fetch_add_explicit(&s->counters[id], n, memory_order_relaxed);
}

/* ses_start.c: everything of ses_start between the states. What a failure leaves is released by the
 * caller. */
int ses_start_capture(struct ses *s, struct err *err);

/* ses_threads.c */
int ses_naming_start(struct ses *s, struct err *err);  /* queues and B */
int ses_threads_start(struct ses *s, struct err *err); /* W and D */
/* How an image can be read: fills in the rest of a job. W, C. */
void ses_job_open(struct ses *s, struct ses_job *job);
void ses_threads_stop(struct ses *s); /* D and W end; B goes on until its queue is closed */
void ses_naming_stop(struct ses *s);  /* closes the queue of jobs, waits for B */
uint64_t ses_thread_cpu_ns(void);     /* of the calling thread */
/* Adds an address to its group unless it was asked for before. W, then C. */
void ses_request(struct ses *s, uint32_t image, uint64_t addr);
void ses_job_done(struct ses_job *job,
                  bool addrs); /* closes its descriptor; @addrs: frees them too */
/* Sends groups that are due (@all: everything) to B. False: the queue is full, to be tried again.
 * W, then C. */
bool ses_send_groups(struct ses *s, uint64_t now, bool all);
/* One round of W: a bounded number of items, then what must not wait for the rest of them. -EPIPE
 * when the queue is closed and empty. */
int ses_identify_round(struct ses *s);
/* Keeps what B found; takes @res over. B. */
void ses_result_add(struct ses *s, struct ses_result *res);

/* ses_check.c: what can be known before anything is opened, and what a refusal means. */
int ses_check_target(struct ses *s, struct err *err);
int ses_check_descriptors(const struct ses *s,
                          struct err *err); /* -EMFILE: RLIMIT_NOFILE is too low */
void ses_check_privileges(struct ses *s);
int ses_explain(struct ses *s, int code, struct err *err);

/* ses_profile.c: from aggregation, track and names to the model. C. */
int ses_profile_build(struct ses *s, struct err *err);

/* ses_quality.c */
const char *ses_base_name(const char *path); /* borrowed from @path */
struct ses_quality_sums {
	uint64_t weight;
	/* Of samples that have a user stack: kernel threads have none, and tasks that end no more.
	 */
	uint64_t user_weight;
	uint64_t walk[EV_WALK_CNT]; /* weight by outcome of the user walk */
	uint64_t kernel_cut, stack_lost;
	/* Frames times weight, which may pass 64 bits; and those of them with a name. */
	double user_frames, user_named, kernel_frames, kernel_named;
	uint64_t reason_frames[EV_REASON_CNT]; /* distinct frames by reason */
	uint64_t guessed, jit;                 /* weight of user stacks with such a frame */
	/* Weight of user walks that did not reach their root, by the image of their last frame:
	 * incomplete[n_incomplete], by id; [0] JIT code. Borrowed; NULL: none. */
	const uint64_t *incomplete;
	uint32_t n_incomplete;
	uint64_t incomplete_unknown; /* in no known mapping, or without a frame */
	/* Weight of guessed stacks by the image of a frame without a rule: guessed_in[2 *
	 * n_incomplete], two for each image: it has a table, and it has none; [0]: no known
	 * mapping. A stack counts for each of its images. Borrowed; NULL: none. */
	const uint64_t *guessed_in;
	uint64_t guessed_early; /* all of whose frames have a rule by now */
};
int ses_quality_add(struct ses *s, const struct ses_quality_sums *q);
/* Kernel threads have no user stack, and tasks that gave back their memory have none any more. */
static inline bool ses_has_user_stack(enum ev_walk walk)
{
	return walk != EV_WALK_NONE && walk != EV_WALK_LEFT;
}
uint64_t ses_sum_drops(const struct ses *s, const struct abi_counters *c); /* of both tables */
uint64_t ses_threads_cpu_ns(const struct ses *s); /* of D, W and B so far */
/* Of the capture itself: threads and BPF programs, until sampling ended. */
uint64_t ses_agent_cpu_ns(const struct ses *s, const struct abi_counters *c);

#endif
