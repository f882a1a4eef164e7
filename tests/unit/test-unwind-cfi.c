/* SPDX-License-Identifier: Apache-2.0 */
/* Call-frame information that is well-formed: each instruction, encoding and kind of entry. Built a
 * second time for arm64. */
#include "cfi_text.h"

static void test_each_instruction(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(insn_cases); i++) {
		const struct insn_case *t = &insn_cases[i];
		const struct cb_cie o = {.code_align = CIE_ALIGN};
		uint64_t unsupported = t->unsupported;
		struct sbuf want;
		size_t cie, insn;
		struct cb c;

		cb_init(&c, false, false);
		cie = cb_cie(&c, &o);
		insn = cb_fde(&c, cie, 0, CB_TEXT + 0x100, 0x40, t->insn, t->len);
		/* To the end of the entry, with its padding, for an instruction. */
		if (unsupported > 1)
			unsupported = c.b.len - insn - (size_t)(t->insn[0] == 0x41);
		sbuf_init(&want, 4096);
		sbuf_addf(&want, "100-140: %s\n", t->want);
		expect(&c, t->name, want.p, strstr(t->want, "bad") != NULL, unsupported);
		sbuf_done(&want);
	}
}

static void test_each_way_to_end_too_early_is_bad(void **state)
{
	/* Instructions of an FDE whose operands are cut off by its end. */
	static const struct {
		const uint8_t *insn;
		size_t len;
	} cases[] = {
	        {CB("\x02")},
	        {CB("\x03\x01")},
	        {CB("\x04\x01\x02\x03")},
	        {CB("\x01\x01")},
	        {CB("\x0c\x07")},
	        {CB("\x0c")},
	        {CB("\x05\x03")},
	        {CB("\x83")},
	        {CB("\x83\x80\x80")},
	        {CB("\x0f\x05\x77")},
	        {CB("\x10\x03\x7f")},
	        {CB("\x09\x03")},
	        {CB("\x14\x03")},
	        {CB("\x1d\x01\x01")},
	        {CB("\x2e")},
	        {CB("\x07\xff")},
	        {CB("\x10\x03\xff\xff\xff\xff\xff\xff\xff\xff\x7f")},
	};
	const struct cb_cie o = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint8_t insn[16];
		struct cb c;
		size_t cie, at;
		uint32_t len;

		/* Advances that change nothing, so that the operand ends with the entry. */
		cb_init(&c, false, false);
		cie = cb_cie(&c, &o);
		memset(insn, 0x40, sizeof(insn));
		at = c.b.len;
		(void)cb_fde(&c, cie, 0, CB_TEXT + 0x100, 0x40, insn, cases[i].len);
		c.b.len -= (c.b.len - at - 25) - cases[i].len;
		memcpy(c.b.p + c.b.len - cases[i].len, cases[i].insn, cases[i].len);
		len = (uint32_t)(c.b.len - at - 4);
		memcpy(c.b.p + at, &len, sizeof(len));
		expect(&c, "cut off", "100-140: 0 bad\n", 1, 0);
	}
}

static void test_states_nest_to_a_bound(void **state)
{
	uint8_t insn[64];
	struct cb c;
	size_t cie;

	(void)state;
	memset(insn, 0x0a, sizeof(insn));
	for (int i = 0; i < 2; i++) {
		cb_init(&c, false, false);
		cie = cb_cie(&c, &(struct cb_cie){0});
		(void)cb_fde(&c, cie, 0, CB_TEXT, 4, insn, CFI_REMEMBER_MAX + (size_t)i);
		expect(&c, "nested", i ? "0-4: 0 bad\n" : "0-4: 0 " CALL "\n", (uint64_t)i, 0);
	}
}

/* ---- encodings ------------------------------------------------------------------------------- */

static void test_each_pointer_encoding(void **state)
{
	static const uint8_t formats[] = {0x00, 0x01, 0x03, 0x04, 0x08, 0x09, 0x0b, 0x0c};
	static const uint8_t bases[] = {0x00, 0x10, 0x20, 0x30};

	(void)state;
	for (size_t f = 0; f < ARRAY_SIZE(formats); f++) {
		for (size_t b = 0; b < ARRAY_SIZE(bases); b++) {
			uint8_t enc = formats[f] | bases[b];
			const struct cb_cie o = {.enc = enc};
			struct cb c;
			size_t cie;

			/* Backwards from here cannot be said without a sign in 4 bytes. */
			if (enc == 0x13)
				continue;
			cb_init(&c, false, false);
			cie = cb_cie(&c, &o);
			(void)cb_fde(&c, cie, enc, CB_TEXT + 0x80, 0x20, CB(""));
			expect(&c, "encoding", "80-a0: 0 " CALL "\n", 0, 0);
		}
	}
}

static void test_encoding_of_two_bytes(void **state)
{
	struct cb c;
	size_t cie;

	(void)state;
	/* No segment begins so low: left out as what the linker dropped. */
	cb_init(&c, false, false);
	cie = cb_cie(&c, &(struct cb_cie){.enc = 0x02});
	(void)cb_fde(&c, cie, 0x02, 0x1000, 0x20, CB(""));
	expect(&c, "udata2", "", 0, 0);
}

static void test_indirect_pointer_is_read_from_the_file(void **state)
{
	const uint64_t target = CB_TEXT + 0x40;
	struct cb c;
	size_t cie;

	(void)state;
	/* It is at the end of text. */
	memcpy(file_bytes.p + EB_TEXT_OFF + 0xf00, &target, sizeof(target));
	cb_init(&c, false, false);
	cie = cb_cie(&c, &(struct cb_cie){.enc = 0x9b});
	(void)cb_fde(&c, cie, 0x1b, CB_TEXT + 0xf00, 0x20, CB(""));
	expect(&c, "indirect", "40-60: 0 " CALL "\n", 0, 0);
	/* Outside of every segment. */
	cb_init(&c, false, false);
	cie = cb_cie(&c, &(struct cb_cie){.enc = 0x9b});
	(void)cb_fde(&c, cie, 0x1b, 0x700000, 0x20, CB(""));
	expect(&c, "indirect into nothing", "", 1, 0);
}

static void test_encodings_that_do_not_exist_are_bad(void **state)
{
	static const uint8_t encs[] = {0xff, 0x05, 0x0d, 0x40, 0x60, 0x70};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(encs); i++) {
		struct cb c;
		size_t cie;

		cb_init(&c, false, false);
		cie = cb_cie(&c, &(struct cb_cie){.enc = encs[i]});
		(void)cb_fde(&c, cie, 0, CB_TEXT, 0x20, CB(""));
		expect(&c, "no encoding", "", 1, 0);
	}
}

/* ---- CIEs ------------------------------------------------------------------------------------ */

static void test_versions_lengths_and_both_sections(void **state)
{
	static const uint8_t versions[] = {1, 3, 4};

	(void)state;
	for (size_t v = 0; v < ARRAY_SIZE(versions); v++) {
		for (int kind = 0; kind < 4; kind++) {
			struct cb c;
			size_t cie;

			cb_init(&c, kind & 1, kind & 2);
			cb_num(&c, 0, 0);
			cie = cb_cie(&c, &(struct cb_cie){.version = versions[v]});
			(void)cb_fde(&c, cie, 0, CB_TEXT, 0x20, CB(""));
			/* In .debug_frame offset 0 is a CIE like others; so try a later one. */
			cie = cb_cie(&c, &(struct cb_cie){.version = versions[v]});
			(void)cb_fde(&c, cie, 0, CB_TEXT + 0x20, 0x20, CB("\x0e\x10"));
			expect(&c, "version",
#ifdef ABI_ARM64
			       "0-20: 0 r31+0 ra=r30\n20-40: 0 r31+16 ra=r30\n",
#else
			       "0-20: 0 r7+8 ra=[c-8]\n20-40: 0 r7+16 ra=[c-8]\n",
#endif
			       0, 0);
		}
	}
}

static void test_augmentations(void **state)
{
	static const struct {
		const char *aug;
		const uint8_t *data;
		size_t len;
		const char *want;
		uint64_t bad;
	} cases[] = {
	        {"z", CB(""), "0-20: 0 " CALL "\n", 0},
	        {"zR", CB("\x00"), "0-20: 0 " CALL "\n", 0},
	        {"zPLR", CB("\x1b\x01\x02\x03\x04\x1b\x00"), "0-20: 0 " CALL "\n", 0},
	        {"zPLR", CB("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x1b\x00"), "0-20: 0 " CALL "\n",
	         0},
	        {"zRB", CB("\x00"), "0-20: 0 " CALL "\n", 0},
	        {"zRQ", CB("\x00\x01\x02"), "0-20: 0 " CALL "\n", 0},
	        {"zQR", CB("\x00\x01\x02"), "", 1}, /* what Q has is not known */
	        {"zR", CB(""), "", 1},
	        {"zP", CB("\x1b\x01"), "", 1},
	        {"armcc+", CB(""), "", 1},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct cb_cie o = {
		        .aug = cases[i].aug, .aug_data = cases[i].data, .aug_len = cases[i].len};
		struct cb c;
		size_t cie;

		cb_init(&c, false, false);
		cie = cb_cie(&c, &o);
		(void)cb_fde(&c, cie, 0, CB_TEXT, 0x20, CB(""));
		expect(&c, cases[i].aug, cases[i].want, cases[i].bad, 0);
	}
}

static void test_signal_frame(void **state)
{
	struct cb c;
	size_t cie;

	(void)state;
	cb_init(&c, false, false);
	cie = cb_cie(&c, &(struct cb_cie){.aug = "zRS"});
	(void)cb_fde(&c, cie, 0, CB_TEXT, 0x20, CB("\x0c\x06\x10"));
#ifdef ABI_ARM64
	expect(&c, "signal", "0-20: 0 r6+16 signal ra=r30\n", 0, 0);
#else
	expect(&c, "signal", "0-20: 0 r6+16 signal ra=[c-8]\n", 0, 0);
#endif
}

static void test_alignment_factors(void **state)
{
	struct cb c;
	size_t cie;

	(void)state;
	cb_init(&c, false, false);
	cie = cb_cie(&c, &(struct cb_cie){.code_align = 8, .data_align = 4});
	(void)cb_fde(&c, cie, 0, CB_TEXT, 0x20, CB("\x83\x03\x41\x0e\x10"));
#ifdef ABI_ARM64
	expect(&c, "factors", "0-20: 0 r31+0 ra=r30 r3=[c+12]; 8 r31+16 ra=r30 r3=[c+12]\n", 0, 0);
#else
	expect(&c, "factors", "0-20: 0 r7+8 ra=[c+4] r3=[c+12]; 8 r7+16 ra=[c+4] r3=[c+12]\n", 0,
	       0);
#endif
}

static void test_damaged_cies_cost_their_functions(void **state)
{
	static const struct cb_cie cases[] = {
	        {.insn = (const uint8_t *)"\xc3", .insn_len = 1},     /* restore */
	        {.insn = (const uint8_t *)"\x41\x00", .insn_len = 2}, /* advance_loc */
	        {.insn = (const uint8_t *)"\x00", .insn_len = 1},     /* no CFA */
	};
	static const struct cb_cie useless[] = {
	        {.version = 2},
	        {.version = 9},
	        {.version = 4, .addr_size = 3},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct cb_cie o = cases[i];
		struct cb c;
		size_t cie;

		cb_init(&c, false, false);
		cie = cb_cie(&c, &o);
#ifndef ABI_ARM64
		if (i == 2) /* without a return address either it would be a root */
			(void)cb_fde(&c, cie, 0, CB_TEXT, 0x20, CB("\x90\x01"));
		else
#endif
			(void)cb_fde(&c, cie, 0, CB_TEXT, 0x20, CB(""));
		expect(&c, "damaged CIE", "0-20: 0 bad\n", 1, 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(useless); i++) {
		struct cb c;
		size_t cie;

		cb_init(&c, false, false);
		cie = cb_cie(&c, &useless[i]);
		(void)cb_fde(&c, cie, 0, CB_TEXT, 0x20, CB(""));
		(void)cb_fde(&c, cie, 0, CB_TEXT + 0x20, 0x20, CB(""));
		cie = cb_cie(&c, &(struct cb_cie){0});
		(void)cb_fde(&c, cie, 0, CB_TEXT + 0x40, 0x20, CB(""));
		expect(&c, "useless CIE", "40-60: 0 " CALL "\n", 2, 0);
	}
}

static void test_many_cies(void **state)
{
	enum { N = 1000 };
	size_t cies[N];
	struct recorder rec;
	struct cb c;

	(void)state;
	cb_init(&c, false, false);
	for (size_t i = 0; i < N; i++) {
		uint8_t insn[5] = {0x0c, ABI_REG_FP, (uint8_t)(i & 127)};

		cies[i] = cb_cie(&c, &(struct cb_cie){.insn = insn, .insn_len = 3});
	}
	for (size_t i = 0; i < N; i++)
		(void)cb_fde(&c, cies[i], 0, CB_TEXT + 4 * i, 4, CB("\x83\x02\x09" RA_BYTE "\x03"));
	rec_init(&rec);
	assert_int_equal(cb_read(&c, file, &rec), 0);
	assert_int_equal(rec.funcs.n, N);
	for (size_t i = 0; i < N; i++)
		assert_int_equal(rec_rule(&rec, rec.rows.p[i].code)->cfa_off, i & 127);
	rec_done(&rec);
	sbuf_done(&c.b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_each_instruction),
	        cmocka_unit_test(test_each_way_to_end_too_early_is_bad),
	        cmocka_unit_test(test_states_nest_to_a_bound),
	        cmocka_unit_test(test_each_pointer_encoding),
	        cmocka_unit_test(test_encoding_of_two_bytes),
	        cmocka_unit_test(test_indirect_pointer_is_read_from_the_file),
	        cmocka_unit_test(test_encodings_that_do_not_exist_are_bad),
	        cmocka_unit_test(test_versions_lengths_and_both_sections),
	        cmocka_unit_test(test_augmentations),
	        cmocka_unit_test(test_signal_frame),
	        cmocka_unit_test(test_alignment_factors),
	        cmocka_unit_test(test_damaged_cies_cost_their_functions),
	        cmocka_unit_test(test_many_cies),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("unwind-cfi", tests, setup, teardown);
}
