// SPDX-License-Identifier: Apache-2.0
/*
 * test-live-walks [PROGRAM ...]: every sample is walked twice, with the shared cache and the window
 * and plainly, and the kernel side counts those that come out otherwise. Then the cache is spoilt
 * on purpose, to see that this would be noticed.
 *
 * Targets: functions of this file, which is built without frame pointers; python3 and openssl where
 * they are installed; each PROGRAM (a workload: it prints a line when it is ready).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "bpfmaps.h"
#include "live_main.h"
#include "stack_capture.h"

#define RUN_MS      700
#define SAMPLES_MIN 100
#define RATE_HZ     1999
/* Emulated machines give fewer samples in that time: then it takes longer, not fewer. */
#define LIMIT_MS 60000

static char **programs;

/* ---- a target of our own --------------------------------------------------------------------- */

static volatile uint64_t work_sink;

static __attribute__((noinline)) void leaf(void)
{
	uint64_t x = work_sink | 1;

	for (int i = 0; i < 3000; i++) {
		x ^= x << 13;
		x ^= x >> 7;
	}
	work_sink = x;
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	if ((x & 63) == 0)
		leaf();
	return (x > y) - (x < y);
}

/* Frames of three sizes, registers saved and not, and libc in between. */
static __attribute__((noinline)) uint64_t deep(uint32_t left, uint64_t a, uint64_t b)
{
	volatile uint64_t pad[64];
	uint32_t sorted[48];

	pad[left & 63] = a;
	if (left == 0) {
		for (uint32_t i = 0; i < ARRAY_SIZE(sorted); i++)
			sorted[i] = (uint32_t)((a + i) * 2654435761U);
		qsort(sorted, ARRAY_SIZE(sorted), sizeof(sorted[0]), by_value);
		return sorted[7];
	}
	if (left % 3 == 0)
		leaf();
	a = deep(left - 1, a * 31 + b, b ^ a) + pad[left & 63];
	return a + b;
}

static pid_t run_deep(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid)
		return pid;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* else the test ends it */
	for (uint32_t i = 0;; i++)
		work_sink += deep(i % 200, i, 1);
}

static void on_signal(int sig)
{
	work_sink += deep(20, (uint64_t)sig, 1);
}

/* In a handler half of the time; and children that are in one soon after they were forked. */
static pid_t run_signals(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid)
		return pid;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* else the test ends it */
	(void)signal(SIGUSR1, on_signal);
	for (uint32_t i = 0;; i++) {
		(void)raise(SIGUSR1);
		work_sink += deep(20, i, 1);
		if (i % 100 != 0)
			continue;
		pid = fork();
		if (pid == 0) {
			for (int k = 0; k < 50; k++)
				(void)raise(SIGUSR1);
			_exit(0);
		}
		if (pid > 0)
			(void)waitpid(pid, NULL, 0);
	}
}

/* Starts a program; 0 if it is not installed. */
static pid_t run_program(const char *const *argv)
{
	int go[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* else the test ends it */
		dup2(null, 0);
		dup2(null, 1);
		dup2(null, 2);
		execvp(argv[0], (char *const *)(uintptr_t)argv);
		(void)!write(go[1], "", 1);
		_exit(1);
	}
	close(go[1]);
	if (read(go[0], &byte, 1) == 1) { /* the pipe is closed by a successful exec */
		(void)waitpid(pid, NULL, 0);
		pid = 0;
	}
	close(go[0]);
	return pid;
}

static void end(pid_t pid)
{
	(void)kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* ---- captures -------------------------------------------------------------------------------- */

static struct cap *start(pid_t pid, uint32_t walk_flags)
{
	const struct cap_options o = {
	        .pid = (uint32_t)pid, .rate_hz = RATE_HZ, .walk_flags = walk_flags};
	struct err err = {0};
	struct cap *c;

	if (cap_start(&o, &c, &err) < 0)
		fail_msg("%s", err.msg);
	return c;
}

/* Runs until there are enough samples. */
static void run(struct cap *c)
{
	uint64_t limit = now_ns() + LIMIT_MS * 1000000ULL;

	do
		assert_int_equal(cap_run(c, RUN_MS), 0);
	while (cap_counter(c, ABI_CNT_SEEN) < SAMPLES_MIN && now_ns() < limit);
	assert_true(cap_counter(c, ABI_CNT_SEEN) >= SAMPLES_MIN);
}

static void report(const struct cap *c, const char *what)
{
	print_message("# %s: %llu samples, %llu frames, %llu heuristic, cpu cache %llu, cache %llu "
	              ": %llu, "
	              "differ %llu\n",
	              what, (unsigned long long)cap_counter(c, ABI_CNT_SEEN),
	              (unsigned long long)cap_counter(c, ABI_CNT_FRAMES),
	              (unsigned long long)cap_counter(c, ABI_CNT_FRAMES_HEURISTIC),
	              (unsigned long long)cap_counter(c, ABI_CNT_WALK_CACHE_HIT),
	              (unsigned long long)cap_counter(c, ABI_CNT_CACHE_HIT),
	              (unsigned long long)cap_counter(c, ABI_CNT_CACHE_MISS),
	              (unsigned long long)cap_counter(c, ABI_CNT_WALKS_DIFFER));
}

/* Walks a process twice in each sample, and ends it. */
static void check_agree(const char *what, pid_t pid, uint32_t flags)
{
	struct cap *c = start(pid, ABI_WALK_TWICE | flags);

	run(c);
	assert_int_equal(cap_finish(c), 0);
	report(c, what);
	assert_true(cap_counter(c, ABI_CNT_FRAMES) > cap_counter(c, ABI_CNT_SEEN));
	assert_int_equal(cap_counter(c, ABI_CNT_WALKS_DIFFER), 0);
	/* A cache that is off has no hits; one that is on has. */
	if (flags & ABI_WALK_NO_CACHE)
		assert_int_equal(cap_counter(c, ABI_CNT_CACHE_HIT), 0);
	else
		assert_true(cap_counter(c, ABI_CNT_CACHE_HIT) > cap_counter(c, ABI_CNT_CACHE_MISS));
	if (flags & ABI_WALK_NO_CPU_CACHE)
		assert_int_equal(cap_counter(c, ABI_CNT_WALK_CACHE_HIT), 0);
	else
		assert_true(cap_counter(c, ABI_CNT_WALK_CACHE_HIT) > cap_counter(c, ABI_CNT_SEEN));
	cap_free(c);
	end(pid);
}

static void test_walks_of_code_without_frame_pointers_agree(void **state)
{
	(void)state;
	check_agree("deep", run_deep(), 0);
}

static void test_walks_of_signal_handlers_and_children_agree(void **state)
{
	(void)state;
	check_agree("signals", run_signals(), 0);
}

static void test_walks_agree_without_walk_cache_shared_cache_or_window(void **state)
{
	(void)state;
	check_agree("deep, no cpu cache", run_deep(), ABI_WALK_NO_CPU_CACHE);
	check_agree("deep, no cache", run_deep(), ABI_WALK_NO_CACHE);
	check_agree("deep, no window", run_deep(), ABI_WALK_NO_WINDOW);
}

static void test_walks_of_programs_agree(void **state)
{
	static const char *const python[] = {
	        "/usr/bin/python3", "-c",
	        "import re\n"
	        "def f(n): return f(n - 1) if n else sorted(re.findall('[0-9]+', 'a1b22' * 40))\n"
	        "while True: f(40)\n",
	        NULL};
	static const char *const openssl[] = {"openssl", "speed",       "-seconds", "60",
	                                      "-evp",    "aes-256-gcm", NULL};
	/* Builtins without call-frame information, and JIT code. */
	static const char *const node[] = {"node", "-e",
	                                   "function f(n) { return n ? f(n - 1) : [5, 3, 9, "
	                                   "1].sort((a, b) => a - b).map(String)"
	                                   ".join().replace(/[0-9]/g, d => d + d) }\n"
	                                   "for (;;) f(30)",
	                                   NULL};
	const char *const *const installed[] = {python, openssl, node};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(installed); i++) {
		pid_t pid = run_program(installed[i]);

		if (pid)
			check_agree(installed[i][0], pid, 0);
		else
			print_message("# %s is not installed\n", installed[i][0]);
	}
	for (char **p = programs; *p; p++) {
		const char *const argv[] = {*p, "--seconds", "600", NULL};
		pid_t pid = run_program(argv);

		assert_true(pid > 0);
		check_agree(strrchr(*p, '/') ? strrchr(*p, '/') + 1 : *p, pid, 0);
	}
}

/* ---- the proof ------------------------------------------------------------------------------- */

/* Puts another rule after every filled word of the cache; returns how many. */
static uint32_t spoil(int fd, const struct bpf_map_info *info)
{
	uint32_t words = info->value_size / 8, spoilt = 0;
	uint64_t *value = calloc(words, 8);

	assert_non_null(value);
	assert_true(words > 0);
	for (uint32_t i = 0; i < info->max_entries; i++) {
		uint32_t changed = 0;

		if (bpf_map_lookup_elem(fd, &i, value) < 0)
			continue;
		for (uint32_t k = 0; k < words; k++) {
			if (!value[k])
				continue;
			/* Another distance to the CFA, or no rule at all. */
			value[k] =
			        value[k] & ABI_CODE_INLINE ? value[k] ^ 1 : value[k] & ~0xffffULL;
			changed++;
		}
		if (changed)
			assert_int_equal(bpf_map_update_elem(fd, &i, value, BPF_ANY), 0);
		spoilt += changed;
	}
	free(value);
	return spoilt;
}

static void test_spoilt_cache_is_noticed(void **state)
{
	struct bpf_map_info info = {0};
	pid_t pid = run_deep();
	struct cap *c = start(pid, ABI_WALK_TWICE);
	uint64_t limit = now_ns() + LIMIT_MS * 1000000ULL;
	uint32_t spoilt;
	int fd;

	(void)state;
	run(c);
	assert_int_equal(cap_counter(c, ABI_CNT_WALKS_DIFFER), 0);
	fd = map_by_name("pc_cache", &info);
	assert_true(fd >= 0);
	spoilt = spoil(fd, &info);
	print_message("# spoilt %u words of %llu\n", spoilt,
	              (unsigned long long)info.max_entries * info.value_size / 8);
	assert_true(spoilt > 0);
	while (cap_counter(c, ABI_CNT_WALKS_DIFFER) == 0 && now_ns() < limit)
		assert_int_equal(cap_run(c, 50), 0);
	report(c, "spoilt");
	assert_true(cap_counter(c, ABI_CNT_WALKS_DIFFER) > 0);
	cap_free(c);
	end(pid);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_walks_of_code_without_frame_pointers_agree),
	        cmocka_unit_test(test_walks_of_signal_handlers_and_children_agree),
	        cmocka_unit_test(test_walks_agree_without_walk_cache_shared_cache_or_window),
	        cmocka_unit_test(test_walks_of_programs_agree),
	        cmocka_unit_test(test_spoilt_cache_is_noticed),
	};

	programs = argv + (argc > 0);
	if (!cap_effective(CAP_BPF) || !cap_effective(CAP_PERFMON)) {
		printf("1..0 # SKIP needs CAP_BPF and CAP_PERFMON\n");
		return 0;
	}
	return LIVE_RUN(tests);
}
