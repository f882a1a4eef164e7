/* SPDX-License-Identifier: Apache-2.0 */
/* Side-band rings and event sets of the running kernel, with this program as its own children. */
#include "perfevent/perfevent.h"
#include "proc/proc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#define CHILDREN   50
#define EVENTS_MAX 200000
#define RING_PAGES 64
#define PLUGIN     "libelf.so.1" /* not needed by this program: dlopen maps it */
#define SPIN_NS    (100 * NSEC_PER_MSEC)

static uint32_t cpus[PEV_CPUS_MAX];
static uint32_t cpu_cnt;

/* ---- what the children do ------------------------------------------------------------------- */

static uint64_t own_cpu_ns(void)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts) < 0)
		return UINT64_MAX;
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

static int child_spin(void)
{
	uint64_t begin = own_cpu_ns();

	while (own_cpu_ns() - begin < SPIN_NS)
		;
	return 0;
}

/* Maps a library, a memfd and JIT code, and prints what /proc/self/maps then says. */
static int child_maps(void)
{
	_cleanup_(sbuf_done) struct sbuf b;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int fd = memfd_create("code", MFD_CLOEXEC);
	void *p = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	sbuf_init(&b, 1 << 20);
	if (!dlopen(PLUGIN, RTLD_NOW) || fd < 0 || ftruncate(fd, (off_t)(2 * page)) < 0)
		return 2;
	if (mmap(NULL, page, PROT_READ | PROT_EXEC, MAP_SHARED, fd, (off_t)page) == MAP_FAILED)
		return 3;
	if (p == MAP_FAILED || mprotect((uint8_t *)p + page, page, PROT_READ | PROT_EXEC) < 0)
		return 4;
	if (file_read_all(AT_FDCWD, "/proc/self/maps", &b, NULL) < 0)
		return 5;
	return file_write_full(STDOUT_FILENO, b.p, b.len) < 0 ? 6 : 0;
}

/* Forks and runs this program again, with @out as its standard output if it is >= 0. */
static pid_t start_child(const char *what, int out)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid > 0)
		return pid;
	if (out >= 0 && dup2(out, STDOUT_FILENO) < 0)
		_exit(120);
	execl("/proc/self/exe", "test-live-perfevent", what, (char *)NULL);
	_exit(122);
}

/* ---- the stream of events ------------------------------------------------------------------- */

struct events {
	VEC(struct ev_proc) v;
	struct arena paths;
};

static void on_record(void *arg, const struct ev_proc *ev)
{
	struct events *e = arg;
	struct ev_proc copy = *ev;

	copy.map.path = arena_strndup(&e->paths, ev->map.path, strlen(ev->map.path));
	assert_non_null(copy.map.path);
	assert_int_equal(vec_push(&e->v, copy), 0);
}

static void events_init(struct events *e)
{
	*e = (struct events){.v = VEC_INIT(EVENTS_MAX)};
	arena_init(&e->paths, 64 << 20);
}

static void events_done(struct events *e)
{
	vec_done(&e->v);
	arena_done(&e->paths);
}

static struct pev_sideband *open_sideband(void)
{
	struct pev_sideband *s = NULL;
	struct err err = {0};

	if (pev_sideband_open(cpus, cpu_cnt, RING_PAGES, &s, &err) < 0)
		fail_msg("%s", err.msg);
	return s;
}

static void finish_sideband(struct pev_sideband *s, struct events *e)
{
	(void)pev_sideband_read(s, true, on_record, e); /* what matters is in e */
	assert_int_equal(pev_sideband_stats(s)->lost, 0);
	assert_int_equal(pev_sideband_stats(s)->malformed, 0);
	assert_int_equal(pev_sideband_stats(s)->early, 0);
	assert_int_equal(pev_sideband_stats(s)->records, e->v.n);
	pev_sideband_free(s);
}

struct life {
	pid_t pid;
	unsigned int forks, comms, maps, exits;
	uint64_t fork_ns, exec_ns, exit_ns;
};

/* FORK, then COMM of the exec, then MMAP2s, then EXIT: each at its place. */
static void live(struct life *l, const struct ev_proc *ev)
{
	assert_int_equal(ev->pid, ev->tid);
	switch (ev->type) {
	case EV_PROC_FORK:
		assert_int_equal(ev->ppid, getpid());
		assert_int_equal(l->comms + l->maps + l->exits, 0);
		l->fork_ns = ev->time_ns;
		l->forks++;
		break;
	case EV_PROC_COMM:
		assert_true(ev->exec);
		assert_string_equal(ev->comm, "exe");
		assert_int_equal(l->forks, 1);
		assert_int_equal(l->maps + l->exits, 0);
		l->exec_ns = ev->time_ns;
		l->comms++;
		break;
	case EV_PROC_MMAP:
		assert_int_equal(l->comms, 1);
		assert_int_equal(l->exits, 0);
		l->maps++;
		break;
	case EV_PROC_EXIT:
		assert_int_equal(l->comms, 1);
		l->exit_ns = ev->time_ns;
		l->exits++;
		break;
	case EV_PROC_KSYMBOL: /* of no process */
	case EV_PROC_LOST:
		fail_msg("lost %llu records", (unsigned long long)ev->lost);
	}
}

static void test_lives_of_children_are_seen_in_order(void **state)
{
	struct life lives[CHILDREN] = {0};
	struct pev_sideband *s = open_sideband();
	uint64_t begin = now_ns(), end, last = 0;
	struct events e;

	(void)state;
	events_init(&e);
	for (size_t i = 0; i < CHILDREN; i++) {
		lives[i].pid = start_child("--exit", -1);
		if (i % 8 == 7)
			assert_true(pev_sideband_read(s, false, on_record, &e) >= 0);
	}
	for (size_t i = 0; i < CHILDREN; i++) {
		int status = -1;

		assert_int_equal(waitpid(lives[i].pid, &status, 0), lives[i].pid);
		assert_int_equal(status, 0);
	}
	end = now_ns();
	finish_sideband(s, &e);

	vec_each (ev, &e.v) {
		assert_true(ev->time_ns >= last);
		last = ev->time_ns;
		for (size_t i = 0; i < CHILDREN; i++) {
			if ((uint32_t)lives[i].pid == ev->pid)
				live(&lives[i], ev);
		}
	}
	for (size_t i = 0; i < CHILDREN; i++) {
		const struct life *l = &lives[i];

		assert_int_equal(l->forks, 1);
		assert_int_equal(l->comms, 1);
		assert_int_equal(l->exits, 1);
		assert_true(l->maps >= 2); /* the program and its dynamic linker, at least */
		assert_true(begin <= l->fork_ns && l->fork_ns < l->exec_ns);
		assert_true(l->exec_ns < l->exit_ns && l->exit_ns <= end);
	}
	events_done(&e);
}

/* The last record of this process for a mapping that begins there; NULL: none. */
static const struct ev_mapping *find_map(struct events *e, pid_t pid, uint64_t start)
{
	const struct ev_mapping *m = NULL;

	vec_each (ev, &e->v) {
		if (ev->type == EV_PROC_MMAP && ev->pid == (uint32_t)pid && ev->map.start == start)
			m = &ev->map;
	}
	return m;
}

static void test_mappings_are_those_of_proc_maps(void **state)
{
	unsigned int compared = 0, plugin = 0, memfd = 0, anon = 0, vdso = 0;
	struct pev_sideband *s = open_sideband();
	_cleanup_(sbuf_done) struct sbuf maps;
	static char path[20000];
	struct events e;
	struct cursor c;
	const char *line;
	int out[2], status;
	size_t len;
	pid_t pid;

	(void)state;
	events_init(&e);
	sbuf_init(&maps, 1 << 20);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	pid = start_child("--maps", out[1]);
	close(out[1]);
	assert_int_equal(file_read_fd(out[0], &maps), 0);
	close(out[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	finish_sideband(s, &e);

	c = cursor_of(maps.p, maps.len);
	while (cursor_line(&c, &line, &len) == 0) {
		const struct ev_mapping *got;
		struct ev_mapping m;

		assert_int_equal(proc_maps_parse_line(line, len, path, sizeof(path), &m), 0);
		if (!m.exec || m.kind == EV_MAP_OTHER) /* [vsyscall] is in no process */
			continue;
		got = find_map(&e, pid, m.start);
		if (!got)
			fail_msg("no record of %.*s", (int)len, line);
		/* The kernel and the dynamic linker map a file in one piece at first, and cut off
		 * what is after its first segment. Where that one has the code (as linkers for
		 * arm64 lay it out) the record is of the whole piece. */
		if (m.kind == EV_MAP_FILE && m.pgoff == 0 && !m.deleted)
			assert_true(got->end >= m.end);
		else
			assert_int_equal(got->end, m.end);
		assert_int_equal(got->kind, m.kind);
		assert_int_equal(got->exec, 1);
		compared++;
		anon += m.kind == EV_MAP_ANON;
		vdso += m.kind == EV_MAP_VDSO;
		if (m.kind != EV_MAP_FILE)
			continue;
		assert_int_equal(got->pgoff, m.pgoff);
		assert_int_equal(got->file.dev_major, m.file.dev_major);
		assert_int_equal(got->file.dev_minor, m.file.dev_minor);
		assert_int_equal(got->file.ino, m.file.ino);
		assert_int_equal(got->deleted, m.deleted);
		assert_string_equal(got->path, m.path);
		plugin += strstr(m.path, "libelf") != NULL;
		memfd += m.deleted && strcmp(m.path, "/memfd:code") == 0;
	}
	assert_true(compared >= 5);
	assert_int_equal(plugin, 1);
	assert_int_equal(memfd, 1);
	assert_true(anon >= 1);
	assert_int_equal(vdso, 1);
	events_done(&e);
}

/* ---- event sets ----------------------------------------------------------------------------- */

static unsigned int open_fds(void)
{
	unsigned int n = 0;
	DIR *d = opendir("/proc/self/fd");

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void ignore_record(void *arg, const struct ev_proc *ev)
{
	(void)arg;
	(void)ev;
}

/* A storm of execs wakes the reader, but for many records at a time, and reading ends it. */
static void test_storm_wakes_at_the_mark(void **state)
{
	_cleanup_(pev_sideband_freep) struct pev_sideband *s = NULL;
	struct pollfd p = {.events = POLLIN};
	uint64_t records = 0;
	unsigned int wakes = 0;
	int status;

	(void)state;
	assert_int_equal(pev_sideband_open(cpus, cpu_cnt, RING_PAGES, &s, NULL), 0);
	p.fd = pev_sideband_poll_fd(s);
	for (int k = 0; k < 2000 && wakes < 5; k++) {
		pid_t pid = start_child("--exit", -1);

		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (poll(&p, 1, 0) != 1)
			continue;
		wakes++;
		(void)pev_sideband_read(s, true, ignore_record, NULL); /* the stats tell */
		records = pev_sideband_stats(s)->records;
		/* At once again only if another storm filled it meanwhile. */
		if (poll(&p, 1, 0) == 1)
			(void)pev_sideband_read(s, true, ignore_record, NULL);
		assert_int_equal(poll(&p, 1, 0), 0);
	}
	print_message("# %u wakes for %llu records\n", wakes, (unsigned long long)records);
	assert_int_equal(wakes, 5);
	assert_true(records > 5 * 20);
}

static void test_cpu_clocks_of_all_cpus(void **state)
{
	struct pev_spec spec = pev_spec_cpu_clock(99);
	unsigned int before = open_fds();
	uint64_t count = 1;
	struct err err = {0};
	struct pev_set set;

	(void)state;
	if (pev_open_cpus(&spec, cpus, cpu_cnt, &set, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(set.n + set.skipped_cpus, cpu_cnt);
	for (uint32_t i = 0; i < set.n; i++) {
		assert_int_equal(read(set.e[i].fd, &count, sizeof(count)), sizeof(count));
		assert_int_equal(count, 0); /* opened disabled */
	}
	assert_int_equal(pev_set_enable(&set, NULL), 0);
	(void)child_spin();
	assert_int_equal(pev_set_disable(&set), 0);
	/* The clock of a CPU runs while its event is enabled. */
	for (uint32_t i = 0; i < set.n; i++) {
		assert_int_equal(read(set.e[i].fd, &count, sizeof(count)), sizeof(count));
		assert_true(count >= SPIN_NS / 10 * 9);
	}
	assert_int_equal(pev_set_close(&set), 0);
	assert_int_equal(open_fds(), before);
}

static void test_cycles_are_there_or_not(void **state)
{
	struct pev_spec spec = {0};
	unsigned int before = open_fds();
	struct err err = {0};
	int error = -1;
	int r = pev_probe_cycles(cpus[0], 99, &spec, &error, &err);

	(void)state;
	if (r < 0)
		fail_msg("%s", err.msg);
	if (r == 1) {
		assert_int_equal(error, 0);
		assert_string_equal(pev_spec_name(&spec), "hardware/cpu-cycles");
		print_message("# hardware cycles: yes\n");
	} else {
		assert_int_equal(r, 0);
		assert_true(error == EOPNOTSUPP || error == ENOENT || error == ENODEV ||
		            error == EINVAL || error == EACCES);
		print_message("# hardware cycles: %s\n", err_name(error));
	}
	assert_int_equal(open_fds(), before);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_lives_of_children_are_seen_in_order),
	        cmocka_unit_test(test_mappings_are_those_of_proc_maps),
	        cmocka_unit_test(test_storm_wakes_at_the_mark),
	        cmocka_unit_test(test_cpu_clocks_of_all_cpus),
	        cmocka_unit_test(test_cycles_are_there_or_not),
	};
	struct pev_sideband *s = NULL;
	struct err err = {0};
	int n, r;

	if (argc == 2 && strcmp(argv[1], "--exit") == 0)
		_exit(0);
	if (argc == 2 && strcmp(argv[1], "--spin") == 0)
		_exit(child_spin());
	if (argc == 2 && strcmp(argv[1], "--maps") == 0)
		_exit(child_maps());

	cmocka_set_message_output(CM_OUTPUT_TAP);
	n = proc_online_cpus(cpus, ARRAY_SIZE(cpus), &err);
	if (n < 0) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	cpu_cnt = (uint32_t)n;
	r = pev_sideband_open(cpus, cpu_cnt, 1, &s, &err);
	if (r == -EACCES || r == -EPERM || r == -ENOSYS) {
		printf("1..0 # SKIP %s\n", err.msg);
		return 0;
	}
	pev_sideband_free(s);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
