// SPDX-License-Identifier: Apache-2.0
/* test-session-targets - several processes, threads and filters: what is checked before a start,
 * what the kernel side is told, and when all have ended. */
#include "session/session_priv.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cmocka.h>

static struct ses *session(const struct ses_options *more)
{
	struct ses_options o = *more;
	struct err err = {0};
	struct ses *s = NULL;

	o.rate_hz = 99;
	if (!o.target)
		o.target = SES_TARGET_PID;
	if (ses_new(&o, &s, &err) < 0)
		fail_msg("%s", err.msg);
	return s;
}

/* It has one thread: behind fork() ThreadSanitizer makes another one, which sleeps now and then. */
static pid_t child(void)
{
	pid_t pid = _Fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves it */
		for (;;)
			pause();
	}
	return pid;
}

static void end(pid_t pid)
{
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void refused(struct ses *s, int code, const char *says)
{
	struct err err = {0};

	assert_int_equal(ses_targets_check(s, &err), code);
	if (!strstr(err.msg, says))
		fail_msg("'%s' is not in '%s'", says, err.msg);
	ses_free(s);
}

static bool ended(const struct ses *s)
{
	struct pollfd p = {.fd = s->ended_fd, .events = POLLIN};

	return poll(&p, 1, 0) > 0;
}

static void test_a_set_has_each_process_once(void **state)
{
	const pid_t own = getpid(), kid = child();
	const int32_t pids[] = {own, kid, own, 0};
	struct ses *s = session(&(struct ses_options){.pid = own, .pids = pids});
	struct abi_config cfg = {0};
	struct load_sizes sizes = {0};
	struct err err = {0};

	(void)state;
	if (ses_targets_check(s, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(s->target_pid, own); /* the first one names the capture */
	assert_int_equal(s->targets.n, 2);
	assert_true(s->targets.pids[0] < s->targets.pids[1]);
	assert_true(ses_targets_have(&s->targets, (uint32_t)own));
	assert_true(ses_targets_have(&s->targets, (uint32_t)kid));
	assert_false(ses_targets_have(&s->targets, 0));
	assert_true(ses_targets_tree(s));
	ses_targets_config(s, &cfg, &sizes);
	assert_int_equal(cfg.target, ABI_TARGET_TREE);
	assert_int_equal(cfg.follow, 0);
	assert_int_equal(cfg.filters, 0);
	assert_int_equal(sizes.followed_entries, 2);
	/* Again, as a second start does. */
	assert_int_equal(ses_targets_check(s, &err), 0);
	assert_int_equal(s->targets.n, 2);
	ses_free(s);
	end(kid);
}

static void test_one_process_is_compared_with_one_number(void **state)
{
	const int32_t pids[] = {getpid(), getpid(), 0};
	struct ses *s = session(&(struct ses_options){.pids = pids});
	struct abi_config cfg = {0};
	struct load_sizes sizes = {0};

	(void)state;
	assert_int_equal(ses_targets_check(s, NULL), 0);
	ses_targets_config(s, &cfg, &sizes);
	assert_int_equal(cfg.target, ABI_TARGET_PID);
	assert_int_equal(cfg.target_tgid, getpid());
	assert_int_equal(cfg.follow, 0);
	assert_int_equal(sizes.followed_entries, 1);
	assert_false(ses_targets_tree(s));
	assert_true(s->ended_fd >= 0); /* its pidfd */
	assert_false(ended(s));
	ses_free(s);
	/* What it forks needs the table. */
	s = session(&(struct ses_options){.pids = pids, .follow_children = true});
	assert_int_equal(ses_targets_check(s, NULL), 0);
	ses_targets_config(s, &cfg, &sizes);
	assert_int_equal(cfg.target, ABI_TARGET_TREE);
	assert_int_equal(cfg.follow, 1);
	assert_true(sizes.followed_entries > 1000);
	ses_free(s);
}

static void test_each_filter_is_configured(void **state)
{
	static const char *const comms[] = {"a", "a-name-longer-than-15", NULL};
	const int32_t tids[] = {getpid(), 0};
	struct ses *s = session(&(struct ses_options){.tids = tids, .comms = comms});
	struct abi_config cfg = {0};
	struct load_sizes sizes = {0};

	(void)state;
	assert_int_equal(ses_targets_check(s, NULL), 0);
	assert_int_equal(s->targets.n, 1); /* the thread's process */
	assert_int_equal(s->target_pid, getpid());
	ses_targets_config(s, &cfg, &sizes);
	assert_int_equal(cfg.target, ABI_TARGET_PID);
	assert_int_equal(cfg.filters, ABI_FILTER_TID | ABI_FILTER_COMM);
	assert_int_equal(cfg.n_cgroups, 0);
	assert_int_equal(sizes.tid_entries, 1);
	assert_int_equal(sizes.comm_entries, 2);
	ses_free(s);
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
	struct ses *s;
	pthread_t t;

	(void)state;
	pthread_barrier_init(&ready, NULL, 2);
	assert_int_equal(pthread_create(&t, NULL, other_thread, NULL), 0);
	pthread_barrier_wait(&ready);
	tids[0] = (int32_t)other_tid;
	s = session(&(struct ses_options){.tids = tids});
	assert_int_equal(ses_targets_check(s, NULL), 0);
	assert_int_equal(s->targets.n, 2);
	assert_int_equal(s->target_pid, getpid()); /* of the thread that was given first */
	assert_true(ses_targets_have(&s->targets, (uint32_t)kid));
	ses_free(s);
	s = session(&(struct ses_options){.pids = pids, .tids = tids});
	refused(s, -EINVAL, "which is not among those given");
	pids[0] = (int32_t)other_tid;
	refused(session(&(struct ses_options){.pids = pids}), -EINVAL, "is a thread of process");
	pthread_barrier_wait(&ready);
	pthread_join(t, NULL);
	pthread_barrier_destroy(&ready);
	tids[1] = 0;
	refused(session(&(struct ses_options){.tids = tids}), -ESRCH, "does not exist");
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
	refused(session(&(struct ses_options){.pids = pids}), -ESRCH, "a zombie");
	refused(session(&(struct ses_options){.tids = gone}), -ESRCH, "has ended");
	assert_int_equal(waitpid(gone[0], NULL, 0), gone[0]);
	refused(session(&(struct ses_options){.pids = pids}), -ESRCH, "does not exist");
	refused(session(&(struct ses_options){.tids = gone}), -ESRCH, "does not exist");
	refused(session(&(struct ses_options){.pid = getpid(), .cgroups = cgroups}), -EINVAL,
	        "cgroup /proc is no cgroup");
}

static void test_the_end_is_that_of_the_last(void **state)
{
	pid_t a = child(), b = child(), c = child();
	const int32_t pids[] = {a, b, c, 0};
	struct ses *s = session(&(struct ses_options){.pids = pids});
	struct err err = {0};

	(void)state;
	assert_int_equal(ses_targets_check(s, &err), 0);
	assert_int_equal(s->ended_fd, -EBADF);
	end(a);
	if (ses_targets_watch(s, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(s->targets.left, 2);
	assert_false(ended(s));
	end(c);
	ses_targets_look(s);
	ses_targets_look(s);
	assert_int_equal(s->targets.left, 1);
	assert_false(ses_targets_ended(s));
	end(b);
	ses_targets_look(s);
	assert_int_equal(s->targets.left, 0);
	assert_true(ended(s) && ses_targets_ended(s));
	ses_targets_look(s);
	ses_free(s);
}

static uint32_t notes_of_waits(const struct ses_options *o, uint32_t without, uint64_t seen)
{
	struct ses *s = session(o);
	uint32_t n;

	assert_int_equal(ses_targets_check(s, NULL), 0);
	s->without = without;
	s->tally.user[TALLY_OFF_SEEN] = seen;
	ses_check_waits(s);
	n = (uint32_t)s->tally.n_notes;
	if (n && !strstr(s->tally.notes[0],
	                 seen ? "no waits were seen of 1 of the 2 processes, but 1 of their threads"
	                      : "no waits were seen, but 1 thread(s) of the target sleep"))
		fail_msg("%s", s->tally.notes[0]);
	ses_free(s);
	return n;
}

static void test_sleepers_of_whom_no_wait_was_seen_are_told(void **state)
{
	static const char *const comms[] = {"a", NULL};
	int32_t kid = child(), own[] = {gettid(), 0}, both[] = {gettid(), kid, 0};
	struct ses_options o = {.pid = kid, .modes = SES_OFFCPU};
	struct proc_status st = {0};

	(void)state;
	while (!st.asleep)
		assert_int_equal(proc_status_read((uint32_t)kid, &st, NULL), 0);
	assert_int_equal(notes_of_waits(&o, 0, 0), 1);
	assert_int_equal(notes_of_waits(&o, 0, 1), 0); /* it was seen */
	assert_int_equal(notes_of_waits(&o, SES_OFFCPU, 0), 0);
	/* Asked for less than all: it may have been seen, and not be wanted. */
	o.off_min_ns = 1;
	assert_int_equal(notes_of_waits(&o, 0, 0), 0);
	o.off_min_ns = 0;
	o.off_states = 1U << EV_OFF_PREEMPTED;
	assert_int_equal(notes_of_waits(&o, 0, 0), 0);
	o.off_states = 0;
	o.comms = comms;
	assert_int_equal(notes_of_waits(&o, 0, 0), 0);
	/* This thread runs; of its threads and the child's, only those that are asked for. */
	o = (struct ses_options){.tids = own, .modes = SES_OFFCPU};
	assert_int_equal(notes_of_waits(&o, 0, 0), 0);
	o.tids = both;
	assert_int_equal(notes_of_waits(&o, 0, 0), 1);
	/* Some were, and none of the child's. */
	assert_int_equal(notes_of_waits(&o, 0, 1), 1);
	o = (struct ses_options){.pid = kid, .modes = SES_PROFILE};
	assert_int_equal(notes_of_waits(&o, 0, 0), 0);
	end(kid);
}

/* How many notes there are beside so many waits, of which so many more were not told. */
static size_t notes_of_unseen(uint64_t seen, uint64_t end, uint64_t begin, uint64_t min_ns)
{
	const struct ses_options o = {
	        .pid = (int32_t)getpid(), .modes = SES_OFFCPU, .off_min_ns = min_ns};
	struct ses *s = session(&o);
	size_t n;

	s->tally.user[TALLY_OFF_SEEN] = seen;
	s->tally.offcpu.v[ABI_CNT_WAITS_UNSEEN] = end;
	s->tally.offcpu.v[ABI_CNT_WAITS_BEGIN_UNSEEN] = begin;
	ses_check_waits(s);
	n = s->tally.n_notes;
	assert_true(n == 0 || strstr(s->tally.notes[0], "were not told"));
	ses_free(s);
	return n;
}

static void test_waits_that_were_not_told_are_told_where_they_are_many(void **state)
{
	(void)state;
	assert_int_equal(notes_of_unseen(1000, 5, 5, 0), 0);
	assert_int_equal(notes_of_unseen(1000, 6, 5, 0), 1);
	assert_int_equal(notes_of_unseen(1000, 6, 5, 1), 0);
	assert_int_equal(notes_of_unseen(2000, 10, 5, 0), 0);
	assert_int_equal(notes_of_unseen(1000, 11, 0, 0), 1);
	assert_int_equal(notes_of_unseen(1100, 11, 0, 0), 0);
	assert_int_equal(notes_of_unseen(0, 0, 11, 0), 1);
}

static void test_long_lists_are_cut_in_texts(void **state)
{
	uint32_t v[40];
	struct sbuf b;

	(void)state;
	for (uint32_t i = 0; i < ARRAY_SIZE(v); i++)
		v[i] = i + 1;
	sbuf_init(&b, 4096);
	assert_int_equal(ses_numbers_text(v, 2, &b), 0);
	assert_string_equal(b.p, "1, 2");
	sbuf_reset(&b);
	assert_int_equal(ses_numbers_text(v, 40, &b), 0);
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
	        cmocka_unit_test(test_threads_stand_for_their_processes_or_belong_to_them),
	        cmocka_unit_test(test_what_is_not_there_is_named),
	        cmocka_unit_test(test_the_end_is_that_of_the_last),
	        cmocka_unit_test(test_sleepers_of_whom_no_wait_was_seen_are_told),
	        cmocka_unit_test(test_waits_that_were_not_told_are_told_where_they_are_many),
	        cmocka_unit_test(test_long_lists_are_cut_in_texts),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
