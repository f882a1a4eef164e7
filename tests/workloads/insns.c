/* SPDX-License-Identifier: Apache-2.0 */
/*
 * insns - runs a known number of instructions each time it is reported to.
 *
 * usage: insns [--seconds S] [--millions N] [--now]
 *
 * SIGUSR1: N million instructions, half of them branches, in insns_loop; then
 * {"instructions":N,"cpu_ns":N} on one line, cpu_ns being what the thread's CPU clock says of them.
 * Ends after --seconds or with SIGTERM. --now: once, at the start, and then the end.
 */
#include "workload.h"

#include <signal.h>

#define PER_TURN 2 /* instructions */

/* Nothing but the loop: what comes before and after it are a few instructions. */
WL_FUNC static void insns_loop(uint64_t turns)
{
	WL_NEED_FRAME();
#if defined(__x86_64__)
	__asm__ volatile("1: dec %0\n\tjnz 1b" : "+r"(turns) : : "cc");
#elif defined(__aarch64__)
	__asm__ volatile("1: subs %0, %0, #1\n\tb.ne 1b" : "+r"(turns) : : "cc");
#else
#error "no loop for this processor"
#endif
}

WL_FUNC static void insns_run(double millions)
{
	uint64_t turns = (uint64_t)(millions * 1e6) / PER_TURN;
	uint64_t begin_ns = wl_thread_cpu_ns();

	insns_loop(turns);
	printf("{\"instructions\":%llu,\"cpu_ns\":%llu}\n", (unsigned long long)(turns * PER_TURN),
	       (unsigned long long)(wl_thread_cpu_ns() - begin_ns));
	fflush(stdout);
}

int main(int argc, char **argv)
{
	double seconds = 60, millions = 20;
	bool now = false;
	const struct wl_opt opts[] = {
	        WL_OPT_SECONDS(seconds),
	        {.name = "millions", .num = &millions, .min = 1, .max = 1e6},
	        {.name = "now", .flag = &now},
	        WL_OPT_END,
	};
	uint64_t until_ns, now_ns;
	sigset_t set;

	wl_options(argc, argv, opts);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	until_ns = wl_now_ns() + wl_seconds_ns(seconds);
	wl_ready();
	if (now) {
		insns_run(millions);
		return 0;
	}
	while ((now_ns = wl_now_ns()) < until_ns) {
		struct timespec ts = {(time_t)((until_ns - now_ns) / WL_NSEC_PER_SEC),
		                      (long)((until_ns - now_ns) % WL_NSEC_PER_SEC)};
		int sig = sigtimedwait(&set, NULL, &ts);

		if (sig == SIGUSR1)
			insns_run(millions);
		else if (sig == SIGTERM)
			return 0;
	}
	return 0;
}
