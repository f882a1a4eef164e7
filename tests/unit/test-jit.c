/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-jit - JIT code from a sampled address to its name. The process is this one, with a perf-map
 * of its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "jit/jit_priv.h"

#define CODE 0x7f0000001000ULL

struct fixture {
	struct jit *j;
	struct tally tally;
	struct prof_agg *agg;
	struct ev_proc_id id;
	char map[64], other[64];
	/* The last report, and the number of reports; how many counts were drained for an epoch. */
	uint64_t addrs[JIT_ADDRS];
	uint32_t n_addrs, reports, drains;
	uint16_t epoch;
	bool no_room;
};

static bool on_sampled(void *arg, const struct ev_proc_id *id, const uint64_t *addrs, uint32_t n)
{
	struct fixture *f = arg;

	if (f->no_room)
		return false;
	assert_memory_equal(id, &f->id, sizeof(*id));
	memcpy(f->addrs, addrs, n * sizeof(*addrs));
	f->n_addrs = n;
	f->reports++;
	return true;
}

static void on_end_epoch(void *arg, void *drain, uint16_t epoch)
{
	struct fixture *f = arg;

	assert_ptr_equal(drain, f);
	f->drains++;
	f->epoch = epoch;
}

static const char *image_path(void *arg, uint32_t image)
{
	(void)arg;
	return image == 1 ? "/lib/made-up.so" : image == 2 ? "/memfd:doublemapper" : NULL;
}

static bool is_tracked(void *arg, uint32_t pid)
{
	(void)arg;
	return pid == (uint32_t)getpid();
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct jit_options o = {.sampled = on_sampled,
	                        .end_epoch = on_end_epoch,
	                        .image_path = image_path,
	                        .is_tracked = is_tracked,
	                        .interval_ns = 0, /* look at the files in each round */
	                        .arg = f};

	assert_non_null(f);
	assert_int_equal(prof_agg_new(NULL, &f->agg), 0);
	o.tally = &f->tally;
	o.agg = f->agg;
	assert_int_equal(jit_new(&o, &f->j), 0);
	jit_begin(f->j, 1); /* not some time ago: a machine may have booted a minute ago */
	f->id.pid = (uint32_t)getpid();
	f->id.exec_id = 3;
	assert_int_equal(proc_start_ns(f->id.pid, &f->id.start_ns), 0);
	f->id.start_ns += 5 * NSEC_PER_MSEC; /* what BPF sees is finer */
	(void)snprintf(f->map, sizeof(f->map), "/tmp/perf-%u.map", f->id.pid);
	(void)snprintf(f->other, sizeof(f->other), "/tmp/perf-%u.other", f->id.pid);
	(void)unlink(f->map);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	(void)unlink(f->map);
	(void)unlink(f->other);
	assert_null(jit_free(f->j));
	prof_agg_free(f->agg);
	tally_reset(&f->tally);
	free(f);
	return 0;
}

static void write_to(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(file_write_full(fd, text, strlen(text)), 0);
	closep(&fd);
}

/* The next scan of the files. */
static void look(struct fixture *f)
{
	jit_round(f->j, now_ns(), 0);
}

static void expect_name(struct fixture *f, uint16_t epoch, const char *want)
{
	struct sym_named n;
	uint32_t proc = jit_find_proc(f->j, &f->id);

	if (!want) {
		assert_false(jit_name(f->j, proc, epoch, CODE + 8, &n));
		return;
	}
	assert_true(jit_name(f->j, proc, epoch, CODE + 8, &n));
	assert_int_equal(n.reason, EV_REASON_NAMED);
	assert_int_equal(n.n, 1);
	assert_string_equal(n.frames[0].name, want);
}

static void end_epoch(struct fixture *f)
{
	jit_drained(f->j, f);
}

static uint64_t counter(struct fixture *f, enum tally_id id)
{
	return tally_get(&f->tally, id);
}

static void seen(struct fixture *f)
{
	const uint64_t addr = CODE + 8;

	jit_watch(f->j, &f->id, &addr, 1);
}

/* A stack and a count of it, as D gets them. */
static struct ev_count deliver(struct fixture *f, uint64_t hash, uint8_t space)
{
	const struct ev_frame frame = {.addr = CODE + 9, .space = space};
	const struct ev_stack st = {.hash = hash, .n = 1, .frames = &frame};
	struct ev_count c = {.proc = f->id, .tid = 1, .ustack = hash, .samples = 1};

	assert_int_equal(prof_agg_add_stack(f->agg, &st, NULL), 0);
	jit_add_stack(f->j, &st);
	jit_stamp(f->j, &c);
	return c;
}

static void test_a_sampled_process_has_the_names_of_its_map(void **state)
{
	struct fixture *f = *state;

	write_to(f->map, "7f0000001000 40 first\n");
	(void)deliver(f, 1, EV_SPACE_IMAGE);
	assert_int_equal(f->reports, 0);
	f->no_room = true;
	(void)deliver(f, 2, EV_SPACE_ANON);
	f->no_room = false;
	(void)deliver(f, 2, EV_SPACE_ANON); /* again, since there was no room */
	(void)deliver(f, 2, EV_SPACE_ANON); /* and once */
	assert_int_equal(f->reports, 1);
	assert_int_equal(f->n_addrs, 1);
	assert_int_equal(f->addrs[0], CODE + 8); /* a return address */
	jit_watch(f->j, &f->id, f->addrs, f->n_addrs);
	expect_name(f, 0, NULL);
	look(f);
	expect_name(f, 0, "first");
	jit_finish(f->j);
	assert_int_equal(counter(f, TALLY_JIT_MAPS), 1);
	assert_int_equal(counter(f, TALLY_JIT_REFUSED), 0);
}

static void test_an_epoch_ends_where_a_sampled_address_is_used_again(void **state)
{
	struct fixture *f = *state;

	write_to(f->map, "7f0000001000 40 first\n");
	seen(f);
	look(f);
	assert_int_equal(deliver(f, 2, EV_SPACE_ANON).epoch, 0);
	end_epoch(f);
	assert_int_equal(f->drains, 0);
	/* Other code, and the same again: no reason. */
	write_to(f->map, "7f0000002000 40 other\n7f0000001000 40 first\n7f0000002000 40 third\n");
	look(f);
	end_epoch(f);
	assert_int_equal(f->drains, 0);
	write_to(f->map, "7f0000001000 40 second\n");
	look(f);
	end_epoch(f);
	assert_int_equal(f->drains, 1);
	assert_int_equal(f->epoch, 1);
	assert_int_equal(deliver(f, 2, EV_SPACE_ANON).epoch, 1);
	assert_int_equal(deliver(f, 3, EV_SPACE_IMAGE).epoch, 0);
	end_epoch(f);
	assert_int_equal(f->drains, 1);
	expect_name(f, 0, "first");
	expect_name(f, 1, "second");
	assert_int_equal(counter(f, TALLY_JIT_EPOCHS), 1);
}

static void test_epochs_are_not_shorter_than_a_share_of_the_capture(void **state)
{
	struct fixture *f = *state;

	write_to(f->map, "7f0000001000 40 first\n");
	seen(f);
	look(f);
	write_to(f->map, "7f0000001000 40 second\n");
	look(f);
	end_epoch(f);
	assert_int_equal(f->drains, 1);
	write_to(f->map, "7f0000001000 40 third\n");
	look(f);
	end_epoch(f); /* the capture began when the machine booted */
	assert_int_equal(f->drains, 1);
	jit_begin(f->j, now_ns() - 1);
	end_epoch(f);
	assert_int_equal(f->drains, 2);
}

static void test_files_that_are_not_the_target_s_are_refused_once(void **state)
{
	struct fixture *f = *state;

	seen(f);
	write_to(f->other, "7f0000001000 40 first\n");
	assert_int_equal(symlink(f->other, f->map), 0);
	look(f);
	look(f);
	assert_int_equal(unlink(f->map), 0);
	assert_int_equal(mkfifo(f->map, 0600), 0);
	look(f);
	assert_int_equal(unlink(f->map), 0);
	assert_int_equal(link(f->other, f->map), 0);
	look(f);
	expect_name(f, 0, NULL);
	jit_finish(f->j);
	assert_int_equal(counter(f, TALLY_JIT_REFUSED), 1);
	assert_int_equal(f->tally.n_notes, 1);
	assert_non_null(strstr(f->tally.notes[0], "symbolic link"));
	/* The right one may still come. */
	assert_int_equal(unlink(f->other), 0);
	look(f);
	expect_name(f, 0, "first");
}

static void test_a_map_that_comes_late_is_read_at_the_end(void **state)
{
	struct fixture *f = *state;

	seen(f);
	look(f);
	write_to(f->map, "7f0000001000 40 first\nbad\n7f0000003000 40 no end");
	jit_finish(f->j);
	expect_name(f, 0, "first");
	assert_int_equal(counter(f, TALLY_JIT_BAD), 1);
}

static void test_another_process_of_the_same_number_has_no_names(void **state)
{
	struct fixture *f = *state;

	write_to(f->map, "7f0000001000 40 first\n");
	f->id.start_ns -= 60 * NSEC_PER_SEC;
	seen(f);
	look(f);
	assert_int_equal(jit_find_proc(f->j, &f->id), 0);
	assert_false(jit_any(f->j));
	f->id.pid = 0x7ffffff0; /* there is no such process */
	seen(f);
	assert_false(jit_any(f->j));
}

static void test_a_jitdump_is_found_by_its_mapping(void **state)
{
	static const struct {
		uint32_t magic, version, size, machine, pad, pid;
		uint64_t time, flags;
		uint32_t id, len;
		uint64_t at;
		uint32_t pid2, tid;
		uint64_t vma, addr, bytes, idx;
		char name[8];
	} dump = {.magic = 0x4a695444,
	          .version = 1,
	          .size = 40,
	          .len = 16 + 40 + 8,
	          .at = 1,
	          .addr = CODE,
	          .bytes = 8 * 2,
	          .name = "dumped"};
	const struct ev_proc ev = {.type = EV_PROC_MMAP,
	                           .pid = (uint32_t)getpid(),
	                           .map = {.path = "/tmp/jit-1.dump"}};
	struct fixture *f = *state;
	char path[64];
	void *mem;
	int fd;

	(void)snprintf(path, sizeof(path), "/tmp/jit-%u.dump", f->id.pid);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(file_write_full(fd, &dump, sizeof(dump)), 0);
	/* Known by its mapping before it was sampled. */
	mem = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	closep(&fd);
	if (mem == MAP_FAILED) { /* a /tmp without execution */
		(void)unlink(path);
		return;
	}
	jit_event(f->j, &ev);
	assert_true(jit_any(f->j));
	assert_int_equal(jit_find_proc(f->j, &f->id), 0);
	look(f);
	(void)unlink(path);
	seen(f);
	assert_int_equal(jit_find_proc(f->j, &f->id), 1); /* the same, with its full name now */
	expect_name(f, 0, "dumped");
	assert_int_equal(munmap(mem, 4096), 0);
}

static void test_a_process_without_names_that_has_gone_makes_room(void **state)
{
	struct fixture *f = *state;
	struct ev_proc_id child = {.exec_id = 3};
	int p[2];
	char c;

	assert_int_equal(pipe(p), 0);
	child.pid = (uint32_t)fork();
	if (child.pid == 0) {
		(void)close(p[1]);
		_exit((int)read(p[0], &c, 1)); /* until the test lets it go */
	}
	assert_true((pid_t)child.pid > 0);
	assert_int_equal(proc_start_ns(child.pid, &child.start_ns), 0);
	jit_watch(f->j, &child, NULL, 0);
	assert_int_equal(jit_find_proc(f->j, &child), 1);
	for (uint32_t i = 1; i < 1024; i++) {
		f->id.exec_id = 100 + i;
		seen(f);
		assert_int_equal(jit_find_proc(f->j, &f->id), i + 1);
	}
	f->id.exec_id = 4;
	seen(f);
	assert_int_equal(jit_find_proc(f->j, &f->id), 0);
	assert_int_equal(counter(f, TALLY_JIT_PROCS_OVER), 1);
	closep(&p[0]);
	closep(&p[1]);
	assert_int_equal(waitpid((pid_t)child.pid, NULL, 0), child.pid);
	/* Room is looked for once a second. */
	write_to(f->map, "7f0000001000 40 first\n");
	for (f->id.exec_id = 5; !jit_find_proc(f->j, &f->id); f->id.exec_id++) {
		seen(f);
		if (jit_find_proc(f->j, &f->id))
			break;
		(void)poll(NULL, 0, 50);
	}
	assert_int_equal(jit_find_proc(f->j, &f->id), 1);
	assert_int_equal(jit_find_proc(f->j, &child), 0);
	look(f);
	expect_name(f, 0, "first");
}

static size_t count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	size_t n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	(void)closedir(d);
	return n;
}

static void test_of_a_process_that_has_gone_its_names_are_kept(void **state)
{
	struct fixture *f = *state;
	struct ev_proc_id child = {.exec_id = 3}, self = f->id;
	size_t fds = count_fds();
	char map[64], c;
	int p[2];

	assert_int_equal(pipe(p), 0);
	child.pid = (uint32_t)fork();
	if (child.pid == 0) {
		(void)close(p[1]);
		_exit((int)read(p[0], &c, 1)); /* until the test lets it go */
	}
	assert_true((pid_t)child.pid > 0);
	(void)snprintf(map, sizeof(map), "/tmp/perf-%u.map", child.pid);
	(void)unlink(map);
	assert_int_equal(proc_start_ns(child.pid, &child.start_ns), 0);
	write_to(map, "7f0000000000 40 other\n");
	jit_watch(f->j, &child, NULL, 0);
	look(f);
	look(f);
	assert_int_equal(count_fds(), fds + 3); /* /tmp, and the pipe */
	closep(&p[0]);
	closep(&p[1]);
	assert_int_equal(waitpid((pid_t)child.pid, NULL, 0), child.pid);
	write_to(map, "7f0000001000 40 last"); /* its very end, unfinished */
	look(f);
	(void)unlink(map);
	assert_int_equal(count_fds(), fds);
	f->id = child;
	expect_name(f, 0, "last");
	/* It takes no room of those that live. */
	f->id = self;
	for (uint32_t i = 0; i < 1024; i++) {
		f->id.exec_id = 100 + i;
		seen(f);
		assert_int_equal(jit_find_proc(f->j, &f->id), i + 2);
	}
	assert_int_equal(counter(f, TALLY_JIT_PROCS_OVER), 0);
	assert_int_equal(count_fds(), fds + 1);
	write_to(f->map, "7f0000001000 40 first\n");
	look(f);
	jit_finish(f->j);
	expect_name(f, 0, "first");
	f->id = child;
	expect_name(f, 0, "last");
}

static void test_code_in_no_file_or_in_a_memfd_may_be_jit_code(void **state)
{
	static const struct {
		uint8_t space;
		uint32_t image;
		bool want;
	} cases[] = {
	        {EV_SPACE_ANON, 0, true},   {EV_SPACE_IMAGE, 1, false},  {EV_SPACE_IMAGE, 2, true},
	        {EV_SPACE_IMAGE, 3, false}, {EV_SPACE_KERNEL, 2, false}, {EV_SPACE_RAW, 0, false},
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct ev_frame at = {.space = cases[i].space, .image = cases[i].image};

		assert_int_equal(jit_maybe(f->j, &at), cases[i].want);
		assert_int_equal(jit_maybe(NULL, &at), at.space == EV_SPACE_ANON);
	}
}

static void test_a_deferred_sample_without_such_frames_has_no_epoch(void **state)
{
	struct fixture *f = *state;
	const struct ev_frame file = {.addr = 16, .image = 1, .space = EV_SPACE_IMAGE},
	                      jit = {.addr = CODE + 9, .space = EV_SPACE_ANON};
	const struct ev_stack plain = {.n = 1, .frames = &file}, with = {.n = 1, .frames = &jit};
	struct ev_count c = {.proc = f->id, .epoch = 7};

	write_to(f->map, "7f0000001000 40 first\n");
	jit_walked(f->j, &c, &plain);
	assert_int_equal(c.epoch, 0);
	assert_false(jit_any(f->j));
	c.epoch = 7;
	jit_walked(f->j, &c, &with);
	assert_int_equal(c.epoch, 7);
	look(f);
	expect_name(f, 0, "first");
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
	        T(test_a_sampled_process_has_the_names_of_its_map),
	        T(test_an_epoch_ends_where_a_sampled_address_is_used_again),
	        T(test_epochs_are_not_shorter_than_a_share_of_the_capture),
	        T(test_files_that_are_not_the_target_s_are_refused_once),
	        T(test_a_map_that_comes_late_is_read_at_the_end),
	        T(test_another_process_of_the_same_number_has_no_names),
	        T(test_a_jitdump_is_found_by_its_mapping),
	        T(test_a_process_without_names_that_has_gone_makes_room),
	        T(test_of_a_process_that_has_gone_its_names_are_kept),
	        T(test_code_in_no_file_or_in_a_memfd_may_be_jit_code),
	        T(test_a_deferred_sample_without_such_frames_has_no_epoch),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
