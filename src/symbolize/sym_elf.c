/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names for sorted addresses from symbol tables that are read once, from start to end. Memory is
 * O(addresses). Each symbol with a size is added to a segment tree over the addresses. "Best of all
 * symbols that cover this address" is a maximum in a total order: each node keeps its best, and an
 * address takes the best on the way to the root. That is O(log n) for a symbol, even for one that
 * covers everything, as hostile tables have.
 */
#include <elf.h>

#include "symbolize/symbolize_priv.h"

/* Names are read only to break ties. A table of nothing but ties must not cost a read for each. */
#define TIES_BASE     65536
#define TIES_PER_ADDR 16

#define TABLES 2 /* of a file: .symtab and .dynsym */

struct cand {
	uint64_t start;
	uint64_t extent; /* its size; if that is 0, bytes up to its limit */
	uint32_t name_off;
	uint8_t bind_rank; /* 0 global, 1 weak, 2 local */
	uint8_t table;     /* TABLES * file + img_symbol.table */
	uint8_t set;
};

struct addr {
	uint64_t vaddr;
	uint32_t idx; /* borrowed from the caller */
};

struct hit {
	uint64_t start;
	uint32_t name_off;
	uint32_t table;
	uint32_t i; /* indexes in addrs */
};

struct name_buf {
	struct sbuf b;
	uint32_t name_off;
	uint8_t table;
	bool valid;
};

struct resolver {
	struct img_file *const
	        /* files[n_files]: the image, then the files that hold what was stripped off it */
	        *files;
	size_t n_files, file; /* index of the file whose symbols are being read */
	struct addr *addrs;   /* addrs[n], ascending */
	size_t n;
	struct cand *tree;  /* tree[2 * n]: node i has children 2i and 2i + 1, leaves from n */
	struct cand *zero;  /* zero[i]: best symbol of size 0 that starts after addrs[i - 1] */
	uint64_t *boundary; /* boundary[i]: last start or end after addrs[i - 1], up to addrs[i] */
	bool *bounded;      /* bounded[i]: boundary[i] is set */
	struct name_buf names[2];
	uint64_t ties_left;
	int err;
};

static void resolver_done(struct resolver *s)
{
	free(s->addrs);
	free(s->tree);
	free(s->zero);
	free(s->boundary);
	free(s->bounded);
	sbuf_done(&s->names[0].b);
	sbuf_done(&s->names[1].b);
}

/* Returns the first address >= @vaddr, from @from on, in doubling steps: most symbols are smaller
 * than the gaps between addresses. */
static size_t lower_bound(const struct resolver *s, uint64_t vaddr, size_t from)
{
	size_t lo = from, step = 1;

	while (s->n - lo > step && s->addrs[lo + step - 1].vaddr < vaddr) {
		lo += step;
		step *= 2;
	}
	return bisect_first(i, lo, MIN_OF(lo + step, s->n), s->addrs[i].vaddr >= vaddr);
}

static const char *cand_name(struct resolver *s, const struct cand *c, struct name_buf *nb)
{
	struct img_symbol sym = {.name_off = c->name_off, .table = c->table % TABLES};
	int r;

	if (nb->valid && nb->name_off == c->name_off && nb->table == c->table)
		return nb->b.p;
	nb->valid = false;
	sbuf_reset(&nb->b);
	r = img_symbol_name(s->files[c->table / TABLES], &sym, &nb->b);
	if (r == -ENOMEM)
		s->err = r;
	if (r < 0 || nb->b.len == 0)
		return NULL;
	nb->name_off = c->name_off;
	nb->table = c->table;
	nb->valid = true;
	return nb->b.p;
}

/* Returns whether @a is better than @b, which starts at the same address. */
static bool better_alias(struct resolver *s, const struct cand *a, const struct cand *b)
{
	const char *name_a, *name_b;

	if (a->bind_rank != b->bind_rank)
		return a->bind_rank < b->bind_rank;
	if (a->table == b->table && a->name_off == b->name_off)
		return false;
	if (s->ties_left == 0)
		return false;
	s->ties_left--;
	name_a = cand_name(s, a, &s->names[0]);
	name_b = cand_name(s, b, &s->names[1]);
	if (!name_a || !name_b)
		return name_a && !name_b;
	return sym_name_cmp(name_a, name_b) < 0;
}

static bool better_sized(struct resolver *s, const struct cand *a, const struct cand *b)
{
	if (!b->set)
		return true;
	if (a->start != b->start)
		return a->start > b->start;
	if (a->extent != b->extent)
		return a->extent < b->extent;
	return better_alias(s, a, b);
}

static bool better_zero(struct resolver *s, const struct cand *a, const struct cand *b)
{
	if (!b->set)
		return true;
	if (a->start != b->start)
		return a->start > b->start;
	return better_alias(s, a, b);
}

static void add_boundary(struct resolver *s, size_t i, uint64_t at)
{
	if (i == s->n || (s->bounded[i] && s->boundary[i] >= at))
		return;
	s->boundary[i] = at;
	s->bounded[i] = true;
}

static void offer(struct resolver *s, size_t node, const struct cand *c)
{
	if (better_sized(s, c, &s->tree[node]))
		s->tree[node] = *c;
}

static uint8_t bind_rank(uint8_t bind)
{
	return bind == STB_LOCAL ? 2 : bind == STB_WEAK ? 1 : 0;
}

static void take_symbol(void *arg, const struct img_symbol *sym)
{
	struct resolver *s = arg;
	struct cand c = {
	        .start = sym->value,
	        .extent = sym->size,
	        .name_off = sym->name_off,
	        .bind_rank = bind_rank(sym->bind),
	        .table = (uint8_t)(s->file * TABLES + sym->table),
	        .set = 1,
	};
	size_t first, last;

	first = lower_bound(s, sym->value, 0);
	add_boundary(s, first, sym->value);
	if (first == s->n)
		return;
	if (sym->size == 0) {
		c.extent = sym->limit - sym->value; /* it marks an end, and covers nothing */
		if (c.extent > 0 && better_zero(s, &c, &s->zero[first]))
			s->zero[first] = c;
		return;
	}
	last = lower_bound(s, sym->value + sym->size, first);
	add_boundary(s, last, sym->value + sym->size);
	for (size_t l = first + s->n, r = last + s->n; l < r; l /= 2, r /= 2) {
		if (l & 1)
			offer(s, l++, &c);
		if (r & 1)
			offer(s, --r, &c);
	}
}

static int addr_cmp(const void *pa, const void *pb)
{
	const struct addr *a = pa, *b = pb;

	return (a->vaddr > b->vaddr) - (a->vaddr < b->vaddr);
}

/* By offset in the string tables, so that hits of one symbol are adjacent. */
static int hit_cmp(const void *pa, const void *pb)
{
	const struct hit *a = pa, *b = pb;

	if (a->table != b->table)
		return a->table < b->table ? -1 : 1;
	if (a->name_off != b->name_off)
		return a->name_off < b->name_off ? -1 : 1;
	return (a->start > b->start) - (a->start < b->start);
}

static int resolver_init(struct resolver *s, struct img_file *const *files, size_t n_files,
                         const uint64_t *offs, size_t n)
{
	bool sorted = true;
	uint64_t vaddr;

	*s = (struct resolver){.files = files,
	                       .n_files = n_files,
	                       .ties_left = TIES_BASE + TIES_PER_ADDR * (uint64_t)n};
	sbuf_init(&s->names[0].b, SYM_DEMANGLED_MAX + 2);
	sbuf_init(&s->names[1].b, SYM_DEMANGLED_MAX + 2);
	if (n > UINT32_MAX / 2)
		return -ENOMEM;
	s->addrs = calloc(n + 1, sizeof(*s->addrs));
	if (!s->addrs)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		if (img_off_to_vaddr(files[0], offs[i], &vaddr) < 0)
			continue;
		if (s->n > 0 && s->addrs[s->n - 1].vaddr > vaddr)
			sorted = false;
		s->addrs[s->n++] = (struct addr){.vaddr = vaddr, .idx = (uint32_t)i};
	}
	if (!sorted)
		qsort(s->addrs, s->n, sizeof(*s->addrs), addr_cmp);
	s->tree = calloc(2 * s->n + 2, sizeof(*s->tree));
	s->zero = calloc(s->n + 1, sizeof(*s->zero));
	s->boundary = calloc(s->n + 1, sizeof(*s->boundary));
	s->bounded = calloc(s->n + 1, sizeof(*s->bounded));
	return s->tree && s->zero && s->boundary && s->bounded ? 0 : -ENOMEM;
}

/* Orders the best candidates of all addresses for reading their names. */
static int collect_hits(struct resolver *s, struct hit **ret, size_t *ret_n)
{
	_cleanup_free_ struct hit *hits = NULL;
	struct cand zero = {0};
	uint64_t boundary = 0;
	size_t n = 0;

	hits = calloc(s->n + 1, sizeof(*hits));
	if (!hits)
		return -ENOMEM;
	for (size_t i = 0; i < s->n; i++) {
		const struct cand *best = NULL;
		uint64_t vaddr = s->addrs[i].vaddr;

		if (s->bounded[i])
			boundary = s->boundary[i];
		if (s->zero[i].set)
			zero = s->zero[i];
		for (size_t node = i + s->n; node > 0; node /= 2) {
			const struct cand *c = &s->tree[node];

			if (c->set && (!best || better_sized(s, c, best)))
				best = c;
		}
		if (!best && zero.set && zero.start == boundary && vaddr - zero.start < zero.extent)
			best = &zero;
		if (best)
			hits[n++] = (struct hit){
			        .start = best->start,
			        .name_off = best->name_off,
			        .table = best->table,
			        .i = (uint32_t)i,
			};
	}
	qsort(hits, n, sizeof(*hits), hit_cmp);
	*ret = TAKE_PTR(hits);
	*ret_n = n;
	return 0;
}

static int name_hits(struct resolver *s, const uint64_t *offs, const struct hit *hits, size_t n,
                     struct sym_batch *out)
{
	_cleanup_(sbuf_done) struct sbuf scratch;
	const struct hit *prev = NULL;
	enum ev_reason reason = EV_REASON_NAMED;
	uint32_t frame = 0;
	int r = 0;

	sbuf_init(&scratch, 2 * SYM_DEMANGLED_MAX + 2);
	for (size_t i = 0; i < n; i++) {
		const struct hit *h = &hits[i];
		const struct addr *a = &s->addrs[h->i];
		struct cand c = {.name_off = h->name_off, .table = (uint8_t)h->table};
		uint64_t delta = a->vaddr - h->start;
		struct sym_name *name = &out->names[a->idx];

		if (!prev || prev->table != h->table || prev->name_off != h->name_off) {
			const char *linkage = cand_name(s, &c, &s->names[0]);

			if (s->err < 0)
				return s->err;
			reason = EV_REASON_NAMED;
			r = linkage ? sym_batch_symbol(out, linkage, "", &scratch, &frame) : 0;
			if (r == -ENOMEM)
				return r;
			if (!linkage)
				reason = EV_REASON_BAD_ELF;
			else if (r < 0)
				reason = EV_REASON_NO_MEMORY;
		}
		prev = h;
		name->reason = reason;
		if (reason != EV_REASON_NAMED)
			continue;
		name->first = frame;
		name->n = 1;
		name->start = delta <= offs[a->idx] ? offs[a->idx] - delta : 0;
	}
	return 0;
}

/* Sets the reason of addresses without a name, by what the files had. */
static enum ev_reason read_tables(struct resolver *s, int *ret)
{
	bool read = false, bad = false, failed = false;

	for (s->file = 0; s->file < s->n_files; s->file++) {
		struct img_file *f = s->files[s->file];
		uint64_t bad_before = img_bad_items(f);
		ssize_t handed = img_symbols(f, take_symbol, s);

		if (handed == -ENOMEM || s->err < 0) {
			*ret = -ENOMEM;
			return EV_REASON_NO_MEMORY;
		}
		read |= handed > 0 || (handed == 0 && img_bad_items(f) == bad_before);
		bad |= handed == 0 && img_bad_items(f) > bad_before;
		failed |= handed < 0 && handed != -ENOENT;
	}
	*ret = 0;
	return read     ? EV_REASON_NO_SYMBOL
	       : bad    ? EV_REASON_BAD_ELF
	       : failed ? EV_REASON_NO_FILE
	                : EV_REASON_NO_SYMTAB;
}

int sym_elf_resolve_all(struct img_file *const *files, size_t n_files, const uint64_t *offs,
                        size_t n, struct sym_batch *ret)
{
	_cleanup_(resolver_done) struct resolver s;
	_cleanup_(sym_batch_done) struct sym_batch out = {0};
	_cleanup_free_ struct hit *hits = NULL;
	enum ev_reason reason;
	size_t n_hits;
	int r;

	assert(n_files > 0 && n_files <= SYM_ELF_FILES_MAX);
	r = resolver_init(&s, files, n_files, offs, n);
	if (r < 0)
		return r;
	reason = read_tables(&s, &r);
	if (r == 0)
		r = sym_batch_init(&out, n, reason);
	if (r == 0)
		r = collect_hits(&s, &hits, &n_hits);
	if (r == 0)
		r = name_hits(&s, offs, hits, n_hits, &out);
	if (r < 0)
		return r;
	*ret = out;
	out = (struct sym_batch){0};
	return 0;
}

int sym_elf_resolve(struct img_file *f, const uint64_t *offs, size_t n, struct sym_batch *ret)
{
	return sym_elf_resolve_all(&f, 1, offs, n, ret);
}
