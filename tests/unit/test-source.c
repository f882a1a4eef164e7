/* SPDX-License-Identifier: Apache-2.0 */
/* test-source - what modes refuse before a start, and what off-CPU profiles say of switches that
 * were not reported. */
#include "source/source_priv.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>

#include <cmocka.h>

#include "fake_child.h"

static uint32_t notes_of_waits(const struct pfa_options *o, uint64_t seen)
{
	struct tally tally = {0};
	struct target t;
	struct src_env env = {.o = o, .target = &t, .tally = &tally};
	uint32_t n;

	tgt_init(&t, o);
	assert_int_equal(tgt_open(&t, NULL), 0);
	tally.user[TALLY_OFFCPU_SEEN] = seen;
	src_offcpu_note_hidden(&env, NULL);
	n = (uint32_t)tally.n_notes;
	if (n && !strstr(tally.notes[0],
	                 seen ? "no off-CPU intervals of 1 of the 2 processes, although 1 of their "
	                        "threads"
	                      : "no off-CPU intervals, although 1 thread of the target is blocked"))
		fail_msg("%s", tally.notes[0]);
	tgt_done(&t);
	tally_reset(&tally);
	return n;
}

static void test_sleepers_without_an_interval_are_noted(void **state)
{
	static const char *const comms[] = {"a", NULL};
	int32_t kid = child(), own[] = {gettid(), 0}, both[] = {gettid(), kid, 0};
	struct pfa_options o = {.target = PFA_TARGET_PID, .pid = kid};
	struct proc_status st = {0};

	(void)state;
	while (!st.asleep)
		assert_int_equal(proc_status_read((uint32_t)kid, &st, NULL), 0);
	assert_int_equal(notes_of_waits(&o, 0), 1);
	assert_int_equal(notes_of_waits(&o, 1), 0); /* it was seen */
	/* Asked for less than all: it may have been seen, and not be wanted. */
	o.offcpu_min_ns = 1;
	assert_int_equal(notes_of_waits(&o, 0), 0);
	o.offcpu_min_ns = 0;
	o.offcpu_states = 1U << EV_OFFCPU_PREEMPTED;
	assert_int_equal(notes_of_waits(&o, 0), 0);
	o.offcpu_states = 0;
	o.comms = comms;
	assert_int_equal(notes_of_waits(&o, 0), 0);
	/* This thread runs; of its threads and the child's, only those that are asked for. */
	o = (struct pfa_options){.target = PFA_TARGET_PID, .tids = own};
	assert_int_equal(notes_of_waits(&o, 0), 0);
	o.tids = both;
	assert_int_equal(notes_of_waits(&o, 0), 1);
	/* Some were, and none of the child's. */
	assert_int_equal(notes_of_waits(&o, 1), 1);
	end(kid);
}

int __wrap_proc_sysctl(const char *name, int64_t *ret);
int __real_proc_sysctl(const char *name, int64_t *ret);
static int64_t max_rate;

int __wrap_proc_sysctl(const char *name, int64_t *ret)
{
	if (!max_rate || strcmp(name, "kernel/perf_event_max_sample_rate") != 0)
		return __real_proc_sysctl(name, ret);
	*ret = max_rate;
	return 0;
}

/* The limit is of samples: off-CPU intervals and statistics start all the same. */
static void test_a_rate_above_the_limit_is_refused_to_samples_alone(void **state)
{
	struct pfa_options o = {.sample_rate_hz = 1001};
	struct tally tally = {0};
	const uint32_t cpu = 0;
	struct src_env env = {.o = &o, .tally = &tally, .cpus = &cpu, .n_cpus = 1};
	struct err err = {0};
	void *src = NULL;

	(void)state;
	max_rate = 1000;
	assert_int_equal(src_oncpu.open(&env, &src, &err), -EINVAL);
	assert_null(src);
	assert_int_equal(err.cause, ERR_SYSCTL);
	assert_string_equal(err.object, "kernel.perf_event_max_sample_rate");
	assert_non_null(strstr(err.msg, "kernel.perf_event_max_sample_rate=1000"));
	assert_int_equal(src_offcpu.open(&env, &src, &err), 0);
	src = src_offcpu.free(src);
	o.sample_rate_hz = 1000;
	assert_int_equal(src_oncpu.open(&env, &src, &err), 0);
	src = src_oncpu.free(src);
	max_rate = 0;
}

/* Returns the number of notes with so many intervals, and so many more that were missed. */
static size_t notes_of_missed(uint64_t seen, uint64_t end, uint64_t begin, uint64_t min_ns)
{
	const struct pfa_options o = {.offcpu_min_ns = min_ns};
	struct tally tally = {0};
	struct src_env env = {.o = &o, .tally = &tally};
	size_t n;

	tally.user[TALLY_OFFCPU_SEEN] = seen;
	tally.offcpu.v[ABI_CNT_OFFCPU_IN_MISSED] = end;
	tally.offcpu.v[ABI_CNT_OFFCPU_OUT_MISSED] = begin;
	src_offcpu_note_missed(&env);
	n = tally.n_notes;
	assert_true(n == 0 ||
	            strstr(tally.notes[0], "events were missed; the times of these intervals"));
	tally_reset(&tally);
	return n;
}

static void test_missed_switches_are_noted_where_they_are_many(void **state)
{
	(void)state;
	assert_int_equal(notes_of_missed(1000, 5, 5, 0), 0);
	assert_int_equal(notes_of_missed(1000, 6, 5, 0), 1);
	assert_int_equal(notes_of_missed(1000, 6, 5, 1), 0);
	assert_int_equal(notes_of_missed(2000, 10, 5, 0), 0);
	assert_int_equal(notes_of_missed(1000, 11, 0, 0), 1);
	assert_int_equal(notes_of_missed(1100, 11, 0, 0), 0);
	assert_int_equal(notes_of_missed(0, 0, 11, 0), 1);
}

/* Each source with what it needs of the others' calls: a table row that lacks one would be called.
 */
static void test_each_source_has_the_calls_that_are_always_made(void **state)
{
	uint32_t modes = 0;

	(void)state;
	for (size_t i = 0; i < SRC_CNT; i++) {
		const struct source *s = src_all[i];

		assert_true(s->mode && !(modes & s->mode));
		modes |= s->mode;
		assert_non_null(s->title);
		assert_non_null(s->programs);
		assert_true(s->open && s->load && s->start && s->end && s->encode && s->free);
		assert_true(s->walks == (s->kind && s->built && s->statistics));
		assert_true(s->walks != (s->product != NULL));
		assert_null(s->free(NULL));
		/* Each of its own. */
		for (size_t k = 0; k < i; k++)
			assert_true(src_all[k]->output != s->output);
	}
	assert_int_equal(modes, PFA_MODE_PROFILE | PFA_MODE_OFFCPU | PFA_MODE_PMU);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_a_rate_above_the_limit_is_refused_to_samples_alone),
	        cmocka_unit_test(test_each_source_has_the_calls_that_are_always_made),
	        cmocka_unit_test(test_sleepers_without_an_interval_are_noted),
	        cmocka_unit_test(test_missed_switches_are_noted_where_they_are_many),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
