/* SPDX-License-Identifier: Apache-2.0 */
/* Outputs to devices, FIFOs, descriptors and call-backs. */
#include "encode_files.h"

/* ---- devices, FIFOs ---------------------------------------------------------------- */

static void test_devices(void **state)
{
	struct enc_output *o;
	struct err err = {0};
	struct stat st;

	(void)state;
	assert_int_equal(open_path("/dev/null", &o, NULL), 0);
	assert_int_equal(enc_output_commit(o, "x", 1, NULL), 0);
	enc_output_free(o);
	assert_int_equal(open_path("/dev/full", &o, NULL), 0);
	assert_int_equal(enc_output_commit(o, "x", 1, &err), -ENOSPC);
	assert_non_null(strstr(err.msg, "/dev/full: no space left on device (ENOSPC)"));
	enc_output_free(o);
	assert_int_equal(stat("/dev/full", &st), 0);
	assert_true(S_ISCHR(st.st_mode));
	if (mknod(at("disk"), S_IFBLK | 0600, makedev(7, 250)) == 0)
		assert_refused(at("disk"), -EINVAL, "block device");
	else
		print_message("# block device not tested: mknod: %s\n", err_name(errno));
}

static void test_fifo(void **state)
{
	struct enc_output *o;
	char buf[8];
	int fd;

	(void)state;
	assert_int_equal(mkfifo(at("fifo"), 0600), 0);
	assert_refused(at("fifo"), -ENXIO, "no process reads");
	fd = open(at("fifo"), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(open_path(at("fifo"), &o, NULL), 0);
	assert_int_equal(enc_output_commit(o, "fifo", 4, NULL), 0);
	enc_output_free(o);
	assert_int_equal(read(fd, buf, sizeof(buf)), 4);
	assert_memory_equal(buf, "fifo", 4);
	assert_int_equal(read(fd, buf, sizeof(buf)), 0); /* closed */
	close(fd);
	assert_int_equal(entries(tmp), 1);
}

static void test_socket_is_refused(void **state)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(str_copy(sa.sun_path, sizeof(sa.sun_path), at("sock")), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_refused(at("sock"), -ENXIO, "ENXIO");
	close(fd);
}

/* ---- descriptors and call-backs ---------------------------------------------------- */

struct sink {
	int fd;
	size_t len;
	bool same;
};

static uint8_t pattern(size_t i)
{
	return (uint8_t)(i * 7 + i / 251);
}

static void *drain(void *arg)
{
	struct sink *s = arg;
	uint8_t buf[5000];

	for (;;) {
		ssize_t n = read(s->fd, buf, sizeof(buf));

		if (n <= 0)
			return NULL;
		for (ssize_t i = 0; i < n; i++, s->len++)
			s->same = s->same && buf[i] == pattern(s->len);
	}
}

static void test_pipe_that_does_not_block_gets_all(void **state)
{
	size_t len = 1000000; /* many times what a pipe holds */
	uint8_t *data = malloc(len);
	struct sink sink = {.same = true};
	struct enc_output *o;
	pthread_t thread;
	int fds[2];

	(void)state;
	assert_non_null(data);
	for (size_t i = 0; i < len; i++)
		data[i] = pattern(i);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(fcntl(fds[1], F_SETFL, O_NONBLOCK), 0);
	sink.fd = fds[0];
	assert_int_equal(pthread_create(&thread, NULL, drain, &sink), 0);
	assert_int_equal(enc_output_open(&(struct pfa_output){.fd = fds[1]}, &o, NULL), 0);
	assert_int_equal(enc_output_commit(o, data, len, NULL), 0);
	enc_output_free(o);
	assert_true(fcntl(fds[1], F_GETFD) >= 0); /* still the caller's */
	close(fds[1]);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(sink.len, len);
	assert_true(sink.same);
	close(fds[0]);
	free(data);
}

static int commit_to_closed_pipe(struct err *err)
{
	struct enc_output *o;
	int fds[2], r;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(enc_output_open(&(struct pfa_output){.fd = fds[1]}, &o, NULL), 0);
	close(fds[0]);
	r = enc_output_commit(o, "x", 1, err);
	enc_output_free(o);
	close(fds[1]);
	return r;
}

/* The default of SIGPIPE would end the child. */
static int closed_pipe(void)
{
	static const struct timespec no_wait = {0};
	struct sigaction sa;
	sigset_t set, mask;
	struct err err = {0};

	sa = (struct sigaction){.sa_handler = SIG_DFL};
	CHECK(sigaction(SIGPIPE, &sa, NULL) == 0);
	CHECK(commit_to_closed_pipe(&err) == -EPIPE);
	CHECK(strstr(err.msg, "reader has closed it (EPIPE)"));
	CHECK(sigaction(SIGPIPE, NULL, &sa) == 0 && sa.sa_handler == SIG_DFL);
	CHECK(pthread_sigmask(SIG_SETMASK, NULL, &mask) == 0);
	CHECK(sigismember(&mask, SIGPIPE) == 0 && sigismember(&mask, SIGXFSZ) == 0);
	CHECK(sigpending(&set) == 0 && sigismember(&set, SIGPIPE) == 0);

	/* One that was pending before is not ours to take, and a blocked one stays blocked. */
	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
	CHECK(commit_to_closed_pipe(&err) == -EPIPE);
	CHECK(sigtimedwait(&set, NULL, &no_wait) < 0);
	CHECK(raise(SIGPIPE) == 0);
	CHECK(commit_to_closed_pipe(&err) == -EPIPE);
	CHECK(sigtimedwait(&set, NULL, &no_wait) == SIGPIPE);
	return 0;
}

static void test_closed_pipe_raises_no_signal(void **state)
{
	(void)state;
	assert_int_equal(in_child(closed_pipe), 0);
}

static void test_descriptor_must_be_open_for_writing(void **state)
{
	struct enc_output *o = NULL;
	struct err err = {0};
	int fds[2], fd;

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(enc_output_open(&(struct pfa_output){.fd = fds[0]}, &o, &err), -EBADF);
	assert_non_null(strstr(err.msg, "not open for writing"));
	close(fds[0]);
	close(fds[1]);
	assert_int_equal(enc_output_open(&(struct pfa_output){.fd = fds[1]}, &o, &err), -EBADF);
	fd = open("/dev/null", O_PATH | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(enc_output_open(&(struct pfa_output){.fd = fd}, &o, &err), -EBADF);
	close(fd);
	fd = open("/dev/full", O_RDWR | O_CLOEXEC);
	assert_int_equal(enc_output_open(&(struct pfa_output){.fd = fd}, &o, &err), 0);
	assert_int_equal(enc_output_commit(o, "x", 1, &err), -ENOSPC);
	assert_non_null(strstr(err.msg, "descriptor "));
	enc_output_free(o);
	close(fd);
}

struct call {
	int cnt, ret;
	char got[8];
	size_t len;
};

static int on_write(void *arg, const void *data, size_t len)
{
	struct call *c = arg;

	c->cnt++;
	c->len = len;
	memcpy(c->got, data, MIN_OF(len, sizeof(c->got)));
	return c->ret;
}

static void test_call_back_is_called_once(void **state)
{
	struct call call = {0};
	struct pfa_output t = {.write = on_write, .write_arg = &call};
	struct enc_output *o;
	struct err err = {0};

	(void)state;
	assert_int_equal(enc_output_open(&t, &o, NULL), 0);
	enc_output_free(o);
	assert_int_equal(call.cnt, 0);
	assert_int_equal(enc_output_open(&t, &o, NULL), 0);
	assert_int_equal(enc_output_commit(o, "bytes", 5, NULL), 0);
	assert_int_equal(enc_output_commit(o, "bytes", 5, NULL), -EINVAL);
	enc_output_free(o);
	assert_int_equal(call.cnt, 1);
	assert_int_equal(call.len, 5);
	assert_memory_equal(call.got, "bytes", 5);
	call.ret = -ENOBUFS;
	assert_int_equal(enc_output_open(&t, &o, NULL), 0);
	assert_int_equal(enc_output_commit(o, "x", 1, &err), -ENOBUFS);
	assert_non_null(strstr(
	        err.msg, "call-back of the output failed: no buffer space available (ENOBUFS)"));
	enc_output_free(o);
}

static void test_exactly_one_target(void **state)
{
	const struct pfa_output bad[] = {
	        {0},
	        {.fd = -1},
	        {.path = "/dev/null", .fd = 1},
	        {.path = "/dev/null", .fd = -1},
	        {.path = "/dev/null", .write = on_write},
	        {.fd = 1, .write = on_write},
	        {.path = "/dev/null", .fd = 1, .write = on_write},
	};
	struct enc_output *o = NULL;
	struct err err = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(enc_output_open(&bad[i], &o, &err), -EINVAL);
		assert_null(o);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        IN_DIR(test_devices),
	        IN_DIR(test_fifo),
	        IN_DIR(test_socket_is_refused),
	        cmocka_unit_test(test_pipe_that_does_not_block_gets_all),
	        cmocka_unit_test(test_closed_pipe_raises_no_signal),
	        cmocka_unit_test(test_descriptor_must_be_open_for_writing),
	        cmocka_unit_test(test_call_back_is_called_once),
	        cmocka_unit_test(test_exactly_one_target),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
