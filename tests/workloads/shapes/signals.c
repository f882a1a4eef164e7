/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks with a signal handler in them. "?" in their chains is the frame of the trampoline that the
 * handler returns to. A timer interrupts wherever the victim is; an instruction that traps, at one
 * known address.
 */
#include "shape.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>

#define ALT_BYTES (64 << 10)

static void handle(int sig, void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction sa = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};

	sigemptyset(&sa.sa_mask);
	if (sigaction(sig, &sa, NULL) < 0)
		shape_die("sigaction: %s", strerror(errno));
}

static void use_alt_stack(void)
{
	stack_t ss = {.ss_size = ALT_BYTES};

	ss.ss_sp =
	        mmap(NULL, ALT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (ss.ss_sp == MAP_FAILED || sigaltstack(&ss, NULL) < 0)
		shape_die("sigaltstack: %s", strerror(errno));
}

/* One signal, so far from now: the handler asks for the next, so that none comes while it runs. */
static void timer_next(void)
{
	const struct itimerval in = {.it_value = {.tv_usec = 1500}};

	if (setitimer(ITIMER_REAL, &in, NULL) < 0)
		shape_die("setitimer: %s", strerror(errno));
}

/* ---- anywhere in a function without a frame pointer ------------------------------------------ */

WL_FUNC static uint64_t sig_handler_work(uint64_t x)
{
	return shape_spin(3 * SHAPE_BATCHES) + x;
}
WL_FUNC static void sig_handler(int sig, siginfo_t *info, void *context)
{
	(void)info;
	(void)context;
	wl_sink += sig_handler_work((uint64_t)sig);
	timer_next();
}
WL_FUNC static void sig_victim(void)
{
	for (int i = 0; i < SHAPE_BATCHES; i++)
		wl_batch();
}
static void sig_work(void)
{
	sig_victim();
	wl_sink++;
}
static void sig_begin(void)
{
	handle(SIGALRM, sig_handler, 0);
	timer_next();
}
static void sigalt_begin(void)
{
	use_alt_stack();
	handle(SIGALRM, sig_handler, SA_ONSTACK);
	timer_next();
}
static const char *const sig_chains[] = {
        "shape_spin sig_handler_work sig_handler ? sig_victim sig_work",
        "shape_spin sig_handler_work sig_handler ? sig_work",
        "shape_spin sig_handler_work sig_handler ?",
        /* the clock that shape_run asks: in the vDSO, and its function in the library */
        "shape_spin sig_handler_work sig_handler ? ?",
        "shape_spin sig_handler_work sig_handler ? ? ?",
        "sig_victim sig_work",
        NULL,
};

/* ---- anywhere in prologues and epilogues ----------------------------------------------------- */

#if defined(__x86_64__)
#define CLOBBER_SAVED() __asm__ volatile("" : : : "rbx", "rbp", "r12", "r13", "r14", "r15")
#elif defined(__aarch64__)
#define CLOBBER_SAVED() __asm__ volatile("" : : : "x19", "x20", "x21", "x22", "x23", "x24")
#endif

WL_FUNC static uint64_t sigpush_2(uint64_t x)
{
	CLOBBER_SAVED();
	return x + 3;
}
WL_FUNC static uint64_t sigpush_1(uint64_t x)
{
	CLOBBER_SAVED();
	return sigpush_2(x) + 1;
}
WL_FUNC static uint64_t sigpush_0(size_t n)
{
	volatile char *room = __builtin_alloca(n);

	room[0] = 1;
	for (int i = 0; i < 100000; i++)
		wl_sink += sigpush_1(wl_sink) + (uint64_t)room[0];
	return wl_sink;
}
static void sigpush_work(void)
{
	sigpush_0(64 + wl_sink % 512);
	wl_sink++;
}
static const char *const sigpush_chains[] = {
        "shape_spin sig_handler_work sig_handler ? sigpush_2 sigpush_1 sigpush_0 sigpush_work",
        "shape_spin sig_handler_work sig_handler ? sigpush_1 sigpush_0 sigpush_work",
        "shape_spin sig_handler_work sig_handler ? sigpush_0 sigpush_work",
        "shape_spin sig_handler_work sig_handler ? sigpush_work",
        "shape_spin sig_handler_work sig_handler ?",
        "shape_spin sig_handler_work sig_handler ? ?",
        "shape_spin sig_handler_work sig_handler ? ? ?",
        "sigpush_2 sigpush_1 sigpush_0 sigpush_work",
        NULL,
};

/* ---- at the first instruction of a function, and one signal in another ------------------------
 */

#if defined(__x86_64__)
#include <ucontext.h>

/* Two bytes long: what comes after them is what the handler returns to. */
#define TRAP "ud2\n\t"

static void skip_trap(void *context)
{
	ucontext_t *uc = context;

	uc->uc_mcontext.gregs[REG_RIP] += 2;
}

/* A trap as its very first instruction; the byte before it belongs to trap_before. */
void trap_before(void);
void trap_victim(void);
__asm__("	.text\n"
        "	.globl trap_before\n"
        "	.hidden trap_before\n"
        "	.type trap_before, @function\n"
        "trap_before:\n"
        "	.cfi_startproc\n"
        "	sub $40, %rsp\n"
        "	.cfi_adjust_cfa_offset 40\n"
        "	add $40, %rsp\n"
        "	.cfi_adjust_cfa_offset -40\n"
        "	jmp trap_before\n"
        "	.cfi_adjust_cfa_offset 88\n" /* what is true of nothing: no code is after it */
        "	nop\n"
        "	.cfi_endproc\n"
        "	.size trap_before, . - trap_before\n"
        "	.globl trap_victim\n"
        "	.hidden trap_victim\n"
        "	.type trap_victim, @function\n"
        "trap_victim:\n"
        "	.cfi_startproc\n"
        "	" TRAP "ret\n"
        "	.cfi_endproc\n"
        "	.size trap_victim, . - trap_victim\n");

WL_FUNC static void trap_handler(int sig, siginfo_t *info, void *context)
{
	(void)info;
	wl_sink += shape_spin(SHAPE_BATCHES) + (uint64_t)sig;
	skip_trap(context);
}
static void trap_work(void)
{
	trap_victim();
	wl_sink++;
}
static void trap_begin(void)
{
	handle(SIGILL, trap_handler, 0);
	snprintf(shape_more, sizeof(shape_more), ", \"exact\": [\"trap_victim\", \"%#llx\"]",
	         (unsigned long long)(uintptr_t)trap_victim);
}
static const char *const trap_chains[] = {
        "shape_spin trap_handler ? trap_victim trap_work",
        NULL,
};

/* The victim traps; its handler, on the alternate stack, traps again. */
WL_FUNC static void nest_deep(uint64_t x)
{
	volatile uint64_t local[20];

	local[x % 20] = x;
	__asm__ volatile("int3" : : : "memory");
	wl_sink += local[x % 20];
}
WL_FUNC static void nest_outer(int sig, siginfo_t *info, void *context)
{
	(void)info;
	nest_deep((uint64_t)sig);
	skip_trap(context);
}
WL_FUNC static void nest_trap(int sig, siginfo_t *info, void *context)
{
	(void)info;
	(void)context;
	wl_sink += shape_spin(SHAPE_BATCHES) + (uint64_t)sig;
}
static void nest_work(void)
{
	trap_victim();
	wl_sink++;
}
static void nest_begin(void)
{
	use_alt_stack();
	handle(SIGILL, nest_outer, SA_ONSTACK);
	handle(SIGTRAP, nest_trap, SA_ONSTACK);
}
static const char *const nest_chains[] = {
        "shape_spin nest_trap ? nest_deep nest_outer ? trap_victim nest_work",
        NULL,
};
#endif

const struct shape shapes_signals[] = {
        {.name = "signal", .work = sig_work, .begin = sig_begin, .chains = sig_chains},
        {.name = "sigaltstack", .work = sig_work, .begin = sigalt_begin, .chains = sig_chains},
        {.name = "sigpush", .work = sigpush_work, .begin = sig_begin, .chains = sigpush_chains},
#if defined(__x86_64__)
        {.name = "sigfirst", .work = trap_work, .begin = trap_begin, .chains = trap_chains},
        {.name = "signested", .work = nest_work, .begin = nest_begin, .chains = nest_chains},
#endif
        {.name = NULL},
};
