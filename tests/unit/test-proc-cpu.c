/* SPDX-License-Identifier: Apache-2.0 */
/* CPUs and core types of machines that we do not have: each is a tree of files like sysfs. */
#include "proc/proc_priv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>

#include "bpf/abi/abi_sched.h"

_Static_assert(PROC_CORE_TYPES_MAX == ABI_CORE_TYPES_MAX, "one limit");

#define CPU  "devices/system/cpu/"
#define PMUS "bus/event_source/devices/"

static char tmp_dir[] = "/tmp/test-proc-cpu-XXXXXX";
static char tree[64]; /* of the test that runs */

/* ---- trees ----------------------------------------------------------------------------------- */

/* A file and the directories above it. */
static void file_n(const char *path, const char *text, size_t len)
{
	char full[512];
	int fd;

	assert_true(snprintf(full, sizeof(full), "%s/%s", tree, path) < (int)sizeof(full));
	for (char *p = full + strlen(tree) + 1; (p = strchr(p, '/')) != NULL; p++) {
		*p = '\0';
		assert_true(mkdir(full, 0700) == 0 || errno == EEXIST);
		*p = '/';
	}
	fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(file_write_full(fd, text, len), 0);
	assert_int_equal(close(fd), 0);
}

static void file(const char *path, const char *text)
{
	file_n(path, text, strlen(text));
}

static void cpu_lists(const char *possible, const char *present, const char *online)
{
	file(CPU "possible", possible);
	file(CPU "present", present);
	file(CPU "online", online);
}

/* @cpus, @type: NULL: there is no such file */
static void pmu(const char *name, const char *cpus, const char *type)
{
	char path[400];

	snprintf(path, sizeof(path), PMUS "%s/type", name);
	if (type)
		file(path, type);
	snprintf(path, sizeof(path), PMUS "%s/cpus", name);
	if (cpus)
		file(path, cpus);
}

/* Those of every machine, which are no core types. */
static void other_pmus(void)
{
	pmu("software", NULL, "1\n");
	pmu("tracepoint", NULL, "2\n");
	pmu("breakpoint", NULL, "5\n");
	pmu("msr", NULL, "9\n");
	pmu("uncore_imc_0", NULL, "20\n");
	file(PMUS "uncore_imc_0/cpumask", "0\n");
	pmu("power", "0-1\n", "21\n"); /* both lists: not of cores */
	file(PMUS "power/cpumask", "0\n");
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static int setup(void **state)
{
	static unsigned int nr;

	(void)state;
	snprintf(tree, sizeof(tree), "%s/%u", tmp_dir, nr++);
	return mkdir(tree, 0700);
}

static int teardown(void **state)
{
	(void)state;
	return nftw(tree, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static struct proc_cpus *read_tree(void)
{
	struct proc_cpus *c = NULL;
	struct err err = {0};

	if (proc_cpus_read(tree, &c, &err) < 0)
		fail_msg("%s", err.msg);
	for (uint32_t i = 1; i < c->n; i++)
		assert_true(c->cpu[i - 1] < c->cpu[i]);
	return c;
}

static void assert_fails(int code, const char *words)
{
	struct proc_cpus *c = NULL;
	struct err err = {0};

	assert_int_equal(proc_cpus_read(tree, &c, &err), code);
	assert_null(c);
	assert_int_equal(err.code, code);
	if (!strstr(err.msg, words))
		fail_msg("no \"%s\" in: %s", words, err.msg);
}

static void assert_type(const struct proc_cpus *c, uint32_t t, const char *name, uint32_t perf_type,
                        uint32_t online_cnt)
{
	assert_true(t < c->n_types);
	assert_string_equal(c->types[t].name, name);
	assert_int_equal(c->types[t].perf_type, perf_type);
	assert_int_equal(c->types[t].online_cnt, online_cnt);
}

/* Type of a CPU that is online. */
static uint32_t type_of(const struct proc_cpus *c, uint32_t cpu)
{
	for (uint32_t i = 0; i < c->n; i++)
		if (c->cpu[i] == cpu)
			return c->core_type[i];
	fail_msg("CPU %u is not online", cpu);
	return 0;
}

static bool in_set(const struct proc_core_type *t, uint32_t cpu)
{
	return t->set[cpu / 64] >> cpu % 64 & 1;
}

static void assert_note(const struct proc_cpus *c, const char *words)
{
	for (size_t i = 0; i < c->notes.n; i++)
		if (strstr(c->notes.p[i], words))
			return;
	fail_msg("no note has \"%s\" (%zu notes, first: %s)", words, c->notes.n,
	         c->notes.n ? c->notes.p[0] : "");
}

/* ---- machines -------------------------------------------------------------------------------- */

static void test_all_cpus_alike(void **state)
{
	_cleanup_(proc_cpus_freep) struct proc_cpus *c = NULL;

	(void)state;
	cpu_lists("0-15\n", "0-3\n", "0-3\n");
	other_pmus();
	pmu("cpu", NULL, "4\n");
	c = read_tree();
	assert_int_equal(c->n, 4);
	assert_int_equal(c->offline_cnt, 0); /* 4 … 15 could be plugged in, and are not */
	assert_int_equal(c->untyped_cnt, 0);
	assert_int_equal(c->n_types, 1);
	assert_type(c, 0, "cpu", 4, 4);
	assert_true(in_set(&c->types[0], 3) && !in_set(&c->types[0], 4));
	assert_int_equal(c->notes.n, 0);
}

static void test_machine_without_pmu(void **state)
{
	struct proc_cpus *c;

	(void)state;
	cpu_lists("0-1\n", "0-1\n", "0-1\n");
	other_pmus();
	c = read_tree();
	assert_int_equal(c->n_types, 1);
	assert_type(c, 0, "", PROC_PMU_TYPE_NONE, 2);
	assert_int_equal(c->untyped_cnt, 0);
	assert_int_equal(c->notes.n, 0);
	proc_cpus_free(c);
}

static void test_kernel_without_perf_events(void **state)
{
	_cleanup_(proc_cpus_freep) struct proc_cpus *c = NULL;

	(void)state;
	cpu_lists("0-1\n", "0-1\n", "0-1\n");
	c = read_tree();
	assert_type(c, 0, "", PROC_PMU_TYPE_NONE, 2);
	assert_note(c, "no such file or directory (ENOENT): core types are not known");
}

static void test_256_cpus_with_holes(void **state)
{
	_cleanup_(proc_cpus_freep) struct proc_cpus *c = NULL;

	(void)state;
	cpu_lists("0-511\n", "0-255\n", "0-3,8,10-11,64-127,130-255\n");
	pmu("cpu", NULL, "4\n");
	c = read_tree();
	assert_int_equal(c->n, 4 + 1 + 2 + 64 + 126);
	assert_int_equal(c->offline_cnt, 256 - c->n);
	assert_int_equal(c->cpu[4], 8);
	assert_int_equal(c->cpu[5], 10);
	assert_int_equal(c->cpu[7], 64);
	assert_int_equal(c->cpu[c->n - 1], 255);
	assert_type(c, 0, "cpu", 4, c->n);
	for (uint32_t cpu = 0, i = 0; cpu < 256; cpu++) {
		bool online = i < c->n && c->cpu[i] == cpu;

		i += online;
		assert_int_equal(in_set(&c->types[0], cpu), online);
	}
}

static void test_as_many_cpus_as_kernels_know(void **state)
{
	_cleanup_(proc_cpus_freep) struct proc_cpus *c = NULL;

	(void)state;
	cpu_lists("0-8191\n", "0-8191\n", "0-8190\n");
	pmu("cpu_a", "0-4095\n", "4\n");
	pmu("cpu_b", "4096-8191\n", "10\n");
	c = read_tree();
	assert_int_equal(c->n, 8191);
	assert_int_equal(c->offline_cnt, 1);
	assert_type(c, 0, "cpu_a", 4, 4096);
	assert_type(c, 1, "cpu_b", 10, 4095);
	assert_true(in_set(&c->types[1], 8191));
	assert_int_equal(type_of(c, 4095), 0);
	assert_int_equal(type_of(c, 4096), 1);
}

static void test_hybrid(void **state)
{
	_cleanup_(proc_cpus_freep) struct proc_cpus *c = NULL;

	(void)state;
	cpu_lists("0-19\n", "0-19\n", "0-14,16-19\n");
	other_pmus();
	pmu("cpu_atom", "12-14,16-19\n", "10\n");
	pmu("cpu_core", "0-11\n", "4\n");
	c = read_tree();
	assert_int_equal(c->n, 19);
	assert_int_equal(c->offline_cnt, 1);
	assert_int_equal(c->n_types, 2);
	assert_type(c, 0, "cpu_core", 4, 12);
	assert_type(c, 1, "cpu_atom", 10, 7);
	assert_int_equal(type_of(c, 0), 0);
	assert_int_equal(type_of(c, 11), 0);
	assert_int_equal(type_of(c, 12), 1);
	assert_int_equal(type_of(c, 19), 1);
	assert_int_equal(c->notes.n, 0);
}

static void test_three_core_types_of_arm64(void **state)
{
	_cleanup_(proc_cpus_freep) struct proc_cpus *c = NULL;

	(void)state;
	cpu_lists("0-7\n", "0-7\n", "0-6\n");
	pmu("armv8_cortex_x1", "7\n", "12\n"); /* offline: listed all the same */
	pmu("armv8_cortex_a76", "4-6\n", "11\n");
	pmu("armv8_cortex_a55", "0-3\n", "10\n");
	pmu("arm_dsu_0", NULL, "13\n");
	file(PMUS "arm_dsu_0/cpumask", "0\n");
	file(PMUS "arm_dsu_0/associated_cpus", "0-7\n");
	c = read_tree();
	assert_int_equal(c->n_types, 2);
	assert_type(c, 0, "armv8_cortex_a55", 10, 4);
	assert_type(c, 1, "armv8_cortex_a76", 11, 3);
	assert_note(c, "armv8_cortex_x1 is left out: none of its CPUs is online");
	c = proc_cpus_free(c);

	file(CPU "online", "0-5,7\n");
	c = read_tree();
	assert_int_equal(c->n_types, 3);
	assert_type(c, 0, "armv8_cortex_a55", 10, 4);
	assert_type(c, 1, "armv8_cortex_a76", 11, 2);
	assert_type(c, 2, "armv8_cortex_x1", 12, 1);
	assert_true(in_set(&c->types[1], 6)); /* offline, but of this type */
	assert_int_equal(type_of(c, 7), 2);
	assert_int_equal(c->offline_cnt, 1);
	assert_int_equal(c->notes.n, 0);
}

static void test_one_pmu_of_arm64(void **state)
{
	_cleanup_(proc_cpus_freep) struct proc_cpus *c = NULL;

	(void)state;
	cpu_lists("0-3\n", "0-3\n", "0-3\n");
	pmu("armv8_pmuv3_0", "0-3\n", "8\n");
	c = read_tree();
	assert_int_equal(c->n_types, 1);
	assert_type(c, 0, "armv8_pmuv3_0", 8, 4);
}

static void test_fifth_core_type_is_said_and_ignored(void **state)
{
	_cleanup_(proc_cpus_freep) struct proc_cpus *c = NULL;

	(void)state;
	cpu_lists("0-9\n", "0-9\n", "0-9\n");
	pmu("e", "8-9\n", "14\n");
	pmu("d", "6-7\n", "13\n");
	pmu("c", "4-5\n", "12\n");
	pmu("b", "2-3\n", "11\n");
	pmu("a", "0-1\n", "10\n");
	c = read_tree();
	assert_int_equal(c->n_types, 4);
	assert_type(c, 3, "d", 13, 2);
	assert_int_equal(type_of(c, 7), 3);
	assert_true(type_of(c, 8) == PROC_CORE_TYPE_NONE);
	assert_true(type_of(c, 9) == PROC_CORE_TYPE_NONE);
	assert_int_equal(c->untyped_cnt, 2);
	assert_note(c, "PMU e is ignored: more than 4 core types: 2 CPUs have no counters");
}

static void test_cpus_that_no_pmu_lists(void **state)
{
	_cleanup_(proc_cpus_freep) struct proc_cpus *c = NULL;

	(void)state;
	cpu_lists("0-7\n", "0-7\n", "0-7\n");
	pmu("armv8_cortex_a53", "0-3\n", "10\n");
	c = read_tree();
	assert_int_equal(c->n_types, 1);
	assert_int_equal(c->untyped_cnt, 4);
	assert_true(type_of(c, 4) == PROC_CORE_TYPE_NONE);
	assert_note(c, "4 CPUs belong to no core type that is known");
	c = proc_cpus_free(c);

	/* "cpu" without a list has them. */
	pmu("cpu", NULL, "4\n");
	c = read_tree();
	assert_int_equal(c->n_types, 2);
	assert_type(c, 0, "armv8_cortex_a53", 10, 4);
	assert_type(c, 1, "cpu", 4, 4);
	assert_int_equal(c->untyped_cnt, 0);
	assert_false(in_set(&c->types[1], 0));
}

/* ---- odd contents ---------------------------------------------------------------------------- */

static void test_lists_of_online_cpus_that_are_none(void **state)
{
	static const struct {
		const char *text;
		int code;
		const char *words;
	} cases[] = {
	        {"", -EINVAL, "the list is empty"},
	        {"\n", -EINVAL, "the list is empty"},
	        {"x\n", -EINVAL, "no list of CPUs"},
	        {"0-\n", -EINVAL, "no list of CPUs"},
	        {"3-1\n", -EINVAL, "no list of CPUs"},
	        {"0-3,2\n", -EINVAL, "no list of CPUs"},
	        {"0-3", -EINVAL, "cut off"}, /* as a list over 4096 bytes ends */
	        {"99999999999999999999\n", -EINVAL, "no list of CPUs"},
	        {"0-2000000000\n", -E2BIG, "more than 8192 CPUs"},
	        {"0,2000000000\n", -E2BIG, "CPU 2000000000"},
	        {"8192\n", -E2BIG, "CPU 8192, only those below 8192"},
	};
	char *long_list;

	(void)state;
	pmu("cpu", NULL, "4\n");
	assert_fails(-ENOENT, "online: no such file or directory (ENOENT)");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		file(CPU "online", cases[i].text);
		assert_fails(cases[i].code, cases[i].words);
	}
	file_n(CPU "online", "0-3\0x\n", 6);
	assert_fails(-EINVAL, "no list of CPUs");
	long_list = malloc(100000);
	assert_non_null(long_list);
	memset(long_list, '0', 100000);
	file_n(CPU "online", long_list, 100000);
	free(long_list);
	assert_fails(-E2BIG, "longer than the limit");
}

static void test_no_tree(void **state)
{
	char was[sizeof(tree)];

	(void)state;
	memcpy(was, tree, sizeof(tree));
	snprintf(tree, sizeof(tree), "%.40s/none", was);
	assert_fails(-ENOENT, "none: no such file or directory (ENOENT)");
	memcpy(tree, was, sizeof(tree));
}

static void test_offline_cpus_are_not_known(void **state)
{
	struct proc_cpus *c;

	(void)state;
	file(CPU "online", "0-1\n");
	pmu("cpu", NULL, "4\n");
	c = read_tree();
	assert_int_equal(c->offline_cnt, 0);
	assert_note(c, "offline CPUs are not known");
	proc_cpus_free(c);

	file(CPU "possible", "0-3\n"); /* what there is without "present" */
	c = read_tree();
	assert_int_equal(c->offline_cnt, 2);
	assert_int_equal(c->notes.n, 0);
	proc_cpus_free(c);

	file(CPU "present", "junk\n");
	c = read_tree();
	assert_int_equal(c->offline_cnt, 0);
	assert_note(c, "present: EINVAL");
	proc_cpus_free(c);
}

static void test_damaged_pmus_cost_themselves(void **state)
{
	static const struct {
		const char *cpus, *type, *words;
	} cases[] = {
	        {"", "11\n", "PMU bad is ignored: bad/cpus: EINVAL: the list is empty"},
	        {"\n", "11\n", "bad/cpus: EINVAL: the list is empty"},
	        {"0-z\n", "11\n", "bad/cpus: EINVAL"},
	        {"0-99999999\n", "11\n", "bad/cpus: E2BIG"},
	        {"4-7,9000\n", "11\n", "bad/cpus: E2BIG"},
	        {"4-7\n", NULL, "bad/type: no such file or directory (ENOENT)"},
	        {"4-7\n", "", "bad/type: EINVAL"},
	        {"4-7\n", "0\n", "bad/type: EINVAL"},
	        {"4-7\n", "-1\n", "bad/type: EINVAL"},
	        {"4-7\n", "2147483648\n", "bad/type: EINVAL"},
	        {"4-7\n", "99999999999999999999\n", "bad/type: EINVAL"},
	        {"4-7\n", "11111111111111111111111111111111111111\n", "bad/type: longer than"},
	        {"4-7\n", "10\n", "PMU bad is ignored: it has the number of good"},
	        {"100-200\n", "11\n", "PMU bad is left out: none of its CPUs is online"},
	        {"0-3\n", "11\n", "PMU good: 4 of its CPUs belong to another PMU already"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		bool taken = i == ARRAY_SIZE(cases) - 1;
		struct proc_cpus *c;

		cpu_lists("0-7\n", "0-7\n", "0-7\n");
		pmu("good", "0-3\n", "10\n");
		pmu("bad", cases[i].cpus, cases[i].type);
		c = read_tree();
		assert_note(c, cases[i].words);
		assert_int_equal(c->n, 8);
		assert_int_equal(c->n_types, 1);
		assert_type(c, 0, taken ? "bad" : "good", taken ? 11 : 10, 4);
		assert_int_equal(c->untyped_cnt, 4);
		proc_cpus_free(c);
		assert_int_equal(teardown(state), 0);
		assert_int_equal(mkdir(tree, 0700), 0);
	}
}

static void test_cpu_in_two_types_belongs_to_the_first(void **state)
{
	_cleanup_(proc_cpus_freep) struct proc_cpus *c = NULL;

	(void)state;
	cpu_lists("0-7\n", "0-7\n", "0-7\n");
	pmu("b", "3-7\n", "11\n");
	pmu("a", "0-4\n", "10\n");
	c = read_tree();
	assert_type(c, 0, "a", 10, 5);
	assert_type(c, 1, "b", 11, 3);
	assert_int_equal(type_of(c, 4), 0);
	assert_false(in_set(&c->types[1], 4));
	assert_note(c, "PMU b: 2 of its CPUs belong to another PMU already");
}

static void test_damaged_cpu_pmu_leaves_one_type_without_name(void **state)
{
	_cleanup_(proc_cpus_freep) struct proc_cpus *c = NULL;

	(void)state;
	cpu_lists("0-1\n", "0-1\n", "0-1\n");
	pmu("cpu", NULL, "four\n");
	c = read_tree();
	assert_int_equal(c->n_types, 1);
	assert_type(c, 0, "", PROC_PMU_TYPE_NONE, 2);
	assert_note(c, "PMU cpu is ignored: cpu/type: EINVAL");
}

static void test_odd_names_of_pmus(void **state)
{
	_cleanup_(proc_cpus_freep) struct proc_cpus *c = NULL;
	char name[256];

	(void)state;
	cpu_lists("0-1\n", "0-1\n", "0-1\n");
	pmu("cpu\033[31m", "0\n", "10\n");
	memset(name, 'x', sizeof(name));
	name[255] = '\0';
	pmu(name, "1\n", "11\n");
	name[PROC_PMU_NAME_SIZE - 1] = '\0';
	pmu(name, "0\n", "12\n");
	file(PMUS "plain_file", "0-1\n");
	file(PMUS "cpus_is_a_directory/cpus/type", "0-1\n");
	c = read_tree();
	assert_int_equal(c->n_types, 1);
	assert_type(c, 0, name, 12, 1);
	assert_note(c, "a PMU with 8 characters, or odd ones, in its name is ignored");
	assert_note(c, "a PMU with 255 characters");
	assert_note(c, "cpus_is_a_directory is ignored: ");
	assert_note(c, "1 CPUs belong to no core type");
}

static void test_crowd_of_pmus(void **state)
{
	_cleanup_(proc_cpus_freep) struct proc_cpus *c = NULL;
	char name[32], cpus[32], type[32];

	(void)state;
	cpu_lists("0-199\n", "0-199\n", "0-199\n");
	for (unsigned int i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "pmu%03u", i);
		snprintf(cpus, sizeof(cpus), "%u\n", i);
		snprintf(type, sizeof(type), "%u\n", i + 10);
		pmu(name, cpus, type);
	}
	c = read_tree();
	assert_int_equal(c->n_types, 4);
	assert_int_equal(c->untyped_cnt, 196);
	assert_true(c->notes.n > 0 && c->notes.n <= 32);
}

/* ---- this machine ---------------------------------------------------------------------------- */

static void test_this_machine(void **state)
{
	_cleanup_(proc_cpus_freep) struct proc_cpus *c = NULL;
	static uint32_t cpus[PROC_CPUS_MAX];
	struct err err = {0};
	uint32_t sum = 0;
	int n;

	(void)state;
	n = proc_online_cpus(cpus, PROC_CPUS_MAX, NULL);
	assert_true(n > 0);
	if (proc_cpus_read("/sys", &c, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(c->n, n);
	assert_memory_equal(c->cpu, cpus, (size_t)n * sizeof(cpus[0]));
	for (uint32_t t = 0; t < c->n_types; t++) {
		print_message("# core type \"%s\": %u CPUs\n", c->types[t].name,
		              c->types[t].online_cnt);
		sum += c->types[t].online_cnt;
	}
	assert_int_equal(sum + c->untyped_cnt, n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	        T(test_all_cpus_alike),
	        T(test_machine_without_pmu),
	        T(test_kernel_without_perf_events),
	        T(test_256_cpus_with_holes),
	        T(test_as_many_cpus_as_kernels_know),
	        T(test_hybrid),
	        T(test_three_core_types_of_arm64),
	        T(test_one_pmu_of_arm64),
	        T(test_fifth_core_type_is_said_and_ignored),
	        T(test_cpus_that_no_pmu_lists),
	        T(test_lists_of_online_cpus_that_are_none),
	        T(test_no_tree),
	        T(test_offline_cpus_are_not_known),
	        T(test_damaged_pmus_cost_themselves),
	        T(test_cpu_in_two_types_belongs_to_the_first),
	        T(test_damaged_cpu_pmu_leaves_one_type_without_name),
	        T(test_odd_names_of_pmus),
	        T(test_crowd_of_pmus),
	        T(test_this_machine),
	};
	int r;

	cmocka_set_message_output(CM_OUTPUT_TAP);
	if (!mkdtemp(tmp_dir))
		return 1;
	r = cmocka_run_group_tests(tests, NULL, NULL);
	(void)rmdir(tmp_dir);
	return r;
}
