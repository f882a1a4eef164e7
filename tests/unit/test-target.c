/* SPDX-License-Identifier: Apache-2.0 */
/* test-target - several processes, threads and filters: what is checked before a start, how the
 * kernel side is configured, and when all have ended. */
#include "target/target.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "fake_child.h"

struct fixture {
	struct pfa_options o;
	struct target t;
};

/* A target of these options, which are possible. */
static struct fixture *new_target(const struct pfa_options *more)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct err err = {0};

	assert_non_null(f);
	f->o = *more;
	if (!f->o.target)
		f->o.target = PFA_TARGET_PID;
	if (tgt_check(&f->o, &err) < 0)
		fail_msg("%s", err.msg);
	tgt_init(&f->t, &f->o);
	return f;
}

static void free_target(struct fixture *f)
{
	tgt_done(&f->t);
	free(f);
}

static void refused(struct fixture *f, int code, const char *says)
{
	struct err err = {0};

	assert_int_equal(tgt_open(&f->t, &err), code);
	if (!strstr(err.msg, says))
		fail_msg("'%s' is not in '%s'", says, err.msg);
	free_target(f);
}

static bool ended(const struct fixture *f)
{
	struct pollfd p = {.fd = f->t.ended_fd, .events = POLLIN};

	return poll(&p, 1, 0) > 0;
}

static void test_a_set_has_each_process_once(void **state)
{
	const pid_t own = getpid(), kid = child();
	const int32_t pids[] = {own, kid, own, 0};
	struct fixture *f = new_target(&(struct pfa_options){.pid = own, .pids = pids});
	struct abi_config cfg = {0};
	struct load_sizes sizes = {0};
	struct err err = {0};

	(void)state;
	if (tgt_open(&f->t, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(f->t.pid, own); /* the first one names the capture */
	assert_int_equal(f->t.n, 2);
	assert_true(f->t.pids[0] < f->t.pids[1]);
	assert_true(tgt_has(&f->t, (uint32_t)own));
	assert_true(tgt_has(&f->t, (uint32_t)kid));
	assert_false(tgt_has(&f->t, 0));
	assert_true(tgt_tree(&f->t));
	tgt_config(&f->t, &cfg, &sizes);
	assert_int_equal(cfg.target, ABI_TARGET_TREE);
	assert_int_equal(cfg.follow, 0);
	assert_int_equal(cfg.filters, 0);
	assert_int_equal(sizes.followed_entries, 2);
	/* Again, as a second start does. */
	assert_int_equal(tgt_open(&f->t, &err), 0);
	assert_int_equal(f->t.n, 2);
	free_target(f);
	end(kid);
}

static void test_one_process_is_compared_with_one_number(void **state)
{
	const int32_t pids[] = {getpid(), getpid(), 0};
	struct fixture *f = new_target(&(struct pfa_options){.pids = pids});
	struct abi_config cfg = {0};
	struct load_sizes sizes = {0};

	(void)state;
	assert_int_equal(tgt_open(&f->t, NULL), 0);
	tgt_config(&f->t, &cfg, &sizes);
	assert_int_equal(cfg.target, ABI_TARGET_PID);
	assert_int_equal(cfg.target_tgid, getpid());
	assert_int_equal(cfg.follow, 0);
	assert_int_equal(sizes.followed_entries, 1);
	assert_false(tgt_tree(&f->t));
	assert_true(f->t.ended_fd >= 0); /* its pidfd */
	assert_false(ended(f));
	free_target(f);
	/* Its children need the table. */
	f = new_target(&(struct pfa_options){.pids = pids, .flags = PFA_FOLLOW_CHILDREN});
	assert_int_equal(tgt_open(&f->t, NULL), 0);
	tgt_config(&f->t, &cfg, &sizes);
	assert_int_equal(cfg.target, ABI_TARGET_TREE);
	assert_int_equal(cfg.follow, 1);
	assert_true(sizes.followed_entries > 1000);
	free_target(f);
}

static void test_each_filter_is_configured(void **state)
{
	static const char *const comms[] = {"a", "a-name-longer-than-15", NULL};
	const int32_t tids[] = {getpid(), 0};
	struct fixture *f = new_target(&(struct pfa_options){.tids = tids, .comms = comms});
	struct abi_config cfg = {0};
	struct load_sizes sizes = {0};

	(void)state;
	assert_int_equal(tgt_open(&f->t, NULL), 0);
	assert_int_equal(f->t.n, 1); /* the thread's process */
	assert_int_equal(f->t.pid, getpid());
	tgt_config(&f->t, &cfg, &sizes);
	assert_int_equal(cfg.target, ABI_TARGET_PID);
	assert_int_equal(cfg.filters, ABI_FILTER_TID | ABI_FILTER_COMM);
	assert_int_equal(cfg.n_cgroups, 0);
	assert_int_equal(sizes.tid_entries, 1);
	assert_int_equal(sizes.comm_entries, 2);
	assert_int_equal(cfg.n_name_sets, 0);
	free_target(f);
}

static void test_patterns_of_names(void **state)
{
	static const char *const comms[] = {"a*", "b", "c?", "[d]", "e*", "f*", NULL};
	static const char *const bad[] = {"a-pattern-of-16-*", "[[:alpha:]]"};
	struct fixture *f =
	        new_target(&(struct pfa_options){.target = PFA_TARGET_ALL, .comms = comms});
	struct abi_config cfg = {0};
	struct load_sizes sizes = {0};
	struct err err = {0};

	(void)state;
	assert_int_equal(tgt_open(&f->t, NULL), 0);
	tgt_config(&f->t, &cfg, &sizes);
	assert_int_equal(cfg.n_name_sets, 2); /* of five */
	assert_int_equal(cfg.filters, ABI_FILTER_COMM);
	free_target(f);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		const char *const one[] = {bad[i], NULL};
		const struct pfa_options o = {.target = PFA_TARGET_ALL, .comms = one};

		assert_int_equal(tgt_check(&o, &err), -EINVAL);
		assert_non_null(strstr(err.msg, i ? "[:digit:]" : "keeps 15 bytes"));
	}
}

static pthread_barrier_t ready;
static uint32_t other_tid;

static void *other_thread(void *arg)
{
	(void)arg;
	other_tid = (uint32_t)gettid();
	pthread_barrier_wait(&ready);
	pthread_barrier_wait(&ready);
	return NULL;
}

static void test_threads_stand_for_their_processes_or_belong_to_them(void **state)
{
	pid_t kid = child();
	int32_t pids[] = {kid, 0}, tids[] = {0, kid, 0};
	struct fixture *f;
	pthread_t t;

	(void)state;
	pthread_barrier_init(&ready, NULL, 2);
	assert_int_equal(pthread_create(&t, NULL, other_thread, NULL), 0);
	pthread_barrier_wait(&ready);
	tids[0] = (int32_t)other_tid;
	f = new_target(&(struct pfa_options){.tids = tids});
	assert_int_equal(tgt_open(&f->t, NULL), 0);
	assert_int_equal(f->t.n, 2);
	assert_int_equal(f->t.pid, getpid()); /* of the thread that was given first */
	assert_true(tgt_has(&f->t, (uint32_t)kid));
	free_target(f);
	f = new_target(&(struct pfa_options){.pids = pids, .tids = tids});
	refused(f, -EINVAL, "which is not among the given ones");
	pids[0] = (int32_t)other_tid;
	refused(new_target(&(struct pfa_options){.pids = pids}), -EINVAL, "is a thread of process");
	pthread_barrier_wait(&ready);
	pthread_join(t, NULL);
	pthread_barrier_destroy(&ready);
	tids[1] = 0;
	refused(new_target(&(struct pfa_options){.tids = tids}), -ESRCH, "does not exist");
	end(kid);
}

static void test_what_is_not_there_is_named(void **state)
{
	static const char *const cgroups[] = {"/proc", NULL};
	int32_t gone[] = {child(), 0}, pids[] = {getpid(), gone[0], 0};
	siginfo_t info;

	(void)state;
	assert_int_equal(kill(gone[0], SIGKILL), 0);
	assert_int_equal(waitid(P_PID, (id_t)gone[0], &info, WEXITED | WNOWAIT), 0);
	refused(new_target(&(struct pfa_options){.pids = pids}), -ESRCH, "a zombie");
	refused(new_target(&(struct pfa_options){.tids = gone}), -ESRCH, "has ended");
	assert_int_equal(waitpid(gone[0], NULL, 0), gone[0]);
	refused(new_target(&(struct pfa_options){.pids = pids}), -ESRCH, "does not exist");
	refused(new_target(&(struct pfa_options){.tids = gone}), -ESRCH, "does not exist");
	refused(new_target(&(struct pfa_options){.pid = getpid(), .cgroups = cgroups}), -EINVAL,
	        "cgroup /proc is no cgroup");
}

static void test_the_end_is_that_of_the_last(void **state)
{
	pid_t a = child(), b = child(), c = child();
	const int32_t pids[] = {a, b, c, 0};
	struct fixture *f = new_target(&(struct pfa_options){.pids = pids});
	struct err err = {0};

	(void)state;
	assert_int_equal(tgt_open(&f->t, &err), 0);
	assert_int_equal(f->t.ended_fd, -EBADF);
	end(a);
	if (tgt_watch(&f->t, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(f->t.left, 2);
	assert_false(ended(f));
	end(c);
	tgt_reap(&f->t);
	tgt_reap(&f->t);
	assert_int_equal(f->t.left, 1);
	assert_false(tgt_ended(&f->t));
	end(b);
	tgt_reap(&f->t);
	assert_int_equal(f->t.left, 0);
	assert_true(ended(f) && tgt_ended(&f->t));
	tgt_reap(&f->t);
	free_target(f);
}

static void test_long_lists_are_cut_in_texts(void **state)
{
	uint32_t v[40];
	struct sbuf b;

	(void)state;
	for (uint32_t i = 0; i < ARRAY_SIZE(v); i++)
		v[i] = i + 1;
	sbuf_init(&b, 4096);
	assert_int_equal(tgt_numbers_text(v, 2, &b), 0);
	assert_string_equal(b.p, "1, 2");
	sbuf_reset(&b);
	assert_int_equal(tgt_numbers_text(v, 40, &b), 0);
	assert_string_equal(b.p,
	                    "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 and 24 more");
	sbuf_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_a_set_has_each_process_once),
	        cmocka_unit_test(test_one_process_is_compared_with_one_number),
	        cmocka_unit_test(test_each_filter_is_configured),
	        cmocka_unit_test(test_patterns_of_names),
	        cmocka_unit_test(test_threads_stand_for_their_processes_or_belong_to_them),
	        cmocka_unit_test(test_what_is_not_there_is_named),
	        cmocka_unit_test(test_the_end_is_that_of_the_last),
	        cmocka_unit_test(test_long_lists_are_cut_in_texts),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
