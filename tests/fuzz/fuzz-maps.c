/* SPDX-License-Identifier: Apache-2.0 */
/* /proc/PID/maps: the stream against the parser of single lines over the same bytes. */
#include "proc/proc_priv.h"

#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PATH_BYTES 20000 /* more than the stream takes */

struct totals {
	uint64_t exec, bad, sum;
};

static int on_map(void *arg, const struct ev_mapping *m)
{
	struct totals *t = arg;

	assert(m->exec == 1 && m->start < m->end);
	assert(m->kind >= EV_MAP_FILE && m->kind <= EV_MAP_OTHER);
	t->exec++;
	t->sum += m->start ^ m->end ^ m->file.ino ^ strlen(m->path);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct totals want = {0}, got = {0};
	struct cursor c = cursor_of(data, size);
	static char path[PATH_BYTES];
	const char *line;
	size_t len;
	int fd;

	if (size > 15000) /* shorter than any limit of the stream, so that both must agree */
		return 0;
	while (cursor_line(&c, &line, &len) == 0) {
		struct ev_mapping m;

		if (proc_maps_parse_line(line, len, path, sizeof(path), &m) < 0) {
			want.bad++;
			continue;
		}
		assert(strlen(m.path) <= len);
		/* The stream looks into the file system for these. */
		if (m.exec && m.deleted)
			return 0;
		if (m.exec)
			(void)on_map(&want, &m); /* always 0 */
	}
	fd = memfd_create("maps", MFD_CLOEXEC);
	assert(fd >= 0);
	if (file_write_full(fd, data, size) < 0 || lseek(fd, 0, SEEK_SET) < 0 ||
	    proc_maps_read_fd(fd, 1, on_map, &got, &got.bad, NULL) < 0)
		abort();
	assert(memcmp(&want, &got, sizeof(want)) == 0);
	close(fd);
	return 0;
}
