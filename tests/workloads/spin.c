/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spin - each thread spends its CPU time in spin_a and spin_b, 2 : 1, by its own CPU clock.
 *
 * One thread: main → spin_run → spin_pair → spin_a | spin_b. More: spin_thread → spin_run → …,
 * while main waits. At the end one line a thread: its CPU time by its own clock, by the scheduler,
 * and what went into a and b.
 */
#include "workload.h"

#include <pthread.h>

#define SPIN_UNIT_NS     (5 * WL_NSEC_PER_MSEC)
#define SPIN_MAX_THREADS 256

static uint64_t spin_until_ns;

/* Output of one thread, by that thread. */
struct spin_result {
	uint64_t a_ns, b_ns;
};

WL_FUNC static uint64_t spin_a(uint64_t ns)
{
	uint64_t start = wl_thread_cpu_ns(), now = start;

	while (now - start < ns) {
		wl_batch();
		now = wl_thread_cpu_ns();
	}
	return now - start;
}

WL_FUNC static uint64_t spin_b(uint64_t ns)
{
	uint64_t start = wl_thread_cpu_ns(), now = start;

	while (now - start < ns) {
		wl_batch();
		now = wl_thread_cpu_ns();
	}
	return now - start;
}

/* The overshoot of one turn is subtracted from the next, so that the ratio holds over the whole
 * run. */
WL_FUNC static void spin_pair(struct spin_result *res)
{
	res->a_ns += spin_a(2 * SPIN_UNIT_NS);
	if (2 * res->b_ns < res->a_ns)
		res->b_ns += spin_b(res->a_ns / 2 - res->b_ns);
}

WL_FUNC static void spin_run(void)
{
	struct spin_result res = {0, 0};

	do {
		spin_pair(&res);
	} while (wl_now_ns() < spin_until_ns);

	printf("{\"tid\":%d,\"cpu_ns\":%llu,\"schedstat_ns\":%llu,\"a_ns\":%llu,\"b_ns\":%llu}\n",
	       wl_gettid(), (unsigned long long)wl_thread_cpu_ns(),
	       (unsigned long long)wl_schedstat_ns(), (unsigned long long)res.a_ns,
	       (unsigned long long)res.b_ns);
}

WL_FUNC static void *spin_thread(void *arg)
{
	char name[16];

	snprintf(name, sizeof(name), "spin-%d", (int)(intptr_t)arg);
	pthread_setname_np(pthread_self(), name);
	spin_run();
	return NULL;
}

int main(int argc, char **argv)
{
	double seconds = 10, threads = 1;
	const struct wl_opt opts[] = {
	        WL_OPT_SECONDS(seconds),
	        {.name = "threads", .num = &threads, .min = 1, .max = SPIN_MAX_THREADS},
	        WL_OPT_END,
	};
	pthread_t tids[SPIN_MAX_THREADS];
	int n;

	wl_options(argc, argv, opts);
	n = (int)threads;
	spin_until_ns = wl_now_ns() + wl_seconds_ns(seconds);
	wl_ready();
	if (n == 1) {
		spin_run();
		return 0;
	}
	for (int i = 0; i < n; i++) {
		int r = pthread_create(&tids[i], NULL, spin_thread, (void *)(intptr_t)i);

		if (r) {
			fprintf(stderr, "spin: pthread_create: %s\n", strerror(r));
			return 1;
		}
	}
	for (int i = 0; i < n; i++)
		pthread_join(tids[i], NULL);
	return 0;
}
