/* SPDX-License-Identifier: Apache-2.0 */
#include "profile_fixture.h"

/* ---- helpers -------------------------------------------------------------------------------- */

static uint64_t rnd_state;

static uint64_t rnd(uint64_t below) /* xorshift64*: repeats */
{
	rnd_state ^= rnd_state >> 12;
	rnd_state ^= rnd_state << 25;
	rnd_state ^= rnd_state >> 27;
	return (rnd_state * 0x2545f4914f6cdd1dULL >> 11) % below;
}

/* ---- aggregation ---------------------------------------------------------------------------- */

static void test_known_stack_is_ignored(void **state)
{
	struct ev_frame f1[] = {{.addr = 1, .image = 7, .space = EV_SPACE_IMAGE}, {.addr = 2}};
	struct ev_frame f2[] = {{.addr = 99}};
	struct ev_stack s = {
	        .hash = 5, .kernel = true, .walk = EV_WALK_DEPTH, .n = 2, .frames = f1};
	const struct ev_stack *got;
	struct prof_agg *a;
	bool is_new = false;

	(void)state;
	assert_int_equal(prof_agg_new(NULL, &a), 0);
	assert_null(prof_agg_stack(a, 5));
	assert_int_equal(prof_agg_add_stack(a, &s, &is_new), 0);
	assert_true(is_new);
	f1[0].addr = 77; /* copied, not borrowed */
	s.n = 1;
	s.frames = f2;
	assert_int_equal(prof_agg_add_stack(a, &s, &is_new), 0);
	assert_false(is_new);
	got = prof_agg_stack(a, 5);
	assert_non_null(got);
	assert_int_equal(got->n, 2);
	assert_true(got->kernel);
	assert_int_equal(got->walk, EV_WALK_DEPTH);
	assert_int_equal(got->frames[0].addr, 1);
	assert_int_equal(got->frames[0].image, 7);
	assert_int_equal(got->frames[1].addr, 2);
	assert_int_equal(prof_agg_stack_cnt(a), 1);
	assert_ptr_equal(prof_agg_stack_at(a, 0), got);
	assert_int_equal(prof_agg_stats(a)->stacks, 1);
	assert_int_equal(prof_agg_stats(a)->stacks_dropped, 0);
	assert_null(prof_agg_free(a));
}

static void test_stack_without_frames_is_kept(void **state)
{
	struct ev_stack s = {.hash = 9, .walk = EV_WALK_NO_REGS, .flags = EV_STACK_JIT};
	const struct ev_stack *got;
	struct prof_agg *a;

	(void)state;
	assert_int_equal(prof_agg_new(NULL, &a), 0);
	assert_int_equal(prof_agg_add_stack(a, &s, NULL), 0);
	got = prof_agg_stack(a, 9);
	assert_non_null(got);
	assert_int_equal(got->n, 0);
	assert_int_equal(got->walk, EV_WALK_NO_REGS);
	assert_int_equal(got->flags, EV_STACK_JIT);
	s.hash = 0;
	assert_int_equal(prof_agg_add_stack(a, &s, NULL), -EINVAL);
	assert_int_equal(prof_agg_stack_cnt(a), 1);
	prof_agg_free(a);
}

static void test_stack_limits_are_exact_and_counted(void **state)
{
	struct ev_frame frames[4] = {{.addr = 1}};
	struct prof_agg_limits by_cnt = {.max_stacks = 3};
	struct prof_agg_limits by_bytes = {.max_bytes = 10 * sizeof(struct ev_frame)};
	struct ev_stack s = {.n = 4, .frames = frames};
	bool is_new = true;
	struct prof_agg *a;

	(void)state;
	assert_int_equal(prof_agg_new(&by_cnt, &a), 0);
	for (s.hash = 1; s.hash <= 3; s.hash++)
		assert_int_equal(prof_agg_add_stack(a, &s, NULL), 0);
	assert_int_equal(prof_agg_add_stack(a, &s, &is_new), -E2BIG);
	assert_true(is_new); /* untouched */
	s.hash = 2;          /* known: no drop at the limit */
	assert_int_equal(prof_agg_add_stack(a, &s, NULL), 0);
	assert_int_equal(prof_agg_stats(a)->stacks, 3);
	assert_int_equal(prof_agg_stats(a)->stacks_dropped, 1);
	prof_agg_free(a);

	assert_int_equal(prof_agg_new(&by_bytes, &a), 0);
	s.hash = 1;
	assert_int_equal(prof_agg_add_stack(a, &s, NULL), 0);
	s.hash = 2;
	assert_int_equal(prof_agg_add_stack(a, &s, NULL), 0);
	s.hash = 3;
	s.n = 3; /* 11 of 10 */
	assert_int_equal(prof_agg_add_stack(a, &s, NULL), -E2BIG);
	assert_null(prof_agg_stack(a, 3));
	s.n = 2;
	assert_int_equal(prof_agg_add_stack(a, &s, NULL), 0);
	s.hash = 4;
	s.n = 0;
	assert_int_equal(prof_agg_add_stack(a, &s, NULL), 0);
	assert_int_equal(prof_agg_stats(a)->stacks, 4);
	assert_int_equal(prof_agg_stats(a)->stacks_dropped, 1);
	prof_agg_free(a);
}

static bool same_key(const struct ev_count *x, const struct ev_count *y)
{
	return x->proc.pid == y->proc.pid && x->proc.exec_id == y->proc.exec_id &&
	       x->proc.start_ns == y->proc.start_ns && x->tid == y->tid &&
	       x->foreign_ns == y->foreign_ns && x->kthread == y->kthread && x->epoch == y->epoch &&
	       x->ustack == y->ustack && x->kstack == y->kstack && x->cgroup_id == y->cgroup_id;
}

/* The naive array that prof_agg must agree with. */
struct naive {
	struct ev_count c[4096];
	size_t n, max;
	uint64_t dropped_samples, dropped_weight;
};

static int naive_add(struct naive *nv, const struct ev_count *c)
{
	for (size_t i = 0; i < nv->n; i++) {
		if (same_key(&nv->c[i], c)) {
			nv->c[i].samples += c->samples;
			nv->c[i].weight += c->weight;
			return 0;
		}
	}
	if (nv->n == nv->max) {
		nv->dropped_samples += c->samples;
		nv->dropped_weight += c->weight;
		return -E2BIG;
	}
	nv->c[nv->n++] = *c;
	return 0;
}

static void check_random_counts(struct naive *nv, uint64_t seed, uint32_t max_counts)
{
	struct prof_agg_limits lim = {.max_counts = max_counts};
	uint64_t samples = 0, weight = 0, kept_samples = 0, kept_weight = 0;
	const struct prof_agg_stats *st;
	struct prof_agg *a;

	rnd_state = seed;
	*nv = (struct naive){.max = max_counts};
	assert_int_equal(prof_agg_new(&lim, &a), 0);
	for (int i = 0; i < 6000; i++) {
		/* Small ranges, so that keys meet again and differ in one field at a time. */
		struct ev_count c = {.proc = {.pid = (uint32_t)rnd(3),
		                              .exec_id = (uint32_t)rnd(2),
		                              .start_ns = rnd(2)},
		                     .tid = (uint32_t)rnd(2),
		                     .foreign_ns = (uint8_t)rnd(2),
		                     .kthread = (uint8_t)rnd(2),
		                     .epoch = (uint16_t)rnd(2),
		                     .ustack = rnd(2) << 63,
		                     .kstack = rnd(2),
		                     .cgroup_id = rnd(2),
		                     .samples = rnd(100),
		                     .weight = rnd(1ULL << 40)};

		samples += c.samples;
		weight += c.weight;
		assert_int_equal(prof_agg_add_count(a, &c), naive_add(nv, &c));
	}
	st = prof_agg_stats(a);
	assert_int_equal(prof_agg_count_cnt(a), nv->n);
	assert_int_equal(st->counts, nv->n);
	for (size_t i = 0; i < nv->n; i++) {
		const struct ev_count *c = prof_agg_count_at(a, i);

		assert_true(same_key(c, &nv->c[i]));
		assert_int_equal(c->samples, nv->c[i].samples);
		assert_int_equal(c->weight, nv->c[i].weight);
		kept_samples += c->samples;
		kept_weight += c->weight;
	}
	assert_int_equal(st->samples, kept_samples);
	assert_int_equal(st->weight, kept_weight);
	assert_int_equal(st->counts_dropped_samples, nv->dropped_samples);
	assert_int_equal(st->counts_dropped_weight, nv->dropped_weight);
	assert_int_equal(samples, st->samples + st->counts_dropped_samples);
	assert_int_equal(weight, st->weight + st->counts_dropped_weight);
	prof_agg_free(a);
}

static void test_random_counts_add_up_exactly(void **state)
{
	struct naive *nv = calloc(1, sizeof(*nv));

	(void)state;
	assert_non_null(nv);
	for (uint64_t seed = 1; seed <= 4; seed++) {
		check_random_counts(nv, seed, ARRAY_SIZE(nv->c));
		assert_int_equal(nv->dropped_samples, 0);
		assert_in_range(nv->n, 1000, 3072); /* new ones and old ones */
		check_random_counts(nv, seed, 1 + (uint32_t)rnd(500));
		assert_true(nv->dropped_samples > 0);
	}
	free(nv);
}

static void test_intervals_are_subtracted_as_far_as_they_are_there(void **state)
{
	struct ev_count c = {.ustack = 1,
	                     .offcpu = 1,
	                     .samples = 3,
	                     .weight = 100,
	                     .runq_ns = 7,
	                     .longest_ns = 50};
	struct prof_agg *a;

	(void)state;
	assert_int_equal(prof_agg_new(NULL, &a), 0);
	assert_int_equal(prof_agg_add_count(a, &c), 0);
	c.samples = 1;
	c.weight = 60;
	c.runq_ns = 9;
	assert_int_equal(prof_agg_subtract_intervals(a, &c, 1), 0);
	assert_int_equal(prof_agg_count_at(a, 0)->samples, 2);
	assert_int_equal(prof_agg_count_at(a, 0)->weight, 40);
	assert_int_equal(prof_agg_count_at(a, 0)->runq_ns, 0);
	assert_int_equal(prof_agg_count_at(a, 0)->longest_ns, 50);
	assert_int_equal(prof_agg_stats(a)->intervals, 2);
	assert_true(c.samples == 0 && c.weight == 0 && c.runq_ns == 2);
	c.weight = 60;
	assert_int_equal(prof_agg_subtract_intervals(a, &c, 1), 0);
	assert_int_equal(prof_agg_count_at(a, 0)->weight, 0);
	assert_int_equal(c.weight, 20);
	c.ustack = 2; /* not there */
	assert_int_equal(prof_agg_subtract_intervals(a, &c, 1), 0);
	assert_int_equal(c.weight, 20);
	assert_int_equal(prof_agg_count_cnt(a), 1);
	assert_int_equal(prof_agg_subtract_intervals(a, NULL, 0), 0);
	prof_agg_free(a);
}

static void test_intervals_are_subtracted_whatever_their_waker_and_epoch(void **state)
{
	static const struct ev_count in[] = {
	        {.ustack = 1, .waker = 7, .samples = 4, .weight = 80, .longest_ns = 30},
	        {.ustack = 1, .waker = 8, .samples = 1, .weight = 50, .longest_ns = 50, .epoch = 2},
	        {.ustack = 1, .waker = 9, .samples = 1, .weight = 10, .longest_ns = 10},
	        {.ustack = 2, .waker = 8, .samples = 1, .weight = 90, .longest_ns = 90},
	        {.ustack = 1, .waker = 8, .samples = 1, .weight = 90, .longest_ns = 90, .tid = 3},
	};
	struct ev_count open[] = {
	        {.ustack = 1, .samples = 1, .weight = 45, .longest_ns = 45, .offcpu = 1},
	        {.ustack = 1,
	         .waker = 7,
	         .samples = 1,
	         .weight = 20,
	         .longest_ns = 20,
	         .offcpu = 1},
	        {.ustack = 1, .samples = 1, .weight = 70, .longest_ns = 70, .offcpu = 1},
	};
	static const uint64_t want[ARRAY_SIZE(in)] = {0, 0, 5, 90, 90};
	struct prof_agg *a;

	(void)state;
	assert_int_equal(prof_agg_new(NULL, &a), 0);
	for (size_t i = 0; i < ARRAY_SIZE(in); i++) {
		struct ev_count c = in[i];

		c.offcpu = 1;
		assert_int_equal(prof_agg_add_count(a, &c), 0);
	}
	assert_int_equal(prof_agg_subtract_intervals(a, open, 2), 0);
	assert_int_equal(prof_agg_count_at(a, 0)->weight, 60); /* its own waker */
	assert_int_equal(prof_agg_count_at(a, 1)->weight, 5);  /* the longest interval */
	assert_int_equal(prof_agg_count_at(a, 2)->weight, 10);
	/* More than one entry has. */
	assert_int_equal(prof_agg_subtract_intervals(a, open + 2, 1), 0);
	for (size_t i = 0; i < ARRAY_SIZE(in); i++)
		assert_int_equal(prof_agg_count_at(a, i)->weight, want[i]);
	for (size_t i = 0; i < ARRAY_SIZE(open); i++)
		assert_true(open[i].samples == 0 && open[i].weight == 0);
	assert_int_equal(prof_agg_stats(a)->intervals, 5);
	prof_agg_free(a);
}

static void test_newest_thread_name_stays(void **state)
{
	struct ev_thread t = {.proc = {.pid = 4, .exec_id = 1, .start_ns = 10}, .tid = 5};
	struct ev_proc_id other = t.proc;
	struct prof_agg *a;

	(void)state;
	assert_int_equal(prof_agg_new(NULL, &a), 0);
	assert_null(prof_agg_comm(a, &t.proc, 5));
	assert_int_equal(str_copy(t.comm, sizeof(t.comm), "old"), 0);
	assert_int_equal(prof_agg_add_thread(a, &t), 0);
	memset(t.comm, 'x', sizeof(t.comm)); /* no NUL: cut, not read past */
	assert_int_equal(prof_agg_add_thread(a, &t), 0);
	assert_string_equal(prof_agg_comm(a, &t.proc, 5), "xxxxxxxxxxxxxxx");
	assert_int_equal(str_copy(t.comm, sizeof(t.comm), "n"), 0);
	assert_int_equal(prof_agg_add_thread(a, &t), 0);
	assert_string_equal(prof_agg_comm(a, &t.proc, 5), "n");
	assert_null(prof_agg_comm(a, &t.proc, 6));
	other.exec_id = 2; /* another program in the same process */
	assert_null(prof_agg_comm(a, &other, 5));
	assert_int_equal(prof_agg_stats(a)->threads, 1);
	prof_agg_free(a);
}

#if OWN_ALLOCATOR
static void test_aggregation_without_memory(void **state)
{
	long live = alloc_live, k;
	int r = -ENOMEM;

	(void)state;
	for (k = 0; r < 0; k++) {
		struct prof_agg *a = NULL;

		alloc_left = k;
		r = prof_agg_new(NULL, &a);
		if (r == 0)
			r = fill_agg(a, 40);
		alloc_left = -1;
		assert_true(r == 0 || r == -ENOMEM);
		if (a) {
			const struct prof_agg_stats *st = prof_agg_stats(a);
			uint64_t lost = st->stacks_dropped + st->counts_dropped_samples +
			                st->threads_dropped;

			assert_int_equal(lost, r < 0);
			assert_int_equal(st->counts_dropped_weight,
			                 st->counts_dropped_samples * 10);
			assert_int_equal(st->stacks, prof_agg_stack_cnt(a));
			assert_int_equal(st->counts, prof_agg_count_cnt(a));
			assert_int_equal(fill_agg(a, 40), 0); /* memory is back */
			assert_int_equal(prof_agg_stack_cnt(a), 40);
			assert_int_equal(prof_agg_count_cnt(a), 40);
			assert_int_equal(prof_agg_stats(a)->threads, 40);
		}
		prof_agg_free(a);
		assert_int_equal(alloc_live, live);
	}
	assert_true(k > 15);
}

#endif

#if OWN_ALLOCATOR
static int fill_model(struct prof_model *m, uint32_t n)
{
	int64_t v[] = {1, 2};
	int r = 0;

	m->n_types = 2;
	for (uint32_t i = 0; i < n && r == 0; i++) {
		struct prof_function f = {.start_line = i};
		struct prof_mapping pm = {.start = i * 10, .limit = i * 10 + 10};
		struct prof_line lines[2] = {{.line = 1}, {.line = 2}};
		struct prof_label label = {.num = i};
		uint32_t map_id, loc_id;
		char name[16];

		(void)snprintf(name, sizeof(name), "f%u", i);
		r = prof_model_string(m, name, &f.name);
		if (r == 0)
			r = prof_model_function(m, &f, &lines[0].function);
		if (r == 0)
			r = prof_model_mapping(m, &pm, &map_id);
		if (r == 0)
			r = prof_model_location(m, map_id, i * 10 + 1, EV_REASON_NAMED, lines, 2,
			                        &loc_id);
		if (r == 0)
			r = prof_model_sample(m, &loc_id, 1, &label, 1, v);
		if (r == 0)
			r = prof_model_comment(m, "%s", name);
	}
	return r;
}

static void test_model_without_memory(void **state)
{
	long live = alloc_live, k;
	int r = -ENOMEM;

	(void)state;
	for (k = 0; r < 0; k++) {
		struct prof_model *m = NULL;
		struct prof_top *top = NULL;
		size_t n = 0;

		alloc_left = k;
		r = prof_model_new(&m);
		if (r == 0)
			r = fill_model(m, 40);
		if (r == 0)
			r = prof_model_top(m, 0, 100, &top, &n);
		alloc_left = -1;
		assert_true(r == 0 || r == -ENOMEM);
		assert_int_equal(n, r == 0 ? 40 + 40 : 0); /* lines without function: by mapping */
		if (m) {
			assert_int_equal(fill_model(m, 40), 0);
			assert_int_equal(m->functions.n, 40);
			assert_int_equal(m->mappings.n, 40);
			assert_int_equal(m->locations.n, 40);
			assert_int_equal(m->lines.n, 80);
			assert_int_equal(m->samples.n, 40);
			assert_int_equal(m->loc_ids.n, 40);
			assert_int_equal(m->labels.n, 40);
		}
		free(top);
		prof_model_free(m);
		assert_int_equal(alloc_live, live);
	}
	assert_true(k > 40);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known_stack_is_ignored),
		cmocka_unit_test(test_stack_without_frames_is_kept),
		cmocka_unit_test(test_stack_limits_are_exact_and_counted),
		cmocka_unit_test(test_random_counts_add_up_exactly),
		cmocka_unit_test(test_intervals_are_subtracted_as_far_as_they_are_there),
		cmocka_unit_test(test_intervals_are_subtracted_whatever_their_waker_and_epoch),
		cmocka_unit_test(test_newest_thread_name_stays),
#if OWN_ALLOCATOR
		cmocka_unit_test(test_aggregation_without_memory),
		cmocka_unit_test(test_model_without_memory),
#endif
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
