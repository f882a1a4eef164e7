/* SPDX-License-Identifier: Apache-2.0 */
/*
 * syscalls - two system calls in turn from one call site: two different kernel stacks under one
 * user stack.
 *
 * main → syscalls_run → syscalls_site → syscalls_enter, which has the one instruction that enters
 * the kernel. By default the pair is read of /dev/zero and pwrite64 to a memfd, 64 KiB each (both
 * spend their time in the kernel); with --cheap it is getppid and getuid, where entering and
 * leaving is all there is.
 */
#include "workload.h"

#include <fcntl.h>
#include <sys/mman.h>

#define SYSCALLS_BYTES 65536

struct syscalls_call {
	long nr, a, b, c, d;
	uint64_t cnt;
};

/* A frame of our own around the instruction: libc's syscall() has no frame pointer. */
WL_FUNC static long syscalls_enter(const struct syscalls_call *call)
{
	WL_NEED_FRAME();
#if defined(__x86_64__)
	register long r10 __asm__("r10") = call->d;
	long ret;

	__asm__ volatile("syscall"
	                 : "=a"(ret)
	                 : "0"(call->nr), "D"(call->a), "S"(call->b), "d"(call->c), "r"(r10)
	                 : "rcx", "r11", "memory");
	return ret;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = call->nr;
	register long x0 __asm__("x0") = call->a;
	register long x1 __asm__("x1") = call->b;
	register long x2 __asm__("x2") = call->c;
	register long x3 __asm__("x3") = call->d;

	__asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
	return x0;
#else
	return syscall(call->nr, call->a, call->b, call->c, call->d);
#endif
}

WL_FUNC static void syscalls_site(struct syscalls_call *pair)
{
	for (int i = 0; i < 2000; i++) {
		struct syscalls_call *call = &pair[i & 1];

		if (syscalls_enter(call) < 0) {
			fprintf(stderr, "syscalls: system call %ld failed\n", call->nr);
			exit(1);
		}
		call->cnt++;
	}
}

WL_FUNC static void syscalls_run(struct syscalls_call *pair, uint64_t until_ns)
{
	do {
		syscalls_site(pair);
	} while (wl_now_ns() < until_ns);
}

int main(int argc, char **argv)
{
	double seconds = 10;
	bool cheap = false;
	const struct wl_opt opts[] = {
	        WL_OPT_SECONDS(seconds),
	        {.name = "cheap", .flag = &cheap},
	        WL_OPT_END,
	};
	static char buf[SYSCALLS_BYTES];
	struct syscalls_call pair[2];

	wl_options(argc, argv, opts);
	if (cheap) {
		pair[0] = (struct syscalls_call){.nr = SYS_getppid};
		pair[1] = (struct syscalls_call){.nr = SYS_getuid};
	} else {
		int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
		int mem = memfd_create("syscalls", MFD_CLOEXEC);

		if (zero < 0 || mem < 0) {
			perror("syscalls: open");
			return 1;
		}
		pair[0] = (struct syscalls_call){SYS_read, zero, (long)buf, sizeof(buf), 0, 0};
		pair[1] = (struct syscalls_call){SYS_pwrite64, mem, (long)buf, sizeof(buf), 0, 0};
	}
	wl_ready();
	syscalls_run(pair, wl_now_ns() + wl_seconds_ns(seconds));
	printf("{\"first\":%llu,\"second\":%llu,\"cpu_ns\":%llu}\n",
	       (unsigned long long)pair[0].cnt, (unsigned long long)pair[1].cnt,
	       (unsigned long long)wl_thread_cpu_ns());
	return 0;
}
