/* SPDX-License-Identifier: Apache-2.0 */
/* BPF maps of this process, for tests that look into them or spoil them. */
#ifndef PA_TEST_BPFMAPS_H
#define PA_TEST_BPFMAPS_H

#include <errno.h>
#include <string.h>

#include <bpf/bpf.h>

#define FDS_MAX 1024

/* The descriptor of the map of this name among our own, since others may run the same programs, or
 * -ENOENT. */
static int map_by_name(const char *name, struct bpf_map_info *ret)
{
	for (int fd = 3; fd < FDS_MAX; fd++) {
		struct bpf_map_info info = {0};
		uint32_t len = sizeof(info);

		if (bpf_obj_get_info_by_fd(fd, &info, &len) == 0 && strcmp(info.name, name) == 0) {
			*ret = info;
			return fd;
		}
	}
	return -ENOENT;
}

#endif
