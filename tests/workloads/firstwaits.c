/* SPDX-License-Identifier: Apache-2.0 */
/*
 * firstwaits - a program that waits from its first moment on.
 *
 * usage: firstwaits short N     N sleeps of 50 us in wait_short
 *        firstwaits large MS    one sleep of so long in wait_large, below a frame of 40 KiB
 *        firstwaits threads N   N threads that wait for ever in wait_thread; "ready PID" once all
 * do, "only M" if there cannot be so many
 */
#include "workload.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/prctl.h>

static atomic_long waiting;

WL_FUNC static void sleep_ns(long long ns)
{
	const struct timespec t = {.tv_sec = (time_t)(ns / 1000000000),
	                           .tv_nsec = (long)(ns % 1000000000)};

	nanosleep(&t, NULL);
}

WL_FUNC static void wait_short(void)
{
	sleep_ns(50000);
}

WL_FUNC static void wait_large(long ms)
{
	volatile char frame[40 << 10];

	for (size_t i = 0; i < sizeof(frame); i += 1024)
		frame[i] = 0; /* no words that a heuristic could take for return addresses */
	sleep_ns(ms * 1000000LL);
	(void)frame[100];
}

WL_FUNC static void wait_thread(void)
{
	atomic_fetch_add(&waiting, 1);
	for (;;)
		pause();
}

static void *thread_main(void *arg)
{
	wait_thread();
	return arg;
}

WL_FUNC static void start_threads(long n)
{
	pthread_attr_t attr;
	pthread_t id;
	long made = 0;

	if (pthread_attr_init(&attr) || pthread_attr_setstacksize(&attr, 65536))
		exit(1);
	while (made < n && pthread_create(&id, &attr, thread_main, NULL) == 0)
		made++;
	while (atomic_load(&waiting) < made)
		sleep_ns(1000000);
	if (made == n)
		printf("ready %d\n", (int)getpid());
	else
		printf("only %ld\n", made);
	fflush(stdout);
	if (made == n)
		wait_thread();
}

int main(int argc, char **argv)
{
	long n = argc == 3 ? strtol(argv[2], NULL, 10) : 0;

	if (n > 0 && !strcmp(argv[1], "short")) {
		(void)prctl(PR_SET_TIMERSLACK, 1);
		for (long i = 0; i < n; i++)
			wait_short();
	} else if (n > 0 && !strcmp(argv[1], "large")) {
		wait_large(n);
	} else if (n > 0 && !strcmp(argv[1], "threads")) {
		start_threads(n);
	} else {
		fprintf(stderr, "usage: firstwaits short N | large MS | threads N\n");
		return 2;
	}
	return 0;
}
