/* SPDX-License-Identifier: Apache-2.0 */
/* Line programs that are damaged, over a limit or random. */
#include "dw_line_check.h"

static void test_files_that_the_program_defines_come_last(void **state)
{
	struct fix f;

	(void)state;
	for (uint16_t version = 2; version <= 4; version++) {
		fix_init(&f, version);
		lb_usual_header(&f.lb);
		lb_num(&f.lb, 0, 1);
		lb_uleb(&f.lb, 1 + sizeof("new.c") + 3);
		lb_num(&f.lb, 3, 1);
		lb_file(&f.lb, "new.c", 1);
		lb_num(&f.lb, 0, 1); /* damaged: no end of the name */
		lb_uleb(&f.lb, 3);
		lb_num(&f.lb, 0x414103, 3);
		lb_num(&f.lb, 4, 1);
		lb_uleb(&f.lb, 5);
		add_sequence(&f.lb, 0x1000, 0x100, 10, 8);
		fix_open(&f);
		for (int i = 0; i < 3; i++) {
			assert_string_equal(row_at(&f, 0x1000), "5:10:0");
			assert_string_equal(file_at(&f, 5), "/inc/new.c");
			assert_string_equal(file_at(&f, 6), "-");
		}
		assert_int_equal(f.stats.bad, 3); /* one a run */
		fix_done(&f);
	}
}

static void test_steps_are_counted_and_end_the_program(void **state)
{
	struct fix f;
	uint64_t used;

	(void)state;
	fix_init(&f, 5);
	lb_usual_header(&f.lb);
	add_sequence(&f.lb, 0x1000, 0x100, 10, 8);
	for (int i = 0; i < 1000; i++)
		lb_row(&f.lb, 1, 1);
	lb_end_sequence(&f.lb, 1);
	fix_open(&f);
	f.steps = 5000;
	assert_string_equal(row_at(&f, 0x1000), "1:10:0");
	used = 5000 - f.steps;
	assert_in_range(used, 1000, 1100);
	f.steps = used / 2;
	assert_string_equal(row_at(&f, 0x1000), "1:10:0"); /* it was before the end */
	assert_int_equal(f.steps, 0);
	f.steps = 1;
	assert_string_equal(row_at(&f, 0x1000), "-");
	assert_int_equal(f.stats.bad, 0);
	/* Tables cost steps as well. */
	dw_line_freep(&f.l);
	f.steps = 4;
	fix_open(&f);
	assert_int_equal(f.steps, 0);
	assert_string_equal(file_at(&f, 0), "/comp/main.c");
	assert_string_equal(file_at(&f, 1), "-");
	fix_done(&f);
}

static void test_addresses_of_many_sequences_cost_steps(void **state)
{
	struct dw_row rows[100];
	uint64_t addrs[100];
	struct fix f;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(addrs); i++)
		addrs[i] = 0x1000 + i;
	fix_init(&f, 5);
	lb_usual_header(&f.lb);
	for (int i = 0; i < 100; i++)
		add_sequence(&f.lb, 0x1000, 0x100, 10, 8);
	fix_open(&f);
	f.steps = 100000;
	assert_int_equal(dw_line_find(f.l, addrs, ARRAY_SIZE(addrs), rows), 0);
	assert_in_range(100000 - f.steps, 10000, 11000);
	fix_done(&f);
}

static void test_headers_that_cannot_be_used_are_refused(void **state)
{
	static const struct {
		size_t at, n; /* in a version 4 header of 32 bits */
		uint64_t v;
		int r;
		uint64_t bad, unsupported;
	} cases[] = {
	        {4, 2, 1, -ENOTSUP, 0, 1},
	        {4, 2, 6, -ENOTSUP, 0, 1},
	        {4, 2, 0, -ENOTSUP, 0, 1},
	        {0, 4, 0xfffffff0, -EINVAL, 1, 0},
	        {0, 4, 0xfffffffe, -EINVAL, 1, 0},
	        {0, 4, 0, -EINVAL, 1, 0},
	        {0, 4, 3, -EINVAL, 1, 0},
	        {0, 4, 0xffff, 0, 1, 0}, /* over the section's end: what is there is read */
	        {6, 4, 0xffff, -EINVAL, 1, 0},
	        {6, 4, 3, -EINVAL, 1, 0},
	        {6, 4, 30, 0, 1, 0}, /* tables are cut */
	        {15, 1, 255, -EINVAL, 1, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fix f;
		struct cursor c;

		fix_init(&f, 4);
		lb_usual_header(&f.lb);
		c = lb_end(&f.lb);
		memcpy(f.lb.b.p + cases[i].at, &cases[i].v, cases[i].n);
		assert_int_equal(dw_line_open(c, &f.env, &f.l), cases[i].r);
		assert_int_equal(f.stats.bad, cases[i].bad);
		assert_int_equal(f.stats.unsupported, cases[i].unsupported);
		assert_true(!f.l == !!cases[i].r);
		fix_done(&f);
	}
}

static void test_unknown_form_costs_the_table_not_the_rows(void **state)
{
	struct fix f;

	(void)state;
	for (int empty = 0; empty < 2; empty++) {
		fix_init(&f, 5);
		lb_begin(&f.lb);
		lb_num(&f.lb, 0, 1);
		lb_uleb(&f.lb, 0);
		lb_num(&f.lb, empty ? 0 : 1, 1);
		if (!empty) {
			lb_uleb(&f.lb, 1);
			lb_uleb(&f.lb, 0x7777777);
		}
		lb_uleb(&f.lb, UINT64_MAX);
		lb_num(&f.lb, 0, 8);
		lb_end_header(&f.lb);
		add_sequence(&f.lb, 0x1000, 0x100, 10, 8);
		fix_open(&f);
		assert_string_equal(row_at(&f, 0x1000), "1:10:0");
		assert_string_equal(file_at(&f, 1), "-");
		assert_int_equal(f.stats.unsupported, !empty);
		assert_int_equal(f.stats.bad, empty);
		fix_done(&f);
	}
}

static void test_units_that_end_anywhere(void **state)
{
	(void)state;
	for (uint16_t version = 2; version <= 5; version++) {
		struct fix f;
		struct cursor c;
		const uint64_t addr = 0x1000;
		struct dw_row row;

		fix_init(&f, version);
		lb_usual_header(&f.lb);
		add_sequence(&f.lb, 0x1000, 0x100, 10, 8);
		c = lb_end(&f.lb);
		for (size_t n = 0; n < cursor_left(&c); n++) {
			/* A block of just that size, for the sanitizer. */
			_cleanup_free_ uint8_t *p = malloc(n ? n : 1);

			assert_non_null(p);
			memcpy(p, c.p, n);
			f.stats.bad = 0;
			if (dw_line_open(cursor_of(p, n), &f.env, &f.l) == 0) {
				assert_int_equal(dw_line_find(f.l, &addr, 1, &row), 0);
				assert_false(row.found);
				for (uint64_t i = 0; i < 7; i++)
					(void)file_at(&f, i); /* with a name or without */
			}
			assert_true(f.stats.bad > 0);
			dw_line_freep(&f.l);
		}
		fix_done(&f);
	}
}

/* ---- against a naive reading ----------------------------------------------------------------- */

static uint64_t rnd(uint64_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return *s;
}

struct naive_row {
	uint64_t addr;
	uint32_t line;
};

static void test_random_programs_equal_a_naive_reading(void **state)
{
	uint64_t seed = 88172645463325252ULL;

	(void)state;
	for (int round = 0; round < 300; round++) {
		uint64_t addrs[64], best_end[64];
		uint32_t best_line[64] = {0};
		struct dw_row rows[64];
		struct fix f;

		fix_init(&f, (uint16_t)(2 + rnd(&seed) % 4));
		lb_usual_header(&f.lb);
		for (size_t i = 0; i < 64; i++) {
			addrs[i] = (i ? addrs[i - 1] : 0x1000) + 1 + rnd(&seed) % 40;
			best_end[i] = UINT64_MAX;
		}
		for (uint64_t q = 1 + rnd(&seed) % 12; q > 0; q--) {
			struct naive_row seq[32];
			size_t n = 1 + rnd(&seed) % 30;
			uint64_t addr = 0xf00 + rnd(&seed) % 3000;
			uint32_t line = 1;

			lb_set_address(&f.lb, addr, rnd(&seed) % 2 ? 4 : 8);
			for (size_t i = 0; i < n; i++) {
				uint64_t bytes = rnd(&seed) % 3 ? rnd(&seed) % 8 : rnd(&seed) % 100;
				int64_t lines = (int64_t)(rnd(&seed) % 24) - (line > 30 ? 12 : 0);

				lb_row(&f.lb, bytes, lines);
				addr += bytes;
				line += (uint32_t)lines;
				seq[i] = (struct naive_row){addr, line};
			}
			addr += 5;
			lb_end_sequence(&f.lb, 5);
			for (size_t i = 0; i < 64; i++) {
				if (addrs[i] < seq[0].addr || addrs[i] >= addr ||
				    addr >= best_end[i])
					continue;
				best_end[i] = addr;
				for (size_t k = 0; k < n; k++) {
					if (seq[k].addr <= addrs[i])
						best_line[i] = seq[k].line;
				}
			}
		}
		fix_open(&f);
		assert_int_equal(dw_line_find(f.l, addrs, 64, rows), 0);
		for (size_t i = 0; i < 64; i++) {
			assert_int_equal(rows[i].found, best_end[i] != UINT64_MAX);
			assert_int_equal(rows[i].line, best_line[i]);
		}
		assert_int_equal(f.stats.bad, 0);
		fix_done(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_files_that_the_program_defines_come_last),
	        cmocka_unit_test(test_steps_are_counted_and_end_the_program),
	        cmocka_unit_test(test_addresses_of_many_sequences_cost_steps),
	        cmocka_unit_test(test_headers_that_cannot_be_used_are_refused),
	        cmocka_unit_test(test_unknown_form_costs_the_table_not_the_rows),
	        cmocka_unit_test(test_units_that_end_anywhere),
	        cmocka_unit_test(test_random_programs_equal_a_naive_reading),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("dw-line-damage", tests, NULL, NULL);
}
