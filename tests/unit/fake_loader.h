/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the tests of track: a loader made of plain memory (the functions of loader.h that track calls
 * are defined here, so none of the real ones is linked), synthetic events, and children of our own.
 */
#ifndef PA_TESTS_FAKE_LOADER_H
#define PA_TESTS_FAKE_LOADER_H

#include "track/track.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <cmocka.h>

/* ---- a loader in memory --------------------------------------------------------------------- */

#define FAKE_SLOTS 16384 /* power of two */

struct load_oncpu {
	struct abi_range *r;
	uint32_t cnt;
	struct fake_proc {
		uint32_t tgid; /* 0: never used */
		bool there;
		unsigned int sets;
		struct abi_proc v;
	} slot[FAKE_SLOTS];
	struct abi_task task[64];
	size_t n_tasks;
	int tasks_err, set_err;
	unsigned int tasks_calls, sets, dels, there, changes;
	uint64_t watermark_ns;
	bool hooked;
	uint32_t ended;           /* the last one */
	uint32_t watch;           /* a place, and what was there when programs were last reported */
	struct abi_range watched; /* to read the table of processes anew */
};

static inline struct fake_proc *fake_slot(struct load_oncpu *l, uint32_t tgid)
{
	uint32_t i = tgid * 2654435761U;

	while (l->slot[i % FAKE_SLOTS].tgid != 0 && l->slot[i % FAKE_SLOTS].tgid != tgid)
		i++;
	return &l->slot[i % FAKE_SLOTS];
}

static inline struct load_oncpu *fake_new(uint32_t cnt)
{
	struct load_oncpu *l = calloc(1, sizeof(*l));

	assert_non_null(l);
	l->r = calloc(cnt, sizeof(*l->r));
	assert_non_null(l->r);
	l->cnt = cnt;
	return l;
}

static inline void fake_free(struct load_oncpu *l)
{
	free(l->r);
	free(l);
}

static inline struct abi_task *fake_task(struct load_oncpu *l, uint32_t tgid, uint32_t exec_id,
                                         uint64_t start_ns)
{
	struct abi_task *k = NULL;

	for (size_t i = 0; i < l->n_tasks; i++)
		if (l->task[i].tgid == tgid)
			k = &l->task[i];
	if (!k) {
		assert_true(l->n_tasks < ARRAY_SIZE(l->task));
		k = &l->task[l->n_tasks++];
	}
	*k = (struct abi_task){.tgid = tgid, .exec_id = exec_id, .start_ns = start_ns};
	memcpy(k->comm, "tasked", 7);
	return k;
}

uint32_t load_range_cnt(const struct load_oncpu *l)
{
	return l->cnt;
}

struct abi_range *load_ranges(struct load_oncpu *l)
{
	return l->r;
}

int load_proc_set(struct load_oncpu *l, uint32_t tgid, const struct abi_proc *p)
{
	struct fake_proc *s = fake_slot(l, tgid);

	if (l->set_err)
		return l->set_err;
	/* The BPF program relies on this. */
	assert_true(p->cnt > 0 && p->first < l->cnt && p->cnt <= l->cnt - p->first);
	for (uint32_t i = p->first; i < p->first + p->cnt; i++) {
		assert_true(l->r[i].start < l->r[i].end);
		assert_true(i == p->first || l->r[i - 1].end <= l->r[i].start);
	}
	l->there += !s->there;
	*s = (struct fake_proc){.tgid = tgid, .there = true, .sets = s->sets + 1, .v = *p};
	l->sets++;
	return 0;
}

void load_ranges_reclaimed(struct load_oncpu *l)
{
	l->changes++;
	l->watched = l->r[l->watch];
}

void load_watermark(struct load_oncpu *l, uint64_t until_ns)
{
	assert_true(until_ns > l->watermark_ns);
	l->watermark_ns = until_ns;
}

bool load_hooked(const struct load_oncpu *l)
{
	return l->hooked;
}

void load_proc_ended(struct load_oncpu *l, uint32_t tgid)
{
	l->ended = tgid;
}

int load_proc_del(struct load_oncpu *l, uint32_t tgid)
{
	struct fake_proc *s = fake_slot(l, tgid);

	if (!s->there)
		return -ENOENT;
	s->there = false;
	l->there--;
	l->dels++;
	return 0;
}

int load_tasks(struct load_oncpu *l, load_task_fn fn, void *arg)
{
	l->tasks_calls++;
	if (l->tasks_err)
		return l->tasks_err;
	for (size_t i = 0; i < l->n_tasks; i++)
		fn(arg, &l->task[i]);
	return 0;
}

/* Looks up as the BPF program does: 0 not published, 1 a range (in *ret), -1 none (zeroes in *ret).
 */
static inline int kernel_find(struct load_oncpu *l, uint32_t pid, uint32_t exec_id, uint64_t addr,
                              struct abi_range *ret)
{
	const struct fake_proc *s = fake_slot(l, pid);
	uint32_t lo, hi;

	*ret = (struct abi_range){0};
	if (!s->there || s->v.exec_id != exec_id)
		return 0;
	lo = s->v.first;
	hi = lo + s->v.cnt;
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (l->r[mid].end > addr)
			hi = mid;
		else
			lo = mid + 1;
	}
	if (lo == s->v.first + s->v.cnt || l->r[lo].start > addr)
		return -1;
	*ret = l->r[lo];
	return 1;
}

/* ---- events --------------------------------------------------------------------------------- */

#define PID_BASE 100000000U /* above any pid that Linux gives */
#define EXEC_ID  7U
#define START_NS 123456789ULL

static uint64_t later; /* time of the last event */

static inline uint64_t tick(void)
{
	later = MAX_OF(later + 1, now_ns());
	return later;
}

static inline void ev_fork(struct trk *t, uint32_t pid, uint32_t ppid)
{
	struct ev_proc ev = {.type = EV_PROC_FORK,
	                     .pid = pid,
	                     .tid = pid,
	                     .ppid = ppid,
	                     .ptid = ppid,
	                     .time_ns = tick()};

	trk_event(t, &ev);
}

static inline void ev_thread(struct trk *t, uint32_t pid, uint32_t tid)
{
	struct ev_proc ev = {.type = EV_PROC_FORK,
	                     .pid = pid,
	                     .tid = tid,
	                     .ppid = pid,
	                     .ptid = pid,
	                     .time_ns = tick()};

	trk_event(t, &ev);
}

static inline void ev_exit(struct trk *t, uint32_t pid, uint32_t tid)
{
	struct ev_proc ev = {.type = EV_PROC_EXIT, .pid = pid, .tid = tid, .time_ns = tick()};

	trk_event(t, &ev);
}

static inline void ev_exec_at(struct trk *t, uint32_t pid, uint64_t time_ns)
{
	struct ev_proc ev = {.type = EV_PROC_COMM,
	                     .pid = pid,
	                     .tid = pid,
	                     .exec = true,
	                     .time_ns = time_ns,
	                     .comm = "prog"};

	trk_event(t, &ev);
}

static inline void ev_exec(struct trk *t, uint32_t pid)
{
	ev_exec_at(t, pid, tick());
}

static inline void ev_lost(struct trk *t)
{
	struct ev_proc ev = {.type = EV_PROC_LOST, .time_ns = tick(), .lost = 1};

	trk_event(t, &ev);
}

/* @file: 0 anonymous, else a number that makes path and inode. */
static inline struct ev_proc mmap_event(uint32_t pid, uint64_t start, uint64_t end, uint64_t pgoff,
                                        uint32_t file, char path[32])
{
	struct ev_proc ev = {.type = EV_PROC_MMAP,
	                     .pid = pid,
	                     .tid = pid,
	                     .map = {.start = start, .end = end, .pgoff = pgoff, .exec = 1}};

	(void)snprintf(path, 32, "/nowhere/lib%u", file);
	ev.map.path = file ? path : "//anon";
	ev.map.kind = file ? EV_MAP_FILE : EV_MAP_ANON;
	if (file)
		ev.map.file = (struct ev_file_id){.dev_major = 250, .ino = file};
	return ev;
}

static inline void ev_mmap(struct trk *t, uint32_t pid, uint64_t start, uint64_t end,
                           uint64_t pgoff, uint32_t file)
{
	char path[32];
	struct ev_proc ev = mmap_event(pid, start, end, pgoff, file, path);

	ev.time_ns = tick();
	trk_event(t, &ev);
}

/* ---- helpers -------------------------------------------------------------------------------- */

static inline struct ev_proc_id id_of(uint32_t pid, uint32_t exec_id, uint64_t start_ns)
{
	return (struct ev_proc_id){.pid = pid, .exec_id = exec_id, .start_ns = start_ns};
}

/* Inode of the image that holds @addr, 0 anonymous, -1 nowhere; offset to *ret_off. */
static inline int64_t file_at(const struct trk *t, uint32_t pid, uint32_t exec_id, uint64_t addr,
                              uint64_t *ret_off)
{
	struct ev_proc_id id = id_of(pid, exec_id, 0);
	struct trk_location pl;
	int r = trk_resolve(t, &id, addr, &pl);

	*ret_off = pl.off;
	if (r < 0) {
		assert_int_equal(r, -ENOENT);
		assert_null(pl.image);
		assert_int_equal(pl.off, addr);
		return -1;
	}
	assert_true(pl.map_start <= addr && addr < pl.map_end);
	assert_int_equal(pl.anon, !pl.image);
	return pl.image ? (int64_t)pl.image->file.ino : 0;
}

#define assert_file_at(t, pid, exec_id, addr, file, off)                                           \
	do {                                                                                       \
		uint64_t off_;                                                                     \
		assert_int_equal(file_at(t, pid, exec_id, addr, &off_), file);                     \
		assert_int_equal(off_, off);                                                       \
	} while (0)
#define assert_no_file_at(t, pid, exec_id, addr)                                                   \
	do {                                                                                       \
		uint64_t off_;                                                                     \
		assert_int_equal(file_at(t, pid, exec_id, addr, &off_), -1);                       \
	} while (0)

static inline struct trk *make(struct load_oncpu *l)
{
	struct trk_options o = {.loader = l};
	struct trk *t;

	assert_int_equal(trk_new(&o, &t, NULL), 0);
	return t;
}

/* Tracks this very process, from which synthetic ones fork. */
static inline struct trk *make_scanned(struct load_oncpu *l)
{
	struct trk *t = make(l);

	fake_task(l, (uint32_t)getpid(), EXEC_ID, START_NS);
	assert_int_equal(trk_scan(t, NULL), 0);
	assert_true(fake_slot(l, (uint32_t)getpid())->there);
	return t;
}

static inline uint32_t self(void)
{
	return (uint32_t)getpid();
}

static inline void wait_ms(long ms)
{
	struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

	while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
		;
}

/* A child of ours; it runs @fn(arg), reports, and waits for its end. */
struct child {
	pid_t pid;
	int to, from;
};

static inline void child_step(const struct child *c)
{
	char ch = 'x';

	assert_int_equal(write(c->to, &ch, 1), 1);
	assert_int_equal(read(c->from, &ch, 1), 1);
}

/* @fn is called with 0 at the start, and with 1 … at each further step. */
static inline struct child child_start(bool (*fn)(int step, void *arg), void *arg)
{
	int a[2], b[2];
	struct child c;

	assert_int_equal(pipe2(a, O_CLOEXEC), 0);
	assert_int_equal(pipe2(b, O_CLOEXEC), 0);
	c.pid = fork();
	assert_true(c.pid >= 0);
	if (c.pid == 0) {
		char ch;

		close(a[1]);
		close(b[0]);
		for (int step = 0; read(a[0], &ch, 1) == 1; step++)
			if (!fn(step, arg) || write(b[1], "k", 1) != 1)
				_exit(1);
		_exit(0); /* the parent has gone */
	}
	close(a[0]);
	close(b[1]);
	c.to = a[1];
	c.from = b[0];
	child_step(&c);
	return c;
}

static inline void child_end(struct child *c)
{
	int status;

	/* By a signal from outside: at an exit of its own valgrind would look for leaks of what is
	 * ours. */
	kill(c->pid, SIGKILL);
	close(c->to);
	close(c->from);
	assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static inline bool idle(int step, void *arg)
{
	(void)step;
	(void)arg;
	return true;
}

/* A folder of our own with copies of a small ELF file. */
struct files {
	char dir[32], path[64], other[64];
};

static inline void copy_elf(const char *to)
{
	_cleanup_close_ int in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	_cleanup_close_ int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
	char buf[4096];
	ssize_t n;

	assert_true(in >= 0 && out >= 0);
	while ((n = read(in, buf, sizeof(buf))) > 0)
		assert_int_equal(write(out, buf, (size_t)n), n);
	assert_int_equal(n, 0);
}

static inline void files_make(struct files *f)
{
	(void)snprintf(f->dir, sizeof(f->dir), "/tmp/test-track-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	(void)snprintf(f->path, sizeof(f->path), "%s/one", f->dir);
	(void)snprintf(f->other, sizeof(f->other), "%s/two", f->dir);
	copy_elf(f->path);
	copy_elf(f->other);
}

static inline void files_remove(const struct files *f)
{
	unlink(f->path);
	unlink(f->other);
	assert_int_equal(rmdir(f->dir), 0);
}

static inline void *map_file(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

#endif
