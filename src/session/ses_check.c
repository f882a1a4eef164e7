/* SPDX-License-Identifier: Apache-2.0 */
/* Checks before anything is opened, and the causes of refusals of the kernel. */
#include "session/session_priv.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <sys/resource.h>

#include "proc/proc.h"

/* Returns -ESRCH if /proc is of another pid namespace: its numbers would be taken for ours. */
int ses_check_proc(struct err *err)
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

/* Descriptors that a capture holds open, without one file of each image: maps, programs and their
 * links, BTF, the rings, the output, pidfd, epoll and eventfd; more while libbpf probes the kernel.
 * For each CPU: an event, its link, its ring. */
#define DESCRIPTORS         58
#define DESCRIPTORS_PER_CPU 3

int ses_check_descriptors(const struct ses *s, struct err *err)
{
	uint64_t need = DESCRIPTORS + (uint64_t)DESCRIPTORS_PER_CPU * s->env.n_cpus, used = 0;
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
		               s->env.n_cpus, (unsigned long long)need,
		               2 * ((unsigned long long)used + (unsigned long long)need));
	return 0;
}

int ses_explain(int code, struct err *err)
{
	char lockdown[32] = "";

	if (!err || err->cause != ERR_NONE)
		return code;
	if (code == -ENOSYS)
		return err_set_cause(
		        err, code, ERR_SECCOMP, "bpf",
		        "%.250s: a kernel without bpf(2), or a seccomp filter: allow bpf(2) and "
		        "perf_event_open(2) (containers: --security-opt seccomp=unconfined)",
		        err->msg);
	if ((code != -EPERM && code != -EACCES) || cap_explain(err, code, err->msg))
		return code;
	proc_lockdown(lockdown);
	if (strcmp(lockdown, "confidentiality") == 0)
		return err_set_cause(err, code, ERR_LOCKDOWN, lockdown,
		                     "%.250s: kernel lockdown is 'confidentiality', which forbids "
		                     "BPF to read memory: boot with lockdown=integrity or none",
		                     err->msg);
	return err_set_cause(err, code, ERR_SECCOMP, "bpf",
	                     "%.250s: the capabilities are there, so a seccomp filter or a "
	                     "security module refuses it: allow bpf(2) and perf_event_open(2) "
	                     "(containers: --security-opt seccomp=unconfined)",
	                     err->msg);
}

static const char *whose(uint64_t n)
{
	return n == 1 ? "its" : "their";
}

void ses_check_privileges(struct ses *s, int kernel_error)
{
	const struct trk_stats *t = trk_stats(s->walk.trk);

	if (t->procs_denied && !cap_effective(CAP_SYS_PTRACE))
		tally_note(&s->tally,
		           "cannot read %llu process%s of other users; %s frames have no names: "
		           "needs CAP_SYS_PTRACE",
		           (unsigned long long)t->procs_denied, t->procs_denied == 1 ? "" : "es",
		           whose(t->procs_denied));
	else if (t->procs_denied)
		tally_note(&s->tally,
		           "cannot read %llu process%s; %s frames have no names: a security "
		           "module refuses it",
		           (unsigned long long)t->procs_denied, t->procs_denied == 1 ? "" : "es",
		           whose(t->procs_denied));
	if (t->images_denied)
		tally_note(&s->tally,
		           "cannot open %llu mapped file%s; %s frames have no names: needs %s",
		           (unsigned long long)t->images_denied, t->images_denied == 1 ? "" : "s",
		           whose(t->images_denied),
		           !cap_effective(CAP_SYS_PTRACE) ? "CAP_SYS_PTRACE"
		                                          : "CAP_DAC_READ_SEARCH");
	if (kernel_error == -EPERM) {
		int64_t restrict_to = -1;

		(void)proc_sysctl("kernel/kptr_restrict",
		                  &restrict_to); /* -1 is shown as unknown */
		tally_note(&s->tally,
		           "kernel addresses are hidden, so kernel frames have no names: "
		           "kernel.kptr_restrict=%lld, needs %s",
		           (long long)restrict_to,
		           restrict_to >= 2 ? "kernel.kptr_restrict below 2 and CAP_SYSLOG"
		                            : "CAP_SYSLOG");
	} else if (kernel_error < 0) {
		tally_note(&s->tally, "kernel frames have no names: cannot read /proc/kallsyms: %s",
		           err_name(kernel_error));
	}
}
