/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chain - a stack of known depth: main → chain_run → N calls → chain_leaf, which spins.
 *
 * The N calls are N times chain_step, or with --distinct chain_00, chain_01 … chain_31, chain_00 …
 * in turn. With --every-ms it comes to its leaf once in so long, and sleeps meanwhile.
 */
#include "workload.h"

/* It sleeps between its visits: then a visit is of that much CPU time and not of work, however slow
 * the CPU is at the time. */
static bool nap;

WL_FUNC static void chain_leaf(void)
{
	WL_NEED_FRAME();
	uint64_t end_ns = nap ? wl_thread_cpu_ns() + WL_NSEC_PER_MSEC : 0;

	/* About a millisecond a visit: the way down and up again is noise even at 2,000 calls. */
	for (int i = 0; nap ? wl_thread_cpu_ns() < end_ns : i < 50; i++)
		wl_batch();
}

WL_FUNC static int chain_step(int left)
{
	if (left <= 1)
		chain_leaf();
	else
		wl_sink += (uint64_t)chain_step(left - 1);
	return left;
}

/* clang-format off */
#define CHAIN_FUNCS(X)                          \
	X(00, 01) X(01, 02) X(02, 03) X(03, 04) \
	X(04, 05) X(05, 06) X(06, 07) X(07, 08) \
	X(08, 09) X(09, 10) X(10, 11) X(11, 12) \
	X(12, 13) X(13, 14) X(14, 15) X(15, 16) \
	X(16, 17) X(17, 18) X(18, 19) X(19, 20) \
	X(20, 21) X(21, 22) X(22, 23) X(23, 24) \
	X(24, 25) X(25, 26) X(26, 27) X(27, 28) \
	X(28, 29) X(29, 30) X(30, 31) X(31, 00)
/* clang-format on */

#define DECLARE(id, next) static int chain_##id(int left);
CHAIN_FUNCS(DECLARE)
#undef DECLARE

#define DEFINE(id, next)                                                                           \
	WL_FUNC static int chain_##id(int left)                                                    \
	{                                                                                          \
		if (left <= 1)                                                                     \
			chain_leaf();                                                              \
		else                                                                               \
			wl_sink += (uint64_t)chain_##next(left - 1);                               \
		return left;                                                                       \
	}
CHAIN_FUNCS(DEFINE)
#undef DEFINE

/* Processes that were started at once must not wake at once. */
static uint64_t first_wake_ns(uint64_t every_ns)
{
	return wl_now_ns() + (uint64_t)getpid() * 7919 * WL_NSEC_PER_MSEC % every_ns;
}

static void sleep_until(uint64_t at_ns)
{
	const struct timespec ts = {.tv_sec = (time_t)(at_ns / WL_NSEC_PER_SEC),
	                            .tv_nsec = (long)(at_ns % WL_NSEC_PER_SEC)};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

WL_FUNC static void chain_run(int depth, bool distinct, uint64_t every_ns, uint64_t until_ns)
{
	uint64_t wake_ns = every_ns ? first_wake_ns(every_ns) : 0;

	do {
		if (every_ns) {
			sleep_until(wake_ns);
			wake_ns = wl_now_ns() + every_ns;
		}
		wl_sink += (uint64_t)(distinct ? chain_00(depth) : chain_step(depth));
	} while (wl_now_ns() < until_ns);
}

int main(int argc, char **argv)
{
	double seconds = 10, depth = 25, every_ms = 0;
	bool distinct = false;
	const struct wl_opt opts[] = {
	        WL_OPT_SECONDS(seconds),
	        {.name = "depth", .num = &depth, .min = 1, .max = 2000},
	        {.name = "distinct", .flag = &distinct},
	        {.name = "every-ms", .num = &every_ms, .min = 0, .max = 60000},
	        WL_OPT_END,
	};

	wl_options(argc, argv, opts);
	wl_ready();
	nap = every_ms > 0;
	chain_run((int)depth, distinct, (uint64_t)every_ms * WL_NSEC_PER_MSEC,
	          wl_now_ns() + wl_seconds_ns(seconds));
	printf("{\"depth\":%d,\"distinct\":%s,\"cpu_ns\":%llu}\n", (int)depth,
	       distinct ? "true" : "false", (unsigned long long)wl_thread_cpu_ns());
	return 0;
}
