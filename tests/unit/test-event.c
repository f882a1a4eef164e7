/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "event/event.h"

typedef const char *(*name_fn)(unsigned int val);

static const char *walk_name(unsigned int val)
{
	return ev_walk_name((enum ev_walk)val);
}

static const char *reason_name(unsigned int val)
{
	return ev_reason_name((enum ev_reason)val);
}

static const struct {
	name_fn name;
	unsigned int cnt;
} tables[] = {{walk_name, EV_WALK_CNT}, {reason_name, EV_REASON_CNT}};

static void test_every_value_has_a_name_of_its_own(void **state)
{
	(void)state;
	for (size_t t = 0; t < ARRAY_SIZE(tables); t++) {
		for (unsigned int i = 0; i < tables[t].cnt; i++) {
			const char *name = tables[t].name(i);

			assert_non_null(name);
			assert_string_not_equal(name, "");
			assert_string_not_equal(name, "unknown");
			for (unsigned int k = 0; k < i; k++)
				assert_string_not_equal(name, tables[t].name(k));
		}
	}
}

static void test_other_values_are_unknown(void **state)
{
	static const unsigned int past[] = {0, 1, 1000, 0x7fffffff};

	(void)state;
	for (size_t t = 0; t < ARRAY_SIZE(tables); t++) {
		for (size_t i = 0; i < ARRAY_SIZE(past); i++)
			assert_string_equal(tables[t].name(tables[t].cnt + past[i]), "unknown");
		assert_string_equal(tables[t].name(UINT32_MAX), "unknown");
	}
}

/* Values and names are in profiles: append only, so those of the first version never change. */
static void test_values_and_names_of_the_first_version(void **state)
{
	static const char *const walks[] = {
	        "no walk",           "root reached", "depth limit", "read fault",
	        "implausible frame", "no registers", "32-bit task", "bad return address",
	};
	static const char *const reasons[] = {
	        "named",
	        "no mapping",
	        "file not readable",
	        "file replaced on disk",
	        "not an ELF file",
	        "damaged ELF file",
	        "no symbol table",
	        "no symbol covers the address",
	        "JIT code without names",
	        "kernel addresses hidden",
	        "no kernel symbols",
	        "out of memory or over a limit",
	        "process not readable",
	        "reading the file was given up",
	        "mapping replaced meanwhile",
	        "not symbolized in time",
	};

	(void)state;
	assert_true(EV_WALK_CNT >= ARRAY_SIZE(walks));
	assert_true(EV_REASON_CNT >= ARRAY_SIZE(reasons));
	for (unsigned int i = 0; i < ARRAY_SIZE(walks); i++)
		assert_string_equal(walk_name(i), walks[i]);
	for (unsigned int i = 0; i < ARRAY_SIZE(reasons); i++)
		assert_string_equal(reason_name(i), reasons[i]);
	assert_int_equal(EV_REASON_NAMED, 0);
}

/* The second of four steps is a hole. */
static void test_words_of_a_copied_stack(void **state)
{
	static uint8_t bytes[4 * EV_DEFERRED_STEP];
	const struct ev_deferred c = {
	        .addr = 0x7000, .len = sizeof(bytes), .holes = 2, .bytes = bytes};
	static const struct {
		uint64_t at;
		bool there;
	} words[] = {
	        {0, true},
	        {EV_DEFERRED_STEP - 8, true},
	        {EV_DEFERRED_STEP - 7, false}, /* its last byte */
	        {EV_DEFERRED_STEP, false},
	        {2 * EV_DEFERRED_STEP - 1, false}, /* its first byte */
	        {2 * EV_DEFERRED_STEP, true},
	        {sizeof(bytes) - 8, true},
	        {sizeof(bytes) - 7, false},
	        {sizeof(bytes), false},
	        {UINT64_MAX - 0x7000, false},
	        {0 - 8ULL, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i / 8 + i);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		uint64_t v = 1, want = 1;

		if (words[i].there)
			memcpy(&want, bytes + words[i].at, sizeof(want));
		assert_int_equal(ev_deferred_word(&c, c.addr + words[i].at, &v),
		                 words[i].there ? 0 : -EFAULT);
		assert_int_equal(v, want);
	}
}

/* The interner keeps stacks as bytes: a frame must have no byte that initialisation leaves open. */
static void test_frame_has_no_padding(void **state)
{
	(void)state;
	assert_int_equal(offsetof(struct ev_frame, addr), 0);
	assert_int_equal(offsetof(struct ev_frame, image), 8);
	assert_int_equal(offsetof(struct ev_frame, space), 12);
	assert_int_equal(offsetof(struct ev_frame, exact), 13);
	assert_int_equal(offsetof(struct ev_frame, pad), 14);
	assert_int_equal(sizeof(((struct ev_frame *)NULL)->pad), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_every_value_has_a_name_of_its_own),
	        cmocka_unit_test(test_other_values_are_unknown),
	        cmocka_unit_test(test_values_and_names_of_the_first_version),
	        cmocka_unit_test(test_words_of_a_copied_stack),
	        cmocka_unit_test(test_frame_has_no_padding),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("event", tests, NULL, NULL);
}
