/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rename - threads that change their name half-way.
 *
 * Thread i is called before-<i> while it spins in before_rename and after-<i> while it spins in
 * after_rename, half of the time each; main waits.
 */
#include "workload.h"

#include <pthread.h>

#define RENAME_MAX_THREADS 64

static uint64_t rename_half_ns, rename_end_ns;

WL_FUNC static void before_rename(void)
{
	while (wl_now_ns() < rename_half_ns)
		wl_batch();
}

WL_FUNC static void after_rename(void)
{
	while (wl_now_ns() < rename_end_ns)
		wl_batch();
}

static void set_name(const char *prefix, int i)
{
	char name[16];
	int r;

	snprintf(name, sizeof(name), "%s-%d", prefix, i);
	r = pthread_setname_np(pthread_self(), name);
	if (r) {
		fprintf(stderr, "rename: pthread_setname_np: %s\n", strerror(r));
		exit(1);
	}
}

WL_FUNC static void *rename_thread(void *arg)
{
	int i = (int)(intptr_t)arg;
	uint64_t half_cpu_ns;

	set_name("before", i);
	before_rename();
	half_cpu_ns = wl_thread_cpu_ns();
	set_name("after", i);
	after_rename();
	printf("{\"tid\":%d,\"before_cpu_ns\":%llu,\"after_cpu_ns\":%llu}\n", wl_gettid(),
	       (unsigned long long)half_cpu_ns,
	       (unsigned long long)(wl_thread_cpu_ns() - half_cpu_ns));
	return NULL;
}

int main(int argc, char **argv)
{
	double seconds = 10, threads = 2;
	const struct wl_opt opts[] = {
	        WL_OPT_SECONDS(seconds),
	        {.name = "threads", .num = &threads, .min = 1, .max = RENAME_MAX_THREADS},
	        WL_OPT_END,
	};
	pthread_t tids[RENAME_MAX_THREADS];
	uint64_t start_ns;

	wl_options(argc, argv, opts);
	start_ns = wl_now_ns();
	rename_half_ns = start_ns + wl_seconds_ns(seconds / 2);
	rename_end_ns = start_ns + wl_seconds_ns(seconds);
	wl_ready();
	for (int i = 0; i < (int)threads; i++) {
		int r = pthread_create(&tids[i], NULL, rename_thread, (void *)(intptr_t)i);

		if (r) {
			fprintf(stderr, "rename: pthread_create: %s\n", strerror(r));
			return 1;
		}
	}
	for (int i = 0; i < (int)threads; i++)
		pthread_join(tids[i], NULL);
	return 0;
}
