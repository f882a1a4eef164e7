/* SPDX-License-Identifier: Apache-2.0 */
/* exits - spins for --ms (or --seconds) of its own CPU time in exits_work, then exits with
 * --status. */
#include "workload.h"

WL_FUNC static void exits_work(uint64_t ns)
{
	uint64_t end = wl_thread_cpu_ns() + ns;

	do {
		wl_batch();
	} while (wl_thread_cpu_ns() < end);
}

int main(int argc, char **argv)
{
	double seconds = 0.1, ms = -1, status = 0;
	const struct wl_opt opts[] = {
	        WL_OPT_SECONDS(seconds),
	        {.name = "ms", .num = &ms, .min = 0, .max = 86400000},
	        {.name = "status", .num = &status, .min = 0, .max = 255},
	        WL_OPT_END,
	};

	wl_options(argc, argv, opts);
	wl_ready();
	exits_work(ms >= 0 ? (uint64_t)(ms * (double)WL_NSEC_PER_MSEC) : wl_seconds_ns(seconds));
	return (int)status;
}
