/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake-target - a pretended target to walk: a stack, code in three mappings, registers, and the
 * tables of its images. What the processors differ in depends on ABI_TEST_ARM64.
 */
#ifndef PA_TEST_FAKE_TARGET_H
#define PA_TEST_FAKE_TARGET_H

#include "fake_words.h"
#include "unwind/unwind_priv.h"

#define STACK       0x7ffc00000000ULL
#define STACK_WORDS 2048
#define AT(word)    (STACK + 8 * (uint64_t)(word))
/* Three mappings: two of images, one of code made at run time. */
#define CODE_BYTES 0x2000ULL
#define TEXT       0x400000ULL /* image 1 from TEXT_OFF on */
#define TEXT_OFF   0x3000ULL
#define OTHER      0x7f1000000000ULL /* image 2 from OTHER_OFF on */
#define OTHER_OFF  0x800ULL
#define JIT        0x600000ULL
#define NOWHERE    0x700000ULL
/* Places in TEXT; what no row governs has no rule. */
#define LEAF 0x100
#define MID  0x200
#define ROOT 0x300
#define BARE 0x400 /* up to the mapping's end: no rules */

#ifdef ABI_TEST_ARM64
#define KEPT 19 /* a register that callees save */
#define BUSY 20 /* another one */
#else
#define KEPT 3
#define BUSY 12
#endif

struct fake {
	uint64_t stack[STACK_WORDS];
	uint8_t text[CODE_BYTES], other[CODE_BYTES], jit[CODE_BYTES];
	bool blind; /* code cannot be read */
	struct uw_target t;
	uint64_t pc, reg[ABI_REGS];
	struct fake_words *words;
	struct uw_store *store;
	struct uw_rules *rules;
	struct uw_row rows[64];
	struct uw_table table;
	struct uw_walk w;
};

static inline uint8_t *code_at(struct fake *f, uint64_t addr, size_t len)
{
	const struct {
		uint64_t base;
		uint8_t *p;
	} maps[] = {{TEXT, f->text}, {OTHER, f->other}, {JIT, f->jit}};

	for (size_t i = 0; i < ARRAY_SIZE(maps); i++)
		if (addr >= maps[i].base && addr - maps[i].base <= CODE_BYTES - len)
			return maps[i].p + (addr - maps[i].base);
	return NULL;
}

static inline int fake_place(void *arg, uint64_t addr, uint32_t *ret_image, uint64_t *ret_off)
{
	if (!code_at(arg, addr, 1))
		return -ENOENT;
	*ret_image = addr - TEXT < CODE_BYTES ? 1 : addr - OTHER < CODE_BYTES ? 2 : 0;
	*ret_off = *ret_image == 1 ? addr - TEXT + TEXT_OFF : addr - OTHER + OTHER_OFF;
	return 0;
}

static inline int fake_read(void *arg, uint64_t *ret, uint64_t addr)
{
	const struct fake *f = arg;

	if (addr < STACK || addr - STACK > sizeof(f->stack) - 8)
		return -EFAULT;
	memcpy(ret, (const uint8_t *)f->stack + (addr - STACK), 8);
	return 0;
}

static inline int fake_read_code(void *arg, uint64_t *ret, uint64_t addr)
{
	struct fake *f = arg;
	const uint8_t *p = f->blind ? NULL : code_at(f, addr, 8);

	if (!p)
		return -EFAULT;
	memcpy(ret, p, 8);
	return 0;
}

/* Writes a call that ends before @ra. */
static inline uint64_t called(struct fake *f, uint64_t ra)
{
#ifdef ABI_TEST_ARM64
	memcpy(code_at(f, ra - 4, 4), "\x01\x00\x00\x94", 4);
#else
	memcpy(code_at(f, ra - 5, 5), "\xe8\x01\x02\x03\x04", 5);
#define WALK_TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

#endif
	return ra;
}

/* From @at in TEXT on, up to the next place that is said. In ascending order. */
static inline void govern(struct fake *f, uint32_t at, uint16_t code)
{
	f->rows[f->table.n_rows++] =
	        (struct uw_row){.rel = (uint32_t)(TEXT_OFF - f->table.lo) + at, .code = code};
	assert_true(f->table.n_rows <= ARRAY_SIZE(f->rows));
}

static inline uint16_t code_of(struct fake *f, const struct uw_rule *rule)
{
	uint16_t code = 0;

	assert_int_equal(uw_rules_code(f->rules, NULL, rule, &code), 0);
	return code;
}

static inline struct uw_rule rule(uint8_t reg, int32_t off)
{
	return (struct uw_rule){.kind = ABI_RULE_FRAME,
	                        .cfa_reg = reg,
	                        .cfa_off = off,
	                        .col[ABI_COL_RA] = {.kind = ABI_COL_AT_CFA, .val = -8}};
}

/* CFA = @reg + @off, return address below it, below that @saved (0: nothing). */
static inline uint16_t framed(struct fake *f, uint8_t reg, int32_t off, uint8_t saved)
{
	struct uw_rule r = rule(reg, off);

	if (saved)
		r.col[saved] = (struct uw_col){.kind = ABI_COL_AT_CFA, .val = -16};
	return code_of(f, &r);
}

static inline int setup(void **state)
{
	struct fake *f = calloc(1, sizeof(*f));
	struct uw_backing b;

	assert_non_null(f);
	f->words = fw_new();
	b = fw_backing(f->words, 4);
	assert_int_equal(uw_store_new(&b, 0, &f->store), 0);
	assert_int_equal(uw_rules_new(NULL, &f->rules), 0);
	f->t = (struct uw_target){
	        .resolve = fake_place, .read = fake_read, .read_code = fake_read_code, .arg = f};
	f->table = (struct uw_table){.lo = 0x2800, .n_chunks = 5, .n_rows = 1, .rows = f->rows};
	f->pc = TEXT + LEAF;
	f->reg[ABI_REG_SP] = STACK;
	memset(f->text, 0x90, CODE_BYTES);
	memset(f->other, 0x90, CODE_BYTES);
	memset(f->jit, 0x90, CODE_BYTES);
	*state = f;
	return 0;
}

static inline int teardown(void **state)
{
	struct fake *f = *state;

	uw_store_freep(&f->store);
	uw_rules_freep(&f->rules);
	fw_free(f->words);
	free(f);
	return 0;
}

/* Publishes the rows. */
static inline void publish(struct fake *f)
{
	assert_int_equal(uw_store_install(f->store, 1, &f->table), 0);
}

/* LEAF: CFA = sp + 16; MID: CFA = sp + 32; ROOT; and nothing. */
static inline void usual(struct fake *f)
{
	govern(f, LEAF, framed(f, ABI_REG_SP, 16, 0));
	govern(f, MID, framed(f, ABI_REG_SP, 32, 0));
	govern(f, ROOT, ABI_CODE_ROOT);
	govern(f, BARE, ABI_CODE_NONE);
	publish(f);
}

static inline void walk(struct fake *f, bool final)
{
	memset(&f->w, 0xa5, sizeof(f->w)); /* all of it is filled */
	uw_walk(f->store, f->rules, &f->t, f->pc, f->reg, final, &f->w);
}

#define EXACT(frame)  ((frame) | 1ULL << 61)
#define IMAGE(i, off) (2ULL << 62 | (uint64_t)(i) << 40 | (off))
#define IN(at)        IMAGE(1, TEXT_OFF + (at))
#define IN_JIT(at)    (1ULL << 62 | (JIT + (at)))

static inline void expect_n(struct fake *f, int line, int end, uint32_t heuristic, uint8_t flags,
                            const uint64_t *want, size_t n)
{
	bool same = f->w.walk == end && f->w.n == n && f->w.heuristic == heuristic;

	for (size_t i = 0; same && i < n; i++)
		same = f->w.frames[i] == want[i];
	if (heuristic)
		flags |= ABI_STACK_HEURISTIC;
	if (same && f->w.flags == flags)
		return;
	for (size_t i = 0; i < f->w.n && i < 8; i++)
		print_error("frame %zu: %#llx, not %#llx\n", i, (unsigned long long)f->w.frames[i],
		            i < n ? (unsigned long long)want[i] : 0ULL);
	fail_msg("line %d: ended with %d (not %d) at %u frames (%zu), %u heuristic (%u), flags %u",
	         line, f->w.walk, end, f->w.n, n, f->w.heuristic, heuristic, f->w.flags);
}
/* Outcome, number of heuristic frames, flags but HEURISTIC; then the frames. */
#define EXPECT(f, end, heuristic, flags, ...)                                                      \
	expect_n(f, __LINE__, end, heuristic, flags, (const uint64_t[]){__VA_ARGS__},              \
	         sizeof((const uint64_t[]){__VA_ARGS__}) / 8)

#define WALK_TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

#endif
