/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the tests of a file, or one of them: each.py gives each a process of its own, and says which
 * may have a second one. */
#ifndef PA_TEST_LIVE_MAIN_H
#define PA_TEST_LIVE_MAIN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

/* TEST_LIST: their names, a line each; TEST_ONLY: the name of that which is to run. Returns the
 * exit status. */
#define LIVE_RUN(tests) live_run(tests, sizeof(tests) / sizeof((tests)[0]))

static int live_run(const struct CMUnitTest *tests, size_t n)
{
	if (getenv("TEST_LIST")) {
		for (size_t i = 0; i < n; i++)
			(void)puts(tests[i].name);
		return 0;
	}
	cmocka_set_message_output(CM_OUTPUT_TAP);
	cmocka_set_test_filter(getenv("TEST_ONLY"));
	return _cmocka_run_group_tests("tests", tests, n, NULL, NULL);
}

#endif
