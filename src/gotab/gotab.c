/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of the table, and values by pc.
 */
#include "gotab/gotab_priv.h"

/* Longest function name that is read. Any number of functions, 8 bytes each, may have the same long
 * name. */
#define NAME_BYTES_MAX 256

bool gotab_spend(struct gotab *t, uint64_t steps)
{
	if (t->steps_left < steps) {
		t->steps_left = 0;
		return false;
	}
	t->steps_left -= steps;
	return true;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* Returns bytes of the file in [off, end) from a window: at least GOTAB_OVERLAP of them. */
static struct cursor window_at(struct gotab *t, uint64_t off, uint64_t end)
{
	const uint64_t i = off / GOTAB_WINDOW, start = i * GOTAB_WINDOW;
	const size_t want = (size_t)MIN_OF(end - start, (uint64_t)GOTAB_WINDOW + GOTAB_OVERLAP);
	struct gotab_window *w = &t->windows[i % t->n_windows];
	struct cursor c;

	if (!w->p || w->i != i || w->len < want) {
		const struct img_area a = {.off = start, .file_size = want, .size = want};

		freep(&w->p);
		t->window_bytes -= w->len;
		w->len = 0;
		/* read over the budget as well: names are needed */
		(void)gotab_spend(t, GOTAB_WINDOW_STEPS);
		if (img_area_load(t->f, &a, want, &w->p, &w->len) < 0)
			return cursor_of(NULL, 0);
		w->i = i;
		t->window_bytes += w->len;
	}
	c = cursor_of(w->p, w->len);
	if (cursor_skip(&c, (size_t)(off - start)) < 0)
		c.p = c.end;
	return c;
}

struct cursor gotab_at(struct gotab *t, uint64_t off)
{
	struct cursor c;

	if (off >= t->len)
		return cursor_of(NULL, 0);
	if (!t->data)
		return window_at(t, t->off + off, t->off + t->len);
	c = cursor_of(t->data, (size_t)t->len);
	if (cursor_skip(&c, (size_t)off) < 0)
		c.p = c.end;
	return c;
}

struct cursor gotab_at_vaddr(struct gotab *t, uint64_t vaddr)
{
	const struct img_segment *segs;
	const size_t n = img_segments(t->f, &segs);

	for (size_t i = 0; t->windows && i < n; i++)
		if (vaddr >= segs[i].vaddr && vaddr - segs[i].vaddr < segs[i].file_size)
			return window_at(t, segs[i].off + (vaddr - segs[i].vaddr),
			                 segs[i].off + segs[i].file_size);
	return cursor_of(NULL, 0);
}

bool gotab_read_off(struct gotab *t, uint64_t off, void *buf, size_t len)
{
	const struct img_area a = {.off = off, .file_size = len, .size = len};
	_cleanup_free_ uint8_t *p = NULL;
	size_t got;

	if (img_area_load(t->f, &a, len, &p, &got) < 0 || got != len)
		return false;
	memcpy(buf, p, len);
	return true;
}

/* ---- functions ------------------------------------------------------------------------------- */

int gotab_entry(struct gotab *t, uint64_t i, uint64_t *ret_entry, uint64_t *ret_record)
{
	const bool narrow = t->version >= GOTAB_118;
	struct cursor c = gotab_at(t, t->funcs + i * (narrow ? 8 : 16));
	uint32_t e32, r32 = 0;

	*ret_record = 0;
	if (!narrow) {
		if (cursor_u64(&c, ret_entry) < 0)
			return -EINVAL;
		return i < t->n && cursor_u64(&c, ret_record) < 0 ? -EINVAL : 0;
	}
	if (cursor_u32(&c, &e32) < 0 || (i < t->n && cursor_u32(&c, &r32) < 0))
		return -EINVAL;
	*ret_entry = e32;
	*ret_record = r32;
	return 0;
}

/*
 *                1.2 (1.12)   1.16   1.18   1.20
 *  entry            8           8      4      4
 *  name, args, deferreturn, pcsp, pcfile, pcln, npcdata: 4 each
 *  cu               -           4      4      4
 *  start_line       -           -      -      4
 *  func_id, flag, 0, nfuncdata: 1 each; before 1.12 nfuncdata had all 4, so it reads as 0 here
 *  pcdata[npcdata]  4 each
 */
int gotab_record_read(struct gotab *t, uint64_t i, struct gotab_record *ret)
{
	uint64_t start, end, rec, unused;
	const uint64_t base = t->version == GOTAB_12 ? 0 : t->funcs;
	const size_t entry_bytes = t->version >= GOTAB_118 ? 4 : 8;
	struct gotab_record r = {.cu = UINT32_MAX};
	struct cursor c;
	uint8_t zero;

	if (i >= t->n || gotab_entry(t, i, &start, &rec) < 0 ||
	    gotab_entry(t, i + 1, &end, &unused) < 0)
		return -EINVAL;
	if (start >= end || t->text > UINT64_MAX - end || rec > t->len - base)
		return -EINVAL;
	r.start = t->text + start;
	r.end = t->text + end;
	c = gotab_at(t, base + rec);
	if (cursor_skip(&c, entry_bytes) < 0 || cursor_u32(&c, &r.name) < 0 ||
	    cursor_skip(&c, 8) < 0 || cursor_u32(&c, &r.pcsp) < 0 ||
	    cursor_u32(&c, &r.pcfile) < 0 || cursor_u32(&c, &r.pcln) < 0 ||
	    cursor_u32(&c, &r.npcdata) < 0)
		return -EINVAL;
	if ((t->version >= GOTAB_116 && cursor_u32(&c, &r.cu) < 0) ||
	    (t->version >= GOTAB_120 && cursor_u32(&c, &r.start_line) < 0))
		return -EINVAL;
	if (cursor_u8(&c, &r.func_id) < 0 || cursor_u8(&c, &r.flag) < 0 ||
	    cursor_u8(&c, &zero) < 0 || cursor_u8(&c, &r.nfuncdata) < 0)
		return -EINVAL;
	r.pcdata = base + rec + entry_bytes + 32 + (t->version >= GOTAB_116 ? 4 : 0) +
	           (t->version >= GOTAB_120 ? 4 : 0);
	*ret = r;
	return 0;
}

/* Functions that end a stack, for versions whose tables do not flag them. */
static bool is_top(const char *name)
{
	return strcmp(name, "runtime.goexit") == 0 || strcmp(name, "runtime.mstart") == 0 ||
	       strcmp(name, "runtime.rt0_go") == 0;
}

/* The kernel starts the program there. A library's start is called, and returns. */
static bool is_start(const char *name)
{
	return str_starts(name, "_rt0_") && !strstr(name, "_lib");
}

int gotab_func(struct gotab *t, uint64_t i, struct gotab_func *ret)
{
	struct gotab_func fn = {.name = ""};
	struct gotab_record rec;
	struct cursor c, name;

	if (gotab_record_read(t, i, &rec) < 0)
		return -EINVAL;
	fn.start = rec.start;
	fn.end = rec.end;
	fn.pcsp = rec.pcsp;
	c = gotab_at(t, t->names + (uint64_t)rec.name);
	if (cursor_sub(&c, MIN_OF(cursor_left(&c), (size_t)NAME_BYTES_MAX), &name) < 0 ||
	    cursor_str(&name, &fn.name) < 0)
		fn.name = "";
	fn.top = (t->version != GOTAB_12 && (rec.flag & 1)) || is_start(fn.name) ||
	         (t->version < GOTAB_118 && is_top(fn.name));
	*ret = fn;
	return 0;
}

/* ---- values by pc ---------------------------------------------------------------------------- */

/* Numbers of pctab: 7 bits a byte, as LEB128, modulo 2^32. */
static int long_number(struct cursor *c, uint32_t *ret)
{
	uint64_t v;

	if (cursor_uleb(c, &v) < 0 || v > UINT32_MAX)
		return -EINVAL;
	*ret = (uint32_t)v;
	return 0;
}

/* Most of them have one byte. Symbolizing in large functions is reading these numbers: a call for
 * each costs half as much again. */
static inline int pc_number(struct cursor *c, uint32_t *ret)
{
	if (cursor_left(c) == 0 || *c->p >= 0x80)
		return long_number(c, ret);
	*ret = *c->p++;
	return 0;
}

void gotab_values_begin(struct gotab *t, uint32_t pctab_at, uint64_t start, uint64_t end,
                        struct gotab_values *ret)
{
	*ret = (struct gotab_values){.from = start,
	                             .to = start,
	                             .value = -1,
	                             .start = start,
	                             .end = end,
	                             .at = t->pctab + (uint64_t)pctab_at};
	ret->c = gotab_at(t, ret->at);
}

#define STEP_BYTES 20 /* bytes of a step: two numbers, of 10 bytes if they are padded */

int gotab_values_next(struct gotab *t, struct gotab_values *v)
{
	const uint64_t pc = v->to;
	uint32_t value_delta, pc_delta;
	size_t left = cursor_left(&v->c);

	if (pc >= v->end)
		return 0;
	if (!t->data && left < STEP_BYTES) { /* in this window */
		v->c = gotab_at(t, v->at);
		left = cursor_left(&v->c);
	}
	if (pc_number(&v->c, &value_delta) < 0)
		return -EINVAL;
	if (value_delta == 0 && pc != v->start)
		return 0;
	if (pc_number(&v->c, &pc_delta) < 0 || pc_delta == 0)
		return -EINVAL;
	v->at += left - cursor_left(&v->c);
	/* Zig-zag. */
	v->value = (int32_t)((uint32_t)v->value + ((value_delta >> 1) ^ (0 - (value_delta & 1))));
	v->from = pc;
	v->to = pc + MIN_OF((uint64_t)pc_delta * t->quantum, v->end - pc);
	return 1;
}

/* ---- code ------------------------------------------------------------------------------------ */

size_t gotab_code(struct gotab *t, uint64_t vaddr, uint8_t *buf, size_t len)
{
	const struct img_segment *segs;
	size_t n;

	if (!t->code) {
		t->code = malloc(GOTAB_CODE_BYTES);
		if (!t->code)
			return 0;
	}
	if (!t->code_len || vaddr < t->code_at || vaddr - t->code_at >= t->code_len ||
	    t->code_len - (vaddr - t->code_at) < len) {
		size_t got = 0;

		n = img_segments(t->f, &segs);
		for (size_t i = 0; i < n && got == 0; i++)
			if (segs[i].exec && vaddr >= segs[i].vaddr &&
			    vaddr - segs[i].vaddr < segs[i].file_size)
				got = (size_t)MIN_OF(segs[i].file_size - (vaddr - segs[i].vaddr),
				                     (uint64_t)GOTAB_CODE_BYTES);
		t->code_len = 0;
		if (got == 0 || img_read_vaddr(t->f, vaddr, t->code, got) < 0)
			return 0;
		t->code_at = vaddr;
		t->code_len = got;
	}
	len = MIN_OF(len, t->code_len - (size_t)(vaddr - t->code_at));
	memcpy(buf, t->code + (vaddr - t->code_at), len);
	return len;
}

uint64_t gotab_count(const struct gotab *t)
{
	return t->n;
}

size_t gotab_bytes(const struct gotab *t)
{
	return sizeof(*t) + (t->data ? (size_t)t->len : 0) + t->window_bytes +
	       t->n_windows * sizeof(*t->windows) + (t->code ? GOTAB_CODE_BYTES : 0) + t->name.cap +
	       t->file.cap + t->print.cap;
}
