/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/proc_priv.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <sys/stat.h>

#define CPUS_ONLINE "/sys/devices/system/cpu/online"
/* The list of 8,192 CPUs, every second one online, has 24 KB. */
#define CPUS_MAX_BYTES     (64 * 1024)
#define SYSCTL_MAX_BYTES   256
#define NOTES_MAX_BYTES    (1024 * 1024)
#define NOTE_TYPE_BUILD_ID 3 /* NT_GNU_BUILD_ID of elf.h */
/* PROC_PID_INIT_INO of the kernel's proc_ns.h: the first pid namespace has a fixed inode. */
#define PIDNS_INIT_INO 0xEFFFFFFCULL

/* ---- directories of tasks ------------------------------------------------------------------- */

static int each_number(DIR *d, proc_pid_fn fn, void *arg)
{
	for (;;) {
		struct dirent *e;
		uint64_t nr;
		int r;

		errno = 0;
		e = readdir(d);
		if (!e)
			return -errno;
		if (parse_u64(e->d_name, 10, &nr) < 0 || nr == 0 || nr > INT32_MAX)
			continue;
		r = fn(arg, (uint32_t)nr);
		if (r != 0)
			return r;
	}
}

int proc_each(proc_pid_fn fn, void *arg, struct err *err)
{
	DIR *d = opendir("/proc");
	int r;

	if (!d)
		return err_set(err, -errno, "open /proc: %s", err_name(errno));
	r = each_number(d, fn, arg);
	(void)closedir(d); /* only read from */
	return r;
}

int proc_each_thread(uint32_t pid, proc_pid_fn fn, void *arg)
{
	char path[PROC_PATH_SIZE];
	DIR *d;
	int r;

	proc_path(path, pid, "task");
	d = opendir(path);
	if (!d)
		return proc_task_errno(errno);
	r = each_number(d, fn, arg);
	(void)closedir(d); /* only read from */
	/* A process that goes during the walk: the kernel says ENOENT. */
	return r == -ENOENT ? proc_task_errno(ENOENT) : r;
}

/* ---- CPUs ----------------------------------------------------------------------------------- */

int proc_cpu_list_parse(const char *s, uint32_t *cpus, uint32_t max)
{
	size_t len = strcspn(s, "\n");
	struct cursor c = cursor_of(s, len);
	uint64_t next = 0; /* lowest number that may follow */
	uint32_t n = 0;

	if (s[len] == '\n' && s[len + 1] != '\0')
		return -EINVAL;
	while (cursor_left(&c) > 0) {
		uint64_t first, last;
		const uint8_t *comma = memchr(c.p, ',', cursor_left(&c));
		struct cursor part;
		bool range;

		if (cursor_sub(&c, comma ? (size_t)(comma - c.p) : cursor_left(&c), &part) < 0)
			return -EINVAL;
		if (comma && (cursor_skip(&c, 1) < 0 || cursor_left(&c) == 0))
			return -EINVAL;
		range = memchr(part.p, '-', cursor_left(&part)) != NULL;
		if (proc_field_u64(&part, "-", 10, &first) < 0)
			return -EINVAL;
		last = first;
		if (range && proc_field_u64(&part, "", 10, &last) < 0)
			return -EINVAL;
		if (first < next || last < first || last > INT32_MAX)
			return -EINVAL;
		if (last - first >= max - n)
			return -E2BIG;
		for (uint64_t cpu = first; cpu <= last; cpu++)
			cpus[n++] = (uint32_t)cpu;
		next = last + 1;
	}
	return (int)n;
}

int proc_cpu_list_read(int dirfd, const char *path, uint32_t *cpus, uint32_t max,
                       uint32_t number_end, struct err *err)
{
	_cleanup_(sbuf_done) struct sbuf b;
	int r;

	sbuf_init(&b, CPUS_MAX_BYTES);
	r = file_read_all(dirfd, path, &b, err);
	if (r < 0)
		return r;
	/* Kernels before 5.14 cut a list that is longer than a page, also within a number. */
	if (b.len > 0 && b.p[b.len - 1] != '\n')
		return err_set(err, -EINVAL, "%s: EINVAL: the list of CPUs is cut off", path);
	r = b.len > 0 && memchr(b.p, '\0', b.len) ? -EINVAL
	                                          : proc_cpu_list_parse(b.p ? b.p : "", cpus, max);
	if (r == -E2BIG)
		return err_set(err, r, "%s: E2BIG: more than %u CPUs", path, max);
	if (r < 0)
		return err_set(err, r, "%s: EINVAL: no list of CPUs", path);
	if (r > 0 && cpus[r - 1] >= number_end)
		return err_set(err, -E2BIG, "%s: E2BIG: CPU %u, only those below %u are known",
		               path, cpus[r - 1], number_end);
	return r;
}

int proc_online_cpus(uint32_t *cpus, uint32_t max, struct err *err)
{
	int r = proc_cpu_list_read(AT_FDCWD, CPUS_ONLINE, cpus, max, UINT32_MAX, err);

	return r == 0 ? err_set(err, -EINVAL, "%s: EINVAL: the list of CPUs is empty", CPUS_ONLINE)
	              : r;
}

/* ---- settings and rights -------------------------------------------------------------------- */

int proc_sysctl(const char *name, int64_t *ret)
{
	_cleanup_(sbuf_done) struct sbuf path, b;
	int r;

	sbuf_init(&path, SYSCTL_MAX_BYTES);
	sbuf_init(&b, SYSCTL_MAX_BYTES);
	r = sbuf_addf(&path, "/proc/sys/%s", name);
	if (r < 0)
		return r;
	r = file_read_all(AT_FDCWD, path.p, &b, NULL);
	if (r < 0)
		return r;
	if (b.len == 0)
		return -EINVAL;
	b.p[strcspn(b.p, "\n")] = '\0';
	return parse_i64_range(b.p, INT64_MIN, INT64_MAX, ret);
}

int proc_self_pidns(uint64_t *ret_dev, uint64_t *ret_ino, bool *ret_initial)
{
	struct stat st;

	if (stat("/proc/self/ns/pid", &st) < 0)
		return -errno;
	*ret_dev = st.st_dev;
	*ret_ino = st.st_ino;
	*ret_initial = st.st_ino == PIDNS_INIT_INO;
	return 0;
}

void proc_lockdown(char ret[32])
{
	_cleanup_(sbuf_done) struct sbuf b;
	const char *open, *close;
	size_t len = 0;

	sbuf_init(&b, SYSCTL_MAX_BYTES);
	ret[0] = '\0';
	if (file_read_all(AT_FDCWD, "/sys/kernel/security/lockdown", &b, NULL) < 0 || b.len == 0)
		return;
	/* "none [integrity] confidentiality" */
	open = strchr(b.p, '[');
	close = open ? strchr(open, ']') : NULL;
	if (close)
		len = (size_t)(close - open - 1);
	if (len >= 32)
		return;
	memcpy(ret, open ? open + 1 : "", len);
	ret[len] = '\0';
}

/* ---- build-id of the kernel ----------------------------------------------------------------- */

static size_t padding_of(uint32_t n)
{
	return (4 - n % 4) % 4;
}

/* Reads a field of a note; the padding after the last one may be absent. */
static int note_field(struct cursor *c, uint32_t len, struct cursor *ret)
{
	if (cursor_sub(c, len, ret) < 0)
		return -EINVAL;
	if (cursor_skip(c, MIN_OF(padding_of(len), cursor_left(c))) < 0)
		return -EINVAL;
	return 0;
}

int proc_notes_build_id(const void *notes, size_t len, uint8_t ret[EV_BUILD_ID_MAX],
                        size_t *ret_len)
{
	struct cursor c = cursor_of(notes, len);
	bool damaged = false;

	while (cursor_left(&c) > 0) {
		uint32_t name_len, desc_len, type;
		struct cursor name, desc;

		/* After a wrong size the start of the next note is not known. */
		if (cursor_u32(&c, &name_len) < 0 || cursor_u32(&c, &desc_len) < 0 ||
		    cursor_u32(&c, &type) < 0 || note_field(&c, name_len, &name) < 0 ||
		    note_field(&c, desc_len, &desc) < 0)
			return -EINVAL;
		if (type != NOTE_TYPE_BUILD_ID || name_len != 4 || memcmp(name.p, "GNU", 4) != 0)
			continue;
		if (desc_len == 0 || desc_len > EV_BUILD_ID_MAX) {
			damaged = true;
			continue;
		}
		memcpy(ret, desc.p, desc_len);
		*ret_len = desc_len;
		return 0;
	}
	return damaged ? -EINVAL : -ENOENT;
}

int proc_kernel_build_id(uint8_t ret[EV_BUILD_ID_MAX], size_t *ret_len)
{
	_cleanup_(sbuf_done) struct sbuf b;
	int r;

	sbuf_init(&b, NOTES_MAX_BYTES);
	r = file_read_all(AT_FDCWD, "/sys/kernel/notes", &b, NULL);
	if (r < 0)
		return r;
	return proc_notes_build_id(b.p ? b.p : "", b.len, ret, ret_len);
}

/* ---- idle time ------------------------------------------------------------------------------- */

/* Reads a number and the blanks before it. */
static int take_number(struct cursor *c, uint64_t *ret)
{
	uint64_t v = 0;
	bool any = false;

	while (c->p < c->end && *c->p == ' ')
		c->p++;
	for (; c->p < c->end && *c->p >= '0' && *c->p <= '9'; c->p++, any = true)
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*c->p - '0'), &v))
			return -ERANGE;
	*ret = v;
	return any ? 0 : -EINVAL;
}

int proc_idle_parse(const char *text, size_t len, const uint32_t *cpus, uint32_t n,
                    uint64_t *ret_ticks)
{
	struct cursor c = cursor_of(text, len);
	uint64_t sum = 0;
	uint32_t found = 0;
	const char *line;
	size_t line_len;

	while (found < n && cursor_line(&c, &line, &line_len) == 0) {
		struct cursor l = cursor_of(line, line_len);
		uint64_t cpu, v[5]; /* user, nice, system, idle, iowait */
		int r = 0;

		/* "cpu7 …"; the first line, "cpu  …", is the sum of all. */
		if (line_len < 5 || memcmp(line, "cpu", 3) != 0 || line[3] == ' ')
			continue;
		l.p += 3;
		if (take_number(&l, &cpu) < 0 || cpu != cpus[found])
			continue;
		for (size_t i = 0; i < ARRAY_SIZE(v) && r == 0; i++)
			r = take_number(&l, &v[i]);
		if (r < 0)
			return -EINVAL;
		sum += v[3] + v[4];
		found++;
	}
	if (found < n)
		return -ENODATA;
	*ret_ticks = sum;
	return 0;
}

int proc_idle_ns(const uint32_t *cpus, uint32_t n, uint64_t *ret)
{
	struct sbuf b;
	uint64_t ticks;
	int r;

	sbuf_init(&b, 4 << 20); /* 4,096 CPUs of 200 bytes, and a long line of interrupts */
	r = file_read_all(AT_FDCWD, "/proc/stat", &b, NULL);
	if (r == 0)
		r = proc_idle_parse(b.p, b.len, cpus, n, &ticks);
	if (r == 0)
		*ret = ticks * (NSEC_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK));
	sbuf_done(&b);
	return r;
}
