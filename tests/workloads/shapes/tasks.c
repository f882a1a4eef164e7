/* SPDX-License-Identifier: Apache-2.0 */
/* First frames of threads, coroutines and of a vfork child, stacks below a system call, the vDSO,
 * JIT code. */
#include "shape.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#if defined(__GLIBC__)
#include <ucontext.h>
#endif

/* ---- threads --------------------------------------------------------------------------------- */

WL_FUNC static void *thread_first(void *arg)
{
	do {
		wl_sink += shape_spin(SHAPE_BATCHES);
	} while (wl_now_ns() < shape_until_ns);
	return arg;
}
static void thread_work(void)
{
	pthread_t t;
	int r = pthread_create(&t, NULL, thread_first, NULL);

	if (r)
		shape_die("pthread_create: %s", strerror(r));
	pthread_join(t, NULL);
}
static const char *const thread_chains[] = {"shape_spin thread_first", NULL};

/* Pages in the middle of a stack that were never touched: those of a large array, of which only the
 * beginning is used, in a new thread. */
#define HOLLOW_BYTES 9000

WL_FUNC static uint64_t hollow_frame(uint64_t x)
{
	volatile char local[HOLLOW_BYTES];

	local[0] = (char)x;
	return shape_spin(SHAPE_BATCHES) + (uint64_t)local[0];
}
WL_FUNC static void *hollow_first(void *arg)
{
	do {
		wl_sink += hollow_frame(1);
	} while (wl_now_ns() < shape_until_ns);
	return arg;
}
static void hollow_work(void)
{
	pthread_t t;
	int r = pthread_create(&t, NULL, hollow_first, NULL);

	if (r)
		shape_die("pthread_create: %s", strerror(r));
	pthread_join(t, NULL);
}
static const char *const hollow_chains[] = {"shape_spin hollow_frame hollow_first", NULL};

#define CLONE_STACK_BYTES (256 << 10)

static int clone_first(void *arg)
{
	(void)arg;
	do {
		wl_sink += shape_spin(SHAPE_BATCHES);
	} while (wl_now_ns() < shape_until_ns);
	return 0;
}
/* A process of the same memory: no thread library between the kernel and its first function. */
static void clone_work(void)
{
	char *stack = mmap(NULL, CLONE_STACK_BYTES, PROT_READ | PROT_WRITE,
	                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	int pid, status;

	if (stack == MAP_FAILED)
		shape_die("mmap: %s", strerror(errno));
	pid = clone(clone_first, stack + CLONE_STACK_BYTES,
	            CLONE_VM | CLONE_FS | CLONE_FILES | SIGCHLD, NULL);
	if (pid < 0)
		shape_die("clone: %s", strerror(errno));
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
}
static const char *const clone_chains[] = {"shape_spin clone_first", NULL};

/* ---- coroutines ------------------------------------------------------------------------------ */

/* musl has none. */
#if defined(__GLIBC__)
#define CO_STACK_BYTES (256 << 10)

static ucontext_t co_main, co_other;

/* It goes back to where it came from, for a moment. */
static void co_work(void)
{
	for (;;) {
		wl_sink += shape_spin(SHAPE_BATCHES);
		swapcontext(&co_other, &co_main);
	}
}
static void co_begin(void)
{
	void *stack = mmap(NULL, CO_STACK_BYTES, PROT_READ | PROT_WRITE,
	                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);

	if (stack == MAP_FAILED || getcontext(&co_other) < 0)
		shape_die("getcontext: %s", strerror(errno));
	co_other.uc_stack.ss_sp = stack;
	co_other.uc_stack.ss_size = CO_STACK_BYTES;
	co_other.uc_link = &co_main;
	makecontext(&co_other, co_work, 0);
}
static void co_switch(void)
{
	swapcontext(&co_main, &co_other);
}
/* The other side's time is that of the switch. */
static const char *const co_chains[] = {"shape_spin co_work", NULL};
#endif

/* ---- vfork ----------------------------------------------------------------------------------- */

WL_FUNC static void vfork_child(uint64_t x)
{
	wl_sink += shape_spin(200 * SHAPE_BATCHES) + x;
}
/* The child runs on this frame while the parent waits. */
WL_FUNC static void vfork_work(void)
{
	int status;
	pid_t pid = vfork();

	if (pid == 0) {
		vfork_child(1);
		_exit(0);
	}
	if (pid < 0)
		shape_die("vfork: %s", strerror(errno));
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
}
static const char *const vfork_chains[] = {"shape_spin vfork_child vfork_work", NULL};

/* ---- system calls, vDSO ---------------------------------------------------------------------- */

static int zero_fd, null_fd;

static void sys_begin(void)
{
	zero_fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (zero_fd < 0 || null_fd < 0)
		shape_die("open: %s", strerror(errno));
}
WL_FUNC static uint64_t sys_both(uint64_t x)
{
	char c;

	if (read(zero_fd, &c, 1) != 1)
		return x;
	if (write(null_fd, &c, 1) != 1)
		return x + 1;
	return x + 2;
}
WL_FUNC static void sys_many(void)
{
	for (int i = 0; i < 5000; i++)
		wl_sink += sys_both(wl_sink);
}
static void sys_work(void)
{
	sys_many();
	wl_sink++;
}
static const char *const sys_chains[] = {"sys_both sys_many sys_work", NULL};

WL_FUNC static uint64_t vdso_both(uint64_t x)
{
	struct timespec ts;
	struct timeval tv;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	gettimeofday(&tv, NULL);
	return x + (uint64_t)ts.tv_nsec + (uint64_t)tv.tv_usec;
}
WL_FUNC static void vdso_many(void)
{
	for (int i = 0; i < 20000; i++)
		wl_sink += vdso_both(wl_sink);
}
static void vdso_work(void)
{
	vdso_many();
	wl_sink++;
}
static const char *const vdso_chains[] = {"vdso_both vdso_many vdso_work", NULL};

/* ---- JIT code -------------------------------------------------------------- */

typedef uint64_t (*jit_fn)(uint64_t (*fn)(uint64_t), uint64_t arg);

/* With a frame pointer, as most compilers at run time make it; "?" in the chain. */
#if defined(__x86_64__)
static const uint8_t jit_code[] = {
        0x55,                   /* push %rbp      */
        0x48, 0x89, 0xe5,       /* mov %rsp, %rbp */
        0x48, 0x83, 0xec, 0x30, /* sub $48, %rsp  */
        0x48, 0x89, 0xf8,       /* mov %rdi, %rax */
        0x48, 0x89, 0xf7,       /* mov %rsi, %rdi */
        0xff, 0xd0,             /* call *%rax     */
        0xc9,                   /* leave          */
        0xc3,                   /* ret            */
};
#elif defined(__aarch64__)
static const uint32_t jit_code[] = {
        0xa9bd7bfd, /* stp x29, x30, [sp, #-48]! */
        0x910003fd, /* mov x29, sp               */
        0xaa0003e2, /* mov x2, x0                */
        0xaa0103e0, /* mov x0, x1                */
        0xd63f0040, /* blr x2                    */
        0xa8c37bfd, /* ldp x29, x30, [sp], #48   */
        0xd65f03c0, /* ret                       */
};
#endif
static jit_fn jit_entry;

static void jit_begin(void)
{
	size_t len = (size_t)sysconf(_SC_PAGESIZE);
	void *mem = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (mem == MAP_FAILED)
		shape_die("mmap: %s", strerror(errno));
	memcpy(mem, jit_code, sizeof(jit_code));
	if (mprotect(mem, len, PROT_READ | PROT_EXEC) < 0)
		shape_die("mprotect: %s", strerror(errno));
	__builtin___clear_cache((char *)mem, (char *)mem + sizeof(jit_code));
	memcpy(&jit_entry, &mem, sizeof(jit_entry)); /* ISO C has no such cast */
}
WL_FUNC static uint64_t jit_back(uint64_t x)
{
	return shape_spin(SHAPE_BATCHES) + x;
}
WL_FUNC static uint64_t jit_call(uint64_t x)
{
	return jit_entry(jit_back, x) + x;
}
static void jit_work(void)
{
	wl_sink += jit_call(wl_sink);
}
static const char *const jit_chains[] = {"shape_spin jit_back ? jit_call jit_work", NULL};

const struct shape shapes_tasks[] = {
        {.name = "thread", .work = thread_work, .chains = thread_chains, .below = ""},
        {.name = "hollow", .work = hollow_work, .chains = hollow_chains, .below = ""},
        {.name = "clone", .work = clone_work, .chains = clone_chains, .below = ""},
#if defined(__GLIBC__)
        {.name = "coroutine",
         .work = co_switch,
         .begin = co_begin,
         .chains = co_chains,
         .below = ""},
#endif
        {.name = "vfork", .work = vfork_work, .chains = vfork_chains},
        {.name = "syscall", .work = sys_work, .begin = sys_begin, .chains = sys_chains},
        {.name = "vdso", .work = vdso_work, .chains = vdso_chains},
        {.name = "jit", .work = jit_work, .begin = jit_begin, .chains = jit_chains},
        {.name = NULL},
};
