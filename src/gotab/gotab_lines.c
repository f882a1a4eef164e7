/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of an address: its function, and the calls that were inlined there. Each inlined call has
 * an instruction whose own position is that of the call. The inlined calls around that instruction
 * lead on to the function itself.
 */
#include "gotab/gotab_priv.h"

/* frames inlined into each other, with the function; compilers make about 20 */
#define FRAMES_MAX 64
/* A look-up adds this to the budget, more than an ordinary one needs. */
#define STEPS_EACH 20000

/* Indexes of the data of inlined calls in pcdata and funcdata of a record. */
struct inline_slots {
	uint8_t pcdata, funcdata;
};

struct call {
	uint64_t pc; /* an instruction with the position of this frame */
	uint32_t name, start_line;
	bool wrapper;
};

/* ---- strings --------------------------------------------------------------------------------- */

/* Reads the string at an offset of the table into @b: 0, -EINVAL (not terminated, or too long),
 * -ENOMEM. */
static int read_string(struct gotab *t, uint64_t at, struct sbuf *b)
{
	sbuf_reset(b);
	for (;;) {
		struct cursor c = gotab_at(t, at), part;
		const size_t n = MIN_OF(cursor_left(&c), (size_t)GOTAB_OVERLAP);
		const uint8_t *end;
		size_t len;
		int r;

		if (n == 0)
			return -EINVAL;
		end = memchr(c.p, 0, n);
		len = end ? (size_t)(end - c.p) : n;
		if (cursor_sub(&c, len, &part) < 0)
			return -EINVAL;
		r = sbuf_add(b, part.p, len);
		if (r < 0)
			return r == -ENOMEM ? r : -EINVAL;
		if (end)
			return 0;
		at += len;
	}
}

/* Bytes are charged, so that 64 names of 64 KiB for each address are not free. */
static int read_name(struct gotab *t, uint32_t name)
{
	int r = read_string(t, t->names + (uint64_t)name, &t->name);

	if (r < 0)
		return r;
	return t->name.len && gotab_spend(t, t->name.len / 16) ? 0 : -EINVAL;
}

/* Returns t->name as tracebacks print it: type arguments, from the first '[' to the last ']', are
 * shortened. */
static int printed_name(struct gotab *t, const char **ret)
{
	const char *const name = t->name.p, *from = strchr(name, '['),
	                  *to = from ? strrchr(name, ']') : NULL;

	if (!to || to < from) {
		*ret = name;
		return 0;
	}
	sbuf_reset(&t->print);
	sbuf_add(&t->print, name, (size_t)(from - name));
	sbuf_str(&t->print, "[...]");
	sbuf_str(&t->print, to + 1);
	*ret = t->print.p;
	return t->print.err;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Reads a value of a table "value by pc". Returns false if it has none. */
static bool value_of(struct gotab *t, const struct gotab_record *rec, enum gotab_kind kind,
                     uint32_t pctab_at, uint64_t pc, uint32_t *ret)
{
	struct gotab_values *const v = &t->ended[kind];

	if (pctab_at == 0)
		return false;
	if (t->ended_at[kind] == pctab_at && v->start == rec->start && v->end == rec->end &&
	    pc >= v->from)
		v->c = gotab_at(t, v->at);
	else
		gotab_values_begin(t, pctab_at, rec->start, rec->end, v);
	t->ended_at[kind] = pctab_at;
	while (pc >= v->to) {
		if (!gotab_spend(t, 1) || gotab_values_next(t, v) <= 0) {
			t->ended_at[kind] = 0;
			return false;
		}
	}
	*ret = (uint32_t)v->value;
	return v->value >= 0;
}

static uint32_t u32_at(struct gotab *t, uint64_t at, uint32_t otherwise)
{
	struct cursor c = gotab_at(t, at);
	uint32_t v;

	return cursor_u32(&c, &v) == 0 ? v : otherwise;
}

/* Returns the offset of a file's name in the table, 0 if it is not known. */
static uint64_t file_name_off(struct gotab *t, const struct gotab_record *rec, uint32_t fileno)
{
	uint32_t v;

	if (t->version == GOTAB_12) {
		const uint64_t files = u32_at(t, t->funcs + t->n * 16 + 8, 0);

		if (files == 0 || fileno == 0 || fileno >= u32_at(t, files, 0))
			return 0;
		return u32_at(t, files + 4 * (uint64_t)fileno, 0);
	}
	if (rec->cu == UINT32_MAX)
		return 0;
	v = u32_at(t, t->cutab + 4 * ((uint64_t)rec->cu + fileno), UINT32_MAX);
	return v == UINT32_MAX ? 0 : t->filetab + (uint64_t)v;
}

/* Reads file and line of an instruction: 0, -ENOMEM. */
static int position(struct gotab *t, const struct gotab_record *rec, uint64_t pc,
                    struct gotab_frame *f)
{
	uint32_t fileno, line;
	uint64_t at;
	int r = 0;

	f->file = NULL;
	f->line = 0;
	if (!value_of(t, rec, GOTAB_FILES, rec->pcfile, pc, &fileno) ||
	    !value_of(t, rec, GOTAB_LINES, rec->pcln, pc, &line))
		return 0;
	f->line = line;
	at = file_name_off(t, rec, fileno);
	if (at && at != t->file_at) {
		t->file_at = 0;
		r = read_string(t, at, &t->file);
		if (r == -ENOMEM)
			return r;
		if (r == 0 && gotab_spend(t, t->file.len / 16))
			t->file_at = at;
	}
	if (at && at == t->file_at)
		f->file = t->file.p;
	return 0;
}

/* ---- inlined calls --------------------------------------------------------------------------- */

/* Returns the address of a function's tree, 0 if it has none. */
static uint64_t tree_of(struct gotab *t, const struct gotab_record *rec, uint8_t funcdata)
{
	uint64_t at = rec->pcdata + 4 * (uint64_t)rec->npcdata, v = 0;
	struct cursor c;
	uint32_t off;

	if (funcdata >= rec->nfuncdata)
		return 0;
	if (t->version >= GOTAB_118) {
		off = u32_at(t, at + 4 * (uint64_t)funcdata, UINT32_MAX);
		return off == UINT32_MAX || t->gofunc == 0 ? 0 : t->gofunc + off;
	}
	c = gotab_at(t, ((at + 7) & ~UINT64_C(7)) + 8 * (uint64_t)funcdata);
	return cursor_u64(&c, &v) == 0 ? v : 0;
}

/* Returns whether a name begins there: the byte before it ends another one. Before 1.16 the layout
 * of a tree varied, and this heuristic recognizes it. */
static bool like_name(struct gotab *t, uint32_t name)
{
	struct cursor c = gotab_at(t, t->names + (uint64_t)name - 1);
	uint8_t before, first;

	return name && cursor_u8(&c, &before) == 0 && cursor_u8(&c, &first) == 0 && before == 0 &&
	       first != 0;
}

/*
 * Wrappers that the compiler makes have the runtime's last function id, which has been 20 to 23.
 * Other functions with these ids are written in assembly, where nothing is inlined.
 */
static bool is_wrapper(const struct gotab *t, uint8_t func_id)
{
	return func_id >= (t->version == GOTAB_12 ? 20 : 21);
}

/* Reads call @i of a tree; ret->pc: of the call. Returns false if it is damaged. */
static bool read_call(struct gotab *t, const struct gotab_record *rec, uint64_t tree, uint32_t i,
                      struct call *ret)
{
	const bool narrow = t->version >= GOTAB_120;
	struct cursor c = gotab_at_vaddr(t, tree + (uint64_t)i * (narrow ? 16 : 20));
	struct call call = {.pc = 0};
	uint32_t parent_pc;
	uint8_t func_id;

	/* 1.20: id, 3 bytes, name, instruction, line of the function
	 * 1.12: parent (2 bytes), id, 1 byte, file, line, name, instruction */
	if (cursor_skip(&c, narrow ? 0 : 2) < 0 || cursor_u8(&c, &func_id) < 0 ||
	    cursor_skip(&c, narrow ? 3 : 9) < 0 || cursor_u32(&c, &call.name) < 0 ||
	    cursor_u32(&c, &parent_pc) < 0 || (narrow && cursor_u32(&c, &call.start_line) < 0))
		return false;
	if (parent_pc >= rec->end - rec->start ||
	    (t->version == GOTAB_12 && !like_name(t, call.name)))
		return false;
	call.pc = rec->start + parent_pc;
	call.wrapper = is_wrapper(t, func_id);
	*ret = call;
	return true;
}

/* Lists the frames of @pc, at most FRAMES_MAX; the last is the function. @ret_n: how many. 0,
 * -ENOMEM. */
static int read_calls(struct gotab *t, const struct gotab_record *rec, uint64_t pc,
                      const struct inline_slots *at, struct call *calls, size_t *ret_n)
{
	const uint64_t tree = tree_of(t, rec, at->funcdata);
	uint32_t table = 0, i;
	size_t n = 0;
	int r;

	if (tree && at->pcdata < rec->npcdata)
		table = u32_at(t, rec->pcdata + 4 * (uint64_t)at->pcdata, 0);
	while (n < FRAMES_MAX - 1 && value_of(t, rec, GOTAB_CALLS, table, pc, &i)) {
		struct call call;

		if (!read_call(t, rec, tree, i, &call))
			break;
		r = read_name(t, call.name);
		if (r == -ENOMEM)
			return r;
		if (r < 0)
			break;
		calls[n] = call;
		calls[n++].pc = pc;
		pc = call.pc;
	}
	calls[n++] =
	        (struct call){.pc = pc,
	                      .name = rec->name,
	                      .start_line = rec->start_line,
	                      /* Before 1.20 or 1.21 the runtime always prints it. */
	                      .wrapper = t->version >= GOTAB_120 && is_wrapper(t, rec->func_id)};
	*ret_n = n;
	return 0;
}

static int all_calls(struct gotab *t, const struct gotab_record *rec, uint64_t pc,
                     struct call *calls, size_t *ret_n)
{
	/* 1.14 and 1.15, then 1.12 and 1.13; all since 1.16 */
	static const struct inline_slots old[] = {{2, 4}, {1, 2}}, now = {2, 3};
	int r = 0;

	if (t->version != GOTAB_12)
		return read_calls(t, rec, pc, &now, calls, ret_n);
	for (size_t i = 0; i < ARRAY_SIZE(old); i++) {
		r = read_calls(t, rec, pc, &old[i], calls, ret_n);
		if (r < 0 || *ret_n > 1)
			break;
	}
	return r;
}

/* Leaves out wrappers if another frame remains, else all but the function. Returns how many
 * remain. */
static size_t leave_out_wrappers(struct call *calls, size_t n)
{
	const struct call function = calls[n - 1];
	size_t kept = 0;

	for (size_t i = 0; i < n; i++)
		if (!calls[i].wrapper)
			calls[kept++] = calls[i];
	if (kept == 0)
		calls[kept++] = function;
	return kept;
}

/* ---- functions ------------------------------------------------------------------------------- */

/* Finds the function of an address: 0, -ENOENT, -EINVAL. */
static int find_record(struct gotab *t, uint64_t vaddr, struct gotab_record *ret)
{
	uint64_t lo = 0, hi = t->n, entry, unused;
	int r;

	if (vaddr < t->text)
		return -ENOENT;
	while (lo < hi) { /* the first one that begins after it */
		const uint64_t mid = lo + (hi - lo) / 2;

		if (gotab_entry(t, mid, &entry, &unused) < 0)
			return -EINVAL;
		if (entry <= vaddr - t->text)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == 0)
		return -ENOENT;
	r = gotab_record_read(t, lo - 1, ret);
	if (r == 0 && (vaddr < ret->start || vaddr >= ret->end))
		r = -ENOENT;
	return r;
}

int gotab_resolve(struct gotab *t, uint64_t vaddr, gotab_frame_fn fn, void *arg)
{
	struct call calls[FRAMES_MAX];
	struct gotab_record rec;
	size_t n = 0;
	int r;

	t->steps_left = MIN_OF(t->steps_left + STEPS_EACH, GOTAB_STEPS_MAX);
	r = find_record(t, vaddr, &rec);
	if (r == 0)
		r = read_name(t, rec.name);
	if (r == 0)
		r = all_calls(t, &rec, vaddr, calls, &n);
	if (r < 0)
		return r;
	n = leave_out_wrappers(calls, n);
	for (size_t i = 0; i < n; i++) {
		const bool last = i + 1 == n;
		struct gotab_frame f = {.start_line = calls[i].start_line, .inlined = !last};

		r = read_name(t, calls[i].name);
		if (r == 0)
			r = printed_name(t, &f.name);
		if (r == 0)
			r = position(t, &rec, calls[i].pc, &f);
		if (r == 0)
			r = fn(arg, &f, last);
		if (r < 0)
			return r;
	}
	return 0;
}
