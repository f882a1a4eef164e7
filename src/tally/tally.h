/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tally - counters of a capture and notes for its user. Every module of the user side adds to this
 * one object, so that none of them needs the session for it.
 *
 * Samples obey seen = kept + dropped: the kernel side counts the first two and its own drops
 * (bpf/abi/counters.def), the user side the rest of the drops (tally/counters.def).
 */
#ifndef PA_TALLY_H
#define PA_TALLY_H

#include "base/base.h"
#include "bpf/abi/abi.h"
#include "perfagent/perfagent.h"

#include <stdatomic.h>

#define TALLY_NOTES_MAX 64

/* The user side's counters. */
enum tally_id {
#define X(id, name, unit, kind, help) TALLY_##id,
#include "tally/counters.def"
#undef X
	TALLY_CNT
};

/* The counters of one capture, all 0 at the beginning. */
struct tally {
	_Atomic uint64_t user[TALLY_CNT]; /* thread: any */
	/* Final counts of the kernel side, written by the owner once the programs are detached: those
	 * of the on-CPU programs, with what the off-CPU programs share with them. */
	struct abi_counters kernel;
	struct abi_counters offcpu; /* off-CPU programs alone */
	/* notes[n_notes], each malloc'ed. Thread: the owner's. */
	char *notes[TALLY_NOTES_MAX];
	size_t n_notes;
};

/* Called for a counter that is not 0. Negative ends the enumeration. */
typedef int (*tally_fn)(void *arg, const char *name, uint64_t value);

enum tally_kind { TALLY_TICK = 0, TALLY_DROP, TALLY_LOSS, TALLY_INFO };

/**
 * tally_reset - set all counters to 0 and free the notes
 * Also frees what the object holds. Thread: the owner, while no other counts.
 */
void tally_reset(struct tally *t);
/**
 * tally_count, tally_get - add to a counter of the user side; read it
 * Relaxed atomics. Thread: any.
 */
static inline void tally_count(struct tally *t, enum tally_id id, uint64_t n)
{
	atomic_fetch_add_explicit(&t->user[id], n, memory_order_relaxed);
}
static inline uint64_t tally_get(const struct tally *t, enum tally_id id)
{
	return atomic_load_explicit(&t->user[id], memory_order_relaxed);
}
/**
 * tally_note - add a line that the user should read
 * A line that is there already, one past TALLY_NOTES_MAX and one without memory are left out.
 * Thread: the owner's.
 */
void tally_note(struct tally *t, const char *fmt, ...) PRINTF_FMT(2, 3);
/**
 * tally_add_offcpu - add counters of off-CPU programs to those of the kernel side as a whole
 * @all: LOSS counters and those that both kinds of programs keep for the same purpose are added;
 *       seen, kept and dropped are not: off-CPU intervals are no samples
 */
void tally_add_offcpu(struct abi_counters *all, const struct abi_counters *offcpu);
/**
 * tally_dropped - samples that hit the target and are not in the profile
 * @kernel: counters of the kernel side, running or final
 * Returns: the sum of all DROP counters of both sides. Thread: any.
 */
uint64_t tally_dropped(const struct tally *t, const struct abi_counters *kernel);
/**
 * tally_each - every counter of one kind that is not 0, the kernel side's first
 * Returns: 0, or the first negative value that @fn returned.
 */
int tally_each(const struct tally *t, enum tally_kind kind, tally_fn fn, void *arg);
/**
 * tally_help - the line of help of a counter of either side
 * Returns: static; NULL: there is no such counter.
 */
const char *tally_help(const char *name);
/**
 * tally_counter - counter number @i: first the kernel side's, then the user side's
 * @kernel: counters of the kernel side, running or final; @ret: strings are static
 * Returns: 0, -ENOENT (past the last). Thread: any.
 */
int tally_counter(const struct tally *t, const struct abi_counters *kernel, size_t i,
                  struct pfa_counter *ret);

#endif
