/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shape.h - programs that publish the stack they are in.
 *
 * A program holds shapes, each a way of laying out stack frames. `--shape NAME` runs one of them
 * for
 * --seconds. It prints "ready PID", then one JSON object:
 *   {"shape": NAME, "pid": PID, "chains": [[leaf, …, "main"], …], …}
 * Each chain is a list of function names, leaf first, that ends with the function that the C
 * library (or the thread's creator) called; "?" means exactly one frame of any name. At each
 * moment the stack is one of the chains, less some functions at its leaf end (they have returned,
 * or are not yet called), with functions of libraries that the chain does not name above it.
 * Further members, of some shapes only, say where code lies.
 *
 * Unlike the workloads alongside this folder these are built without frame pointers and with
 * sibling
 * calls, as distributions build: SHAPE_FUNC keeps what is to be a frame from being inlined.
 */
#ifndef SHAPE_H
#define SHAPE_H

#include "../workload.h"

/* The time between two looks at the clock, in wl_batch()es of some 20 µs. */
#define SHAPE_BATCHES 50

struct shape {
	const char *name;
	void (*work)(void);        /* called again and again */
	void (*begin)(void);       /* before the chains are published; may be NULL */
	const char *const *chains; /* words, leaf first, after which "shape_run main" is added;
	                            * NULL-terminated */
	const char *below;         /* instead of "shape_run main"; NULL: that */
};

/* More members of the JSON object, ", " first; a shape's begin() fills it. */
extern char shape_more[256];
extern uint64_t shape_until_ns;
/* Value of --file: a library to load; NULL: not given. */
extern const char *shape_file;

/* Spends the time. */
WL_FUNC __attribute__((unused)) static uint64_t shape_spin(uint64_t batches)
{
	for (uint64_t i = 0; i < batches; i++)
		wl_batch();
	return wl_sink;
}

/**
 * shape_begin - reads the options, prepares the shape and publishes its chains
 * @lists: arrays of shapes, each ended by one without a name; NULL-terminated
 * Returns: the shape, which main gives to shape_run.
 */
const struct shape *shape_begin(int argc, char **argv, const struct shape *const *lists);
void shape_run(const struct shape *s);
__attribute__((noreturn, format(printf, 1, 2))) void shape_die(const char *fmt, ...);

extern const struct shape shapes_frames[], shapes_signals[], shapes_tasks[], shapes_asm[];

#endif
