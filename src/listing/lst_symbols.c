/* SPDX-License-Identifier: Apache-2.0 */
/* The symbols that contain addresses, with their ends. */
#include <elf.h>

#include "listing/lst_priv.h"
#include "symbolize/symbolize.h"

#define NAME_BYTES_MAX ((size_t)64 << 10)
/* Comparisons of addresses with symbols: far more than real files need, and a second of work. */
#define STEPS_MAX ((uint64_t)1 << 28)

struct wanted {
	uint64_t addr;
	struct ev_site *site;
	struct img_symbol best; /* size 0: none yet */
};

struct find {
	struct wanted *v; /* v[n], by address */
	size_t n;
	uint64_t steps;
};

static int compare(const void *a, const void *b)
{
	const struct wanted *x = a, *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

/* Returns whether @a describes an address more closely than @b. Symbols of one range are ordered by
 * what does not depend on the address, so that the range has one name. */
static bool is_better(const struct img_symbol *a, const struct img_symbol *b)
{
	const bool global_a = a->bind == STB_GLOBAL, global_b = b->bind == STB_GLOBAL;

	if (b->size == 0 || a->value != b->value)
		return b->size == 0 || a->value > b->value;
	if (a->size != b->size)
		return a->size < b->size;
	return global_a && !global_b;
}

static void on_symbol(void *arg, const struct img_symbol *sym)
{
	struct find *f = arg;
	size_t i;

	if (sym->size == 0)
		return;
	i = bisect_first(k, 0, f->n, f->v[k].addr >= sym->value);
	for (; i < f->n && f->v[i].addr - sym->value < sym->size && f->steps < STEPS_MAX; i++) {
		f->steps++;
		if (is_better(sym, &f->v[i].best))
			f->v[i].best = *sym;
	}
}

/* Appends the name of a symbol to @mem. NULL with *@ret_r = 0: it has none that can be read. */
static const char *name_of(struct img_file *f, const struct img_symbol *sym, struct arena *mem,
                           int *ret_r)
{
	_cleanup_(sbuf_done) struct sbuf raw, nice;
	const char *name;

	*ret_r = 0;
	sbuf_init(&raw, NAME_BYTES_MAX);
	sbuf_init(&nice, NAME_BYTES_MAX);
	if (img_symbol_name(f, sym, &raw) < 0 || !raw.p)
		return NULL;
	name = sym_demangle(raw.p, &nice) == 0 && nice.p ? nice.p : raw.p;
	name = arena_strndup(mem, name, strlen(name));
	*ret_r = name ? 0 : -ENOMEM;
	return name;
}

int lst_find_symbols(struct img_file *f, struct ev_site *sites, size_t n, struct arena *mem)
{
	_cleanup_free_ struct wanted *v = calloc(n + 1, sizeof(*v));
	struct find find = {.v = v};
	const struct wanted *last = NULL;
	int r = 0;

	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		if (sites[i].addr && !sites[i].end)
			v[find.n++] = (struct wanted){.addr = sites[i].addr, .site = &sites[i]};
	if (!find.n)
		return 0;
	qsort(v, find.n, sizeof(*v), compare);
	if (img_symbols(f, on_symbol, &find) == -ENOMEM)
		return -ENOMEM;
	for (size_t i = 0; i < find.n && r == 0; i++) {
		struct ev_site *s = v[i].site;
		const struct img_symbol *b = &v[i].best;

		if (!b->size || __builtin_add_overflow(b->value, b->size, &s->end))
			continue;
		s->start = b->value;
		if (last && last->site->start == s->start && last->site->end == s->end)
			s->symbol = last->site->symbol;
		else
			s->symbol = name_of(f, b, mem, &r);
		last = &v[i];
	}
	return r;
}
