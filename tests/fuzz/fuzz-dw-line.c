/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line program. Input: where its addresses begin (8 bytes) and how far apart they are (1); a
 * byte of flags; the unit. Strings of other sections lie in the unit as well.
 */
#include "dwarf/dw_line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ADDRS     48
#define STEPS_MAX 200000

struct bytes {
	const uint8_t *p;
	size_t n;
};

static int get_str(void *arg, enum dw_line_str where, uint64_t off, struct sbuf *b)
{
	const struct bytes *all = arg;
	struct cursor c = cursor_of(all->p, all->n);
	const char *s;

	assert(where == DW_LINE_STR || where == DW_LINE_LINE_STR);
	if (off > all->n || cursor_skip(&c, (size_t)off) < 0 || cursor_str(&c, &s) < 0)
		return -EINVAL;
	return sbuf_str(b, s);
}

static int get_strx(void *arg, uint64_t index, uint64_t *ret_off)
{
	(void)arg;
	if (index > 1000)
		return -EINVAL;
	*ret_off = index * 4;
	return 0;
}

static void check_files(struct dw_line *l, const struct dw_row *rows)
{
	_cleanup_(sbuf_done) struct sbuf b;

	sbuf_init(&b, 4096);
	for (uint64_t i = 0; i < ADDRS + 8; i++) {
		int r = dw_line_file(l, i < ADDRS ? rows[i].file : i - ADDRS, &b);

		assert(r == 0 || r == -ENOENT || r == -E2BIG);
		assert(r == 0 || b.len == 0);
		assert(b.len == 0 || b.len == strlen(b.p));
		sbuf_reset(&b);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cursor c = cursor_of(data, size);
	struct dw_stats stats = {0};
	uint64_t steps = STEPS_MAX, base, addrs[ADDRS];
	struct dw_row rows[ADDRS], one;
	struct dw_line_env env = {.comp_dir = "/comp",
	                          .name = "a.c",
	                          .str = get_str,
	                          .strx = get_strx,
	                          .steps = &steps,
	                          .stats = &stats};
	_cleanup_(dw_line_freep) struct dw_line *l = NULL;
	struct bytes all;
	uint8_t stride, flags;
	int r;

	if (size > 1 << 16 || cursor_u64(&c, &base) < 0 || cursor_u8(&c, &stride) < 0 ||
	    cursor_u8(&c, &flags) < 0)
		return 0;
	for (uint64_t i = 0; i < ADDRS; i++) {
		addrs[i] = base + i * (stride + 1u);
		if (i > 0 && addrs[i] <= addrs[i - 1])
			return 0;
	}
	env.address_size = flags & 1 ? 4 : 8;
	if (flags & 2)
		env.comp_dir = "";
	if (flags & 4)
		env.strx = NULL;
	all = (struct bytes){.p = c.p, .n = cursor_left(&c)};
	env.arg = &all;
	r = dw_line_open(c, &env, &l);
	assert(r == 0 || r == -EINVAL || r == -ENOTSUP);
	assert(r == 0 || stats.bad + stats.unsupported + stats.over_limit > 0);
	if (r < 0)
		return 0;
	r = dw_line_find(l, addrs, ADDRS, rows);
	assert(r == 0);
	check_files(l, rows);
	if (steps == 0)
		return 0;
	/* One address alone has the row that it has among others. */
	for (size_t i = 0; i < ADDRS; i += 5) {
		steps = STEPS_MAX;
		r = dw_line_find(l, &addrs[i], 1, &one);
		assert(r == 0 && steps > 0);
		assert(one.found == rows[i].found && one.file == rows[i].file &&
		       one.line == rows[i].line && one.column == rows[i].column);
	}
	return 0;
}
