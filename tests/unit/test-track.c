// SPDX-License-Identifier: Apache-2.0
/*
 * track against synthetic events, real processes of its own, and a loader made of plain memory: the
 * functions of loader.h that track calls are defined here, so none of the real ones is linked.
 */
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
	unsigned int tasks_calls, sets, dels, there;
};

static struct fake_proc *fake_slot(struct load_oncpu *l, uint32_t tgid)
{
	uint32_t i = tgid * 2654435761U;

	while (l->slot[i % FAKE_SLOTS].tgid != 0 && l->slot[i % FAKE_SLOTS].tgid != tgid)
		i++;
	return &l->slot[i % FAKE_SLOTS];
}

static struct load_oncpu *fake_new(uint32_t cnt)
{
	struct load_oncpu *l = calloc(1, sizeof(*l));

	assert_non_null(l);
	l->r = calloc(cnt, sizeof(*l->r));
	assert_non_null(l->r);
	l->cnt = cnt;
	return l;
}

static void fake_free(struct load_oncpu *l)
{
	free(l->r);
	free(l);
}

static struct abi_task *fake_task(struct load_oncpu *l, uint32_t tgid, uint32_t exec_id,
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
	/* What the BPF program relies on. */
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

/* What the BPF program would find: 0 not published, 1 a range (in *ret), -1 none. */
static int kernel_find(struct load_oncpu *l, uint32_t pid, uint32_t exec_id, uint64_t addr,
                       struct abi_range *ret)
{
	const struct fake_proc *s = fake_slot(l, pid);
	uint32_t lo, hi;

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

static uint64_t tick(void)
{
	later = MAX_OF(later + 1, now_ns());
	return later;
}

static void ev_fork(struct trk *t, uint32_t pid, uint32_t ppid)
{
	struct ev_proc ev = {.type = EV_PROC_FORK,
	                     .pid = pid,
	                     .tid = pid,
	                     .ppid = ppid,
	                     .ptid = ppid,
	                     .time_ns = tick()};

	trk_event(t, &ev);
}

static void ev_thread(struct trk *t, uint32_t pid, uint32_t tid)
{
	struct ev_proc ev = {.type = EV_PROC_FORK,
	                     .pid = pid,
	                     .tid = tid,
	                     .ppid = pid,
	                     .ptid = pid,
	                     .time_ns = tick()};

	trk_event(t, &ev);
}

static void ev_exit(struct trk *t, uint32_t pid, uint32_t tid)
{
	struct ev_proc ev = {.type = EV_PROC_EXIT, .pid = pid, .tid = tid, .time_ns = tick()};

	trk_event(t, &ev);
}

static void ev_exec_at(struct trk *t, uint32_t pid, uint64_t time_ns)
{
	struct ev_proc ev = {.type = EV_PROC_COMM,
	                     .pid = pid,
	                     .tid = pid,
	                     .exec = true,
	                     .time_ns = time_ns,
	                     .comm = "prog"};

	trk_event(t, &ev);
}

static void ev_exec(struct trk *t, uint32_t pid)
{
	ev_exec_at(t, pid, tick());
}

static void ev_lost(struct trk *t)
{
	struct ev_proc ev = {.type = EV_PROC_LOST, .time_ns = tick(), .lost = 1};

	trk_event(t, &ev);
}

/* @file: 0 anonymous, else a number that makes path and inode. */
static struct ev_proc mmap_event(uint32_t pid, uint64_t start, uint64_t end, uint64_t pgoff,
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

static void ev_mmap(struct trk *t, uint32_t pid, uint64_t start, uint64_t end, uint64_t pgoff,
                    uint32_t file)
{
	char path[32];
	struct ev_proc ev = mmap_event(pid, start, end, pgoff, file, path);

	ev.time_ns = tick();
	trk_event(t, &ev);
}

/* ---- helpers -------------------------------------------------------------------------------- */

static struct ev_proc_id id_of(uint32_t pid, uint32_t exec_id, uint64_t start_ns)
{
	return (struct ev_proc_id){.pid = pid, .exec_id = exec_id, .start_ns = start_ns};
}

/* Inode of the image that holds @addr, 0 anonymous, -1 nowhere; offset to *ret_off. */
static int64_t file_at(const struct trk *t, uint32_t pid, uint32_t exec_id, uint64_t addr,
                       uint64_t *ret_off)
{
	struct ev_proc_id id = id_of(pid, exec_id, 0);
	struct trk_place pl;
	int r = trk_place(t, &id, addr, &pl);

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

static struct trk *make(struct load_oncpu *l)
{
	struct trk_options o = {.loader = l};
	struct trk *t;

	assert_int_equal(trk_new(&o, &t, NULL), 0);
	return t;
}

/* Tracks this very process, from which synthetic ones fork. */
static struct trk *make_scanned(struct load_oncpu *l)
{
	struct trk *t = make(l);

	fake_task(l, (uint32_t)getpid(), EXEC_ID, START_NS);
	assert_int_equal(trk_scan(t, NULL), 0);
	assert_true(fake_slot(l, (uint32_t)getpid())->there);
	return t;
}

static uint32_t self(void)
{
	return (uint32_t)getpid();
}

static void wait_ms(long ms)
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

static void child_step(const struct child *c)
{
	char ch = 'x';

	assert_int_equal(write(c->to, &ch, 1), 1);
	assert_int_equal(read(c->from, &ch, 1), 1);
}

/* @fn is called with 0 at the start, and with 1 … at each further step. */
static struct child child_start(bool (*fn)(int step, void *arg), void *arg)
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
		_exit(0);
	}
	close(a[0]);
	close(b[1]);
	c.to = a[1];
	c.from = b[0];
	child_step(&c);
	return c;
}

static void child_end(struct child *c)
{
	int status;

	close(c->to);
	close(c->from);
	assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
	assert_int_equal(status, 0);
}

static bool idle(int step, void *arg)
{
	(void)step;
	(void)arg;
	return true;
}

/* A folder of our own with copies of a small ELF file. */
struct files {
	char dir[32], path[64], other[64];
};

static void copy_elf(const char *to)
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

static void files_make(struct files *f)
{
	(void)snprintf(f->dir, sizeof(f->dir), "/tmp/test-track-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	(void)snprintf(f->path, sizeof(f->path), "%s/one", f->dir);
	(void)snprintf(f->other, sizeof(f->other), "%s/two", f->dir);
	copy_elf(f->path);
	copy_elf(f->other);
}

static void files_remove(const struct files *f)
{
	unlink(f->path);
	unlink(f->other);
	assert_int_equal(rmdir(f->dir), 0);
}

static void *map_file(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* ---- incarnations --------------------------------------------------------------------------- */

static void test_fork_shares_until_a_change(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct trk *t = make_scanned(l);
	uint32_t kid = PID_BASE, kid2 = PID_BASE + 1;
	struct abi_range r;

	(void)state;
	ev_mmap(t, self(), 0x10000, 0x14000, 0x2000, 1);
	ev_fork(t, kid, self());
	ev_fork(t, kid2, kid);
	trk_flush(t);
	assert_int_equal(fake_slot(l, kid)->v.first, fake_slot(l, self())->v.first);
	assert_int_equal(fake_slot(l, kid2)->v.first, fake_slot(l, self())->v.first);
	assert_int_equal(fake_slot(l, kid)->v.exec_id, EXEC_ID);
	assert_int_equal(fake_slot(l, kid)->v.start_ns, 0);
	assert_int_equal(fake_slot(l, self())->v.start_ns, START_NS);
	assert_file_at(t, kid, EXEC_ID, 0x11000, 1, 0x3000);

	ev_mmap(t, kid, 0x20000, 0x21000, 0, 2);
	trk_flush(t);
	assert_int_not_equal(fake_slot(l, kid)->v.first, fake_slot(l, self())->v.first);
	assert_int_equal(fake_slot(l, kid2)->v.first, fake_slot(l, self())->v.first);
	assert_int_equal(kernel_find(l, kid, EXEC_ID, 0x20fff, &r), 1);
	assert_int_equal(kernel_find(l, kid, EXEC_ID, 0x13fff, &r), 1);
	assert_int_equal(r.pgoff, 0x2000);
	assert_int_equal(kernel_find(l, self(), EXEC_ID, 0x20000, &r), -1);
	assert_file_at(t, kid, EXEC_ID, 0x20000, 2, 0);
	assert_no_file_at(t, kid2, EXEC_ID, 0x20000);
	assert_no_file_at(t, self(), EXEC_ID, 0x20000);

	/* The parent changes: the children keep what they had. */
	ev_mmap(t, self(), 0x10000, 0x14000, 0, 3);
	trk_flush(t);
	assert_file_at(t, self(), EXEC_ID, 0x10000, 3, 0);
	assert_file_at(t, kid, EXEC_ID, 0x10000, 1, 0x2000);
	assert_file_at(t, kid2, EXEC_ID, 0x10000, 1, 0x2000);
	trk_free(t);
	fake_free(l);
}

static void test_exec_begins_a_new_program(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct trk *t = make_scanned(l);
	uint32_t kid = PID_BASE;
	struct ev_proc_id id = id_of(kid, EXEC_ID + 1, 0);
	struct abi_range r;

	(void)state;
	ev_fork(t, kid, self());
	ev_mmap(t, kid, 0x10000, 0x14000, 0, 1);
	trk_flush(t);
	ev_exec(t, kid);
	trk_flush(t);
	assert_false(fake_slot(l, kid)->there); /* nothing mapped yet */
	ev_mmap(t, kid, 0x10000, 0x12000, 0x1000, 2);
	ev_mmap(t, kid, 0x30000, 0x32000, 0, 3);
	trk_flush(t);
	assert_int_equal(kernel_find(l, kid, EXEC_ID, 0x10000, &r), 0);
	assert_int_equal(kernel_find(l, kid, EXEC_ID + 1, 0x10000, &r), 1);
	assert_int_equal(r.pgoff, 0x1000);
	assert_int_equal(kernel_find(l, kid, EXEC_ID + 1, 0x13000, &r), -1);
	assert_file_at(t, kid, EXEC_ID, 0x13000, 1, 0x3000);
	assert_file_at(t, kid, EXEC_ID + 1, 0x11000, 2, 0x2000);
	assert_no_file_at(t, kid, EXEC_ID + 1, 0x13000);
	assert_no_file_at(t, kid, EXEC_ID + 2, 0x10000); /* two programs, neither is it */
	assert_int_equal(trk_image(t, trk_main_image(t, &id))->file.ino, 2);
	id.exec_id = 0; /* the newest */
	assert_int_equal(trk_image(t, trk_main_image(t, &id))->file.ino, 2);
	assert_string_equal(trk_comm(t, &id), "prog");
	trk_free(t);
	fake_free(l);
}

static void test_short_life_within_one_batch(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct trk *t = make_scanned(l);
	uint32_t kid = PID_BASE;
	unsigned int sets = l->sets;

	(void)state;
	ev_fork(t, kid, self());
	ev_exec(t, kid);
	ev_mmap(t, kid, 0x10000, 0x12000, 0x1000, 2);
	ev_exit(t, kid, kid);
	trk_flush(t);
	assert_int_equal(l->sets, sets);
	assert_false(fake_slot(l, kid)->there);
	assert_file_at(t, kid, EXEC_ID + 1, 0x10000, 2, 0x1000);
	trk_free(t);
	fake_free(l);
}

static void test_pid_reuse_by_fork(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct trk *t = make_scanned(l);
	struct ev_proc_id id = id_of(PID_BASE, EXEC_ID, 0);
	uint64_t before = now_boottime_ns(), between;
	struct trk_place pl;

	(void)state;
	ev_fork(t, id.pid, self());
	ev_mmap(t, id.pid, 0x10000, 0x12000, 0, 1);
	trk_flush(t);
	wait_ms(2); /* so that a time between both forks is told apart by the clock offset too */
	between = now_boottime_ns();
	wait_ms(2);
	/* No EXIT was seen. */
	ev_fork(t, id.pid, self());
	ev_mmap(t, id.pid, 0x20000, 0x22000, 0, 2);
	trk_flush(t);
	assert_int_equal(trk_place(t, &id, 0x20000, &pl), 0); /* the newest */
	assert_int_equal(trk_place(t, &id, 0x10000, &pl), -ENOENT);
	id.start_ns = before;
	assert_int_equal(trk_place(t, &id, 0x10000, &pl), 0);
	assert_int_equal(trk_place(t, &id, 0x20000, &pl), -ENOENT);
	id.start_ns = between;
	assert_int_equal(trk_place(t, &id, 0x20000, &pl), 0);
	trk_free(t);
	fake_free(l);
}

static void test_pid_reuse_seen_by_the_iterator(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct child c = child_start(idle, NULL);
	struct trk *t;
	struct ev_proc_id id = id_of((uint32_t)c.pid, 3, 1000);
	struct trk_place pl;

	(void)state;
	fake_task(l, id.pid, 3, 1000);
	t = make_scanned(l);
	ev_mmap(t, id.pid, 0x10000, 0x12000, 0, 1);
	fake_task(l, id.pid, 3, 2000);
	ev_lost(t);
	trk_flush(t);
	assert_int_equal(fake_slot(l, id.pid)->v.start_ns, 2000);
	assert_int_equal(trk_place(t, &id, 0x10000, &pl), 0);
	id.start_ns = 2000;
	assert_int_equal(trk_place(t, &id, 0x10000, &pl), -ENOENT);
	assert_int_equal(trk_place(t, &id, (uintptr_t)idle, &pl), 0);
	id.start_ns = 3000;
	assert_int_equal(trk_place(t, &id, (uintptr_t)idle, &pl), -ENOENT);
	assert_int_equal(trk_proc_reason(t, &id), EV_REASON_NO_MAPPING);
	trk_free(t);
	fake_free(l);
	child_end(&c);
}

static void test_start_is_learned(void **state)
{
	(void)state;
	for (int k = 0; k < 2; k++) {
		struct load_oncpu *l = fake_new(4096);
		struct trk *t = make_scanned(l);
		struct child c = child_start(idle, NULL);
		uint32_t kid = (uint32_t)c.pid;

		ev_fork(t, kid, self());
		trk_flush(t);
		assert_int_equal(fake_slot(l, kid)->v.start_ns, 0);
		fake_task(l, kid, EXEC_ID, START_NS + 5);
		l->tasks_err = k ? -ENOSYS : 0;
		ev_lost(t);
		trk_flush(t);
		ev_mmap(t, kid, 0x10000, 0x11000, 0, 1);
		trk_flush(t);
		/* /proc's is rounded: the kernel side must not compare it. */
		assert_true(fake_slot(l, kid)->there);
		assert_int_equal(fake_slot(l, kid)->v.start_ns, k ? 0 : START_NS + 5);
		trk_free(t);
		fake_free(l);
		child_end(&c);
	}
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER; /* the child's copy; holds its threads */

static void *wait_at_gate(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
	return NULL;
}

static bool two_more_threads(int step, void *arg)
{
	static pthread_t th[2];

	(void)arg;
	if (step == 0)
		return pthread_mutex_lock(&gate) == 0 &&
		       pthread_create(&th[0], NULL, wait_at_gate, NULL) == 0 &&
		       pthread_create(&th[1], NULL, wait_at_gate, NULL) == 0;
	return pthread_mutex_unlock(&gate) == 0 && pthread_join(th[0], NULL) == 0 &&
	       pthread_join(th[1], NULL) == 0;
}

static void test_threads_are_counted_by_the_scan(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct child c = child_start(two_more_threads, NULL);
	uint32_t pid = (uint32_t)c.pid;
	struct trk *t;

	(void)state;
	fake_task(l, pid, 1, 2);
	t = make_scanned(l);
	ev_exit(t, pid, pid);
	ev_exit(t, pid, pid + 1);
	trk_flush(t);
	assert_true(fake_slot(l, pid)->there);
	ev_exit(t, pid, pid + 2);
	trk_flush(t);
	assert_false(fake_slot(l, pid)->there);
	trk_free(t);
	fake_free(l);
	child_step(&c);
	child_end(&c);
}

static void test_threads_outlive_their_leader(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct trk *t = make_scanned(l);
	uint32_t kid = PID_BASE;

	(void)state;
	ev_fork(t, kid, self());
	ev_thread(t, kid, kid + 1);
	trk_flush(t);
	ev_exit(t, kid, kid);
	trk_flush(t);
	assert_true(fake_slot(l, kid)->there);
	ev_exit(t, kid, kid + 1);
	trk_flush(t);
	assert_false(fake_slot(l, kid)->there);
	/* A sign of life after all. */
	ev_mmap(t, kid, 0x10000, 0x11000, 0, 1);
	trk_flush(t);
	assert_true(fake_slot(l, kid)->there);
	ev_exit(t, kid, kid + 2);
	trk_flush(t);
	assert_false(fake_slot(l, kid)->there);
	trk_free(t);
	fake_free(l);
}

static void test_kernel_threads_are_not_published(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct abi_task *k = fake_task(l, PID_BASE, 0, 5);
	struct ev_proc_id id = id_of(PID_BASE, 0, 5);
	struct trk *t;

	(void)state;
	k->flags = ABI_KEY_KTHREAD;
	memcpy(k->comm, "kworker/0:1", 12);
	t = make_scanned(l);
	assert_false(fake_slot(l, PID_BASE)->there);
	assert_string_equal(trk_comm(t, &id), "kworker/0:1");
	ev_fork(t, PID_BASE + 1, PID_BASE);
	trk_flush(t);
	assert_false(fake_slot(l, PID_BASE + 1)->there);
	/* A helper that the kernel starts. */
	ev_exec(t, PID_BASE + 1);
	ev_mmap(t, PID_BASE + 1, 0x10000, 0x11000, 0, 1);
	trk_flush(t);
	assert_true(fake_slot(l, PID_BASE + 1)->there);
	trk_free(t);
	fake_free(l);
}

/* ---- mappings ------------------------------------------------------------------------------- */

static void test_mapping_over_part_of_another(void **state)
{
	/* The older one: [0x10000, 0x20000) of file 1 from offset 0x5000. */
	static const struct {
		uint64_t start, end;
		uint32_t file;
		uint64_t probe[4];
		int64_t want[4];
		uint64_t off[4];
	} c[] = {
	        /* head */
	        {0xc000,
	         0x12000,
	         2,
	         {0xc000, 0x11fff, 0x12000, 0x1ffff},
	         {2, 2, 1, 1},
	         {0, 0x5fff, 0x7000, 0x14fff}},
	        /* middle */
	        {0x14000,
	         0x15000,
	         2,
	         {0x13fff, 0x14000, 0x14fff, 0x15000},
	         {1, 2, 2, 1},
	         {0x8fff, 0, 0xfff, 0xa000}},
	        /* tail */
	        {0x1f000,
	         0x22000,
	         2,
	         {0x1efff, 0x1f000, 0x21fff, 0x10000},
	         {1, 2, 2, 1},
	         {0x13fff, 0, 0x2fff, 0x5000}},
	        /* all */
	        {0x10000,
	         0x20000,
	         2,
	         {0x10000, 0x1ffff, 0x18000, 0x10001},
	         {2, 2, 2, 2},
	         {0, 0xffff, 0x8000, 1}},
	        /* anonymous: JIT code */
	        {0x18000,
	         0x19000,
	         0,
	         {0x17fff, 0x18000, 0x18fff, 0x19000},
	         {1, 0, 0, 1},
	         {0xcfff, 0x18000, 0x18fff, 0xe000}},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
		struct load_oncpu *l = fake_new(4096);
		struct trk *t = make_scanned(l);
		uint32_t kid = PID_BASE;
		struct abi_range r;

		ev_fork(t, kid, self());
		ev_exec(t, kid);
		ev_mmap(t, kid, 0x10000, 0x20000, 0x5000, 1);
		ev_mmap(t, kid, c[i].start, c[i].end, 0, c[i].file);
		trk_flush(t);
		for (size_t k = 0; k < 4; k++) {
			assert_file_at(t, kid, EXEC_ID + 1, c[i].probe[k], c[i].want[k],
			               c[i].off[k]);
			assert_int_equal(kernel_find(l, kid, EXEC_ID + 1, c[i].probe[k], &r), 1);
			if (c[i].want[k])
				assert_int_equal(c[i].probe[k] - r.start + r.pgoff, c[i].off[k]);
			else
				assert_int_equal(r.image, 0);
		}
		trk_free(t);
		fake_free(l);
	}
}

static void test_replaced_mappings_are_remembered(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct trk *t = make_scanned(l);
	uint32_t kid = PID_BASE;
	char path[32];
	struct ev_proc ev;

	(void)state;
	ev_fork(t, kid, self());
	ev_exec(t, kid);
	ev_mmap(t, kid, 0x10000, 0x20000, 0, 1);
	ev_mmap(t, kid, 0x10000, 0x20000, 0x1000, 2);
	/* Not executable any more: only what was there last can be told. */
	ev = mmap_event(kid, 0x10000, 0x18000, 0, 3, path);
	ev.map.exec = 0;
	ev.time_ns = tick();
	trk_event(t, &ev);
	trk_flush(t);
	assert_file_at(t, kid, EXEC_ID + 1, 0x10000, 2, 0x1000);
	assert_file_at(t, kid, EXEC_ID + 1, 0x18000, 2, 0x9000);
	{
		struct abi_range r;

		assert_int_equal(kernel_find(l, kid, EXEC_ID + 1, 0x17fff, &r), -1);
		assert_int_equal(kernel_find(l, kid, EXEC_ID + 1, 0x18000, &r), 1);
	}
	trk_free(t);
	fake_free(l);
}

static void test_known_mapping_changes_nothing(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct trk *t = make_scanned(l);
	uint32_t kid = PID_BASE;
	unsigned int sets;
	uint64_t mappings;

	(void)state;
	ev_fork(t, kid, self());
	ev_exec(t, kid);
	ev_mmap(t, kid, 0x10000, 0x20000, 0x3000, 1);
	ev_mmap(t, kid, 0x20000, 0x30000, 0x13000, 1);
	ev_mmap(t, kid, 0x40000, 0x50000, 0, 0);
	trk_flush(t);
	assert_int_equal(fake_slot(l, kid)->v.cnt, 2); /* neighbours of one file are one range */
	sets = l->sets;
	mappings = trk_stats(t)->mappings;
	ev_mmap(t, kid, 0x10000, 0x20000, 0x3000, 1);
	ev_mmap(t, kid, 0x14000, 0x22000, 0x7000, 1); /* what mprotect reports */
	ev_mmap(t, kid, 0x42000, 0x43000, 0, 0);
	trk_flush(t);
	assert_int_equal(l->sets, sets);
	assert_int_equal(trk_stats(t)->mappings, mappings);
	trk_free(t);
	fake_free(l);
}

static void test_random_mappings_against_a_plain_array(void **state)
{
	enum { PAGES = 600, ROUNDS = 4000 };
	struct load_oncpu *l = fake_new(8192);
	struct trk *t = make_scanned(l);
	uint32_t kid = PID_BASE;
	static uint32_t file[PAGES];
	static uint64_t off[PAGES];
	uint64_t seed = 42;
	struct abi_range r;

	(void)state;
	memset(file, 0xff, sizeof(file));
	ev_fork(t, kid, self());
	ev_exec(t, kid);
	for (int k = 0; k < ROUNDS; k++) {
		uint64_t a, n, f;

		seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
		a = (seed >> 33) % PAGES;
		n = 1 + (seed >> 20) % (k % 50 == 0 ? 100 : 3);
		f = (seed >> 50) % 6;
		n = MIN_OF(n, PAGES - a);
		ev_mmap(t, kid, (1 + a) << 12, (1 + a + n) << 12, (seed >> 45) % 3 << 12,
		        (uint32_t)f);
		for (uint64_t i = a; i < a + n; i++) {
			file[i] = (uint32_t)f;
			off[i] = f ? (((seed >> 45) % 3) + i - a) << 12 : (1 + i) << 12;
		}
		if (k % 400 != 399)
			continue;
		trk_flush(t);
		for (uint64_t i = 0; i < PAGES; i++) {
			int found = kernel_find(l, kid, EXEC_ID + 1, (1 + i) << 12, &r);

			if (file[i] == UINT32_MAX) {
				assert_no_file_at(t, kid, EXEC_ID + 1, (1 + i) << 12);
				assert_int_equal(found, -1);
				continue;
			}
			assert_file_at(t, kid, EXEC_ID + 1, (1 + i) << 12, file[i], off[i]);
			assert_int_equal(found, 1);
			assert_int_equal(r.image == 0, file[i] == 0);
			if (file[i])
				assert_int_equal(((1 + i) << 12) - r.start + r.pgoff, off[i]);
		}
	}
	trk_free(t);
	fake_free(l);
}

static void test_60000_mappings_in_one_process(void **state)
{
	enum { N = 60000 };
	struct load_oncpu *l = fake_new(200000);
	struct trk *t = make_scanned(l);
	struct abi_range r;

	(void)state;
	/* Downwards as mmap gives them, and scattered. 7919 is prime to N. */
	for (uint32_t kid = PID_BASE; kid < PID_BASE + 2; kid++) {
		ev_fork(t, kid, self());
		ev_exec(t, kid);
		for (uint64_t i = 0; i < N; i++) {
			uint64_t k = kid == PID_BASE ? N - 1 - i : i * 7919 % N;

			ev_mmap(t, kid, (1 + 2 * k) << 12, (2 + 2 * k) << 12, k << 12, 1);
		}
		trk_flush(t);
		assert_int_equal(fake_slot(l, kid)->v.cnt, N);
		for (uint64_t k = 0; k < N; k++) {
			assert_int_equal(kernel_find(l, kid, EXEC_ID + 1, (1 + 2 * k) << 12, &r),
			                 1);
			assert_int_equal(r.pgoff, k << 12);
		}
		assert_file_at(t, kid, EXEC_ID + 1, (1 + 2 * 777) << 12, 1, 777 << 12);
		assert_no_file_at(t, kid, EXEC_ID + 1, (2 + 2 * 777) << 12);
	}
	assert_int_equal(trk_stats(t)->dropped_mappings, 0);
	trk_free(t);
	fake_free(l);
}

static void test_offsets_beyond_a_frame_stay_raw(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct trk *t = make_scanned(l);
	struct abi_range r;

	(void)state;
	ev_fork(t, PID_BASE, self());
	ev_exec(t, PID_BASE);
	ev_mmap(t, PID_BASE, 0x10000, 0x11000, 0, 1);
	ev_mmap(t, PID_BASE, 0x20000, 0x22000, ABI_FRAME_OFF_MASK - 0xfff, 1);
	ev_mmap(t, PID_BASE, 0x30000, 0x32000, UINT64_MAX - 0xfff, 1);
	trk_flush(t);
	assert_int_equal(kernel_find(l, PID_BASE, EXEC_ID + 1, 0x10000, &r), 1);
	assert_int_equal(kernel_find(l, PID_BASE, EXEC_ID + 1, 0x20000, &r), -1);
	assert_int_equal(kernel_find(l, PID_BASE, EXEC_ID + 1, 0x30000, &r), -1);
	assert_file_at(t, PID_BASE, EXEC_ID + 1, 0x20001, 1, ABI_FRAME_OFF_MASK - 0xffe);
	trk_free(t);
	fake_free(l);
}

static void test_place_image(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct trk *t = make_scanned(l);
	struct ev_proc_id a = id_of(PID_BASE, EXEC_ID + 1, 0), b = id_of(PID_BASE + 1, 0, 0);
	struct trk_place pl;
	uint32_t image;

	(void)state;
	ev_fork(t, a.pid, self());
	ev_exec(t, a.pid);
	ev_mmap(t, a.pid, 0x10000, 0x14000, 0x2000, 1);
	image = trk_main_image(t, &a);
	assert_int_not_equal(image, 0);
	assert_int_equal(trk_place_image(t, &a, image, 0x3010, &pl), 0);
	assert_int_equal(pl.map_start, 0x10000);
	assert_int_equal(pl.map_pgoff, 0x2000);
	assert_int_equal(pl.off, 0x3010);
	assert_int_equal(trk_place_image(t, &a, image, 0x6000, &pl), -ENOENT);
	assert_ptr_equal(pl.image, trk_image(t, image));
	/* Another process, never heard of: any mapping will do. */
	assert_int_equal(trk_place_image(t, &b, image, 0x5fff, &pl), 0);
	assert_int_equal(pl.map_end, 0x14000);
	/* Many different pieces: all processes are searched. */
	for (uint64_t k = 1; k < 40; k++)
		ev_mmap(t, a.pid, 0x100000 * k, 0x100000 * k + 0x1000, 0x100000 * k, 1);
	assert_int_equal(trk_place_image(t, &b, image, 0x100000 * 39 + 5, &pl), 0);
	assert_int_equal(pl.map_start, 0x100000 * 39);
	/* Replaced: the history is searched too. */
	ev_mmap(t, a.pid, 0x10000, 0x14000, 0, 0);
	assert_int_equal(trk_place_image(t, &a, image, 0x3010, &pl), 0);
	assert_int_equal(trk_place_image(t, &a, 0, 0x3010, &pl), -ENOENT);
	assert_int_equal(trk_place_image(t, &a, 1U << 20, 0x3010, &pl), -ENOENT);
	trk_free(t);
	fake_free(l);
}

/* ---- publishing ----------------------------------------------------------------------------- */

static void test_full_array_of_ranges(void **state)
{
	struct load_oncpu *l = fake_new(512);
	struct trk *t = make_scanned(l);
	struct abi_range r;
	uint32_t a = PID_BASE, b = PID_BASE + 1;

	(void)state;
	for (uint32_t kid = a; kid <= b; kid++) {
		ev_fork(t, kid, self());
		ev_exec(t, kid);
		for (uint64_t k = 0; k < 300; k++)
			ev_mmap(t, kid, (1 + 2 * k) << 12, (2 + 2 * k) << 12, 0, 1);
	}
	trk_flush(t);
	assert_int_equal(kernel_find(l, a, EXEC_ID + 1, 0x1000, &r), 1);
	assert_false(fake_slot(l, b)->there);
	assert_int_equal(trk_stats(t)->ranges_full, 1);
	assert_file_at(t, b, EXEC_ID + 1, 0x1000, 1, 0);
	trk_flush(t);
	assert_int_equal(trk_stats(t)->ranges_full, 1); /* one process, once */
	/* Its list changes and finds no place: the old one must not stay. */
	ev_mmap(t, a, 0x10000000, 0x10001000, 0, 2);
	trk_flush(t);
	assert_false(fake_slot(l, a)->there);
	assert_int_equal(trk_stats(t)->ranges_full, 2);
	ev_exit(t, a, a);
	wait_ms(101);
	trk_flush(t);
	assert_int_equal(kernel_find(l, b, EXEC_ID + 1, 0x1000, &r), 1);
	trk_free(t);
	fake_free(l);
}

static void test_lingering_leaders_make_room(void **state)
{
	struct load_oncpu *l = fake_new(512);
	struct trk *t = make_scanned(l);
	uint32_t a = PID_BASE, b = PID_BASE + 1;

	(void)state;
	for (uint32_t kid = a; kid <= b; kid++) {
		ev_fork(t, kid, self());
		ev_exec(t, kid);
		for (uint64_t k = 0; k < 300; k++)
			ev_mmap(t, kid, (1 + 2 * k) << 12, (2 + 2 * k) << 12, 0, 1);
		ev_thread(t, kid, kid + 10);
		if (kid == a) {
			trk_flush(t);
			ev_exit(t, a, a); /* its thread is not seen to end */
		}
	}
	trk_flush(t);
	assert_false(fake_slot(l, a)->there);
	wait_ms(101);
	trk_flush(t);
	assert_true(fake_slot(l, b)->there);
	trk_free(t);
	fake_free(l);
}

static void test_refused_update_withdraws(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct trk *t = make_scanned(l);

	(void)state;
	ev_mmap(t, self(), 0x10000, 0x11000, 0, 1);
	l->set_err = -E2BIG;
	trk_flush(t);
	assert_false(fake_slot(l, self())->there);
	assert_int_equal(trk_stats(t)->ranges_full, 1);
	l->set_err = 0;
	wait_ms(101); /* the place that was written in vain comes free: reason to try again */
	trk_flush(t);
	assert_true(fake_slot(l, self())->there);
	trk_free(t);
	fake_free(l);
}

static void test_old_places_rest(void **state)
{
	struct load_oncpu *l = fake_new(64);
	struct trk *t = make(l);
	uint32_t kid = PID_BASE, first[8], reused = 0;
	uint64_t freed_ns, deadline;

	(void)state;
	fake_task(l, self(), EXEC_ID, START_NS);
	assert_int_equal(trk_scan(t, NULL), 0);
	ev_fork(t, kid, self());
	ev_exec(t, kid);
	for (uint32_t k = 0; k < 4; k++) {
		freed_ns = now_ns();
		ev_mmap(t, kid, (1 + 2 * k) << 12, (2 + 2 * k) << 12, 0, 1);
		trk_flush(t);
		assert_true(fake_slot(l, kid)->there);
		first[k] = fake_slot(l, kid)->v.first;
		for (uint32_t i = 0; i < k; i++)
			assert_int_not_equal(first[i], first[k]);
	}
	/* First fit would take the first place again as soon as it may. */
	deadline = now_ns() + 10 * NSEC_PER_SEC;
	for (uint32_t k = 4; !reused && now_ns() < deadline; k++) {
		wait_ms(20);
		ev_mmap(t, kid, (1 + 2 * (k % 8)) << 12, (2 + 2 * (k % 8)) << 12, k << 12, 1);
		trk_flush(t);
		if (fake_slot(l, kid)->there && fake_slot(l, kid)->v.first == first[0])
			reused = 1;
		else
			freed_ns = MIN_OF(freed_ns, now_ns());
	}
	assert_true(reused);
	assert_true(now_ns() - freed_ns >= 100 * NSEC_PER_MSEC);
	trk_free(t);
	fake_free(l);
}

static void test_big_lists_are_written_rarely(void **state)
{
	struct load_oncpu *l = fake_new(65536);
	struct trk *t = make_scanned(l);
	uint32_t kid = PID_BASE;
	unsigned int sets;

	(void)state;
	ev_fork(t, kid, self());
	ev_exec(t, kid);
	for (uint64_t k = 0; k < 5000; k++)
		ev_mmap(t, kid, (1 + 2 * k) << 12, (2 + 2 * k) << 12, 0, 1);
	trk_flush(t);
	sets = l->sets;
	for (uint64_t k = 5000; k < 5020; k++) {
		ev_mmap(t, kid, (1 + 2 * k) << 12, (2 + 2 * k) << 12, 0, 1);
		trk_flush(t);
	}
	assert_true(l->sets - sets < 20);
	wait_ms(101);
	trk_flush(t);
	assert_int_equal(fake_slot(l, kid)->v.cnt, 5020);
	trk_free(t);
	fake_free(l);
}

static void test_5000_processes(void **state)
{
	enum { N = 5000, MAPS = 12 };
	struct load_oncpu *l = fake_new(N * 16 + 512);
	struct trk *t = make_scanned(l);
	struct abi_range r;
	unsigned int before = l->there;
	uint32_t big = PID_BASE + N;

	(void)state;
	for (uint32_t kid = PID_BASE; kid < PID_BASE + N; kid++) {
		ev_fork(t, kid, self());
		ev_exec(t, kid);
		for (uint32_t k = 0; k < MAPS; k++)
			ev_mmap(t, kid, (kid + 1000 * k) * 0x100000ULL,
			        (kid + 1000 * k) * 0x100000ULL + 0x1000, 0, 1 + k);
		if (kid % 50 == 0)
			trk_flush(t);
	}
	trk_flush(t);
	assert_int_equal(l->there, before + N);
	assert_int_equal(trk_stats(t)->ranges_full, 0);
	for (uint32_t kid = PID_BASE; kid < PID_BASE + N; kid++)
		for (uint32_t k = 0; k < MAPS; k++) {
			uint64_t addr = (kid + 1000 * k) * 0x100000ULL;

			assert_int_equal(kernel_find(l, kid, EXEC_ID + 1, addr, &r), 1);
			assert_file_at(t, kid, EXEC_ID + 1, addr, 1 + k, 0);
		}
	/* In an order that leaves holes to be joined; 7919 is prime to N. */
	for (uint32_t k = 0; k < N; k++)
		ev_exit(t, PID_BASE + k * 7919 % N, PID_BASE + k * 7919 % N);
	trk_flush(t);
	assert_int_equal(l->there, before);
	wait_ms(101);
	/* All places have become one again. */
	ev_fork(t, big, self());
	ev_exec(t, big);
	for (uint64_t k = 0; k < N * 16; k++)
		ev_mmap(t, big, (1 + 2 * k) << 12, (2 + 2 * k) << 12, 0, 1);
	trk_flush(t);
	assert_int_equal(fake_slot(l, big)->v.cnt, N * 16);
	trk_free(t);
	fake_free(l);
}

/* ---- /proc ---------------------------------------------------------------------------------- */

static bool map_more(int step, void *arg)
{
	const struct files *f = arg;

	return step == 0 || map_file(f->path);
}

static uint64_t address_of(pid_t pid, const char *path)
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

static void test_lost_events_are_read_again(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct files f;
	struct child c, calm, gone;
	struct trk *t;
	struct ev_proc_id id;
	struct trk_place pl;
	uint64_t addr;
	unsigned int calls;

	(void)state;
	files_make(&f);
	c = child_start(map_more, &f);
	calm = child_start(idle, NULL);
	gone = child_start(idle, NULL);
	id = id_of((uint32_t)c.pid, 1, 2);
	fake_task(l, (uint32_t)gone.pid, 1, 2);
	fake_task(l, (uint32_t)calm.pid, 1, 2);
	fake_task(l, id.pid, 1, 2);
	t = make_scanned(l);
	assert_true(fake_slot(l, (uint32_t)gone.pid)->there);
	child_step(&c);
	child_end(&gone);
	for (size_t i = 0; i < l->n_tasks; i++)
		if (l->task[i].tgid == (uint32_t)gone.pid)
			l->task[i] = l->task[--l->n_tasks];
	addr = address_of(c.pid, f.path);
	assert_int_not_equal(addr, 0);
	assert_int_equal(trk_place(t, &id, addr, &pl), -ENOENT);
	ev_lost(t);
	trk_flush(t);
	assert_int_equal(trk_place(t, &id, addr + 5, &pl), 0);
	assert_string_equal(pl.image->path, f.path);
	assert_int_equal(pl.off, 5);
	assert_int_equal(pl.image->reason, EV_REASON_NAMED);
	assert_true(pl.image->fd >= 0);
	assert_false(fake_slot(l, (uint32_t)gone.pid)->there);
	assert_int_equal(fake_slot(l, id.pid)->sets, 2);
	/* What did not change is not written again. */
	assert_int_equal(fake_slot(l, (uint32_t)calm.pid)->sets, 1);
	/* Not again at once. */
	calls = l->tasks_calls;
	ev_lost(t);
	trk_flush(t);
	assert_int_equal(l->tasks_calls, calls);
	trk_free(t);
	fake_free(l);
	child_end(&calm);
	child_end(&c);
	files_remove(&f);
}

static void test_exec_that_crossed_with_the_scan(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct child c = child_start(idle, NULL);
	uint64_t before = now_ns();
	struct ev_proc_id id = id_of((uint32_t)c.pid, 6, 2);
	struct trk_place pl;
	struct trk *t;
	unsigned int calls;

	(void)state;
	fake_task(l, id.pid, 5, 2);
	t = make_scanned(l);
	calls = l->tasks_calls;
	fake_task(l, id.pid, 6, 2);
	ev_exec_at(t, id.pid, before);
	wait_ms(11);
	trk_flush(t);
	assert_int_equal(l->tasks_calls, calls + 1);
	assert_int_equal(trk_place(t, &id, (uintptr_t)idle, &pl), 0);
	assert_int_equal(fake_slot(l, id.pid)->v.exec_id, 6);
	id.exec_id = 5;
	assert_int_equal(trk_place(t, &id, (uintptr_t)idle, &pl), 0);
	/* The same once more, with an exec that both had seen: no third program. */
	ev_exec_at(t, id.pid, before + 1);
	wait_ms(11);
	trk_flush(t);
	assert_int_equal(fake_slot(l, id.pid)->v.exec_id, 6);
	id.exec_id = 7;
	assert_int_equal(trk_place(t, &id, (uintptr_t)idle, &pl), -ENOENT);
	trk_free(t);
	fake_free(l);
	child_end(&c);
}

static void test_old_mmap_does_not_undo_the_scan(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	uint64_t before = now_ns(), page = (uintptr_t)idle & ~0xfffULL;
	struct trk *t = make_scanned(l);
	struct ev_proc_id id = id_of(self(), EXEC_ID, START_NS);
	struct trk_place pl;
	char path[32];
	struct ev_proc ev;

	(void)state;
	ev = mmap_event(self(), page, page + 4096, 0, 9, path);
	ev.time_ns = before;
	trk_event(t, &ev);
	ev = mmap_event(self(), 0x1000, 0x2000, 0, 9, path);
	ev.time_ns = before;
	trk_event(t, &ev);
	trk_flush(t);
	assert_int_equal(trk_place(t, &id, (uintptr_t)idle, &pl), 0);
	assert_int_not_equal(pl.image->file.ino, 9);
	assert_int_equal(trk_place(t, &id, 0x1000, &pl), 0); /* remembered */
	assert_int_equal(pl.image->file.ino, 9);
	{
		struct abi_range r;

		assert_int_equal(kernel_find(l, self(), EXEC_ID, 0x1000, &r), -1);
	}
	trk_free(t);
	fake_free(l);
}

static void test_unknown_process_is_read(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct trk *t = make_scanned(l);
	struct child c = child_start(idle, NULL);
	struct ev_proc_id id = id_of((uint32_t)c.pid, 9, 77);
	struct trk_place pl;

	(void)state;
	/* Its fork was missed, and so was that of its parent. */
	ev_mmap(t, id.pid, 0x10000, 0x11000, 0, 1);
	trk_flush(t);
	assert_false(fake_slot(l, id.pid)->there); /* the exec id is not known yet */
	fake_task(l, id.pid, 9, 77);
	wait_ms(11);
	trk_flush(t);
	assert_int_equal(fake_slot(l, id.pid)->v.exec_id, 9);
	assert_int_equal(fake_slot(l, id.pid)->v.start_ns, 77);
	assert_int_equal(trk_place(t, &id, (uintptr_t)idle, &pl), 0);
	/* A child of nobody that is gone when its fork is heard of. */
	ev_fork(t, PID_BASE + 5, PID_BASE + 4);
	wait_ms(11);
	trk_flush(t);
	assert_false(fake_slot(l, PID_BASE + 5)->there);
	trk_free(t);
	fake_free(l);
	child_end(&c);
}

static void test_fork_older_than_the_reading(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct child c = child_start(idle, NULL);
	struct ev_proc ev = {.type = EV_PROC_FORK, .ppid = self(), .ptid = self(), .time_ns = 1};
	struct trk_place pl;
	struct ev_proc_id id;
	struct trk *t;

	(void)state;
	fake_task(l, (uint32_t)c.pid, 3, 4);
	t = make_scanned(l);
	/* Of a process that the scan has shown: nothing new. */
	ev.pid = ev.tid = (uint32_t)c.pid;
	trk_event(t, &ev);
	trk_flush(t);
	assert_int_equal(trk_stats(t)->procs, 2);
	assert_int_equal(fake_slot(l, ev.pid)->v.exec_id, 3);
	/* Of one that is gone: what its parent ran at the time is not known for sure. */
	ev.pid = ev.tid = PID_BASE;
	trk_event(t, &ev);
	trk_flush(t);
	assert_int_equal(fake_slot(l, PID_BASE)->sets, 0);
	id = id_of(PID_BASE, 0, 0);
	assert_int_equal(trk_place(t, &id, (uintptr_t)idle, &pl), 0);
	/* The same while the parent is unsure. */
	ev_exec_at(t, (uint32_t)c.pid, 2);
	ev_fork(t, PID_BASE + 1, (uint32_t)c.pid);
	trk_flush(t);
	assert_int_equal(fake_slot(l, PID_BASE + 1)->sets, 0);
	trk_free(t);
	fake_free(l);
	child_end(&c);
}

static bool map_then_unmap(int step, void *arg)
{
	static void *p;
	const struct files *f = arg;

	if (step == 1)
		return munmap(p, 4096) == 0;
	/* Below the program itself. */
	{
		_cleanup_close_ int fd = open(f->path, O_RDONLY | O_CLOEXEC);

		p = mmap((void *)0x10000000, 4096, PROT_READ | PROT_EXEC,
		         MAP_PRIVATE | MAP_FIXED_NOREPLACE, fd, 0);
	}
	return p != MAP_FAILED;
}

static void test_what_was_unmapped_is_remembered(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct files f;
	struct child c;
	struct ev_proc_id id;
	struct trk_place pl;
	struct abi_range r;
	struct stat st;
	struct trk *t;

	(void)state;
	files_make(&f);
	c = child_start(map_then_unmap, &f);
	id = id_of((uint32_t)c.pid, 1, 2);
	fake_task(l, id.pid, 1, 2);
	t = make_scanned(l);
	assert_int_equal(kernel_find(l, id.pid, 1, 0x10000000, &r), 1);
	/* The lowest file is not the program. */
	assert_int_equal(stat("/proc/self/exe", &st), 0);
	assert_int_equal(trk_image(t, trk_main_image(t, &id))->file.ino, st.st_ino);
	child_step(&c);
	ev_exec_at(t, id.pid, 1); /* makes it be read again; it was no exec */
	trk_flush(t);
	assert_int_equal(kernel_find(l, id.pid, 1, 0x10000000, &r), -1);
	assert_int_equal(trk_place(t, &id, 0x10000010, &pl), 0);
	assert_string_equal(pl.image->path, f.path);
	trk_free(t);
	fake_free(l);
	child_end(&c);
	files_remove(&f);
}

static void test_vdso(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct trk *t = make_scanned(l);
	struct ev_proc_id id = id_of(self(), EXEC_ID, START_NS), other = id_of(PID_BASE, 0, 0);
	uint64_t vdso = getauxval(AT_SYSINFO_EHDR);
	struct ev_proc ev = {.type = EV_PROC_MMAP, .pid = PID_BASE, .tid = PID_BASE};
	struct trk_place pl;
	uint32_t image;

	(void)state;
	if (vdso == 0) { /* vdso=0 on the kernel's command line: nothing to see */
		trk_free(t);
		fake_free(l);
		return;
	}
	assert_int_equal(trk_place(t, &id, vdso + 0x123, &pl), 0);
	assert_int_equal(pl.image->kind, EV_MAP_VDSO);
	assert_int_equal(pl.off, 0x123);
	assert_int_equal(pl.image->mem_len, pl.map_end - pl.map_start);
	assert_memory_equal(pl.image->mem, (const void *)(uintptr_t)vdso, pl.image->mem_len);
	assert_true(pl.image->build_id_len > 0);
	assert_int_equal(pl.image->reason, EV_REASON_NAMED);
	assert_int_equal(pl.image->fd, -EBADF);
	image = pl.image->id;
	ev_fork(t, PID_BASE, self());
	ev_exec(t, PID_BASE);
	ev.map = (struct ev_mapping){.start = 0x700000,
	                             .end = 0x700000 + pl.image->mem_len,
	                             .pgoff = 0x700000,
	                             .kind = EV_MAP_VDSO,
	                             .exec = 1,
	                             .path = "[vdso]"};
	ev.time_ns = tick();
	trk_event(t, &ev);
	assert_int_equal(trk_place(t, &other, 0x700010, &pl), 0);
	assert_int_equal(pl.image->id, image);
	assert_int_equal(pl.off, 0x10);
	/* Of a 32-bit process. */
	ev.map.start += 0x100000;
	ev.map.end += 0x100000 + 0x1000;
	ev.time_ns = tick();
	trk_event(t, &ev);
	assert_int_equal(trk_place(t, &other, 0x800010, &pl), 0);
	assert_int_not_equal(pl.image->id, image);
	assert_null(pl.image->mem);
	assert_int_not_equal(pl.image->reason, EV_REASON_NAMED);
	trk_free(t);
	fake_free(l);
}

static void test_special_names_are_images_without_file(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct trk *t = make_scanned(l);
	struct ev_proc_id id = id_of(PID_BASE, 0, 0);
	struct ev_proc ev = {.type = EV_PROC_MMAP, .pid = PID_BASE, .tid = PID_BASE};
	struct trk_place pl;
	size_t cnt;

	(void)state;
	ev_fork(t, id.pid, self());
	ev_exec(t, id.pid);
	for (int k = 1; k <= 2; k++) {
		ev.map = (struct ev_mapping){.start = 0x10000ULL * (unsigned int)k,
		                             .end = 0x10000ULL * (unsigned int)k + 0x1000,
		                             .kind = EV_MAP_OTHER,
		                             .exec = 1,
		                             .path = "[uprobes]"};
		ev.time_ns = tick();
		trk_event(t, &ev);
	}
	cnt = trk_image_cnt(t);
	assert_int_equal(trk_place(t, &id, 0x20010, &pl), 0);
	assert_int_equal(pl.image->id, cnt); /* one for both */
	assert_string_equal(pl.image->path, "[uprobes]");
	assert_int_equal(pl.image->fd, -EBADF);
	assert_int_equal(pl.off, 0x10);
	assert_null(trk_image(t, 0));
	assert_null(trk_image(t, (uint32_t)cnt + 1));
	trk_free(t);
	fake_free(l);
}

static bool map_and_unlink(int step, void *arg)
{
	const struct files *f = arg;

	(void)step;
	return map_file(f->path) && unlink(f->path) == 0;
}

static void test_deleted_file(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct files f;
	struct child c;
	struct trk *t;
	struct ev_proc_id id;
	struct trk_place pl;
	char magic[4];

	(void)state;
	files_make(&f);
	c = child_start(map_and_unlink, &f);
	id = id_of((uint32_t)c.pid, 1, 2);
	fake_task(l, id.pid, 1, 2);
	t = make_scanned(l);
	assert_int_equal(trk_place(t, &id, address_of(c.pid, f.path), &pl), 0);
	assert_string_equal(pl.image->path, f.path); /* without " (deleted)" */
	if (proc_has_cap(CAP_SYS_ADMIN) || proc_has_cap(CAP_CHECKPOINT_RESTORE)) {
		assert_int_equal(pl.image->reason, EV_REASON_NAMED);
		assert_int_equal(pread(pl.image->fd, magic, 4, 0), 4);
		assert_memory_equal(magic, "\177ELF", 4);
	} else {
		assert_int_equal(pl.image->fd, -EBADF);
		assert_int_not_equal(pl.image->reason, EV_REASON_NAMED);
		assert_int_equal(trk_stats(t)->images_failed, 1);
	}
	trk_free(t);
	fake_free(l);
	child_end(&c);
	files_remove(&f);
}

/* Over the last one, or behind it. */
static void write_last_byte(const char *path, char b, bool behind)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);
	off_t off = lseek(fd, behind ? 0 : -1, SEEK_END);

	assert_true(off > 0);
	assert_int_equal(pwrite(fd, &b, 1, off), 1);
}

static char last_byte(int fd)
{
	struct stat st;
	char b;

	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(pread(fd, &b, 1, st.st_size - 1), 1);
	return b;
}

static bool map_step(int step, void *arg)
{
	const struct files *f = arg;

	(void)step;
	return map_file(f->path);
}

static void test_replaced_file_keeps_its_old_content(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct files f;
	struct child a, b;
	struct trk *t;
	struct ev_proc_id ida, idb;
	struct trk_place pl;
	const struct trk_image *old;

	(void)state;
	files_make(&f);
	write_last_byte(f.path, '1', true);
	write_last_byte(f.other, '2', true);
	a = child_start(map_step, &f);
	ida = id_of((uint32_t)a.pid, 1, 2);
	fake_task(l, ida.pid, 1, 2);
	t = make_scanned(l);
	assert_int_equal(trk_place(t, &ida, address_of(a.pid, f.path), &pl), 0);
	old = pl.image;
	assert_int_equal(rename(f.other, f.path), 0);
	b = child_start(map_step, &f);
	idb = id_of((uint32_t)b.pid, 1, 2);
	fake_task(l, idb.pid, 1, 2);
	ev_lost(t);
	trk_flush(t);
	assert_int_equal(trk_place(t, &idb, address_of(b.pid, f.path), &pl), 0);
	assert_int_not_equal(pl.image->id, old->id);
	assert_string_equal(pl.image->path, old->path);
	assert_int_equal(last_byte(old->fd), '1');
	assert_int_equal(last_byte(pl.image->fd), '2');
	assert_int_equal(trk_place(t, &ida, address_of(a.pid, f.path), &pl), 0);
	assert_int_equal(pl.image->id, old->id);
	trk_free(t);
	fake_free(l);
	child_end(&b); /* holds a copy of what ends a */
	child_end(&a);
	files_remove(&f);
}

/* The process has gone before its mapping is heard of: only the path is left. */
static void test_file_of_a_process_that_has_gone(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct trk *t = make_scanned(l);
	struct ev_proc ev = {.type = EV_PROC_MMAP, .pid = PID_BASE, .tid = PID_BASE};
	struct ev_proc_id id = id_of(PID_BASE, 0, 0);
	struct trk_place pl;
	struct stat st;
	struct files f;

	(void)state;
	files_make(&f);
	assert_int_equal(stat(f.path, &st), 0);
	ev_fork(t, id.pid, self());
	ev_exec(t, id.pid);
	ev.map = (struct ev_mapping){.start = 0x10000,
	                             .end = 0x11000,
	                             .kind = EV_MAP_FILE,
	                             .exec = 1,
	                             .path = f.path,
	                             .file = {.dev_major = (uint32_t)(st.st_dev >> 8 & 0xfff),
	                                      .dev_minor = (uint32_t)(st.st_dev & 0xff),
	                                      .ino = st.st_ino}};
	ev.time_ns = tick();
	trk_event(t, &ev);
	assert_int_equal(trk_place(t, &id, 0x10000, &pl), 0);
	assert_int_equal(pl.image->reason, EV_REASON_NAMED);
	assert_true(pl.image->fd >= 0);
	/* Another file is there by now. */
	ev.map.start += 0x10000;
	ev.map.end += 0x10000;
	ev.map.file.ino += 1000000000;
	ev.time_ns = tick();
	trk_event(t, &ev);
	assert_int_equal(trk_place(t, &id, 0x20000, &pl), 0);
	assert_int_equal(pl.image->reason, EV_REASON_FILE_REPLACED);
	assert_int_equal(trk_stats(t)->images_failed, 1);
	/* And later none. */
	ev.map.start += 0x10000;
	ev.map.end += 0x10000;
	ev.map.file.ino += 1;
	ev.map.path = "/nowhere/at/all";
	ev.time_ns = tick();
	trk_event(t, &ev);
	assert_int_equal(trk_place(t, &id, 0x30000, &pl), 0);
	assert_int_equal(pl.image->reason, EV_REASON_NO_FILE);
	trk_free(t);

	/* The second process that maps it can show it. */
	t = make_scanned(l);
	ev_fork(t, id.pid, self());
	ev_exec(t, id.pid);
	ev.map.file.ino = st.st_ino;
	ev.time_ns = tick();
	trk_event(t, &ev);
	assert_int_equal(trk_place(t, &id, 0x30000, &pl), 0);
	assert_int_equal(pl.image->reason, EV_REASON_NO_FILE);
	ev.map.path = f.path;
	ev.map.start += 0x10000;
	ev.map.end += 0x10000;
	ev.time_ns = tick();
	trk_event(t, &ev);
	assert_int_equal(trk_place(t, &id, 0x30000, &pl), 0);
	assert_int_equal(pl.image->reason, EV_REASON_NAMED);
	assert_true(pl.image->fd >= 0 && pl.image->build_id_len > 0);
	assert_int_equal(trk_stats(t)->images_failed, 1);
	trk_free(t);
	fake_free(l);
	files_remove(&f);
}

static void test_more_files_than_descriptors(void **state)
{
	enum { N = 12 };
	struct load_oncpu *l = fake_new(4096);
	struct files f;
	struct rlimit was, now;
	char path[N][80];
	void *p[N];
	struct trk *t;
	struct ev_proc_id id = id_of(self(), EXEC_ID, START_NS);
	struct trk_place pl;
	unsigned int kept = 0, again = 0;
	bool shut;
	int fd;

	(void)state;
	files_make(&f);
	for (int k = 0; k < N; k++) {
		(void)snprintf(path[k], sizeof(path[k]), "%s.%d", f.path, k);
		copy_elf(path[k]);
		p[k] = map_file(path[k]);
		assert_non_null(p[k]);
	}
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	now = was;
	now.rlim_cur = 20; /* 10 for us */
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
	t = make_scanned(l);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	for (int k = 0; k < N; k++) {
		assert_int_equal(trk_place(t, &id, (uintptr_t)p[k], &pl), 0);
		assert_int_equal(pl.image->reason, EV_REASON_NAMED);
		fd = trk_image_fd(t, pl.image->id, &shut);
		assert_true(fd >= 0);
		assert_int_equal(shut, pl.image->fd < 0);
		assert_int_equal(last_byte(fd), last_byte(fd));
		if (shut) {
			close(fd);
			again++;
		} else {
			kept++;
		}
	}
	assert_true(again >= 2);
	assert_true(kept <= 10);
	/* Those that were closed are written to, made longer, and go. */
	wait_ms(11); /* time stamps of files are that coarse */
	for (int k = 0; k < N; k++) {
		assert_int_equal(trk_place(t, &id, (uintptr_t)p[k], &pl), 0);
		if (pl.image->fd >= 0)
			continue;
		write_last_byte(path[k], 'x', again++ % 2);
		assert_int_equal(trk_image_fd(t, pl.image->id, &shut), -ESTALE);
		assert_int_equal(unlink(path[k]), 0);
		assert_int_equal(trk_image_fd(t, pl.image->id, &shut), -ENOENT);
	}
	assert_int_equal(trk_image_fd(t, 0, &shut), -EINVAL);
	trk_free(t);
	fake_free(l);
	for (int k = 0; k < N; k++) {
		munmap(p[k], 4096);
		(void)unlink(path[k]); /* some are gone already */
	}
	files_remove(&f);
}

static bool many_maps(int step, void *arg)
{
	(void)step;
	(void)arg;
	for (int k = 0; k < 200; k++)
		if (mmap(NULL, 4096U * (1U + (unsigned int)k % 3),
		         PROT_READ | (k & 1 ? PROT_EXEC : 0), MAP_PRIVATE | MAP_ANONYMOUS, -1,
		         0) == MAP_FAILED)
			return false;
	return true;
}

static void test_every_page_against_proc_maps(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct child c = child_start(many_maps, NULL);
	struct ev_proc_id id = id_of((uint32_t)c.pid, 1, 2);
	struct trk_place pl;
	struct abi_range r;
	char name[32], line[512], perms[5];
	uint64_t pages = 0, files = 0;
	struct trk *t;
	FILE *f;

	(void)state;
	fake_task(l, id.pid, 1, 2);
	t = make_scanned(l);
	(void)snprintf(name, sizeof(name), "/proc/%d/maps", c.pid);
	f = fopen(name, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		unsigned long start, end, pgoff, ino;

		/* Our own parser is what is being tested here, so not that one. */
		assert_int_equal(sscanf(line, "%lx-%lx %4s %lx %*x:%*x %lu", &start, &end, perms,
		                        &pgoff, &ino),
		                 5);
		for (uint64_t a = start; a < end; a += 4096, pages++) {
			int found = kernel_find(l, id.pid, 1, a, &r);

			if (perms[2] != 'x') {
				if (a > start + (16 << 12)) /* a sanitizer's terabytes */
					break;
				assert_int_equal(trk_place(t, &id, a, &pl), -ENOENT);
				assert_int_equal(found, -1);
				continue;
			}
			assert_int_equal(trk_place(t, &id, a, &pl), 0);
			assert_int_equal(found, 1);
			assert_int_equal(pl.map_start, start);
			assert_int_equal(pl.map_end, end);
			if (ino != 0) {
				assert_int_equal(pl.image->file.ino, ino);
				assert_int_equal(pl.off, a - start + pgoff);
				assert_int_equal(r.image, pl.image->id);
				assert_int_equal(a - r.start + r.pgoff, pl.off);
				assert_int_equal(pl.image->reason, EV_REASON_NAMED);
				files++;
			} else if (!strchr(line, '[')) {
				assert_true(pl.anon);
				assert_int_equal(r.image, 0);
			}
		}
	}
	fclose(f);
	assert_true(pages > 100 && files > 10);
	{
		struct stat st;

		assert_int_equal(stat("/proc/self/exe", &st), 0);
		assert_int_equal(trk_image(t, trk_main_image(t, &id))->file.ino, st.st_ino);
	}
	trk_free(t);
	fake_free(l);
	child_end(&c);
}

static void test_process_that_may_not_be_read(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct child c = child_start(idle, NULL);
	struct ev_proc_id id = id_of((uint32_t)c.pid, 1, 2);
	bool root = geteuid() == 0;
	struct trk_options o = {.loader = l};
	struct trk *t;

	(void)state;
	if (!root)
		id.pid = 1; /* not ours */
	fake_task(l, id.pid, 1, 2);
	o.target_pid = id.pid;
	assert_int_equal(trk_new(&o, &t, NULL), 0);
	if (root)
		assert_int_equal(seteuid(65534), 0);
	assert_int_equal(trk_scan(t, NULL), 0);
	if (root)
		assert_int_equal(seteuid(0), 0);
	assert_int_equal(trk_proc_reason(t, &id), EV_REASON_NOT_PERMITTED);
	assert_int_equal(trk_stats(t)->procs_denied, 1);
	assert_false(fake_slot(l, id.pid)->there);
	/* Side-band tells all the same what comes. */
	ev_mmap(t, id.pid, 0x10000, 0x11000, 0, 1);
	trk_flush(t);
	assert_true(fake_slot(l, id.pid)->there);
	assert_int_equal(trk_main_image(t, &id), 0); /* that was a library */
	trk_free(t);
	fake_free(l);
	child_end(&c);
}

/* ---- options and limits --------------------------------------------------------------------- */

static void test_target_only(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct trk_options o = {.loader = l, .target_pid = self()};
	struct trk *t;
	struct err err;

	(void)state;
	fake_task(l, 1, 1, 1);
	fake_task(l, self(), EXEC_ID, START_NS);
	assert_int_equal(trk_new(&o, &t, NULL), 0);
	assert_int_equal(trk_scan(t, NULL), 0);
	ev_fork(t, PID_BASE, self());
	ev_mmap(t, PID_BASE, 0x10000, 0x11000, 0, 1);
	ev_mmap(t, self(), 0x10000, 0x11000, 0, 1);
	trk_flush(t);
	assert_int_equal(l->there, 1);
	assert_int_equal(trk_stats(t)->procs, 1);
	assert_no_file_at(t, PID_BASE, 0, 0x10000);
	assert_file_at(t, self(), EXEC_ID, 0x10000, 1, 0);
	trk_free(t);

	o.target_pid = PID_BASE;
	assert_int_equal(trk_new(&o, &t, NULL), 0);
	assert_int_equal(trk_scan(t, &err), -ESRCH);
	assert_non_null(strstr(err.msg, "100000000"));
	trk_free(t);
	fake_free(l);
}

static bool with_child(int step, void *arg)
{
	static struct child c;

	(void)arg;
	if (step == 0)
		c = child_start(idle, NULL);
	else
		child_end(&c);
	return true;
}

static uint32_t child_of(pid_t pid)
{
	char path[64];
	uint32_t kid;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%u", &kid), 1);
	fclose(f);
	return kid;
}

static void test_children_are_followed(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct child c = child_start(with_child, NULL), other = child_start(idle, NULL);
	struct trk_options o = {
	        .loader = l, .target_pid = (uint32_t)c.pid, .follow_children = true};
	uint32_t kid = child_of(c.pid);
	struct trk *t;

	(void)state;
	/* The child before its parent, so that one pass does not find it. */
	fake_task(l, kid, 1, 1);
	fake_task(l, (uint32_t)other.pid, 1, 1);
	fake_task(l, (uint32_t)c.pid, 1, 1);
	assert_int_equal(trk_new(&o, &t, NULL), 0);
	assert_int_equal(trk_scan(t, NULL), 0);
	assert_true(fake_slot(l, (uint32_t)c.pid)->there);
	assert_true(fake_slot(l, kid)->there);
	assert_int_equal(trk_stats(t)->procs, 2);
	ev_fork(t, PID_BASE, kid);
	ev_fork(t, PID_BASE + 1, PID_BASE);
	ev_fork(t, PID_BASE + 2, (uint32_t)other.pid);
	trk_flush(t);
	assert_true(fake_slot(l, PID_BASE + 1)->there);
	assert_int_equal(l->there, 4);
	/* Reading all again neither loses the living nor takes in others. */
	ev_lost(t);
	trk_flush(t);
	assert_int_equal(l->there, 2);
	assert_true(fake_slot(l, kid)->there);
	trk_free(t);
	fake_free(l);
	child_end(&other);
	child_step(&c);
	child_end(&c);
}

static void test_without_loader_or_iterator(void **state)
{
	struct child c = child_start(idle, NULL);
	struct ev_proc_id id = id_of((uint32_t)c.pid, 12, 0);
	struct trk_options o = {.target_pid = id.pid};
	struct load_oncpu *l = fake_new(64);
	struct trk_place pl;
	struct trk *t;

	(void)state;
	assert_int_equal(proc_start_ns(id.pid, &id.start_ns), 0);
	for (int k = 0; k < 2; k++) {
		assert_int_equal(trk_new(&o, &t, NULL), 0);
		assert_int_equal(trk_scan(t, NULL), 0);
		assert_int_equal(trk_place(t, &id, (uintptr_t)idle, &pl), 0);
		id.start_ns += 9999999; /* /proc rounds down to 10 ms */
		assert_int_equal(trk_place(t, &id, (uintptr_t)idle, &pl), 0);
		id.start_ns += 1;
		assert_int_equal(trk_place(t, &id, (uintptr_t)idle, &pl), -ENOENT);
		id.start_ns -= 10000000;
		/* Again: the same process. */
		ev_lost(t);
		trk_flush(t);
		assert_int_equal(trk_stats(t)->procs, 1);
		assert_int_equal(trk_stats(t)->tasks_errno, k == 0 ? 0 : ENOSYS);
		trk_free(t);
		o.loader = l;
		l->tasks_err = -ENOSYS;
	}
	assert_int_equal(l->sets, 0); /* exec ids unknown */
	o.target_pid = PID_BASE;
	assert_int_equal(trk_new(&o, &t, NULL), 0);
	assert_int_equal(trk_scan(t, NULL), -ESRCH);
	trk_free(t);
	fake_free(l);
	child_end(&c);
}

static void test_limits_are_counted(void **state)
{
	struct load_oncpu *l = fake_new(65536);
	struct trk_options o = {
	        .loader = l, .max_procs = 10, .max_images = 64, .max_mappings = 400};
	struct trk *t;

	(void)state;
	fake_task(l, self(), EXEC_ID, START_NS);
	assert_int_equal(trk_new(&o, &t, NULL), 0);
	assert_int_equal(trk_scan(t, NULL), 0);
	/* Those that have ended make room for new ones. */
	for (uint32_t k = 0; k < 100; k++) {
		ev_fork(t, PID_BASE + k, self());
		ev_exec(t, PID_BASE + k);
		ev_mmap(t, PID_BASE + k, 0x10000, 0x11000, 0, 1);
		ev_exit(t, PID_BASE + k, PID_BASE + k);
		trk_flush(t);
	}
	assert_file_at(t, PID_BASE + 99, EXEC_ID + 1, 0x10000, 1, 0);
	assert_no_file_at(t, PID_BASE, EXEC_ID + 1, 0x10000);
	assert_true(trk_stats(t)->dropped_procs >= 90 && trk_stats(t)->dropped_procs <= 200);
	/* Living ones do not. */
	for (uint32_t k = 200; k < 300; k++)
		ev_fork(t, PID_BASE + k, self());
	trk_flush(t);
	assert_true(l->there <= 10);
	assert_int_equal(trk_stats(t)->dropped_images, 0);
	for (uint32_t k = 0; k < 1000; k++)
		ev_mmap(t, self(), 0x100000 + 0x2000ULL * k, 0x101000 + 0x2000ULL * k, 0, 10 + k);
	trk_flush(t);
	assert_true(trk_stats(t)->dropped_images > 900);
	assert_int_equal(trk_image_cnt(t), 64);
	assert_int_equal(trk_stats(t)->dropped_mappings, trk_stats(t)->dropped_images);
	/* No image, but what was there before is not there any more. */
	ev_mmap(t, self(), 0x100000, 0x101000, 0, 5000);
	{
		struct abi_range r;

		trk_flush(t);
		assert_int_equal(kernel_find(l, self(), EXEC_ID, 0x100000, &r), -1);
	}
	for (uint32_t k = 0; k < 1000; k++)
		ev_mmap(t, self(), 0x10000000 + 0x2000ULL * k, 0x10001000 + 0x2000ULL * k, 0, 10);
	trk_flush(t);
	assert_true(trk_stats(t)->dropped_mappings > trk_stats(t)->dropped_images + 500);
	trk_free(t);
	fake_free(l);
}

static void test_endless_replacing_is_bounded(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct trk_options o = {.loader = l, .max_mappings = 6000};
	struct trk *t;
	uint64_t k;

	(void)state;
	fake_task(l, self(), EXEC_ID, START_NS);
	assert_int_equal(trk_new(&o, &t, NULL), 0);
	assert_int_equal(trk_scan(t, NULL), 0);
	ev_fork(t, PID_BASE, self());
	ev_exec(t, PID_BASE);
	/* Two plugins in turn at one address: nothing new to remember. */
	for (k = 0; k < 20000; k++)
		ev_mmap(t, PID_BASE, 0x10000, 0x11000, 0, 1 + k % 2);
	assert_int_equal(trk_stats(t)->dropped_mappings, 0);
	/* Always another one: the oldest are forgotten. */
	for (k = 0; k < 20000; k++)
		ev_mmap(t, PID_BASE, 0x10000, 0x11000, k << 12, 1);
	assert_true(trk_stats(t)->dropped_mappings > 10000);
	assert_file_at(t, PID_BASE, EXEC_ID + 1, 0x10000, 1, (k - 1) << 12);
	trk_free(t);
	fake_free(l);
}

static void test_events_of_other_namespaces_are_ignored(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct trk *t = make_scanned(l);

	(void)state;
	ev_mmap(t, 0, 0x10000, 0x11000, 0, 1);
	ev_mmap(t, UINT32_MAX, 0x10000, 0x11000, 0, 1);
	ev_exit(t, PID_BASE, PID_BASE);
	ev_thread(t, PID_BASE, PID_BASE + 1);
	ev_mmap(t, self(), 0x11000, 0x11000, 0, 1); /* empty */
	assert_int_equal(trk_stats(t)->procs, 1);
	assert_no_file_at(t, self(), EXEC_ID, 0x11000);
	trk_free(t);
	fake_free(l);
}

/* ---- without memory ------------------------------------------------------------------------- */

#if defined(__SANITIZE_ADDRESS__)
#define CAN_FAIL_MALLOC 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CAN_FAIL_MALLOC 0
#endif
#endif
#ifndef CAN_FAIL_MALLOC
#define CAN_FAIL_MALLOC 1
#endif

#if CAN_FAIL_MALLOC
/* 0: never; n: the n-th from now and every third after it. */
static long fail_at;

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t k);
void *__libc_realloc(void *p, size_t n);
void *malloc(size_t n);
void *calloc(size_t n, size_t k);
void *realloc(void *p, size_t n);

static bool fails(void)
{
	if (fail_at == 0)
		return false;
	if (--fail_at > 0)
		return false;
	fail_at = 3;
	return true;
}

void *malloc(size_t n)
{
	return fails() ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t k)
{
	return fails() ? NULL : __libc_calloc(n, k);
}

void *realloc(void *p, size_t n)
{
	return fails() ? NULL : __libc_realloc(p, n);
}

static void test_allocation_failures_cost_only_their_item(void **state)
{
	struct load_oncpu *l = fake_new(4096);
	struct trk_options o = {.loader = l};
	struct abi_range r;

	(void)state;
	fake_task(l, self(), EXEC_ID, START_NS);
	for (long n = 1; n < 400; n++) {
		uint32_t kid = PID_BASE;
		struct trk *t = NULL;
		int made, scanned = -1;

		fail_at = n;
		made = trk_new(&o, &t, NULL);
		if (made == 0) {
			scanned = trk_scan(t, NULL);
			for (uint32_t k = 0; k < 8; k++) {
				ev_fork(t, kid + k, self());
				ev_exec(t, kid + k);
				for (uint64_t i = 0; i < 20; i++)
					ev_mmap(t, kid + k, (1 + i) << 16, (2 + i) << 16, 0,
					        (uint32_t)i % 5);
				ev_mmap(t, kid + k, 0x18000, 0x58000, 0, 9);
				trk_flush(t);
			}
			ev_lost(t);
			trk_flush(t);
			ev_exit(t, kid, kid);
			trk_flush(t);
		}
		fail_at = 0;
		if (made == 0) {
			/* With memory again it goes on as if nothing had been. */
			ev_fork(t, kid + 50, self());
			ev_exec(t, kid + 50);
			ev_mmap(t, kid + 50, 0x10000, 0x11000, 0x3000, 77);
			wait_ms(scanned < 0 ? 11 : 0);
			trk_flush(t);
			assert_file_at(t, kid + 50, 0, 0x10000, 77, 0x3000);
			if (scanned == 0 && fake_slot(l, kid + 50)->there)
				assert_int_equal(kernel_find(l, kid + 50,
				                             fake_slot(l, kid + 50)->v.exec_id,
				                             0x10000, &r),
				                 1);
		} else {
			assert_int_equal(made, -ENOMEM);
		}
		trk_free(t);
		memset(l->slot, 0, sizeof(l->slot));
		l->there = 0;
	}
	fake_free(l);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fork_shares_until_a_change),
		cmocka_unit_test(test_exec_begins_a_new_program),
		cmocka_unit_test(test_short_life_within_one_batch),
		cmocka_unit_test(test_pid_reuse_by_fork),
		cmocka_unit_test(test_pid_reuse_seen_by_the_iterator),
		cmocka_unit_test(test_start_is_learned),
		cmocka_unit_test(test_threads_outlive_their_leader),
		cmocka_unit_test(test_threads_are_counted_by_the_scan),
		cmocka_unit_test(test_kernel_threads_are_not_published),
		cmocka_unit_test(test_mapping_over_part_of_another),
		cmocka_unit_test(test_replaced_mappings_are_remembered),
		cmocka_unit_test(test_known_mapping_changes_nothing),
		cmocka_unit_test(test_random_mappings_against_a_plain_array),
		cmocka_unit_test(test_60000_mappings_in_one_process),
		cmocka_unit_test(test_offsets_beyond_a_frame_stay_raw),
		cmocka_unit_test(test_place_image),
		cmocka_unit_test(test_full_array_of_ranges),
		cmocka_unit_test(test_lingering_leaders_make_room),
		cmocka_unit_test(test_refused_update_withdraws),
		cmocka_unit_test(test_old_places_rest),
		cmocka_unit_test(test_big_lists_are_written_rarely),
		cmocka_unit_test(test_5000_processes),
		cmocka_unit_test(test_lost_events_are_read_again),
		cmocka_unit_test(test_exec_that_crossed_with_the_scan),
		cmocka_unit_test(test_old_mmap_does_not_undo_the_scan),
		cmocka_unit_test(test_unknown_process_is_read),
		cmocka_unit_test(test_fork_older_than_the_reading),
		cmocka_unit_test(test_what_was_unmapped_is_remembered),
		cmocka_unit_test(test_vdso),
		cmocka_unit_test(test_special_names_are_images_without_file),
		cmocka_unit_test(test_deleted_file),
		cmocka_unit_test(test_replaced_file_keeps_its_old_content),
		cmocka_unit_test(test_file_of_a_process_that_has_gone),
		cmocka_unit_test(test_more_files_than_descriptors),
		cmocka_unit_test(test_every_page_against_proc_maps),
		cmocka_unit_test(test_process_that_may_not_be_read),
		cmocka_unit_test(test_target_only),
		cmocka_unit_test(test_children_are_followed),
		cmocka_unit_test(test_without_loader_or_iterator),
		cmocka_unit_test(test_limits_are_counted),
		cmocka_unit_test(test_endless_replacing_is_bounded),
		cmocka_unit_test(test_events_of_other_namespaces_are_ignored),
#if CAN_FAIL_MALLOC
		cmocka_unit_test(test_allocation_failures_cost_only_their_item),
#endif
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
