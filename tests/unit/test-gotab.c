/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdio.h>

#include <cmocka.h>

#include "go_builder.h"
#include "gotab/gotab.h"

#define LIMIT (8 << 20)

/* ---- frames as text -------------------------------------------------------------------------- */

static int on_frame(void *arg, const struct gotab_frame *f, bool last)
{
	struct sbuf *b = arg;

	assert_int_equal(f->inlined, !last);
	(void)sbuf_addf(b, "%s %s:%u", f->name, f->file ? f->file : "?", f->line);
	if (f->start_line)
		(void)sbuf_addf(b, " (%u)", f->start_line);
	return sbuf_str(b, last ? "" : "; ");
}

/* "name file:line (line of the function); …", or the error's name. */
static void check(struct gotab *t, uint64_t vaddr, const char *want)
{
	_cleanup_(sbuf_done) struct sbuf b;
	int r;

	sbuf_init(&b, 1 << 20);
	r = gotab_resolve(t, vaddr, on_frame, &b);
	assert_string_equal(r < 0 ? err_symbol(r) : b.p, want);
}

/* A file in memory, with its table opened. */
struct opened {
	struct sbuf b;
	struct gb_map m;
	struct img_file *f;
	struct gotab *t;
};

static void open_bytes(struct opened *o, size_t max)
{
	assert_int_equal(img_file_open_mem(o->b.p, o->b.len, &o->f, NULL), 0);
	assert_int_equal(gotab_open(o->f, max, &o->t), 0);
}

static void opened_done(struct opened *o)
{
	gotab_freep(&o->t);
	img_file_freep(&o->f);
	sbuf_done(&o->b);
}

static void build_open(struct opened *o, const struct gb_opts *opts, const struct gb_fn *fns,
                       size_t n)
{
	gb_build(opts, fns, n, &o->b, &o->m);
	open_bytes(o, LIMIT);
}

/* ---- programs -------------------------------------------------------------------------------- */

#define FILES                                                                                      \
	{                                                                                          \
		NULL, "a.go", "b.go", "c.go"                                                       \
	}

/*
 * main.outer, 64 bytes: 16 of its own in a.go, 16 of main.middle in b.go, 16 of main.inner in c.go
 * which was inlined into main.middle, 16 of its own. main.plain: no tables.
 */
static const struct gb_fn program[] = {
        {.name = "main.plain", .len = 32, .step = {{0, 32}}},
        {.name = "main.outer",
         .len = 64,
         .pad = 16,
         .step = {{8, 64}},
         .file = {{1, 16}, {2, 16}, {3, 16}, {1, 16}},
         .line = {{10, 8}, {11, 8}, {21, 16}, {31, 16}, {12, 16}},
         .in = {{-1, 16}, {0, 16}, {1, 16}, {-1, 16}},
         .calls = {{"main.middle", 15, 20, 0}, {"main.inner", 31, 30, 0}},
         .start_line = 9},
        {.name = "main.last", .len = 16, .step = {{0, 16}}, .file = {{2, 16}}, .line = {{7, 16}}},
};

static const struct gb_opts versions[] = {
        {.version = 12, .in_data = true, .files = FILES},
        {.version = 12, .in_data = true, .files = FILES, .go112 = true},
        {.version = 116, .in_data = true, .files = FILES},
        {.version = 118, .in_data = true, .files = FILES, .module = GB_MODULE},
        {.version = 118, .in_data = true, .files = FILES, .module = GB_RELOCATED_MODULE},
        {.version = 120, .in_data = true, .files = FILES, .module = GB_MODULE},
        {.version = 120, .in_data = true, .files = FILES, .module = GB_RELOCATED_MODULE},
        {.version = 120,
         .in_data = true,
         .files = FILES,
         .module = GB_RELOCATED_MODULE,
         .no_text_start = true},
};

static void test_frames_of_every_version(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		const bool narrow = versions[i].version >= 120; /* with lines of functions */
		_cleanup_(opened_done) struct opened o = {0};
		uint64_t at;

		build_open(&o, &versions[i], program, ARRAY_SIZE(program));
		at = o.m.at[1];
		check(o.t, o.m.at[0], "main.plain ?:0");
		check(o.t, at, narrow ? "main.outer a.go:10 (9)" : "main.outer a.go:10");
		check(o.t, at + 15, narrow ? "main.outer a.go:11 (9)" : "main.outer a.go:11");
		check(o.t, at + 16,
		      narrow ? "main.middle b.go:21 (20); main.outer a.go:11 (9)"
		             : "main.middle b.go:21; main.outer a.go:11");
		check(o.t, at + 47,
		      narrow ? "main.inner c.go:31 (30); main.middle b.go:21 (20); "
		               "main.outer a.go:11 (9)"
		             : "main.inner c.go:31; main.middle b.go:21; main.outer a.go:11");
		check(o.t, at + 63, narrow ? "main.outer a.go:12 (9)" : "main.outer a.go:12");
		/* Padding belongs to the function before it, and to no line. */
		check(o.t, at + 64, narrow ? "main.outer ?:0 (9)" : "main.outer ?:0");
		check(o.t, o.m.at[2], "main.last b.go:7");
		check(o.t, o.m.at[2] + 15, "main.last b.go:7");
	}
}

static void test_addresses_outside_have_no_function(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		_cleanup_(opened_done) struct opened o = {0};

		build_open(&o, &versions[i], program, ARRAY_SIZE(program));
		check(o.t, 0, "ENOENT");
		check(o.t, o.m.at[0] - 1, "ENOENT");
		check(o.t, o.m.at[3], "ENOENT");
		check(o.t, o.m.at[3] + (1ULL << 32), "ENOENT");
		check(o.t, UINT64_MAX, "ENOENT");
	}
}

/* In any order: what a look-up caches of the one before changes nothing. */
static void test_the_order_of_addresses_does_not_matter(void **state)
{
	_cleanup_(opened_done) struct opened o = {0};
	uint64_t seed = 1;

	(void)state;
	build_open(&o, &versions[5], program, ARRAY_SIZE(program));
	for (int i = 0; i < 2000; i++) {
		_cleanup_(gotab_freep) struct gotab *fresh = NULL;
		_cleanup_(sbuf_done) struct sbuf want;
		uint64_t at;

		seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
		at = o.m.at[0] + (seed >> 33) % (o.m.at[3] - o.m.at[0]);
		sbuf_init(&want, 4096);
		assert_int_equal(gotab_open(o.f, LIMIT, &fresh), 0);
		assert_int_equal(gotab_resolve(fresh, at, on_frame, &want), 0);
		check(o.t, at, want.p);
	}
}

static void test_without_moduledata_there_are_names_and_lines_still(void **state)
{
	/* call runtime.goexit1, at 16 from the second byte of runtime.goexit */
	static const uint8_t goexit[16] = {0x90, 0xe8, 10, 0, 0, 0, 0x90};
	struct gb_fn fns[5] = {
	        {.name = "runtime.goexit", .code = goexit, .len = 16, .step = {{0, 16}}},
	        {.name = "runtime.goexit1", .len = 16, .step = {{0, 16}}},
	};
	struct gb_opts opts = {.version = 120, .in_data = true, .files = FILES};

	(void)state;
	memcpy(fns + 2, program, sizeof(program));
	for (int reported = 0; reported < 2; reported++) {
		_cleanup_(opened_done) struct opened o = {0};

		opts.no_text_start = !reported;
		opts.lead = reported ? 0 : 48;
		build_open(&o, &opts, fns, ARRAY_SIZE(fns));
		check(o.t, o.m.at[3] + 8, "main.outer a.go:11 (9)");
		check(o.t, o.m.at[3] + 40, "main.outer c.go:31 (9)");
	}
}

/* Data that only looks like moduledata is refused. */
static void test_moduledata_that_contradicts_the_table_is_not_believed(void **state)
{
	static const size_t words[] = {1, 4, 7, 10, 13, 20, 21, 22};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		_cleanup_(opened_done) struct opened o = {0};

		gb_build(&versions[5], program, ARRAY_SIZE(program), &o.b, &o.m);
		o.b.p[o.m.module + words[i] * 8] ^= 8;
		open_bytes(&o, LIMIT);
		check(o.t, o.m.at[1] + 40, "main.outer c.go:31 (9)");
	}
}

static void test_type_arguments_are_printed_as_dots(void **state)
{
	static const struct {
		const char *name, *want;
	} cases[] = {
	        {"main.F[go.shape.int]", "main.F[...] ?:0"},
	        {"main.F[...]", "main.F[...] ?:0"},
	        {"main.(*T[go.shape.map[string]int]).m.func1", "main.(*T[...]).m.func1 ?:0"},
	        {"main.F[a].G[b]", "main.F[...] ?:0"},
	        {"main.F[", "main.F[ ?:0"},
	        {"main.F]x[", "main.F]x[ ?:0"},
	        {"type:.eq.main.T", "type:.eq.main.T ?:0"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct gb_fn fn = {.name = cases[i].name, .len = 16, .step = {{0, 16}}};
		_cleanup_(opened_done) struct opened o = {0};

		build_open(&o, &versions[5], &fn, 1);
		check(o.t, o.m.at[0], cases[i].want);
	}
}

static void test_names_have_64_KiB_at_most(void **state)
{
	enum { MOST = 65536 };
	static char name[MOST + 2], want[MOST + 16];

	(void)state;
	memset(name, 'n', sizeof(name) - 1);
	memset(want, 'n', MOST - 2);
	memcpy(want + MOST - 2, "[...] ?:0", 10);
	for (size_t len = MOST; len <= MOST + 1; len++) {
		const struct gb_fn fn = {.name = name, .len = 16, .step = {{0, 16}}};
		_cleanup_(opened_done) struct opened o = {0};

		memcpy(name + len - 2, "[]", 3);
		name[MOST - 2] = len == MOST ? '[' : 'n';
		build_open(&o, &versions[5], &fn, 1);
		check(o.t, o.m.at[0], len == MOST ? want : "EINVAL");
	}
}

#define ID_WRAPPER 22

static void test_wrappers_are_left_out_where_another_frame_remains(void **state)
{
	struct gb_fn fns[] = {
	        {.name = "main.(*T).m",
	         .len = 32,
	         .step = {{0, 32}},
	         .file = {{1, 16}, {2, 16}},
	         .line = {{1, 16}, {5, 16}},
	         .in = {{-1, 16}, {0, 16}},
	         .calls = {{"main.T.m", 15, 4, 0}},
	         .func_id = ID_WRAPPER},
	};
	const struct {
		uint8_t function, call;
		int version;
		const char *want; /* in the inlined call */
	} cases[] = {
	        {ID_WRAPPER, 0, 120, "main.T.m b.go:5 (4)"},
	        {0, ID_WRAPPER, 120, "main.(*T).m a.go:1"},
	        {ID_WRAPPER, ID_WRAPPER, 120, "main.(*T).m a.go:1"},
	        {20, 0, 120, "main.T.m b.go:5 (4); main.(*T).m a.go:1"},
	        /* The runtime did not leave out the function itself then. */
	        {ID_WRAPPER, 0, 118, "main.T.m b.go:5; main.(*T).m a.go:1"},
	        {0, ID_WRAPPER, 118, "main.(*T).m a.go:1"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(opened_done) struct opened o = {0};

		fns[0].func_id = cases[i].function;
		fns[0].calls[0].func_id = cases[i].call;
		build_open(&o, &versions[cases[i].version == 120 ? 5 : 3], fns, 1);
		check(o.t, o.m.at[0], "main.(*T).m a.go:1");
		check(o.t, o.m.at[0] + 16, cases[i].want);
	}
}

static int count(void *arg, const struct gotab_frame *f, bool last)
{
	int *left = arg;

	(void)f;
	(void)last;
	return --*left == 0 ? -ECANCELED : 0;
}

static void test_the_call_back_ends_it(void **state)
{
	_cleanup_(opened_done) struct opened o = {0};
	int left = 2;

	(void)state;
	build_open(&o, &versions[5], program, ARRAY_SIZE(program));
	assert_int_equal(gotab_resolve(o.t, o.m.at[1] + 40, count, &left), -ECANCELED);
	assert_int_equal(left, 0);
}

/* ---- damage ---------------------------------------------------------------------------------- */

static void test_calls_inlined_into_themselves_come_to_an_end(void **state)
{
	const struct gb_fn fn = {.name = "main.f",
	                         .len = 32,
	                         .step = {{0, 32}},
	                         .in = {{0, 32}},
	                         .calls = {{"main.g", 3, 0, 0}}};
	_cleanup_(opened_done) struct opened o = {0};
	int left = 1000;

	(void)state;
	build_open(&o, &versions[5], &fn, 1);
	assert_int_equal(gotab_resolve(o.t, o.m.at[0] + 4, count, &left), 0);
	assert_int_equal(1000 - left, 64);
}

static void test_damage_costs_what_is_damaged(void **state)
{
	struct gb_fn fns[] = {program[0], program[1], program[2]};
	_cleanup_(opened_done) struct opened file = {0}, call = {0}, index = {0};

	(void)state;
	/* a file that is not there: the line remains */
	fns[1].file[0].value = 1000;
	build_open(&file, &versions[5], fns, ARRAY_SIZE(fns));
	check(file.t, file.m.at[1], "main.outer ?:10 (9)");
	check(file.t, file.m.at[1] + 50, "main.outer a.go:12 (9)");
	/* a call outside of the function */
	fns[1] = program[1];
	fns[1].calls[1].parent_pc = 1000;
	build_open(&call, &versions[5], fns, ARRAY_SIZE(fns));
	check(call.t, call.m.at[1] + 40, "main.outer c.go:31 (9)");
	check(call.t, call.m.at[1] + 20, "main.middle b.go:21 (20); main.outer a.go:11 (9)");
	/* an entry far after the tree */
	fns[1] = program[1];
	fns[1].in[2].value = INT32_MAX;
	build_open(&index, &versions[5], fns, ARRAY_SIZE(fns));
	check(index.t, index.m.at[1] + 40, "main.outer c.go:31 (9)");
}

static void test_a_function_without_a_name_is_damaged(void **state)
{
	const struct gb_fn fn = {.name = "", .len = 16, .step = {{0, 16}}};
	_cleanup_(opened_done) struct opened o = {0};

	(void)state;
	build_open(&o, &versions[5], &fn, 1);
	check(o.t, o.m.at[0], "EINVAL");
}

static int ignore(void *arg, const struct gotab_frame *f, bool last)
{
	(void)arg;
	(void)last;
	assert_true(strlen(f->name) <= 65536 && (!f->file || strlen(f->file) <= 65536));
	return 0;
}

static void resolve_all(const struct sbuf *b, uint64_t from, uint64_t to)
{
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	_cleanup_(gotab_freep) struct gotab *t = NULL;

	if (img_file_open_mem(b->p, b->len, &f, NULL) < 0 || gotab_open(f, LIMIT, &t) < 0)
		return;
	for (uint64_t at = from; at < to; at += 7) {
		int r = gotab_resolve(t, at, ignore, NULL);

		assert_true(r == 0 || r == -ENOENT || r == -EINVAL);
	}
}

static void test_every_byte_can_be_damaged(void **state)
{
	static const uint8_t with[] = {0x00, 0x7f, 0xff};

	(void)state;
	for (size_t v = 0; v < ARRAY_SIZE(versions); v++) {
		_cleanup_(sbuf_done) struct sbuf b;
		struct gb_map m;

		gb_build(&versions[v], program, ARRAY_SIZE(program), &b, &m);
		for (size_t i = m.table; i < m.table + m.table_len; i++) {
			const char was = b.p[i];

			for (size_t k = 0; k < ARRAY_SIZE(with); k++) {
				b.p[i] = (char)with[k];
				resolve_all(&b, m.at[0], m.at[3]);
			}
			b.p[i] = was;
		}
		for (size_t len = m.table; len < b.len; len += 5) {
			struct sbuf cut = b;

			cut.len = len;
			resolve_all(&cut, m.at[0], m.at[3]);
		}
	}
}

/* ---- memory and time ------------------------------------------------------------------------- */

#define NAMES      100
#define NAME_BYTES 5000 /* longer than what windows have in common */

/* A table of functions of 16 bytes, with long names, and one of @steps values by pc that all of
 * them begin with, each for a byte. */
static void build_large(struct opened *o, size_t functions, size_t fn_bytes, size_t steps)
{
	const struct gb_opts opts = {.version = 120};
	const size_t functab = 72, records = functab + 8 * functions + 8,
	             names = records + 44 * functions, pctab = names + functions * (NAME_BYTES + 1);
	_cleanup_(sbuf_done) struct sbuf text, tab;
	const struct gb_fn fn = {.name = ""};

	sbuf_init(&text, 1 << 20);
	sbuf_init(&tab, 1 << 20);
	gb_pad(&text, functions * fn_bytes, (char)0x90);
	gb_int(&tab, 0x0801000000000000ULL | 0xfffffff1, 8);
	gb_int(&tab, functions, 8);
	gb_int(&tab, 0, 8);
	gb_int(&tab, GB_TEXT_VADDR, 8);
	gb_int(&tab, names, 8);
	gb_int(&tab, pctab, 8); /* of files: there are none */
	gb_int(&tab, pctab, 8);
	gb_int(&tab, pctab, 8);
	gb_int(&tab, functab, 8);
	for (size_t i = 0; i <= functions; i++) {
		gb_int(&tab, i * fn_bytes, 4);
		gb_int(&tab, records - functab + 44 * i, 4);
	}
	for (size_t i = 0; i < functions; i++) {
		const struct gb_places p = {.name = i * (NAME_BYTES + 1), .pcfile = 1, .pcln = 1};

		gb_full_record(&tab, &opts, i * fn_bytes, &p, &fn, 0);
	}
	for (size_t i = 0; i < functions; i++) {
		gb_pad(&tab, names + (i + 1) * (NAME_BYTES + 1) - 1, (char)('a' + i % 26));
		(void)sbuf_char(&tab, 0);
	}
	(void)sbuf_char(&tab, 0);
	for (size_t i = 0; i < steps; i++) {
		gb_uleb(&tab, i == 0 ? 16 : i % 2 ? 4 : 3); /* 7, 9, 7, 9, … */
		gb_uleb(&tab, 1);
	}
	(void)sbuf_char(&tab, 0);
	assert_false(text.err || tab.err);
	o->m.at[0] = GB_TEXT_VADDR;
	o->m.table_len = tab.len;
	gb_wrap(&o->b, ".text", true, text.p, text.len, tab.p, tab.len, &o->m.table);
}

static void test_a_table_larger_than_the_limit_is_read_by_windows(void **state)
{
	_cleanup_(opened_done) struct opened o = {0};
	char name[NAME_BYTES + 32] = "";

	(void)state;
	build_large(&o, NAMES, 16, 16);
	open_bytes(&o, 1);
	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < NAMES; i++) {
			memset(name, (char)('a' + i % 26), NAME_BYTES);
			memcpy(name + NAME_BYTES, " ?:9", 5);
			check(o.t, GB_TEXT_VADDR + 16 * i + 15, name);
			assert_true(gotab_bytes(o.t) < (96 << 10));
		}
	}
}

static void test_loading_the_whole_table_is_refused_over_the_limit(void **state)
{
	_cleanup_(gotab_freep) struct gotab *t = NULL;
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	_cleanup_(sbuf_done) struct sbuf b;
	struct gotab_func fn;
	struct gb_map m;

	(void)state;
	gb_build(&(struct gb_opts){.version = 120}, program, ARRAY_SIZE(program), &b, &m);
	assert_int_equal(img_file_open_mem(b.p, b.len, &f, NULL), 0);
	assert_int_equal(gotab_load(f, m.table_len - 1, &t), -E2BIG);
	assert_int_equal(gotab_load(f, m.table_len, &t), 0);
	assert_true(gotab_bytes(t) >= m.table_len);
	assert_int_equal(gotab_count(t), ARRAY_SIZE(program));
	assert_int_equal(gotab_func(t, 1, &fn), 0);
	assert_string_equal(fn.name, "main.outer");
	assert_int_equal(fn.start, m.at[1]);
	assert_int_equal(fn.end, m.at[2]);
	assert_int_equal(gotab_func(t, ARRAY_SIZE(program), &fn), -EINVAL);
}

/* Every look-up begins far before where it ends: sooner or later only names are given. */
static void test_a_table_that_costs_too_much_loses_its_lines(void **state)
{
	const uint64_t steps = 150000;
	_cleanup_(opened_done) struct opened o = {0};
	size_t i, len;

	(void)state;
	build_large(&o, 1, steps, steps);
	open_bytes(&o, LIMIT);
	for (i = 0; i < 1000; i++) {
		_cleanup_(sbuf_done) struct sbuf b;

		sbuf_init(&b, 1 << 20);
		assert_int_equal(
		        gotab_resolve(o.t, GB_TEXT_VADDR + steps - 2 - 2 * i, on_frame, &b), 0);
		len = b.len;
		if (strcmp(b.p + len - 4, " ?:0") == 0)
			break;
		assert_string_equal(b.p + len - 4, " ?:7");
	}
	/* 2^26 steps, and 20,000 for each; reading it for lines and for files takes 300,000. */
	assert_true(i > 200 && i < 300);
}

static void test_other_files_have_no_table(void **state)
{
	static const struct gb_opts cases[] = {
	        {.version = 120, .section = ".text"},
	        {.version = 120, .magic = 0xfffffff2},
	        {.version = 120, .quantum = 4},
	        {.version = 12, .magic = 0xfffffffc},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(img_file_freep) struct img_file *f = NULL;
		_cleanup_(sbuf_done) struct sbuf b;
		struct gotab *t = NULL;
		struct gb_map m;

		gb_build(&cases[i], program, ARRAY_SIZE(program), &b, &m);
		assert_int_equal(img_file_open_mem(b.p, b.len, &f, NULL), 0);
		assert_int_equal(gotab_open(f, LIMIT, &t), -ENOENT);
		assert_null(t);
	}
	assert_null(gotab_free(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_frames_of_every_version),
	        cmocka_unit_test(test_addresses_outside_have_no_function),
	        cmocka_unit_test(test_the_order_of_addresses_does_not_matter),
	        cmocka_unit_test(test_without_moduledata_there_are_names_and_lines_still),
	        cmocka_unit_test(test_moduledata_that_contradicts_the_table_is_not_believed),
	        cmocka_unit_test(test_type_arguments_are_printed_as_dots),
	        cmocka_unit_test(test_names_have_64_KiB_at_most),
	        cmocka_unit_test(test_wrappers_are_left_out_where_another_frame_remains),
	        cmocka_unit_test(test_the_call_back_ends_it),
	        cmocka_unit_test(test_calls_inlined_into_themselves_come_to_an_end),
	        cmocka_unit_test(test_damage_costs_what_is_damaged),
	        cmocka_unit_test(test_a_function_without_a_name_is_damaged),
	        cmocka_unit_test(test_every_byte_can_be_damaged),
	        cmocka_unit_test(test_a_table_larger_than_the_limit_is_read_by_windows),
	        cmocka_unit_test(test_loading_the_whole_table_is_refused_over_the_limit),
	        cmocka_unit_test(test_a_table_that_costs_too_much_loses_its_lines),
	        cmocka_unit_test(test_other_files_have_no_table),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
