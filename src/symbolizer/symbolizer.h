/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symbolizer - the service that names the addresses of a capture: collects them by image while the
 * capture runs, has batches of them decoded by a pool of threads and the symbolizer process, and
 * answers for each address at the end.
 *
 * Thread: whoever owns the tracker requests and sends (W, then C); C finishes and asks; kernel
 * records come from D; everything in the pool is the module's own.
 */
#ifndef PA_SYMBOLIZER_H
#define PA_SYMBOLIZER_H

#include "symbolize/symbolize.h"
#include "tally/tally.h"
#include "track/track.h"

#define SYMBOLIZER_KERNEL   0    /* image of kernel addresses; files count from 1 */
#define SYMBOLIZER_JOBS_MAX 4096 /* batches that wait at a time */

struct symbolizer;

struct symbolizer_options {
	struct tally *tally; /* counters, and notes by symbolizer_finish */
	/* How an image can be read. Called by symbolizer_send and symbolizer_finish. */
	void (*open)(void *arg, uint32_t image, struct trk_open *ret);
	/* The symbolizer process is another one now; 0: there is none. Thread: the pool's, and the
	 * caller of symbolizer_new. May be NULL. */
	void (*child)(void *arg, uint32_t pid);
	void *arg;
	size_t max_jobs; /* batches that wait; 0: SYMBOLIZER_JOBS_MAX */
	/* Of symbolize: see struct sym_files_options. dirs is NULL-terminated, or NULL. */
	const char *const *debug_dirs;
	size_t budget_bytes;
	bool no_lines, in_process;
};

/**
 * symbolizer_new - the service, and its process: it is forked here, so before there are threads
 * Returns: 0, -ENOMEM, -ENOTDIR or errno of stat (a debug directory), errno of getrlimit.
 */
int symbolizer_new(const struct symbolizer_options *o, struct symbolizer **ret, struct err *err);
/**
 * symbolizer_use - the pool that runs the batches; before the first symbolizer_send
 * It ends before symbolizer_free.
 */
void symbolizer_use(struct symbolizer *s, struct pool *pool);
/**
 * symbolizer_free - release all names; the pool has ended. NULL is accepted. Returns: NULL.
 */
struct symbolizer *symbolizer_free(struct symbolizer *s);

/**
 * symbolizer_request - ask for the name of an address, unless it was asked for before
 * @addr: file offset in the image, or kernel address; a look-up address
 * What is over a limit is counted and stays without a name.
 */
void symbolizer_request(struct symbolizer *s, uint32_t image, uint64_t addr);
/**
 * symbolizer_send - hand batches that are due to the pool
 * @now: CLOCK_MONOTONIC; the batches of an image double in time, so that its symbol table is read
 *       a few times a capture
 * @all: every address that was asked for
 * Returns: false where the queue had no room for all; try again.
 */
bool symbolizer_send(struct symbolizer *s, uint64_t now, bool all);
/**
 * symbolizer_requested - distinct addresses that were asked for
 */
size_t symbolizer_requested(const struct symbolizer *s);
/**
 * symbolizer_kernel_record - kernel code that was made or dropped. Thread: D.
 */
void symbolizer_kernel_record(struct symbolizer *s, const struct ev_proc *ev);
/**
 * symbolizer_late - sampling has ended: batches from now on are counted as late ones
 */
void symbolizer_late(struct symbolizer *s);
/**
 * symbolizer_finish - name all that was asked for, then count and note how it went
 * @until_ns: CLOCK_MONOTONIC; addresses not decoded by then have the reason LATE
 * @limit_ms: what that was chosen from, for the note
 * Returns: 0, -ENOMEM, -E2BIG: some names are missing. Thread: C.
 */
int symbolizer_finish(struct symbolizer *s, uint64_t until_ns, uint64_t limit_ms);
/**
 * symbolizer_cancel - decode nothing from now on; the pool gets through what waits without delay
 * Thread: any.
 */
void symbolizer_cancel(struct symbolizer *s);
/**
 * symbolizer_find - what an address is called, once symbolizer_finish has returned
 * Returns: reason NO_MEMORY where it was not asked for or got lost. Borrowed until symbolizer_free.
 */
struct sym_named symbolizer_find(const struct symbolizer *s, uint32_t image, uint64_t addr);
/**
 * symbolizer_kernel_error - how reading kernel symbols failed: 0 (it did not, or nobody asked),
 * -EPERM (they are hidden), errno of reading
 */
int symbolizer_kernel_error(struct symbolizer *s);
/**
 * symbolizer_process_cpu_ns - CPU time of the symbolizer process up to its last answer. Thread:
 * any.
 */
uint64_t symbolizer_process_cpu_ns(const struct symbolizer *s);
/**
 * symbolizer_process - its number, 0: there is none
 */
uint32_t symbolizer_process(const struct symbolizer *s);

#endif
