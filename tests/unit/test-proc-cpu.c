/* SPDX-License-Identifier: Apache-2.0 */
/* CPUs and core types of machines that we do not have: each is a tree of files like sysfs. */
#include "cpu_tree.h"

_Static_assert(PROC_CORE_TYPES_MAX == ABI_CORE_TYPES_MAX, "one limit");

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
	};
	int r;

	cmocka_set_message_output(CM_OUTPUT_TAP);
	if (!mkdtemp(tmp_dir))
		return 1;
	r = cmocka_run_group_tests(tests, NULL, NULL);
	(void)rmdir(tmp_dir);
	return r;
}
