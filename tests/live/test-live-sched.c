// SPDX-License-Identifier: Apache-2.0
/* Scheduler statistics of children with known behaviour, against the kernel's own accounts. */
#include "sched_capture.h"

#include <sys/prctl.h>

/* ---- tests ----------------------------------------------------------------------------------- */

static void sleeper(void)
{
	const struct timespec ts = {.tv_nsec = 2 * 1000 * 1000};

	ready();
	for (;;)
		(void)nanosleep(&ts, NULL);
}

static void test_a_sleeper_sleeps(void **state)
{
	const struct abi_sched_thread *t;
	static struct cap c;
	pid_t pid = start(sleeper);
	uint64_t early = 0;

	(void)state;
	cap_pid(&c, pid, 0, false);
	cap_begin(&c);
	run_ms(500);
	cap_end(&c);
	stop(pid);
	assert_int_equal(c.threads.n, 1);
	t = &c.threads.p[0].t;
	assert_int_equal(c.threads.p[0].kernel_tid, (uint32_t)pid);
	assert_int_equal(t->tid, (uint32_t)pid);
	check_sums(&c);
	assert_true(t->sums.reason[ABI_REASON_SLEEP] > 20);
	/* Each of its sleeps has its value; the one that was there at the beginning has none. */
	assert_near("values of waits", in_hist(&c.total.hist[ABI_HIST_BLOCKED]),
	            t->sums.reason[ABI_REASON_SLEEP], 2 + c.total.missed);
	/* One that was preempted before it slept has less of it left. */
	for (uint32_t b = 0; b < abi_hist_bucket(2 * MS - MS / 4); b++)
		early += c.total.hist[ABI_HIST_BLOCKED].bucket[b];
	assert_true(early <= t->sums.reason[ABI_REASON_SLEEP] / 5);
	/* And so has the process. */
	assert_int_equal(c.procs.n, 2);
	assert_int_equal(c.procs.p[1].tgid, (uint32_t)pid);
	assert_string_equal(c.procs.p[1].comm, "test-live-sched");
	for (int h = 0; h < ABI_HIST_CNT; h++)
		for (uint32_t b = 0; b < ABI_HIST_BUCKETS; b++)
			assert_int_equal(c.procs.p[1].bucket[h][b], c.total.hist[h].bucket[b]);
	assert_int_equal(c.total.lost, 0);
	cap_close(&c);
}

static void spin(void)
{
	for (;;)
		__asm__ volatile("" ::: "memory");
}

static void *spinner(void *arg)
{
	spin();
	return arg;
}

static void two_spinners(void)
{
	pthread_t t;

	pin(first_cpu());
	assert_int_equal(pthread_create(&t, NULL, spinner, NULL), 0);
	ready();
	spin();
}

static void test_spinners_on_one_cpu_are_preempted(void **state)
{
	uint64_t elapsed, on = 0;
	static struct cap c;
	pid_t pid = start(two_spinners);

	(void)state;
	hold(pid);
	cap_pid(&c, pid, 0, false);
	let_go(pid);
	cap_begin(&c);
	run_ms(700);
	cap_end(&c);
	stop(pid);
	assert_int_equal(c.threads.n, 2);
	check_sums(&c);
	elapsed = c.total.end_ns - c.total.begin_ns;
	vec_each (v, &c.threads) {
		assert_true(in_phase(&c, &v->t, ABI_PHASE_BLOCKED) < elapsed / 50);
		assert_true(v->t.sums.reason[ABI_REASON_PREEMPTED] > 0);
		assert_int_equal(v->t.sums.reason[ABI_REASON_YIELDED], 0);
		on += in_phase(&c, &v->t, ABI_PHASE_ON);
	}
	/* They are not on it at the same time. */
	assert_true(on <= elapsed + elapsed / 100);
	cap_close(&c);
}

static void *yielder(void *arg)
{
	for (;;)
		(void)sched_yield();
	return arg;
}

static void two_yielders(void)
{
	pthread_t t;

	pin(first_cpu());
	assert_int_equal(pthread_create(&t, NULL, yielder, NULL), 0);
	ready();
	(void)yielder(NULL);
}

static void test_yielders_yield(void **state)
{
	uint64_t yielded = 0, other = 0;
	static struct cap c;
	pid_t pid = start(two_yielders);

	(void)state;
	hold(pid);
	cap_pid(&c, pid, 0, false);
	let_go(pid);
	cap_begin(&c);
	run_ms(400);
	cap_end(&c);
	stop(pid);
	check_sums(&c);
	vec_each (v, &c.threads) {
		yielded += v->t.sums.reason[ABI_REASON_YIELDED];
		other += switches(&v->t.sums) - v->t.sums.reason[ABI_REASON_YIELDED];
	}
	assert_true(yielded > 10);
	assert_true(other < yielded);
	cap_close(&c);
}

static void stopped(void)
{
	ready();
	(void)raise(SIGSTOP);
	spin();
}

static void test_a_stopped_process_is_off(void **state)
{
	uint64_t elapsed;
	static struct cap c;
	int status;
	pid_t pid = start(stopped);

	(void)state;
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	cap_pid(&c, pid, 0, false);
	cap_begin(&c);
	run_ms(200);
	(void)kill(pid, SIGCONT);
	run_ms(200);
	(void)kill(pid, SIGSTOP);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	run_ms(200);
	cap_end(&c);
	stop(pid);
	check_sums(&c);
	assert_int_equal(c.threads.n, 1);
	elapsed = c.total.end_ns - c.total.begin_ns;
	assert_true(in_phase(&c, &c.threads.p[0].t, ABI_PHASE_BLOCKED) >= 400 * MS);
	assert_true(in_phase(&c, &c.threads.p[0].t, ABI_PHASE_BLOCKED) < elapsed);
	assert_int_equal(c.threads.p[0].t.sums.reason[ABI_REASON_STOPPED], 1);
	/* The wait that began before the capture has no value. */
	assert_near("values of waits", in_hist(&c.total.hist[ABI_HIST_BLOCKED]),
	            switches(&c.threads.p[0].t.sums) -
	                    c.threads.p[0].t.sums.reason[ABI_REASON_PREEMPTED] - 1,
	            c.total.missed);
	cap_close(&c);
}

static void *nothing(void *arg)
{
	return arg;
}

/* Fewer where CPUs are emulated. */
static uint32_t short_thread_cnt(void)
{
	const char *n = getenv("TEST_SHORT_THREADS");

	return n ? (uint32_t)strtoul(n, NULL, 10) : 100000;
}

static void short_threads(void)
{
	uint32_t n = short_thread_cnt();
	char c;

	ready();
	assert_int_equal(read(0, &c, 0), 0);
	(void)raise(SIGSTOP);
	for (uint32_t i = 0; i < n; i++) {
		pthread_t t;

		if (pthread_create(&t, NULL, nothing, NULL) != 0 || pthread_join(t, NULL) != 0)
			_exit(1);
	}
	(void)raise(SIGSTOP);
}

static void test_short_threads_leave_nothing(void **state)
{
	static struct cap c;
	int status;
	pid_t pid = start(short_threads);

	(void)state;
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	cap_pid(&c, pid, 0, false);
	cap_begin(&c);
	(void)kill(pid, SIGCONT);
	do
		assert_int_equal(waitpid(pid, &status, WUNTRACED | WCONTINUED), pid);
	while (WIFCONTINUED(status));
	assert_true(WIFSTOPPED(status));
	/* A thread that was joined may still be on its way out. */
	run_ms(50);
	cap_end(&c);
	stop(pid);
	assert_int_equal(c.threads.n, 1);
	assert_int_equal(c.total.lost, 0);
	assert_int_equal(c.procs.p[1].ended, short_thread_cnt());
	assert_int_equal(c.procs.p[1].sums.reason[ABI_REASON_EXITED], short_thread_cnt());
	/* All of what they did is in the process. */
	for (int i = 0; i < ABI_HIST_CNT; i++)
		assert_int_equal(c.procs.p[1].sums.ns[i] + c.threads.p[0].t.sums.ns[i],
		                 c.total.sums.ns[i]);
	for (int i = 0; i < ABI_REASON_CNT; i++)
		assert_int_equal(c.procs.p[1].sums.reason[i] + c.threads.p[0].t.sums.reason[i],
		                 c.total.sums.reason[i]);
	check_sums(&c);
	cap_close(&c);
}

#define MANY 300

static struct {
	volatile uint64_t switches, cpu_ns; /* of a process, as it counts itself */
	/* Begin and end, 0: it goes on; how often the thread slept in between. */
	volatile uint64_t n_log, log[1024][3];
} * shared;

static pthread_barrier_t all_there;

static void *many(void *arg)
{
	/* One emulated CPU has 3,000 switches in a second: with 60,000 that are wanted of it,
	 * whatever shall end the capture waits for its turn for up to minutes. */
	bool slow = stall_ns() && sysconf(_SC_NPROCESSORS_ONLN) == 1;
	const struct timespec ts = {.tv_nsec = (slow ? 200 : 5) * 1000 * 1000};

	(void)pthread_barrier_wait(&all_there);
	for (;;)
		(void)nanosleep(&ts, NULL);
	return arg;
}

static void many_threads(void)
{
	pthread_attr_t a;
	pthread_t t;

	assert_int_equal(pthread_barrier_init(&all_there, NULL, MANY + 1), 0);
	(void)pthread_attr_init(&a);
	(void)pthread_attr_setstacksize(&a, 65536);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(pthread_create(&t, &a, many, NULL), 0);
	ready();
	(void)raise(SIGSTOP);
	(void)pthread_barrier_wait(&all_there);
	for (;;)
		(void)pause();
}

/* Sums over all threads of a process, as /proc counts them: ns on a CPU and switches. */
static void proc_counts(pid_t pid, uint64_t *ret_ns, uint64_t *ret_switches)
{
	char path[64], line[256];
	unsigned long long a, b, v;

	*ret_ns = *ret_switches = 0;
	for (pid_t tid = pid; tid < pid + MANY + 200; tid++) {
		FILE *f;

		(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", pid, tid);
		f = fopen(path, "re");
		if (!f)
			continue;
		if (fscanf(f, "%llu %llu %llu", &a, &b, &v) == 3)
			*ret_ns += a;
		fclose(f);
		(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/status", pid, tid);
		f = fopen(path, "re");
		while (f && fgets(line, sizeof(line), f))
			if (strstr(line, "ctxt_switches:"))
				*ret_switches += strtoull(strchr(line, ':') + 1, NULL, 10);
		if (f)
			fclose(f);
	}
}

static void test_a_small_table_counts_what_it_loses(void **state)
{
	const struct load_sched_options o = {
	        .per_process = true, .n_procs = 1, .thread_entries = 64};
	uint64_t ns0, n0, ns, n, seen = 0;
	struct abi_config cfg = {.target = ABI_TARGET_PID, .hash_seed = 1};
	static struct cap c;
	int status;
	pid_t pid;

	(void)state;
	pid = start(many_threads);
	cfg.target_tgid = (uint32_t)pid;
	/* At rest, so that both look at the same; the last thread tells it on its way there. */
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	run_ms(200);
	proc_counts(pid, &ns0, &n0);
	cap_open(&c, &cfg, &o);
	cap_begin(&c);
	let_go(pid);
	run_ms(500);
	hold(pid);
	run_ms(200);
	cap_end(&c);
	proc_counts(pid, &ns, &n);
	stop(pid);
	assert_true(c.threads.n >= 64 && c.threads.n <= 128);
	assert_true(c.total.lost > 100);
	vec_each (v, &c.threads)
		seen += switches(&v->t.sums);
	assert_true(seen < switches(&c.total.sums));
	printf("# %llu switches, /proc: %llu; %llu ns on a CPU, /proc: %llu; %llu of lost ones\n",
	       (unsigned long long)switches(&c.total.sums), (unsigned long long)(n - n0),
	       (unsigned long long)c.total.sums.ns[ABI_HIST_SLICE], (unsigned long long)(ns - ns0),
	       (unsigned long long)c.total.lost);
	assert_int_equal(switches(&c.total.sums), n - n0);
	/* The kernel's slices begin with the wake-up that makes the CPU switch, a microsecond
	 * before. */
	assert_near("time on a CPU", c.total.sums.ns[ABI_HIST_SLICE], ns - ns0,
	            (ns - ns0) / 20 + 4000 * (n - n0));
	assert_near("values of slices", in_hist(&c.total.hist[ABI_HIST_SLICE]), n - n0,
	            c.total.missed);
	cap_close(&c);
}

#define PAGES 2000

static void toucher(void)
{
	char *p = mmap(NULL, PAGES * 4096UL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
	               -1, 0);
	struct rusage ru0, ru;

	if (p == MAP_FAILED)
		_exit(1);
	(void)madvise(p, PAGES * 4096UL, MADV_NOHUGEPAGE);
	ready();
	(void)raise(SIGSTOP);
	(void)getrusage(RUSAGE_SELF, &ru0);
	for (size_t i = 0; i < PAGES; i++) {
		p[i * 4096] = 1;
		if (i % 100 == 0)
			(void)poll(NULL, 0, 1);
	}
	(void)getrusage(RUSAGE_SELF, &ru);
	shared->switches = (uint64_t)(ru.ru_nvcsw + ru.ru_nivcsw - ru0.ru_nvcsw - ru0.ru_nivcsw);
	shared->cpu_ns = (uint64_t)(ru.ru_minflt + ru.ru_majflt - ru0.ru_minflt - ru0.ru_majflt);
	(void)raise(SIGSTOP);
}

static void test_counters_count_the_target_alone(void **state)
{
	static const uint64_t what[] = {PERF_COUNT_SW_PAGE_FAULTS, PERF_COUNT_SW_CONTEXT_SWITCHES,
	                                PERF_COUNT_SW_CPU_CLOCK};
	const struct abi_counted *v;
	static struct cap c;
	int status;
	pid_t pid = start(toucher), noise;

	(void)state;
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	cap_pid(&c, pid, ARRAY_SIZE(what), true);
	for (uint32_t i = 0; i < ARRAY_SIZE(what); i++) {
		for (long cpu = 0; cpu < sysconf(_SC_NPROCESSORS_ONLN); cpu++) {
			struct perf_event_attr a = {
			        .type = PERF_TYPE_SOFTWARE, .size = sizeof(a), .config = what[i]};
			int fd = (int)syscall(SYS_perf_event_open, &a, -1, (int)cpu, -1, 0);

			assert_true(fd >= 0);
			assert_int_equal(load_sched_counter(c.s, i, (uint32_t)cpu, fd), 0);
			close(fd);
		}
	}
	assert_int_equal(load_sched_counter(c.s, ARRAY_SIZE(what), 0, 0), -ERANGE);
	noise = start(two_spinners);
	cap_begin(&c);
	(void)kill(pid, SIGCONT);
	do
		assert_int_equal(waitpid(pid, &status, WUNTRACED | WCONTINUED), pid);
	while (WIFCONTINUED(status));
	run_ms(20);
	cap_end(&c);
	stop(pid);
	stop(noise);
	check_sums(&c);
	v = c.procs.p[1].counted[0];
	printf("# faults: %llu, getrusage %llu, of the task %llu; switches: %llu, getrusage %llu; "
	       "clock %llu ns, slices %llu ns\n",
	       (unsigned long long)v[0].value, (unsigned long long)shared->cpu_ns,
	       (unsigned long long)c.threads.p[0].t.sums.faults, (unsigned long long)v[1].value,
	       (unsigned long long)shared->switches, (unsigned long long)v[2].value,
	       (unsigned long long)c.total.sums.ns[ABI_HIST_SLICE]);
	assert_true(shared->cpu_ns >= PAGES);
	assert_near("page faults", v[0].value, shared->cpu_ns, PAGES / 100);
	assert_near("page faults of the task", c.threads.p[0].t.sums.faults, shared->cpu_ns,
	            PAGES / 100);
	assert_near("switches", switches(&c.threads.p[0].t.sums), shared->switches, 5);
	assert_near("switches counted", v[1].value, switches(&c.threads.p[0].t.sums), 5);
	assert_near("clock", v[2].value, c.total.sums.ns[ABI_HIST_SLICE],
	            c.total.sums.ns[ABI_HIST_SLICE] / 10 + stall_ns());
	for (uint32_t i = 0; i < ARRAY_SIZE(what); i++) {
		assert_int_equal(v[i].value, c.total.counted[0][i].value);
		assert_int_equal(v[i].enabled_ns, v[i].running_ns);
		assert_near("time of a counter", v[i].enabled_ns, c.total.sums.ns[ABI_HIST_SLICE],
		            c.total.sums.ns[ABI_HIST_SLICE] / 10 + stall_ns());
	}
	cap_close(&c);
}

static void lone_spinner(void)
{
	pin(first_cpu());
	ready();
	spin();
}

static void test_what_never_switches_is_counted(void **state)
{
	static struct cap c;
	pid_t pid = start(lone_spinner);
	uint64_t on = 0, begun_ns, ends_ns, apart_ns;

	(void)state;
	hold(pid);
	cap_pid(&c, pid, 1, false);
	for (long cpu = 0; cpu < sysconf(_SC_NPROCESSORS_ONLN); cpu++) {
		struct perf_event_attr a = {.type = PERF_TYPE_SOFTWARE,
		                            .size = sizeof(a),
		                            .config = PERF_COUNT_SW_CPU_CLOCK};
		int fd = (int)syscall(SYS_perf_event_open, &a, -1, (int)cpu, -1, 0);

		assert_true(fd >= 0);
		assert_int_equal(load_sched_counter(c.s, 0, (uint32_t)cpu, fd), 0);
		close(fd);
	}
	let_go(pid);
	cap_begin(&c);
	begun_ns = now_ns();
	run_ms(300);
	ends_ns = now_ns();
	cap_end(&c);
	stop(pid);
	check_sums(&c);
	on = in_phase(&c, &c.threads.p[0].t, ABI_PHASE_ON);
	assert_true(on > 0);
	/* The clocks of the CPUs are read after the beginning, and ahead of the end. */
	apart_ns = begun_ns - c.total.begin_ns + c.total.end_ns - ends_ns;
	printf("# clock %llu ns of %llu ns; begun and ended within %llu ns\n",
	       (unsigned long long)c.total.counted[0][0].value, (unsigned long long)on,
	       (unsigned long long)apart_ns);
	assert_near("clock", c.total.counted[0][0].value, on, on / 50 + MS + apart_ns + stall_ns());
	assert_int_equal(c.procs.p[1].counted[0][0].value, c.total.counted[0][0].value);
	assert_int_equal(c.total.counted[0][0].enabled_ns, 0);
	cap_close(&c);
}

/* How often a process's first thread went to sleep. */
static uint64_t sleeps_of(pid_t pid)
{
	char path[64], line[256];
	unsigned long long n = 0;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "voluntary_ctxt_switches: %llu", &n) == 1)
			break;
	(void)fclose(f);
	return n;
}

/* So long, and until a process went to sleep so often: a machine that has no time for it would show
 * nothing of it. */
static void run_until_slept(int ms, pid_t pid, uint64_t times)
{
	uint64_t end = now_ns() + 60 * NSEC_PER_SEC, before = sleeps_of(pid);

	run_ms(ms);
	while (sleeps_of(pid) - before < times && now_ns() < end)
		run_ms(10);
}

static void test_whole_machine(void **state)
{
	const struct abi_config cfg = {.target = ABI_TARGET_ALL,
	                               .agent_tgid = (uint32_t)getpid(),
	                               .agent_whole = 1,
	                               .hash_seed = 1};
	const struct load_sched_options o = {
	        .per_process = true, .n_procs = ABI_SCHED_PROCS, .thread_entries = 65536};
	uint64_t bucket[ABI_HIST_CNT] = {0}, n;
	static struct cap c;
	pid_t pid = start(sleeper);
	bool found = false;

	(void)state;
	cap_open(&c, &cfg, &o);
	cap_begin(&c);
	run_until_slept(400, pid, 10);
	cap_end(&c);
	stop(pid);
	assert_int_equal(c.total.lost, 0);
	vec_each (v, &c.threads) {
		assert_true(v->kernel_tid != 0);
		assert_true(v->t.slot <= ABI_SCHED_PROCS);
		assert_true(c.total.end_ns >= v->t.since_ns);
		/* Threads that began meanwhile have less. */
		assert_true(all_of(&c, &v->t) <= (c.total.end_ns - c.total.begin_ns) * 101 / 100);
	}
	vec_each (p, &c.procs) {
		found = found || p->tgid == (uint32_t)pid;
		assert_true(p->tgid != (uint32_t)getpid());
		for (int h = 0; h < ABI_HIST_CNT; h++)
			for (uint32_t b = 0; b < ABI_HIST_BUCKETS; b++)
				bucket[h] += p->bucket[h][b];
	}
	assert_true(found);
	for (int h = 0; h < ABI_HIST_CNT; h++) {
		n = in_hist(&c.total.hist[h]);
		assert_int_equal(bucket[h], n);
		assert_true(n > 0);
	}
	for (int h = 0; h < ABI_HIST_CNT; h++)
		for (uint32_t b = abi_hist_bucket(c.total.end_ns - c.total.begin_ns) + 1;
		     b < ABI_HIST_BUCKETS; b++)
			assert_int_equal(c.total.hist[h].bucket[b], 0);
	assert_int_equal(load_sched_fold(c.s), 0);
	cap_close(&c);
}

static void test_several_processes(void **state)
{
	const struct abi_config cfg = {.target = ABI_TARGET_TREE, .hash_seed = 1};
	const struct load_sched_options o = {
	        .per_process = true, .n_procs = 1, .thread_entries = 1024};
	static struct cap c;
	struct err err = {0};
	pid_t pid[] = {start(sleeper), start(sleeper), start(sleeper)};
	uint32_t tgids[] = {(uint32_t)pid[0], (uint32_t)pid[1]};
	const struct load_procs procs = {.tgids = tgids, .n = ARRAY_SIZE(tgids)};
	uint64_t other = 0;

	(void)state;
	cap_open(&c, &cfg, &o);
	if (load_follow(c.base, &procs, &err) < 0)
		fail_msg("%s", err.msg);
	cap_begin(&c);
	for (size_t i = 0; i < ARRAY_SIZE(pid); i++)
		run_until_slept(100, pid[i], 10);
	cap_end(&c);
	for (size_t i = 0; i < ARRAY_SIZE(pid); i++)
		stop(pid[i]);
	assert_int_equal(c.threads.n, 2);
	check_sums(&c);
	/* One of them found a slot, the other one is the rest. */
	assert_int_equal(c.total.lost_procs, 1);
	assert_int_equal(c.procs.n, 2);
	assert_int_equal(c.threads.p[0].t.slot + c.threads.p[1].t.slot, 1);
	for (uint32_t b = 0; b < ABI_HIST_BUCKETS; b++)
		other += c.procs.p[0].bucket[ABI_HIST_BLOCKED][b];
	assert_true(other > 0);
	cap_close(&c);
}

static void idle(void)
{
	ready();
	(void)raise(SIGSTOP);
}

#define IDLE 3

static void capture_idle_ones(struct cap *c, const uint32_t *tgids, uint32_t n_procs)
{
	const struct abi_config cfg = {.target = ABI_TARGET_TREE, .hash_seed = 1};
	const struct load_sched_options o = {
	        .per_process = true, .n_procs = n_procs, .thread_entries = 1024};
	const struct load_procs procs = {.tgids = tgids, .n = IDLE + 1};
	struct err err = {0};

	cap_open(c, &cfg, &o);
	if (load_follow(c->base, &procs, &err) < 0)
		fail_msg("%s", err.msg);
	cap_begin(c);
	run_until_slept(200, (pid_t)tgids[IDLE], 50);
	cap_end(c);
	assert_int_equal(c->threads.n, IDLE + 1);
	check_sums(c);
}

static void test_slots_are_for_those_that_run(void **state)
{
	static struct cap c;
	uint32_t tgids[IDLE + 1], found = 0;

	(void)state;
	for (int i = 0; i <= IDLE; i++) {
		int status;

		tgids[i] = (uint32_t)start(i < IDLE ? idle : sleeper);
		if (i < IDLE)
			assert_int_equal(waitpid((pid_t)tgids[i], &status, WUNTRACED), tgids[i]);
	}
	/* Idle processes were there first, and have the lower numbers. */
	capture_idle_ones(&c, tgids, 1);
	assert_int_equal(c.procs.n, 2);
	assert_int_equal(c.procs.p[1].tgid, tgids[IDLE]);
	assert_int_equal(c.total.lost_procs, IDLE);
	assert_int_equal(in_hist(&c.total.hist[ABI_HIST_BLOCKED]) > 20, true);
	for (uint32_t b = 0; b < ABI_HIST_BUCKETS; b++)
		assert_int_equal(c.procs.p[1].bucket[ABI_HIST_BLOCKED][b],
		                 c.total.hist[ABI_HIST_BLOCKED].bucket[b]);
	vec_each (v, &c.threads)
		assert_int_equal(v->t.slot, v->kernel_tid == tgids[IDLE]);
	cap_close(&c);
	/* With room they have one, too. */
	capture_idle_ones(&c, tgids, IDLE + 1);
	assert_int_equal(c.procs.n, 1 + IDLE + 1);
	assert_int_equal(c.total.lost_procs, 0);
	vec_each (v, &c.threads) {
		assert_true(v->t.slot >= 1 && v->t.slot <= IDLE + 1);
		assert_int_equal(c.procs.p[v->t.slot].tgid, v->kernel_tid);
		found |= 1U << v->t.slot;
	}
	assert_int_equal(found, (1U << (IDLE + 2)) - 2);
	cap_close(&c);
	for (int i = 0; i <= IDLE; i++)
		stop((pid_t)tgids[i]);
}

/* The log has when it was "one". The programs look at the name at switches only: in a hundred
 * sleeps that makes milliseconds where a CPU is emulated, so there all takes longer. */
static void two_names(void)
{
	uint64_t unit_us = stall_ns() ? 5000 : 1000;
	const struct timespec ts = {.tv_nsec = (long)(unit_us * 1000)};

	ready();
	for (uint64_t n = 0; n < ARRAY_SIZE(shared->log); n++) {
		uint64_t waits;

		(void)prctl(PR_SET_NAME, "one");
		shared->log[n][0] = now_ns();
		shared->n_log = n + 1;
		waits = own_waits();
		run_us(unit_us / 2);
		(void)nanosleep(&ts, NULL);
		shared->log[n][1] = now_ns();
		(void)prctl(PR_SET_NAME, "two");
		shared->log[n][2] = own_waits() - waits;
		run_us(unit_us);
		(void)nanosleep(&ts, NULL);
		run_us(unit_us / 2);
		(void)nanosleep(&ts, NULL);
	}
}

static void test_a_thread_counts_while_it_has_the_name(void **state)
{
	const struct abi_sched_thread *t;
	static struct cap c;
	uint64_t n = 0, ns = 0, waits = 0;
	pid_t pid;

	(void)state;
	memset(shared, 0, sizeof(*shared));
	pid = start(two_names);
	hold(pid);
	cap_named(&c, pid, "one");
	let_go(pid);
	cap_begin(&c);
	run_ms(1000);
	cap_end(&c);
	stop(pid);
	assert_true(shared->n_log < ARRAY_SIZE(shared->log));
	for (uint64_t i = 0; i < shared->n_log; i++) {
		uint64_t begin = MAX_OF(shared->log[i][0], c.total.begin_ns),
		         end = shared->log[i][1] ? shared->log[i][1] : c.total.end_ns;

		end = MIN_OF(end, c.total.end_ns);
		if (begin >= end)
			continue;
		n++;
		ns += end - begin;
		waits += shared->log[i][2];
	}
	assert_int_equal(c.threads.n, 1);
	t = &c.threads.p[0].t;
	printf("# %llu times, %llu waits, %llu ns; counted %llu sleeps, %llu ns; missed %llu\n",
	       (unsigned long long)n, (unsigned long long)waits, (unsigned long long)ns,
	       (unsigned long long)t->sums.reason[ABI_REASON_SLEEP],
	       (unsigned long long)all_of(&c, t), (unsigned long long)c.total.missed);
	assert_true(waits > 10);
	assert_string_equal(t->comm, "one");
	/* One more or less at each end. */
	assert_near("sleeps", t->sums.reason[ABI_REASON_SLEEP], waits, 3);
	assert_near("values of sleeps", in_hist(&c.total.hist[ABI_HIST_BLOCKED]),
	            t->sums.reason[ABI_REASON_SLEEP], 2);
	assert_near("time", all_of(&c, t), ns, ns / 50 + 4 * MS + stall_ns());
	/* It goes and comes back: that is no event that was not seen. */
	assert_true(c.total.missed < 5);
	for (int i = 0; i < ABI_HIST_CNT; i++)
		assert_int_equal(t->sums.ns[i], c.total.sums.ns[i]);
	cap_close(&c);
}

static void *executes(void *arg)
{
	(void)execl("/bin/sleep", "sleep", "100", NULL);
	return arg;
}

static void exec_in_thread(void)
{
	pthread_t t;

	ready();
	(void)raise(SIGSTOP);
	(void)pthread_create(&t, NULL, executes, NULL);
	for (;;)
		(void)pause();
}

static void test_a_thread_that_executes_takes_its_time_along(void **state)
{
	static struct cap c;
	int status;
	pid_t pid = start(exec_in_thread);

	(void)state;
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	cap_pid(&c, pid, 0, false);
	cap_begin(&c);
	(void)kill(pid, SIGCONT);
	run_ms(300);
	cap_end(&c);
	stop(pid);
	assert_int_equal(c.threads.n, 1);
	assert_int_equal(c.threads.p[0].kernel_tid, (uint32_t)pid);
	assert_string_equal(c.threads.p[0].t.comm, "sleep");
	assert_string_equal(c.procs.p[1].comm, "sleep");
	assert_int_equal(c.procs.p[1].ended, 1);
	/* It was begun within the capture. */
	assert_true(all_of(&c, &c.threads.p[0].t) <= c.total.end_ns - c.total.begin_ns);
	assert_true(all_of(&c, &c.threads.p[0].t) >= 100 * MS);
	cap_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_a_sleeper_sleeps),
	        cmocka_unit_test(test_spinners_on_one_cpu_are_preempted),
	        cmocka_unit_test(test_yielders_yield),
	        cmocka_unit_test(test_a_stopped_process_is_off),
	        cmocka_unit_test(test_short_threads_leave_nothing),
	        cmocka_unit_test(test_a_small_table_counts_what_it_loses),
	        cmocka_unit_test(test_counters_count_the_target_alone),
	        cmocka_unit_test(test_what_never_switches_is_counted),
	        cmocka_unit_test(test_whole_machine),
	        cmocka_unit_test(test_several_processes),
	        cmocka_unit_test(test_slots_are_for_those_that_run),
	        cmocka_unit_test(test_a_thread_counts_while_it_has_the_name),
	        cmocka_unit_test(test_a_thread_that_executes_takes_its_time_along),
	};
	struct load_oncpu *l = NULL;
	struct err err = {0};
	int r = load_oncpu_open(&(struct abi_config){.target = ABI_TARGET_ALL}, &sizes, &l, &err);

	load_oncpu_free(l);
	if (r == -EPERM || r == -EACCES) {
		printf("1..0 # SKIP %s\n", err.msg);
		return 0;
	}
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
	              0);
	if (shared == MAP_FAILED)
		return 1;
	return LIVE_RUN(tests);
}
