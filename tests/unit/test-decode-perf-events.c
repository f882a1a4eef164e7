/* SPDX-License-Identifier: Apache-2.0 */
/* Values of profiles that come from the events and the header of a perf.data. */
#include "perf_file.h"

#include <string.h>

#include "decode/decode.h"

static const uint64_t user_stack[] = {PERF_CONTEXT_USER, PF_TEXT + 0x10, PF_TEXT + 0x21};

static struct perf_event_attr cpu_clock(void)
{
	return (struct perf_event_attr){.type = PERF_TYPE_SOFTWARE,
	                                .size = sizeof(struct perf_event_attr),
	                                .config = PERF_COUNT_SW_CPU_CLOCK,
	                                .sample_period = 1000000,
	                                .sample_type = PF_TYPE,
	                                .sample_id_all = 1};
}

static const struct prof_model *decode_file(const struct pf *f, struct dec_profile *p)
{
	static const struct dec_options options = {.no_names = true};
	struct err err = {0};
	struct sbuf b;

	*p = (struct dec_profile){0};
	pf_write(f, &b);
	assert_int_equal(dec_profile(b.p, b.len, "x", &options, p, &err), 0);
	sbuf_done(&b);
	return p->models[0];
}

/* Two samples of these periods, of an event with a frequency. Returns the period of its model. */
static int64_t mean_period(uint64_t first, uint64_t second)
{
	struct perf_event_attr a = cpu_clock();
	const struct prof_model *m;
	struct dec_profile p;
	int64_t ret;
	struct pf f;

	a.freq = 1;
	a.sample_freq = 99;
	pf_init(&f);
	pf_attr(&f, &a);
	pf_sample(&f, PERF_RECORD_MISC_USER, 10, 10, 500, 0, first, user_stack, 2);
	pf_sample(&f, PERF_RECORD_MISC_USER, 10, 10, 510, 0, second, user_stack, 3);
	m = decode_file(&f, &p);
	ret = m->period;
	assert_int_equal(m->period_type.type, ret ? m->sample_type[1].type : 0);
	dec_profile_done(&p);
	pf_done(&f);
	return ret;
}

static void test_the_period_of_a_frequency_is_the_mean_of_samples(void **state)
{
	(void)state;
	assert_int_equal(mean_period(10000000, 10202020), 10101010);
	assert_int_equal(mean_period(1000, 1003), 1001);
	assert_int_equal(mean_period(1, 2), 0); /* neither 1 nor 2 is near */
	assert_int_equal(mean_period(0, 0), 0);
	assert_int_equal(mean_period(INT64_MAX, INT64_MAX), 0);
}

static void test_files_of_perf_agent_are_known_by_their_version(void **state)
{
	static const char *const versions[] = {"perf-agent 0.1.0", "6.1.0"},
	                         *const comments[] = {"perf-agent: 0.1.0", "perf: 6.1.0"};
	const struct perf_event_attr a = cpu_clock();

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		struct dec_profile p;
		struct pf f;
		const struct prof_model *m;

		pf_init(&f);
		pf_attr(&f, &a);
		pf_sample(&f, PERF_RECORD_MISC_USER, 1, 1, 1, 1000, 5, user_stack, 2);
		pf_feature_str(&f, 5, versions[i]);
		m = decode_file(&f, &p);
		assert_string_equal(prof_model_str(m, m->comments.p[m->comments.n - 1]),
		                    comments[i]);
		dec_profile_done(&p);
		pf_done(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_the_period_of_a_frequency_is_the_mean_of_samples),
	        cmocka_unit_test(test_files_of_perf_agent_are_known_by_their_version),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
