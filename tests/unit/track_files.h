/* SPDX-License-Identifier: Apache-2.0 */
/*
 * track-files - children that map files
 */
#ifndef PA_TEST_TRACK_FILES_H
#define PA_TEST_TRACK_FILES_H

#include <sys/mman.h>
#include "fake_loader.h"
#include "track/track_priv.h"
#include <sys/sysmacros.h>

static inline uint64_t address_of(pid_t pid, const char *path)
{
	char name[32], line[512];
	uint64_t addr = 0;
	FILE *f;

	(void)snprintf(name, sizeof(name), "/proc/%d/maps", pid);
	f = fopen(name, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (strstr(line, path) && strstr(line, "r-xp"))
			addr = strtoull(line, NULL, 16);
	fclose(f);
	return addr;
}

#endif
