/* SPDX-License-Identifier: Apache-2.0 */
/*
 * track - which process maps which image; keeps images open and publishes mappings to the kernel
 * side.
 *
 * Thread: the tracker owns it while a capture runs, control before and after. It reads /proc and
 * gets side-band events in order of time. It publishes the executable mappings of each process to
 * the BPF process map. It keeps every mapping that a process ever had, so that addresses of ended
 * processes can be resolved.
 */
#ifndef PA_TRACK_H
#define PA_TRACK_H

#include "event/event.h"
#include "image/image.h"
#include "loader/loader.h"
#include "perfevent/perfevent.h"
#include "proc/proc.h"

struct trk;

/* A file that some process mapped executable; id 1 … in order of discovery. One that could not be
 * opened (reason NO_FILE, FILE_REPLACED, NOT_PERMITTED, NO_MEMORY) is tried again when another
 * process maps it. One that is written anew in its place ends as FILE_REPLACED, and what is mapped
 * then is an image of its own with the same file. So fd, reason and build-id change, on the tracker
 * thread only; other threads get copies from it. */
struct trk_image {
	uint32_t id;
	struct ev_file_id file;
	uint8_t kind;     /* enum ev_map_kind: FILE, VDSO, OTHER */
	uint32_t pid;     /* the last process that was seen to map it; it may have ended */
	const char *path; /* as first seen, " (deleted)" stripped */
	int fd; /* kept open for reading; -EBADF when it could not be opened, is no ELF file, or
	         * there are too many open: trk_image_fd() */
	enum ev_reason reason; /* NAMED when it can be read, else why not */
	uint8_t build_id[EV_BUILD_ID_MAX];
	uint8_t build_id_len; /* 0: none */
	const void *mem;      /* VDSO: its bytes */
	size_t mem_len;
};

/* An address of a process, resolved to its mapping. */
struct trk_location {
	const struct trk_image *image; /* NULL: anonymous or none */
	uint64_t off;                  /* file offset (image) or the address */
	bool anon;
	uint64_t map_start, map_end, map_pgoff; /* the mapping, when there is one */
};

struct trk_options {
	struct load_oncpu *loader; /* may be NULL (tests): nothing is published */
	/* target_pids[n_target_pids], ascending: processes other than these are ignored; none: all
	 * are known. Copied. */
	const uint32_t *target_pids;
	uint32_t n_target_pids;
	bool follow_children; /* with target_pids: nor are those ignored that they fork, and so on
	                       */
	uint32_t max_procs, max_images, max_mappings; /* 0: 65,536 · 65,536 · 4 M */
};

struct trk_stats {
	uint64_t procs, images, mappings; /* known, ever */
	uint64_t images_shut;   /* descriptors given back: more images than half of RLIMIT_NOFILE */
	uint64_t images_failed; /* could not be opened when first seen */
	uint64_t images_denied; /* of these now: those that may not be opened */
	uint64_t procs_denied;  /* /proc/PID/maps not readable for lack of CAP_SYS_PTRACE */
	uint64_t bad_map_lines, damaged_notes;
	uint64_t dropped_procs, dropped_images, dropped_mappings; /* over a limit */
	uint64_t ranges_full; /* processes not in the BPF process map: it was full */
	uint64_t resyncs;     /* times that all was read again after losses */
	uint64_t replaced;    /* pieces of mappings in whose place another content was mapped */
	int tasks_errno; /* the task iterator failed like this: exec ids are unknown, nothing is
	                    published */
};

/**
 * trk_new - track nothing yet
 * @o: copied; the loader is the caller's
 * Returns: 0, -ENOMEM, -EINVAL (the loader has no ranges), errno of getrlimit.
 */
int trk_new(const struct trk_options *o, struct trk **ret, struct err *err);
/**
 * trk_free, trk_freep - close all images; the loader may be gone already, nothing is withdrawn
 * NULL is accepted; free returns NULL.
 */
struct trk *trk_free(struct trk *t);
void trk_freep(struct trk **t);

/**
 * trk_scan - learn every process (or the targets) from the task iterator and /proc/PID/maps
 * Side-band rings must already be open. Flushes. An iterator that fails is no error (tasks_errno),
 * nor are maps that may not be read (procs_denied).
 * Returns: 0, -ESRCH (none of the targets exists), errno of reading /proc.
 */
int trk_scan(struct trk *t, struct err *err);
/**
 * trk_learn - track a process that is no target
 * @id: as the kernel side reports it; it has a pid in our namespace
 * Its children are tracked if those of targets are. Does nothing for a process that is known or has
 * ended. The next trk_flush scans it again.
 * Cost: reads its /proc/PID/maps, and opens what it maps.
 */
void trk_learn(struct trk *t, const struct ev_proc_id *id);
/**
 * trk_event - one side-band event
 * @ev: its pointers are borrowed
 * Cost: O(log mappings), and may open one file, or for a process not heard of before read its
 * /proc/PID/maps and open what it maps.
 */
void trk_event(struct trk *t, const struct ev_proc *ev);
/**
 * trk_flush - after each batch of events, and at least every 100 ms while there are none
 * Publishes what changed, once for each process; reads again what became uncertain (an exec that
 * crossed with a reading of /proc) and, at most once a second, everything after a LOST event.
 */
void trk_flush(struct trk *t);

/**
 * trk_set_watermark - all events up to this time were passed to trk_event
 * @until_ns: CLOCK_MONOTONIC. Ignored between a loss of events and the scan that makes up for it.
 * The next trk_flush passes it to the kernel side.
 */
void trk_set_watermark(struct trk *t, uint64_t until_ns);
/**
 * trk_watermark_ns - time up to which all mappings are known; 0: not yet
 */
uint64_t trk_watermark_ns(const struct trk *t);

/*
 * Which program an ev_proc_id means:
 * 1. The start must be equal, or not known on one side (0 in the id; here, a process known by its
 *    fork alone). Else it is another process.
 * 2. The exec_id must be equal, or not known on one side (0 in the id; here, a process that the
 *    iterator has not shown).
 * 3. Of several: an equal start before an equal exec_id before neither; then the newest, but of
 *    processes known by their forks alone the one forked first after id->start_ns.
 * 4. If none is left: the only program that this pid ever was, if 1 holds for it.
 */

/**
 * trk_resolve - resolve an address of a process to its mapping
 * @ret: filled always; without a mapping off is @addr and the rest is zero
 * Uses the current mapping, else the last one that was there.
 * Returns: 0, -ENOENT (unknown process, or nothing was mapped there).
 */
int trk_resolve(const struct trk *t, const struct ev_proc_id *id, uint64_t addr,
                struct trk_location *ret);
/**
 * trk_resolve_at - resolve an address as of a time
 * @time_ns: CLOCK_MONOTONIC
 * As trk_resolve_any if the mappings of that time are not known: events up to it are not in yet,
 * some were lost, or too much was replaced since. Returns: 0, -ENOENT, -ENOTUNIQ.
 */
int trk_resolve_at(const struct trk *t, const struct ev_proc_id *id, uint64_t addr,
                   uint64_t time_ns, struct trk_location *ret);
/**
 * trk_resolve_any - resolve an address as of an unknown time
 * Returns: 0, -ENOENT (unknown process, or nothing was mapped there), -ENOTUNIQ (more than one
 * content was). Cost: O(replaced mappings of the process).
 */
int trk_resolve_any(const struct trk *t, const struct ev_proc_id *id, uint64_t addr,
                    struct trk_location *ret);
/**
 * trk_resolve_image - the mapping of an image that holds a file offset, for the profile's addresses
 * @off: bytes; TRK_OFF_ANY: the first of its mappings
 * @ret: filled always; without a mapping image (NULL if there is none) and off
 * In this process, else in any.
 * Returns: 0, -ENOENT.
 */
#define TRK_OFF_ANY UINT64_MAX
int trk_resolve_image(const struct trk *t, const struct ev_proc_id *id, uint32_t image,
                      uint64_t off, struct trk_location *ret);
/**
 * trk_image_cnt, trk_image - number of images; one of them
 * @id: 1 … trk_image_cnt, else NULL is returned
 * Borrowed until trk_free.
 */
size_t trk_image_cnt(const struct trk *t);
const struct trk_image *trk_image(const struct trk *t, uint32_t id);
/**
 * trk_image_fd - descriptor to read an image from
 * Returns: trk_image's own (*ret_close false), or one opened now that the
 * caller closes (*ret_close true; only where more images are in use than half of RLIMIT_NOFILE).
 * -ENOENT (never could be opened), -ESTALE (replaced or written anew on disk
 * meanwhile), -EINVAL (no such image),
 * errno of open. */
int trk_image_fd(const struct trk *t, uint32_t id, bool *ret_close);
/* How an image can be read by a thread that does not own @t. */
struct trk_open {
	int fd; /* track's own, or with close_fd the caller's; -EBADF: none, or there is mem */
	bool close_fd;
	bool no_file;     /* nor could there be one: [vsyscall], [uprobes] */
	int root_fd;      /* root folder of a process that maps it; -EBADF: ours is the same */
	const char *path; /* in the file system of root_fd; "": unknown image. Borrowed until
	                     trk_free */
	const void *mem;  /* mem[mem_len]: bytes of the vDSO; NULL: none */
	size_t mem_len;
	enum ev_reason reason; /* NAMED: it can be read; else why not */
};
/**
 * trk_image_open, trk_open_done - get what is needed to read an image; close what is the caller's
 * @with_root: fill in root_fd too
 * trk_open_done may run in another thread.
 */
void trk_image_open(const struct trk *t, uint32_t id, bool with_root, struct trk_open *ret);
void trk_open_done(struct trk_open *o);
/**
 * trk_main_image - id of the image of a process's main executable, 0 if unknown
 * @id: with an exec_id of 0 the newest program of this pid
 */
uint32_t trk_main_image(const struct trk *t, const struct ev_proc_id *id);
/**
 * trk_proc_reason - was the process's memory map readable?
 * Returns: NAMED, NOT_PERMITTED, NO_MAPPING (process unknown).
 */
enum ev_reason trk_proc_reason(const struct trk *t, const struct ev_proc_id *id);
/**
 * trk_comm - name of a process as last heard, "" if unknown; borrowed until the next change of @t
 */
const char *trk_comm(const struct trk *t, const struct ev_proc_id *id);
/**
 * trk_stats - statistics up to now; borrowed until trk_free
 */
const struct trk_stats *trk_stats(const struct trk *t);

#endif
