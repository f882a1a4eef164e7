/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf-records - side-band records as the kernel writes them
 */
#ifndef PA_TEST_PERF_RECORDS_H
#define PA_TEST_PERF_RECORDS_H

#include "fake_perf.h"

static const uint32_t cpus[4] = {0, 1, 2, 3};

#define FAKED(t) cmocka_unit_test_setup_teardown(t, fake_setup, fake_teardown)

static const char *paranoid; /* the sysctl's value; NULL: this machine's */

int __real_file_read_all(int dirfd, const char *path, struct sbuf *ret, struct err *err);
int __wrap_file_read_all(int dirfd, const char *path, struct sbuf *ret, struct err *err);
int __wrap_file_read_all(int dirfd, const char *path, struct sbuf *ret, struct err *err)
{
	if (paranoid && strcmp(path, "/proc/sys/kernel/perf_event_paranoid") == 0)
		return sbuf_str(ret, paranoid);
	return __real_file_read_all(dirfd, path, ret, err);
}

#endif
