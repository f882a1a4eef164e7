/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>

#include "elf_builder.h"
#include "symbolize/symbolize.h"

/* ---- ELF ------------------------------------------------------------------------------------ */

/* An address, and the name that must come; NULL: no symbol. */
struct want {
	uint64_t vaddr;
	const char *name;
};

static void expect_names(const struct eb_sym *syms, size_t n, const struct want *want,
                         size_t n_want)
{
	struct eb_sym turned[16];

	assert_true(n <= ARRAY_SIZE(turned));
	for (int turn = 0; turn < 4; turn++) { /* order of the table and place do not matter */
		struct eb_opts o = {0};
		struct sym_batch batch = {0};
		struct img_file *f = NULL;
		uint64_t offs[32];
		struct eb_map m;
		struct sbuf b;

		for (size_t i = 0; i < n; i++)
			turned[i] = turn & 1 ? syms[n - 1 - i] : syms[i];
		o.syms = turned;
		o.n_syms = turn & 2 ? n / 2 : n;
		o.dynsyms = turned + o.n_syms;
		o.n_dynsyms = n - o.n_syms;
		eb_build(&o, &b, &m);
		assert_int_equal(img_file_open_mem(b.p, b.len, &f, NULL), 0);
		for (size_t i = 0; i < n_want; i++)
			offs[i] = want[i].vaddr - EB_BIAS;
		assert_int_equal(sym_elf_resolve(f, offs, n_want, &batch), 0);
		assert_int_equal(batch.n, n_want);
		for (size_t i = 0; i < n_want; i++) {
			const struct sym_frame *s = sym_batch_frames(&batch, i);

			if (!want[i].name) {
				if (batch.names[i].reason != EV_REASON_NO_SYMBOL || s)
					fail_msg("%lx: %s", want[i].vaddr, s ? s->name : "");
			} else if (!s || strcmp(s->name, want[i].name) != 0) {
				fail_msg("%lx: %s, not %s", want[i].vaddr, s ? s->name : "none",
				         want[i].name);
			}
		}
		sym_batch_done(&batch);
		img_file_free(f);
		sbuf_done(&b);
	}
}

#define FUNC(name, value, size, bind)                                                              \
	{                                                                                          \
		name, value, size, bind, STT_FUNC, EB_SEC_TEXT                                     \
	}

static void test_extents(void **state)
{
	static const struct eb_sym syms[] = {
	        FUNC("first", 0x401100, 0x10, STB_GLOBAL),
	        FUNC("next", 0x401110, 0x10, STB_GLOBAL),
	        FUNC("later", 0x401140, 1, STB_LOCAL),
	};
	static const struct want want[] = {
	        {0x4010ff, NULL},   {0x401100, "first"}, {0x40110f, "first"}, {0x401110, "next"},
	        {0x40111f, "next"}, {0x401120, NULL},    {0x401140, "later"}, {0x401141, NULL},
	};

	(void)state;
	expect_names(syms, ARRAY_SIZE(syms), want, ARRAY_SIZE(want));
}

static void test_innermost_wins(void **state)
{
	static const struct eb_sym syms[] = {
	        FUNC("outer", 0x401100, 0x100, STB_GLOBAL),
	        FUNC("inner", 0x401140, 0x10, STB_LOCAL),
	        FUNC("short", 0x401180, 0x08, STB_LOCAL),
	        FUNC("long", 0x401180, 0x10, STB_GLOBAL),
	};
	static const struct want want[] = {
	        {0x401100, "outer"}, {0x401140, "inner"}, {0x40114f, "inner"},
	        {0x401150, "outer"}, {0x401187, "short"}, {0x401188, "long"},
	        {0x401190, "outer"}, {0x4011ff, "outer"}, {0x401200, NULL},
	};

	(void)state;
	expect_names(syms, ARRAY_SIZE(syms), want, ARRAY_SIZE(want));
}

static void test_aliases(void **state)
{
	static const struct eb_sym syms[] = {
	        FUNC("a_local", 0x401100, 8, STB_LOCAL),   FUNC("a_weak", 0x401100, 8, STB_WEAK),
	        FUNC("z_global", 0x401100, 8, STB_GLOBAL), FUNC("__b", 0x401110, 8, STB_GLOBAL),
	        FUNC("_c", 0x401110, 8, STB_GLOBAL),       FUNC("_d", 0x401110, 8, STB_GLOBAL),
	        FUNC("weak", 0x401120, 8, STB_WEAK),       FUNC("local", 0x401120, 8, STB_LOCAL),
	        FUNC("twice", 0x401130, 8, STB_GLOBAL),    FUNC("twice", 0x401130, 8, STB_GLOBAL),
	};
	static const struct want want[] = {
	        {0x401101, "z_global"},
	        {0x401111, "_c"},
	        {0x401121, "weak"},
	        {0x401131, "twice"},
	};

	(void)state;
	expect_names(syms, ARRAY_SIZE(syms), want, ARRAY_SIZE(want));
}

static void test_symbols_without_size(void **state)
{
	static const struct eb_sym syms[] = {
	        FUNC("start", 0x401000, 0, STB_GLOBAL),
	        FUNC("sized", 0x401100, 0x20, STB_GLOBAL),
	        FUNC("inside", 0x401110, 0, STB_GLOBAL), /* its start cuts off nothing of a size */
	        FUNC("after", 0x401180, 0, STB_LOCAL),
	        FUNC("_alias", 0x401180, 0, STB_GLOBAL),
	        {"label", 0x401200, 0, STB_LOCAL, STT_NOTYPE, EB_SEC_TEXT},
	        {"end_of_text", 0x401f00, 0, STB_GLOBAL, STT_NOTYPE, EB_SEC_TEXT},
	};
	static const struct want want[] = {
	        {0x401000, "start"}, {0x4010ff, "start"},  {0x401100, "sized"},
	        {0x401110, "sized"}, {0x40111f, "sized"},  {0x401120, NULL}, /* an end */
	        {0x40117f, NULL},    {0x401180, "_alias"}, {0x4011ff, "_alias"},
	        {0x401200, "label"}, {0x401eff, "label"}, /* last byte of its section */
	        {0x401f00, NULL},
	};

	(void)state;
	expect_names(syms, ARRAY_SIZE(syms), want, ARRAY_SIZE(want));
}

static void test_names_are_shown_demangled_and_without_version(void **state)
{
	static const struct eb_sym syms[] = {
	        FUNC("_ZN3abc3defEi", 0x401100, 8, STB_GLOBAL),
	        FUNC("memcpy@@GLIBC_2.14", 0x401110, 8, STB_GLOBAL),
	        FUNC("_Z1fv@V1", 0x401120, 8, STB_GLOBAL),
	        FUNC("@", 0x401130, 8, STB_GLOBAL),
	};
	static const struct {
		uint64_t off, start;
		const char *name, *linkage;
	} want[] = {
	        {0x1104, 0x1100, "abc::def(int)", "_ZN3abc3defEi"},
	        {0x1110, 0x1110, "memcpy", "memcpy@@GLIBC_2.14"},
	        {0x1127, 0x1120, "f()", "_Z1fv@V1"},
	        {0x1131, 0x1130, "@", "@"},
	};
	struct eb_opts o = {.syms = syms, .n_syms = ARRAY_SIZE(syms)};
	struct sym_batch batch;
	struct img_file *f = NULL;
	uint64_t offs[ARRAY_SIZE(want)];
	struct eb_map m;
	struct sbuf b;

	(void)state;
	eb_build(&o, &b, &m);
	assert_int_equal(img_file_open_mem(b.p, b.len, &f, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(want); i++)
		offs[i] = want[i].off;
	assert_int_equal(sym_elf_resolve(f, offs, ARRAY_SIZE(want), &batch), 0);
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		assert_int_equal(batch.names[i].reason, EV_REASON_NAMED);
		assert_string_equal(sym_batch_frames(&batch, i)->name, want[i].name);
		assert_string_equal(sym_batch_frames(&batch, i)->linkage, want[i].linkage);
		assert_int_equal(batch.names[i].start, want[i].start);
	}
	sym_batch_done(&batch);
	img_file_free(f);
	sbuf_done(&b);
}

static void test_segments_out_of_order(void **state)
{
	static const struct eb_sym syms[] = {
	        FUNC("low", 0x401100, 8, STB_GLOBAL),
	        FUNC("high", 0x401900, 8, STB_GLOBAL),
	};
	struct eb_opts o = {.syms = syms, .n_syms = 2, .swap = true};
	const uint64_t offs[] = {0x1100, 0x1200, 0x1900, 0x9000}; /* high, -, low, - */
	struct sym_batch batch;
	struct img_file *f = NULL;
	struct eb_map m;
	struct sbuf b;

	(void)state;
	eb_build(&o, &b, &m);
	assert_int_equal(img_file_open_mem(b.p, b.len, &f, NULL), 0);
	assert_int_equal(sym_elf_resolve(f, offs, 4, &batch), 0);
	assert_string_equal(sym_batch_frames(&batch, 0)->name, "high");
	assert_int_equal(batch.names[0].start, 0x1100);
	assert_int_equal(batch.names[1].reason, EV_REASON_NO_SYMBOL);
	assert_string_equal(sym_batch_frames(&batch, 2)->name, "low");
	assert_int_equal(batch.names[2].start, 0x1900);
	assert_int_equal(batch.names[3].reason, EV_REASON_NO_SYMBOL);
	sym_batch_done(&batch);
	img_file_free(f);
	sbuf_done(&b);
}

static void test_reasons(void **state)
{
	static const struct eb_sym syms[] = {FUNC("f", 0x401100, 8, STB_GLOBAL)};
	struct eb_opts o = {0};
	const uint64_t off = 0x1100;
	struct sym_batch batch;
	struct img_file *f = NULL;
	struct eb_map m;
	struct sbuf b;
	int fd;

	(void)state;
	eb_build(&o, &b, &m);
	assert_int_equal(img_file_open_mem(b.p, b.len, &f, NULL), 0);
	assert_int_equal(sym_elf_resolve(f, &off, 1, &batch), 0);
	assert_int_equal(batch.names[0].reason, EV_REASON_NO_SYMTAB);
	sym_batch_done(&batch);
	assert_int_equal(sym_elf_resolve(f, &off, 0, &batch), 0); /* none asked for */
	assert_int_equal(batch.n, 0);
	sym_batch_done(&batch);
	f = img_file_free(f);
	sbuf_done(&b);

	o.syms = syms;
	o.n_syms = 1;
	eb_build(&o, &b, &m);
	b.p[m.strtab + 1] = 0; /* the name of f is "" */
	assert_int_equal(img_file_open_mem(b.p, b.len, &f, NULL), 0);
	assert_int_equal(sym_elf_resolve(f, &off, 1, &batch), 0);
	assert_int_equal(batch.names[0].reason, EV_REASON_BAD_ELF);
	sym_batch_done(&batch);
	f = img_file_free(f);
	b.p[m.symtab + sizeof(Elf64_Sym) + 3] = 0x7f; /* its st_name is far outside */
	assert_int_equal(img_file_open_mem(b.p, b.len, &f, NULL), 0);
	assert_int_equal(sym_elf_resolve(f, &off, 1, &batch), 0);
	assert_int_equal(batch.names[0].reason, EV_REASON_BAD_ELF);
	sym_batch_done(&batch);
	f = img_file_free(f);

	fd = memfd_create("test-symbolize", MFD_CLOEXEC);
	assert_int_equal(file_write_full(fd, b.p, b.len), 0);
	assert_int_equal(img_file_open(fd, &f, NULL), 0);
	close(fd); /* against the contract, to have pread fail */
	assert_int_equal(sym_elf_resolve(f, &off, 1, &batch), 0);
	assert_int_equal(batch.names[0].reason, EV_REASON_NO_FILE);
	sym_batch_done(&batch);
	img_file_free(f);
	sbuf_done(&b);

	assert_int_equal(sym_none_resolve(EV_REASON_JIT, NULL, 3, &batch), 0);
	assert_int_equal(batch.n, 3);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(batch.names[i].reason, EV_REASON_JIT);
		assert_null(sym_batch_frames(&batch, i));
	}
	sym_batch_done(&batch);
}

/* ---- ELF: against the rule, said once more and naively --------------------------------------- */

static uint64_t seed = 88172645463325252ULL;

static uint64_t rnd(uint64_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % below;
}

static int rank_of(uint8_t bind)
{
	return bind == STB_GLOBAL ? 0 : bind == STB_WEAK ? 1 : 2;
}

static size_t underscores(const char *s)
{
	size_t n = 0;

	while (s[n] == '_')
		n++;
	return n;
}

static bool alias_better(const struct eb_sym *a, const struct eb_sym *b)
{
	if (rank_of(a->bind) != rank_of(b->bind))
		return rank_of(a->bind) < rank_of(b->bind);
	if (underscores(a->name) != underscores(b->name))
		return underscores(a->name) < underscores(b->name);
	return strcmp(a->name, b->name) < 0;
}

static const char *naive(const struct eb_sym *syms, size_t n, uint64_t a)
{
	const struct eb_sym *best = NULL;

	for (size_t i = 0; i < n; i++) {
		const struct eb_sym *s = &syms[i];

		if (s->size == 0 || a < s->value || a >= s->value + s->size)
			continue;
		if (!best || s->value > best->value ||
		    (s->value == best->value &&
		     (s->size < best->size || (s->size == best->size && alias_better(s, best)))))
			best = s;
	}
	if (best)
		return best->name;
	for (size_t i = 0; i < n; i++) {
		const struct eb_sym *s = &syms[i];
		bool cut = s->size > 0 || s->value > a || s->value >= 0x401f00 || a >= 0x401f00;

		for (size_t k = 0; k < n && !cut; k++) {
			uint64_t start = syms[k].value, end = start + syms[k].size;

			cut = (start > s->value && start <= a) || (end > s->value && end <= a);
		}
		if (!cut && (!best || s->value > best->value ||
		             (s->value == best->value && alias_better(s, best))))
			best = s;
	}
	return best ? best->name : NULL;
}

static void test_random_tables_follow_the_rule(void **state)
{
	static const uint8_t binds[] = {STB_LOCAL, STB_GLOBAL, STB_WEAK};
	char names[40][16];

	(void)state;
	for (int round = 0; round < 600; round++) {
		struct eb_sym syms[40];
		uint64_t offs[256], span = 8 + rnd(0x700);
		size_t n = 1 + rnd(40), n_offs = 0;
		struct eb_opts o = {.syms = syms, .n_syms = n};
		struct sym_batch batch;
		struct img_file *f = NULL;
		struct eb_map m;
		struct sbuf b;

		for (size_t i = 0; i < n; i++) {
			snprintf(names[i], sizeof(names[i]), "%.*sf%zu", (int)rnd(3), "__", i);
			syms[i] = (struct eb_sym){.name = names[i],
			                          .value = 0x401200 + rnd(span),
			                          .size = rnd(3) ? rnd(span / 4 + 2) : 0,
			                          .bind = binds[rnd(3)],
			                          .type = STT_FUNC,
			                          .shndx = EB_SEC_TEXT};
		}
		for (uint64_t off = 0x1100; off < 0x2000 && n_offs < ARRAY_SIZE(offs);
		     off += 1 + rnd(span / 64 + 1))
			offs[n_offs++] = off;
		eb_build(&o, &b, &m);
		assert_int_equal(img_file_open_mem(b.p, b.len, &f, NULL), 0);
		assert_int_equal(sym_elf_resolve(f, offs, n_offs, &batch), 0);
		for (size_t i = 0; i < n_offs; i++) {
			const char *want = naive(syms, n, offs[i] + EB_BIAS);
			const struct sym_frame *fr = sym_batch_frames(&batch, i);
			const char *got = fr ? fr->name : NULL;

			if ((!want || !got) ? want != got : strcmp(want, got) != 0)
				fail_msg("round %d, %lx: %s, not %s", round, offs[i], got, want);
		}
		sym_batch_done(&batch);
		img_file_free(f);
		sbuf_done(&b);
	}
}

extern const char __executable_start[];

static void test_own_binary(void **state)
{
	const struct img_segment *segs;
	struct sym_batch batch;
	struct img_file *f = NULL;
	uint64_t vaddr, off = 0;
	int fd;

	(void)state;
	fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	assert_int_equal(img_file_open(fd, &f, NULL), 0);
	vaddr = (uint64_t)(uintptr_t)naive - (uint64_t)(uintptr_t)__executable_start;
	for (size_t i = 0; i < img_segments(f, &segs); i++) {
		if (vaddr >= segs[i].vaddr - segs[0].vaddr && segs[i].exec)
			off = vaddr - (segs[i].vaddr - segs[0].vaddr) + segs[i].off;
	}
	off += 3;
	assert_int_equal(sym_elf_resolve(f, &off, 1, &batch), 0);
	assert_string_equal(sym_batch_frames(&batch, 0)->name, "naive");
	assert_int_equal(batch.names[0].start, off - 3);
	sym_batch_done(&batch);
	img_file_free(f);
	close(fd);
}

/* ---- demangling ------------------------------------------------------------------------------ */

static void test_demangling(void **state)
{
	static const char *cases[][2] = {
	        {"_Z3foov", "foo()"},
	        {"_ZN3std6vectorIiE4pushERKi", "std::vector<int>::push(int const&)"},
	        {"_ZNKSt6vectorIiSaIiEE4sizeEv",
	         "std::vector<int, std::allocator<int> >::size() const"},
	        {"_Z3barIiEvT_", "void bar<int>(int)"},
	        {"_Z3foov.cold", "foo() [clone .cold]"},
	        {"_ZN3foo3barEv.constprop.0", "foo::bar() [clone .constprop.0]"},
	        {"_ZTv0_n24_N3foo3barEv", "virtual thunk to foo::bar()"},
	        {"_GLOBAL__I_main", "global constructors keyed to main"},
	        {"_GLOBAL__sub_I_main", NULL}, /* as c++filt */
	        /* Rust, legacy: the hash is taken off; v0 */
	        {"_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"},
	        {"_ZN4test4main17h0011223344556677E.llvm.1234", "test::main"},
	        {"_RNvC6_123foo3bar", "123foo::bar"},
	        {"_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar"},
	        {"_RNvC7mycrateu8gdel_5qa", "mycrate::g\xc3\xb6"
	                                    "del"},
	        /* neither */
	        {"main", NULL},
	        {"", NULL},
	        {"_Z", NULL},
	        {"_R", NULL},
	        {"_ZN", NULL},
	        {"_Zzzz", NULL},
	        {"__libc_start_main", NULL},
	        {"_start", NULL},
	        {"_RNvC6_123foo3ba", NULL},
	};
	struct sbuf b;

	(void)state;
	sbuf_init(&b, 1 << 20);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int r;

		sbuf_reset(&b);
		sbuf_str(&b, "> ");
		r = sym_demangle(cases[i][0], &b);
		if (!cases[i][1]) {
			assert_int_equal(r, -ENOENT);
			assert_string_equal(b.p, "> "); /* as it was */
			continue;
		}
		if (r != 0 || strcmp(b.p + 2, cases[i][1]) != 0)
			fail_msg("%s: %d %s", cases[i][0], r, b.p);
	}
	sbuf_done(&b);
}

/* f(X<int, int>, X<first, first>, X<second, second>, …): substitutions of what came before. */
static void cxx_bomb(struct sbuf *b, int levels)
{
	sbuf_reset(b);
	sbuf_str(b, "_Z1f1XIiiE");
	for (int i = 0; i < levels; i++) {
		char ref = (char)(i < 10 ? '0' + i : 'A' + i - 10);

		sbuf_addf(b, "S_IS%c_S%c_E", ref, ref); /* S_ is X, S0_ X<int, int> */
	}
}

/* a::<((u…), (u…))> of back references, numbers in base 62 counted from after "_R". */
static void rust_bomb(struct sbuf *b, int levels)
{
	static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz"
	                             "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	size_t prev = 0;

	sbuf_reset(b);
	sbuf_str(b, "_RIC1a");
	for (int i = 0; i < levels; i++) {
		size_t at = b->len - 2;

		sbuf_char(b, 'T');
		for (int k = 0; k < 2; k++) {
			if (i == 0) {
				sbuf_char(b, 'u');
				continue;
			}
			sbuf_char(b, 'B'); /* prev is at least 4: 0 and 1 have their own forms */
			if (prev - 1 >= 62)
				sbuf_char(b, digits[(prev - 1) / 62]);
			sbuf_char(b, digits[(prev - 1) % 62]);
			sbuf_char(b, '_');
		}
		sbuf_char(b, 'E');
		prev = at;
	}
	sbuf_char(b, 'E');
}

/* Each level prints the one before it twice: 2^30 and 2^60 pieces. */
static void test_demangling_of_bombs_is_bounded(void **state)
{
	struct sbuf name, out;

	(void)state;
	sbuf_init(&name, 1 << 20);
	sbuf_init(&out, 1 << 20);
	cxx_bomb(&name, 2);
	assert_int_equal(sym_demangle(name.p, &out), 0);
	assert_string_equal(out.p,
	                    "f(X<int, int>, X<X<int, int>, X<int, int> >, "
	                    "X<X<X<int, int>, X<int, int> >, X<X<int, int>, X<int, int> > >)");
	sbuf_reset(&out);
	cxx_bomb(&name, 30);
	assert_int_equal(sym_demangle(name.p, &out), -ENOENT);
	assert_int_equal(out.len, 0);

	rust_bomb(&name, 3);
	assert_int_equal(sym_demangle(name.p, &out), 0);
	assert_string_equal(out.p, "a::<((), ()), (((), ()), ((), ())), "
	                           "((((), ()), ((), ())), (((), ()), ((), ())))>");
	sbuf_reset(&out);
	rust_bomb(&name, 60);
	assert_int_equal(sym_demangle(name.p, &out), -ENOENT);
	assert_int_equal(out.len, 0);

	/* deep nesting, and more than the longest input */
	sbuf_reset(&name);
	sbuf_str(&name, "_Z1f");
	for (int i = 0; i < 16000; i++)
		sbuf_char(&name, 'P');
	sbuf_char(&name, 'i');
	assert_int_equal(sym_demangle(name.p, &out), -ENOENT);
	sbuf_reset(&name);
	sbuf_str(&name, "_RMC0");
	for (int i = 0; i < 16000; i++)
		sbuf_char(&name, 'R');
	sbuf_char(&name, 'u');
	assert_int_equal(sym_demangle(name.p, &out), -ENOENT);
	sbuf_reset(&name);
	sbuf_str(&name, "_ZN16384");
	for (int i = 0; i < 16384; i++)
		sbuf_char(&name, 'x');
	sbuf_str(&name, "Ev");
	assert_int_equal(sym_demangle(name.p, &out), -ENOENT);
	sbuf_done(&name);
	sbuf_done(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_extents),
	        cmocka_unit_test(test_innermost_wins),
	        cmocka_unit_test(test_aliases),
	        cmocka_unit_test(test_symbols_without_size),
	        cmocka_unit_test(test_names_are_shown_demangled_and_without_version),
	        cmocka_unit_test(test_segments_out_of_order),
	        cmocka_unit_test(test_reasons),
	        cmocka_unit_test(test_random_tables_follow_the_rule),
	        cmocka_unit_test(test_own_binary),
	        cmocka_unit_test(test_demangling),
	        cmocka_unit_test(test_demangling_of_bombs_is_bounded),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
