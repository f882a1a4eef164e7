/* SPDX-License-Identifier: Apache-2.0 */
/* Work that a hostile .gopclntab can make its reader do: counted, not timed. Its functions take 8
 * bytes
 * each and may all point at one record, so what is read for each of them must be bounded, and what
 * is read for all of them together. */
#include <setjmp.h>
#include <stdio.h>

#include <cmocka.h>

#include "go_builder.h"
#include "unwind/unwind_priv.h"

#ifdef ABI_ARM64

int main(void)
{
	puts("1..0 # SKIP the code in this test is x86-64");
	return 0;
}

#else

#define FUNCTIONS  1024
#define FN_BYTES   256
#define NAME_BYTES 65536

static uint64_t searched; /* bytes in which something was searched */

void *__real_memchr(const void *p, int c, size_t n);
void *__wrap_memchr(const void *p, int c, size_t n);
void *__wrap_memchr(const void *p, int c, size_t n)
{
	uint8_t *hit = __real_memchr(p, c, n);

	searched += hit ? (size_t)(hit - (const uint8_t *)p) + 1 : n;
	return hit;
}

struct got {
	uint64_t functions, rows;
};

static int on_function(void *arg, uint64_t start, uint64_t end)
{
	struct got *g = arg;

	assert_true(start < end);
	g->functions++;
	return 0;
}

static int on_row(void *arg, uint64_t at, uint16_t code)
{
	struct got *g = arg;

	(void)at;
	(void)code;
	g->rows++;
	return 0;
}

/* A file of FUNCTIONS functions with one record, whose name is of letters @name_bytes far, and
 * whose depths change with every byte of code, @steps times; with a zero after each. */
static void shared_record(struct sbuf *b, size_t name_bytes, size_t steps)
{
	const struct gb_opts o = {.version = 120};
	const size_t functab = 8 + 8 * 8, record = functab + 8 * FUNCTIONS + 8, names = record + 44,
	             pctab = names + name_bytes + 1;
	_cleanup_(sbuf_done) struct sbuf text, tab;
	size_t table;

	sbuf_init(&text, 2 << 20);
	sbuf_init(&tab, 1 << 20);
	gb_pad(&text, (size_t)FUNCTIONS * FN_BYTES, (char)0x90);
	gb_int(&tab, 0xfffffff1, 4);
	gb_int(&tab, 0, 2);
	gb_int(&tab, 1, 1);
	gb_int(&tab, 8, 1);
	gb_int(&tab, FUNCTIONS, 8);
	gb_int(&tab, 0, 8);
	gb_int(&tab, GB_TEXT_VADDR, 8);
	gb_int(&tab, names, 8);
	gb_pad(&tab, tab.len + 16, 0);
	gb_int(&tab, pctab, 8);
	gb_int(&tab, functab, 8);
	for (uint64_t i = 0; i <= FUNCTIONS; i++) {
		gb_int(&tab, i * FN_BYTES, 4);
		gb_int(&tab, i < FUNCTIONS ? record - functab : 0, 4);
	}
	gb_record(&tab, &o, 0, 0, 1, 0);
	gb_pad(&tab, names, 0);
	gb_pad(&tab, names + name_bytes, 'n');
	gb_pad(&tab, pctab + 1, 0);
	for (size_t i = 0; i < steps; i++) {
		gb_uleb(&tab, i == 0 ? 2 : i % 2 ? 32 : 31); /* from -1 to 0, to 16, to 0, … */
		gb_uleb(&tab, 1);
	}
	gb_pad(&tab, tab.len + 1, 0);
	assert_false(text.err || tab.err);
	gb_wrap(b, NULL, false, text.p, text.len, tab.p, tab.len, &table);
}

static int read_bytes(const struct sbuf *b, uint64_t rows, struct got *g)
{
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	const struct uw_build_limits lim = {.rows = rows};
	struct uw_rules *rules = NULL;
	struct uw_build_stats stats = {0};
	struct uw_quota quota = {0};
	struct uw_sink sink = {
	        .quota = &quota, .stats = &stats, .function = on_function, .row = on_row, .arg = g};
	int r;

	*g = (struct got){0};
	assert_int_equal(img_file_open_mem(b->p, b->len, &f, NULL), 0);
	assert_int_equal(uw_rules_new(NULL, &rules), 0);
	sink.rules = rules;
	searched = 0;
	r = uw_go_read(f, &sink, &lim);
	uw_rules_free(rules);
	return r;
}

static void test_a_long_name_is_not_searched_once_for_each_function(void **state)
{
	_cleanup_(sbuf_done) struct sbuf b;
	uint64_t with_short;
	struct got g;

	(void)state;
	shared_record(&b, 255, 4);
	assert_int_equal(read_bytes(&b, 0, &g), 0);
	assert_int_equal(g.functions, FUNCTIONS);
	with_short = searched;
	assert_true(with_short >= 256 * (uint64_t)FUNCTIONS); /* this counts at all */
	sbuf_done(&b);
	/* However long it is, and whether it ends. */
	shared_record(&b, NAME_BYTES, 4);
	assert_int_equal(read_bytes(&b, 0, &g), 0);
	assert_int_equal(g.functions, FUNCTIONS);
	assert_true(searched <= with_short + 4096);
}

static void test_functions_that_share_depths_share_one_budget_of_rows(void **state)
{
	const uint64_t all = (uint64_t)FUNCTIONS * FN_BYTES;
	_cleanup_(sbuf_done) struct sbuf b;
	struct got g;

	(void)state;
	/* All of them have the same table, which is longer than each of them is. */
	shared_record(&b, 8, 4 * (size_t)FN_BYTES);
	assert_int_equal(read_bytes(&b, 0, &g), 0);
	assert_int_equal(g.functions, FUNCTIONS);
	assert_int_equal(g.rows, all); /* none past the end of its function */
	assert_int_equal(read_bytes(&b, all, &g), 0);
	assert_int_equal(read_bytes(&b, all - 1, &g), -E2BIG);
	assert_int_equal(read_bytes(&b, 10 * (uint64_t)FN_BYTES, &g), -E2BIG);
	assert_int_equal(g.functions, 10);
	assert_int_equal(g.rows, 10 * (uint64_t)FN_BYTES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_a_long_name_is_not_searched_once_for_each_function),
	        cmocka_unit_test(test_functions_that_share_depths_share_one_budget_of_rows),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
