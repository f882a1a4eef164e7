/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "profile/profile.h"

static uint32_t str_id(struct prof_model *m, const char *s)
{
	uint32_t id;

	assert_int_equal(prof_model_string(m, s, &id), 0);
	return id;
}

static void test_samples_have_a_value_for_each_type(void **state)
{
	struct prof_model *m;
	uint32_t a, b;
	int64_t v[PROF_TYPE_MAX];
	(void)state;

	assert_int_equal(prof_model_new(&m), 0);
	assert_int_equal(prof_model_location(m, 0, 1, EV_REASON_JIT, NULL, 0, &a), 0);
	assert_int_equal(prof_model_location(m, 0, 2, EV_REASON_JIT, NULL, 0, &b), 0);
	m->n_types = PROF_TYPE_MAX;
	for (uint32_t i = 0; i < PROF_TYPE_MAX; i++)
		v[i] = i;
	/* So many that the values are in several pieces of memory. */
	for (uint32_t i = 0; i < 20000; i++) {
		const struct prof_label l = {.key = str_id(m, "n"), .num = i};

		assert_int_equal(prof_model_sample(m, i % 2 ? &a : &b, 1, &l, 1, v), 0);
		assert_int_equal(prof_model_sample(m, i % 2 ? &a : &b, 1, &l, 1, v), 0);
	}
	assert_int_equal(m->samples.n, 20000);
	vec_each (s, &m->samples) {
		for (uint32_t i = 0; i < PROF_TYPE_MAX; i++)
			assert_int_equal(s->value[i], 2 * i);
	}
	/* At the cap, which cannot be reached here, known samples still count. */
	m->values.max_bytes = m->values.used_bytes;
	for (uint32_t i = 0; m->samples.n < 100000; i++) {
		const struct prof_label l = {.key = str_id(m, "other"), .num = i};
		int r = prof_model_sample(m, &a, 1, &l, 1, v);

		if (r == -E2BIG)
			break;
		assert_int_equal(r, 0);
	}
	assert_true(m->samples.n < 100000);
	a = (uint32_t)m->samples.n;
	assert_int_equal(prof_model_sample(m, &b, 1, NULL, 0, v), -E2BIG);
	assert_int_equal(m->samples.n, a);
	prof_model_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_samples_have_a_value_for_each_type),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
