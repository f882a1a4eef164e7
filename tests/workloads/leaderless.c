/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leaderless - the first thread has ended, another one works on: leaderless_thread →
 * leaderless_spin.
 *
 * /proc/PID shows a zombie then, without mappings and without a program.
 */
#include "workload.h"

#include <pthread.h>

static uint64_t leaderless_until_ns;

WL_FUNC static void leaderless_spin(void)
{
	while (wl_now_ns() < leaderless_until_ns)
		wl_batch();
}

WL_FUNC static void *leaderless_thread(void *leader)
{
	if (pthread_join(*(pthread_t *)leader, NULL) != 0)
		exit(1);
	wl_ready();
	leaderless_spin();
	exit(0);
}

int main(int argc, char **argv)
{
	static pthread_t self;
	double seconds = 10;
	const struct wl_opt opts[] = {WL_OPT_SECONDS(seconds), WL_OPT_END};
	pthread_t thread;

	wl_options(argc, argv, opts);
	self = pthread_self();
	leaderless_until_ns = wl_now_ns() + wl_seconds_ns(seconds);
	if (pthread_create(&thread, NULL, leaderless_thread, &self) != 0)
		return 1;
	pthread_exit(NULL);
}
