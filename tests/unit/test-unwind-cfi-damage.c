/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call-frame information that is damaged, byte by byte: it is read to an end, within bounds, and
 * what one function lost costs no other one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>

#include "cfi_builder.h"

#define FUNCS      6
#define FUNC_BYTES 0x40

static struct img_file *file;
static struct sbuf file_bytes;

static int setup(void **state)
{
	const struct eb_opts o = {0};
	struct eb_map m;

	(void)state;
	eb_build(&o, &file_bytes, &m);
	return img_file_open_mem(file_bytes.p, file_bytes.len, &file, NULL);
}

static int teardown(void **state)
{
	(void)state;
	file = img_file_free(file);
	sbuf_done(&file_bytes);
	return 0;
}

/* An area of some functions that use most instructions; [lo, hi) of each one's entry. */
struct sample {
	struct cb c;
	size_t lo[FUNCS], hi[FUNCS], insn[FUNCS];
};

static void sample_init(struct sample *s, bool debug_frame)
{
	static const struct {
		const uint8_t *p;
		size_t len;
	} insns[FUNCS] = {
	        {CB("\x41\x0e\x10\x86\x02\x43\x0d\x06\x02\x11\x0a\xc6\x0c\x07\x08\x41\x0b")},
	        {CB("\x0f\x0b\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22")},
	        {CB("\x10\x03\x03\x77\x10\x06\x16\x0c\x02\x77\x00\x41\x07\x10")},
	        {CB("\x03\x01\x00\x0e\x80\x02\x04\x02\x00\x00\x00\x13\x7e\x2e\x10\x05\x0d\x04")},
	        {CB("\x0f\x03\x76\x78\x06\x41\x0d\x07\x41\x14\x07\x02\x15\x03\x01\x09\x0e\x0f")},
	        {CB("\x01\x60\x11\x40\x00\x00\x00\x00\x00\x06\x03\x08\x06\x2f\x03\x02")},
	};
	size_t cie;

	cb_init(&s->c, debug_frame, false);
	cie = cb_cie(&s->c, &(struct cb_cie){0});
	for (size_t i = 0; i < FUNCS; i++) {
		s->lo[i] = s->c.b.len;
		s->insn[i] = cb_fde(&s->c, cie, 0, CB_TEXT + i * FUNC_BYTES, FUNC_BYTES, insns[i].p,
		                    insns[i].len);
		s->hi[i] = s->c.b.len;
	}
	/* The last one's set_loc has to lie in it. */
	s->c.b.p[s->insn[FUNCS - 1] + 1] = (char)((FUNCS - 1) * FUNC_BYTES + 0x10);
	s->c.b.p[s->insn[FUNCS - 1] + 2] = (char)(0x10 + ((FUNCS - 1) * FUNC_BYTES + 0x10) / 256);
}

static char *read_text(const struct cb *c, struct uw_build_stats *ret)
{
	_cleanup_free_ char *copy = malloc(c->b.len ? c->b.len : 1);
	struct recorder rec;
	struct cb exact = *c;
	char *text;

	/* A block of exactly this size: a sanitizer sees what is read after it. */
	assert_non_null(copy);
	memcpy(copy, c->b.p, c->b.len);
	exact.b.p = copy;
	rec_init(&rec);
	assert_int_equal(cb_read(&exact, file, &rec), 0);
	/* One row for two bytes, at the most: an advance and something that changes. */
	assert_true(rec.rows.n <= c->b.len);
	assert_true(rec.stats.unsupported <= c->b.len * (FUNCS + 1));
	text = cb_text(&rec);
	*ret = rec.stats;
	rec_done(&rec);
	return text;
}

/* Line @i of @text. */
static char *line_of(const char *text, size_t i)
{
	const char *end;

	while (i-- > 0 && (text = strchr(text, '\n')) != NULL)
		text++;
	end = text ? strchr(text, '\n') : NULL;
	return end ? strndup(text, (size_t)(end - text)) : strdup("");
}

static void test_sample_is_sound(void **state)
{
	for (int debug = 0; debug < 2; debug++) {
		struct uw_build_stats stats;
		struct sample s;
		char *text;

		(void)state;
		sample_init(&s, debug);
		text = read_text(&s.c, &stats);
		assert_int_equal(stats.entries, FUNCS);
		assert_int_equal(stats.bad_entries, 0);
		assert_int_equal(stats.unsupported, 0);
		assert_null(strstr(text, "bad"));
		free(text);
		sbuf_done(&s.c.b);
	}
}

static const uint8_t values[] = {0x00, 0x01, 0x0a, 0x0b, 0x0f, 0x10, 0x16, 0x3f,
                                 0x41, 0x7f, 0x80, 0x81, 0xc0, 0xe0, 0xfe, 0xff};

static void test_damaged_instructions_cost_one_function(void **state)
{
	struct uw_build_stats stats;
	struct sample s;
	char *whole;
	size_t changed = 0, refused = 0;

	(void)state;
	sample_init(&s, false);
	whole = read_text(&s.c, &stats);
	for (size_t f = 0; f < FUNCS; f++) {
		for (size_t at = s.insn[f]; at < s.hi[f]; at++) {
			for (size_t v = 0; v < ARRAY_SIZE(values); v++) {
				char was = s.c.b.p[at], *text;

				s.c.b.p[at] = (char)values[v];
				text = read_text(&s.c, &stats);
				s.c.b.p[at] = was;
				assert_int_equal(stats.entries, FUNCS);
				assert_true(stats.bad_entries <= 1);
				refused += stats.bad_entries;
				for (size_t i = 0; i < FUNCS; i++) {
					char *a = line_of(whole, i), *b = line_of(text, i);

					if (i == f)
						changed += strcmp(a, b) != 0;
					else
						assert_string_equal(a, b);
					/* It keeps its range. */
					assert_memory_equal(a, b, (size_t)(strchr(a, ':') - a));
					free(a);
					free(b);
				}
				free(text);
			}
		}
	}
	/* Else nothing was tried. */
	assert_true(changed > 500);
	assert_true(refused > 200);
	free(whole);
	sbuf_done(&s.c.b);
}

/* @text has the line of function @i of @whole. */
static void expect_line(const char *text, const char *whole, size_t i)
{
	char *line = line_of(whole, i);
	const char *at = strstr(text, line);

	assert_true(*line != 0);
	assert_non_null(at);
	assert_int_equal(at[strlen(line)], '\n');
	free(line);
}

/* Bytes of a length: all later entries begin elsewhere. */
#define LENGTH_BYTES 4

static bool is_length(const struct sample *s, size_t at)
{
	for (size_t i = 0; i < FUNCS; i++)
		if (at >= s->lo[i] && at < s->lo[i] + LENGTH_BYTES)
			return true;
	return false;
}

static void test_a_damaged_byte_costs_the_entry_that_it_belongs_to(void **state)
{
	for (int debug = 0; debug < 2; debug++) {
		struct uw_build_stats stats;
		struct sample s;
		char *whole;

		(void)state;
		sample_init(&s, debug);
		whole = read_text(&s.c, &stats);
		for (size_t at = 0; at < s.c.b.len; at++) {
			for (unsigned int v = 0; v < 256; v += 5) {
				char was = s.c.b.p[at], *text;

				s.c.b.p[at] = (char)v;
				text = read_text(&s.c, &stats);
				s.c.b.p[at] = was;
				assert_true(stats.entries <= FUNCS);
				/* The CIE belongs to all. */
				for (size_t i = 0; i < FUNCS && at >= s.lo[0]; i++)
					if (at >= s.hi[i] || (at < s.lo[i] && !is_length(&s, at)))
						expect_line(text, whole, i);
				free(text);
			}
		}
		free(whole);
		sbuf_done(&s.c.b);
	}
}

static void test_entries_before_a_cut_are_whole(void **state)
{
	for (int debug = 0; debug < 2; debug++) {
		struct uw_build_stats stats;
		struct sample s;
		char *all;
		size_t len;

		(void)state;
		sample_init(&s, debug);
		all = read_text(&s.c, &stats);
		len = s.c.b.len;
		for (size_t cut = 0; cut < len; cut++) {
			size_t whole = 0;
			char *text;

			s.c.b.len = cut;
			text = read_text(&s.c, &stats);
			while (whole < FUNCS && s.hi[whole] <= cut)
				whole++;
			assert_int_equal(stats.entries, whole);
			assert_true(stats.bad_entries <= 1);
			for (size_t i = 0; i < whole; i++)
				expect_line(text, all, i);
			free(text);
		}
		free(all);
		sbuf_done(&s.c.b);
	}
}

static void test_many_entries_cannot_share_a_long_cie(void **state)
{
	uint8_t insn[2000];
	struct uw_build_stats stats;
	struct cb c;
	size_t cie;
	char *text;

	(void)state;
	memset(insn, 0, sizeof(insn));
	cb_init(&c, false, false);
	cie = cb_cie(&c, &(struct cb_cie){.insn = insn, .insn_len = sizeof(insn)});
	(void)cb_fde(&c, cie, 0, CB_TEXT, 0x20, CB(""));
	text = read_text(&c, &stats);
	assert_string_equal(text, "0-20: 0 bad\n");
	free(text);
	sbuf_done(&c.b);
	/* Nor one whose letters go on and on. */
	memset(insn, 'B', sizeof(insn) - 1);
	insn[0] = 'z';
	insn[sizeof(insn) - 1] = 0;
	cb_init(&c, false, false);
	cie = cb_cie(&c, &(struct cb_cie){.aug = (const char *)insn, .aug_data = insn});
	(void)cb_fde(&c, cie, 0, CB_TEXT, 0x20, CB(""));
	text = read_text(&c, &stats);
	assert_string_equal(text, "");
	assert_int_equal(stats.bad_entries, 1);
	free(text);
	sbuf_done(&c.b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_sample_is_sound),
	        cmocka_unit_test(test_damaged_instructions_cost_one_function),
	        cmocka_unit_test(test_a_damaged_byte_costs_the_entry_that_it_belongs_to),
	        cmocka_unit_test(test_entries_before_a_cut_are_whole),
	        cmocka_unit_test(test_many_entries_cannot_share_a_long_cie),
	};

#ifdef __aarch64__
	/* The sample's instructions are x86-64's. */
	puts("1..0 # SKIP rules of x86-64");
	return 0;
#endif
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("unwind-cfi-damage", tests, setup, teardown);
}
