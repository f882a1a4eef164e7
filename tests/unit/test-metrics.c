/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <cmocka.h>

#include "bpf/abi/abi_sched.h"
#include "metrics/metrics.h"

#define VALUES 20000

static uint64_t rnd_state;

static uint64_t rnd(void) /* xorshift64: repeats */
{
	rnd_state ^= rnd_state << 13;
	rnd_state ^= rnd_state >> 7;
	rnd_state ^= rnd_state << 17;
	return rnd_state;
}

/* ---- no memory ------------------------------------------------------------------------------ */

static int allocations_left = -1; /* that succeed; -1: all */

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size);
char *__real_strdup(const char *s);
char *__wrap_strdup(const char *s);

static bool refused(void)
{
	return allocations_left >= 0 && allocations_left-- == 0;
}

void *__wrap_calloc(size_t n, size_t size)
{
	return refused() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
	return refused() ? NULL : __real_realloc(p, size);
}

char *__wrap_strdup(const char *s)
{
	return refused() ? NULL : __real_strdup(s);
}

/* ---- buckets -------------------------------------------------------------------------------- */

static void test_buckets_are_those_of_the_kernel_side(void **state)
{
	(void)state;
	assert_int_equal(MET_BUCKETS, ABI_HIST_BUCKETS);
	assert_int_equal(MET_SUB_BITS, ABI_HIST_SUB_BITS);
	assert_int_equal(MET_OCTAVES, ABI_HIST_OCTAVES);
	for (uint32_t b = 0; b < MET_BUCKETS; b++) {
		uint64_t low = met_hist_low(b), high = met_hist_high(b);

		assert_true(low < high);
		assert_int_equal(abi_hist_bucket(low), b);
		assert_int_equal(abi_hist_bucket(high - 1), b);
		if (b > 0)
			assert_int_equal(met_hist_high(b - 1), low);
		/* the header guarantees this of the middle */
		if (b < MET_BUCKETS - 1)
			assert_true((high - 1 - low) * 1000 <= low * 16);
	}
	assert_int_equal(met_hist_low(0), 0);
	assert_int_equal(met_hist_low(MET_BUCKETS - 1), (1ULL << 42) - (1ULL << 35));
	assert_int_equal(met_hist_high(MET_BUCKETS - 1), UINT64_MAX);
	assert_int_equal(abi_hist_bucket(UINT64_MAX), MET_BUCKETS - 1);
}

static void test_times_and_reasons_are_numbered_as_in_the_kernel(void **state)
{
	static const int pairs[][2] = {
	        {(int)MET_SLICE, (int)ABI_HIST_SLICE},
	        {(int)MET_RUNQ, (int)ABI_HIST_RUNQ},
	        {(int)MET_OFF, (int)ABI_HIST_BLOCKED},
	        {(int)MET_TIME_CNT, (int)ABI_HIST_CNT},
	        {(int)MET_REASON_PREEMPTED, (int)ABI_REASON_PREEMPTED},
	        {(int)MET_REASON_YIELDED, (int)ABI_REASON_YIELDED},
	        {(int)MET_REASON_SLEEP, (int)ABI_REASON_SLEEP},
	        {(int)MET_REASON_IOWAIT, (int)ABI_REASON_IOWAIT},
	        {(int)MET_REASON_UNINTERRUPTIBLE, (int)ABI_REASON_UNINTERRUPTIBLE},
	        {(int)MET_REASON_STOPPED, (int)ABI_REASON_STOPPED},
	        {(int)MET_REASON_EXITED, (int)ABI_REASON_EXITED},
	        {(int)MET_REASON_CNT, (int)ABI_REASON_CNT},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++)
		assert_int_equal(pairs[i][0], pairs[i][1]);
	assert_true(MET_COUNTER_CNT <= ABI_COUNTERS_MAX);
	assert_true(ABI_CORE_TYPES_MAX <= MET_CORE_TYPES_MAX);
	assert_true(ABI_CORE_TYPES_MAX * ABI_COUNTERS_MAX <= MET_COUNTERS_MAX);
	assert_true(ABI_SCHED_PROCS < MET_PROCS_MAX);
	assert_string_equal(met_reason_name(MET_REASON_IOWAIT), "io_wait");
	assert_string_equal(met_counter_name(MET_COUNTER_BRANCH_MISSES), "branch-misses");
	assert_true(met_counter_is_hardware(MET_COUNTER_BRANCH_MISSES));
	assert_false(met_counter_is_hardware(MET_COUNTER_PAGE_FAULTS));
}

/* ---- summaries ------------------------------------------------------------------------------ */

static struct met_hist hist; /* 19 KB */

static void hist_of(const uint64_t *v, size_t n)
{
	hist = (struct met_hist){0};
	for (size_t i = 0; i < n; i++)
		hist.bucket[abi_hist_bucket(v[i])]++;
}

static void assert_near(uint64_t got, uint64_t want, const char *what)
{
	uint64_t diff = got > want ? got - want : want - got;

	if (diff > want / 100 || (want < 64 && diff != 0))
		fail_msg("%s: got %llu, want %llu", what, (unsigned long long)got,
		         (unsigned long long)want);
}

/* Nearest rank, the other way about: the least value with at least that share at or below it. */
static uint64_t exact(const uint64_t *sorted, size_t n, size_t per_mille)
{
	size_t i = 0;

	while ((i + 1) * 1000 < per_mille * n)
		i++;
	return sorted[i];
}

/* Sorts @v. */
static void check(uint64_t *v, size_t n, uint64_t limit)
{
	struct met_summary s;
	uint64_t sum = 0;

	hist_of(v, n);
	for (size_t i = 0; i < n; i++)
		sum += v[i];
	qsort(v, n, sizeof(*v), u64_cmp);
	met_hist_summary(&hist, sum, limit, &s);
	assert_int_equal(s.count, n);
	assert_int_equal(s.total_ns, sum);
	assert_int_equal(s.mean_ns, sum / n);
	assert_near(s.min_ns, v[0], "min");
	assert_near(s.max_ns, v[n - 1], "max");
	assert_near(s.p50_ns, exact(v, n, 500), "p50");
	assert_near(s.p95_ns, exact(v, n, 950), "p95");
	assert_near(s.p99_ns, exact(v, n, 990), "p99");
	assert_near(s.p999_ns, exact(v, n, 999), "p99.9");
	assert_true(s.min_ns <= s.p50_ns && s.p50_ns <= s.p95_ns && s.p95_ns <= s.p99_ns &&
	            s.p99_ns <= s.p999_ns && s.p999_ns <= s.max_ns);
	assert_true(s.min_ns <= s.mean_ns && s.mean_ns <= s.max_ns);
	assert_true(s.max_ns <= limit);
}

enum shape { UNIFORM, LOG_UNIFORM, BIMODAL, SHAPE_CNT };

static uint64_t draw(enum shape shape)
{
	switch (shape) {
	case UNIFORM:
		return rnd() % 10000000;
	case LOG_UNIFORM: /* up to an hour */
		return (uint64_t)exp2((double)(rnd() % 4170000) / 100000);
	case BIMODAL: /* 2 µs, and 1 in 20 of 30 ms */
		return rnd() % 20 ? 1500 + rnd() % 1000 : 29000000 + rnd() % 2000000;
	case SHAPE_CNT:
		break;
	}
	return 0;
}

static void test_percentiles_are_within_one_percent(void **state)
{
	static uint64_t v[VALUES];
	static const size_t sizes[] = {1, 2, 3, 19, 20, 99, 100, 101, 999, 1000, 1001, VALUES};

	(void)state;
	rnd_state = 88172645463325252ULL;
	for (int shape = 0; shape < SHAPE_CNT; shape++) {
		for (size_t k = 0; k < ARRAY_SIZE(sizes); k++) {
			for (int turn = 0; turn < 5; turn++) {
				for (size_t i = 0; i < sizes[k]; i++)
					v[i] = draw((enum shape)shape);
				check(v, sizes[k], UINT64_MAX);
			}
		}
	}
}

static const uint64_t constants[] = {0,
                                     1,
                                     62,
                                     63,
                                     64,
                                     65,
                                     127,
                                     128,
                                     129,
                                     1000,
                                     4095,
                                     4096,
                                     1000000,
                                     999999999,
                                     1000000000,
                                     1234567,
                                     1ULL << 40,
                                     1ULL << 41,
                                     (1ULL << 42) - (1ULL << 35) - 1};

static void test_constants_and_single_values(void **state)
{
	static uint64_t v[1000];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(constants); i++) {
		for (size_t k = 0; k < ARRAY_SIZE(v); k++)
			v[k] = constants[i];
		check(v, ARRAY_SIZE(v), UINT64_MAX);
		check(v, 2, UINT64_MAX);
		check(v, 1, UINT64_MAX);
		check(v, ARRAY_SIZE(v), constants[i]);
	}
}

static void test_a_single_value_is_exact(void **state)
{
	static const uint64_t values[] = {0,          63,         64,         1234567,
	                                  1ULL << 41, 1ULL << 42, 1ULL << 50, UINT64_MAX};
	struct met_summary s;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		uint64_t v = values[i];

		hist_of(&v, 1);
		met_hist_summary(&hist, v, UINT64_MAX, &s);
		assert_int_equal(s.count, 1);
		assert_int_equal(s.min_ns, v);
		assert_int_equal(s.max_ns, v);
		assert_int_equal(s.mean_ns, v);
		assert_int_equal(s.p50_ns, v);
		assert_int_equal(s.p999_ns, v);
	}
}

static void test_extremes_together(void **state)
{
	uint64_t v[] = {0, 63, 64, 1ULL << 42};

	(void)state;
	check(v, ARRAY_SIZE(v), UINT64_MAX);
	v[0] = v[1] = 64;
	v[2] = 0;
	check(v, ARRAY_SIZE(v), UINT64_MAX);
}

static void test_longest_values_are_taken_for_their_mean(void **state)
{
	uint64_t v[] = {1000, 1ULL << 43, 3ULL << 43};
	struct met_summary s;

	(void)state;
	hist_of(v, ARRAY_SIZE(v));
	met_hist_summary(&hist, v[0] + v[1] + v[2], UINT64_MAX, &s);
	assert_near(s.max_ns, 1ULL << 44, "max");
	assert_near(s.p50_ns, 1ULL << 44, "p50");
	/* a sum that tells nothing: the least that they can be */
	met_hist_summary(&hist, 0, UINT64_MAX, &s);
	assert_int_equal(s.max_ns, (1ULL << 42) - (1ULL << 35));
	hist.bucket[MET_BUCKETS - 2] = UINT64_MAX / 2;
	met_hist_summary(&hist, UINT64_MAX, UINT64_MAX, &s);
	assert_int_equal(s.max_ns, (1ULL << 42) - (1ULL << 35));
}

static void test_nothing_is_longer_than_the_capture(void **state)
{
	uint64_t v[100];
	struct met_summary s;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(v); i++)
		v[i] = 999999999;
	hist_of(v, ARRAY_SIZE(v));
	met_hist_summary(&hist, 100 * v[0], 1000000000, &s);
	assert_true(met_hist_high(abi_hist_bucket(v[0])) > 1000000000);
	assert_true(s.max_ns <= 1000000000);
	met_hist_summary(&hist, 100 * v[0], 5, &s); /* whatever the histogram says */
	assert_int_equal(s.min_ns, 5);
	assert_int_equal(s.mean_ns, 5);
	assert_int_equal(s.p50_ns, 5);
	assert_int_equal(s.p999_ns, 5);
	assert_int_equal(s.max_ns, 5);
}

static void test_nothing_gives_zeroes(void **state)
{
	static const struct met_summary zero;
	struct met_summary s;

	(void)state;
	memset(&s, 0xff, sizeof(s));
	hist = (struct met_hist){0};
	met_hist_summary(&hist, 77, 88, &s);
	assert_memory_equal(&s, &zero, sizeof(s));
}

static void test_ranks_of_counts_that_a_product_does_not_hold(void **state)
{
	struct met_summary s;

	(void)state;
	hist = (struct met_hist){0};
	hist.bucket[1] = 1ULL << 62;
	hist.bucket[2] = 1ULL << 61;
	met_hist_summary(&hist, UINT64_MAX, UINT64_MAX, &s);
	assert_int_equal(s.p50_ns, 1);
	assert_int_equal(s.p95_ns, 2);
	assert_int_equal(s.count, 3ULL << 61);
}

static void test_merged_histograms_are_that_of_all_values(void **state)
{
	static struct met_hist other, both;
	static uint64_t v[2000];

	(void)state;
	rnd_state = 4711;
	for (size_t i = 0; i < ARRAY_SIZE(v); i++)
		v[i] = draw(LOG_UNIFORM);
	hist_of(v, 700);
	other = hist;
	hist_of(v + 700, ARRAY_SIZE(v) - 700);
	both = (struct met_hist){0};
	met_hist_add(&both, &hist);
	met_hist_add(&both, &other);
	hist_of(v, ARRAY_SIZE(v));
	assert_memory_equal(&both, &hist, sizeof(both));
}

/* ---- counters ------------------------------------------------------------------------------- */

static void add(struct met_entry *e, enum met_counter_id id, uint32_t core_type, int error,
                uint64_t value, uint64_t enabled, uint64_t running)
{
	assert_int_equal(vec_push(&e->counters, (struct met_counter){.id = id,
	                                                             .core_type = core_type,
	                                                             .error = error,
	                                                             .value = value,
	                                                             .enabled_ns = enabled,
	                                                             .running_ns = running}),
	                 0);
}

static void test_counters_add_up_over_core_types(void **state)
{
	struct met_entry e;
	uint64_t v = 77;

	(void)state;
	met_entry_init(&e);
	assert_int_equal(met_counter_find(&e, MET_COUNTER_CYCLES, &v), -ENODATA);
	add(&e, MET_COUNTER_CYCLES, 0, 0, 100, 10, 10);
	add(&e, MET_COUNTER_CYCLES, 1, 0, 50, 10, 5);
	add(&e, MET_COUNTER_INSTRUCTIONS, 0, -ENOENT, 9, 0, 0);
	add(&e, MET_COUNTER_INSTRUCTIONS, 1, -EACCES, 9, 0, 0);
	add(&e, MET_COUNTER_BRANCHES, 0, -ENOENT, 9, 0, 0);
	add(&e, MET_COUNTER_BRANCHES, 1, 0, 3, 1, 1);
	add(&e, MET_COUNTER_CACHE_MISSES, 0, 0, 0, 10, 0); /* never had a place */
	add(&e, MET_COUNTER_PAGE_FAULTS, 0, 0, 0, 0, 0);   /* none happened */
	assert_int_equal(met_counter_find(&e, MET_COUNTER_INSTRUCTIONS, &v), -ENOENT);
	assert_int_equal(met_counter_find(&e, MET_COUNTER_CACHE_MISSES, &v), -ENODATA);
	assert_int_equal(v, 77);
	assert_int_equal(met_counter_find(&e, MET_COUNTER_CYCLES, &v), 0);
	assert_int_equal(v, 150);
	assert_int_equal(met_counter_find(&e, MET_COUNTER_BRANCHES, &v), 0);
	assert_int_equal(v, 3);
	assert_int_equal(met_counter_find(&e, MET_COUNTER_PAGE_FAULTS, &v), 0);
	assert_int_equal(v, 0);
	met_entry_done(&e);
}

static void test_ratios_need_both_counters_on_the_same_cores(void **state)
{
	struct met_entry e;
	double ipc = 77;

	(void)state;
	met_entry_init(&e);
	assert_int_equal(met_ratio(&e, MET_COUNTER_INSTRUCTIONS, MET_COUNTER_CYCLES, &ipc),
	                 -ENODATA);
	add(&e, MET_COUNTER_CYCLES, 0, 0, 100, 1, 1);
	add(&e, MET_COUNTER_CYCLES, 1, 0, 100, 1, 1);
	add(&e, MET_COUNTER_CYCLES, 2, 0, 0, 1, 1);
	add(&e, MET_COUNTER_INSTRUCTIONS, 0, 0, 300, 1, 1);
	add(&e, MET_COUNTER_INSTRUCTIONS, 1, -ENOENT, 0, 0, 0);
	add(&e, MET_COUNTER_INSTRUCTIONS, 2, 0, 0, 1, 1);
	assert_int_equal(met_ratio_on(&e, 1, MET_COUNTER_INSTRUCTIONS, MET_COUNTER_CYCLES, &ipc),
	                 -ENODATA);
	assert_int_equal(met_ratio_on(&e, 2, MET_COUNTER_INSTRUCTIONS, MET_COUNTER_CYCLES, &ipc),
	                 -ENODATA);
	assert_true(ipc == 77);
	assert_int_equal(met_ratio_on(&e, 0, MET_COUNTER_INSTRUCTIONS, MET_COUNTER_CYCLES, &ipc),
	                 0);
	assert_true(ipc == 3);
	ipc = 0;
	assert_int_equal(met_ratio(&e, MET_COUNTER_INSTRUCTIONS, MET_COUNTER_CYCLES, &ipc), 0);
	assert_true(ipc == 3);
	/* Neither may the cycles count of the cores that count no instructions. */
	assert_int_equal(met_ratio(&e, MET_COUNTER_CYCLES, MET_COUNTER_INSTRUCTIONS, &ipc), 0);
	assert_true(ipc == 100.0 / 300);
	met_entry_done(&e);
}

static void test_scaling(void **state)
{
	static const uint64_t cases[][4] = {
	        /* raw, enabled, running, scaled */
	        {100, 10, 5, 200},
	        {100, 10, 10, 100},
	        {100, 10, 11, 100},
	        {100, 10, 0, 100},
	        {1ULL << 60, 3, 2, 3ULL << 59},
	        {UINT64_MAX, 3, 2, UINT64_MAX},
	        {UINT64_MAX - 1, UINT64_MAX, 1, UINT64_MAX},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(met_counter_scale(cases[i][0], cases[i][1], cases[i][2]),
		                 cases[i][3]);
}

/* ---- snapshots ------------------------------------------------------------------------------ */

static void add_thread(struct met_entry *e, uint32_t tid, uint64_t on_ns)
{
	assert_int_equal(vec_push(&e->threads, (struct met_thread){.tid = tid, .ns = {on_ns}}), 0);
}

static void test_order_of_output(void **state)
{
	static const uint64_t procs[][2] = {{0, 1000}, {5, 1}, {9, 50}, {7, 50}};
	static const uint32_t want[] = {7, 9, 5, 0};
	struct met_snapshot *s;

	(void)state;
	assert_int_equal(met_snapshot_new(&s), 0);
	met_snapshot_sort(s); /* empty lists */
	for (size_t i = 0; i < ARRAY_SIZE(procs); i++) {
		struct met_entry e;

		met_entry_init(&e);
		e.pid = (uint32_t)procs[i][0];
		e.ns[MET_SLICE] = procs[i][1];
		add_thread(&e, 3, 5);
		add_thread(&e, 2, 5);
		add_thread(&e, 1, 9);
		add(&e, MET_COUNTER_PAGE_FAULTS, 0, 0, 0, 0, 0);
		add(&e, MET_COUNTER_CYCLES, 1, 0, 0, 0, 0);
		add(&e, MET_COUNTER_CYCLES, 0, 0, 0, 0, 0);
		assert_int_equal(vec_push(&s->procs, e), 0);
	}
	met_snapshot_sort(s);
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		const struct met_entry *e = &s->procs.p[i];

		assert_int_equal(e->pid, want[i]);
		assert_int_equal(e->threads.p[0].tid, 1);
		assert_int_equal(e->threads.p[1].tid, 2);
		assert_int_equal(e->threads.p[2].tid, 3);
		assert_int_equal(e->counters.p[0].core_type, 0);
		assert_int_equal(e->counters.p[1].id, MET_COUNTER_CYCLES);
		assert_int_equal(e->counters.p[2].id, MET_COUNTER_PAGE_FAULTS);
	}
	met_snapshot_free(s);
}

static void test_strings_of_a_snapshot_are_copies_and_capped(void **state)
{
	struct met_snapshot *s;
	char text[] = "word";

	(void)state;
	assert_null(met_snapshot_free(NULL));
	assert_int_equal(met_snapshot_new(&s), 0);
	for (int i = 0; i < MET_CORE_TYPES_MAX; i++)
		assert_int_equal(met_snapshot_core_type(s, text), 0);
	assert_int_equal(met_snapshot_core_type(s, text), -E2BIG);
	for (int i = 0; i < MET_NOTES_MAX; i++)
		assert_int_equal(met_snapshot_note(s, text), 0);
	for (int i = 0; i < MET_TAGS_MAX; i++)
		assert_int_equal(met_snapshot_label(s, text, text), 0);
	assert_int_equal(met_snapshot_note(s, text), -E2BIG);
	assert_int_equal(met_snapshot_label(s, text, text), -E2BIG);
	for (int i = 0; i < MET_LABELS_MAX; i++)
		assert_int_equal(met_entry_label(&s->all, text, text), 0);
	assert_int_equal(met_entry_label(&s->all, text, text), -E2BIG);
	memset(text, 'x', 4);
	assert_string_equal(s->core_types.p[0], "word");
	assert_string_equal(s->notes.p[MET_NOTES_MAX - 1], "word");
	assert_string_equal(s->labels.p[0].key, "word");
	assert_string_equal(s->labels.p[0].value, "word");
	assert_string_equal(s->all.labels.p[0].key, "word");
	assert_string_equal(s->all.labels.p[0].value, "word");
	met_snapshot_freep(&s);
	assert_null(s);
}

static void test_no_memory_adds_nothing(void **state)
{
	struct met_snapshot *s = NULL;

	(void)state;
	allocations_left = 0;
	assert_int_equal(met_snapshot_new(&s), -ENOMEM);
	assert_null(s);
	allocations_left = -1;
	assert_int_equal(met_snapshot_new(&s), 0);
	for (int n = 0; n < 2; n++) { /* the copy, the list */
		allocations_left = n;
		assert_int_equal(met_snapshot_note(s, "x"), -ENOMEM);
		allocations_left = n;
		assert_int_equal(met_snapshot_core_type(s, "x"), -ENOMEM);
	}
	for (int n = 0; n < 3; n++) {
		allocations_left = n;
		assert_int_equal(met_snapshot_label(s, "x", "y"), -ENOMEM);
		allocations_left = n;
		assert_int_equal(met_entry_label(&s->all, "x", "y"), -ENOMEM);
	}
	allocations_left = -1;
	assert_int_equal(s->notes.n + s->core_types.n + s->labels.n + s->all.labels.n, 0);
	met_snapshot_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_buckets_are_those_of_the_kernel_side),
	        cmocka_unit_test(test_times_and_reasons_are_numbered_as_in_the_kernel),
	        cmocka_unit_test(test_percentiles_are_within_one_percent),
	        cmocka_unit_test(test_constants_and_single_values),
	        cmocka_unit_test(test_a_single_value_is_exact),
	        cmocka_unit_test(test_extremes_together),
	        cmocka_unit_test(test_longest_values_are_taken_for_their_mean),
	        cmocka_unit_test(test_nothing_is_longer_than_the_capture),
	        cmocka_unit_test(test_nothing_gives_zeroes),
	        cmocka_unit_test(test_ranks_of_counts_that_a_product_does_not_hold),
	        cmocka_unit_test(test_merged_histograms_are_that_of_all_values),
	        cmocka_unit_test(test_counters_add_up_over_core_types),
	        cmocka_unit_test(test_ratios_need_both_counters_on_the_same_cores),
	        cmocka_unit_test(test_scaling),
	        cmocka_unit_test(test_order_of_output),
	        cmocka_unit_test(test_strings_of_a_snapshot_are_copies_and_capped),
	        cmocka_unit_test(test_no_memory_adds_nothing),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
