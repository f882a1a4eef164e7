// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sampler/sampler.h"

struct record {
	struct abi_stack h;
	uint64_t frames[ABI_MAX_USER_FRAMES + 1];
};

static struct ev_frame frames[ABI_MAX_USER_FRAMES];
static struct ev_waker waker;

static struct ev_count none; /* not filled by stacks alone */

static int parse(const struct record *r, size_t n_frames, struct ev_stack *ret)
{
	return smp_record_parse(r, sizeof(r->h) + n_frames * 8, frames, ret, &none, &waker);
}

static void test_user_frames_are_decoded(void **state)
{
	struct record r = {
	        .h = {.hash = 77, .kind = ABI_STACK_USER, .walk = ABI_WALK_IMPLAUSIBLE, .n = 4}};
	struct ev_stack st;

	(void)state;
	r.frames[0] = (ABI_SPACE_IMAGE << 62) | ABI_FRAME_EXACT | (ABI_IMAGE_MAX * 1ULL << 40) |
	              0xffffffffffULL;
	r.frames[1] = (ABI_SPACE_IMAGE << 62) | (1ULL << 40) | 0x1234;
	r.frames[2] = (ABI_SPACE_ANON << 62) | 0x7f0000001000;
	r.frames[3] = 0x00ffffffffffffff;
	assert_int_equal(parse(&r, 4, &st), 0);
	assert_int_equal(st.hash, 77);
	assert_false(st.kernel);
	assert_int_equal(st.walk, EV_WALK_IMPLAUSIBLE);
	assert_int_equal(st.n, 4);
	assert_int_equal(frames[0].space, EV_SPACE_IMAGE);
	assert_int_equal(frames[0].exact, 1);
	assert_int_equal(frames[0].image, ABI_IMAGE_MAX);
	assert_int_equal(frames[0].addr, 0xffffffffffULL);
	assert_int_equal(frames[1].exact, 0);
	assert_int_equal(frames[1].image, 1);
	assert_int_equal(frames[1].addr, 0x1234);
	assert_int_equal(frames[2].space, EV_SPACE_ANON);
	assert_int_equal(frames[2].addr, 0x7f0000001000);
	assert_int_equal(frames[2].image, 0);
	assert_int_equal(frames[3].space, EV_SPACE_RAW);
	assert_int_equal(frames[3].addr, 0x00ffffffffffffff);
}

static void test_kernel_frames_are_addresses(void **state)
{
	struct record r = {
	        .h = {.hash = 1, .kind = ABI_STACK_KERNEL, .walk = ABI_WALK_ROOT, .n = 2}};
	struct ev_stack st;

	(void)state;
	r.frames[0] = 0xffffffff81000001;
	r.frames[1] = 0xffffffffc0000002;
	assert_int_equal(parse(&r, 2, &st), 0);
	assert_true(st.kernel);
	assert_int_equal(frames[0].space, EV_SPACE_KERNEL);
	assert_int_equal(frames[0].addr, 0xffffffff81000001);
	assert_int_equal(frames[0].exact, 1);
	assert_int_equal(frames[1].addr, 0xffffffffc0000002);
	assert_int_equal(frames[1].exact, 0);
}

static void test_a_stack_with_its_sample(void **state)
{
	struct {
		struct abi_stack_sample first;
		struct abi_stack h;
		uint64_t frames[2];
	} r = {.first = {.key = {.ustack = 77,
	                         .kstack = 3,
	                         .cgroup_id = 4,
	                         .start_ns = 5,
	                         .tgid = 6,
	                         .tid = 7,
	                         .exec_id = 8},
	                 .count = {.samples = 1, .weight = 10}},
	       .h = {.hash = 77, .kind = ABI_STACK_USER, .walk = ABI_WALK_ROOT, .n = 2},
	       .frames = {(ABI_SPACE_ANON << 62) | 0x1000, (ABI_SPACE_ANON << 62) | 0x2000}};
	struct ev_stack st = {0};
	struct ev_count c = {0};

	(void)state;
	assert_int_equal(smp_record_parse(&r, sizeof(r), frames, &st, &c, &waker), 1);
	assert_int_equal(st.hash, 77);
	assert_int_equal(st.n, 2);
	assert_int_equal(frames[1].addr, 0x2000);
	assert_int_equal(c.ustack, 77);
	assert_int_equal(c.kstack, 3);
	assert_int_equal(c.cgroup_id, 4);
	assert_int_equal(c.proc.start_ns, 5);
	assert_int_equal(c.proc.pid, 6);
	assert_int_equal(c.tid, 7);
	assert_int_equal(c.proc.exec_id, 8);
	assert_int_equal(c.samples, 1);
	assert_int_equal(c.weight, 10);
	/* The stack that follows must be that of the sample, and one of user code. */
	for (size_t len = 0; len < sizeof(r); len++)
		assert_int_equal(smp_record_parse(&r, len, frames, &st, &c, &waker), -EINVAL);
	r.first.key.ustack = 78;
	assert_int_equal(smp_record_parse(&r, sizeof(r), frames, &st, &c, &waker), -EINVAL);
	r.first.key.ustack = r.h.hash = 0;
	assert_int_equal(smp_record_parse(&r, sizeof(r), frames, &st, &c, &waker), -EINVAL);
	r.first.key.ustack = r.h.hash = 77;
	r.h.kind = ABI_STACK_KERNEL;
	assert_int_equal(smp_record_parse(&r, sizeof(r), frames, &st, &c, &waker), -EINVAL);
}

static void test_the_ring_may_pad_a_record(void **state)
{
	struct record r = {.h = {.hash = 1, .kind = ABI_STACK_USER, .n = 1}};
	struct ev_stack st;

	(void)state;
	assert_int_equal(smp_record_parse(&r, sizeof(r.h) + 8 + 7, frames, &st, &none, &waker), 0);
	assert_int_equal(st.n, 1);
}

static void test_records_that_contradict_themselves(void **state)
{
	static const struct {
		const char *what;
		struct abi_stack h;
		size_t frames;
	} cases[] = {
	        {"no hash", {.hash = 0, .kind = ABI_STACK_USER, .n = 1}, 1},
	        {"no kind", {.hash = 1, .kind = 0, .n = 1}, 1},
	        {"unknown kind", {.hash = 1, .kind = 3, .n = 1}, 1},
	        {"unknown outcome",
	         {.hash = 1, .kind = ABI_STACK_USER, .walk = EV_WALK_KERNEL_CNT, .n = 1},
	         1},
	        {"fewer frames than reported", {.hash = 1, .kind = ABI_STACK_USER, .n = 2}, 1},
	        {"count near overflow", {.hash = 1, .kind = ABI_STACK_USER, .n = UINT32_MAX}, 1},
	        {"deeper than any user stack",
	         {.hash = 1, .kind = ABI_STACK_USER, .n = ABI_MAX_USER_FRAMES + 1},
	         ABI_MAX_USER_FRAMES + 1},
	        {"deeper than any kernel stack",
	         {.hash = 1, .kind = ABI_STACK_KERNEL, .n = ABI_MAX_KERNEL_FRAMES + 1},
	         ABI_MAX_KERNEL_FRAMES + 1},
	};
	struct record r = {0};
	struct ev_stack st;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		r.h = cases[i].h;
		if (parse(&r, cases[i].frames, &st) != -EINVAL)
			fail_msg("%s was accepted", cases[i].what);
	}
	for (unsigned int flag = 4; flag < 256; flag *= 2) {
		r.h = (struct abi_stack){
		        .hash = 1, .kind = ABI_STACK_USER, .flags = (uint8_t)flag, .n = 1};
		r.frames[0] = 1;
		assert_int_equal(parse(&r, 1, &st), -EINVAL);
	}
	r.h = (struct abi_stack){.hash = 1, .kind = ABI_STACK_USER, .n = 1};
	r.frames[0] = 3ULL << 62;
	assert_int_equal(parse(&r, 1, &st), -EINVAL);
	for (size_t len = 0; len < sizeof(r.h); len++)
		assert_int_equal(smp_record_parse(&r, len, frames, &st, &none, &waker), -EINVAL);
}

static void test_flags_of_a_stack_are_handed_on(void **state)
{
	struct record r = {.h = {.hash = 1,
	                         .kind = ABI_STACK_USER,
	                         .walk = ABI_WALK_JIT,
	                         .flags = ABI_STACK_HEURISTIC | ABI_STACK_JIT}};
	struct ev_stack st;

	(void)state;
	assert_int_equal(parse(&r, 0, &st), 0);
	assert_int_equal(st.flags, EV_STACK_HEURISTIC | EV_STACK_JIT);
	assert_int_equal(st.walk, EV_WALK_JIT);
	r.h.flags = ABI_STACK_JIT;
	assert_int_equal(parse(&r, 0, &st), 0);
	assert_int_equal(st.flags, EV_STACK_JIT);
}

/* ---- copies ---------------------------------------------------------------------------------- */

static struct {
	struct abi_deferred h;
	uint8_t bytes[ABI_DEFERRED_BYTES + 8];
} copy;

static void test_a_copy_is_decoded(void **state)
{
	struct ev_deferred c;

	(void)state;
	memset(&copy, 0, sizeof(copy));
	copy.h = (struct abi_deferred){.key = {.kstack = 3,
	                                       .cgroup_id = 4,
	                                       .start_ns = 5,
	                                       .tgid = 6,
	                                       .tid = 7,
	                                       .exec_id = 8,
	                                       .flags = ABI_KEY_FOREIGN_NS},
	                               .count = {.samples = 1, .weight = 10},
	                               .time_ns = 9,
	                               .pc = 0x1000,
	                               .addr = 0x7ff0,
	                               .len = ABI_DEFERRED_BYTES,
	                               .image = 12,
	                               .holes = 0x30,
	                               .kernel_tid = 4321};
	for (int i = 0; i < ABI_REGS; i++)
		copy.h.reg[i] = 100 + (uint64_t)i;
	copy.bytes[ABI_DEFERRED_BYTES - 1] = 0x5a;
	memset(&c, 0xff, sizeof(c));
	assert_int_equal(smp_deferred_parse(&copy, sizeof(copy), &c), 0);
	assert_int_equal(c.count.proc.pid, 6);
	assert_int_equal(c.count.proc.exec_id, 8);
	assert_int_equal(c.count.proc.start_ns, 5);
	assert_int_equal(c.count.tid, 7);
	assert_int_equal(c.count.foreign_ns, 1);
	assert_int_equal(c.count.kthread, 0);
	assert_int_equal(c.count.ustack, 0);
	assert_int_equal(c.count.kstack, 3);
	assert_int_equal(c.count.cgroup_id, 4);
	assert_int_equal(c.count.samples, 1);
	assert_int_equal(c.count.weight, 10);
	assert_int_equal(c.time_ns, 9);
	assert_int_equal(c.pc, 0x1000);
	assert_int_equal(c.reg[ABI_REGS - 1], 100 + ABI_REGS - 1);
	for (int i = ABI_REGS; i < EV_DEFERRED_REGS; i++)
		assert_int_equal(c.reg[i], 0);
	assert_int_equal(c.addr, 0x7ff0);
	assert_int_equal(c.len, ABI_DEFERRED_BYTES);
	assert_int_equal(c.image, 12);
	assert_int_equal(c.kernel_tid, 4321);
	assert_int_equal(c.holes, 0x30);
	assert_int_equal(c.bytes[ABI_DEFERRED_BYTES - 1], 0x5a);
}

static void test_copies_that_contradict_themselves(void **state)
{
	struct ev_deferred c;

	(void)state;
	memset(&copy, 0, sizeof(copy));
	for (size_t len = 0; len < sizeof(copy.h); len++)
		assert_int_equal(smp_deferred_parse(&copy, len, &c), -EINVAL);
	assert_int_equal(smp_deferred_parse(&copy, sizeof(copy.h), &c), 0); /* none could be read */
	assert_int_equal(c.len, 0);
	copy.h.len = ABI_DEFERRED_STEP;
	assert_int_equal(smp_deferred_parse(&copy, sizeof(copy.h) + ABI_DEFERRED_STEP - 1, &c),
	                 -EINVAL);
	assert_int_equal(smp_deferred_parse(&copy, sizeof(copy.h) + ABI_DEFERRED_STEP, &c), 0);
	assert_int_equal(smp_deferred_parse(&copy, sizeof(copy.h) + ABI_DEFERRED_STEP + 7, &c), 0);
	copy.h.len = ABI_DEFERRED_BYTES + 1;
	assert_int_equal(smp_deferred_parse(&copy, sizeof(copy), &c), -EINVAL);
	copy.h.len = UINT32_MAX;
	assert_int_equal(smp_deferred_parse(&copy, sizeof(copy), &c), -EINVAL);
	copy.h.len = 0;
	copy.h.image = ABI_IMAGE_MAX + 1;
	assert_int_equal(smp_deferred_parse(&copy, sizeof(copy), &c), -EINVAL);
}

static void test_a_sample_of_the_stream_is_decoded(void **state)
{
	struct abi_stream r = {.head = {.hash = 1, .kind = ABI_STACK_STREAM, .n = ABI_STREAM_WORDS},
	                       .key = {.ustack = 77, .kstack = 78, .tgid = 5, .tid = 6},
	                       .time_ns = 1000,
	                       .weight = 20,
	                       .runq_ns = 3,
	                       .waker = 9,
	                       .cpu = 4};
	struct ev_count c = {0};
	struct ev_stack st;

	(void)state;
	assert_int_equal(smp_record_parse(&r, sizeof(r), frames, &st, &c, &waker), 3);
	assert_int_equal(c.ustack, 77);
	assert_int_equal(c.tid, 6);
	assert_int_equal(c.samples, 1);
	assert_int_equal(c.weight, 20);
	assert_int_equal(c.time_ns, 1000);
	assert_int_equal(c.cpu, 4);
	assert_int_equal(c.offcpu, EV_OFFCPU_NONE);
	assert_int_equal(c.waker, 0); /* of intervals only */
	r.key.flags = ABI_OFFCPU_IOWAIT << ABI_KEY_STATE_SHIFT | 7U << ABI_KEY_EPOCH_SHIFT;
	assert_int_equal(smp_record_parse(&r, sizeof(r), frames, &st, &c, &waker), 3);
	assert_int_equal(c.offcpu, EV_OFFCPU_IOWAIT);
	assert_int_equal(c.epoch, 7);
	assert_int_equal(c.waker, 9);
	assert_int_equal(c.runq_ns, 3);
	assert_int_equal(c.longest_ns, 20);
}

static void test_samples_of_the_stream_that_contradict_themselves(void **state)
{
	const struct abi_stream good = {
	        .head = {.hash = 1, .kind = ABI_STACK_STREAM, .n = ABI_STREAM_WORDS},
	        .time_ns = 1000};
	struct abi_stream r = good;
	struct ev_count c = {0};
	struct ev_stack st;

	(void)state;
	for (size_t len = 0; len < sizeof(r); len++)
		assert_int_equal(smp_record_parse(&r, len, frames, &st, &c, &waker), -EINVAL);
	assert_int_equal(smp_record_parse(&r, sizeof(r), frames, &st, &c, &waker), 3);
	r.time_ns = 0;
	assert_int_equal(smp_record_parse(&r, sizeof(r), frames, &st, &c, &waker), -EINVAL);
	r = good;
	r.head.n++;
	assert_int_equal(smp_record_parse(&r, sizeof(r), frames, &st, &c, &waker), -EINVAL);
	r = good;
	r.cpu = UINT32_MAX;
	assert_int_equal(smp_record_parse(&r, sizeof(r), frames, &st, &c, &waker), -EINVAL);
	r = good;
	r.key.flags = ABI_OFFCPU_CNT << ABI_KEY_STATE_SHIFT;
	assert_int_equal(smp_record_parse(&r, sizeof(r), frames, &st, &c, &waker), -EINVAL);
}

static void test_deferred_samples_have_a_cpu_with_a_stream_only(void **state)
{
	struct ev_deferred c;

	(void)state;
	memset(&copy, 0, sizeof(copy));
	copy.h.time_ns = 1000;
	assert_int_equal(smp_deferred_parse(&copy, sizeof(copy.h), &c), 0);
	assert_true(c.time_ns == 1000 && c.count.time_ns == 0);
	copy.h.cpu = 3;
	assert_int_equal(smp_deferred_parse(&copy, sizeof(copy.h), &c), 0);
	assert_true(c.count.time_ns == 1000 && c.count.cpu == 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_user_frames_are_decoded),
	        cmocka_unit_test(test_kernel_frames_are_addresses),
	        cmocka_unit_test(test_a_stack_with_its_sample),
	        cmocka_unit_test(test_the_ring_may_pad_a_record),
	        cmocka_unit_test(test_records_that_contradict_themselves),
	        cmocka_unit_test(test_flags_of_a_stack_are_handed_on),
	        cmocka_unit_test(test_a_copy_is_decoded),
	        cmocka_unit_test(test_copies_that_contradict_themselves),
	        cmocka_unit_test(test_a_sample_of_the_stream_is_decoded),
	        cmocka_unit_test(test_samples_of_the_stream_that_contradict_themselves),
	        cmocka_unit_test(test_deferred_samples_have_a_cpu_with_a_stream_only),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
