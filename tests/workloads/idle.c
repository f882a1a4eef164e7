/* SPDX-License-Identifier: Apache-2.0 */
/* idle - sleeps, and does nothing else: the target of an empty profile. */
#include "workload.h"

WL_FUNC static void idle_sleep(uint64_t ns)
{
	struct timespec left = {.tv_sec = (time_t)(ns / WL_NSEC_PER_SEC),
	                        .tv_nsec = (long)(ns % WL_NSEC_PER_SEC)};

	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		;
}

int main(int argc, char **argv)
{
	double seconds = 10;
	const struct wl_opt opts[] = {
	        WL_OPT_SECONDS(seconds),
	        WL_OPT_END,
	};

	wl_options(argc, argv, opts);
	wl_ready();
	idle_sleep(wl_seconds_ns(seconds));
	return 0;
}
