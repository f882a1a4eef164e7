/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code of one process by address and time.
 *
 * Current code is an interval map of pieces. New code cuts the pieces that it overlaps; each
 * removed piece or part moves to the past with its time. One insertion cuts at most two pieces and
 * adds two. So there are at most three times as many pieces, past ones included, as insertions.
 */
#include "jitcode/jitcode_priv.h"

#define JITCODE_BYTES_DEFAULT ((size_t)64 << 20)

int jitcode_new(size_t max_bytes, struct jitcode **ret)
{
	struct jitcode *j = calloc(1, sizeof(*j));

	if (!j)
		return -ENOMEM;
	j->max_bytes = max_bytes ? max_bytes : JITCODE_BYTES_DEFAULT;
	/* jitcode_has_room() bounds them. */
	j->names.max = j->codes.max = j->rows.max = j->past.max = UINT32_MAX - 1;
	imap_init(&j->pieces, sizeof(struct jitcode_piece), SIZE_MAX);
	sbuf_init(&j->name, 2 * JITCODE_NAME_MAX);
	sbuf_init(&j->file, 2 * JITCODE_NAME_MAX);
	j->last_file = JITCODE_NO_FILE;
	*ret = j;
	return 0;
}

static void forget_index(struct jitcode *j)
{
	free(j->bounds);
	free(j->first);
	free(j->items);
	j->bounds = NULL;
	j->first = j->items = NULL;
	j->n_bounds = 0;
	j->index_bytes = 0;
	j->indexed = false;
}

struct jitcode *jitcode_free(struct jitcode *j)
{
	if (!j)
		return NULL;
	imap_done(&j->pieces);
	vec_done(&j->names);
	vec_done(&j->codes);
	vec_done(&j->rows);
	vec_done(&j->past);
	forget_index(j);
	free(j->window);
	sbuf_done(&j->name);
	sbuf_done(&j->file);
	free(j);
	return NULL;
}

void jitcode_freep(struct jitcode **j)
{
	*j = jitcode_free(*j);
}

/* ---- memory ---------------------------------------------------------------------------------- */

size_t jitcode_bytes(const struct jitcode *j)
{
	return sizeof(*j) + j->names.cap + j->codes.cap * sizeof(*j->codes.p) +
	       j->rows.cap * sizeof(*j->rows.p) + j->past.cap * sizeof(*j->past.p) +
	       j->pieces.bytes + j->index_bytes;
}

void jitcode_limit(struct jitcode *j, size_t max_bytes)
{
	j->max_bytes = max_bytes;
	j->full = false;
}

bool jitcode_more(const struct jitcode *j)
{
	return j->more_map || j->more_dump;
}

bool jitcode_has_room(const struct jitcode *j, size_t more)
{
	/* Vectors double: half of what they hold may be empty. */
	size_t used = sizeof(*j) + j->pieces.bytes +
	              2 * (j->names.n + j->codes.n * sizeof(*j->codes.p) +
	                   j->rows.n * sizeof(*j->rows.p) + j->past.n * sizeof(*j->past.p));

	return used < j->max_bytes && j->max_bytes - used >= 2 * more;
}

int jitcode_name_add(struct jitcode *j, const char *name, size_t len, uint32_t *ret)
{
	int r = vec_reserve(&j->names, len + 1);

	if (r < 0)
		return r;
	*ret = (uint32_t)j->names.n;
	memcpy(j->names.p + j->names.n, name, len);
	j->names.p[j->names.n + len] = '\0';
	j->names.n += len + 1;
	return 0;
}

/* ---- pieces of now --------------------------------------------------------------------------- */

const struct jitcode_piece *jitcode_now(const struct jitcode *j, uint64_t addr)
{
	return imap_find(&j->pieces, addr);
}

bool jitcode_range_ok(uint64_t start, uint64_t size)
{
	return size > 0 && size <= JITCODE_SIZE_MAX && start < JITCODE_ADDR_END &&
	       size <= JITCODE_ADDR_END - start;
}

/* ---- new code -------------------------------------------------------------------------------- */

static bool same_name(const struct jitcode *j, uint32_t a, uint32_t b)
{
	return a == b || strcmp(&j->names.p[a], &j->names.p[b]) == 0;
}

/* Whether @code is the code of @p, seen again. Updates @p if @code says more of it. */
static bool merge(struct jitcode *j, struct jitcode_piece *p, uint64_t start, uint64_t end,
                  const struct jitcode_fn *code)
{
	struct jitcode_fn *old = &j->codes.p[p->code];

	if (p->start != start || p->end != end || p->origin != start)
		return false;
	if (old->timed == code->timed) {
		if (!same_name(j, old->name, code->name))
			return false;
	} else if (old->timed) {
		return true; /* a dump says more than a map */
	}
	/* Two sources may write one name in two ways: equal bounds mean the same code, unless its
	 * time says otherwise. */
	if (!old->timed || code->n_rows) {
		uint32_t id = old->id;

		*old = *code;
		old->id = id;
	}
	return true;
}

/* Moves the part of @p in [@start, @end) to the past; there is room. */
static void pass_away(struct jitcode *j, const struct jitcode_piece *p, uint64_t start,
                      uint64_t end, uint64_t end_ns)
{
	struct jitcode_past *q;

	if (end_ns <= p->begin_ns)
		return; /* it was never seen */
	q = &j->past.p[j->past.n++];
	*q = (struct jitcode_past){.p = *p, .end_ns = end_ns};
	q->p.start = MAX_OF(p->start, start);
	q->p.end = MIN_OF(p->end, end);
}

void jitcode_lose(struct jitcode *j, uint64_t start, uint64_t size)
{
	j->stats.over_limit++;
	/* No more pieces: of one that would be split only the first part stays. */
	j->pieces.max = j->pieces.n;
	(void)imap_cut(&j->pieces, start, start + size);
	j->pieces.max = SIZE_MAX;
}

int jitcode_put(struct jitcode *j, uint64_t start, uint64_t size, uint64_t time_ns,
                const struct jitcode_fn *code)
{
	const struct jitcode_piece now = {.start = start,
	                                  .end = start + size,
	                                  .origin = start,
	                                  .begin_ns = time_ns,
	                                  .code = (uint32_t)j->codes.n};
	const struct imap_pos first = imap_lower(&j->pieces, start);
	struct jitcode_piece *p = imap_at(&j->pieces, first);
	struct imap_pos at = first;
	size_t n_past = 0;
	int r;

	if (p && p->start < now.end && merge(j, p, start, now.end, code))
		return 0;
	for (; !j->full && (p = imap_at(&j->pieces, at)) && p->start < now.end;
	     at = imap_next(&j->pieces, at))
		n_past++;
	if (!jitcode_has_room(j, JITCODE_ENTRY_BYTES + n_past * sizeof(struct jitcode_past)) ||
	    j->codes.n >= UINT32_MAX / 2 || j->full) {
		/* For good: the pieces that one line overlaps must not be scanned again for each
		 * further line. */
		j->full = true;
		jitcode_lose(j, start, size);
		return 0;
	}
	if (vec_reserve(&j->past, n_past) < 0 || vec_reserve(&j->codes, 1) < 0)
		return -ENOMEM;
	for (at = first; n_past && (p = imap_at(&j->pieces, at)) && p->start < now.end;
	     at = imap_next(&j->pieces, at))
		pass_away(j, p, start, now.end, time_ns);
	j->codes.p[j->codes.n] = *code;
	j->codes.p[j->codes.n].id = (uint32_t)j->codes.n + 1;
	j->codes.n++;
	j->indexed = false;
	r = n_past ? imap_cut(&j->pieces, start, now.end) : 0;
	if (r == 0)
		r = imap_insert(&j->pieces, &now);
	if (r < 0)
		return r;
	j->stats.entries++;
	j->stats.reused += n_past > 0;
	return n_past > 0;
}

/* ---- the past -------------------------------------------------------------------------------- */

static int cmp_begin(const void *a, const void *b)
{
	const struct jitcode_past *x = a, *y = b;

	return (x->p.begin_ns > y->p.begin_ns) - (x->p.begin_ns < y->p.begin_ns);
}

/* Index of the last boundary at or below @addr; bounds[0] must be. */
static uint32_t bound_of(const struct jitcode *j, uint64_t addr)
{
	return (uint32_t)bisect_first(i, 1, j->n_bounds, j->bounds[i] > addr) - 1;
}

/* Visits each tree node that makes up a piece. Without @fill it counts the pieces of a node, with
 * @fill it stores them. */
static void place(struct jitcode *j, uint32_t idx, uint32_t *fill)
{
	const struct jitcode_piece *p = &j->past.p[idx].p;
	size_t l = (size_t)bound_of(j, p->start) + j->n_bounds;
	size_t r = (size_t)bound_of(j, p->end) + j->n_bounds;

	for (; l < r; l /= 2, r /= 2) {
		if (l & 1) {
			if (fill)
				j->items[fill[l]++] = idx;
			else
				j->first[l + 1]++;
			l++;
		}
		if (r & 1) {
			r--;
			if (fill)
				j->items[fill[r]++] = idx;
			else
				j->first[r + 1]++;
		}
	}
}

/* Builds the index of past pieces: O(n log n). */
static int index_past(struct jitcode *j)
{
	_cleanup_free_ uint32_t *fill = NULL;
	uint64_t sum = 0;
	size_t n = 0, nodes;

	forget_index(j);
	j->indexed = true;
	if (j->past.n == 0)
		return 0;
	qsort(j->past.p, j->past.n, sizeof(*j->past.p), cmp_begin);
	j->bounds = reallocarray(NULL, j->past.n, 2 * sizeof(*j->bounds));
	if (!j->bounds)
		return -ENOMEM;
	vec_each (q, &j->past) {
		j->bounds[n++] = q->p.start;
		j->bounds[n++] = q->p.end;
	}
	qsort(j->bounds, n, sizeof(*j->bounds), u64_cmp);
	j->n_bounds = 1;
	for (size_t i = 1; i < n; i++)
		if (j->bounds[i] != j->bounds[j->n_bounds - 1])
			j->bounds[j->n_bounds++] = j->bounds[i];
	nodes = 2 * (size_t)j->n_bounds;
	j->first = calloc(nodes + 1, sizeof(*j->first));
	fill = calloc(nodes + 1, sizeof(*fill));
	if (!j->first || !fill)
		return -ENOMEM;
	for (uint32_t i = 0; i < j->past.n; i++)
		place(j, i, NULL);
	for (size_t i = 0; i < nodes; i++) {
		sum += j->first[i + 1];
		if (sum > UINT32_MAX || sum > j->max_bytes / sizeof(*j->items))
			return -E2BIG;
		j->first[i + 1] = (uint32_t)sum;
	}
	memcpy(fill, j->first, (nodes + 1) * sizeof(*fill));
	j->items = reallocarray(NULL, sum, sizeof(*j->items));
	if (!j->items)
		return -ENOMEM;
	for (uint32_t i = 0; i < j->past.n; i++)
		place(j, i, fill);
	j->index_bytes =
	        2 * j->past.n * sizeof(*j->bounds) + (nodes + 1 + (size_t)sum) * sizeof(uint32_t);
	return 0;
}

/* Returns the first piece of a node that ends after @time_ns. Pieces of a node are disjoint in
 * time. */
static const struct jitcode_past *node_find(const struct jitcode *j, size_t node, uint64_t time_ns)
{
	const uint32_t end = j->first[node + 1];
	const size_t k =
	        bisect_first(i, j->first[node], end, j->past.p[j->items[i]].end_ns > time_ns);

	return k < end ? &j->past.p[j->items[k]] : NULL;
}

/* Returns the piece that was at @addr at @time_ns, or the first one after it. Pieces at one address
 * are disjoint in time: it is the earliest of those that end later. */
static const struct jitcode_piece *find_past(struct jitcode *j, uint64_t addr, uint64_t time_ns)
{
	const struct jitcode_past *best = NULL;

	if (!j->indexed && index_past(j) < 0) {
		forget_index(j);
		j->indexed = j->no_index = true;
		j->stats.over_limit++;
	}
	if (j->n_bounds < 2 || addr < j->bounds[0] || addr >= j->bounds[j->n_bounds - 1])
		return NULL;
	for (size_t i = (size_t)bound_of(j, addr) + j->n_bounds; i > 0; i /= 2) {
		const struct jitcode_past *q = node_find(j, i, time_ns);

		if (q && (!best || q->p.begin_ns < best->p.begin_ns))
			best = q;
	}
	return best ? &best->p : NULL;
}

/* ---- look-up --------------------------------------------------------------------------------- */

uint32_t jitcode_version(const struct jitcode *j, uint64_t addr)
{
	const struct jitcode_piece *p = jitcode_now(j, addr);

	return p ? j->codes.p[p->code].id : 0;
}

static const struct jitcode_row *row_of(const struct jitcode *j, const struct jitcode_fn *c,
                                        uint64_t off)
{
	const size_t k =
	        bisect_first(i, c->row, (size_t)c->row + c->n_rows, j->rows.p[i].off > off);

	return k > c->row ? &j->rows.p[k - 1] : NULL;
}

int jitcode_find(struct jitcode *j, uint64_t addr, uint64_t time_ns, struct sym_frame *ret)
{
	const struct jitcode_piece *p = jitcode_now(j, addr), *past;
	const struct jitcode_fn *c;
	const struct jitcode_row *row;
	uint32_t line = 0, column = 0;
	int r;

	if (j->past.n && (!p || p->begin_ns > time_ns)) {
		past = find_past(j, addr, time_ns);
		if (past)
			p = past;
		else if (j->no_index)
			return -ENOENT; /* the code of that time is not known any more */
	}
	if (!p)
		return -ENOENT;
	c = &j->codes.p[p->code];
	r = jitcode_name_split(&j->names.p[c->name], &j->name, &j->file, &line, &column);
	if (r < 0)
		return r;
	*ret = (struct sym_frame){.name = j->name.p,
	                          .linkage = &j->names.p[c->name],
	                          .file = j->file.len ? j->file.p : NULL,
	                          .line = line,
	                          .column = column};
	row = row_of(j, c, addr - p->origin);
	if (row) {
		if (row->file != JITCODE_NO_FILE)
			ret->file = &j->names.p[row->file];
		ret->line = row->line;
		ret->column = 0;
	}
	/* The line in the text is that of the beginning of the function. */
	ret->start_line = line;
	return 0;
}

const struct jitcode_stats *jitcode_stats(const struct jitcode *j)
{
	return &j->stats;
}

/* ---- files ----------------------------------------------------------------------------------- */

int jitcode_file_check(struct jitcode_file *f, int fd, uint64_t *ret_size, bool *ret_anew)
{
	uint8_t tail[JITCODE_TAIL_BYTES];
	struct stat st;
	ssize_t n;
	bool same;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size < 0)
		return -EINVAL;
	same = f->known && f->dev == st.st_dev && f->ino == st.st_ino &&
	       (uint64_t)st.st_size >= f->off;
	if (same && f->n_tail) {
		n = file_pread_full(fd, tail, f->n_tail, f->off - f->n_tail);
		if (n < 0)
			return (int)n;
		same = (size_t)n == f->n_tail && memcmp(tail, f->tail, f->n_tail) == 0;
	}
	*ret_anew = f->known && !same;
	if (!same)
		*f = (struct jitcode_file){.dev = st.st_dev, .ino = st.st_ino, .known = true};
	*ret_size = (uint64_t)st.st_size;
	return 0;
}

void jitcode_file_advance(struct jitcode_file *f, uint64_t off, const uint8_t *window,
                          uint64_t window_off)
{
	uint64_t have = off - window_off;

	/* A window may hold fewer bytes than the tail could keep. */
	f->n_tail = (uint32_t)MIN_OF(have, (uint64_t)JITCODE_TAIL_BYTES);
	memcpy(f->tail, window + (have - f->n_tail), f->n_tail);
	f->off = off;
}
