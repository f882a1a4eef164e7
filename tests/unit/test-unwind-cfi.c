/* SPDX-License-Identifier: Apache-2.0 */
/* Call-frame information that is well-formed: each instruction, encoding and kind of entry. Built a
 * second time for arm64. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cfi_builder.h"
#include "unwind/uw_cfi_priv.h"

#ifdef ABI_ARM64
#define RA_BYTE  "\x1e"
#define CALL_OFF "\x00"
#else
#define RA_BYTE  "\x10"
#define CALL_OFF "\x08"
#endif

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

/* Reads what was built: its rows must be @want, with so many damaged and not understood. */
static void expect(struct cb *c, const char *name, const char *want, uint64_t bad,
                   uint64_t unsupported)
{
	struct recorder rec;
	char *got;

	rec_init(&rec);
	assert_int_equal(cb_read(c, file, &rec), 0);
	got = cb_text(&rec);
	if (strcmp(got, want) != 0)
		print_error("%s:\n", name);
	assert_string_equal(got, want);
	if (rec.stats.bad_entries != bad || rec.stats.unsupported != unsupported)
		print_error("%s: %lu bad, %lu unsupported\n", name, rec.stats.bad_entries,
		            rec.stats.unsupported);
	assert_int_equal(rec.stats.bad_entries, bad);
	assert_int_equal(rec.stats.unsupported, unsupported);
	free(got);
	rec_done(&rec);
	sbuf_done(&c->b);
}

/* ---- instructions ---------------------------------------------------------------------------- */

struct insn_case {
	const char *name;
	const uint8_t *insn;
	size_t len;
	const char *want; /* behind "100-140: " */
	uint64_t unsupported;
};

#ifdef ABI_ARM64
#define CALL  "r31+0 ra=r30"
#define SAVED "r31+32 ra=[c-24] r29=[c-32] r30=[c-24]"
static const struct insn_case insn_cases[] = {
        {"nothing", CB(""), "0 " CALL, 0},
        {"frame record", CB("\x41\x0e\x20\x9d\x04\x9e\x03"), "0 " CALL "; 4 " SAVED, 0},
        {"restore", CB("\x0e\x20\x9d\x04\x9e\x03\x41\xdd\xde\x0e\x00"), "0 " SAVED "; 4 " CALL, 0},
        {"negate_ra_state changes nothing", CB("\x2d\x41\x2c\x0e\x10"),
         "0 " CALL "; 4 r31+16 ra=r30", 0},
        {"vector registers and ra_sign_state are left out",
         CB("\x05\x48\x02\x05\x22\x03\x07\x22\x16\x22\x01\x30"), "0 " CALL, 0},
        {"return address in another register", CB("\x09\x1e\x0f"), "0 r31+0 ra=r15 r30=r15", 0},
        {"undefined return address", CB("\x07\x1e"), "0 root", 0},
        {"same_value of the return address", CB("\x9e\x01\x41\x08\x1e"),
         "0 r31+0 ra=[c-8] r30=[c-8]; 4 " CALL, 0},
        {"deepest register", CB("\x0c\x1d\x10\x9f\x02"), "0 r29+16 ra=r30 r31=[c-16]", 0},
        {"register too high for a CFA", CB("\x0d\x20"), "0 bad", 0},
};
#define CIE_ALIGN 4
#else
#define CALL      "r7+8 ra=[c-8]"
#define SAVED     "r7+16 ra=[c-8] r3=[c-16]"
static const struct insn_case insn_cases[] = {
        {"nothing", CB(""), "0 " CALL, 0},
        {"nop", CB("\x00\x00"), "0 " CALL, 0},
        {"advance_loc", CB("\x41\x0e\x10"), "0 " CALL "; 1 r7+16 ra=[c-8]", 0},
        {"advance_loc of nothing", CB("\x40\x0e\x10"), "0 r7+16 ra=[c-8]", 0},
        {"advance_loc1", CB("\x02\x11\x0e\x10"), "0 " CALL "; 11 r7+16 ra=[c-8]", 0},
        {"advance_loc2", CB("\x03\x11\x00\x0e\x10"), "0 " CALL "; 11 r7+16 ra=[c-8]", 0},
        {"advance_loc4", CB("\x04\x11\x00\x00\x00\x0e\x10"), "0 " CALL "; 11 r7+16 ra=[c-8]", 0},
        {"MIPS_advance_loc8", CB("\x1d\x11\x00\x00\x00\x00\x00\x00\x00\x0e\x10"),
         "0 " CALL "; 11 r7+16 ra=[c-8]", 0},
        {"set_loc", CB("\x01\x20\x11\x40\x00\x00\x00\x00\x00\x0e\x10"),
         "0 " CALL "; 20 r7+16 ra=[c-8]", 0},
        {"set_loc backwards", CB("\x60\x01\x10\x11\x40\x00\x00\x00\x00\x00\x0e\x10"), "0 bad", 0},
        {"rows that are equal are one", CB("\x41\x0e\x10\x41\x0e\x10\x41\x00\x41\x0e\x08"),
         "0 " CALL "; 1 r7+16 ra=[c-8]; 4 " CALL, 0},
        {"rows behind the end are left out", CB("\x7f\x0e\x10\x41\x0e\x18\x41\x3f"),
         "0 " CALL "; 3f r7+16 ra=[c-8]", 0},
        {"an advance past all addresses", CB("\x1d\xff\xff\xff\xff\xff\xff\xff\xff"), "0 bad", 0},
        {"offset", CB("\x0e\x10\x83\x02"), "0 " SAVED, 0},
        {"offset_extended", CB("\x0e\x10\x05\x03\x02"), "0 " SAVED, 0},
        {"offset_extended_sf", CB("\x11\x03\x7e"), "0 r7+8 ra=[c-8] r3=[c+16]", 0},
        {"GNU_negative_offset_extended", CB("\x2f\x03\x02"), "0 r7+8 ra=[c-8] r3=[c+16]", 0},
        {"restore", CB("\x0e\x10\x83\x02\x41\xc3"), "0 " SAVED "; 1 r7+16 ra=[c-8]", 0},
        {"restore_extended", CB("\x0e\x10\x83\x02\x41\x06\x03"), "0 " SAVED "; 1 r7+16 ra=[c-8]",
         0},
        {"restore of what the CIE says", CB("\x90\x02\x41\xd0"), "0 r7+8 ra=[c-16]; 1 " CALL, 0},
        {"undefined", CB("\x07\x00"), "0 r7+8 ra=[c-8] r0=lost", 0},
        {"same_value", CB("\x83\x02\x41\x08\x03"), "0 r7+8 ra=[c-8] r3=[c-16]; 1 " CALL, 0},
        {"undefined return address", CB("\x07\x10"), "0 root", 0},
        {"undefined from the middle on", CB("\x41\x07\x10"), "0 " CALL "; 1 root", 0},
        {"register", CB("\x09\x03\x0c\x09\x10\x02"), "0 r7+8 ra=r2 r3=r12", 0},
        {"register in itself", CB("\x09\x03\x03"), "0 " CALL, 0},
        {"register in a vector register", CB("\x09\x03\x11"), "0 r7+8 ra=[c-8] r3=lost", 0},
        {"return address in a vector register", CB("\x09\x10\x11"), "0 bad", 0},
        {"remember and restore state", CB("\x0a\x0e\x10\x83\x02\x0a\x41\x0e\x18\x41\x0b\x41\x0b"),
         "0 " SAVED "; 1 r7+24 ra=[c-8] r3=[c-16]; 2 " SAVED "; 3 " CALL, 0},
        {"restore_state of nothing", CB("\x0b"), "0 bad", 0},
        {"def_cfa", CB("\x0c\x06\x10"), "0 r6+16 ra=[c-8]", 0},
        {"def_cfa_sf", CB("\x12\x06\x7e"), "0 r6+16 ra=[c-8]", 0},
        {"def_cfa_register", CB("\x0d\x06"), "0 r6+8 ra=[c-8]", 0},
        {"def_cfa_offset", CB("\x0e\x80\x01"), "0 r7+128 ra=[c-8]", 0},
        {"def_cfa_offset_sf", CB("\x13\x7e"), "0 r7+16 ra=[c-8]", 0},
        {"a CFA offset of 31 bits", CB("\x0e\xff\xff\xff\xff\x07"), "0 r7+2147483647 ra=[c-8]", 0},
        {"a CFA offset of 32 bits", CB("\x0e\xff\xff\xff\xff\x0f"), "0 bad", 0},
        {"a register offset of 40 bits", CB("\x83\xff\xff\xff\xff\xff\x01"), "0 bad", 0},
        {"val_offset", CB("\x14\x07\x02"), "0 r7+8 ra=[c-8] r7=c-16", 0},
        {"val_offset_sf", CB("\x15\x07\x7e"), "0 r7+8 ra=[c-8] r7=c+16", 0},
        {"the stack pointer is the CFA", CB("\x14\x07\x00"), "0 " CALL, 0},
        {"GNU_args_size", CB("\x2e\x80\x02\x41\x0e\x10"), "0 " CALL "; 1 r7+16 ra=[c-8]", 0},
        {"vector registers are left out", CB("\x05\x11\x02\x05\x40\x02\x16\x12\x02\x77\x00"),
         "0 " CALL, 0},
        {"def_cfa_expression of a register", CB("\x0f\x02\x77\x10"), "0 r7+16 ra=[c-8]", 0},
        {"def_cfa_expression of a saved register", CB("\x0f\x03\x76\x78\x06"),
         "0 [r6-8]+0 ra=[c-8]", 0},
        {"PLT", CB("\x0f\x0b\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22"), "0 r7+8/11 ra=[c-8]",
         0},
        {"PLT with endbr64", CB("\x0f\x0b\x77\x08\x80\x00\x3f\x1a\x39\x2a\x33\x24\x22"),
         "0 r7+8/9 ra=[c-8]", 0},
        {"any other CFA expression", CB("\x0f\x05\x77\x08\x80\x00\x22"), "0 expr ra=[c-8]", 0},
        {"expression", CB("\x10\x03\x02\x77\x10"), "0 r7+8 ra=[c-8] r3=[r7+16]", 0},
        {"any other expression", CB("\x10\x03\x03\x77\x10\x06"), "0 r7+8 ra=[c-8] r3=[expr]", 0},
        {"val_expression", CB("\x16\x03\x02\x77\x10"), "0 r7+8 ra=[c-8] r3=expr", 0},
        {"def_cfa_register after an expression takes the offset before it",
         CB("\x0e\x18\x0f\x05\x77\x08\x80\x00\x22\x41\x0d\x07"),
         "0 expr ra=[c-8]; 1 r7+24 ra=[c-8]", 0},
        {"def_cfa_offset under an expression waits for a register",
         CB("\x0f\x03\x76\x78\x06\x0e\x18\x41\x0d\x07"), "0 [r6-8]+0 ra=[c-8]; 1 r7+24 ra=[c-8]",
         0},
        {"restore_state brings that offset back, too",
         CB("\x0a\x0e\x18\x0b\x0f\x03\x76\x78\x06\x41\x0d\x07"), "0 [r6-8]+0 ra=[c-8]; 1 " CALL, 0},
        {"register too high for a CFA", CB("\x0d\x10"), "0 bad", 0},
        {"an empty CFA expression", CB("\x0f\x00"), "0 bad", 0},
        {"an expression that is not understood", CB("\x0f\x03\x77\x08\xe0"), "0 bad", 1},
        {"an instruction that is not understood", CB("\x41\x3c\x01\x02"), "0 bad", 0x10 - 1 - 1},
        {"window_save is another processor's", CB("\x2d"), "0 bad", 0x10 - 1},
};
#define CIE_ALIGN 1
#endif

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
	/* It stands at the end of text. */
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

/* ---- FDEs ------------------------------------------------------------------------------------ */

static void test_functions_that_the_linker_dropped(void **state)
{
	struct cb c;
	size_t cie;

	(void)state;
	cb_init(&c, true, false);
	cie = cb_cie(&c, &(struct cb_cie){0});
	(void)cb_fde(&c, cie, 0, 0, 0x20, CB(""));               /* at 0 */
	(void)cb_fde(&c, cie, 0, 0x30, 0x20, CB(""));            /* at an addend */
	(void)cb_fde(&c, cie, 0, 0x403000, 0x20, CB(""));        /* in data */
	(void)cb_fde(&c, cie, 0, CB_TEXT + 0x1000, 1, CB(""));   /* behind text */
	(void)cb_fde(&c, cie, 0, CB_TEXT + 0x10, 0, CB(""));     /* of no bytes */
	(void)cb_fde(&c, cie, 0, CB_TEXT + 0xff0, 0x10, CB("")); /* the last there can be */
	(void)cb_fde(&c, cie, 0, CB_TEXT + 0xff0, 0x11, CB("")); /* beyond */
	(void)cb_fde(&c, cie, 0, CB_TEXT + 0x10, UINT64_MAX, CB(""));
	expect(&c, "dropped", "ff0-1000: 0 " CALL "\n", 2, 0);
}

static void test_terminator(void **state)
{
	for (int debug = 0; debug < 2; debug++) {
		struct cb c;
		size_t cie;

		(void)state;
		cb_init(&c, debug, false);
		cie = cb_cie(&c, &(struct cb_cie){0});
		(void)cb_fde(&c, cie, 0, CB_TEXT, 0x20, CB(""));
		cb_num(&c, 0, 4);
		(void)cb_fde(&c, cie, 0, CB_TEXT + 0x20, 0x20, CB(""));
		expect(&c, "terminator",
		       debug ? "0-20: 0 " CALL "\n20-40: 0 " CALL "\n" : "0-20: 0 " CALL "\n", 0,
		       0);
	}
}

static void test_entry_past_the_end_ends_the_reading(void **state)
{
	static const uint32_t lens[] = {0x7fffffff, 0xfffffff0, 0xfffffffe, 0xffffffff, 64, 3, 1};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lens); i++) {
		struct cb c;
		size_t cie;

		cb_init(&c, false, false);
		cie = cb_cie(&c, &(struct cb_cie){0});
		(void)cb_fde(&c, cie, 0, CB_TEXT, 0x20, CB(""));
		cb_num(&c, lens[i], 4);
		cb_num(&c, 0x5555555555555555, lens[i] < 8 ? lens[i] : 8);
		expect(&c, "past the end", "0-20: 0 " CALL "\n", 1, 0);
	}
}

static void test_cie_pointer_to_nowhere(void **state)
{
	static const size_t to[] = {1, 8, 1 << 20, (size_t)-64};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(to); i++) {
		struct cb c;
		size_t cie;

		cb_init(&c, false, false);
		cie = cb_cie(&c, &(struct cb_cie){0});
		(void)cb_fde(&c, to[i], 0, CB_TEXT, 0x20, CB(""));
		(void)cb_fde(&c, cie, 0, CB_TEXT + 0x20, 0x20, CB(""));
		expect(&c, "no CIE", "20-40: 0 " CALL "\n", 1, 0);
	}
}

/* A file whose first segment was moved and stretched. */
static struct img_file *file_with_text_at(uint64_t vaddr, uint64_t mem_size, struct sbuf *b)
{
	const struct eb_opts o = {0};
	struct img_file *f = NULL;
	struct eb_map m;
	Elf64_Phdr p;

	eb_build(&o, b, &m);
	memcpy(&p, b->p + m.phoff, sizeof(p));
	p.p_vaddr = vaddr;
	p.p_memsz = mem_size;
	memcpy(b->p + m.phoff, &p, sizeof(p));
	assert_int_equal(img_file_open_mem(b->p, b->len, &f, NULL), 0);
	return f;
}

static void test_function_at_0_is_none_even_if_there_is_code(void **state)
{
	struct recorder rec;
	struct img_file *f;
	struct sbuf b;
	struct cb c;
	size_t cie;

	(void)state;
	f = file_with_text_at(0, EB_TEXT_SIZE, &b);
	cb_init(&c, true, false);
	cie = cb_cie(&c, &(struct cb_cie){0});
	(void)cb_fde(&c, cie, 0, 0, 0x800, CB(""));
	(void)cb_fde(&c, cie, 0, 0x100, 0x20, CB(""));
	rec_init(&rec);
	assert_int_equal(cb_read(&c, f, &rec), 0);
	assert_int_equal(rec.funcs.n, 1);
	assert_int_equal(rec.funcs.p[0].start, 0x100);
	assert_int_equal(rec.stats.bad_entries, 0);
	rec_done(&rec);
	sbuf_done(&c.b);
	img_file_free(f);
	sbuf_done(&b);
}

static void test_rows_of_a_function_are_bounded(void **state)
{
	uint8_t *insn = malloc((CFI_ROWS_MAX + 2) * 3ul);
	struct recorder rec;
	struct img_file *f;
	struct sbuf b;
	size_t cie;
	struct cb c;

	(void)state;
	assert_non_null(insn);
	for (size_t i = 0; i < CFI_ROWS_MAX + 2; i++)
		memcpy(insn + 3 * i, i & 1 ? "\x0e\x10\x41" : "\x0e\x18\x41", 3);
	f = file_with_text_at(CB_TEXT, 8ul << 20, &b);
	for (size_t over = 0; over < 2; over++) {
		cb_init(&c, false, false);
		cie = cb_cie(&c, &(struct cb_cie){0});
		(void)cb_fde(&c, cie, 0, CB_TEXT, CFI_ROWS_MAX + over, insn,
		             3 * (CFI_ROWS_MAX + over));
		(void)cb_fde(&c, cie, 0, CB_TEXT + (4 << 20), 0x20, CB(""));
		rec_init(&rec);
		assert_int_equal(cb_read(&c, f, &rec), 0);
		assert_int_equal(rec.funcs.n, 2);
		assert_int_equal(rec.funcs.p[0].n, over ? 1 : CFI_ROWS_MAX);
		assert_int_equal(rec.stats.bad_entries, over);
		rec_done(&rec);
		sbuf_done(&c.b);
	}
	free(insn);
	img_file_free(f);
	sbuf_done(&b);
}

/* ---- what the others say --------------------------------------------------------------------- */

static void test_refused_rules_are_bad_rows(void **state)
{
	struct recorder rec;
	struct cb c;
	size_t cie;
	char *got;

	(void)state;
	cb_init(&c, false, false);
	cie = cb_cie(&c, &(struct cb_cie){0});
	(void)cb_fde(&c, cie, 0, CB_TEXT, 0x20, CB("\x41\x0e\x10"));
	rec_init(&rec);
	rec.rules.fail_code = -E2BIG;
	assert_int_equal(cb_read(&c, file, &rec), 0);
	got = cb_text(&rec);
	assert_string_equal(got, "0-20: 0 bad\n");
	assert_int_equal(rec.stats.bad_entries, 1);
	free(got);
	rec_done(&rec);
	rec_init(&rec);
	rec.rules.fail_code = -ENOMEM;
	assert_int_equal(cb_read(&c, file, &rec), -ENOMEM);
	rec_done(&rec);
	rec_init(&rec);
	rec.fail = -E2BIG;
	assert_int_equal(cb_read(&c, file, &rec), -E2BIG);
	rec_done(&rec);
	sbuf_done(&c.b);
}

static void test_equal_rules_are_asked_for_once(void **state)
{
	struct recorder rec;
	struct cb c;
	size_t cie;

	(void)state;
	cb_init(&c, false, false);
	cie = cb_cie(&c, &(struct cb_cie){0});
	for (size_t i = 0; i < 100; i++)
		(void)cb_fde(&c, cie, 0, CB_TEXT + 0x20 * i, 0x20,
		             CB("\x41\x0e\x10\x45\x0e" CALL_OFF));
	rec_init(&rec);
	assert_int_equal(cb_read(&c, file, &rec), 0);
	assert_int_equal(rec.funcs.n, 100);
	assert_int_equal(rec.rows.n, 300);
	assert_int_equal(rec.rules.calls, 2);
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
	        cmocka_unit_test(test_functions_that_the_linker_dropped),
	        cmocka_unit_test(test_function_at_0_is_none_even_if_there_is_code),
	        cmocka_unit_test(test_rows_of_a_function_are_bounded),
	        cmocka_unit_test(test_terminator),
	        cmocka_unit_test(test_entry_past_the_end_ends_the_reading),
	        cmocka_unit_test(test_cie_pointer_to_nowhere),
	        cmocka_unit_test(test_refused_rules_are_bad_rows),
	        cmocka_unit_test(test_equal_rules_are_asked_for_once),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("unwind-cfi", tests, setup, teardown);
}
