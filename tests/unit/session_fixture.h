/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session-fixture - a session, and answers of the system that are made up
 */
#ifndef PA_TEST_SESSION_FIXTURE_H
#define PA_TEST_SESSION_FIXTURE_H

#include "session/session_priv.h"
#include "source/source_priv.h"
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <cmocka.h>

/* ---- what the system is made to say ---------------------------------------------------------- */

static uint64_t caps;        /* bits of the capabilities that are held */
static bool user_ns;         /* not the first one */
static const char *lockdown; /* its mode */
static int64_t kptr_restrict;
static const char *proc_self; /* NULL: the real one */
static struct trk_stats track_stats;

bool __wrap_cap_effective(int cap);
bool __wrap_cap_ns_initial(void);
int __wrap_proc_sysctl(const char *name, int64_t *ret);
void __wrap_proc_lockdown(char ret[32]);
const struct trk_stats *__wrap_trk_stats(const struct trk *t);
const struct trk_image *__wrap_trk_image(const struct trk *t, uint32_t id);
ssize_t __real_readlink(const char *path, char *buf, size_t size);
ssize_t __wrap_readlink(const char *path, char *buf, size_t size);

bool __wrap_cap_effective(int cap)
{
	return (caps >> cap & 1) != 0;
}

bool __wrap_cap_ns_initial(void)
{
	return !user_ns;
}

int __wrap_proc_sysctl(const char *name, int64_t *ret)
{
	if (strcmp(name, "kernel/kptr_restrict") == 0)
		*ret = kptr_restrict;
	else if (strcmp(name, "kernel/perf_event_max_sample_rate") == 0)
		*ret = 1000;
	else
		return -ENOENT;
	return 0;
}

void __wrap_proc_lockdown(char ret[32])
{
	(void)str_copy(ret, 32, lockdown);
}

const struct trk_stats *__wrap_trk_stats(const struct trk *t)
{
	(void)t;
	return &track_stats;
}

ssize_t __wrap_readlink(const char *path, char *buf, size_t size)
{
	if (proc_self && strcmp(path, "/proc/self") == 0) {
		memcpy(buf, proc_self, MIN_OF(strlen(proc_self), size));
		return (ssize_t)MIN_OF(strlen(proc_self), size);
	}
	return __real_readlink(path, buf, size);
}

const struct trk_image *__wrap_trk_image(const struct trk *t, uint32_t id)
{
	static const struct trk_image images[] = {
	        {.path = "none"},     {.path = "/lib/one.so"}, {.path = "/lib/a b.so"},
	        {.path = "three.so"}, {.path = "/four.so"},    {.path = "five.so"},
	        {.path = "six.so"},   {.path = "seven.so"},    {.path = "/usr/lib/a b.so"},
	};

	(void)t;
	assert_true(id >= 1 && id < ARRAY_SIZE(images));
	return &images[id];
}

static inline int setup(void **state)
{
	(void)state;
	caps = UINT64_MAX;
	lockdown = "none";
	kptr_restrict = 0;
	proc_self = NULL;
	memset(&track_stats, 0, sizeof(track_stats));
	return 0;
}

static inline struct ses *new_session(enum pfa_target target)
{
	static const char *const argv[] = {"true", NULL};
	struct pfa_options o = {.target = target};
	struct err err = {0};
	struct ses *s = NULL;

	o.pid = target == PFA_TARGET_PID ? getpid() : 0;
	o.argv = target == PFA_TARGET_COMMAND ? argv : NULL;
	if (ses_new(&o, &s, &err) < 0)
		fail_msg("%s", err.msg);
	return s;
}

/* The same, as if it had sampled by CPU clock ticks: one profile, which is empty. */
static inline struct ses *new_capture(enum pfa_target target)
{
	struct ses *s = new_session(target);

	assert_int_equal(src_oncpu.open(&s->env, &s->src[0], NULL), 0);
	assert_ptr_equal(src_all[0], &src_oncpu);
	assert_int_equal(prof_model_new(&s->product[0].result.model), 0);
	ses_kind(s, 0);
	return s;
}

static inline int add_quality(struct ses *s, const struct result_quality *q)
{
	int r;

	s->product[0].result.quality = *q;
	r = ses_quality_add(s, 0);
	s->product[0].result.quality = (struct result_quality){0}; /* its arrays are the test's */
	return r;
}

/* ---- commands -------------------------------------------------------------------------------- */

static inline void wait_for_end(pid_t pid)
{
	siginfo_t info;

	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
}

/* ---- quality --------------------------------------------------------------------------------- */

static inline const char *statistic(const struct ses *s, const char *key)
{
	size_t len = strlen(key);

	for (size_t i = 0; ses_quality(s, PFA_KIND_ONCPU, i); i++)
		if (strncmp(ses_quality(s, PFA_KIND_ONCPU, i), key, len) == 0 &&
		    strncmp(ses_quality(s, PFA_KIND_ONCPU, i) + len, ": ", 2) == 0)
			return ses_quality(s, PFA_KIND_ONCPU, i) + len + 2;
	return NULL;
}

static inline void test_every_loss_is_a_line(void **state)
{
	static const struct {
		const char *name, *kind;
		bool kernel;
		int id;
	} all[] = {
#define X(id, name, unit, kind, help) {name, #kind, true, ABI_CNT_##id},
#include "bpf/abi/counters.def"
#undef X
#define X(id, name, unit, kind, help) {name, #kind, false, TALLY_##id},
#include "tally/counters.def"
#undef X
	};
	/* Some that must be among them. */
	static const char *const losses[] = {"threads_full",     "kernel_stack_failed",
	                                     "follow_full",      "stack_lost",
	                                     "sideband_lost",    "names_lost",
	                                     "process_map_full", "elf_bad_items",
	                                     "cpus_skipped"};
	const struct result_quality q = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(losses); i++) {
		bool found = false;

		for (size_t k = 0; k < ARRAY_SIZE(all); k++)
			found |= strcmp(all[k].name, losses[i]) == 0 &&
			         strcmp(all[k].kind, "LOSS") == 0;
		assert_true(found);
	}
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		bool said = strcmp(all[i].kind, "LOSS") == 0 || strcmp(all[i].kind, "DROP") == 0 ||
		            strcmp(all[i].name, "samples_seen") == 0; /* of its own */

		for (uint64_t n = 0; n < 10; n += 9) {
			struct ses *s = new_capture(PFA_TARGET_ALL);
			const char *v;

			if (all[i].kernel)
				s->tally.kernel.v[all[i].id] = n;
			else
				tally_count(&s->tally, (enum tally_id)all[i].id, n);
			s->final.seen = s->tally.kernel.v[ABI_CNT_SEEN];
			assert_int_equal(add_quality(s, &q), 0);
			s->state = SES_STOPPED;
			v = statistic(s, all[i].name);
			if (n && said)
				assert_string_equal(v, "9");
			else if (!said || strcmp(all[i].name, "samples_seen") != 0)
				assert_null(v);
			ses_free(s);
		}
	}
}

#endif
