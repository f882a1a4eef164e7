/* SPDX-License-Identifier: Apache-2.0 */
/* Hand-written assembly (asm_x86.S), one shape for each way in which it keeps its CFA, its
 * registers and its return address; and assembly without call-frame information. */
#include "shape.h"

#include <pthread.h>
#include <sys/mman.h>

typedef uint64_t (*asm_fn)(uint64_t arg);
typedef uint64_t (*asm_inner)(asm_fn fn, uint64_t arg);

uint64_t asm_on_rbx(asm_inner inner, asm_fn fn, uint64_t arg);
uint64_t asm_keep(asm_fn fn, uint64_t arg);
uint64_t asm_sys(asm_fn fn, uint64_t arg);
uint64_t asm_low(char *sp, uint64_t arg, asm_inner leaf);

/* Iterations of a leaf's own loop: some milliseconds. */
#define ASM_COUNT    3000000
#define ASM_SYSCALLS 3000

/* A function of asm_x86.S under asm_on_rbx. */
#define ASM_INNER(name, arg)                                                                       \
	uint64_t asm_##name(asm_fn fn, uint64_t n);                                                \
	static void name##_work(void)                                                              \
	{                                                                                          \
		wl_sink += asm_on_rbx(asm_##name, shape_spin, arg);                                \
	}
/* One that its C function calls. */
#define ASM_PLAIN(name, arg)                                                                       \
	uint64_t asm_##name(asm_fn fn, uint64_t n);                                                \
	static void name##_work(void)                                                              \
	{                                                                                          \
		wl_sink += asm_##name(shape_spin, arg);                                            \
	}
#define ASM_SHAPE(shape, fn, first, last)                                                          \
	{                                                                                          \
		.name = "asm-" shape, .work = fn##_work, .chains = (const char *const[])           \
		{                                                                                  \
			first "asm_" #fn last " " #fn "_work", NULL                                \
		}                                                                                  \
	}

ASM_PLAIN(cfa_rax, ASM_COUNT)
ASM_PLAIN(cfa_r11, ASM_COUNT)
ASM_INNER(odd_saves, SHAPE_BATCHES)
ASM_INNER(val_offset, SHAPE_BATCHES)
ASM_INNER(val_expr, SHAPE_BATCHES)
ASM_INNER(cfa_deref, SHAPE_BATCHES)
ASM_INNER(cfa_expr, SHAPE_BATCHES)
ASM_INNER(reg_expr, SHAPE_BATCHES)
ASM_INNER(reg_reg, SHAPE_BATCHES)
ASM_INNER(ra_reg, ASM_COUNT)
ASM_INNER(ra_moved, SHAPE_BATCHES)
ASM_PLAIN(bare_leaf, ASM_COUNT)
ASM_PLAIN(bare_call, SHAPE_BATCHES)
ASM_PLAIN(bare_pops, SHAPE_BATCHES)
ASM_PLAIN(bare_zero, SHAPE_BATCHES)
ASM_PLAIN(fp_leaf, ASM_COUNT)
ASM_PLAIN(fp_call, SHAPE_BATCHES)

/* A thread whose stack lies above a page that cannot be read, and uses all of it. */
static char *low_stack;
static size_t low_bytes;

static void low_begin(void)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *mem;

	low_bytes = (size_t)sysconf(_SC_THREAD_STACK_MIN);
	low_bytes = (low_bytes + page - 1) / page * page;
	mem = mmap(NULL, page + low_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mem == MAP_FAILED || mprotect(mem + page, low_bytes, PROT_READ | PROT_WRITE) < 0)
		shape_die("a stack above a page that cannot be read: %s", strerror(errno));
	low_stack = mem + page;
	memset(low_stack, 0, low_bytes); /* pages that were never touched cannot be read either */
}
/* The leaf's stack pointer is at the lowest word that there is, then up to 256 bytes above it. */
WL_FUNC static void *low_first(void *arg)
{
	do {
		for (size_t above = 0; above <= 256; above = 2 * above + 8)
			wl_sink += asm_low(low_stack + 8 + above, ASM_COUNT / 8, asm_keep) +
			           asm_low(low_stack + 8 + above, ASM_SYSCALLS, asm_sys);
	} while (wl_now_ns() < shape_until_ns);
	return arg;
}
static void low_work(void)
{
	pthread_attr_t attr;
	pthread_t t;
	int r = pthread_attr_init(&attr);

	if (r == 0)
		r = pthread_attr_setstack(&attr, low_stack, low_bytes);
	if (r == 0)
		r = pthread_create(&t, &attr, low_first, NULL);
	if (r)
		shape_die("a thread with its own stack: %s", strerror(r));
	pthread_join(t, NULL);
	pthread_attr_destroy(&attr);
}
static const char *const low_chains[] = {"asm_keep asm_low low_first", "asm_sys asm_low low_first",
                                         NULL};

const struct shape shapes_asm[] = {
        {.name = "asm-low",
         .work = low_work,
         .begin = low_begin,
         .chains = low_chains,
         .below = ""},
        ASM_SHAPE("cfa-rax", cfa_rax, "asm_keep ", ""),
        ASM_SHAPE("cfa-r11", cfa_r11, "asm_keep ", ""),
        ASM_SHAPE("odd-saves", odd_saves, "shape_spin ", " asm_on_rbx"),
        ASM_SHAPE("val-offset", val_offset, "shape_spin ", " asm_on_rbx"),
        ASM_SHAPE("val-expr", val_expr, "shape_spin ", " asm_on_rbx"),
        ASM_SHAPE("cfa-deref", cfa_deref, "shape_spin ", " asm_on_rbx"),
        ASM_SHAPE("cfa-expr", cfa_expr, "shape_spin ", " asm_on_rbx"),
        ASM_SHAPE("reg-expr", reg_expr, "shape_spin ", " asm_on_rbx"),
        ASM_SHAPE("reg-reg", reg_reg, "shape_spin ", " asm_on_rbx"),
        ASM_SHAPE("ra-reg", ra_reg, "", " asm_on_rbx"),
        ASM_SHAPE("ra-moved", ra_moved, "shape_spin ", " asm_on_rbx"),
        ASM_SHAPE("bare-leaf", bare_leaf, "", ""),
        ASM_SHAPE("bare-call", bare_call, "shape_spin ", ""),
        ASM_SHAPE("bare-pops", bare_pops, "shape_spin ", ""),
        ASM_SHAPE("bare-zero", bare_zero, "shape_spin ", ""),
        ASM_SHAPE("fp-leaf", fp_leaf, "", ""),
        ASM_SHAPE("fp-call", fp_call, "shape_spin ", ""),
        {.name = NULL},
};
