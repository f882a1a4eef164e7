/* SPDX-License-Identifier: Apache-2.0 */
/* Code of run time: perf-maps and jitdumps, and what was where and when. */
#include "jitcode_files.h"

#define BASE 0x100000ULL

static int map_final(struct fixture *f, const char *text)
{
	append(f, text, strlen(text));
	return jitcode_read_map(f->j, f->fd, 1000, true);
}

/* ---- texts ----------------------------------------------------------------------------------- */

struct text {
	const char *raw, *name, *file;
	uint32_t line, column;
};

static const struct text texts[] = {
        {"JS:*fib /srv/app/x.js:2:13", "fib", "/srv/app/x.js", 2, 13},
        {"JS:~fib /srv/app/x.js:2:13", "fib", "/srv/app/x.js", 2, 13},
        {"JS:^fib file:///srv/x.mjs:2:13", "fib", "file:///srv/x.mjs", 2, 13},
        {"JS:+fib /x.js:2", "fib", "/x.js", 2, 0},
        {"JS:*'fib /x.js:2:1", "fib", "/x.js", 2, 1},
        {"JS:o+fib /x.js:2:1", "fib", "/x.js", 2, 1},
        {"JS:~get foo bar /my files/x y.js:1:24", "get foo bar", "/my files/x y.js", 1, 24},
        {"JS:*set size node:internal/url:7:9", "set size", "node:internal/url", 7, 9},
        {"JS:*async work /x.js:1:82", "async work", "/x.js", 1, 82},
        {"JS:* /x.js:4:90", "(anonymous)", "/x.js", 4, 90},
        {"JS:~ node:internal/main:1:1", "(anonymous)", "node:internal/main", 1, 1},
        {"JS:*f [eval]:3:4", "f", "[eval]", 3, 4},
        {"JS:*f evalmachine.<anonymous>:3:4", "f", "evalmachine.<anonymous>", 3, 4},
        {"JS:*f relative.js:3:4", "f", "relative.js", 3, 4},
        {"JS:*wasm-function[3]-3-turbofan", "wasm-function[3]-3-turbofan", NULL, 0, 0},
        {"JS:*", "(anonymous)", NULL, 0, 0},
        {"LazyCompile:~get prop /x.js:1:137", "get prop", "/x.js", 1, 137},
        {"LazyCompile:*forEach native array.js:102", "forEach", "native array.js", 102, 0},
        {"Function:~main /x.js:1", "main", "/x.js", 1, 0},
        {"InterpretedFunction:main /x.js:1:2", "main", "/x.js", 1, 2},
        {"Eval:~ /x.js:1:1", "(anonymous)", "/x.js", 1, 1},
        {"Builtin:ArrayMap", "Builtin:ArrayMap", NULL, 0, 0},
        {"Script:~ /x.js:1:1", "Script:~ /x.js:1:1", NULL, 0, 0},
        {"RegExp:a+b c:1:2", "RegExp:a+b c:1:2", NULL, 0, 0},
        {"Handler:LoadIC", "Handler:LoadIC", NULL, 0, 0},
        {"BytecodeHandler:Ldar", "BytecodeHandler:Ldar", NULL, 0, 0},
        {"Stub:CEntryStub", "Stub:CEntryStub", NULL, 0, 0},
        {"py::fib:/srv/app/x.py", "py::fib", "/srv/app/x.py", 0, 0},
        {"py::A.<locals>.f:/a:/b.py", "py::A.<locals>.f:/a", "/b.py", 0, 0},
        {"py::_find:<frozen importlib._bootstrap>", "py::_find:<frozen importlib._bootstrap>", NULL,
         0, 0},
        {"py::", "py::", NULL, 0, 0},
        {"TRACE_12::file.lua:34", "TRACE_12", "file.lua", 34, 0},
        {"TRACE_12", "TRACE_12", NULL, 0, 0},
        {"Lpkg/sub/Class;::method", "pkg.sub.Class::method", NULL, 0, 0},
        {"int Spin.fib(int)", "int Spin.fib(int)", NULL, 0, 0},
        {"Interpreter", "Interpreter", NULL, 0, 0},
        {"instance void [System.Private.CoreLib] System.A::B(int32)[Tier0]", "System.A::B(int32)",
         NULL, 0, 0},
        {"class [System.Runtime] System.String [App] N.A`1[System.__Canon]::B()[OptimizedTier1]",
         "N.A`1[System.__Canon]::B()", NULL, 0, 0},
        {"PreStub", "PreStub", NULL, 0, 0},
        {"a b::c(int)", "a b::c(int)", NULL, 0, 0},
};

static void test_texts_of_run_times_become_name_file_and_line(void **state)
{
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		(void)dprintf(f->fd, "%llx 10 %s\n", BASE + 16 * (unsigned long long)i,
		              texts[i].raw);
	assert_int_equal(jitcode_read_map(f->j, f->fd, 1, true), 0);
	assert_int_equal(jitcode_stats(f->j)->entries, ARRAY_SIZE(texts));
	assert_int_equal(jitcode_stats(f->j)->bad, 0);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct sym_frame fr;

		assert_int_equal(jitcode_find(f->j, BASE + 16 * i + 15, UINT64_MAX, &fr), 0);
		assert_string_equal(fr.name, texts[i].name);
		assert_string_equal(fr.linkage, texts[i].raw);
		if (texts[i].file)
			assert_string_equal(fr.file, texts[i].file);
		else
			assert_null(fr.file);
		assert_int_equal(fr.line, texts[i].line);
		assert_int_equal(fr.column, texts[i].column);
	}
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void test_numbers_with_and_without_0x(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(map_final(f, "0x1000 0x10 a\n2000 AF  b c \r\n  3000 10 d\n"), 0);
	assert_string_equal(name_at(f, 0x1000, UINT64_MAX), "a");
	assert_string_equal(name_at(f, 0x100f, UINT64_MAX), "a");
	assert_string_equal(name_at(f, 0x1010, UINT64_MAX), "");
	assert_string_equal(name_at(f, 0xfff, UINT64_MAX), "");
	assert_string_equal(name_at(f, 0x20ae, UINT64_MAX), "b c");
	assert_string_equal(name_at(f, 0x3000, UINT64_MAX), "d");
}

static void test_a_damaged_line_costs_itself(void **state)
{
	static const char *const bad[] = {
	        "x000 10 name",
	        "1000 name",
	        "1000",
	        " ",
	        "1000 10",
	        "1000 10 ",
	        "-1000 10 name",
	        "1000 0 zero",
	        "1000 ffffffffffffffff overflow",
	        "ffffffffffffff00 100 wraps",
	        "11112222333344445 10 digits",
	        "100000000000000 10 kernel",
	        "1000 100000000 gigantic",
	        "1000\t10\tname",
	        "0x 10 name",
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		(void)dprintf(f->fd, "%s\n%llx 10 good%zu\n", bad[i],
		              BASE + 16 * (unsigned long long)i, i);
	append(f, "5000 10 a\0b\n\n\n6000 10 last", 26);
	assert_int_equal(jitcode_read_map(f->j, f->fd, 1, true), 0);
	assert_int_equal(jitcode_stats(f->j)->bad, ARRAY_SIZE(bad) + 1);
	assert_int_equal(jitcode_stats(f->j)->entries, ARRAY_SIZE(bad) + 1);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		char want[32];

		(void)snprintf(want, sizeof(want), "good%zu", i);
		assert_string_equal(name_at(f, BASE + 16 * i, UINT64_MAX), want);
	}
	assert_string_equal(name_at(f, 0x6000, UINT64_MAX), "last");
}

static void test_a_line_without_an_end_waits_for_it(void **state)
{
	struct fixture *f = *state;

	append(f, "1000 10 a\n2000 10 lo", 20);
	assert_int_equal(jitcode_read_map(f->j, f->fd, 1, false), 0);
	assert_string_equal(name_at(f, 0x2000, UINT64_MAX), "");
	append(f, "ng\n", 3);
	assert_int_equal(jitcode_read_map(f->j, f->fd, 2, false), 0);
	assert_string_equal(name_at(f, 0x2000, UINT64_MAX), "long");
	assert_int_equal(jitcode_stats(f->j)->bad, 0);
	append(f, "3000 10 end", 11);
	assert_int_equal(jitcode_read_map(f->j, f->fd, 3, true), 0);
	assert_string_equal(name_at(f, 0x3000, UINT64_MAX), "end");
}

static void test_a_gigantic_line_is_passed_over(void **state)
{
	enum { LEN = 300000 };
	struct fixture *f = *state;
	char *line = malloc(LEN);

	assert_non_null(line);
	memset(line, 'x', LEN);
	memcpy(line, "1000 10 ", 8);
	append(f, "3000 10 before\n", 15);
	append(f, line, LEN);
	/* It has no end yet, and is not kept in memory until then. */
	assert_int_equal(jitcode_read_map(f->j, f->fd, 1, false), 0);
	append(f, line, LEN);
	append(f, "\n2000 10 after\n", 15);
	assert_int_equal(jitcode_read_map(f->j, f->fd, 1, false), 0);
	assert_int_equal(jitcode_stats(f->j)->bad, 1);
	assert_string_equal(name_at(f, 0x3000, UINT64_MAX), "before");
	assert_string_equal(name_at(f, 0x2000, UINT64_MAX), "after");
	/* One that is as long, and a name that is just too long, with their ends at once. */
	line[LEN - 1] = '\n';
	append(f, line, LEN);
	line[16384 + 9] = '\n';
	append(f, line, 16384 + 10);
	append(f, "4000 10 more\n", 13);
	assert_int_equal(jitcode_read_map(f->j, f->fd, 1, false), 0);
	assert_int_equal(jitcode_stats(f->j)->bad, 3);
	assert_string_equal(name_at(f, 0x4000, UINT64_MAX), "more");
	assert_string_equal(name_at(f, 0x1000, UINT64_MAX), "");
	free(line);
}

static void test_a_truncated_file_is_read_from_its_beginning(void **state)
{
	struct fixture *f = *state;

	append(f, "1000 10 a\n2000 10 b\n", 20);
	assert_int_equal(jitcode_read_map(f->j, f->fd, 1, false), 0);
	assert_int_equal(ftruncate(f->fd, 0), 0);
	assert_int_equal(lseek(f->fd, 0, SEEK_SET), 0);
	append(f, "3000 10 c\n", 10);
	assert_int_equal(jitcode_read_map(f->j, f->fd, 2, false), 0);
	assert_string_equal(name_at(f, 0x3000, UINT64_MAX), "c");
	/* Written anew, and already longer than it was. */
	assert_int_equal(ftruncate(f->fd, 0), 0);
	assert_int_equal(lseek(f->fd, 0, SEEK_SET), 0);
	append(f, "4000 10 d\n5000 10 e\n", 20);
	assert_int_equal(jitcode_read_map(f->j, f->fd, 3, false), 0);
	assert_string_equal(name_at(f, 0x4000, UINT64_MAX), "d");
	assert_string_equal(name_at(f, 0x5000, UINT64_MAX), "e");
	assert_int_equal(jitcode_stats(f->j)->bad, 0);
}

static void test_another_file_is_read_from_its_beginning(void **state)
{
	struct fixture *f = *state;
	int other = memfd_create("other", MFD_CLOEXEC);

	append(f, "1000 10 a\n", 10);
	assert_int_equal(jitcode_read_map(f->j, f->fd, 1, false), 0);
	assert_int_equal(dprintf(other, "1000 10 a\n2000 10 b\n"), 20);
	assert_int_equal(jitcode_read_map(f->j, other, 2, false), 0);
	assert_string_equal(name_at(f, 0x2000, UINT64_MAX), "b");
	assert_int_equal(jitcode_stats(f->j)->entries, 2); /* what is known is not new */
	closep(&other);
}

static void test_what_is_no_file_is_refused(void **state)
{
	struct fixture *f = *state;
	int p[2];

	assert_int_equal(pipe(p), 0);
	assert_int_equal(jitcode_read_map(f->j, p[0], 1, true), -EINVAL);
	assert_int_equal(jitcode_read_dump(f->j, p[0], 1), -EINVAL);
	assert_int_equal(jitcode_read_map(f->j, -1, 1, true), -EBADF);
	closep(&p[0]);
	closep(&p[1]);
}

static void test_memory_has_a_limit(void **state)
{
	enum { N = 200000, LIMIT = 2 << 20 };
	struct fixture *f = *state;
	_cleanup_(sbuf_done) struct sbuf b;
	const struct jitcode_stats *st;
	struct jitcode *j;

	sbuf_init(&b, 1 << 26);
	for (unsigned int i = 0; i < N; i++)
		assert_int_equal(sbuf_addf(&b, "%x 10 name-%u\n", 0x100000 + 16 * i, i), 0);
	append(f, b.p, b.len);
	assert_int_equal(jitcode_new(LIMIT, &j), 0);
	assert_int_equal(jitcode_read_map(j, f->fd, 1, true), 0);
	assert_false(jitcode_more(j));
	st = jitcode_stats(j);
	assert_true(st->entries > 5000);
	assert_int_equal(st->entries + st->over_limit, N);
	assert_in_range(jitcode_bytes(j), LIMIT / 4, LIMIT);
	assert_true(jitcode_version(j, 0x100000) > 0);
	assert_int_equal(jitcode_version(j, 0x100000 + 16 * (N - 1)), 0);
	jitcode_free(j);
	/* And without it all are there, in several readings. */
	do
		assert_int_equal(jitcode_read_map(f->j, f->fd, 1, false), 0);
	while (jitcode_more(f->j));
	assert_int_equal(jitcode_stats(f->j)->entries, N);
	assert_string_equal(name_at(f, 0x100000 + 16 * 123456 + 3, UINT64_MAX), "name-123456");
}

static void test_code_over_the_limit_has_not_the_name_of_what_was_there(void **state)
{
	enum { N = 200000, LIMIT = 2 << 20 };
	struct fixture *f = *state;
	_cleanup_(sbuf_done) struct sbuf b;
	struct sym_frame frame;
	struct jitcode *j;

	sbuf_init(&b, 1 << 26);
	assert_int_equal(sbuf_addf(&b, "1000 100 old\n2000 100 stays\n3000 300 cut\n"), 0);
	for (unsigned int i = 0; i < N; i++)
		assert_int_equal(sbuf_addf(&b, "%x 10 name-%u\n", 0x100000 + 16 * i, i), 0);
	assert_int_equal(sbuf_addf(&b, "1000 100 new\n3100 100 new\n100000 1000 new\n"), 0);
	append(f, b.p, b.len);
	assert_int_equal(jitcode_new(LIMIT, &j), 0);
	do
		assert_true(jitcode_read_map(j, f->fd, 1, true) >= 0);
	while (jitcode_more(j));
	assert_int_equal(jitcode_find(j, 0x1010, UINT64_MAX, &frame), -ENOENT);
	assert_int_equal(jitcode_find(j, 0x3110, UINT64_MAX, &frame), -ENOENT);
	assert_int_equal(jitcode_find(j, 0x100020, UINT64_MAX, &frame), -ENOENT);
	assert_int_equal(jitcode_find(j, 0x2010, UINT64_MAX, &frame), 0);
	assert_string_equal(frame.name, "stays");
	assert_int_equal(jitcode_find(j, 0x3010, UINT64_MAX, &frame), 0);
	assert_string_equal(frame.name, "cut");
	assert_int_equal(jitcode_find(j, 0x101010, UINT64_MAX, &frame), 0);
	assert_string_equal(frame.name, "name-257");
	jitcode_free(j);
}

/* ---- places and times ------------------------------------------------------------------------ */

static void test_later_code_takes_the_place_of_what_it_overlaps(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(map_final(f, "1000 100 old\n1040 40 new\n"), 1);
	assert_string_equal(name_at(f, 0x1000, UINT64_MAX), "old");
	assert_string_equal(name_at(f, 0x103f, UINT64_MAX), "old");
	assert_string_equal(name_at(f, 0x1040, UINT64_MAX), "new");
	assert_string_equal(name_at(f, 0x107f, UINT64_MAX), "new");
	assert_string_equal(name_at(f, 0x1080, UINT64_MAX), "old");
	assert_int_equal(map_final(f, "1000 10000 all\n"), 1);
	assert_string_equal(name_at(f, 0x1040, UINT64_MAX), "all");
	assert_string_equal(name_at(f, 0x1000, UINT64_MAX), "all");
	/* Both came before the first reading's end, or at 1000. */
	assert_string_equal(name_at(f, 0x1040, 999), "new");
	assert_string_equal(name_at(f, 0x1000, 999), "old");
	assert_string_equal(name_at(f, 0x1100, 999), "all"); /* the first that came there */
	assert_int_equal(jitcode_stats(f->j)->reused, 2);
}

static void test_the_same_code_again_is_no_reuse(void **state)
{
	struct fixture *f = *state;
	uint32_t code;

	append(f, "1000 10 a\n", 10);
	assert_int_equal(jitcode_read_map(f->j, f->fd, 1, false), 0);
	code = jitcode_version(f->j, 0x1000);
	assert_int_not_equal(code, 0);
	append(f, "1000 10 a\n", 10);
	assert_int_equal(jitcode_read_map(f->j, f->fd, 2, false), 0);
	assert_int_equal(jitcode_version(f->j, 0x1000), code);
	append(f, "1000 10 ab\n", 11);
	assert_int_equal(jitcode_read_map(f->j, f->fd, 3, false), 1);
	assert_int_not_equal(jitcode_version(f->j, 0x1000), code);
	append(f, "1000 10 a\n", 10);
	assert_int_equal(jitcode_read_map(f->j, f->fd, 4, false), 1);
	assert_string_equal(name_at(f, 0x1000, 2), "a");
	assert_string_equal(name_at(f, 0x1000, 3), "ab");
	assert_string_equal(name_at(f, 0x1000, 4), "a");
}

#define CELLS  400
#define ROUNDS 60

/* Random code over few addresses, against a table of what was at each of them when. */
static void test_look_ups_by_time_agree_with_a_table(void **state)
{
	static uint32_t table[ROUNDS + 1][CELLS];
	struct fixture *f = *state;
	uint32_t seed = 12345, id = 0;

	memset(table, 0, sizeof(table));
	for (uint32_t round = 1; round <= ROUNDS; round++) {
		memcpy(table[round], table[round - 1], sizeof(table[0]));
		for (uint32_t k = 0; k < 12; k++) {
			uint32_t start, len;

			seed = seed * 1664525 + 1013904223;
			start = (seed >> 8) % CELLS;
			len = 1 + (seed >> 20) % (k ? 9 : 90);
			len = MIN_OF(len, CELLS - start);
			id++;
			(void)dprintf(f->fd, "%llx %x f%u\n", BASE + start, len, id);
			for (uint32_t c = start; c < start + len; c++)
				table[round][c] = id;
		}
		assert_true(jitcode_read_map(f->j, f->fd, round * 10, false) >= 0);
		/* Now and then in between: the past is sorted again. */
		if (round % 20 == 0)
			(void)name_at(f, BASE + 7, 15);
	}
	for (uint32_t c = 0; c < CELLS; c++) {
		for (uint32_t round = 1; round <= ROUNDS; round++) {
			uint32_t at = round;
			char want[16] = "";

			while (at <= ROUNDS && !table[at][c])
				at++;
			if (at <= ROUNDS)
				(void)snprintf(want, sizeof(want), "f%u", table[at][c]);
			assert_string_equal(name_at(f, BASE + c, round * 10), want);
			assert_string_equal(name_at(f, BASE + c, round * 10 + 9), want);
		}
	}
}

/* Each line over all that were before it, and each in the middle of the last: what is quadratic
 * would take minutes. */
static void test_hostile_overlaps_cost_no_more_than_others(void **state)
{
	enum { N = 100000 };
	struct fixture *f = *state;
	_cleanup_(sbuf_done) struct sbuf b;
	char want[32];

	sbuf_init(&b, 1 << 26);
	for (unsigned int i = 0; i < N; i++)
		assert_int_equal(
		        sbuf_addf(&b, "%x %x out-%u\n", 0x10000000 - 16 * i, 16 + 32 * i, i), 0);
	for (unsigned int i = 0; i < N; i++)
		assert_int_equal(sbuf_addf(&b, "%x %x in-%u\n", 0x10000000 - 16 * (N - i),
		                           16 + 32 * (N - i), i),
		                 0);
	append(f, b.p, b.len);
	do
		assert_true(jitcode_read_map(f->j, f->fd, 5, false) >= 0);
	while (jitcode_more(f->j));
	assert_int_equal(jitcode_stats(f->j)->entries, 2 * N);
	(void)snprintf(want, sizeof(want), "in-%u", N - 1);
	assert_string_equal(name_at(f, 0x10000000, UINT64_MAX), want);
	assert_string_equal(name_at(f, 0x10000000 - 16 * 77, UINT64_MAX), "in-99923");
	for (unsigned int i = 0; i < 10000; i++)
		assert_true(name_at(f, 0x10000000 - i, 0)[0] != 0);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
	        T(test_texts_of_run_times_become_name_file_and_line),
	        T(test_numbers_with_and_without_0x),
	        T(test_a_damaged_line_costs_itself),
	        T(test_a_line_without_an_end_waits_for_it),
	        T(test_a_gigantic_line_is_passed_over),
	        T(test_a_truncated_file_is_read_from_its_beginning),
	        T(test_another_file_is_read_from_its_beginning),
	        T(test_what_is_no_file_is_refused),
	        T(test_memory_has_a_limit),
	        T(test_code_over_the_limit_has_not_the_name_of_what_was_there),
	        T(test_later_code_takes_the_place_of_what_it_overlaps),
	        T(test_the_same_code_again_is_no_reuse),
	        T(test_look_ups_by_time_agree_with_a_table),
	        T(test_hostile_overlaps_cost_no_more_than_others),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
