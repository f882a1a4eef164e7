/* SPDX-License-Identifier: Apache-2.0 */
/* Mappings of processes that are tracked. */
#include "failing_allocator.h"

/* ---- mappings ------------------------------------------------------------------------------- */

static void test_mapping_over_part_of_another(void **state)
{
	/* The older one: [0x10000, 0x20000) of file 1 from offset 0x5000. */
	static const struct {
		uint64_t start, end;
		uint32_t file;
		uint64_t probe[4];
		int64_t want[4];
		uint64_t off[4];
	} c[] = {
	        /* head */
	        {0xc000,
	         0x12000,
	         2,
	         {0xc000, 0x11fff, 0x12000, 0x1ffff},
	         {2, 2, 1, 1},
	         {0, 0x5fff, 0x7000, 0x14fff}},
	        /* middle */
	        {0x14000,
	         0x15000,
	         2,
	         {0x13fff, 0x14000, 0x14fff, 0x15000},
	         {1, 2, 2, 1},
	         {0x8fff, 0, 0xfff, 0xa000}},
	        /* tail */
	        {0x1f000,
	         0x22000,
	         2,
	         {0x1efff, 0x1f000, 0x21fff, 0x10000},
	         {1, 2, 2, 1},
	         {0x13fff, 0, 0x2fff, 0x5000}},
	        /* all */
	        {0x10000,
	         0x20000,
	         2,
	         {0x10000, 0x1ffff, 0x18000, 0x10001},
	         {2, 2, 2, 2},
	         {0, 0xffff, 0x8000, 1}},
	        /* anonymous: JIT code */
	        {0x18000,
	         0x19000,
	         0,
	         {0x17fff, 0x18000, 0x18fff, 0x19000},
	         {1, 0, 0, 1},
	         {0xcfff, 0x18000, 0x18fff, 0xe000}},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
		struct load_oncpu *l = fake_new(4096);
		struct trk *t = make_scanned(l);
		uint32_t kid = PID_BASE;
		struct abi_range r;

		ev_fork(t, kid, self());
		ev_exec(t, kid);
		ev_mmap(t, kid, 0x10000, 0x20000, 0x5000, 1);
		ev_mmap(t, kid, c[i].start, c[i].end, 0, c[i].file);
		trk_flush(t);
		for (size_t k = 0; k < 4; k++) {
			assert_file_at(t, kid, EXEC_ID + 1, c[i].probe[k], c[i].want[k],
			               c[i].off[k]);
			assert_int_equal(kernel_find(l, kid, EXEC_ID + 1, c[i].probe[k], &r), 1);
			if (c[i].want[k])
				assert_int_equal(c[i].probe[k] - r.start + r.pgoff, c[i].off[k]);
			else
				assert_int_equal(r.image, 0);
		}
		trk_free(t);
		fake_free(l);
	}
}

static void test_replaced_mappings_are_kept(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct trk *t = make_scanned(l);
	uint32_t kid = PID_BASE;
	char path[32];
	struct ev_proc ev;

	(void)state;
	ev_fork(t, kid, self());
	ev_exec(t, kid);
	ev_mmap(t, kid, 0x10000, 0x20000, 0, 1);
	ev_mmap(t, kid, 0x10000, 0x20000, 0x1000, 2);
	/* Not executable any more: only what was there last can be reported. */
	ev = mmap_event(kid, 0x10000, 0x18000, 0, 3, path);
	ev.map.exec = 0;
	ev.time_ns = tick();
	trk_event(t, &ev);
	trk_flush(t);
	assert_file_at(t, kid, EXEC_ID + 1, 0x10000, 2, 0x1000);
	assert_file_at(t, kid, EXEC_ID + 1, 0x18000, 2, 0x9000);
	{
		struct abi_range r;

		assert_int_equal(kernel_find(l, kid, EXEC_ID + 1, 0x17fff, &r), -1);
		assert_int_equal(kernel_find(l, kid, EXEC_ID + 1, 0x18000, &r), 1);
	}
	trk_free(t);
	fake_free(l);
}

static void test_known_mapping_changes_nothing(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct trk *t = make_scanned(l);
	uint32_t kid = PID_BASE;
	unsigned int sets;
	uint64_t mappings;

	(void)state;
	ev_fork(t, kid, self());
	ev_exec(t, kid);
	ev_mmap(t, kid, 0x10000, 0x20000, 0x3000, 1);
	ev_mmap(t, kid, 0x20000, 0x30000, 0x13000, 1);
	ev_mmap(t, kid, 0x40000, 0x50000, 0, 0);
	trk_flush(t);
	assert_int_equal(fake_slot(l, kid)->v.cnt, 2); /* neighbours of one file are one range */
	sets = l->sets;
	mappings = trk_stats(t)->mappings;
	ev_mmap(t, kid, 0x10000, 0x20000, 0x3000, 1);
	ev_mmap(t, kid, 0x14000, 0x22000, 0x7000, 1); /* what mprotect reports */
	ev_mmap(t, kid, 0x42000, 0x43000, 0, 0);
	trk_flush(t);
	assert_int_equal(l->sets, sets);
	assert_int_equal(trk_stats(t)->mappings, mappings);
	trk_free(t);
	fake_free(l);
}

static void test_random_mappings_against_a_plain_array(void **state)
{
	enum { PAGES = 600, ROUNDS = 4000 };
	struct load_oncpu *l = fake_new(8192);
	struct trk *t = make_scanned(l);
	uint32_t kid = PID_BASE;
	static uint32_t file[PAGES];
	static uint64_t off[PAGES];
	uint64_t seed = 42;
	struct abi_range r;

	(void)state;
	memset(file, 0xff, sizeof(file));
	ev_fork(t, kid, self());
	ev_exec(t, kid);
	for (int k = 0; k < ROUNDS; k++) {
		uint64_t a, n, f;

		seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
		a = (seed >> 33) % PAGES;
		n = 1 + (seed >> 20) % (k % 50 == 0 ? 100 : 3);
		f = (seed >> 50) % 6;
		n = MIN_OF(n, PAGES - a);
		ev_mmap(t, kid, (1 + a) << 12, (1 + a + n) << 12, (seed >> 45) % 3 << 12,
		        (uint32_t)f);
		for (uint64_t i = a; i < a + n; i++) {
			file[i] = (uint32_t)f;
			off[i] = f ? (((seed >> 45) % 3) + i - a) << 12 : (1 + i) << 12;
		}
		if (k % 400 != 399)
			continue;
		trk_flush(t);
		for (uint64_t i = 0; i < PAGES; i++) {
			int found = kernel_find(l, kid, EXEC_ID + 1, (1 + i) << 12, &r);

			if (file[i] == UINT32_MAX) {
				assert_no_file_at(t, kid, EXEC_ID + 1, (1 + i) << 12);
				assert_int_equal(found, -1);
				continue;
			}
			assert_file_at(t, kid, EXEC_ID + 1, (1 + i) << 12, file[i], off[i]);
			assert_int_equal(found, 1);
			assert_int_equal(r.image == 0, file[i] == 0);
			if (file[i])
				assert_int_equal(((1 + i) << 12) - r.start + r.pgoff, off[i]);
		}
	}
	trk_free(t);
	fake_free(l);
}

static void test_60000_mappings_in_one_process(void **state)
{
	enum { N = 60000 };
	struct load_oncpu *l = fake_new(200000);
	struct trk *t = make_scanned(l);
	struct abi_range r;

	(void)state;
	/* Downwards as mmap gives them, and scattered. 7919 is prime to N. */
	for (uint32_t kid = PID_BASE; kid < PID_BASE + 2; kid++) {
		ev_fork(t, kid, self());
		ev_exec(t, kid);
		for (uint64_t i = 0; i < N; i++) {
			uint64_t k = kid == PID_BASE ? N - 1 - i : i * 7919 % N;

			ev_mmap(t, kid, (1 + 2 * k) << 12, (2 + 2 * k) << 12, k << 12, 1);
		}
		trk_flush(t);
		assert_int_equal(fake_slot(l, kid)->v.cnt, N);
		for (uint64_t k = 0; k < N; k++) {
			assert_int_equal(kernel_find(l, kid, EXEC_ID + 1, (1 + 2 * k) << 12, &r),
			                 1);
			assert_int_equal(r.pgoff, k << 12);
		}
		assert_file_at(t, kid, EXEC_ID + 1, (1 + 2 * 777) << 12, 1, 777 << 12);
		assert_no_file_at(t, kid, EXEC_ID + 1, (2 + 2 * 777) << 12);
	}
	assert_int_equal(trk_stats(t)->dropped_mappings, 0);
	trk_free(t);
	fake_free(l);
}

static void test_offsets_beyond_a_frame_stay_raw(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct trk *t = make_scanned(l);
	struct abi_range r;

	(void)state;
	ev_fork(t, PID_BASE, self());
	ev_exec(t, PID_BASE);
	ev_mmap(t, PID_BASE, 0x10000, 0x11000, 0, 1);
	ev_mmap(t, PID_BASE, 0x20000, 0x22000, ABI_FRAME_OFF_MASK - 0xfff, 1);
	ev_mmap(t, PID_BASE, 0x30000, 0x32000, UINT64_MAX - 0xfff, 1);
	trk_flush(t);
	assert_int_equal(kernel_find(l, PID_BASE, EXEC_ID + 1, 0x10000, &r), 1);
	assert_int_equal(kernel_find(l, PID_BASE, EXEC_ID + 1, 0x20000, &r), -1);
	assert_int_equal(kernel_find(l, PID_BASE, EXEC_ID + 1, 0x30000, &r), -1);
	assert_file_at(t, PID_BASE, EXEC_ID + 1, 0x20001, 1, ABI_FRAME_OFF_MASK - 0xffe);
	trk_free(t);
	fake_free(l);
}

static void test_place_image(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct trk *t = make_scanned(l);
	struct ev_proc_id a = id_of(PID_BASE, EXEC_ID + 1, 0), b = id_of(PID_BASE + 1, 0, 0);
	struct trk_location pl;
	uint32_t image;

	(void)state;
	ev_fork(t, a.pid, self());
	ev_exec(t, a.pid);
	ev_mmap(t, a.pid, 0x10000, 0x14000, 0x2000, 1);
	image = trk_main_image(t, &a);
	assert_int_not_equal(image, 0);
	assert_int_equal(trk_resolve_image(t, &a, image, 0x3010, &pl), 0);
	assert_int_equal(pl.map_start, 0x10000);
	assert_int_equal(pl.map_pgoff, 0x2000);
	assert_int_equal(pl.off, 0x3010);
	assert_int_equal(trk_resolve_image(t, &a, image, 0x6000, &pl), -ENOENT);
	assert_ptr_equal(pl.image, trk_image(t, image));
	/* Another process, never heard of: any mapping will do. */
	assert_int_equal(trk_resolve_image(t, &b, image, 0x5fff, &pl), 0);
	assert_int_equal(pl.map_end, 0x14000);
	/* Many different pieces: all processes are searched. */
	for (uint64_t k = 1; k < 40; k++)
		ev_mmap(t, a.pid, 0x100000 * k, 0x100000 * k + 0x1000, 0x100000 * k, 1);
	assert_int_equal(trk_resolve_image(t, &b, image, 0x100000 * 39 + 5, &pl), 0);
	assert_int_equal(pl.map_start, 0x100000 * 39);
	/* Replaced: the history is searched too. */
	ev_mmap(t, a.pid, 0x10000, 0x14000, 0, 0);
	assert_int_equal(trk_resolve_image(t, &a, image, 0x3010, &pl), 0);
	assert_int_equal(trk_resolve_image(t, &a, 0, 0x3010, &pl), -ENOENT);
	assert_int_equal(trk_resolve_image(t, &a, 1U << 20, 0x3010, &pl), -ENOENT);
	trk_free(t);
	fake_free(l);
}

static void test_allocation_failures_cost_only_their_item(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct trk_options o = {.loader = l};
	struct abi_range r;

	(void)state;
	fake_task(l, self(), EXEC_ID, START_NS);
	for (long n = 1; n < 400; n++) {
		uint32_t kid = PID_BASE;
		struct trk *t = NULL;
		int made, scanned = -1;

		fail_at = n;
		made = trk_new(&o, &t, NULL);
		if (made == 0) {
			scanned = trk_scan(t, NULL);
			for (uint32_t k = 0; k < 8; k++) {
				ev_fork(t, kid + k, self());
				ev_exec(t, kid + k);
				for (uint64_t i = 0; i < 20; i++)
					ev_mmap(t, kid + k, (1 + i) << 16, (2 + i) << 16, 0,
					        (uint32_t)i % 5);
				ev_mmap(t, kid + k, 0x18000, 0x58000, 0, 9);
				trk_flush(t);
			}
			ev_lost(t);
			trk_flush(t);
			ev_exit(t, kid, kid);
			trk_flush(t);
		}
		fail_at = 0;
		if (made == 0) {
			/* With memory again it goes on as if nothing had been. */
			ev_fork(t, kid + 50, self());
			ev_exec(t, kid + 50);
			ev_mmap(t, kid + 50, 0x10000, 0x11000, 0x3000, 77);
			wait_ms(scanned < 0 ? 11 : 0);
			trk_flush(t);
			assert_file_at(t, kid + 50, 0, 0x10000, 77, 0x3000);
			if (scanned == 0 && fake_slot(l, kid + 50)->there)
				assert_int_equal(kernel_find(l, kid + 50,
				                             fake_slot(l, kid + 50)->v.exec_id,
				                             0x10000, &r),
				                 1);
		} else {
			assert_int_equal(made, -ENOMEM);
		}
		trk_free(t);
		memset(l->slot, 0, sizeof(l->slot));
		l->there = 0;
	}
	fake_free(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_mapping_over_part_of_another),
	        cmocka_unit_test(test_replaced_mappings_are_kept),
	        cmocka_unit_test(test_known_mapping_changes_nothing),
	        cmocka_unit_test(test_random_mappings_against_a_plain_array),
	        cmocka_unit_test(test_60000_mappings_in_one_process),
	        cmocka_unit_test(test_offsets_beyond_a_frame_stay_raw),
	        cmocka_unit_test(test_place_image),
	        cmocka_unit_test(test_allocation_failures_cost_only_their_item),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
