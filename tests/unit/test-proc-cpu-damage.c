/* SPDX-License-Identifier: Apache-2.0 */
/* Trees of CPUs whose contents are odd or damaged, and this machine. */
#include "cpu_tree.h"

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
