/* SPDX-License-Identifier: Apache-2.0 */
/*
 * .gopclntab and the code alongside it. Input: two bytes, how long the code is; the code; the
 * table.
 */
#include "../unit/go_builder.h"
#include "unwind/unwind_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct state {
	const struct uw_rules *rules;
	uint64_t start, end, last;
	bool open, first;
	uint64_t rows;
};

static int on_function(void *arg, uint64_t start, uint64_t end)
{
	struct state *s = arg;

	assert(start < end);
	s->start = start;
	s->end = end;
	s->open = s->first = true;
	return 0;
}

static int on_row(void *arg, uint64_t at, uint16_t code)
{
	struct state *s = arg;
	struct uw_rule rule;

	assert(s->open && at < s->end);
	assert(s->first ? at == s->start : at > s->last);
	assert(uw_rules_expand(s->rules, code, &rule) == 0);
	s->first = false;
	s->last = at;
	s->rows++;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* One for all runs: rules are never removed, and a full table is a case as well. */
	static struct uw_rules *rules;
	const struct uw_build_limits lim = {.rows = 100000};
	struct uw_build_stats stats = {0};
	struct uw_quota quota = {0};
	struct state s = {0};
	struct uw_sink sink = {.quota = &quota,
	                       .stats = &stats,
	                       .function = on_function,
	                       .row = on_row,
	                       .arg = &s};
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	_cleanup_(sbuf_done) struct sbuf b;
	size_t text_len, table;
	int r;

	sbuf_init(&b, 1 << 20);
	if (size < 2 || size > 1 << 16)
		return 0;
	text_len = MIN_OF((size_t)data[0] | (size_t)data[1] << 8, size - 2);
	gb_wrap(&b, size & 1 ? NULL : ".text", true, data + 2, text_len, data + 2 + text_len,
	        size - 2 - text_len, &table);
	if (!rules && uw_rules_new(NULL, &rules) < 0)
		abort();
	if (img_file_open_mem(b.p, b.len, &f, NULL) < 0)
		return 0;
	s.rules = sink.rules = rules;
	r = uw_go_read(f, &sink, &lim);
	assert(r == 0 || r == -ENOENT || r == -E2BIG);
	assert(s.rows <= 2 * lim.rows + stats.entries);
	s.open = false;
	r = uw_go_special_read(f, &sink, &lim);
	assert(r == 0 || r == -ENOENT || r == -E2BIG);
	return 0;
}
