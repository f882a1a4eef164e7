/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/proc_priv.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>

#define MAPS_BUF_BYTES (64 * 1024)
/* Each byte of a path may be escaped as \ooo; longer paths exist (nested mkdir), but cannot be
 * opened. */
#define MAPS_PATH_BYTES (4 * PATH_MAX + 100)

/* "r-xp": sets exec. */
static int parse_perms(struct cursor *c, struct ev_mapping *m)
{
	static const char *const allowed[4] = {"r-", "w-", "x-", "ps"};
	uint8_t perms[5];

	if (cursor_bytes(c, perms, sizeof(perms)) < 0 || perms[4] != ' ')
		return -EINVAL;
	for (size_t i = 0; i < 4; i++) {
		if (perms[i] != (uint8_t)allowed[i][0] && perms[i] != (uint8_t)allowed[i][1])
			return -EINVAL;
	}
	m->exec = perms[2] == 'x';
	return 0;
}

/* The path with \012 undone, and its deletion mark removed. */
static int parse_path(const struct cursor *c, char *buf, size_t size, struct ev_mapping *m)
{
	size_t mark = strlen(PROC_DELETED);
	size_t n = 0;

	for (const uint8_t *p = c->p; p < c->end; p++) {
		uint8_t ch = *p;

		if (ch == '\\' && c->end - p >= 4 && memcmp(p, "\\012", 4) == 0) {
			ch = '\n';
			p += 3;
		}
		if (ch == '\0' || n + 1 >= size)
			return -EINVAL;
		buf[n++] = (char)ch;
	}
	if (size == 0)
		return -EINVAL;
	buf[n] = '\0';
	if (buf[0] == '/' && n > mark && strcmp(buf + n - mark, PROC_DELETED) == 0) {
		buf[n - mark] = '\0';
		m->deleted = 1;
	}
	m->path = buf;
	return 0;
}

int proc_maps_parse_line(const char *line, size_t len, char *path_buf, size_t path_size,
                         struct ev_mapping *m)
{
	struct cursor c = cursor_of(line, len);
	struct ev_mapping t = {0};
	uint64_t dev_major, dev_minor;

	if (proc_field_u64(&c, "-", 16, &t.start) < 0 || proc_field_u64(&c, " ", 16, &t.end) < 0 ||
	    t.start >= t.end || parse_perms(&c, &t) < 0 ||
	    proc_field_u64(&c, " ", 16, &t.pgoff) < 0 ||
	    proc_field_u64(&c, ":", 16, &dev_major) < 0 ||
	    proc_field_u64(&c, " ", 16, &dev_minor) < 0 || dev_major > UINT32_MAX ||
	    dev_minor > UINT32_MAX || proc_field_u64(&c, " ", 10, &t.file.ino) < 0)
		return -EINVAL;
	t.file.dev_major = (uint32_t)dev_major;
	t.file.dev_minor = (uint32_t)dev_minor;
	/* Padding up to the column of the names, none of which starts with a blank. */
	while (cursor_left(&c) > 0 && *c.p == ' ')
		(void)cursor_skip(&c, 1); /* cannot fail: a byte is left */
	if (parse_path(&c, path_buf, path_size, &t) < 0)
		return -EINVAL;
	t.kind = (uint8_t)ev_map_kind_of(t.path, &t.file);
	*m = t;
	return 0;
}

/* State of one pass; on the heap for its size. */
struct maps_pass {
	uint32_t pid;
	proc_map_fn fn;
	void *arg;
	uint64_t bad;
	bool skipping; /* inside a line that does not fit into buf */
	size_t fill;
	char buf[MAPS_BUF_BYTES];
	char path[MAPS_PATH_BYTES];
};

static int pass_line(struct maps_pass *p, const char *line, size_t len)
{
	struct ev_mapping m;

	if (proc_maps_parse_line(line, len, p->path, sizeof(p->path), &m) < 0) {
		p->bad++;
		return 0;
	}
	if (!m.exec)
		return 0;
	if (m.deleted && m.kind == EV_MAP_FILE && proc_deleted_is_name(p->pid, m.path, &m.file)) {
		p->path[strlen(p->path)] = PROC_DELETED[0];
		m.deleted = 0;
	}
	return p->fn(p->arg, &m);
}

/* Hands on the complete lines in buf, and keeps the rest; @eof: the rest is a line too. */
static int pass_buffer(struct maps_pass *p, bool eof)
{
	size_t done = 0;

	for (;;) {
		char *line = p->buf + done;
		char *end = memchr(line, '\n', p->fill - done);
		size_t len = end ? (size_t)(end - line) : p->fill - done;
		int r;

		if (!end && (!eof || len == 0))
			break;
		if (p->skipping) { /* counted when it began */
			p->skipping = false;
		} else {
			r = pass_line(p, line, len);
			if (r != 0)
				return r;
		}
		done += len + (end ? 1 : 0);
	}
	memmove(p->buf, p->buf + done, p->fill - done);
	p->fill -= done;
	if (p->fill == sizeof(p->buf)) { /* a line without end */
		if (!p->skipping)
			p->bad++;
		p->skipping = true;
		p->fill = 0;
	}
	return 0;
}

static int pass_file(struct maps_pass *p, int fd, const char *path, struct err *err)
{
	for (;;) {
		ssize_t n = read(fd, p->buf + p->fill, sizeof(p->buf) - p->fill);
		int r;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(err, -errno, "read %s: %s", path, err_name(errno));
		p->fill += (size_t)n;
		r = pass_buffer(p, n == 0);
		if (r != 0 || n == 0)
			return r;
	}
}

int proc_maps_read_fd(int fd, uint32_t pid, proc_map_fn fn, void *arg, uint64_t *ret_bad,
                      struct err *err)
{
	_cleanup_free_ struct maps_pass *p = NULL;
	char path[PROC_PATH_SIZE];
	int r;

	p = malloc(sizeof(*p));
	proc_path(path, pid, "maps");
	if (!p)
		return err_set(err, -ENOMEM, "read %s: ENOMEM", path);
	p->pid = pid;
	p->fn = fn;
	p->arg = arg;
	p->bad = 0;
	p->skipping = false;
	p->fill = 0;
	r = pass_file(p, fd, path, err);
	if (r < 0)
		return r;
	if (ret_bad)
		*ret_bad = p->bad;
	return r;
}

int proc_maps_read(uint32_t pid, proc_map_fn fn, void *arg, uint64_t *ret_bad, struct err *err)
{
	_cleanup_close_ int fd = -EBADF;
	char path[PROC_PATH_SIZE];
	int r;

	proc_path(path, pid, "maps");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		return proc_maps_read_fd(fd, pid, fn, arg, ret_bad, err);
	r = proc_task_errno(errno);
	if (r == -ESRCH)
		return err_set(err, r, "open %s: ESRCH: there is no such process", path);
	if (r == -EACCES || r == -EPERM)
		return err_set(
		        err, r, "open %s: %s: needs CAP_SYS_PTRACE%s", path, err_name(r),
		        cap_effective(CAP_SYS_PTRACE)
		                ? ", which is held: a security module or a user namespace refused"
		                : "; run as root or as the user of the process");
	return err_set(err, r, "open %s: %s", path, err_name(r));
}
