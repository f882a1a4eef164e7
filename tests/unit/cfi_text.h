/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cfi-text - rows of call-frame information as text
 */
#ifndef PA_TEST_CFI_TEXT_H
#define PA_TEST_CFI_TEXT_H

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

static inline int setup(void **state)
{
	const struct eb_opts o = {0};
	struct eb_map m;

	(void)state;
	eb_build(&o, &file_bytes, &m);
	return img_file_open_mem(file_bytes.p, file_bytes.len, &file, NULL);
}

static inline int teardown(void **state)
{
	(void)state;
	file = img_file_free(file);
	sbuf_done(&file_bytes);
	return 0;
}

/* Reads what was built: its rows must be @want, with so many damaged and not understood. */
static inline void expect(struct cb *c, const char *name, const char *want, uint64_t bad,
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
	const char *want; /* after "100-140: " */
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
        {"rows after the end are left out", CB("\x7f\x0e\x10\x41\x0e\x18\x41\x3f"),
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
        {"cache and restore state", CB("\x0a\x0e\x10\x83\x02\x0a\x41\x0e\x18\x41\x0b\x41\x0b"),
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

#endif
