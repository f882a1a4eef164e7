/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns of thread names, against fnmatch(). */
#include "loader/loader.h"
#include <errno.h>
#include <fnmatch.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static int matches(const struct abi_name_set *set, const char *name)
{
	char bytes[ABI_NAME_STATES] = {0};
	uint64_t lo, hi;

	memcpy(bytes, name, strnlen(name, sizeof(bytes) - 1));
	memcpy(&lo, bytes, sizeof(lo));
	memcpy(&hi, bytes + sizeof(lo), sizeof(hi));
	return abi_name_matches(set, lo, hi);
}

static int match_one(const char *pattern, const char *name)
{
	struct abi_name_set set = {0};

	load_name_add(&set, 0, pattern);
	return matches(&set, name);
}

static void test_patterns_are_those_of_the_shell(void **state)
{
	static const struct {
		const char *pattern, *name;
		int match;
	} cases[] = {
	        {"kworker*", "kworker/0:1", 1},
	        {"kworker*", "kworker", 1},
	        {"kworker*", "kworke", 0},
	        {"kworker*", "xkworker", 0},
	        {"*", "", 1},
	        {"*", "123456789012345", 1},
	        {"?", "", 0},
	        {"?", "a", 1},
	        {"?*", "a", 1},
	        {"a*b*c", "aXbYc", 1},
	        {"a*b*c", "abcbc", 1},
	        {"a*b*c", "acb", 0},
	        {"*.so", "x.so.so", 1},
	        {"***a", "bba", 1},
	        {"???????????????", "123456789012345", 1},
	        {"???????????????", "12345678901234", 0},
	        {"*5", "123456789012345", 1},
	        {"[a-c]x", "bx", 1},
	        {"[!a-c]x", "bx", 0},
	        {"[^a-c]x", "dx", 1},
	        {"[]x]", "]", 1},
	        {"[!]x]", "]", 0},
	        {"[a-]", "-", 1},
	        {"[a\\]]", "]", 1},
	        {"[a", "[a", 1},
	        {"[a", "a", 0},
	        {"a\\*", "a*", 1},
	        {"a\\*", "ab", 0},
	        {"a\\", "a\\", 1},
	        {"\xc3\xa4*", "\xc3\xa4x", 1},
	        {"?x", "\xffx", 1},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(load_name_pattern(cases[i].pattern), 1);
		if (match_one(cases[i].pattern, cases[i].name) != cases[i].match)
			fail_msg("'%s', '%s'", cases[i].pattern, cases[i].name);
	}
}

static void test_words_that_are_names_or_match_nothing(void **state)
{
	(void)state;
	assert_int_equal(load_name_pattern("nginx"), 0);
	assert_int_equal(load_name_pattern("(sd-pam) a name of any length"), 0);
	assert_int_equal(load_name_pattern("*123456789012345"), 1);
	assert_int_equal(load_name_pattern("*1234567890123456"), -E2BIG);
	assert_int_equal(load_name_pattern("????????????????"), -E2BIG);
	assert_int_equal(load_name_pattern("[a-z][a-z][a-z][a-z][a-z][a-z][a-z]*"), 1);
	assert_int_equal(load_name_pattern("cpu[[:digit:]]"), -EINVAL);
	assert_int_equal(load_name_pattern("[[=a=]]"), -EINVAL);
}

static void test_patterns_of_one_set_do_not_touch(void **state)
{
	static const char *const patterns[ABI_NAME_PATTERNS + 1] = {"a??????????????", "*b", "c*",
	                                                            "[0-9]*[0-9]", "d*"};
	struct abi_name_set sets[2] = {{0}};

	(void)state;
	for (uint32_t i = 0; i < ARRAY_SIZE(patterns); i++)
		load_name_add(sets, i, patterns[i]);
	assert_true(matches(&sets[0], "a23456789012345"));
	assert_true(matches(&sets[0], "xxb"));
	assert_true(matches(&sets[0], "c"));
	assert_true(matches(&sets[0], "1x2"));
	assert_false(matches(&sets[0], "a2345678901234"));
	assert_false(matches(&sets[0], "x23456789012345"));
	assert_false(matches(&sets[0], "1"));
	assert_false(matches(&sets[0], "d"));
	assert_true(matches(&sets[1], "d"));
	assert_false(matches(&sets[1], "c"));
}

/* Short words of few characters, so that many match. */
static void random_word(char *word, size_t max, const char *characters)
{
	size_t len = (size_t)random() % max;

	for (size_t i = 0; i < len; i++)
		word[i] = characters[(size_t)random() % strlen(characters)];
	word[len] = '\0';
}

static void test_random_patterns_match_as_fnmatch(void **state)
{
	unsigned int matched = 0, of = 0;

	(void)state;
	srandom(16);
	for (int i = 0; i < 200000; i++) {
		struct abi_name_set set = {0};
		char pattern[12], name[16];
		int want;

		random_word(pattern, sizeof(pattern), "aab*?[]!-\\");
		random_word(name, 1 + (size_t)random() % sizeof(name), "aab-");
		/* Ends that POSIX leaves open: a lone backslash, and a set that nothing closes. */
		if (load_name_pattern(pattern) != 1 || strchr(pattern, '\\') ||
		    (strchr(pattern, '[') && !strchr(strrchr(pattern, '['), ']')) ||
		    strstr(pattern, "--") || strstr(pattern, "-]") || strstr(pattern, "[-") ||
		    strstr(pattern, "!-"))
			continue;
		load_name_add(&set, 0, pattern);
		want = fnmatch(pattern, name, 0) == 0;
		if (matches(&set, name) != want)
			fail_msg("'%s', '%s': fnmatch says %d", pattern, name, want);
		matched += (unsigned int)want;
		of++;
	}
	assert_true(of > 10000 && matched > 500);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_patterns_are_those_of_the_shell),
	        cmocka_unit_test(test_words_that_are_names_or_match_nothing),
	        cmocka_unit_test(test_patterns_of_one_set_do_not_touch),
	        cmocka_unit_test(test_random_patterns_match_as_fnmatch),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
