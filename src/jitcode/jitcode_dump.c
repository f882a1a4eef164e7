/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of a jitdump: code with its times, its lines and its moves.
 * Source: Linux, tools/perf/Documentation/jitdump-specification.txt.
 */
#include "jitcode/jitcode_priv.h"

#define DUMP_MAGIC       0x4a695444U /* "JiTD" in the byte order of the writer */
#define DUMP_VERSION     1
#define DUMP_HEADER_MIN  40
#define DUMP_ARCH_TIME   1U /* of the flags */
#define DUMP_RECORD_HEAD 16
#define DUMP_LOAD_HEAD   40
#define DUMP_MOVE_BYTES  48
#define DUMP_DEBUG_HEAD  16
/* Native code is not read; only debug information gets this large. */
#define DUMP_DEBUG_MAX (4U << 20)
#define DUMP_ROWS_MAX  65536 /* lines of one function */

enum { DUMP_LOAD = 0, DUMP_MOVE = 1, DUMP_DEBUG_INFO = 2, DUMP_CLOSE = 3, DUMP_UNWINDING = 4 };

struct record {
	uint32_t id, size;
	uint64_t time_ns;
};

/* ---- debug information ----------------------------------------------------------------------- */

static void forget_pending(struct jitcode *j)
{
	memset(j->pending, 0, sizeof(j->pending));
	j->next_pending = 0;
}

static int cmp_row(const void *a, const void *b)
{
	const struct jitcode_row *x = a, *y = b;

	return (x->off > y->off) - (x->off < y->off);
}

/* A file's name, shared with the row before: 0, -EINVAL, -ENOMEM. */
static int row_file(struct jitcode *j, struct cursor *c, uint32_t before, uint32_t *ret)
{
	const char *file;
	size_t len;

	*ret = JITCODE_NO_FILE;
	if (cursor_str(c, &file) < 0)
		return -EINVAL;
	if (strcmp(file, "\xff") == 0) { /* as before */
		*ret = before;
		return 0;
	}
	len = strlen(file);
	if (len == 0 || len > JITCODE_NAME_MAX)
		return 0;
	/* Most functions come from the file of the last one. */
	if (j->last_file != JITCODE_NO_FILE && strcmp(&j->names.p[j->last_file], file) == 0) {
		*ret = j->last_file;
		return 0;
	}
	if (jitcode_name_add(j, file, len, ret) < 0)
		return -ENOMEM;
	j->last_file = *ret;
	return 0;
}

/* 0, -EINVAL (damaged: nothing of it is kept), -ENOMEM. */
static int debug_info(struct jitcode *j, struct cursor c)
{
	struct jitcode_pending pend = {.row = (uint32_t)j->rows.n};
	uint32_t before = JITCODE_NO_FILE;
	uint64_t n;
	int r = 0;

	if (cursor_u64(&c, &pend.addr) < 0 || cursor_u64(&c, &n) < 0)
		return -EINVAL;
	if (n == 0 || n > DUMP_ROWS_MAX)
		return n ? -EINVAL : 0;
	if (!jitcode_has_room(j, n * sizeof(struct jitcode_row) + cursor_left(&c))) {
		j->stats.over_limit++;
		return 0;
	}
	if (vec_reserve(&j->rows, n) < 0)
		return -ENOMEM;
	for (uint64_t i = 0; i < n && r == 0; i++) {
		struct jitcode_row row = {0};
		uint32_t discriminator;
		uint64_t addr;

		if (cursor_u64(&c, &addr) < 0 || cursor_u32(&c, &row.line) < 0 ||
		    cursor_u32(&c, &discriminator) < 0)
			r = -EINVAL;
		if (r == 0)
			r = row_file(j, &c, before, &row.file);
		if (r < 0 || addr < pend.addr || addr - pend.addr > JITCODE_SIZE_MAX)
			continue; /* a row outside of the code is dropped alone */
		before = row.file;
		row.off = (uint32_t)(addr - pend.addr);
		(void)vec_push(&j->rows, row); /* has its room */
	}
	if (r < 0) {
		j->rows.n = pend.row;
		return r;
	}
	pend.n_rows = (uint32_t)j->rows.n - pend.row;
	if (pend.n_rows)
		qsort(&j->rows.p[pend.row], pend.n_rows, sizeof(*j->rows.p), cmp_row);
	j->pending[j->next_pending++ % JITCODE_PENDING] = pend;
	return 0;
}

static void take_pending(struct jitcode *j, uint64_t addr, struct jitcode_fn *code)
{
	for (size_t i = 0; i < JITCODE_PENDING; i++) {
		struct jitcode_pending *p = &j->pending[i];

		if (!p->n_rows || p->addr != addr)
			continue;
		code->row = p->row;
		code->n_rows = p->n_rows;
		p->n_rows = 0;
	}
}

/* ---- records --------------------------------------------------------------------------------- */

/* Parses the head of a load record and its name; the code after it is not read. */
static int load(struct jitcode *j, struct cursor c, uint32_t size, uint64_t time_ns)
{
	struct jitcode_fn code = {.timed = true};
	uint64_t addr, len, skipped;
	uint32_t pid, tid;
	const char *name;
	int r;

	/* pid, tid, where it will lie, where it lies, size, index */
	if (cursor_u32(&c, &pid) < 0 || cursor_u32(&c, &tid) < 0 || cursor_u64(&c, &skipped) < 0 ||
	    cursor_u64(&c, &addr) < 0 || cursor_u64(&c, &len) < 0 || cursor_u64(&c, &skipped) < 0)
		return -EINVAL;
	if (cursor_str(&c, &name) < 0 || !jitcode_range_ok(addr, len) || !*name ||
	    strlen(name) > JITCODE_NAME_MAX || len > size)
		return -EINVAL;
	take_pending(j, addr, &code);
	if (!jitcode_has_room(j, strlen(name) + 1 + JITCODE_ENTRY_BYTES)) {
		jitcode_lose(j, addr, len);
		return 0;
	}
	r = jitcode_name_add(j, name, strlen(name), &code.name);
	return r < 0 ? r : jitcode_put(j, addr, len, time_ns, &code);
}

static int move(struct jitcode *j, struct cursor c, uint64_t time_ns)
{
	uint64_t skipped, from, to, len;
	const struct jitcode_piece *p;
	struct jitcode_fn code;
	uint32_t pid, tid;

	if (cursor_u32(&c, &pid) < 0 || cursor_u32(&c, &tid) < 0 || cursor_u64(&c, &skipped) < 0 ||
	    cursor_u64(&c, &from) < 0 || cursor_u64(&c, &to) < 0 || cursor_u64(&c, &len) < 0)
		return -EINVAL;
	p = jitcode_now(j, from);
	if (!p || p->origin != from || !jitcode_range_ok(to, len))
		return -EINVAL; /* of code that was never loaded */
	code = j->codes.p[p->code];
	return jitcode_put(j, to, len, time_ns, &code);
}

/* ---- the file -------------------------------------------------------------------------------- */

/* Bytes of the file: window[*len) from @off on. */
struct view {
	int fd;
	uint64_t off;
	size_t len, cap;
};

/* [@off, @off + @len), at least as much of it as the file has: 0, errno. */
static int look(struct jitcode *j, struct view *v, uint64_t off, size_t len, struct cursor *ret)
{
	ssize_t n;

	if (off < v->off || off - v->off > v->len || v->len - (off - v->off) < len) {
		size_t want = MAX_OF(len, (size_t)JITCODE_WINDOW_BYTES);

		if (want > v->cap) {
			uint8_t *p = realloc(j->window, want);

			if (!p)
				return -ENOMEM;
			j->window = p;
			v->cap = want;
		}
		n = file_pread_full(v->fd, j->window, want, off);
		if (n < 0)
			return (int)n;
		v->off = off;
		v->len = (size_t)n;
	}
	*ret = cursor_of(j->window + (off - v->off), MIN_OF(len, v->len - (off - v->off)));
	return 0;
}

/* Reads the file header. Returns: 0, -EAGAIN (not written yet), -EINVAL (no jitdump, or another
 * byte order), errno. */
static int header(struct jitcode *j, struct view *v, uint64_t size)
{
	uint32_t magic, version, total, skipped;
	uint64_t time, flags;
	struct cursor c;
	int r;

	if (size < DUMP_HEADER_MIN)
		return -EAGAIN;
	r = look(j, v, 0, DUMP_HEADER_MIN, &c);
	if (r < 0)
		return r;
	if (cursor_u32(&c, &magic) < 0 || cursor_u32(&c, &version) < 0 ||
	    cursor_u32(&c, &total) < 0 || cursor_u32(&c, &skipped) < 0 ||
	    cursor_u32(&c, &skipped) < 0 || cursor_u32(&c, &skipped) < 0 ||
	    cursor_u64(&c, &time) < 0 || cursor_u64(&c, &flags) < 0)
		return -EAGAIN; /* it became shorter meanwhile */
	if (magic != DUMP_MAGIC || version != DUMP_VERSION || total < DUMP_HEADER_MIN)
		return -EINVAL;
	j->arch_time = flags & DUMP_ARCH_TIME;
	j->dump.off = total;
	return 0;
}

/* One record, all of which is in the file. As jitcode_put; -EINVAL: damaged. */
static int record(struct jitcode *j, struct view *v, const struct record *rec, uint64_t off,
                  uint64_t now_ns)
{
	uint32_t body = rec->size - DUMP_RECORD_HEAD;
	uint64_t time_ns = j->arch_time ? now_ns : MIN_OF(rec->time_ns, now_ns);
	size_t want;
	struct cursor c;
	int r;

	switch (rec->id) {
	case DUMP_LOAD:
		want = DUMP_LOAD_HEAD + JITCODE_NAME_MAX + 1;
		break;
	case DUMP_MOVE:
		want = DUMP_MOVE_BYTES;
		break;
	case DUMP_DEBUG_INFO:
		if (body > DUMP_DEBUG_MAX)
			return -EINVAL;
		want = body;
		break;
	default: /* CLOSE, UNWINDING_INFO, and what may come */
		return 0;
	}
	r = look(j, v, off + DUMP_RECORD_HEAD, MIN_OF(want, (size_t)body), &c);
	if (r < 0)
		return r;
	/* Threads may write records out of the order of their times. */
	j->dump_time_ns = time_ns = MAX_OF(time_ns, j->dump_time_ns);
	if (rec->id == DUMP_LOAD)
		return load(j, c, body, time_ns);
	return rec->id == DUMP_MOVE ? move(j, c, time_ns) : debug_info(j, c);
}

/* Reads the complete records. Returns how many replaced other code, or errno. */
static int records(struct jitcode *j, struct view *v, uint64_t size, uint64_t now_ns)
{
	uint64_t begin = j->dump.off;
	int reused = 0, r;

	/* Code is skipped, so the time depends on the number of records. */
	for (uint32_t n = 0; j->dump.off <= size && size - j->dump.off >= DUMP_RECORD_HEAD; n++) {
		uint64_t off = j->dump.off;
		struct record rec;
		struct cursor c;

		if (n == JITCODE_DUMP_RECORDS) {
			j->more_dump = true;
			break;
		}
		r = look(j, v, off, DUMP_RECORD_HEAD, &c);
		if (r < 0)
			return r;
		if (cursor_u32(&c, &rec.id) < 0 || cursor_u32(&c, &rec.size) < 0 ||
		    cursor_u64(&c, &rec.time_ns) < 0)
			break; /* it became shorter meanwhile */
		if (rec.id == 0 && rec.size == 0 && rec.time_ns == 0)
			break; /* reserved and not written yet */
		if (rec.size < DUMP_RECORD_HEAD) {
			j->stats.bad++;
			j->dump_bad = true; /* the start of the next record is not known */
			break;
		}
		if (size - off < rec.size)
			break; /* not finished yet */
		r = record(j, v, &rec, off, now_ns);
		if (r < 0 && r != -EINVAL)
			return r;
		if (r == -EINVAL)
			j->stats.bad++;
		else
			reused += r;
		j->dump.off = off + rec.size;
	}
	if (j->dump.off != begin && j->dump.off >= v->off && j->dump.off - v->off <= v->len)
		jitcode_file_advance(&j->dump, j->dump.off, j->window, v->off);
	else if (j->dump.off != begin)
		j->dump.n_tail = 0;
	return reused;
}

int jitcode_read_dump(struct jitcode *j, int fd, uint64_t now_ns)
{
	struct view v = {.fd = fd};
	uint64_t size;
	bool anew;
	int r = jitcode_file_check(&j->dump, fd, &size, &anew);

	j->more_dump = false;
	if (r < 0)
		return r;
	if (anew || j->dump.off == 0) {
		j->dump_bad = false;
		j->dump_time_ns = 0;
		forget_pending(j);
		r = header(j, &v, size);
	}
	if (r == 0 && !j->dump_bad)
		r = records(j, &v, size, now_ns);
	free(j->window);
	j->window = NULL;
	return r == -EAGAIN ? 0 : r;
}
