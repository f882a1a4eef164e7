/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forks - a storm of short-lived children, one after another, each spending --child-ms of CPU in
 * child_work.
 *
 * With --exec each child executes this program again before it works. --children 0: until the time
 * is over. Ends after --children or --seconds, what comes first, and prints the CPU time of all
 * children together.
 */
#include "workload.h"

#include <sys/resource.h>
#include <sys/wait.h>

WL_FUNC static void child_work(double ms)
{
	uint64_t end = wl_thread_cpu_ns() + (uint64_t)(ms * (double)WL_NSEC_PER_MSEC);

	do {
		wl_batch();
	} while (wl_thread_cpu_ns() < end);
}

/* @ret_status: wait status; returns false where no child could be made or waited for. */
WL_FUNC static bool forks_one(double ms, bool exec, int *ret_status)
{
	pid_t pid = fork();

	if (pid < 0) {
		perror("forks: fork");
		return false;
	}
	if (pid == 0) {
		if (exec) {
			char arg[32];

			snprintf(arg, sizeof(arg), "%.3f", ms);
			execl("/proc/self/exe", "forks", "--child-ms", arg, "--child",
			      (char *)NULL);
			_exit(127);
		}
		child_work(ms);
		_exit(0);
	}
	while (waitpid(pid, ret_status, 0) < 0) {
		if (errno != EINTR) {
			perror("forks: waitpid");
			return false;
		}
	}
	return true;
}

static uint64_t timeval_ns(struct timeval tv)
{
	return (uint64_t)tv.tv_sec * WL_NSEC_PER_SEC + (uint64_t)tv.tv_usec * 1000;
}

int main(int argc, char **argv)
{
	double seconds = 10, children = 0, ms = 5;
	bool exec = false, child = false;
	const struct wl_opt opts[] = {
	        WL_OPT_SECONDS(seconds),
	        {.name = "children", .num = &children, .min = 0, .max = 1e6},
	        {.name = "child-ms", .num = &ms, .min = 0, .max = 60000},
	        {.name = "exec", .flag = &exec},
	        {.name = "child", .flag = &child},
	        WL_OPT_END,
	};
	struct rusage self, kids;
	uint64_t until_ns, cnt = 0;

	wl_options(argc, argv, opts);
	if (child) {
		child_work(ms);
		return 0;
	}
	wl_ready();
	until_ns = wl_now_ns() + wl_seconds_ns(seconds);
	do {
		int status;

		if (!forks_one(ms, exec, &status))
			return 1;
		if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
			fprintf(stderr, "forks: a child ended with wait status %#x\n", status);
			return 1;
		}
		cnt++;
	} while ((children <= 0 || cnt < (uint64_t)children) && wl_now_ns() < until_ns);

	if (getrusage(RUSAGE_SELF, &self) < 0 || getrusage(RUSAGE_CHILDREN, &kids) < 0) {
		perror("forks: getrusage");
		return 1;
	}
	printf("{\"children\":%llu,\"children_cpu_ns\":%llu,\"self_cpu_ns\":%llu}\n",
	       (unsigned long long)cnt,
	       (unsigned long long)(timeval_ns(kids.ru_utime) + timeval_ns(kids.ru_stime)),
	       (unsigned long long)(timeval_ns(self.ru_utime) + timeval_ns(self.ru_stime)));
	return 0;
}
