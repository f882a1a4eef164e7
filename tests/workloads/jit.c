/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jit - code without a file: a loop with a frame pointer, copied to anonymous executable memory and
 * called.
 *
 * main → jit_run → jit_call → the loop. Prints where the code lies, so that a test can tell its
 * frames.
 */
#include "workload.h"

#include <sys/mman.h>

typedef void (*jit_fn)(uint64_t iterations);

/* void f(uint64_t n) { do ; while (--n); }, assembled by hand, with the frame that a compiler would
 * set up. */
#if defined(__x86_64__)
static const uint8_t jit_code[] = {
        0x55,             /*    push %rbp      */
        0x48, 0x89, 0xe5, /*    mov %rsp, %rbp */
        0x48, 0xff, 0xcf, /* 1: dec %rdi       */
        0x75, 0xfb,       /*    jne 1b         */
        0x5d,             /*    pop %rbp       */
        0xc3,             /*    ret            */
};
#elif defined(__aarch64__)
static const uint32_t jit_code[] = {
        0xa9bf7bfd, /*    stp x29, x30, [sp, #-16]! */
        0x910003fd, /*    mov x29, sp               */
        0xf1000400, /* 1: subs x0, x0, #1           */
        0x54ffffe1, /*    b.ne 1b                   */
        0xa8c17bfd, /*    ldp x29, x30, [sp], #16   */
        0xd65f03c0, /*    ret                       */
};
#else
#error "jit: no code for this processor"
#endif

WL_FUNC static void jit_call(jit_fn fn)
{
	fn(2000000); /* about a millisecond */
	wl_sink++;
}

WL_FUNC static void jit_run(jit_fn fn, uint64_t until_ns)
{
	do {
		jit_call(fn);
	} while (wl_now_ns() < until_ns);
}

int main(int argc, char **argv)
{
	double seconds = 10;
	const struct wl_opt opts[] = {
	        WL_OPT_SECONDS(seconds),
	        WL_OPT_END,
	};
	size_t len = (size_t)sysconf(_SC_PAGESIZE);
	jit_fn fn;
	void *mem;

	wl_options(argc, argv, opts);
	mem = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mem == MAP_FAILED) {
		perror("jit: mmap");
		return 1;
	}
	memcpy(mem, jit_code, sizeof(jit_code));
	if (mprotect(mem, len, PROT_READ | PROT_EXEC) < 0) {
		perror("jit: mprotect");
		return 1;
	}
	__builtin___clear_cache((char *)mem, (char *)mem + sizeof(jit_code));
	memcpy(&fn, &mem, sizeof(fn)); /* ISO C has no cast from object to function pointer */
	wl_ready();
	printf("{\"jit_start\":\"%#llx\",\"jit_end\":\"%#llx\"}\n",
	       (unsigned long long)(uintptr_t)mem,
	       (unsigned long long)(uintptr_t)mem + sizeof(jit_code));
	fflush(stdout);
	jit_run(fn, wl_now_ns() + wl_seconds_ns(seconds));
	printf("{\"cpu_ns\":%llu}\n", (unsigned long long)wl_thread_cpu_ns());
	return 0;
}
