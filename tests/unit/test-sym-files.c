/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names, lines and inlined calls of this very program, decoded in this process and in the child:
 * what they must be is known where they are written. And what becomes of a child.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "symbolize/sym_process.h"

/* The address of the instruction after it. */
#if defined(__x86_64__)
#define GET_PC(pc) __asm__ volatile("lea 0(%%rip), %0" : "=r"(pc))
#else
#define GET_PC(pc) __asm__ volatile("adr %0, . + 4" : "=r"(pc))
#endif

static unsigned int inner_line, outer_line;

static inline __attribute__((always_inline)) uint64_t inner_call(void)
{
	uint64_t pc;

	GET_PC(pc);
	inner_line = __LINE__ - 1;
	return pc;
}

static __attribute__((noinline)) uint64_t outer_function(void)
{
	uint64_t pc = inner_call();
	outer_line = __LINE__ - 1;

	__asm__ volatile("" : : "r"(pc));
	return pc;
}

/* Returns the file offset of an address of this program. */
static uint64_t file_offset(uint64_t addr)
{
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned long start, end, pgoff;
	uint64_t ret = 0;
	char line[512];

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		char *p;

		start = strtoul(line, &p, 16);
		end = strtoul(p + 1, &p, 16);
		pgoff = strtoul(p + 6, NULL, 16);
		if (addr >= start && addr < end)
			ret = addr - start + pgoff;
	}
	(void)fclose(f);
	assert_int_not_equal(ret, 0);
	return ret;
}

static struct sym_source self_as(uint32_t id)
{
	struct sym_source s = {.id = id, .path = "/proc/self/exe", .root_fd = -EBADF};

	s.fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	assert_true(s.fd >= 0);
	return s;
}

static bool has_debug_info(void)
{
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	struct sym_source s = self_as(0);
	bool ret;

	assert_int_equal(img_file_open(s.fd, &f, NULL), 0);
	ret = sym_has_lines(f);
	closep(&s.fd);
	return ret;
}

static void check_self(struct sym_files *c, uint32_t id)
{
	uint64_t pc = outer_function(), off = file_offset(pc - 1);
	struct sym_source s = self_as(id);
	const struct sym_frame *f;
	struct sym_batch b;

	assert_int_equal(sym_files_resolve(c, &s, &off, 1, &b), 0);
	closep(&s.fd); /* what is kept has its own */
	assert_int_equal(b.names[0].reason, EV_REASON_NAMED);
	f = sym_batch_frames(&b, 0);
	if (has_debug_info()) {
		assert_int_equal(b.names[0].n, 2);
		assert_string_equal(f[0].name, "inner_call");
		assert_int_equal(f[0].line, inner_line);
		assert_non_null(strstr(f[0].file, "test-sym-files.c"));
		assert_string_equal(f[1].name, "outer_function");
		assert_int_equal(f[1].line, outer_line);
	} else {
		assert_int_equal(b.names[0].n, 1);
		assert_string_equal(f[0].name, "outer_function");
	}
	sym_batch_done(&b);
}

static struct sym_files *files_new(bool in_process, uint32_t max_fds)
{
	const struct sym_files_options o = {
	        .in_process = in_process, .max_fds = max_fds, .process_fds = max_fds};
	struct sym_files *c = NULL;

	assert_int_equal(sym_files_new(&o, &c), 0);
	assert_int_equal(sym_files_pid(c) == 0, in_process);
	return c;
}

static void test_lines_decoded_here(void **state)
{
	_cleanup_(sym_files_freep) struct sym_files *c = files_new(true, 0);

	(void)state;
	check_self(c, 1);
	check_self(c, 1);
}

static void test_lines_decoded_by_the_child(void **state)
{
	_cleanup_(sym_files_freep) struct sym_files *c = files_new(false, 0);

	(void)state;
	check_self(c, 1);
	check_self(c, 7);
	if (has_debug_info())
		assert_int_equal(sym_files_stats(c)->engine.debug_files, 2);
	assert_int_equal(sym_files_stats(c)->crashes, 0);
	assert_true(sym_files_stats(c)->process_cpu_ns > 0);
}

static void test_images_over_the_cap_of_descriptors_come_back(void **state)
{
	(void)state;
	for (int here = 0; here < 2; here++) {
		_cleanup_(sym_files_freep) struct sym_files *c = files_new(here, 2);

		for (int round = 0; round < 2; round++)
			for (uint32_t id = 1; id <= 4; id++)
				check_self(c, id);
		if (has_debug_info()) {
			assert_int_equal(sym_files_stats(c)->engine.dropped, 6);
			assert_int_equal(sym_files_stats(c)->engine.rebuilt, 4);
		}
	}
}

/* A line of /proc/PID/status. */
static void status_line(uint32_t pid, const char *key, char *ret, size_t size)
{
	char path[64], line[256];
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%u/status", pid);
	f = fopen(path, "re");
	assert_non_null(f);
	*ret = 0;
	while (fgets(line, sizeof(line), f))
		if (strncmp(line, key, strlen(key)) == 0 && line[strlen(key)] == ':')
			(void)snprintf(ret, size, "%s", line + strlen(key) + 2);
	(void)fclose(f);
	ret[strcspn(ret, "\n")] = 0;
}

static void test_the_child_may_do_nothing_else(void **state)
{
	_cleanup_(sym_files_freep) struct sym_files *c = files_new(false, 0);
	uint32_t pid = sym_files_pid(c);
	char text[256], path[64];
	int n = 0;
	DIR *d;

	(void)state;
	status_line(pid, "Seccomp", text, sizeof(text));
	assert_string_equal(text, "2");
	status_line(pid, "NoNewPrivs", text, sizeof(text));
	assert_string_equal(text, "1");
	status_line(pid, "CapEff", text, sizeof(text));
	assert_string_equal(text, "0000000000000000");
	status_line(pid, "CapPrm", text, sizeof(text));
	assert_string_equal(text, "0000000000000000");
	status_line(pid, "Name", text, sizeof(text));
	assert_string_equal(text, "pa-symbols");
	(void)snprintf(path, sizeof(path), "/proc/%u/fd", pid);
	d = opendir(path);
	if (!d)
		return; /* not dumpable: only root may look */
	while (readdir(d))
		n++;
	(void)closedir(d);
	assert_int_equal(n, 2 + 3); /* ".", ".."; the socket, and nothing twice */
}

static void test_a_child_that_was_ended_is_replaced(void **state)
{
	_cleanup_(sym_files_freep) struct sym_files *c = files_new(false, 0);
	uint32_t pid = sym_files_pid(c);

	(void)state;
	check_self(c, 1);
	assert_int_equal(kill((pid_t)pid, SIGINT), 0); /* as the terminal's Ctrl-C: not for it */
	check_self(c, 1);
	assert_int_equal(sym_files_pid(c), pid);
	assert_int_equal(kill((pid_t)pid, SIGKILL), 0);
	while (kill((pid_t)pid, 0) == 0) {
		char st[64];

		status_line(pid, "State", st, sizeof(st)); /* a zombie if no parent reaps it */
		if (st[0] == 'Z' || st[0] == 0)
			break;
	}
	check_self(c, 1);
	assert_int_not_equal(sym_files_pid(c), pid);
	assert_int_equal(sym_files_stats(c)->crashes, 0); /* it was no file's fault */
}

struct asking {
	struct sym_files *c;
	_Atomic uint32_t tid; /* once it asks */
	enum ev_reason reason;
};

static void *ask_in_thread(void *arg)
{
	struct asking *a = arg;
	uint64_t off = file_offset(outer_function());
	struct sym_source s = self_as(5);
	struct sym_batch b;

	atomic_store(&a->tid, (uint32_t)gettid());
	assert_int_equal(sym_files_resolve(a->c, &s, &off, 1, &b), 0);
	a->reason = b.names[0].reason;
	sym_batch_done(&b);
	closep(&s.fd);
	return NULL;
}

static void wait_for_state(uint32_t pid, char wanted)
{
	char st[64];

	do
		status_line(pid, "State", st, sizeof(st));
	while (st[0] != wanted);
}

static void test_a_file_that_ends_the_child_is_given_up(void **state)
{
	_cleanup_(sym_files_freep) struct sym_files *c = files_new(false, 0);
	struct asking a = {.c = c};
	uint32_t pid = sym_files_pid(c);
	pthread_t t;

	(void)state;
	assert_int_equal(kill((pid_t)pid, SIGSTOP), 0);
	wait_for_state(pid, 'T');
	assert_int_equal(pthread_create(&t, NULL, ask_in_thread, &a), 0);
	while (atomic_load(&a.tid) == 0)
		;
	wait_for_state(atomic_load(&a.tid), 'S'); /* the request has gone out */
	assert_int_equal(kill((pid_t)pid, SIGKILL), 0);
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_int_equal(a.reason, EV_REASON_GIVEN_UP);
	assert_int_equal(sym_files_stats(c)->crashes, 1);
	check_self(c, 6); /* others go on */
	a.reason = EV_REASON_NAMED;
	ask_in_thread(&a);
	assert_int_equal(a.reason, EV_REASON_GIVEN_UP);
	assert_int_equal(sym_files_stats(c)->crashes, 1);
}

static void test_what_the_child_is_at_is_broken_off(void **state)
{
	_cleanup_(sym_files_freep) struct sym_files *c = files_new(false, 0);
	struct asking a = {.c = c};
	uint32_t pid = sym_files_pid(c);
	pthread_t t;

	(void)state;
	assert_int_equal(kill((pid_t)pid, SIGSTOP), 0);
	wait_for_state(pid, 'T');
	assert_int_equal(pthread_create(&t, NULL, ask_in_thread, &a), 0);
	while (atomic_load(&a.tid) == 0)
		;
	wait_for_state(atomic_load(&a.tid), 'S'); /* the request has gone out */
	sym_files_end(c);
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_int_equal(a.reason, EV_REASON_LATE);
	a.reason = EV_REASON_NAMED;
	ask_in_thread(&a); /* and no other child is made */
	assert_int_equal(a.reason, EV_REASON_LATE);
	assert_int_equal(sym_files_pid(c), 0);
	assert_int_equal(sym_files_stats(c)->late, 2);
	assert_int_equal(sym_files_stats(c)->crashes, 0);
	assert_int_equal(sym_files_stats(c)->given_up, 0);
}

static void test_nothing_is_decoded_here_after_the_end(void **state)
{
	_cleanup_(sym_files_freep) struct sym_files *c = files_new(true, 0);
	struct asking a = {.c = c};

	(void)state;
	sym_files_end(c);
	ask_in_thread(&a);
	assert_int_equal(a.reason, EV_REASON_LATE);
	assert_int_equal(sym_files_stats(c)->late, 1);
}

/* Image 7 is no file, 8 … is this program. */
static void ask_many(struct sym_files *c, struct sym_request *v, size_t n)
{
	static const uint64_t nowhere[] = {1};

	for (size_t i = 0; i < n; i++) {
		v[i] = (struct sym_request){.src = {.id = 7 + (uint32_t)i,
		                                    .fd = i ? open("/proc/self/exe", O_RDONLY)
		                                            : -EBADF,
		                                    .path = "",
		                                    .root_fd = -EBADF},
		                            .offs = nowhere,
		                            .n = 1};
	}
	sym_files_resolve_all(c, v, n);
	for (size_t i = 1; i < n; i++)
		(void)close(v[i].src.fd);
}

static void test_many_are_answered_in_their_order(void **state)
{
	_cleanup_(sym_files_freep) struct sym_files *c = files_new(false, 0);
	static struct sym_request v[100];

	(void)state;
	ask_many(c, v, ARRAY_SIZE(v));
	for (size_t i = 0; i < ARRAY_SIZE(v); i++) {
		assert_int_equal(v[i].result, 0);
		assert_int_equal(v[i].batch.n, 1);
		assert_int_equal(v[i].batch.names[0].reason,
		                 i ? EV_REASON_NO_SYMBOL : EV_REASON_NO_FILE);
		sym_batch_done(&v[i].batch);
	}
	check_self(c, 1);
}

struct asking_many {
	struct sym_files *c;
	_Atomic uint32_t tid;
	struct sym_request v[40];
};

static void *ask_many_in_thread(void *arg)
{
	struct asking_many *a = arg;

	atomic_store(&a->tid, (uint32_t)gettid());
	ask_many(a->c, a->v, ARRAY_SIZE(a->v));
	return NULL;
}

static void test_those_after_a_file_that_ends_the_child_are_asked_for_again(void **state)
{
	_cleanup_(sym_files_freep) struct sym_files *c = files_new(false, 0);
	static struct asking_many a;
	uint32_t pid = sym_files_pid(c);
	pthread_t t;

	(void)state;
	a.c = c;
	assert_int_equal(kill((pid_t)pid, SIGSTOP), 0);
	wait_for_state(pid, 'T');
	assert_int_equal(pthread_create(&t, NULL, ask_many_in_thread, &a), 0);
	while (atomic_load(&a.tid) == 0)
		;
	wait_for_state(atomic_load(&a.tid), 'S'); /* the requests have gone out */
	assert_int_equal(kill((pid_t)pid, SIGKILL), 0);
	assert_int_equal(pthread_join(t, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(a.v); i++) {
		assert_int_equal(a.v[i].result, 0);
		assert_int_equal(a.v[i].batch.names[0].reason,
		                 i ? EV_REASON_NO_SYMBOL : EV_REASON_GIVEN_UP);
		sym_batch_done(&a.v[i].batch);
	}
	assert_int_equal(sym_files_stats(c)->crashes, 1);
	assert_int_equal(sym_files_stats(c)->given_up, 1);
}

/* ---- what a child that was taken over could answer ------------------------------------------- */

static void make_batch(struct sym_batch *b)
{
	static const char *const names[] = {"one()", "two", "three"};

	assert_int_equal(sym_none_resolve(EV_REASON_NO_SYMBOL, NULL, 4, b), 0);
	for (uint32_t i = 0; i < 3; i++) {
		struct sym_frame f = {.name = names[i],
		                      .linkage = "_Z3onev",
		                      .file = i ? "/src/a.c" : NULL,
		                      .line = i};

		assert_int_equal(vec_push(&b->frames, f), 0);
	}
	b->names[0] = (struct sym_name){.start = 1, .first = 0, .n = 2};
	b->names[1] = (struct sym_name){.start = 2, .first = 2, .n = 1};
	b->names[3] = (struct sym_name){.start = 3, .first = 0, .n = 3};
}

static size_t batch_bytes(char *buf, size_t size)
{
	const struct sym_engine_stats stats = {.bad = 3};
	struct sym_batch b;
	size_t len = 0;
	int pair[2];
	ssize_t n;

	make_batch(&b);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(sym_wire_send_batch(pair[0], &b, &stats, 5), 0);
	assert_int_equal(shutdown(pair[0], SHUT_WR), 0);
	while ((n = read(pair[1], buf + len, size - len)) > 0)
		len += (size_t)n;
	(void)close(pair[0]);
	(void)close(pair[1]);
	sym_batch_done(&b);
	return len;
}

static int take_bytes(const char *buf, size_t len, struct sym_batch *ret)
{
	struct sym_engine_stats stats;
	struct sym_wire_head h;
	int fds[SYM_WIRE_FDS], pair[2], r;
	uint64_t cpu_ns;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(file_write_full(pair[0], buf, len), 0);
	assert_int_equal(shutdown(pair[0], SHUT_WR), 0);
	r = sym_wire_recv_head(pair[1], &h, fds);
	if (r == 0)
		r = sym_wire_recv_batch(pair[1], &h, 4, ret, &stats, &cpu_ns);
	(void)close(pair[0]);
	(void)close(pair[1]);
	return r;
}

static void test_answers_arrive_as_they_were(void **state)
{
	struct sym_batch b = {0};
	char buf[4096];
	size_t len = batch_bytes(buf, sizeof(buf));

	(void)state;
	assert_int_equal(take_bytes(buf, len, &b), 0);
	assert_int_equal(b.frames.n, 3);
	assert_string_equal(sym_batch_frames(&b, 1)->name, "three");
	assert_string_equal(sym_batch_frames(&b, 0)[1].file, "/src/a.c");
	assert_null(sym_batch_frames(&b, 0)->file);
	assert_int_equal(b.names[2].reason, EV_REASON_NO_SYMBOL);
	assert_int_equal(b.names[3].n, 3);
	sym_batch_done(&b);
	for (size_t cut = 0; cut < len; cut++)
		assert_int_equal(take_bytes(buf, cut, &b), -EIO);
}

static void test_no_answer_leads_outside_of_itself(void **state)
{
	static const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff};
	char buf[4096], changed[4096];
	size_t len = batch_bytes(buf, sizeof(buf)), total = 0;

	(void)state;
	for (size_t i = 0; i < len * ARRAY_SIZE(values); i++) {
		struct sym_batch b = {0};
		int r;

		memcpy(changed, buf, len);
		changed[i / ARRAY_SIZE(values)] = (char)values[i % ARRAY_SIZE(values)];
		r = take_bytes(changed, len, &b);
		assert_true(r == 0 || r == -EIO || r == -ENOMEM);
		for (size_t k = 0; r == 0 && k < b.n; k++) {
			for (uint32_t f = 0; f < b.names[k].n; f++) {
				const struct sym_frame *fr = &sym_batch_frames(&b, k)[f];

				total += strlen(fr->name) + strlen(fr->linkage) +
				         (fr->file ? strlen(fr->file) : 0);
			}
		}
		if (r == 0)
			sym_batch_done(&b);
	}
	assert_true(total > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_lines_decoded_here),
	        cmocka_unit_test(test_lines_decoded_by_the_child),
	        cmocka_unit_test(test_images_over_the_cap_of_descriptors_come_back),
	        cmocka_unit_test(test_the_child_may_do_nothing_else),
	        cmocka_unit_test(test_a_child_that_was_ended_is_replaced),
	        cmocka_unit_test(test_a_file_that_ends_the_child_is_given_up),
	        cmocka_unit_test(test_what_the_child_is_at_is_broken_off),
	        cmocka_unit_test(test_nothing_is_decoded_here_after_the_end),
	        cmocka_unit_test(test_many_are_answered_in_their_order),
	        cmocka_unit_test(test_those_after_a_file_that_ends_the_child_are_asked_for_again),
	        cmocka_unit_test(test_answers_arrive_as_they_were),
	        cmocka_unit_test(test_no_answer_leads_outside_of_itself),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
