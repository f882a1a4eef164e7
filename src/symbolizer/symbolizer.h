/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symbolizer - the service that names the addresses of a capture. It collects them by image during
 * the capture, sends batches to a pool of threads and the symbolizer process, and returns a result
 * for each address at the end.
 *
 * Thread: the owner of the tracker requests and sends (tracker, then control); control finishes and
 * reads results; kernel records come from the drain thread. The pool's side is the module's own.
 */
#ifndef PA_SYMBOLIZER_H
#define PA_SYMBOLIZER_H

#include "symbolize/symbolize.h"
#include "tally/tally.h"
#include "track/track.h"

#define SYMBOLIZER_KERNEL   0    /* image id of kernel addresses; files count from 1 */
#define SYMBOLIZER_JOBS_MAX 4096 /* batches that wait at a time */

struct symbolizer;

struct symbolizer_options {
	struct tally *tally; /* counters; notes are added by symbolizer_finish */
	/* Opens an image for reading. Called by symbolizer_send and symbolizer_finish. */
	void (*open)(void *arg, uint32_t image, struct trk_open *ret);
	/* Reports that the symbolizer process has changed; 0: there is none. Thread: the pool's,
	 * and the caller of symbolizer_new. May be NULL. */
	void (*process)(void *arg, uint32_t pid);
	void *arg;
	size_t max_jobs; /* batches that may wait; 0: SYMBOLIZER_JOBS_MAX */
	/* As in struct sym_files_options. dirs is NULL-terminated, or NULL. */
	const char *const *debug_dirs;
	size_t budget_bytes;
	bool no_lines, in_process;
};

/**
 * symbolizer_new - make the service, and fork the symbolizer process: before there are threads
 * Returns: 0, -ENOMEM, -ENOTDIR or errno of stat (a debug directory), errno of getrlimit.
 */
int symbolizer_new(const struct symbolizer_options *o, struct symbolizer **ret, struct err *err);
/**
 * symbolizer_use - set the pool that runs the batches; before the first symbolizer_send
 * The pool ends before symbolizer_free.
 */
void symbolizer_use(struct symbolizer *s, struct pool *pool);
/**
 * symbolizer_free - free all names; the pool has ended. NULL is accepted. Returns: NULL.
 */
struct symbolizer *symbolizer_free(struct symbolizer *s);

/**
 * symbolizer_request - request the name of an address, unless it was requested before
 * @addr: file offset in the image, or kernel address; a look-up address
 * An address over a limit is counted and has no name.
 */
void symbolizer_request(struct symbolizer *s, uint32_t image, uint64_t addr);
/**
 * symbolizer_send - send batches that are due to the pool
 * @now: CLOCK_MONOTONIC; the batches of an image double in time, so that its symbol table is read
 *       a few times a capture
 * @all: send every address that was requested
 * Returns: false if the queue had no room for all; try again.
 */
bool symbolizer_send(struct symbolizer *s, uint64_t now, bool all);
/**
 * symbolizer_requested - distinct addresses that were requested
 */
size_t symbolizer_requested(const struct symbolizer *s);
/**
 * symbolizer_kernel_record - add a record of kernel code. Thread: drain.
 */
void symbolizer_kernel_record(struct symbolizer *s, const struct ev_proc *ev);
/**
 * symbolizer_late - sampling has ended: batches from now on are counted as late ones
 */
void symbolizer_late(struct symbolizer *s);
/**
 * symbolizer_finish - name all requested addresses, then count and note the results
 * @until_ns: CLOCK_MONOTONIC; addresses not decoded by then have the reason LATE
 * @limit_ms: the limit that @until_ns comes from, for the note
 * Returns: 0, -ENOMEM, -E2BIG: some names are missing. Thread: control.
 */
int symbolizer_finish(struct symbolizer *s, uint64_t until_ns, uint64_t limit_ms);
/**
 * symbolizer_cancel - decode nothing from now on; waiting batches end without delay
 * Thread: any.
 */
void symbolizer_cancel(struct symbolizer *s);
/**
 * symbolizer_collect - make the answers up to now available to symbolizer_find
 * @ret_waiting: batches without an answer
 * Returns: 0, -ENOMEM, -E2BIG: some names are missing. Thread: control.
 */
int symbolizer_collect(struct symbolizer *s, uint64_t *ret_waiting);
/**
 * symbolizer_find - the result for an address, after symbolizer_finish or symbolizer_collect
 * Returns: reason NO_MEMORY if it was not requested, has no answer yet or was lost. Borrowed until
 * symbolizer_free. Thread: control.
 */
struct sym_named symbolizer_find(const struct symbolizer *s, uint32_t image, uint64_t addr);
/**
 * symbolizer_kernel_error - error of reading kernel symbols: 0 (none, or not read), -EPERM (they
 * are
 * hidden), errno of reading
 */
int symbolizer_kernel_error(struct symbolizer *s);
/**
 * symbolizer_process_cpu_ns - CPU time of the symbolizer process up to its last answer. Thread:
 * any.
 */
uint64_t symbolizer_process_cpu_ns(const struct symbolizer *s);
/**
 * symbolizer_process - pid of the symbolizer process, 0: there is none
 */
uint32_t symbolizer_process(const struct symbolizer *s);

#endif
