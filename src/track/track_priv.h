/* SPDX-License-Identifier: Apache-2.0 */
/*
 * track, private: what its files share.
 *
 *   track.c        life cycle, limits, answers
 *   trk_event.c    side-band events
 *   trk_proc.c     the table of processes and incarnations
 *   trk_scan.c     the task iterator and /proc/PID/maps; putting right what became uncertain
 *   trk_list.c     the mappings of one incarnation, shared by forks until one changes
 *   trk_image.c    files, opened once
 *   trk_publish.c  blocks of the BPF ranges array
 *
 * Thread: tracker while a capture runs, control before and after.
 */
#ifndef PA_TRACK_PRIV_H
#define PA_TRACK_PRIV_H

#include "track/track.h"

#include <sys/types.h>
#include <time.h>

/* An element that could not be added has hh.tbl == NULL. HASH_OAT: the default falls through cases,
 * of which clang 14 warns where the macro is used. */
#define HASH_NONFATAL_OOM 1
#define HASH_FUNCTION     HASH_OAT
#include <uthash.h>
#include <utlist.h>

/* ---- mappings ------------------------------------------------------------------------------- */

/* Replaced mappings kept for each list: a program that loads and unloads plugins for ever. */
#define TRK_HISTORY_MAX 4096
/* How far back an equal entry of the history is looked for before another is added. */
#define TRK_HISTORY_LOOKBACK 64

/* An item of an interval map. */
struct trk_map {
	uint64_t start, end; /* end exclusive */
	uint64_t base;       /* address of file offset 0, modulo 2^64; anonymous: 0 */
	uint32_t image;      /* 0: anonymous */
	uint32_t pad;
};

/* File offset of its start; 0 where it is anonymous. */
static inline uint64_t trk_map_pgoff(const struct trk_map *m)
{
	return m->image ? m->start - m->base : 0;
}

/* A mapping that was replaced, and when: for samples whose time is known. 256: deferred samples
 * wait a second for a table; hardly any program loads a hundred times a second. */
#define TRK_GONE_MAX 256
struct trk_gone {
	struct trk_map m;
	uint64_t until_ns; /* CLOCK_MONOTONIC */
};

/* Mappings that all lists together hold and may hold, past ones included. */
struct trk_quota {
	size_t n, max;
	struct trk_stats *stats; /* counts what finds no room */
};

/* Mappings of one incarnation, or of several after a fork: ref > 1 means read-only. */
struct trk_list {
	uint32_t ref;
	struct trk_quota *quota;
	struct imap maps;          /* struct trk_map: mapped now */
	VEC(struct trk_map) old;   /* replaced, each content once, oldest first */
	VEC(struct trk_gone) gone; /* the last replacements, in order of time */
	uint64_t
	        forgot_ns; /* until_ns of the last one that gone no longer holds; 0: it holds all */
	struct trk_block *block; /* trk_publish.c: the published copy of this content, or NULL */
};

/* Others free a list by trk_pub_list_unref(), which also clears its published copy. A change that
 * finds no memory or no quota is counted and left out. Only a list with ref 1 may be changed. */
struct trk_list *trk_list_new(struct trk_quota *q);
void trk_list_unref(struct trk_list *l);
/* A copy of @l with its histories, ref 1; NULL without memory or over the quota. */
struct trk_list *trk_list_copy(const struct trk_list *l);
/* Mappings that count against the quota. */
size_t trk_list_held(const struct trk_list *l);
/* The mapping that holds @addr now; NULL: none. */
const struct trk_map *trk_list_find(const struct trk_list *l, uint64_t addr);
/* The newest replaced mapping that held @addr. */
const struct trk_map *trk_list_find_old(const struct trk_list *l, uint64_t addr);
/* The replaced mapping that held @addr at @time_ns. NULL: none did, or with *ret_known false: the
 * history does not reach back that far. */
const struct trk_map *trk_list_find_gone(const struct trk_list *l, uint64_t addr, uint64_t time_ns,
                                         bool *ret_known);
/* Does the list already say all that @m says? */
bool trk_list_covers(const struct trk_list *l, const struct trk_map *m);
/* Puts @m in place of what it overlaps, which goes to both histories. @unmap: only removes that. */
void trk_list_put(struct trk_list *l, const struct trk_map *m, bool unmap, uint64_t time_ns);
/* How much quota trk_list_put() may need, at most. */
size_t trk_list_put_needs(const struct trk_list *l, const struct trk_map *m);
/* Adds a mapping that overlaps none. */
void trk_list_add(struct trk_list *l, const struct trk_map *m);
/* Adds to the history old; to the history gone. */
void trk_list_add_old(struct trk_list *l, const struct trk_map *m);
void trk_list_note_gone(struct trk_list *l, const struct trk_map *m, uint64_t until_ns);
/* Do both say the same about an address that both hold? */
bool trk_map_agree(const struct trk_map *a, const struct trk_map *b);

/* ---- images --------------------------------------------------------------------------------- */

/* Most different (offset, length) pairs kept for an image; past it all processes are searched. */
#define TRK_SEGS_MAX 16
/* A file that cannot be opened is tried at once again for this many mappings of it … */
#define TRK_OPEN_TRIES_FREE 8
/* … and then, since a later process may be able to show it, after 100 ms, doubling to 2 s; every
 * 100 ms where the processes had just gone when they were asked. */
#define TRK_OPEN_WAIT_NS     (100 * NSEC_PER_MSEC)
#define TRK_OPEN_WAIT_MAX_NS (2 * NSEC_PER_SEC)
/* An fstat costs 0.2 us: a program that is started as quickly as can be is looked at each time, a
 * scan of all processes looks at each library a few times. */
#define TRK_CHECK_EVERY_NS NSEC_PER_MSEC

/* Different vDSOs of 32-bit processes; a kernel has one. */
#define TRK_NARROW_MAX 16

struct trk_img_key {
	struct ev_file_id file; /* VDSO: all 0, or that of a 32-bit process, by its bytes:
	                         * vdso_key */
	uint64_t size;          /* VDSO: of the mapping */
	uint64_t kind;
};
_Static_assert(sizeof(struct trk_img_key) == 32, "hashed as bytes");

struct trk_img {
	struct trk_image pub;
	void *own_mem;          /* VDSO of a 32-bit process: its bytes */
	struct trk_img_key key; /* FILE, VDSO: key of images; OTHER: path is the key in others */
	bool shut;     /* over the cap of descriptors: opened again by path when asked for */
	bool replaced; /* its content is gone since written_ns (CLOCK_MONOTONIC) */
	uint8_t tries; /* that failed; stays at TRK_OPEN_TRIES_FREE */
	uint64_t next_try_ns, wait_ns; /* 0: at once */
	uint64_t first_ns; /* the first mapping of it that was heard of was made at this time */
	uint64_t written_ns, checked_ns;
	struct timespec mtime, ctime; /* of the file that was open, to know its content again */
	uint64_t size_bytes, st_dev;
	struct trk_map *seg; /* seg[n_seg]: where it was mapped, by (pgoff, length) */
	uint32_t n_seg;
	bool segs_full;
	UT_hash_handle hh;
};

/* Id of the image of @m, which is opened if it is new; 0 over the limit (counted).
 * @mapped_ns: when it was mapped, or seen mapped (CLOCK_MONOTONIC). Not for ANON. */
uint32_t trk_img_get(struct trk *t, uint32_t pid, const struct ev_mapping *m, uint64_t mapped_ns);
void trk_img_note(struct trk *t, const struct trk_map *m);
/* abi_content() of an image's file, as it was when it was looked at last; 0: not known, or stat
 * returns another inode than the one that is mapped. */
uint32_t trk_img_content(const struct trk *t, uint32_t id);
void trk_img_free_all(struct trk *t);

/* ---- processes ------------------------------------------------------------------------------ */

/* Programs that a pid was: one from its fork or from each exec on. */
struct trk_inc {
	struct trk_pid *p;
	struct trk_inc *older;
	struct trk_inc *prev, *next; /* in trk.past */
	struct trk_list *list;       /* NULL: no mappings */
	uint64_t start_ns;           /* CLOCK_BOOTTIME; 0: not known */
	uint64_t born_ns; /* CLOCK_BOOTTIME: it started at this time or earlier; 0: not known */
	/* Between these two the maps were read last (CLOCK_MONOTONIC); 0: all is from events. */
	uint64_t maps_begin_ns, maps_end_ns;
	uint32_t exec_id;
	uint32_t threads;    /* as far as known; it is only used to know the end */
	uint32_t main_image; /* 0: not known */
	bool exec_known;
	bool start_coarse; /* start_ns is rounded down to 10 ms */
	bool by_exec;      /* begun by an exec that was seen: its first file is the program */
	bool leader_gone;
	bool past; /* ended, or another program took its place: may be forgotten for want of room */
	bool kthread;
	bool denied; /* /proc/PID/maps not readable */
	char comm[EV_COMM_LEN];
};

enum trk_queue {
	TRK_Q_NONE = 0,
	TRK_Q_DIRTY,
	TRK_Q_WAIT, /* the ranges array was full */
};

struct trk_pid {
	uint32_t pid;
	enum trk_queue q;
	struct trk_pid *q_prev, *q_next;
	struct trk_inc *newest; /* chain by .older; NULL only while pinned */
	bool pinned;
	/* The entry of this pid in the BPF process map. */
	struct trk_block *block;
	uint64_t published_ns;
	bool counted_full;
	/* Queue of processes to be scanned again. */
	bool unsure;
	uint64_t unsure_until_ns; /* a scan after this time is right */
	struct trk_pid *u_prev, *u_next;
	uint64_t round; /* last resynchronisation that saw it */
	UT_hash_handle hh;
};

/* COMM is recorded a little before the exec is counted, and time stamps may be delayed by
 * pre-emption: 10 ms later the iterator surely sees it. */
#define TRK_EXEC_SETTLE_NS (10 * NSEC_PER_MSEC)
/* Reading all of /proc costs tens of ms, so loss in a row is answered once a second, */
#define TRK_RESYNC_EVERY_NS NSEC_PER_SEC
/* and where it takes long (many processes, a CPU that is shared) no more often than leaves four
 * fifths of the time for events: else they pile up, more are lost, and all is read again. */
#define TRK_RESYNC_SHARE    4
#define TRK_RESYNC_REST_MAX (5 * NSEC_PER_SEC)

/* How long to rest after a reading of everything that took so long. */
static inline uint64_t trk_resync_rest_ns(uint64_t took_ns)
{
	if (took_ns > TRK_RESYNC_REST_MAX / TRK_RESYNC_SHARE)
		return TRK_RESYNC_REST_MAX;
	return MAX_OF(TRK_RESYNC_EVERY_NS, TRK_RESYNC_SHARE * took_ns);
}

/* Index of @pid in the targets; -1: it is none. */
int64_t trk_target(const struct trk *t, uint32_t pid);
struct trk_pid *trk_pid_find(const struct trk *t, uint32_t pid);
/* Newest incarnation of @pid, made if @pid is new; NULL over the limit or without memory (counted).
 */
struct trk_inc *trk_inc_first(struct trk *t, uint32_t pid);
/* A new program on top of the others of @p; the one before becomes past. NULL: counted, and p is
 * freed if it holds nothing any more. */
struct trk_inc *trk_inc_push(struct trk *t, struct trk_pid *p);
/* The next program of the same process: keeps start, threads and name. NULL: counted. */
struct trk_inc *trk_inc_exec(struct trk *t, struct trk_inc *i);
/* The process has ended, or (revive) is alive after all. */
void trk_inc_end(struct trk *t, struct trk_inc *i);
void trk_inc_revive(struct trk *t, struct trk_inc *i);
void trk_set_unsure(struct trk *t, struct trk_pid *p, uint64_t until_ns);
void trk_set_sure(struct trk *t, struct trk_pid *p);
/* Makes i->list exclusive for a change; false without memory (counted). */
bool trk_inc_own(struct trk *t, struct trk_inc *i);
/* Does a process that started at @start_ns fit? 0 no, 1 not known, 2 yes. */
int trk_start_fits(const struct trk_inc *i, uint64_t start_ns);
struct trk_inc *trk_match(const struct trk *t, const struct ev_proc_id *id);
/* Forgets past incarnations until @k more mappings may be held, or none is left. */
void trk_make_room(struct trk *t, size_t k);
void trk_forget_all(struct trk *t);

/* ---- scan ----------------------------------------------------------------------------------- */

/* Reads /proc/PID/maps into i->list; what it no longer shows goes to the history.
 * 0, -ESRCH (no such process), -EACCES (noted in i), errno. */
int trk_maps_read(struct trk *t, struct trk_inc *i);
/* Adds the process of an event. @ev_ns: time of the event. NULL: counted. */
struct trk_inc *trk_adopt(struct trk *t, uint32_t pid, uint64_t ev_ns);
/* Scans uncertain processes, or all, again. */
void trk_rescan(struct trk *t, uint64_t now);

/* ---- publishing ----------------------------------------------------------------------------- */

/* 100 ms: a program that found the old place in the process map has ended by then. */
#define TRK_QUARANTINE_NS (100 * NSEC_PER_MSEC)
/* A list of this many is written anew at most every TRK_QUARANTINE_NS, so that one process that
 * maps without pause cannot fill the array with its old lists. */
#define TRK_BIG_LIST     4096
#define TRK_BLOCK_ROUND  8   /* ranges: fewer different sizes, fewer splinters */
#define TRK_WAIT_RETRIES 256 /* processes without place tried again in one flush */

struct trk_block {
	uint32_t first, cap;   /* ranges[first … first + cap) */
	uint32_t cnt;          /* of these in use */
	uint32_t ref;          /* pids that it is published for */
	struct trk_list *list; /* weak, see trk_list.block */
	uint64_t freed_ns;
	struct trk_block *prev, *next; /* in quarantine */
};

struct trk_extent {
	uint32_t first, cnt;
};

struct trk_ranges {
	struct abi_range *r; /* r[cnt], mapped; NULL: nothing is published */
	uint32_t cnt;
	VEC(struct trk_extent) space; /* ascending, no two touch; room for blocks + 1 */
	size_t blocks;                /* in use or in quarantine */
	struct trk_block *quarantine; /* oldest first */
	struct trk_pid *dirty, *wait;
	bool freed;            /* since the waiting were tried last */
	uint64_t watermark_ns; /* as passed to the kernel side */
};

int trk_pub_init(struct trk *t, struct err *err);
void trk_pub_done(struct trk *t);
void trk_pub_dirty(struct trk *t, struct trk_pid *p);
/* Takes @p out of the BPF map and of the queues. */
void trk_pub_drop(struct trk *t, struct trk_pid *p);
/* For a pid that goes while the BPF map would not let go of it: its place stays taken for good. */
void trk_pub_abandon(struct trk_pid *p);
/* The content of @l changes: its published copy is no longer one. */
void trk_pub_forget_list(struct trk_list *l);
/* As trk_list_unref(); a list that is freed no longer owns its published copy. NULL is accepted. */
void trk_pub_list_unref(struct trk_list *l);
void trk_pub_flush(struct trk *t, uint64_t now);

/* ---- all together --------------------------------------------------------------------------- */

struct trk {
	struct trk_options o; /* target_pids: owned */
	bool *target_seen;    /* target_seen[o.n_target_pids]: by the scan that goes on */
	struct trk_stats stats;
	struct trk_pid *pids; /* uthash by pid */
	struct trk_inc *past; /* in order of their end */
	struct trk_pid *unsure;
	size_t n_incs; /* held now */
	struct trk_quota quota;
	bool resync;
	uint64_t resync_due_ns; /* not before */
	uint64_t watermark_ns;  /* all events up to this time were handled */
	/* Events were lost between these two times: when those changes happened is not known. */
	uint64_t blur_begin_ns, blur_end_ns;
	uint64_t round;
	struct trk_ranges ranges;

	struct trk_img *images, *others; /* uthash by key, by path */
	VEC(struct trk_img *) img;       /* by id - 1 */
	size_t fds_open, fds_max;
	uint32_t n_narrow; /* vDSOs of 32-bit processes that are held */
	void *vdso;        /* our own, copied */
	size_t vdso_len;

	VEC(struct trk_map) tmp; /* maps of the process being read */
};

#endif
