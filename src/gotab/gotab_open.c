/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the table, its header, and the start of the text.
 */
#include "gotab/gotab_priv.h"

#define MAGIC_12  0xfffffffbu
#define MAGIC_116 0xfffffffau
#define MAGIC_118 0xfffffff0u
#define MAGIC_120 0xfffffff1u

/* Bytes of a data segment that are searched for a table. */
#define DATA_SEARCH_BYTES (64ULL << 20)

/* Bytes of code that are searched for a function. Calls reach 2 GiB. */
#define CODE_SEARCH_BYTES (2ULL << 30)

#define HEADER_BYTES 8 /* magic, two zeros, quantum, size of a pointer; words follow */

/* For symbolization: least memory for windows, and the largest table. */
#define WINDOWS_MIN     4
#define TABLE_BYTES_MAX (2ULL << 30)
/* Longest string that is read as a name. */
#define STRING_BYTES_MAX 65536

/* ---- header ---------------------------------------------------------------------------------- */

/* Reads word @i after the header's first 8 bytes. */
static int header_word(struct gotab *t, unsigned int i, uint64_t *ret)
{
	struct cursor c = gotab_at(t, HEADER_BYTES + 8 * (uint64_t)i);

	return cursor_u64(&c, ret);
}

static int header_offset(struct gotab *t, unsigned int i, uint64_t *ret)
{
	uint64_t v;

	if (header_word(t, i, &v) < 0 || v > t->len)
		return -ENOENT;
	*ret = v;
	return 0;
}

/* names, cutab, filetab, pctab, functab: five words. */
static int header_offsets(struct gotab *t, unsigned int i)
{
	/* Without files there are still lines and names. */
	if (header_offset(t, i + 1, &t->cutab) < 0 || header_offset(t, i + 2, &t->filetab) < 0)
		t->cutab = t->filetab = t->len;
	return header_offset(t, i, &t->names) < 0 || header_offset(t, i + 3, &t->pctab) < 0 ||
	                       header_offset(t, i + 4, &t->funcs) < 0
	               ? -ENOENT
	               : 0;
}

static int read_header(struct gotab *t)
{
	struct cursor c = gotab_at(t, 0);
	uint32_t magic;
	uint8_t b[4];
	uint64_t entry_bytes;
	int r = 0;

	if (cursor_u32(&c, &magic) < 0 || cursor_bytes(&c, b, sizeof(b)) < 0 || b[0] || b[1] ||
	    b[2] != t->quantum || b[3] != 8 || header_word(t, 0, &t->n) < 0)
		return -ENOENT;
	switch (magic) {
	case MAGIC_12:
		t->version = GOTAB_12;
		t->funcs = HEADER_BYTES + 8;
		break;
	case MAGIC_116:
		t->version = GOTAB_116;
		r = header_offsets(t, 2);
		break;
	case MAGIC_118:
	case MAGIC_120:
		t->version = magic == MAGIC_118 ? GOTAB_118 : GOTAB_120;
		r = header_word(t, 2, &t->text);
		if (r == 0)
			r = header_offsets(t, 3);
		break;
	default:
		return -ENOENT;
	}
	entry_bytes = t->version >= GOTAB_118 ? 8 : 16;
	if (r < 0 || t->funcs > t->len || t->n > (t->len - t->funcs) / entry_bytes)
		return -ENOENT;
	return 0;
}

/* ---- start of the text ----------------------------------------------------------------------- */

/* runtime.goexit begins with a no-op and a call of runtime.goexit1, whose distance is known from
 * functab. */
#define GOEXIT_BYTES 8
struct goexit {
	uint64_t entry;
	size_t len;
	uint8_t code[GOEXIT_BYTES];
};

static void goexit_code(struct goexit *g, bool arm64, uint64_t callee)
{
	const uint32_t insn[2] = {
	        0xaa0003e0u, 0x94000000u | (uint32_t)(((callee - g->entry - 4) >> 2) & 0x3ffffff)};
	const uint32_t rel = (uint32_t)(callee - g->entry - 6);

	if (arm64) {
		memcpy(g->code, insn, sizeof(insn));
		g->len = sizeof(insn);
		return;
	}
	g->code[0] = 0x90;
	g->code[1] = 0xe8;
	memcpy(g->code + 2, &rel, sizeof(rel));
	g->code[6] = 0x90;
	g->len = 7;
}

/* Finds these bytes in the executable segments, with the whole text around them. */
static bool find_code(struct gotab *t, const struct goexit *g, uint64_t text_end,
                      uint64_t *ret_text)
{
	const struct img_segment *segs;
	const size_t n = img_segments(t->f, &segs);
	uint64_t left = CODE_SEARCH_BYTES, size;

	for (size_t i = 0; i < n; i++) {
		if (!segs[i].exec)
			continue;
		size = MIN_OF(MIN_OF(segs[i].file_size, segs[i].mem_size), left);
		left -= size;
		for (uint64_t at = 0; at < size;) {
			const size_t len = (size_t)MIN_OF(size - at, (uint64_t)GOTAB_CODE_BYTES);
			const uint8_t *p = t->code, *hit;

			t->code_len = 0;
			if (img_read_vaddr(t->f, segs[i].vaddr + at, t->code, len) < 0)
				break;
			while ((hit = memmem(p, len - (size_t)(p - t->code), g->code, g->len))) {
				uint64_t off = at + (uint64_t)(hit - t->code);

				if (off >= g->entry && size - (off - g->entry) >= text_end) {
					*ret_text = segs[i].vaddr + off - g->entry;
					return true;
				}
				p = hit + 1;
			}
			if (len < GOTAB_CODE_BYTES)
				break;
			at += len - GOEXIT_BYTES;
		}
	}
	return false;
}

/* Through windows, a large table of many functions would take too long. */
static bool goes_on(struct gotab *t)
{
	return t->data || gotab_spend(t, 1);
}

/*
 * Up to 1.25 the header has the start, but 0 or an unrelocated address in position-independent
 * files; 1.26 writes 0. So the start is searched for in the code: runtime.goexit is in every
 * program, and its bytes are known except for their address.
 */
static int find_text(struct gotab *t)
{
	const uint64_t from_header = t->text;
	struct gotab_func fn;
	struct goexit g = {0};
	uint64_t text_end, unused, found;
	unsigned int callees = 2; /* one for each of Go's calling conventions */
	bool seen = false;
	uint8_t code[GOEXIT_BYTES];

	if (t->version < GOTAB_118)
		return 0;
	if (gotab_entry(t, t->n, &text_end, &unused) < 0)
		return -ENOENT;
	t->text = 0;
	for (uint64_t i = 0; i < t->n && !seen && goes_on(t); i++) {
		seen = gotab_func(t, i, &fn) == 0 && strcmp(fn.name, "runtime.goexit") == 0;
		if (seen)
			g.entry = fn.start;
	}
	for (uint64_t i = 0; i < t->n && seen && callees && goes_on(t); i++) {
		if (gotab_func(t, i, &fn) < 0 || strcmp(fn.name, "runtime.goexit1") != 0)
			continue;
		callees--;
		goexit_code(&g, t->arm64, fn.start);
		if (from_header && from_header <= UINT64_MAX - g.entry &&
		    gotab_code(t, from_header + g.entry, code, g.len) == g.len &&
		    memcmp(code, g.code, g.len) == 0) {
			t->text = from_header;
			return 0;
		}
		if (find_code(t, &g, text_end, &found)) {
			t->text = found;
			return 0;
		}
	}
	t->text = from_header;
	return from_header ? 0 : -ENOENT;
}

/* ---- finding the table ----------------------------------------------------------------------- */

/* Checks whether a header could begin here: 8 bytes. */
static bool like_header(const struct gotab *t, const uint8_t *p)
{
	uint32_t magic;

	memcpy(&magic, p, sizeof(magic));
	return (magic == MAGIC_12 || magic == MAGIC_116 || magic == MAGIC_118 ||
	        magic == MAGIC_120) &&
	       p[4] == 0 && p[5] == 0 && p[6] == t->quantum && p[7] == 8;
}

/*
 * Finds a table without a section of its own. Before 1.26 the linker of C programs merges it into
 * .data.rel.ro of position-independent programs. That is in the last writable segment, or with lld
 * in a segment before it. Both are small in other files.
 */
static int search_segment(struct gotab *t, const struct img_segment *s, uint64_t size)
{
	t->code_len = 0;
	for (uint64_t at = 0; at < size; at += GOTAB_CODE_BYTES) {
		const size_t len = (size_t)MIN_OF(size - at, (uint64_t)GOTAB_CODE_BYTES);

		if (img_read_vaddr(t->f, s->vaddr + at, t->code, len) < 0)
			return -ENOENT;
		for (size_t i = (size_t)((0 - s->vaddr) & 7); i + 8 <= len; i += 8) {
			if (!like_header(t, t->code + i))
				continue;
			t->vaddr = s->vaddr + at + i;
			t->off = s->off + at + i;
			t->len = s->file_size - at - i;
			return 0;
		}
	}
	return -ENOENT;
}

static int search_data(struct gotab *t)
{
	const struct img_segment *segs;
	const size_t n = img_segments(t->f, &segs);
	uint64_t left = DATA_SEARCH_BYTES, size;
	int r = -ENOENT;

	for (size_t i = 0; i < n && r == -ENOENT; i++) {
		if (!segs[i].write || segs[i].exec)
			continue;
		size = MIN_OF(MIN_OF(segs[i].file_size, segs[i].mem_size), left);
		left -= size;
		r = search_segment(t, &segs[i], size);
	}
	return r;
}

/* Finds the table: 0, -ENOENT, or the error of img_area_find. */
static int find_table(struct gotab *t, struct img_area *ret)
{
	int r;

	switch (img_machine(t->f)) {
	case EM_X86_64:
		t->quantum = 1;
		break;
	case EM_AARCH64:
		t->arm64 = true;
		t->quantum = 4;
		break;
	default:
		return -ENOENT;
	}
	if (!img_is_64(t->f))
		return -ENOENT;
	t->code = malloc(GOTAB_CODE_BYTES);
	if (!t->code)
		return -ENOMEM;
	r = img_area_find(t->f, IMG_AREA_GOPCLNTAB, ret);
	if (r == 0) {
		t->off = ret->off;
		t->len = ret->file_size;
		t->vaddr = ret->vaddr;
	}
	return r;
}

static int load(struct gotab *t, const struct img_area *a, size_t max)
{
	size_t len;
	int r = img_area_load(t->f, a, max, &t->data, &len);

	if (r == 0)
		t->len = len;
	return r;
}

static int new_tab(struct img_file *f, struct gotab **ret)
{
	struct gotab *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->f = f;
	t->steps_left = GOTAB_STEPS_MAX;
	sbuf_init(&t->name, STRING_BYTES_MAX);
	sbuf_init(&t->file, STRING_BYTES_MAX);
	sbuf_init(&t->print, STRING_BYTES_MAX + 3); /* "[]" is printed as "[...]" */
	*ret = t;
	return 0;
}

int gotab_load(struct img_file *f, size_t max_bytes, struct gotab **ret)
{
	_cleanup_(gotab_freep) struct gotab *t = NULL;
	struct img_area a = {0};
	int r = new_tab(f, &t);

	if (r == 0)
		r = find_table(t, &a);
	if (r == 0) {
		r = load(t, &a, max_bytes);
	} else if (r == -ENOENT && t && t->code) {
		r = search_data(t);
		/* The table's end is unknown: that of the segment is used. */
		a.off = t->off;
		a.file_size = a.size = MIN_OF(t->len, (uint64_t)max_bytes);
		if (r == 0)
			r = load(t, &a, max_bytes);
	}
	if (r == 0)
		r = read_header(t);
	if (r == 0)
		r = find_text(t);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(t);
	return 0;
}

int gotab_open(struct img_file *f, size_t max_bytes, struct gotab **ret)
{
	_cleanup_(gotab_freep) struct gotab *t = NULL;
	struct img_area a = {0};
	int r = new_tab(f, &t);

	if (r == 0)
		r = find_table(t, &a);
	if (r == -ENOENT && t && t->code)
		r = search_data(t);
	if (r == 0 && t->len > TABLE_BYTES_MAX)
		r = -E2BIG;
	if (r < 0)
		return r;
	if (a.compression) {
		r = load(t, &a, max_bytes);
		if (r < 0)
			return r;
	}
	/* Twice what the table needs: trees of inlined calls may be outside. */
	t->n_windows = max_bytes / (GOTAB_WINDOW + GOTAB_OVERLAP);
	t->n_windows = (size_t)MIN_OF((uint64_t)t->n_windows, 2 * (t->len / GOTAB_WINDOW) + 16);
	t->n_windows = MAX_OF(t->n_windows, (size_t)WINDOWS_MIN);
	t->windows = calloc(t->n_windows, sizeof(*t->windows));
	if (!t->windows)
		return -ENOMEM;
	r = read_header(t);
	if (r == 0 && t->version >= GOTAB_118 && !gotab_module_find(t))
		r = find_text(t);
	if (r < 0)
		return r;
	freep(&t->code);
	t->code_len = 0;
	t->steps_left = GOTAB_STEPS_MAX;
	*ret = TAKE_PTR(t);
	return 0;
}

struct gotab *gotab_free(struct gotab *t)
{
	if (!t)
		return NULL;
	for (size_t i = 0; t->windows && i < t->n_windows; i++)
		free(t->windows[i].p);
	free(t->windows);
	free(t->data);
	free(t->code);
	sbuf_done(&t->name);
	sbuf_done(&t->file);
	sbuf_done(&t->print);
	free(t);
	return NULL;
}

void gotab_freep(struct gotab **t)
{
	*t = gotab_free(*t);
}
