/* SPDX-License-Identifier: Apache-2.0 */
/* Captures of scheduler statistics and the processes that they are of, for test-live-sched and
 * test-live-missed. */
#ifndef PA_TEST_SCHED_CAPTURE_H
#define PA_TEST_SCHED_CAPTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <linux/perf_event.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "live_main.h"
#include "loader/loader.h"

#define MS 1000000ULL

static const struct load_sizes sizes = {
        .ring_bytes = 65536,
        .count_entries = 64,
        .thread_entries = 64,
        .range_entries = 64,
        .proc_entries = 64,
        .shipped_entries = 64,
        .followed_entries = 64,
        .comm_entries = 4,
};

/* ---- a capture ------------------------------------------------------------------------------- */

struct sched_thread {
	uint32_t kernel_tid;
	struct abi_sched_thread t;
};

struct cap {
	struct load_oncpu *base;
	struct load_sched *s;
	struct load_sched_total total;
	VEC(struct load_sched_proc) procs;
	VEC(struct sched_thread) threads;
};

static void on_proc(void *arg, const struct load_sched_proc *p)
{
	struct cap *c = arg;

	assert_int_equal(vec_push(&c->procs, *p), 0);
}

static void on_thread(void *arg, uint32_t kernel_tid, const struct abi_sched_thread *t)
{
	struct cap *c = arg;
	struct sched_thread v = {.kernel_tid = kernel_tid, .t = *t};

	assert_int_equal(vec_push(&c->threads, v), 0);
}

static void cap_open(struct cap *c, const struct abi_config *cfg,
                     const struct load_sched_options *o)
{
	struct err err = {0};

	*c = (struct cap){.procs = {.max = 1024}, .threads = {.max = 1 << 20}};
	if (load_oncpu_open(cfg, &sizes, &c->base, &err) < 0 ||
	    load_sched_open(c->base, o, &c->s, &err) < 0)
		fail_msg("%s", err.msg);
}

static void cap_begin(struct cap *c)
{
	struct err err = {0};

	if (load_sched_attach(c->s, &err) < 0)
		fail_msg("%s", err.msg);
	/* Waits have a beginning of their own, and its programs may be attached already. */
	assert_int_equal(load_control(c->base)->begin_ns, 0);
}

static void cap_end(struct cap *c)
{
	const struct load_sched_sink sink = {.proc = on_proc, .thread = on_thread, .arg = c};

	load_sched_detach(c->s);
	assert_int_equal(load_sched_read(c->s, &sink, &c->total), 0);
}

static void cap_close(struct cap *c)
{
	load_sched_free(c->s);
	load_oncpu_free(c->base);
	vec_done(&c->procs);
	vec_done(&c->threads);
}

static void cap_pid(struct cap *c, pid_t pid, uint32_t n_counters, bool times)
{
	const struct abi_config cfg = {
	        .target = ABI_TARGET_PID, .target_tgid = (uint32_t)pid, .hash_seed = 1};
	const struct load_sched_options o = {.per_process = true,
	                                     .n_procs = 1,
	                                     .n_counters = n_counters,
	                                     .counter_times = times,
	                                     .thread_entries = 1024};

	cap_open(c, &cfg, &o);
}

/* As cap_pid, of threads while they have the name. */
static inline void cap_named(struct cap *c, pid_t pid, const char *name)
{
	const struct abi_config cfg = {.target = ABI_TARGET_PID,
	                               .target_tgid = (uint32_t)pid,
	                               .filters = ABI_FILTER_COMM,
	                               .hash_seed = 1};
	const struct load_sched_options o = {
	        .per_process = true, .n_procs = 1, .thread_entries = 1024};
	struct err err = {0};

	cap_open(c, &cfg, &o);
	if (load_filter_comms(c->base, &name, 1, &err) < 0)
		fail_msg("%s", err.msg);
}

/* Is its last interval still open? Of one that left its CPU missed it is not known how long it ran. */
static bool is_open(const struct abi_sched_thread *t)
{
	return t->phase != ABI_PHASE_NONE && t->phase != ABI_PHASE_LOST;
}

/* Time of a thread in all phases, with the interval that is still open. */
static uint64_t all_of(const struct cap *c, const struct abi_sched_thread *t)
{
	uint64_t sum = 0;

	for (int i = 0; i < ABI_HIST_CNT; i++)
		sum += t->sums.ns[i];
	if (is_open(t))
		sum += c->total.end_ns - t->since_ns;
	return sum;
}

/* In one phase, likewise. */
static uint64_t in_phase(const struct cap *c, const struct abi_sched_thread *t, uint32_t phase)
{
	return t->sums.ns[phase - ABI_PHASE_ON] +
	       (t->phase == phase ? c->total.end_ns - t->since_ns : 0);
}

static uint64_t switches(const struct abi_sched_sums *s)
{
	uint64_t sum = 0;

	for (int i = 0; i < ABI_REASON_CNT; i++)
		sum += s->reason[i];
	return sum;
}

static void assert_near(const char *what, uint64_t got, uint64_t want, uint64_t slack)
{
	uint64_t diff = got > want ? got - want : want - got;

	if (diff > slack)
		fail_msg("%s: %llu, wanted %llu +- %llu", what, (unsigned long long)got,
		         (unsigned long long)want, (unsigned long long)slack);
}

/* Each thread is in some phase all the time, and no interval is longer than the capture. */
static void check_sums(struct cap *c)
{
	uint64_t elapsed = c->total.end_ns - c->total.begin_ns;

	vec_each (v, &c->threads) {
		printf("# thread %u: %llu %llu %llu ns, in phase %u for %llu ns\n", v->kernel_tid,
		       (unsigned long long)v->t.sums.ns[0], (unsigned long long)v->t.sums.ns[1],
		       (unsigned long long)v->t.sums.ns[2], v->t.phase,
		       (unsigned long long)(c->total.end_ns - v->t.since_ns));
	}
	printf("# %llu switches were missed\n", (unsigned long long)c->total.missed);
	vec_each (v, &c->threads) {
		if (v->t.phase == ABI_PHASE_LOST)
			continue;
		assert_near("time of a thread that was there all the time", all_of(c, &v->t),
		            elapsed, elapsed / 100);
	}
	for (int h = 0; h < ABI_HIST_CNT; h++)
		for (uint32_t b = abi_hist_bucket(elapsed) + 1; b < ABI_HIST_BUCKETS; b++)
			if (c->total.hist[h].bucket[b])
				fail_msg("histogram %d has a value in bucket %u", h, b);
}

static uint64_t in_hist(const struct abi_cpu_hist *h)
{
	uint64_t n = 0;

	for (uint32_t b = 0; b < ABI_HIST_BUCKETS; b++)
		n += h->bucket[b];
	return n;
}

/* ---- children -------------------------------------------------------------------------------- */

/* How long a CPU may stop between two looks at clocks: said where it is emulated. */
static inline uint64_t stall_ns(void)
{
	const char *ms = getenv("TEST_STALL_MS");

	return ms ? strtoull(ms, NULL, 10) * MS : 0;
}

static inline void run_us(uint64_t us)
{
	uint64_t end = now_ns() + us * 1000;

	while (now_ns() < end)
		;
}

/* As the kernel counts: a sleep on an emulated CPU may be over before it has begun. */
static inline uint64_t own_waits(void)
{
	struct rusage ru;

	(void)getrusage(RUSAGE_THREAD, &ru);
	return (uint64_t)ru.ru_nvcsw;
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	(void)sched_setaffinity(0, sizeof(set), &set);
}

static inline int first_cpu(void)
{
	cpu_set_t set;

	assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &set))
			return i;
	return 0;
}

/* Starts fn in a process of its own, and waits until it has said that it is ready. */
static int said[2];

static void ready(void)
{
	assert_int_equal(write(said[1], "", 1), 1);
}

static pid_t start(void (*fn)(void))
{
	char c;
	pid_t pid;

	assert_int_equal(pipe(said), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* else the test ends it */
		fn();
		_exit(0);
	}
	assert_int_equal(read(said[0], &c, 1), 1);
	close(said[0]);
	close(said[1]);
	return pid;
}

static void stop(pid_t pid)
{
	(void)kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* A process that runs stops while programs are loaded: that takes an emulated CPU seconds,
 * and alongside two that spin on it three times as many. */
static void hold(pid_t pid)
{
	int status;

	assert_int_equal(kill(pid, SIGSTOP), 0);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
}

static void let_go(pid_t pid)
{
	int status;

	assert_int_equal(kill(pid, SIGCONT), 0);
	assert_int_equal(waitpid(pid, &status, WCONTINUED), pid);
	assert_true(WIFCONTINUED(status));
}

static void run_ms(int ms)
{
	(void)poll(NULL, 0, ms);
}

#endif
