/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apart - signal handlers that return to a trampoline of our own, without call-frame information
 * and on a page of its own: no other code of this program is near.
 *
 * Now and then a child is forked, whose memory has none of the pages of code that it has not run
 * yet; it goes into the handler and ends there. What cannot be read in the child must not be
 * believed of its parent, which goes on in handlers.
 */
#include "shape.h"

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* Pauses, one between each two of so many parts of the run. The first comes when perf-agent has the
 * table.
 */
#define PARTS 3
/* So that perf-agent knows a child's mappings before it runs: deferred samples are walked by
 * perf-agent, which reads the child's code, and so its pages are there. */
#define CHILD_WAIT_NS 200000000L
/* Further away than the kernel maps pages around one that is touched. */
#define APART "0x200000"

/* apart_after has rules, so that the trampoline lies between what the table covers. */
void apart_restorer(void);
void apart_after(void);
__asm__("	.text\n"
        "	.space " APART ", 0x90\n"
        "	.globl apart_restorer\n"
        "	.hidden apart_restorer\n"
        "	.type apart_restorer, @function\n"
        "apart_restorer:\n"
        "	mov $15, %rax\n"
        "	syscall\n"
        "	.size apart_restorer, . - apart_restorer\n"
        "	.space " APART ", 0x90\n"
        "	.globl apart_after\n"
        "	.hidden apart_after\n"
        "	.type apart_after, @function\n"
        "apart_after:\n"
        "	.cfi_startproc\n"
        "	ret\n"
        "	.cfi_endproc\n"
        "	.size apart_after, . - apart_after\n");

/* As the kernel takes it. */
struct kernel_sigaction {
	void (*handler)(int);
	unsigned long flags;
	void (*restorer)(void);
	unsigned long mask;
};
#define KERNEL_SA_RESTORER 0x04000000

static bool in_child;
static uint64_t begun_ns;
static uint64_t children;

/* No code of a library, which may lie alongside anything. */
static inline long apart_syscall(long nr, long a, long b)
{
	long ret;

	__asm__ volatile("syscall" : "=a"(ret) : "a"(nr), "D"(a), "S"(b) : "rcx", "r11", "memory");
	return ret;
}

WL_FUNC static uint64_t apart_handler_work(uint64_t x)
{
	return shape_spin(SHAPE_BATCHES) + x;
}
WL_FUNC static uint64_t apart_child_work(uint64_t x)
{
	return shape_spin(10 * SHAPE_BATCHES) + x;
}
WL_FUNC static void apart_handler(int sig)
{
	if (in_child) {
		wl_sink += apart_child_work((uint64_t)sig);
		apart_syscall(SYS_exit_group, 0, 0);
	}
	wl_sink += apart_handler_work((uint64_t)sig);
}
WL_FUNC static uint64_t apart_raise(uint64_t x)
{
	apart_syscall(SYS_kill, apart_syscall(SYS_getpid, 0, 0), SIGUSR1);
	return x + 1;
}
WL_FUNC static uint64_t apart_fork(uint64_t x)
{
	pid_t pid = (pid_t)apart_syscall(SYS_fork, 0, 0);
	int status;

	if (pid == 0) {
		const struct timespec wait = {.tv_nsec = CHILD_WAIT_NS};

		in_child = true;
		apart_syscall(SYS_nanosleep, (long)&wait, 0);
		x += apart_raise(x);
	}
	if (pid < 0)
		shape_die("fork: %s", strerror((int)-pid));
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return x + 1;
}
/* A child's CPU time is not the parent's. */
static void apart_work(void)
{
	uint64_t now = wl_now_ns(), away;

	wl_sink += apart_raise(wl_sink);
	if ((now - begun_ns) * PARTS / (shape_until_ns - begun_ns) <= children)
		return;
	children++;
	wl_sink += apart_fork(wl_sink);
	away = wl_now_ns() - now;
	begun_ns += away;
	shape_until_ns += away;
}
static void apart_begin(void)
{
	const struct kernel_sigaction sa = {
	        .handler = apart_handler, .flags = KERNEL_SA_RESTORER, .restorer = apart_restorer};
	long r = syscall(SYS_rt_sigaction, SIGUSR1, &sa, NULL, sizeof(sa.mask));

	if (r < 0)
		shape_die("rt_sigaction: %s", strerror(errno));
	apart_after();
	begun_ns = wl_now_ns();
}
static const char *const apart_chains[] = {
        "shape_spin apart_handler_work apart_handler ? apart_raise apart_work shape_run main",
        "apart_fork apart_work shape_run main",
        /* the child, which may show less */
        "shape_spin apart_child_work apart_handler ? apart_raise apart_fork apart_work shape_run "
        "main",
        "shape_spin apart_child_work apart_handler ?",
        NULL,
};

static const struct shape shapes_apart[] = {
        {.name = "apart",
         .work = apart_work,
         .begin = apart_begin,
         .chains = apart_chains,
         .below = ""},
        {.name = NULL},
};

int main(int argc, char **argv)
{
	const struct shape *const lists[] = {shapes_apart, NULL};

	shape_run(shape_begin(argc, argv, lists));
	return 0;
}
