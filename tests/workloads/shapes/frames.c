/* SPDX-License-Identifier: Apache-2.0 */
/* Frames as compilers lay them out: deep, tiny, huge, of a size known at run time only, realigned;
 * and tail calls. */
#include "shape.h"

/* ---- a deep chain --------------------------------------------------------------------------- */

/* Locals of different number, so that frames differ in size and saved registers. */
#define DEEP(n, next, pad)                                                                         \
	WL_FUNC static uint64_t deep_##n(uint64_t x)                                               \
	{                                                                                          \
		volatile uint64_t local[1 + (pad)];                                                \
		uint64_t y = wl_mix(x + (pad)), z = wl_mix(y);                                     \
                                                                                                   \
		local[(pad) / 2] = z;                                                              \
		return next(x + local[(pad) / 2]) ^ y ^ ((pad) % 2 ? z : x);                       \
	}
WL_FUNC static uint64_t deep_29(uint64_t x)
{
	return shape_spin(SHAPE_BATCHES) ^ x;
}
DEEP(28, deep_29, 0)
DEEP(27, deep_28, 1)
DEEP(26, deep_27, 2)
DEEP(25, deep_26, 3)
DEEP(24, deep_25, 14)
DEEP(23, deep_24, 15)
DEEP(22, deep_23, 16)
DEEP(21, deep_22, 17)
DEEP(20, deep_21, 18)
DEEP(19, deep_20, 0)
DEEP(18, deep_19, 0)
DEEP(17, deep_18, 0)
DEEP(16, deep_17, 5)
DEEP(15, deep_16, 30)
DEEP(14, deep_15, 31)
DEEP(13, deep_14, 100)
DEEP(12, deep_13, 127)
DEEP(11, deep_12, 128)
DEEP(10, deep_11, 1)
DEEP(09, deep_10, 2)
DEEP(08, deep_09, 3)
DEEP(07, deep_08, 4)
DEEP(06, deep_07, 5)
DEEP(05, deep_06, 6)
DEEP(04, deep_05, 7)
DEEP(03, deep_04, 8)
DEEP(02, deep_03, 9)
DEEP(01, deep_02, 10)
DEEP(00, deep_01, 11)

static void deep(void)
{
	wl_sink += deep_00(wl_sink);
}
static const char *const deep_chains[] = {
        "shape_spin deep_29 deep_28 deep_27 deep_26 deep_25 deep_24 deep_23 deep_22 deep_21 "
        "deep_20 deep_19 deep_18 "
        "deep_17 deep_16 deep_15 deep_14 deep_13 deep_12 deep_11 deep_10 deep_09 deep_08 deep_07 "
        "deep_06 deep_05 "
        "deep_04 deep_03 deep_02 deep_01 deep_00 deep",
        NULL,
};

/* ---- mostly prologues and epilogues ---------------------------------------------------------- */

/* Pushes and pops every register that a callee saves; hardly anything else. */
#if defined(__x86_64__)
#define CLOBBER_SAVED() __asm__ volatile("" : : : "rbx", "rbp", "r12", "r13", "r14", "r15")
#elif defined(__aarch64__)
#define CLOBBER_SAVED()                                                                            \
	__asm__ volatile(""                                                                        \
	                 :                                                                         \
	                 :                                                                         \
	                 : "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28")
#endif

WL_FUNC static uint64_t push_3(uint64_t x)
{
	CLOBBER_SAVED();
	return x + 3;
}
WL_FUNC static uint64_t push_2(uint64_t x)
{
	CLOBBER_SAVED();
	return push_3(x) + 1;
}
WL_FUNC static uint64_t push_1(uint64_t x)
{
	volatile uint64_t local[9];

	CLOBBER_SAVED();
	local[3] = x;
	return push_2(x) + local[3];
}
/* Its CFA is on the frame pointer, as its size is not known: its caller is found only by the rbp
 * that push_1 … push_3 have saved, and in an epilogue that has popped it already the rule names a
 * place below the stack pointer. */
WL_FUNC static uint64_t push_base(size_t n)
{
	volatile char *room = __builtin_alloca(n);

	room[0] = 1;
	for (int i = 0; i < 20000; i++)
		wl_sink += push_1(wl_sink) + (uint64_t)room[0];
	return wl_sink;
}
static void pushes(void)
{
	push_base(64 + wl_sink % 512);
	wl_sink++;
}
static const char *const push_chains[] = {"push_3 push_2 push_1 push_base pushes", NULL};

/* ---- tail calls ------------------------------------------------------------------------------ */

WL_FUNC static uint64_t tail_work(uint64_t x)
{
	return shape_spin(SHAPE_BATCHES / 10) + x;
}
/* These three have left nothing on the stack when the next one runs. */
WL_FUNC static uint64_t tail_c(uint64_t x)
{
	return tail_work(x + 1);
}
WL_FUNC static uint64_t tail_b(uint64_t x)
{
	uint64_t y = shape_spin(SHAPE_BATCHES / 10);

	return tail_c(x + y);
}
WL_FUNC static uint64_t tail_a(uint64_t x)
{
	return tail_b(x + 1);
}
static void tail(void)
{
	wl_sink += tail_a(wl_sink);
}
static const char *const tail_chains[] = {
        "shape_spin tail_work tail", "shape_spin tail_b tail", "tail_a tail", "tail_c tail", NULL,
};

/* ---- huge frames ----------------------------------------------------------------------------- */

#define HUGE_BYTES (100 << 10)

#define HUGE_FRAME(n, next)                                                                        \
	WL_FUNC static uint64_t huge_##n(uint64_t x)                                               \
	{                                                                                          \
		volatile char local[HUGE_BYTES];                                                   \
                                                                                                   \
		local[x % HUGE_BYTES] = (char)x;                                                   \
		return next(x + 1) + (uint64_t)local[x % HUGE_BYTES];                              \
	}
HUGE_FRAME(5, shape_spin)
HUGE_FRAME(4, huge_5)
HUGE_FRAME(3, huge_4)
HUGE_FRAME(2, huge_3)
HUGE_FRAME(1, huge_2)
HUGE_FRAME(0, huge_1)
static void huge(void)
{
	wl_sink += huge_0(SHAPE_BATCHES);
}
static const char *const huge_chains[] = {
        "shape_spin huge_5 huge_4 huge_3 huge_2 huge_1 huge_0 huge", NULL};

/* ---- frames of a size known at run time ------------------------------------------------------ */

#define DYNAMIC(n, next)                                                                           \
	WL_FUNC static uint64_t dynamic_##n(size_t size)                                           \
	{                                                                                          \
		volatile char *room = __builtin_alloca(size);                                      \
                                                                                                   \
		room[size / 2] = 1;                                                                \
		return next(size + 16) + (uint64_t)room[size / 2];                                 \
	}
WL_FUNC static uint64_t dynamic_leaf(size_t size)
{
	return shape_spin(SHAPE_BATCHES) + size;
}
DYNAMIC(2, dynamic_leaf)
DYNAMIC(1, dynamic_2)
DYNAMIC(0, dynamic_1)
static void dynamic(void)
{
	static size_t size = 40;

	size = size * 7 % 4093 + 16;
	wl_sink += dynamic_0(size);
}
static const char *const dynamic_chains[] = {
        "shape_spin dynamic_leaf dynamic_2 dynamic_1 dynamic_0 dynamic", NULL};

/* ---- realigned stacks ------------------------------------------------------------------------ */

struct wide {
	char byte[64];
} __attribute__((aligned(64)));

/* and $-64, %rsp, with the frame pointer as way back. */
#define ALIGNED(n, next)                                                                           \
	WL_FUNC static uint64_t aligned_##n(uint64_t x)                                            \
	{                                                                                          \
		volatile struct wide local[3];                                                     \
                                                                                                   \
		local[x % 3].byte[1] = 1;                                                          \
		return next(x + 1) + (uint64_t)local[x % 3].byte[1];                               \
	}
ALIGNED(2, shape_spin)
ALIGNED(1, aligned_2)
ALIGNED(0, aligned_1)
static void align(void)
{
	wl_sink += aligned_0(SHAPE_BATCHES);
}
static const char *const align_chains[] = {"shape_spin aligned_2 aligned_1 aligned_0 align", NULL};

/* Arguments on the stack, or a frame of unknown size, and realigned: gcc keeps the address of the
 * arguments in r10 and on the stack, and the CFA is what is there. */
#define DRAP(n, next)                                                                              \
	WL_FUNC static uint64_t drap_##n(uint64_t a, uint64_t b, uint64_t c, uint64_t d,           \
	                                 uint64_t e, uint64_t f, uint64_t g, uint64_t h)           \
	{                                                                                          \
		volatile struct wide local[2];                                                     \
		volatile char *room = __builtin_alloca(h);                                         \
                                                                                                   \
		local[a % 2].byte[0] = room[0] = 1;                                                \
		next(a, b, c, d, e, f, g + 1, h + 1);                                              \
		return (uint64_t)local[a % 2].byte[0] + g + h + (uint64_t)room[0];                 \
	}
WL_FUNC static uint64_t drap_leaf(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
                                  uint64_t f, uint64_t g, uint64_t h)
{
	return shape_spin(SHAPE_BATCHES) + a + b + c + d + e + f + g + h;
}
DRAP(2, drap_leaf)
DRAP(1, drap_2)
DRAP(0, drap_1)
static void drap(void)
{
	wl_sink += drap_0(1, 2, 3, 4, 5, 6, 7, 8);
}
static const char *const drap_chains[] = {"shape_spin drap_leaf drap_2 drap_1 drap_0 drap", NULL};

const struct shape shapes_frames[] = {
        {.name = "deep", .work = deep, .chains = deep_chains},
        {.name = "pushes", .work = pushes, .chains = push_chains},
        {.name = "tail", .work = tail, .chains = tail_chains},
        {.name = "huge", .work = huge, .chains = huge_chains},
        {.name = "dynamic", .work = dynamic, .chains = dynamic_chains},
        {.name = "align", .work = align, .chains = align_chains},
        {.name = "drap", .work = drap, .chains = drap_chains},
        {.name = NULL},
};
