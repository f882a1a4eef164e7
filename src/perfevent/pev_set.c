/* SPDX-License-Identifier: Apache-2.0 */
#include "perfevent/pev_priv.h"

#include <sys/ioctl.h>

/* Empties a set that was not published. */
static void set_drop(struct pev_set *s)
{
	(void)pev_set_close(s); /* the failure that led here is the one to tell */
}

int pev_open_cpus(const struct pev_spec *s, const uint32_t *cpus, uint32_t n, struct pev_set *ret,
                  struct err *err)
{
	_cleanup_(set_drop) struct pev_set set = {0};
	struct perf_event_attr attr = pev_attr_of(s);

	if (n == 0 || n > PEV_CPUS_MAX)
		return err_set(err, -EINVAL, "perf_event_open on %u CPUs: EINVAL: 1 to %d", n,
		               PEV_CPUS_MAX);
	set.e = calloc(n, sizeof(*set.e));
	if (!set.e)
		return err_set(err, -ENOMEM, "perf_event_open: ENOMEM");
	for (uint32_t i = 0; i < n; i++) {
		uint32_t cpu = cpus[i];
		int fd;

		if (!s->freq)
			attr.sample_period = pev_cpu_period(s, i);
		fd = pev_open(&attr, cpu);
		if (pev_is_offline(fd)) {
			set.skipped_cpus++;
			continue;
		}
		if (fd < 0)
			return pev_open_failed(err, fd, &attr, cpu);
		set.e[set.n++] = (struct pev_one){.fd = fd, .cpu = cpu};
	}
	if (set.n == 0)
		return err_set(err, -ENODEV,
		               "perf_event_open: ENODEV: none of %u CPUs is online, or none has %s",
		               n, pev_spec_name(s));
	*ret = set;
	memset(&set, 0, sizeof(set)); /* moved */
	return 0;
}

int pev_set_enable(struct pev_set *s, struct err *err)
{
	for (uint32_t i = 0; i < s->n; i++) {
		int r;

		if (s->e[i].fd < 0 || ioctl(s->e[i].fd, PERF_EVENT_IOC_ENABLE, 0) == 0)
			continue;
		r = -errno;
		(void)pev_set_disable(s); /* the first failure is the one to tell */
		return err_set(err, r, "enable perf event of cpu %u: %s", s->e[i].cpu, err_name(r));
	}
	return 0;
}

int pev_set_disable(struct pev_set *s)
{
	int first = 0;

	for (uint32_t i = 0; i < s->n; i++) {
		if (s->e[i].fd >= 0 && ioctl(s->e[i].fd, PERF_EVENT_IOC_DISABLE, 0) < 0 &&
		    first == 0)
			first = -errno;
	}
	return first;
}

int pev_set_close(struct pev_set *s)
{
	int first = 0;

	for (uint32_t i = 0; i < s->n; i++) {
		if (s->e[i].fd >= 0 && close(s->e[i].fd) < 0 && first == 0)
			first = -errno;
	}
	free(s->e);
	*s = (struct pev_set){0};
	return first;
}
