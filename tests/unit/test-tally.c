/* SPDX-License-Identifier: Apache-2.0 */
/* test-tally - counters of both sides, the sum of drops, notes. */
#include "tally/tally.h"

#include <setjmp.h>
#include <stdio.h>

#include <cmocka.h>

static const struct {
	const char *name;
	bool kernel;
	enum tally_kind kind;
	size_t id;
} all[] = {
#define X(id, name, unit, kind, help) {name, true, TALLY_##kind, ABI_CNT_##id},
#include "bpf/abi/counters.def"
#undef X
#define X(id, name, unit, kind, help) {name, false, TALLY_##kind, TALLY_##id},
#include "tally/counters.def"
#undef X
};

static void set(struct tally *t, size_t i, uint64_t v)
{
	if (all[i].kernel)
		t->kernel.v[all[i].id] = v;
	else
		tally_count(t, (enum tally_id)all[i].id, v);
}

static void test_each_counter_has_its_own_name_and_value(void **state)
{
	struct tally t = {0};
	struct pfa_counter c;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(all[i].name, all[k].name);
		set(&t, i, i + 1);
	}
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		assert_int_equal(tally_counter(&t, &t.kernel, i, &c), 0);
		assert_string_equal(c.name, all[i].name);
		assert_int_equal(c.value, i + 1);
		assert_true(c.unit[0] && c.help[0]);
	}
	assert_int_equal(tally_counter(&t, &t.kernel, ARRAY_SIZE(all), &c), -ENOENT);
	tally_reset(&t);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		assert_int_equal(tally_counter(&t, &t.kernel, i, &c), 0);
		assert_int_equal(c.value, 0);
	}
}

static void test_each_drop_is_in_the_sum_once(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		struct tally t = {0};

		set(&t, i, 7);
		assert_int_equal(tally_dropped(&t, &t.kernel), all[i].kind == TALLY_DROP ? 7 : 0);
	}
}

/* Running counts of the kernel side are the caller's, not the final ones. */
static void test_drops_are_those_of_the_counts_given(void **state)
{
	struct abi_counters now = {0};
	struct tally t = {0};

	(void)state;
	now.v[ABI_CNT_DROP_COUNTS_FULL] = 3;
	t.kernel.v[ABI_CNT_DROP_COUNTS_FULL] = 5;
	tally_count(&t, TALLY_DROP_UNREAD, 2);
	assert_int_equal(tally_dropped(&t, &now), 5);
	assert_int_equal(tally_dropped(&t, &t.kernel), 7);
}

struct seen {
	size_t n;
	const char *name;
	uint64_t value;
	int ret;
};

static int on_counter(void *arg, const char *name, uint64_t value)
{
	struct seen *s = arg;

	s->n++;
	s->name = name;
	s->value = value;
	return s->ret;
}

static void test_only_counters_of_the_kind_are_enumerated(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		for (int kind = TALLY_TICK; kind <= TALLY_INFO; kind++) {
			struct tally t = {0};
			struct seen s = {0};

			set(&t, i, i + 1);
			assert_int_equal(tally_each(&t, (enum tally_kind)kind, on_counter, &s), 0);
			assert_int_equal(s.n, kind == (int)all[i].kind);
			if (s.n) {
				assert_string_equal(s.name, all[i].name);
				assert_int_equal(s.value, i + 1);
			}
		}
}

static void test_enumeration_ends_with_the_first_failure(void **state)
{
	struct seen s = {.ret = -ENOMEM};
	struct tally t = {0};

	(void)state;
	tally_count(&t, TALLY_RING_BAD, 1);
	tally_count(&t, TALLY_SB_LOST, 1);
	assert_int_equal(tally_each(&t, TALLY_LOSS, on_counter, &s), -ENOMEM);
	assert_int_equal(s.n, 1);
}

static void test_offcpu_losses_are_added_and_samples_are_not(void **state)
{
	struct abi_counters sum = {0}, offcpu;

	(void)state;
	for (size_t i = 0; i < ABI_CNT_MAX; i++)
		offcpu.v[i] = 10;
	tally_add_offcpu(&sum, &offcpu);
	for (size_t i = 0; i < ABI_CNT_MAX; i++) {
		if (all[i].kind == TALLY_LOSS)
			assert_int_equal(sum.v[i], 10);
		if (all[i].kind == TALLY_DROP || all[i].kind == TALLY_TICK)
			assert_int_equal(sum.v[i], 0);
	}
	assert_int_equal(sum.v[ABI_CNT_PROG_NS], 10);
	assert_int_equal(sum.v[ABI_CNT_SEEN], 0);
	assert_int_equal(sum.v[ABI_CNT_KEPT], 0);
}

static void test_notes_are_bounded_and_said_once(void **state)
{
	struct tally t = {0};

	(void)state;
	for (int i = 0; i < 2 * TALLY_NOTES_MAX; i++) {
		tally_note(&t, "note %d", i);
		tally_note(&t, "note %d", i);
	}
	assert_int_equal(t.n_notes, TALLY_NOTES_MAX);
	for (int i = 0; i < TALLY_NOTES_MAX; i++) {
		char want[32];

		(void)snprintf(want, sizeof(want), "note %d", i);
		assert_string_equal(t.notes[i], want);
	}
	tally_reset(&t);
	assert_int_equal(t.n_notes, 0);
	tally_note(&t, "note 0");
	assert_int_equal(t.n_notes, 1);
	tally_reset(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_each_counter_has_its_own_name_and_value),
	        cmocka_unit_test(test_each_drop_is_in_the_sum_once),
	        cmocka_unit_test(test_drops_are_those_of_the_counts_given),
	        cmocka_unit_test(test_only_counters_of_the_kind_are_enumerated),
	        cmocka_unit_test(test_enumeration_ends_with_the_first_failure),
	        cmocka_unit_test(test_offcpu_losses_are_added_and_samples_are_not),
	        cmocka_unit_test(test_notes_are_bounded_and_said_once),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
