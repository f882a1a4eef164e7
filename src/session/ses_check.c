/* SPDX-License-Identifier: Apache-2.0 */
/* What can be known before anything is opened, and what a refusal of the kernel means. */
#include "session/session_priv.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <sys/resource.h>

/* /proc shows the numbers of the namespace it was mounted for: another one's would be believed to
 * be ours. */
static int check_proc_is_ours(struct err *err)
{
	char self[32];
	ssize_t n = readlink("/proc/self", self, sizeof(self) - 1);
	uint64_t pid;

	if (n < 0)
		return err_set(err, -errno, "/proc/self: %s: mount it: mount -t proc proc /proc",
		               err_name(errno));
	self[n] = 0;
	if (parse_u64(self, 10, &pid) < 0 || pid != (uint64_t)getpid())
		return err_set(err, -ESRCH,
		               "/proc belongs to another pid namespace (/proc/self is %s, this is "
		               "process %d): "
		               "mount one of this namespace: mount -t proc proc /proc",
		               self, (int)getpid());
	return 0;
}

int ses_check_target(struct ses *s, struct err *err)
{
	int64_t max = 0;
	int r;

	r = check_proc_is_ours(err);
	if (r < 0)
		return r;
	if (proc_sysctl("kernel/perf_event_max_sample_rate", &max) == 0 && max > 0 &&
	    s->o.rate_hz > (uint64_t)max)
		return err_set(err, -EINVAL,
		               "sample rate %u is above kernel.perf_event_max_sample_rate=%lld: "
		               "lower it or raise the sysctl",
		               s->o.rate_hz, (long long)max);
	return ses_targets_check(s, err);
}

/* What a capture holds open at the same time beside one file of each image: maps, programs and
 * their links, BTF, the rings, the output, pidfd, epoll and eventfd; more while libbpf probes the
 * kernel. For each CPU: an event, its link, its ring. */
#define DESCRIPTORS         58
#define DESCRIPTORS_PER_CPU 3

int ses_check_descriptors(const struct ses *s, struct err *err)
{
	uint64_t need = DESCRIPTORS + (uint64_t)DESCRIPTORS_PER_CPU * s->n_cpus, used = 0;
	struct rlimit lim;
	DIR *d;

	if (getrlimit(RLIMIT_NOFILE, &lim) < 0)
		return err_set(err, -errno, "getrlimit NOFILE: %s", err_name(errno));
	d = opendir("/proc/self/fd");
	if (!d)
		return err_set(err, -errno, "open /proc/self/fd: %s%s", err_name(errno),
		               errno == EMFILE
		                       ? ": RLIMIT_NOFILE is reached: raise it with ulimit -n"
		                       : "");
	while (readdir(d))
		used++;
	(void)closedir(d);              /* only read from */
	used = used > 3 ? used - 3 : 0; /* ".", ".." and the directory itself */
	if (lim.rlim_cur < used || lim.rlim_cur - used < need)
		return err_set(err, -EMFILE,
		               "RLIMIT_NOFILE is %llu with %llu descriptors open, and a capture on "
		               "%u CPUs needs %llu "
		               "more: raise it with ulimit -n %llu",
		               (unsigned long long)lim.rlim_cur, (unsigned long long)used,
		               s->n_cpus, (unsigned long long)need,
		               2 * ((unsigned long long)used + (unsigned long long)need));
	return 0;
}

/* What libbpf guesses of the reason, in parentheses, is beside the point where we know it. */
static void cut_at(char *msg, const char *mark)
{
	char *at = strstr(msg, mark);

	if (at)
		*at = '\0';
}

int ses_explain(int code, struct err *err)
{
	static const int need[] = {CAP_BPF, CAP_PERFMON};
	char missing[128] = "", lockdown[32] = "";
	size_t len = 0;

	if (!err)
		return code;
	if (code == -ENOSYS && !strstr(err->msg, "seccomp"))
		return err_set(
		        err, code,
		        "%.250s: a kernel without bpf(2), or a seccomp filter: allow bpf(2) and "
		        "perf_event_open(2) (containers: --security-opt seccomp=unconfined)",
		        err->msg);
	if (code != -EPERM && code != -EACCES)
		return code;
	if (!cap_ns_initial()) {
		/* perfevent says it itself. */
		if (strstr(err->msg, CAP_NS_TEXT))
			return code;
		cut_at(err->msg, " (");
		return err_set(err, code, "%.250s: " CAP_NS_TEXT, err->msg);
	}
	if (!cap_effective(CAP_SYS_ADMIN))
		for (size_t i = 0; i < ARRAY_SIZE(need); i++)
			if (!cap_effective(need[i])) {
				int n = snprintf(missing + len, sizeof(missing) - len, "%s%s",
				                 len ? ", " : "", proc_cap_name(need[i]));
				len += (size_t)MAX_OF(n, 0);
			}
	proc_lockdown(lockdown);
	if (missing[0]) {
		/* The remedy is told once, behind all that is missing. */
		cut_at(err->msg, " (");
		cut_at(err->msg, ": " CAP_GRANT);
		return err_set(err, code, "%.250s: missing %s: " CAP_GRANT, err->msg, missing);
	}
	if (strcmp(lockdown, "confidentiality") == 0)
		return err_set(err, code,
		               "%.250s: kernel lockdown is 'confidentiality', which forbids BPF to "
		               "read memory: boot with "
		               "lockdown=integrity or none",
		               err->msg);
	/* Who failed knew the cause. */
	if (strstr(err->msg, "seccomp") || strstr(err->msg, "ulimit -l") ||
	    strstr(err->msg, "sysctl kernel."))
		return code;
	return err_set(err, code,
	               "%.250s: the capabilities are there, so a seccomp filter or a security "
	               "module refuses it: "
	               "allow bpf(2) and perf_event_open(2) (containers: --security-opt "
	               "seccomp=unconfined)",
	               err->msg);
}

void ses_check_privileges(struct ses *s, int kernel_error)
{
	const struct trk_stats *t = trk_stats(s->trk);

	if (t->procs_denied && !cap_effective(CAP_SYS_PTRACE))
		tally_note(&s->tally,
		           "%llu process(es) of other users could not be read, their frames have "
		           "no names: needs CAP_SYS_PTRACE",
		           (unsigned long long)t->procs_denied);
	else if (t->procs_denied)
		tally_note(&s->tally,
		           "%llu process(es) could not be read, their frames have no names: a "
		           "security module refuses it",
		           (unsigned long long)t->procs_denied);
	if (t->images_denied)
		tally_note(&s->tally,
		           "%llu mapped file(s) could not be opened, their frames have no names: "
		           "needs %s",
		           (unsigned long long)t->images_denied,
		           !cap_effective(CAP_SYS_PTRACE) ? "CAP_SYS_PTRACE"
		                                          : "CAP_DAC_READ_SEARCH");
	if (kernel_error == -EPERM) {
		int64_t restrict_to = -1;

		(void)proc_sysctl("kernel/kptr_restrict",
		                  &restrict_to); /* -1 is shown as unknown */
		tally_note(&s->tally,
		           "kernel addresses are hidden, kernel frames have no names: "
		           "kernel.kptr_restrict=%lld, needs %s",
		           (long long)restrict_to,
		           restrict_to >= 2 ? "kernel.kptr_restrict below 2 and CAP_SYSLOG"
		                            : "CAP_SYSLOG");
	} else if (kernel_error < 0) {
		tally_note(&s->tally, "kernel frames have no names: /proc/kallsyms: %s",
		           err_name(kernel_error));
	}
}

uint64_t ses_asleep_cnt(const struct ses_targets *t, uint32_t pid)
{
	struct proc_status st;
	char path[64];
	uint64_t n = 0, tid;
	DIR *d;

	(void)snprintf(path, sizeof(path), "/proc/%u/task", pid);
	d = opendir(path);
	for (struct dirent *e; d && (e = readdir(d));)
		if (parse_u64(e->d_name, 10, &tid) == 0 && tid <= UINT32_MAX &&
		    (!t->n_tids || ses_targets_have_tid(t, (uint32_t)tid)) &&
		    proc_status_read((uint32_t)tid, &st, NULL) == 0 && st.tgid == pid)
			n += st.asleep;
	if (d)
		(void)closedir(d); /* only read from */
	return n;
}

static void check_refused(struct ses *s)
{
	uint64_t n = s->off ? smp_off_stats(s->off)->refused : 0;

	if (n)
		tally_note(&s->tally,
		           "the stacks of %llu thread(s) that waited when the capture began could "
		           "not be read, only CAP_SYS_PTRACE may: they end early",
		           (unsigned long long)n);
}

/* A few are nothing to talk about. */
#define UNSEEN_FEW     10
#define UNSEEN_PER_100 1

static void check_unseen(struct ses *s)
{
	const struct abi_counters *c = &s->tally.offcpu;
	const uint64_t begin = c->v[ABI_CNT_WAITS_BEGIN_UNSEEN],
	               all = tally_get(&s->tally, TALLY_OFF_SEEN) + begin,
	               n = c->v[ABI_CNT_WAITS_UNSEEN] + begin;

	/* How long these were, and so whether they were asked for, is not known. */
	if (s->o.off_min_ns || s->o.off_max_ns)
		return;
	if (n > UNSEEN_FEW && n * 100 > all * UNSEEN_PER_100)
		tally_note(&s->tally,
		           "of %llu waits, BPF programs were not told of %llu beginnings or ends: "
		           "these are estimated, or missing (waits_end_unseen, waits_begin_unseen)",
		           (unsigned long long)all, (unsigned long long)n);
}

void ses_check_waits(struct ses *s)
{
	const uint32_t sleeps = 1U << EV_OFF_INTERRUPTIBLE | 1U << EV_OFF_UNINTERRUPTIBLE;
	const uint64_t seen = tally_get(&s->tally, TALLY_OFF_SEEN);
	uint64_t n = 0;
	uint32_t of = 0;

	check_refused(s);
	check_unseen(s);
	/* Of others it is not known that they should have been seen. */
	if (!(s->o.modes & ~s->without & SES_OFFCPU) || s->o.target != SES_TARGET_PID ||
	    (seen && s->targets.n == 1) || tally_get(&s->tally, TALLY_OFF_DROP_FULL) ||
	    s->o.off_min_ns || s->o.off_max_ns || (ses_off_states(s) & sleeps) != sleeps ||
	    (s->o.comms && s->o.comms[0]) || (s->o.cgroups && s->o.cgroups[0]))
		return;
	for (uint32_t i = 0; i < s->targets.n; i++) {
		uint64_t asleep = s->off && smp_off_knows(s->off, s->targets.pids[i])
		                          ? 0
		                          : ses_asleep_cnt(&s->targets, s->targets.pids[i]);

		n += asleep;
		of += asleep > 0;
	}
	if (n && seen)
		tally_note(
		        &s->tally,
		        "no waits were seen of %u of the %u processes, but %llu of their threads "
		        "sleep: unless they have only just begun to, their switches are hidden "
		        "from BPF programs on this machine",
		        of, s->targets.n, (unsigned long long)n);
	else if (n)
		tally_note(&s->tally,
		           "no waits were seen, but %llu thread(s) of the target sleep: unless "
		           "they have only just begun to, their switches are hidden from BPF "
		           "programs on this machine",
		           (unsigned long long)n);
}
