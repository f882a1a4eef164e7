/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/proc_priv.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* "Groups:" of a task with all 65,536 supplementary groups is 720 KB long. */
#define STATUS_MAX_BYTES (1024 * 1024)
/* stat, schedstat and comm are one short line. */
#define LINE_MAX_BYTES 4096

void proc_path(char path[PROC_PATH_SIZE], uint32_t pid, const char *name)
{
	int n = snprintf(path, PROC_PATH_SIZE, "/proc/%u/%s", pid, name);

	assert(n > 0 && n < PROC_PATH_SIZE);
}

void proc_task_path(char path[PROC_PATH_SIZE], uint32_t pid, uint32_t tid, const char *name)
{
	int n = snprintf(path, PROC_PATH_SIZE, "/proc/%u/task/%u/%s", pid, tid, name);

	assert(n > 0 && n < PROC_PATH_SIZE);
}

int proc_task_errno(int e)
{
	/* Without /proc every task would look gone. */
	if (e == ENOENT && access("/proc/self/stat", F_OK) == 0)
		return -ESRCH;
	return -e;
}

int proc_read_task_file(const char *path, struct sbuf *b, struct err *err)
{
	int r = file_read_all(AT_FDCWD, path, b, err);

	if (r == -ENOENT && proc_task_errno(ENOENT) == -ESRCH)
		r = -ESRCH;
	if (r == -ESRCH)
		return err_set(err, r,
		               "read %s: ESRCH: there is no such task, or it is hidden from us",
		               path);
	return r;
}

int proc_field_u64(struct cursor *c, const char *delims, int base, uint64_t *ret)
{
	char num[32]; /* 20 digits; what is longer is no number */
	size_t n = 0;
	uint8_t ch;

	while (cursor_u8(c, &ch) == 0) {
		if (ch != '\0' && strchr(delims, ch))
			break;
		if (n == sizeof(num) - 1 || ch == '\0')
			return -EINVAL;
		num[n++] = (char)ch;
	}
	num[n] = '\0';
	return parse_u64(num, base, ret);
}

/* The value of "Key:\tvalue" when the line has this key. */
static bool line_value(const char *line, size_t len, const char *key, struct cursor *ret)
{
	size_t klen = strlen(key);

	if (len <= klen || memcmp(line, key, klen) != 0 || line[klen] != ':')
		return false;
	*ret = cursor_of(line + klen + 1, len - klen - 1);
	while (cursor_left(ret) > 0 && (*ret->p == '\t' || *ret->p == ' '))
		(void)cursor_skip(ret, 1); /* cannot fail: a byte is left */
	return true;
}

static int value_u32(struct cursor *c, uint32_t *ret)
{
	uint64_t v;
	int r = proc_field_u64(c, "\t ", 10, &v);

	if (r < 0 || v > UINT32_MAX)
		return -EINVAL;
	*ret = (uint32_t)v;
	return 0;
}

/* The kernel writes "\n" for a newline and "\\" for a backslash here, and nothing else. */
static void unescape_name(const struct cursor *value, char *dst, size_t size)
{
	size_t n = 0;

	for (const uint8_t *p = value->p; p < value->end && n < size - 1; p++) {
		char ch = (char)*p;

		if (ch == '\\' && value->end - p > 1 && (p[1] == 'n' || p[1] == '\\')) {
			ch = p[1] == 'n' ? '\n' : '\\';
			p++;
		}
		dst[n++] = ch;
	}
	dst[n] = '\0';
}

struct status_seen {
	bool name, tgid, pid, ppid, uid, kthread, vm_size, zombie, asleep;
	uint32_t pid_nr;
};

static int status_line(const char *line, size_t len, struct proc_status *s,
                       struct status_seen *seen)
{
	struct cursor v;
	uint32_t nr;

	if (!seen->name && line_value(line, len, "Name", &v)) {
		seen->name = true;
		unescape_name(&v, s->name, sizeof(s->name));
	} else if (line_value(line, len, "State", &v)) {
		seen->zombie = cursor_left(&v) > 0 && (*v.p == 'Z' || *v.p == 'X');
		seen->asleep = cursor_left(&v) > 0 && (*v.p == 'S' || *v.p == 'D');
	} else if (line_value(line, len, "Tgid", &v)) {
		seen->tgid = true;
		return value_u32(&v, &s->tgid);
	} else if (line_value(line, len, "Pid", &v)) {
		seen->pid = true;
		return value_u32(&v, &seen->pid_nr);
	} else if (line_value(line, len, "PPid", &v)) {
		seen->ppid = true;
		return value_u32(&v, &s->ppid);
	} else if (line_value(line, len, "Uid", &v)) {
		int r = value_u32(&v, &s->uid);

		seen->uid = true;
		s->euid = s->uid; /* the kernel always writes all four */
		return r < 0 || cursor_left(&v) == 0 ? r : value_u32(&v, &s->euid);
	} else if (line_value(line, len, "NSpid", &v)) {
		s->nspid_cnt = 0;
		while (cursor_left(&v) > 0) {
			if (s->nspid_cnt == PROC_NSPID_MAX ||
			    value_u32(&v, &s->nspid[s->nspid_cnt]) < 0)
				return -EINVAL;
			s->nspid_cnt++;
		}
	} else if (line_value(line, len, "Kthread", &v)) {
		if (value_u32(&v, &nr) < 0)
			return -EINVAL;
		seen->kthread = true;
		s->kthread = nr != 0;
	} else if (line_value(line, len, "VmSize", &v)) {
		seen->vm_size = true;
	}
	return 0;
}

int proc_status_parse(const char *text, size_t len, struct proc_status *ret)
{
	struct cursor c = cursor_of(text, len);
	struct status_seen seen = {0};
	struct proc_status s = {0};
	size_t line_len;
	const char *line;

	while (cursor_line(&c, &line, &line_len) == 0) {
		if (status_line(line, line_len, &s, &seen) < 0)
			return -EINVAL;
	}
	if (!seen.name || !seen.tgid || !seen.pid || !seen.ppid || !seen.uid)
		return -EINVAL;
	/* Kernels before 6.8 have no Kthread line. Their kernel threads have no memory, but neither
	 * has a process that is about to become a zombie: kernel threads are kthreadd, 2, or its
	 * children. */
	if (!seen.kthread)
		s.kthread = !seen.vm_size && !seen.zombie && (s.ppid == 2 || s.ppid == 0);
	if (s.nspid_cnt == 0) { /* a kernel without pid namespaces */
		s.nspid_cnt = 1;
		s.nspid[0] = seen.pid_nr;
	}
	s.zombie = seen.zombie;
	s.asleep = seen.asleep;
	*ret = s;
	return 0;
}

int proc_status_read(uint32_t pid, struct proc_status *ret, struct err *err)
{
	_cleanup_(sbuf_done) struct sbuf b;
	char path[PROC_PATH_SIZE];
	int r;

	sbuf_init(&b, STATUS_MAX_BYTES);
	proc_path(path, pid, "status");
	r = proc_read_task_file(path, &b, err);
	if (r < 0)
		return r;
	r = proc_status_parse(b.p ? b.p : "", b.len, ret);
	if (r < 0)
		return err_set(err, r, "%s: EINVAL: unexpected contents", path);
	return 0;
}

int proc_start_ns(uint32_t pid, uint64_t *ret)
{
	_cleanup_(sbuf_done) struct sbuf b;
	long hz = sysconf(_SC_CLK_TCK);
	char path[PROC_PATH_SIZE];
	struct cursor c;
	const char *end;
	uint64_t ticks, ns;
	int r;

	sbuf_init(&b, LINE_MAX_BYTES);
	proc_path(path, pid, "stat");
	r = proc_read_task_file(path, &b, NULL);
	if (r < 0)
		return r;
	/* Field 2 is "(comm)" and may hold blanks and parentheses: count from the last one. */
	end = b.p ? strrchr(b.p, ')') : NULL;
	if (!end || end[1] != ' ' || hz <= 0)
		return -EINVAL;
	c = cursor_of(end + 2, b.len - (size_t)(end + 2 - b.p));
	for (int field = 3; field < 22; field++) {
		const uint8_t *blank = memchr(c.p, ' ', cursor_left(&c));

		if (!blank || cursor_skip(&c, (size_t)(blank - c.p) + 1) < 0)
			return -EINVAL;
	}
	if (proc_field_u64(&c, " \n", 10, &ticks) < 0)
		return -EINVAL;
	if (__builtin_mul_overflow(ticks, NSEC_PER_SEC / (uint64_t)hz, &ns))
		return -EINVAL;
	*ret = ns;
	return 0;
}

int proc_thread_cpu_ns(uint32_t pid, uint32_t tid, uint64_t *ret)
{
	_cleanup_(sbuf_done) struct sbuf b;
	char path[PROC_PATH_SIZE];
	struct cursor c;
	int r;

	sbuf_init(&b, LINE_MAX_BYTES);
	proc_task_path(path, pid, tid, "schedstat");
	r = proc_read_task_file(path, &b, NULL);
	if (r < 0)
		return r;
	c = cursor_of(b.p ? b.p : "", b.len);
	return proc_field_u64(&c, " ", 10, ret) < 0 ? -EINVAL : 0;
}

int proc_comm(uint32_t pid, uint32_t tid, char ret[64])
{
	_cleanup_(sbuf_done) struct sbuf b;
	char path[PROC_PATH_SIZE];
	int r;

	sbuf_init(&b, LINE_MAX_BYTES);
	proc_task_path(path, pid, tid, "comm");
	r = proc_read_task_file(path, &b, NULL);
	if (r < 0)
		return r;
	if (b.len == 0 || b.p[b.len - 1] != '\n')
		return -EINVAL;
	b.p[b.len - 1] = '\0';
	/* The kernel's limit is 64 bytes, for workqueue workers. */
	return str_copy(ret, 64, b.p) < 0 ? -EINVAL : 0;
}

int proc_exe(uint32_t pid, struct sbuf *b)
{
	size_t mark = strlen(PROC_DELETED);
	char link[PROC_PATH_SIZE];
	char target[PATH_MAX];
	struct stat st;
	ssize_t n;

	proc_path(link, pid, "exe");
	n = readlink(link, target, sizeof(target) - 1);
	if (n < 0) {
		int r = -errno;

		/* A kernel thread is there, but has no program. */
		proc_path(link, pid, "stat");
		return r == -ENOENT && access(link, F_OK) < 0 ? proc_task_errno(ENOENT) : r;
	}
	if ((size_t)n == sizeof(target) - 1)
		return -ENAMETOOLONG;
	target[n] = '\0';
	if ((size_t)n > mark && strcmp(target + n - mark, PROC_DELETED) == 0) {
		target[(size_t)n - mark] = '\0';
		if (stat(link, &st) == 0) {
			struct ev_file_id id = {.dev_major = major(st.st_dev),
			                        .dev_minor = minor(st.st_dev),
			                        .ino = st.st_ino};

			if (proc_deleted_is_name(pid, target, &id))
				target[(size_t)n - mark] = ' ';
		}
	}
	return sbuf_str(b, target);
}
