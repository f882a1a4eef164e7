/* SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <stdatomic.h>

#include "unwind/unwind_priv.h"

#define AREA_DEFAULT_BYTES (1ULL << 30)
#define ROWS_DEFAULT       (64ULL << 20)
/* Offsets in a table are positive as signed 32-bit numbers. */
#define TEXT_MAX_BYTES (1ULL << 31)
/* Bytes of code at the entry point that become the outermost frame if they have no rules. The
 * _start of known C libraries has 20 to 60 bytes; the function after it must not become the
 * outermost frame. */
#define ENTRY_BYTES 64

#ifdef ABI_ARM64
#define OUR_MACHINE EM_AARCH64
#else
#define OUR_MACHINE EM_X86_64
#endif

/* A stretch of text that one function's rows govern: rows[row … row + n_rows), in offsets from the
 * start of the text. After merging its ends may lie inside of the function. */
struct piece {
	uint32_t start, end;
	uint32_t row, n_rows;
};
typedef VEC(struct piece) pieces_vec;

struct build {
	struct uw_sink sink;
	struct uw_quota quota;
	struct uw_build_limits lim;
	const struct img_segment *segs;
	size_t n_segs;
	size_t seg;                /* the executable one of the last function */
	uint64_t text_lo, text_hi; /* file offsets */
	VEC(struct uw_row) rows;   /* of all functions, as read; rel from text_lo */
	pieces_vec fns;            /* of the source that is being read */
	pieces_vec done, next;     /* merged up to now: sorted, no two overlap */
	/* The function that is being read. */
	bool open;
	uint64_t fn_start, fn_end; /* virtual addresses */
	uint32_t fn_rel;           /* fn_start from text_lo */
};

/* ---- taking functions and rows --------------------------------------------------------------- */

static bool in_segment(const struct img_segment *s, uint64_t start, uint64_t end)
{
	return s->exec && start >= s->vaddr && start - s->vaddr < s->file_size &&
	       end - s->vaddr <= s->file_size;
}

/* Finds the executable segment of a function; functions are in order, so mostly the last one. */
static const struct img_segment *segment_of(struct build *b, uint64_t start, uint64_t end)
{
	if (b->seg < b->n_segs && in_segment(&b->segs[b->seg], start, end))
		return &b->segs[b->seg];
	for (size_t i = 0; i < b->n_segs; i++) {
		if (in_segment(&b->segs[i], start, end)) {
			b->seg = i;
			return &b->segs[i];
		}
	}
	return NULL;
}

/* Closes the open function; one without rows is dropped. */
static void close_function(struct build *b)
{
	struct piece *p;

	if (!b->open)
		return;
	b->open = false;
	p = &b->fns.p[b->fns.n - 1];
	p->n_rows = (uint32_t)b->rows.n - p->row;
	if (p->n_rows == 0)
		b->fns.n--;
}

static int sink_function(void *arg, uint64_t start, uint64_t end)
{
	struct build *b = arg;
	const struct img_segment *s = start < end ? segment_of(b, start, end) : NULL;
	uint64_t rel;
	int r;

	close_function(b);
	if (b->lim.cancel && atomic_load_explicit(b->lim.cancel, memory_order_relaxed))
		return -ECANCELED;
	if (!s) {
		b->sink.stats->bad_entries++;
		return 0; /* its rows are ignored, since no function is open */
	}
	rel = s->off + (start - s->vaddr) - b->text_lo;
	r = vec_push(&b->fns, (struct piece){
	                              .start = (uint32_t)rel,
	                              .end = (uint32_t)(rel + (end - start)),
	                              .row = (uint32_t)b->rows.n,
	                      });
	if (r < 0)
		return r;
	b->open = true;
	b->fn_start = start;
	b->fn_end = end;
	b->fn_rel = (uint32_t)rel;
	return 0;
}

static int sink_row(void *arg, uint64_t at, uint16_t code)
{
	struct build *b = arg;
	struct uw_row row = {.code = code};
	struct uw_row *last = NULL;

	if (!b->open || at < b->fn_start || at >= b->fn_end)
		return 0;
	row.rel = b->fn_rel + (uint32_t)(at - b->fn_start);
	if (b->rows.n > b->fns.p[b->fns.n - 1].row)
		last = &b->rows.p[b->rows.n - 1];
	if (last && row.rel <= last->rel) {
		if (row.rel == last->rel) /* of rows at one address only the last governs */
			last->code = code;
		return 0;
	}
	if (last && last->code == code)
		return 0;
	return vec_push(&b->rows, row);
}

/* ---- merging --------------------------------------------------------------------------------- */

static int by_start(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;

	/* Equal starts in the order of the file, which is that of their rows. */
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (x->row > y->row) - (x->row < y->row);
}

static void sort_functions(pieces_vec *v)
{
	for (size_t i = 1; i < v->n; i++) {
		if (v->p[i].start < v->p[i - 1].start) {
			qsort(v->p, v->n, sizeof(*v->p), by_start);
			return;
		}
	}
}

/* Adds to next[] the parts of @f that no piece of done[] covers, from *at on, and the pieces
 * passed. *cut: true if a piece covers a part of @f. */
static int add_function(struct build *b, struct piece f, size_t *at, bool *cut)
{
	int r = 0;

	while (r == 0 && f.start < f.end) {
		const struct piece *d = *at < b->done.n ? &b->done.p[*at] : NULL;
		struct piece part = f;

		if (d && d->end <= f.start) {
			r = vec_push(&b->next, *d);
			(*at)++;
			continue;
		}
		if (d && d->start <= f.start) {
			*cut = true;
			f.start = d->end;
			continue;
		}
		if (d && d->start < f.end) {
			*cut = true;
			part.end = d->start;
		}
		r = vec_push(&b->next, part);
		f.start = part.end;
	}
	return r;
}

/* Adds the functions of one source where no earlier source covers them. */
static int merge_source(struct build *b)
{
	pieces_vec old;
	uint32_t covered = 0;
	size_t at = 0;
	int r = 0;

	close_function(b);
	sort_functions(&b->fns);
	for (size_t i = 0; i < b->fns.n && r == 0; i++) {
		struct piece f = b->fns.p[i];
		bool cut = f.start < covered;

		f.start = MAX_OF(f.start, covered);
		covered = MAX_OF(covered, f.end);
		r = add_function(b, f, &at, &cut);
		b->sink.stats->overlaps += cut;
	}
	for (; at < b->done.n && r == 0; at++)
		r = vec_push(&b->next, b->done.p[at]);
	b->fns.n = 0;
	old = b->done;
	b->done = b->next;
	b->next = old;
	b->next.n = 0;
	return r;
}

/* Returns true if the code at the entry point begins like that of a C library. In shared libraries
 * of older linkers it is the start of the text, which is any function. */
static bool is_start(struct img_file *f, uint64_t entry)
{
#ifdef ABI_ARM64
	static const struct {
		uint8_t n, b[8];
	} starts[] = {
	        {8,
	         {0x1d, 0x00, 0x80, 0xd2, 0x1e, 0x00, 0x80, 0xd2}}, /* mov x29, #0; mov x30, #0 */
	        {4, {0xe0, 0x03, 0x00, 0x91}},                      /* ld.so: mov x0, sp */
	};
	static const uint8_t landing[4] = {0x5f, 0x24, 0x03, 0xd5}; /* bti c */
#else
	static const struct {
		uint8_t n, b[8];
	} starts[] = {
	        {2, {0x31, 0xed}},             /* xor %ebp, %ebp */
	        {3, {0x48, 0x31, 0xed}},       /* xor %rbp, %rbp */
	        {4, {0x48, 0x89, 0xe7, 0xe8}}, /* ld.so: mov %rsp, %rdi; call */
	};
	static const uint8_t landing[4] = {0xf3, 0x0f, 0x1e, 0xfa}; /* endbr64 */
#endif
	uint8_t code[12];
	const uint8_t *at = code;

	if (img_read_vaddr(f, entry, code, sizeof(code)) < 0)
		return false;
	if (memcmp(code, landing, sizeof(landing)) == 0)
		at += sizeof(landing);
	for (size_t i = 0; i < ARRAY_SIZE(starts); i++)
		if (memcmp(at, starts[i].b, starts[i].n) == 0)
			return true;
	return false;
}

/* Gives the outermost frame at the entry point, if no source covers it. */
static int add_entry(struct build *b, struct img_file *f)
{
	uint64_t entry = img_entry(f), end = entry + ENTRY_BYTES;
	const struct img_segment *s = entry ? segment_of(b, entry, entry + 1) : NULL;
	uint32_t rel;
	int r;

	if (!s || !is_start(f, entry))
		return 0;
	rel = (uint32_t)(s->off + (entry - s->vaddr) - b->text_lo);
	for (size_t i = 0; i < b->done.n; i++)
		if (rel >= b->done.p[i].start && rel < b->done.p[i].end)
			return 0;
	r = sink_function(b, entry, MIN_OF(end, s->vaddr + s->file_size));
	if (r == 0)
		r = sink_row(b, entry, ABI_CODE_ROOT);
	/* It ends where the next function begins. */
	for (size_t i = 0; i < b->done.n && b->open; i++)
		if (b->done.p[i].start > rel && b->done.p[i].start < b->fns.p[0].end)
			b->fns.p[0].end = b->done.p[i].start;
	if (r == 0)
		r = merge_source(b);
	return r;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Rows are written in ascending order; room for all was made. */
static void emit(struct uw_table *t, uint32_t rel, uint16_t code)
{
	if (t->n_rows == 0 || t->rows[t->n_rows - 1].code != code)
		t->rows[t->n_rows++] = (struct uw_row){.rel = rel, .code = code};
}

/* Writes the rows of a piece, with offsets from @base. */
static void emit_piece(struct uw_table *t, const struct build *b, const struct piece *p,
                       uint32_t base)
{
	const struct uw_row *rows = &b->rows.p[p->row];
	uint32_t lo = 0;

	if (rows[0].rel > p->start) {
		emit(t, p->start - base, ABI_CODE_NONE);
	} else {
		/* The last one at or before the start: the first, unless the piece was cut. */
		if (rows[0].rel != p->start)
			lo = (uint32_t)bisect_first(i, 1, p->n_rows, rows[i].rel > p->start) - 1;
		emit(t, p->start - base, rows[lo++].code);
	}
	for (; lo < p->n_rows && rows[lo].rel < p->end; lo++)
		emit(t, rows[lo].rel - base, rows[lo].code);
}

static int make_table(const struct build *b, struct uw_table **ret)
{
	_cleanup_(uw_table_freep) struct uw_table *t = NULL;
	/* One more row for the start of each piece, and for the uncovered code after it. */
	size_t max = b->rows.n + 2 * b->done.n + 1;
	uint32_t pos, base;
	uint64_t lo;
	struct uw_row *rows;

	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	/* Pieces that were cut repeat rows only at their starts: the bound holds. */
	t->rows = malloc(max * sizeof(*t->rows));
	if (!t->rows)
		return -ENOMEM;
	/* text_lo is the start of a chunk. */
	base = b->done.p[0].start & ~(ABI_CHUNK_BYTES - 1);
	lo = b->text_lo + base;
	pos = base;
	for (size_t i = 0; i < b->done.n; i++) {
		const struct piece *p = &b->done.p[i];

		if (p->start > pos)
			emit(t, pos - base, ABI_CODE_NONE);
		emit_piece(t, b, p, base);
		pos = p->end;
	}
	t->lo = lo;
	t->n_chunks = (pos - base + ABI_CHUNK_BYTES - 1) >> ABI_CHUNK_SHIFT;
	if ((pos - base) & (ABI_CHUNK_BYTES - 1))
		emit(t, pos - base, ABI_CODE_NONE);
	assert(t->n_rows > 0); /* there is a piece */
	rows = realloc(t->rows, t->n_rows * sizeof(*rows));
	if (rows) /* else it stays where it is, too large */
		t->rows = rows;
	*ret = TAKE_PTR(t);
	return 0;
}

struct uw_table *uw_table_free(struct uw_table *t)
{
	if (t) {
		free(t->rows);
		free(t);
	}
	return NULL;
}

void uw_table_freep(struct uw_table **t)
{
	*t = uw_table_free(*t);
}

uint16_t uw_table_find(const struct uw_table *t, uint64_t off)
{
	uint64_t rel = off - t->lo;

	if (off < t->lo || rel >> ABI_CHUNK_SHIFT >= t->n_chunks || t->n_rows == 0)
		return ABI_CODE_NONE;
	return t->rows[bisect_first(i, 1, t->n_rows, t->rows[i].rel > rel) - 1].code;
}

/* ---- sources --------------------------------------------------------------------------------- */

/* 0; -ENOENT: the area does not exist, or is damaged as a whole, which is counted. */
static int read_area(struct build *b, struct img_file *f, enum img_area_kind kind, struct err *err)
{
	const char *name = kind == IMG_AREA_DEBUG_FRAME ? ".debug_frame" : ".eh_frame";
	_cleanup_free_ uint8_t *p = NULL;
	struct uw_area area = {.debug_frame = kind == IMG_AREA_DEBUG_FRAME};
	struct img_area a;
	int r = img_area_find(f, kind, &a);

	if (r == 0 && a.size == 0)
		return -ENOENT;
	if (r == 0)
		r = img_area_load(f, &a, (size_t)b->lim.area_bytes, &p, &area.len);
	if (r == -EINVAL || r == -ENODATA) {
		b->sink.stats->bad_entries++;
		return -ENOENT;
	}
	if (r == -ENOENT)
		return r;
	if (r < 0)
		return err_set(err, r, "%s: %s", name, err_name(r));
	area.p = p;
	area.vaddr = a.vaddr;
	r = uw_cfi_read(f, &area, &b->sink);
	if (r < 0)
		return err_set(err, r, "rows of %s: %s", name, err_name(r));
	return 0;
}

/* Merges the functions that a reader gave. *found: the source exists. */
static int end_source(struct build *b, int r, bool *found)
{
	*found = r == 0;
	if (r < 0 && r != -ENOENT)
		return r;
	return merge_source(b);
}

/* Reads the sources by priority: the first that covers an address wins. Go's .debug_frame lacks the
 * caller's frame pointer, which .gopclntab and the code have. */
static int read_sources(struct build *b, struct img_file *f, struct err *err)
{
	struct uw_build_stats *st = b->sink.stats;
	bool special = false, go = false;
	int r;

	r = end_source(b, uw_go_special_read(f, &b->sink, &b->lim), &special);
	if (r == 0)
		r = end_source(b, read_area(b, f, IMG_AREA_EH_FRAME, err), &st->eh_frame);
	if (r == 0)
		r = end_source(b, uw_go_read(f, &b->sink, &b->lim), &go);
	if (r == 0)
		r = end_source(b, read_area(b, f, IMG_AREA_DEBUG_FRAME, err), &st->debug_frame);
	if (r < 0)
		return r;
	st->gopclntab |= go;
	st->go |= go || special;
	return b->done.n > 0 ? 0 : -ENOENT;
}

/* Sets the bounds of the text: all executable segments. */
static int text_range(struct build *b)
{
	uint64_t lo = UINT64_MAX, hi = 0;

	for (size_t i = 0; i < b->n_segs; i++) {
		const struct img_segment *s = &b->segs[i];

		if (!s->exec || s->file_size == 0)
			continue;
		if (s->off > UINT64_MAX / 2 || s->file_size > UINT64_MAX / 2 ||
		    s->vaddr > UINT64_MAX - s->file_size)
			return -E2BIG;
		lo = MIN_OF(lo, s->off);
		hi = MAX_OF(hi, s->off + s->file_size);
	}
	if (lo >= hi)
		return -ENOENT;
	b->text_lo = lo & ~(uint64_t)(ABI_CHUNK_BYTES - 1);
	b->text_hi = hi;
	return hi - b->text_lo < TEXT_MAX_BYTES ? 0 : -E2BIG;
}

static int build(struct build *b, struct img_file *f, struct uw_table **ret, struct err *err)
{
	int r;

	if (!img_is_64(f) || img_machine(f) != OUR_MACHINE)
		return err_set(err, -ENOTSUP, "not a file of this processor's 64 bits: machine %u",
		               img_machine(f));
	b->n_segs = img_segments(f, &b->segs);
	r = text_range(b);
	if (r == -ENOENT)
		return err_set(err, r, "no executable segment");
	if (r < 0)
		return err_set(err, r, "more than 2 GiB of text");
	r = read_sources(b, f, err);
	if (r == -ENOENT)
		return err_set(err, r, "no call-frame information");
	if (r == 0)
		r = add_entry(b, f);
	if (r == 0)
		r = make_table(b, ret);
	if (r < 0 && !(err && err->code))
		return err_set(err, r, "call-frame information: %s", err_name(r));
	return r;
}

int uw_table_build(struct img_file *f, struct uw_rules *rules, const struct uw_build_limits *lim,
                   struct uw_table **ret, struct uw_build_stats *stats, struct err *err)
{
	struct uw_build_stats own = {0};
	struct uw_table *t = NULL;
	struct build b = {
	        .sink = {
	                .rules = rules, .stats = &own, .function = sink_function, .row = sink_row}};
	size_t max;
	int r;

	if (err)
		*err = (struct err){0};
	b.sink.quota = &b.quota;
	b.sink.arg = &b;
	if (lim)
		b.lim = *lim;
	if (b.lim.area_bytes == 0)
		b.lim.area_bytes = AREA_DEFAULT_BYTES;
	if (b.lim.rows == 0 || b.lim.rows > UINT32_MAX / 4)
		b.lim.rows = ROWS_DEFAULT;
	/* Each function has at least one row; merging may cut one around each piece. */
	max = (size_t)b.lim.rows;
	b.rows.max = max;
	b.fns.max = max + 1;
	b.done.max = b.next.max = 2 * max + 2;
	r = build(&b, f, &t, err);
	vec_done(&b.rows);
	vec_done(&b.fns);
	vec_done(&b.done);
	vec_done(&b.next);
	own.rows = t ? t->n_rows : 0;
	own.rules = b.quota.rules;
	if (stats)
		*stats = own;
	if (r == 0)
		*ret = t;
	return r;
}
