/* SPDX-License-Identifier: Apache-2.0 */
#include "perfevent/pev_priv.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define SYSCTL_MAX_BYTES 64

struct pev_spec pev_spec_cpu_clock(uint32_t rate_hz)
{
	assert(rate_hz > 0);
	return (struct pev_spec){.type = PERF_TYPE_SOFTWARE,
	                         .config = PERF_COUNT_SW_CPU_CLOCK,
	                         .period = NSEC_PER_SEC / rate_hz,
	                         .freq = false};
}

/* Shortest period that the kernel keeps (perf_swevent_hrtimer); with a shorter one a sample would
 * weigh less than the time between two of them. */
#define PERIOD_MIN_NS 10000U
/* Periods lie within 1/40 of the one asked for. Two neighbours of n periods differ by about 1/(20
 * n): at 997 Hz and 2 CPUs they pass through all phases 20 times a second, at 99 Hz and 128 CPUs
 * the nearest ones in half a minute, any two others sooner. */
#define PERIOD_SPREAD 40U

uint64_t pev_cpu_period(const struct pev_spec *s, uint32_t i)
{
	/* Multiples of the golden ratio, in units of 2^-32, spread any number of CPUs evenly. */
	uint32_t at = (1U << 31) + i * 2654435769U;
	uint64_t half = s->period / PERIOD_SPREAD;

	if (s->type != PERF_TYPE_SOFTWARE || s->config != PERF_COUNT_SW_CPU_CLOCK || s->freq ||
	    s->period > NSEC_PER_SEC)
		return s->period;
	return MAX_OF(s->period - half + (2 * half * at >> 32),
	              MIN_OF(s->period, (uint64_t)PERIOD_MIN_NS));
}

const char *pev_spec_name(const struct pev_spec *s)
{
	static const char *const software[] = {
	        [PERF_COUNT_SW_CPU_CLOCK] = "software/cpu-clock",
	        [PERF_COUNT_SW_TASK_CLOCK] = "software/task-clock",
	        [PERF_COUNT_SW_PAGE_FAULTS] = "software/page-faults",
	        [PERF_COUNT_SW_CONTEXT_SWITCHES] = "software/context-switches",
	        [PERF_COUNT_SW_CPU_MIGRATIONS] = "software/cpu-migrations",
	        [PERF_COUNT_SW_DUMMY] = "software/dummy",
	};
	static const char *const hardware[] = {
	        [PERF_COUNT_HW_CPU_CYCLES] = "hardware/cpu-cycles",
	        [PERF_COUNT_HW_INSTRUCTIONS] = "hardware/instructions",
	        [PERF_COUNT_HW_CACHE_REFERENCES] = "hardware/cache-references",
	        [PERF_COUNT_HW_CACHE_MISSES] = "hardware/cache-misses",
	        [PERF_COUNT_HW_BRANCH_INSTRUCTIONS] = "hardware/branch-instructions",
	        [PERF_COUNT_HW_BRANCH_MISSES] = "hardware/branch-misses",
	        [PERF_COUNT_HW_REF_CPU_CYCLES] = "hardware/ref-cycles",
	};
	const char *name = NULL;

	switch (s->type) {
	case PERF_TYPE_SOFTWARE:
		name = s->config < ARRAY_SIZE(software) ? software[s->config] : NULL;
		return name ? name : "software/other";
	case PERF_TYPE_HARDWARE:
		name = s->config < ARRAY_SIZE(hardware) ? hardware[s->config] : NULL;
		return name ? name : "hardware/other";
	case PERF_TYPE_TRACEPOINT:
		return "tracepoint";
	case PERF_TYPE_HW_CACHE:
		return "hardware-cache";
	case PERF_TYPE_RAW:
		return "raw";
	case PERF_TYPE_BREAKPOINT:
		return "breakpoint";
	default: /* not an enum: each PMU of the machine has a number of its own */
		return "pmu/other";
	}
}

struct perf_event_attr pev_attr_of(const struct pev_spec *s)
{
	struct perf_event_attr attr = {0};

	attr.type = s->type;
	attr.config = s->config;
	attr.size = sizeof(attr);
	if (s->freq) {
		attr.freq = 1;
		attr.sample_freq = s->period;
	} else {
		attr.sample_period = s->period;
	}
	attr.disabled = 1;
	return attr;
}

int pev_open(const struct perf_event_attr *attr, uint32_t cpu)
{
	long fd = syscall(SYS_perf_event_open, attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : (int)fd;
}

bool pev_is_offline(int code)
{
	return code == -ESRCH || code == -ENODEV;
}

/* "kernel.<name>=<value>" as it is in /proc/sys, "?" if it cannot be read. */
static void sysctl_text(const char *name, char *dst, size_t size)
{
	_cleanup_(sbuf_done) struct sbuf path, value;
	const char *text = "?";

	sbuf_init(&path, SYSCTL_MAX_BYTES);
	sbuf_init(&value, SYSCTL_MAX_BYTES);
	if (sbuf_addf(&path, "/proc/sys/kernel/%s", name) == 0 &&
	    file_read_all(AT_FDCWD, path.p, &value, NULL) == 0 && value.len > 0) {
		value.p[strcspn(value.p, "\n")] = '\0';
		text = value.p;
	}
	(void)snprintf(dst, size, "kernel.%s=%s", name,
	               text); /* cut if ever too long: only a text */
}

static int refused(struct err *err, int code, const char *what)
{
	const char *value;
	char paranoid[128], text[256];
	bool initial = cap_ns_initial(); /* the sysctl has no say in a user namespace */

	sysctl_text("perf_event_paranoid", paranoid, sizeof(paranoid));
	value = strchr(paranoid, '=') + 1;
	(void)snprintf(text, sizeof(text), "%s: %s%s%s", what, err_name(code), initial ? ": " : "",
	               initial ? paranoid : ""); /* fits */
	if ((!initial || !(cap_effective(CAP_PERFMON) || cap_effective(CAP_SYS_ADMIN))) &&
	    cap_explain(err, code, text))
		return code;
	/* A patch of Debian's and Ubuntu's kernels, where 3 and 4 are the defaults. */
	if (!cap_effective(CAP_SYS_ADMIN) && value[0] >= '3' && value[0] <= '9')
		return err_set_cause(
		        err, code, ERR_SYSCTL, "kernel.perf_event_paranoid",
		        "%s: from 3 on this kernel wants CAP_SYS_ADMIN, CAP_PERFMON is not enough; "
		        "run as root or: sysctl kernel.perf_event_paranoid=2",
		        text);
	return err_set_cause(
	        err, code, ERR_SECCOMP, "perf_event_open",
	        "%s: %s: although %s is held (%s): a seccomp filter or a security module refused; "
	        "allow perf_event_open there (containers: --security-opt seccomp=unconfined)",
	        what, err_name(code), cap_effective(CAP_PERFMON) ? "CAP_PERFMON" : "CAP_SYS_ADMIN",
	        paranoid);
}

int pev_open_failed(struct err *err, int code, const struct perf_event_attr *attr, uint32_t cpu)
{
	struct pev_spec spec = {.type = attr->type, .config = attr->config};
	struct rlimit lim = {0};
	char rate[128];
	char what[64];

	(void)snprintf(what, sizeof(what), "perf_event_open cpu %u", cpu);
	switch (-code) {
	case EACCES:
	case EPERM:
		return refused(err, code, what);
	case EMFILE:
		(void)getrlimit(RLIMIT_NOFILE, &lim); /* cannot fail for a valid resource */
		return err_set(
		        err, code,
		        "%s: EMFILE: RLIMIT_NOFILE is %llu and every CPU needs a descriptor; raise "
		        "it with ulimit -n",
		        what, (unsigned long long)lim.rlim_cur);
	case ENFILE:
		return err_set(err, code,
		               "%s: ENFILE: the machine's limit of open files, fs.file-max", what);
	case ENOMEM:
		return err_set(err, code,
		               "%s: ENOMEM: the kernel has no memory for one more event, or the "
		               "memory limit of this cgroup is reached",
		               what);
	case ENOSYS:
		return err_set_cause(
		        err, code, ERR_SECCOMP, "perf_event_open",
		        "%s: ENOSYS: a kernel without perf events, or a seccomp filter; allow "
		        "perf_event_open there (containers: --security-opt seccomp=unconfined)",
		        what);
	case ENOENT:
	case ENODEV:
	case EOPNOTSUPP:
		return err_set(err, code, "%s: %s: this machine has no %s", what, err_name(code),
		               pev_spec_name(&spec));
	case EINVAL:
		if (!attr->freq)
			return err_set(err, code, "%s: EINVAL: the kernel does not take this event",
			               what);
		sysctl_text("perf_event_max_sample_rate", rate, sizeof(rate));
		return err_set(err, code, "%s: EINVAL: %s, asked for %llu Hz", what, rate,
		               (unsigned long long)attr->sample_freq);
	case ESRCH:
		return err_set(err, code, "%s: ESRCH: there is no such CPU", what);
	case EBUSY:
		return err_set(err, code, "%s: EBUSY: another event holds the counter alone", what);
	default:
		return err_set(err, code, "%s: %s", what, err_name(code));
	}
}

int pev_probe_cycles(uint32_t cpu, uint32_t rate_hz, struct pev_spec *ret, int *ret_errno,
                     struct err *err)
{
	struct pev_spec spec = {.type = PERF_TYPE_HARDWARE,
	                        .config = PERF_COUNT_HW_CPU_CYCLES,
	                        .period = rate_hz,
	                        .freq = true};
	struct perf_event_attr attr = pev_attr_of(&spec);
	int fd = pev_open(&attr, cpu);

	if (fd >= 0) {
		(void)close(fd); /* nothing was written */
		*ret = spec;
		if (ret_errno)
			*ret_errno = 0;
		return 1;
	}
	(void)pev_open_failed(err, fd, &attr, cpu); /* returns fd */
	switch (-fd) {
	case EOPNOTSUPP:
	case ENOENT:
	case ENODEV:
	case EINVAL:
	case EACCES:
		if (ret_errno)
			*ret_errno = -fd;
		return 0;
	default:
		return fd;
	}
}
