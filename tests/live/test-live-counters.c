/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of the running kernel, against what a child says of itself. */
#include "perfevent/perfevent.h"
#include "proc/proc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <dirent.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#define PAGES    2000
#define SWITCHES 500
#define SPIN_NS  (20 * NSEC_PER_MSEC)

enum { FAULTS = 0, MIGRATIONS, CONTEXT_SWITCHES, CLOCK }; /* of pev_counters_software */

static struct proc_cpus *machine;
static struct pev_core_type types[PROC_CORE_TYPES_MAX];
static struct pev_counter_cpus on;

/* Measured by the child itself, between two readings of its clocks. */
struct report {
	uint64_t faults, switches;
};

static unsigned int open_fds(void)
{
	unsigned int n = 0;
	DIR *d = opendir("/proc/self/fd");

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static struct pev_counters open_counters(const struct pev_counter_spec *specs, uint32_t n)
{
	struct pev_counters set;
	struct err err = {0};

	if (pev_counters_open(specs, n, &on, &set, &err) < 0)
		fail_msg("%s", err.msg);
	return set;
}

/* Sums a counter over all CPUs where it is open. */
static struct pev_count sum_of(const struct pev_counters *s, uint32_t counter)
{
	struct pev_count sum = {0};

	for (uint32_t i = 0; i < on.n; i++) {
		struct pev_count c;
		int r = pev_counters_read(s, counter, on.cpu[i], &c);

		assert_int_equal(r, MIN_OF(pev_counters_fd(s, counter, on.cpu[i]), 0));
		if (r < 0)
			continue;
		assert_true(c.running_ns <= c.enabled_ns);
		sum.value += c.value;
		sum.enabled_ns += c.enabled_ns;
		sum.running_ns += c.running_ns;
	}
	return sum;
}

static void spin(void)
{
	uint64_t begin = now_ns();

	while (now_ns() - begin < SPIN_NS)
		;
}

/* ---- the child ------------------------------------------------------------------------------- */

/* Moves to @cpu, touches fresh pages and passes a byte to its parent and back. */
static int child(uint32_t cpu, int in, int out, struct report *ret)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct rusage a, b;
	cpu_set_t *set = CPU_ALLOC(cpu + 1);
	uint8_t *p;
	char c = 0;

	if (!set)
		return 2;
	CPU_ZERO_S(CPU_ALLOC_SIZE(cpu + 1), set);
	CPU_SET_S(cpu, CPU_ALLOC_SIZE(cpu + 1), set);
	if (sched_setaffinity(0, CPU_ALLOC_SIZE(cpu + 1), set) < 0)
		return 3;
	p = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return 4;
	(void)madvise(p, PAGES * page, MADV_NOHUGEPAGE); /* without huge pages there is nothing to
	                                                    refuse */
	if (getrusage(RUSAGE_SELF, &a) < 0)
		return 5;
	for (size_t i = 0; i < PAGES; i++)
		((volatile uint8_t *)p)[i * page] = 1;
	for (unsigned int i = 0; i < SWITCHES; i++)
		if (write(out, &c, 1) != 1 || read(in, &c, 1) != 1)
			return 6;
	if (getrusage(RUSAGE_SELF, &b) < 0)
		return 7;
	ret->faults = (uint64_t)(b.ru_minflt - a.ru_minflt + b.ru_majflt - a.ru_majflt);
	ret->switches = (uint64_t)(b.ru_nvcsw - a.ru_nvcsw + b.ru_nivcsw - a.ru_nivcsw);
	CPU_FREE(set);
	return 0;
}

static struct report run_child(uint32_t cpu)
{
	struct report *shared, r;
	int to[2], from[2], status;
	pid_t pid;
	char c;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
	              0);
	assert_ptr_not_equal(shared, MAP_FAILED);
	assert_int_equal(pipe2(to, 0), 0);
	assert_int_equal(pipe2(from, 0), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(child(cpu, to[0], from[1], shared));
	close(to[0]);
	close(from[1]);
	while (read(from[0], &c, 1) == 1)
		if (write(to[1], &c, 1) != 1)
			break;
	close(to[1]);
	close(from[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	r = *shared;
	assert_int_equal(munmap(shared, sizeof(*shared)), 0);
	return r;
}

/* ---- software -------------------------------------------------------------------------------- */

/* A CPU's counters see all that happens there: at least what the child, which stays on it, counts
 * of itself. What else runs there is not ours to know. */
static void test_software_counters_see_a_busy_child(void **state)
{
	unsigned int before = open_fds();
	struct pev_counters set = open_counters(pev_counters_software, PEV_SOFTWARE_CNT);
	uint32_t cpu = (uint32_t)sched_getcpu(); /* we may use it */
	struct pev_count faults, switches, idle;
	struct report r;

	(void)state;
	for (uint32_t c = 0; c < PEV_SOFTWARE_CNT; c++) {
		for (uint32_t t = 0; t < on.n_types; t++)
			if (pev_counters_state(&set, c, t)->error)
				fail_msg("%s", pev_counters_state(&set, c, t)->why);
		assert_true(pev_counters_fd(&set, c, cpu) >= 0);
	}
	assert_int_equal(set.opened, PEV_SOFTWARE_CNT * (on.n - set.offline_cpus));
	/* Opened disabled. */
	(void)run_child(cpu);
	for (uint32_t c = 0; c < PEV_SOFTWARE_CNT; c++) {
		idle = sum_of(&set, c);
		assert_int_equal(idle.value, 0);
		assert_int_equal(idle.enabled_ns, 0);
	}

	assert_int_equal(pev_counters_enable(&set, NULL), 0);
	r = run_child(cpu);
	assert_int_equal(pev_counters_disable(&set), 0);
	assert_int_equal(pev_counters_read(&set, FAULTS, cpu, &faults), 0);
	assert_int_equal(pev_counters_read(&set, CONTEXT_SWITCHES, cpu, &switches), 0);
	print_message("# faults: child %llu, its CPU %llu; switches: %llu, %llu\n",
	              (unsigned long long)r.faults, (unsigned long long)faults.value,
	              (unsigned long long)r.switches, (unsigned long long)switches.value);
	assert_true(r.faults >= PAGES && r.switches >= SWITCHES / 2);
	assert_true(faults.value >= r.faults);
	assert_true(switches.value >= r.switches);
	for (uint32_t c = 0; c < PEV_SOFTWARE_CNT; c++) {
		struct pev_count sum = sum_of(&set, c), again;

		/* They are never multiplexed, and stop when disabled. */
		assert_true(sum.enabled_ns > 0);
		assert_true(sum.running_ns == sum.enabled_ns);
		assert_true(c == MIGRATIONS || sum.value > 0);
		again = sum_of(&set, c);
		assert_memory_equal(&again, &sum, sizeof(sum));
	}
	assert_int_equal(pev_counters_close(&set), 0);
	assert_int_equal(open_fds(), before);
}

/* Values of an enabled set only grow. */
static void test_counters_grow(void **state)
{
	struct pev_counters set = open_counters(pev_counters_software, PEV_SOFTWARE_CNT);
	struct pev_count last[PEV_SOFTWARE_CNT] = {0};

	(void)state;
	assert_int_equal(pev_counters_enable(&set, NULL), 0);
	for (unsigned int i = 0; i < 3; i++) {
		(void)run_child((uint32_t)sched_getcpu());
		for (uint32_t c = 0; c < PEV_SOFTWARE_CNT; c++) {
			struct pev_count now = sum_of(&set, c);

			assert_true(now.value + (c == MIGRATIONS) > last[c].value);
			assert_true(now.enabled_ns > last[c].enabled_ns);
			last[c] = now;
		}
	}
	assert_int_equal(pev_counters_close(&set), 0);
}

/* ---- hardware -------------------------------------------------------------------------------- */

/* There, they count; not there, each says so, and the software ones opened with them count. */
static void test_hardware_counters_count_or_say_why(void **state)
{
	struct pev_counter_spec specs[PEV_HARDWARE_CNT + 1];
	unsigned int before = open_fds();
	struct pev_counters set;

	(void)state;
	memcpy(specs, pev_counters_hardware, sizeof(pev_counters_hardware));
	specs[PEV_HARDWARE_CNT] = pev_counters_software[CLOCK];
	set = open_counters(specs, ARRAY_SIZE(specs));
	assert_int_equal(pev_counters_enable(&set, NULL), 0);
	spin();
	assert_int_equal(pev_counters_disable(&set), 0);
	assert_true(sum_of(&set, PEV_HARDWARE_CNT).value > 0);
	for (uint32_t c = 0; c < PEV_HARDWARE_CNT; c++) {
		struct pev_count sum = sum_of(&set, c);
		bool missing = true;

		for (uint32_t t = 0; t < on.n_types; t++) {
			const struct pev_counter_state *st = pev_counters_state(&set, c, t);

			assert_true((st->opened > 0) == (st->error == 0));
			assert_true(st->error == 0 || strstr(st->why, err_name(st->error)));
			missing &= st->error != 0;
			if (st->error)
				print_message("# %s\n", st->why);
		}
		if (!missing)
			print_message("# %s: %llu, %llu of %llu ns\n", specs[c].name,
			              (unsigned long long)sum.value,
			              (unsigned long long)sum.running_ns,
			              (unsigned long long)sum.enabled_ns);
		if (missing)
			assert_int_equal(sum.enabled_ns, 0);
		else if (c < 2 && sum.running_ns > 0) /* cycles, instructions */
			assert_true(sum.value > 0);
	}
	assert_int_equal(pev_counters_close(&set), 0);
	assert_int_equal(open_fds(), before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_software_counters_see_a_busy_child),
	        cmocka_unit_test(test_counters_grow),
	        cmocka_unit_test(test_hardware_counters_count_or_say_why),
	};
	const struct pev_counter_state *st;
	struct pev_counters set;
	struct err err = {0};
	int r;

	cmocka_set_message_output(CM_OUTPUT_TAP);
	if (proc_cpus_read("/sys", &machine, &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	for (uint32_t t = 0; t < machine->n_types; t++)
		types[t] =
		        (struct pev_core_type){machine->types[t].name, machine->types[t].perf_type};
	on = (struct pev_counter_cpus){machine->cpu, machine->core_type, machine->n, types,
	                               machine->n_types};
	set = open_counters(&pev_counters_software[CLOCK], 1);
	st = pev_counters_state(&set, 0, 0);
	r = st->error;
	if (r == -EACCES || r == -EPERM || r == -ENOSYS)
		printf("1..0 # SKIP %s\n", st->why ? st->why : err_name(r));
	else
		r = cmocka_run_group_tests(tests, NULL, NULL);
	(void)pev_counters_close(&set); /* nothing is written */
	machine = proc_cpus_free(machine);
	return r < 0 ? 0 : r;
}
