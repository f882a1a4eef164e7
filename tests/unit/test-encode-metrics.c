/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "encode/encode_priv.h"
#include "metrics_samples.h"

#define GOLDEN_MAX ((size_t)1 << 20)

/* The folder: outputs as they were looked at once. metrics-driver makes new ones. */
static const char *golden_dir;

static const struct {
	const char *suffix;
	int (*encode)(const struct met_snapshot *s, struct sbuf *out);
} formats[] = {{"txt", enc_metrics_text}, {"json", enc_metrics_json}};

static void encode(size_t format, const struct met_snapshot *s, struct sbuf *out)
{
	sbuf_init(out, GOLDEN_MAX);
	assert_int_equal(formats[format].encode(s, out), 0);
}

static void test_outputs_are_the_golden_ones(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(metrics_samples); i++) {
		struct met_snapshot *s = metrics_sample(&metrics_samples[i]);

		for (size_t f = 0; f < ARRAY_SIZE(formats); f++) {
			struct sbuf path, want, got;

			sbuf_init(&path, 4096);
			sbuf_init(&want, GOLDEN_MAX);
			assert_int_equal(sbuf_addf(&path, "%s/%s.%s", golden_dir,
			                           metrics_samples[i].name, formats[f].suffix),
			                 0);
			if (file_read_all(AT_FDCWD, path.p, &want, NULL) != 0)
				fail_msg("cannot read %s", path.p);
			encode(f, s, &got);
			if (got.len != want.len || memcmp(got.p, want.p, want.len) != 0)
				fail_msg("%s differs; got:\n%s", path.p, got.p);
			sbuf_done(&path);
			sbuf_done(&want);
			sbuf_done(&got);
		}
		met_snapshot_free(s);
	}
}

/* No byte that a terminal acts upon, or that an editor takes for the end of a line. */
static void assert_harmless(const struct sbuf *b, const char *what)
{
	for (size_t i = 0; i < b->len;) {
		const uint8_t *p = (const uint8_t *)b->p + i;
		size_t n = utf8_len(p, b->len - i);

		if (n == 0 || (p[0] != '\n' && utf8_is_control(p, n)))
			fail_msg("%s: byte %#x at %zu", what, p[0], i);
		i += n;
	}
}

static void test_names_of_others_stay_harmless(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(metrics_samples); i++) {
		struct met_snapshot *s = metrics_sample(&metrics_samples[i]);

		for (size_t f = 0; f < ARRAY_SIZE(formats); f++) {
			struct sbuf b;

			encode(f, s, &b);
			assert_harmless(&b, metrics_samples[i].name);
			sbuf_done(&b);
		}
		met_snapshot_free(s);
	}
}

static struct met_snapshot *one_process(struct met_entry *e)
{
	struct met_snapshot *s;

	assert_int_equal(met_snapshot_new(&s), 0);
	s->scope = MET_PIDS;
	sample_entry(e, 1, "x", 1);
	return s;
}

static void assert_has(const struct met_snapshot *s, size_t format, const char *text, bool wanted)
{
	struct sbuf b;

	encode(format, s, &b);
	if ((strstr(b.p, text) != NULL) != wanted)
		fail_msg("'%s' %s in:\n%s", text, wanted ? "is not" : "is", b.p);
	sbuf_done(&b);
}

static void test_a_name_cannot_begin_a_line(void **state)
{
	struct met_entry e;
	struct met_snapshot *s = one_process(&e);

	(void)state;
	sample_comm(e.comm, "a\n=== PMU");
	sample_add(s, &e);
	assert_has(s, 0, "Command: a?=== PMU\n", true);
	assert_has(s, 1, "\"comm\": \"a\\u000a=== PMU\"", true);
	met_snapshot_free(s);
}

static void test_every_unavailable_counter_says_why_and_is_no_zero(void **state)
{
	static const int errors[] = {-ENOENT, -ENODEV, -ENXIO,  -EOPNOTSUPP, -EACCES,
	                             -EPERM,  -EBUSY,  -EINVAL, -EMFILE,     -ENFILE,
	                             -ENOSPC, -ENOSYS, -EXFULL};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		for (int id = 0; id < MET_COUNTER_CNT; id++) {
			struct met_entry e;
			struct met_snapshot *s = one_process(&e);
			char want[64];

			/* Another one that is there, so that each has its own line. */
			sample_counter(&e,
			               id == MET_COUNTER_BRANCHES ? MET_COUNTER_CYCLES
			                                          : MET_COUNTER_BRANCHES,
			               0, 12345, 1, 1);
			sample_error(&e, (enum met_counter_id)id, 0, errors[i]);
			sample_add(s, &e);
			/* In words; the last has none. */
			assert_has(s, 0, "not available: ", true);
			assert_has(s, 0, err_symbol(errors[i]), i + 1 == ARRAY_SIZE(errors));
			assert_has(s, 0, " 12345\n", true);
			assert_has(s, 0, " 0\n", false);
			(void)snprintf(want, sizeof(want), "\"error\": \"%s\"",
			               err_symbol(errors[i]));
			assert_has(s, 1, want, true);
			assert_has(s, 1, "\"value\": null", true);
			assert_has(s, 1, "\"value\": 0", false);
			met_snapshot_free(s);
		}
	}
}

static void test_all_unavailable_for_one_reason_is_one_line(void **state)
{
	struct met_entry e;
	struct met_snapshot *s = one_process(&e);

	(void)state;
	sample_no_hardware(&e, -EACCES);
	sample_add(s, &e);
	assert_has(s, 0,
	           "Hardware Counters:\n  not available: no permission, needs CAP_PERFMON or a "
	           "lower kernel.perf_event_paranoid\n",
	           true);
	assert_has(s, 0, "Total Cycles", false);
	assert_has(s, 0, "IPC", false);
	s->procs.p[0].counters.p[2].error = -ENOENT;
	assert_has(s, 0,
	           "Total Cycles:                  not available: no permission, needs CAP_PERFMON "
	           "or a lower kernel.perf_event_paranoid\n",
	           true);
	assert_has(s, 0,
	           "Total Cache References:        not available: this machine, or its hypervisor, "
	           "does not have this counter\n",
	           true);
	met_snapshot_free(s);
}

static void test_a_counter_that_never_had_a_place_is_no_zero(void **state)
{
	struct met_entry e;
	struct met_snapshot *s = one_process(&e);

	(void)state;
	sample_counter(&e, MET_COUNTER_CYCLES, 0, 0, 1000, 0);
	sample_add(s, &e);
	assert_has(s, 0, "not counted: other events used", true);
	assert_has(s, 1, "\"value\": null, \"raw\": null, \"enabled_ns\": 1000, \"running_ns\": 0",
	           true);
	s->procs.p[0].counters.p[0].enabled_ns = 0;
	assert_has(s, 0, "not counted: no thread ran on", true);
	s->procs.p[0].counters.p[0].enabled_ns = s->procs.p[0].counters.p[0].running_ns = 1;
	assert_has(s, 0, "Total Cycles:                               0\n", true);
	assert_has(s, 1, "\"value\": 0, \"raw\": 0", true);
	met_snapshot_free(s);
}

static void test_threads_over_the_cap_are_summed_up(void **state)
{
	struct met_entry e;
	struct met_snapshot *s = one_process(&e);
	uint64_t more = 0;
	char want[64];

	(void)state;
	sample_threads(&e, 100, "t");
	sample_add(s, &e);
	for (size_t i = 32; i < 100; i++)
		more += s->procs.p[0].threads.p[i].ns[MET_RUNQ];
	(void)snprintf(want, sizeof(want), "%llu.%03llu", (unsigned long long)more / 1000000,
	               (unsigned long long)more / 1000 % 1000);
	assert_has(s, 0, "        68 more ", true);
	assert_has(s, 0, want, true);
	assert_has(s, 0, "        32 t  ", true);
	assert_has(s, 0, "        33 t  ", false);
	assert_has(s, 1, "\"tid\": 100,", true);
	met_snapshot_free(s);
}

static void test_header_of_many_processes_is_cut(void **state)
{
	struct met_snapshot *s;

	(void)state;
	assert_int_equal(met_snapshot_new(&s), 0);
	s->scope = MET_PIDS;
	for (uint32_t i = 1; i <= 11; i++) {
		struct met_entry e;

		sample_entry(&e, i, "x", 1);
		sample_add(s, &e);
	}
	assert_has(s, 0, "=== Scheduler Statistics (PIDs: 1, 2, 3, 4, 5, 6, 7, 8 and 3 more) ===\n",
	           true);
	assert_has(s, 0, "--- PID 11 (x) ---\n", true);
	met_snapshot_free(s);
}

static void test_decimals(void **state)
{
	static const struct {
		double v;
		const char *text;
	} cases[] = {
	        {0, "0.000"},
	        {0.0004, "0.000"},
	        {0.0005, "0.001"},
	        {1.9996, "2.000"},
	        {1234.5678, "1234.568"},
	        {1e15, "1000000000000000.000"},
	        {1e300, "1000000000000000.000"},
	};
	char text[ENC_DECIMAL_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_string_equal(enc_decimal(cases[i].v, text), cases[i].text);
	assert_string_equal(enc_decimal((double)INFINITY, text), "1000000000000000.000");
	assert_string_equal(enc_thousandths(UINT64_MAX, text), "18446744073709551.615");
}

static void test_a_failure_leaves_nothing_half_done(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(metrics_samples); i++) {
		struct met_snapshot *s = metrics_sample(&metrics_samples[i]);

		for (size_t f = 0; f < ARRAY_SIZE(formats); f++) {
			struct sbuf whole, b;

			encode(f, s, &whole);
			sbuf_init(&b, whole.len + 4);
			assert_int_equal(sbuf_str(&b, "head"), 0);
			assert_int_equal(formats[f].encode(s, &b), 0);
			assert_int_equal(b.len, whole.len + 4);
			assert_memory_equal(b.p + 4, whole.p, whole.len);
			sbuf_done(&b);
			sbuf_init(&b, whole.len + 3);
			assert_int_equal(sbuf_str(&b, "head"), 0);
			assert_int_equal(formats[f].encode(s, &b), -E2BIG);
			assert_string_equal(b.p, "head");
			assert_int_equal(b.len, 4);
			assert_int_equal(formats[f].encode(s, &b), -E2BIG); /* it sticks */
			sbuf_done(&b);
			sbuf_done(&whole);
		}
		met_snapshot_free(s);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_outputs_are_the_golden_ones),
	        cmocka_unit_test(test_names_of_others_stay_harmless),
	        cmocka_unit_test(test_a_name_cannot_begin_a_line),
	        cmocka_unit_test(test_every_unavailable_counter_says_why_and_is_no_zero),
	        cmocka_unit_test(test_all_unavailable_for_one_reason_is_one_line),
	        cmocka_unit_test(test_a_counter_that_never_had_a_place_is_no_zero),
	        cmocka_unit_test(test_threads_over_the_cap_are_summed_up),
	        cmocka_unit_test(test_header_of_many_processes_is_cut),
	        cmocka_unit_test(test_decimals),
	        cmocka_unit_test(test_a_failure_leaves_nothing_half_done),
	};

	if (argc != 2) {
		fputs("usage: test-encode-metrics GOLDEN_DIR\n", stderr);
		return 2;
	}
	golden_dir = argv[1];
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
