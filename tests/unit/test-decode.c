/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>
#include <libdeflate.h>

#include "decode/decode.h"

static int decode(const void *data, size_t len, struct dec_profile *p, struct err *err)
{
	*p = (struct dec_profile){0};
	*err = (struct err){0};
	return dec_profile(data, len, "x", NULL, p, err);
}

/* The stacks of a model as text: "a;b[kernel]|inlined 3", root first, a line a sample. */
static void show(const struct prof_model *m, char *text, size_t size)
{
	size_t n = 0;

	text[0] = 0;
	vec_each (s, &m->samples) {
		for (uint32_t i = s->loc_cnt; i-- > 0;) {
			const struct prof_location *l =
			        &m->locations.p[m->loc_ids.p[s->loc_first + i] - 1];

			for (uint32_t k = l->line_cnt; k-- > 0;) {
				uint32_t fn = m->lines.p[l->line_first + k].function;

				n += (size_t)snprintf(
				        text + n, size - n, "%s%s", k + 1 < l->line_cnt ? "|" : "",
				        prof_model_str(m, m->functions.p[fn - 1].name));
			}
			n += (size_t)snprintf(
			        text + n, size - n, "%s%s",
			        l->mapping ? prof_model_str(m, m->mappings.p[l->mapping - 1].path)
			                   : "",
			        i ? ";" : "");
		}
		n += (size_t)snprintf(text + n, size - n, " %lld\n", (long long)s->value[0]);
		assert_true(n < size);
	}
}

static void test_folded_stacks_become_samples(void **state)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
	        {"a;b;c 12\n", "a;b;c 12\n"},
	        {"a;b;c 12", "a;b;c 12\n"},
	        {"a;b 1\r\n\r\n\na 2\r\n", "a;b 1\na 2\n"},
	        {"a;b 1\na;b 2\n", "a;b 3\n"},
	        {"main;parse(char const*, int) 7\n", "main;parse(char const*, int) 7\n"},
	        {"a;read_[k];vfs_[k] 3\n", "a;read[kernel];vfs[kernel] 3\n"},
	        {"node;f_[j] 3\n", "node;f[jit] 3\n"},
	        {"a;f;g_[i];h_[i];leaf 1\n", "a;f|g|h;leaf 1\n"},
	        {"g_[i] 1\n", "g 1\n"},
	        {"_[k] 1\n", "_[k] 1\n"},
	        {"a_[x] 1\n", "a_[x] 1\n"},
	        {";a;;b 1\n", "[unknown];a;[unknown];b 1\n"},
	        {"a\tb 2\n", "a?b 2\n"},
	        {"a\033[31m 2\n", "a?[31m 2\n"},
	        {"a 0.5\nb 1.4999\nc 2.0\n", "a 1\nb 1\nc 2\n"},
	        {"a 0\n", "a 0\n"},
	        {"a 9223372036854775807\na 1\n", "a 9223372036854775807\n"},
	};
	(void)state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct dec_profile p;
		struct err err;
		char text[4096];

		assert_int_equal(decode(cases[i].in, strlen(cases[i].in), &p, &err), 0);
		assert_int_equal(p.format, DEC_FOLDED);
		assert_int_equal(p.n_models, 1);
		assert_int_equal(p.models[0]->n_types, 1);
		show(p.models[0], text, sizeof(text));
		assert_string_equal(text, cases[i].out);
		dec_profile_done(&p);
	}
}

static void test_rounded_values_are_noted(void **state)
{
	static const char text[] = "a 0.5\nb 1.25\nc 2.0\n";
	struct dec_profile p;
	struct err err;
	(void)state;

	assert_int_equal(decode(text, strlen(text), &p, &err), 0);
	assert_int_equal(p.n_notes, 2);
	assert_string_equal(p.notes[1], "2 values with fractions were rounded to whole numbers");
	dec_profile_done(&p);
}

/* @type: as in the options. Shows "type/unit value notes". */
static const char *typed(const char *type, const char *in)
{
	const struct dec_options o = {.folded_type = type};
	static char text[1024];
	struct dec_profile p = {0};
	struct err err = {0};

	if (dec_profile(in, strlen(in), "x", &o, &p, &err) < 0)
		(void)snprintf(text, sizeof(text), "%s", err.msg);
	else
		(void)snprintf(text, sizeof(text), "%s/%s %lld %u",
		               prof_model_str(p.models[0], p.models[0]->sample_type[0].type),
		               prof_model_str(p.models[0], p.models[0]->sample_type[0].unit),
		               (long long)p.models[0]->samples.p[0].value[0], p.n_notes);
	dec_profile_done(&p);
	return text;
}

static void test_folded_stacks_have_the_unit_that_is_given(void **state)
{
	(void)state;
	assert_string_equal(typed(NULL, "a 5"), "value/count 5 1");
	assert_string_equal(typed("alloc_space", "a 5"), "value/count 5 1");
	assert_string_equal(typed("samples", "a 5"), "samples/count 5 0");
	assert_string_equal(typed("cpu", "a 5"), "cpu/nanoseconds 5000 0");
	assert_string_equal(typed("offcpu", "a 9223372036854775"),
	                    "offcpu/nanoseconds 9223372036854775000 0");
	assert_non_null(strstr(typed("offcpu", "a 1\na 9223372036854776"),
	                       "line 2: the time after the stack is over 2^63 ns"));
}

static void test_addresses_of_folded_stacks_have_no_name(void **state)
{
	static const char text[] = "a;0x401136 [serve] 3\n";
	struct dec_profile p;
	struct err err;
	(void)state;

	assert_int_equal(decode(text, strlen(text), &p, &err), 0);
	assert_int_equal(p.models[0]->locations.p[0].reason, EV_REASON_NO_SYMBOL);
	assert_int_equal(p.models[0]->locations.p[1].reason, EV_REASON_NAMED);
	dec_profile_done(&p);
}

/* Before the number of the first line, where nothing says that the text is folded stacks. */
#define TEXT                                                                                       \
	"x: no profile: expected pprof, perf.data or folded stacks (lines such as 'main;work "     \
	"12'), found text: line "

static void test_what_is_no_profile_is_refused(void **state)
{
	static const struct {
		const char *in, *msg;
	} cases[] = {
	        {"", "x: the file is empty"},
	        {"\n \n", "x: no stacks: all lines are blank"},
	        {"a 1\na;b\n", "x: line 2: no blank between a stack and its number"},
	        {"a;b c\n", TEXT "1: no number after the stack"},
	        {"a;b 1x\n", TEXT "1: no number after the stack"},
	        {"a;b 1.\n", TEXT "1: no number after the stack"},
	        {"a;b 1.x\n", TEXT "1: no number after the stack"},
	        {"a;b -4\n", TEXT "1: the number after the stack is negative"},
	        {"a 9223372036854775808\n", TEXT "1: the number after the stack is over 2^63"},
	        {"a 99999999999999999999\n", TEXT "1: the number after the stack is over 2^63"},
	        {"a 1\n\n\n 3\n", "x: line 4: no stack before the number"},
	        {"\177ELF\2\1\1", "x: no profile: it is an ELF file"},
	        {"{\"a\": 1}", "x: no profile: it is a JSON file"},
	        {"<svg>", "x: no profile: it is an SVG picture"},
	        {"\1\2\3\4\5", "x: no profile: neither folded stacks nor pprof"},
	};
	(void)state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct dec_profile p;
		struct err err;

		assert_int_equal(decode(cases[i].in, strlen(cases[i].in), &p, &err), -EINVAL);
		assert_string_equal(err.msg, cases[i].msg);
		dec_profile_done(&p);
	}
}

static void test_too_many_frames_are_refused(void **state)
{
	const size_t n = PROF_SAMPLE_LOCS_MAX + 1;
	_cleanup_free_ char *text = malloc(2 * n + 2);
	struct dec_profile p;
	struct err err;
	(void)state;

	for (size_t i = 0; i < n; i++) {
		text[2 * i] = 'a';
		text[2 * i + 1] = ';';
	}
	text[2 * n - 1] = ' ';
	text[2 * n] = '1';
	assert_int_equal(decode(text, 2 * n + 1, &p, &err), -E2BIG);
	assert_string_equal(err.msg, "x: line 1: more than 65536 frames");
	dec_profile_done(&p);
	/* The limit itself is no error. */
	assert_int_equal(decode(text + 2, 2 * n - 1, &p, &err), 0);
	assert_int_equal(p.models[0]->samples.p[0].loc_cnt, PROF_SAMPLE_LOCS_MAX);
	dec_profile_done(&p);
}

/* ---- compression ----------------------------------------------------------------------------- */

/* @len bytes as one member of a gzip file, at @to. */
static size_t gzip(const void *data, size_t len, char *to, size_t room)
{
	struct libdeflate_compressor *c = libdeflate_alloc_compressor(6);
	size_t n = libdeflate_gzip_compress(c, data, len, to, room);

	libdeflate_free_compressor(c);
	assert_true(n > 0);
	return n;
}

static void test_gzip_with_several_members(void **state)
{
	char z[512], text[256];
	size_t n = gzip("a;b 1\n", 6, z, sizeof(z));
	struct dec_profile p;
	struct err err;
	(void)state;

	n += gzip("c 2\n", 4, z + n, sizeof(z) - n);
	assert_int_equal(decode(z, n, &p, &err), 0);
	assert_true(p.gzip && p.n_notes == 1); /* of the unit */
	show(p.models[0], text, sizeof(text));
	assert_string_equal(text, "a;b 1\nc 2\n");
	dec_profile_done(&p);

	memset(z + n, 0, 3);
	assert_int_equal(decode(z, n + 3, &p, &err), 0);
	assert_int_equal(p.n_notes, 2);
	assert_string_equal(p.notes[0], "3 bytes after the end of the gzip data were ignored");
	dec_profile_done(&p);
}

static void test_truncated_gzip_is_refused_at_each_byte(void **state)
{
	char z[512];
	const size_t len = gzip("aaaa;bbbb 1\n", 12, z, sizeof(z));
	(void)state;

	for (size_t n = 0; n < len; n++) {
		/* Its own memory: a sanitizer sees a read beyond it. */
		_cleanup_free_ char *copy = malloc(n ? n : 1);
		struct dec_profile p;
		struct err err;

		memcpy(copy, z, n);
		assert_int_equal(decode(copy, n, &p, &err), -EINVAL);
		assert_true(str_starts(err.msg, "x: "));
		dec_profile_done(&p);
	}
}

static void test_a_decompression_bomb_is_stopped(void **state)
{
	const size_t size = 8 << 20;
	_cleanup_free_ char *zero = calloc(1, size), *z = malloc(1 << 20);
	size_t n = gzip(zero, size, z, 1 << 20);
	struct dec_options o = {.max_unpacked_bytes = 1 << 20};
	struct dec_profile p = {0};
	struct err err = {0};
	(void)state;

	assert_int_equal(dec_profile(z, n, "bomb.gz", &o, &p, &err), -E2BIG);
	assert_true(str_starts(err.msg, "bomb.gz: more than 1 MiB after decompression"));
	dec_profile_done(&p);
}

/* A file that is small has a smaller bound. */
static void test_a_small_decompression_bomb_takes_little_memory(void **state)
{
	const size_t size = DEC_BOMB_BYTES_MAX + 1;
	_cleanup_free_ char *zero = calloc(1, size), *z = malloc(1 << 20);
	size_t n = gzip(zero, size, z, 1 << 20);
	struct dec_profile p = {0};
	struct err err = {0};
	(void)state;

	assert_int_equal(decode(z, n, &p, &err), -E2BIG);
	assert_string_equal(err.msg,
	                    "x: more than 64 MiB after decompression, far more than profiles "
	                    "have: decompress it first (gunzip) if you trust it");
	dec_profile_done(&p);
}

/* ---- files ----------------------------------------------------------------------------------- */

static void test_files_are_read_up_to_their_bound(void **state)
{
	char path[] = "/tmp/test-decode-XXXXXX", want[128];
	int fd = mkstemp(path);
	struct dec_options o = {.max_file_bytes = 7};
	struct dec_profile p = {0};
	struct err err = {0};
	(void)state;

	assert_true(fd >= 0);
	assert_int_equal(file_write_full(fd, "a;b 12\n", 7), 0);
	assert_int_equal(dec_file(path, &o, &p, &err), 0);
	assert_int_equal(p.models[0]->samples.p[0].value[0], 12);
	dec_profile_done(&p);
	o.max_file_bytes = 6;
	assert_int_equal(dec_file(path, &o, &p, &err), -E2BIG);
	(void)snprintf(want, sizeof(want), "%s: longer than 0 MiB", path);
	assert_string_equal(err.msg, want);
	dec_profile_done(&p);
	close(fd);
	unlink(path);

	assert_int_equal(dec_file(path, NULL, &p, &err), -ENOENT);
	(void)snprintf(want, sizeof(want), "cannot read %s: %s", path, err_name(ENOENT));
	assert_string_equal(err.msg, want);
	assert_int_equal(dec_file("/", NULL, &p, &err), -EISDIR);
	assert_string_equal(err.msg, "cannot read /: is a directory (EISDIR)");
}

static void test_standard_input(void **state)
{
	struct dec_profile p = {0};
	struct err err = {0};
	int fds[2], old = dup(STDIN_FILENO);
	(void)state;

	assert_int_equal(pipe(fds), 0);
	assert_int_equal(file_write_full(fds[1], "a 3\nb\n", 6), 0);
	close(fds[1]);
	assert_true(dup2(fds[0], STDIN_FILENO) >= 0);
	assert_int_equal(dec_file("-", NULL, &p, &err), -EINVAL);
	assert_string_equal(err.msg,
	                    "standard input: line 2: no blank between a stack and its number");
	dec_profile_done(&p);
	assert_true(dup2(old, STDIN_FILENO) >= 0);
	close(old);
	close(fds[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_folded_stacks_become_samples),
	        cmocka_unit_test(test_rounded_values_are_noted),
	        cmocka_unit_test(test_folded_stacks_have_the_unit_that_is_given),
	        cmocka_unit_test(test_addresses_of_folded_stacks_have_no_name),
	        cmocka_unit_test(test_what_is_no_profile_is_refused),
	        cmocka_unit_test(test_too_many_frames_are_refused),
	        cmocka_unit_test(test_gzip_with_several_members),
	        cmocka_unit_test(test_truncated_gzip_is_refused_at_each_byte),
	        cmocka_unit_test(test_a_decompression_bomb_is_stopped),
	        cmocka_unit_test(test_a_small_decompression_bomb_takes_little_memory),
	        cmocka_unit_test(test_files_are_read_up_to_their_bound),
	        cmocka_unit_test(test_standard_input),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
