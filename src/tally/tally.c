/* SPDX-License-Identifier: Apache-2.0 */
#include "tally/tally.h"

#include <stdio.h>

/* The kernel side's counters, then the user side's. */
static const struct {
	const char *name, *unit, *help;
	enum tally_kind kind;
} table[] = {
#define X(id, name, unit, kind, help) {name, unit, help, TALLY_##kind},
#include "bpf/abi/counters.def"
#include "tally/counters.def"
#undef X
};
_Static_assert(ARRAY_SIZE(table) == (size_t)ABI_CNT_MAX + TALLY_CNT, "one row a counter");

void tally_reset(struct tally *t)
{
	while (t->n_notes)
		free(t->notes[--t->n_notes]);
	for (int i = 0; i < TALLY_CNT; i++)
		atomic_store_explicit(&t->user[i], 0, memory_order_relaxed);
	memset(&t->kernel, 0, sizeof(t->kernel));
	memset(&t->offcpu, 0, sizeof(t->offcpu));
}

void tally_note(struct tally *t, const char *fmt, ...)
{
	va_list ap;
	char *line = NULL;
	int n;

	if (t->n_notes == TALLY_NOTES_MAX)
		return;
	va_start(ap, fmt);
	n = vasprintf(&line, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	/* The checks of the start are made again at the end. */
	for (size_t i = 0; i < t->n_notes; i++)
		if (strcmp(t->notes[i], line) == 0) {
			free(line);
			return;
		}
	t->notes[t->n_notes++] = line;
}

void tally_add_offcpu(struct abi_counters *all, const struct abi_counters *offcpu)
{
	static const enum abi_counter shared[] = {
	        ABI_CNT_STACK_SHIPPED, ABI_CNT_STACK_BYTES,    ABI_CNT_STACK_RING_FULL,
	        ABI_CNT_THREADS_NEW,   ABI_CNT_RANGE_STALE,    ABI_CNT_DEFERRED_BYTES,
	        ABI_CNT_DEFERRED_FULL, ABI_CNT_DEFERRED_QUOTA, ABI_CNT_PROG_NS,
	        ABI_CNT_STREAMED,
	};

	for (size_t i = 0; i < ABI_CNT_MAX; i++)
		if (table[i].kind == TALLY_LOSS)
			all->v[i] += offcpu->v[i];
	for (size_t i = 0; i < ARRAY_SIZE(shared); i++)
		all->v[shared[i]] += offcpu->v[shared[i]];
}

static uint64_t value_of(const struct tally *t, const struct abi_counters *kernel, size_t i)
{
	return i < ABI_CNT_MAX ? kernel->v[i] : tally_get(t, (enum tally_id)(i - ABI_CNT_MAX));
}

uint64_t tally_dropped(const struct tally *t, const struct abi_counters *kernel)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (table[i].kind == TALLY_DROP)
			sum += value_of(t, kernel, i);
	return sum;
}

int tally_each(const struct tally *t, enum tally_kind kind, tally_fn fn, void *arg)
{
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(table) && r >= 0; i++) {
		uint64_t v = value_of(t, &t->kernel, i);

		if (table[i].kind == kind && v)
			r = fn(arg, table[i].name, v);
	}
	return r < 0 ? r : 0;
}

const char *tally_help(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (strcmp(table[i].name, name) == 0)
			return table[i].help;
	return NULL;
}

int tally_counter(const struct tally *t, const struct abi_counters *kernel, size_t i,
                  struct pfa_counter *ret)
{
	if (i >= ARRAY_SIZE(table))
		return -ENOENT;
	*ret = (struct pfa_counter){.name = table[i].name,
	                            .unit = table[i].unit,
	                            .help = table[i].help,
	                            .value = value_of(t, kernel, i)};
	return 0;
}
