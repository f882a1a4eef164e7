/* SPDX-License-Identifier: Apache-2.0 */
/* Events that count without sampling, on each CPU, those of the hardware by core type. */
#include "perfevent/pev_priv.h"

#include <sys/ioctl.h>

const struct pev_counter_spec pev_counters_hardware[PEV_HARDWARE_CNT] = {
        {"cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
        {"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
        {"cache-references", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_REFERENCES},
        {"cache-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES},
        {"branches", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS},
        {"branch-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES},
};

const struct pev_counter_spec pev_counters_software[PEV_SOFTWARE_CNT] = {
        {"page-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS},
        {"cpu-migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS},
        {"context-switches", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES},
        {"cpu-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK},
};

/* PERF_PMU_TYPE_SHIFT of Linux 5.14, which older headers do not have. */
#define PMU_TYPE_SHIFT 32
#define MESSAGE_SIZE   768

/* Does the kernel take the number of a PMU in the upper half of a hardware event's config? x86
 * does since 5.13, where core types differ since then; arm64 since 6.6, before that it takes the
 * PMU of the CPU by itself. */
enum extended { EXT_UNKNOWN = 0, EXT_YES, EXT_NO };

struct opener {
	const struct pev_counter_spec *specs;
	const struct pev_counter_cpus *on;
	struct pev_counters *set;
	enum extended *ext; /* ext[n_types] */
};

static bool by_core_type(const struct pev_counter_spec *s)
{
	return s->type == PERF_TYPE_HARDWARE || s->type == PERF_TYPE_HW_CACHE;
}

/* Every further open would fail in the same way. */
static bool is_limit(int code)
{
	return code == -EMFILE || code == -ENFILE || code == -ENOMEM;
}

static int *fd_at(const struct pev_counters *s, uint32_t counter, uint32_t idx)
{
	return &s->fd[(size_t)counter * s->n_cpus + idx];
}

/* ---- opening -------------------------------------------------------------------------------- */

static struct perf_event_attr attr_of(const struct pev_counter_spec *s)
{
	struct perf_event_attr attr = {0};

	attr.type = s->type;
	attr.config = s->config;
	attr.size = sizeof(attr);
	attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	attr.disabled = 1;
	return attr;
}

static int open_one(struct opener *o, const struct pev_counter_spec *s, uint32_t core_type,
                    uint32_t cpu)
{
	struct perf_event_attr attr = attr_of(s);
	enum extended *ext;
	int fd;

	if (!by_core_type(s))
		return pev_open(&attr, cpu);
	if (core_type == PEV_COUNTER_NO_CORE_TYPE)
		return -ENOENT;
	ext = &o->ext[core_type];
	if (o->on->n_types > 1 && *ext != EXT_NO) {
		attr.config |= (uint64_t)o->on->types[core_type].perf_type << PMU_TYPE_SHIFT;
		fd = pev_open(&attr, cpu);
		if (fd >= 0)
			*ext = EXT_YES;
		if (*ext == EXT_YES || (fd != -ENOENT && fd != -EINVAL))
			return fd;
		/* Never another PMU's event: all refuse CPUs that are not theirs. */
		attr.config = s->config;
	}
	fd = pev_open(&attr, cpu);
	if (fd >= 0)
		*ext = EXT_NO;
	return fd;
}

/* Closes a counter on all CPUs and marks it; the descriptors that this frees are the agent's. */
static void give_up(struct pev_counters *s, uint32_t counter, int code)
{
	for (uint32_t i = 0; i < s->n_cpus; i++) {
		int *fd = fd_at(s, counter, i);

		closep(fd);
		*fd = code;
	}
}

/* Counter by counter, so that a limit leaves whole counters. */
static void open_all(struct opener *o)
{
	struct pev_counters *s = o->set;
	int limit = 0;

	for (uint32_t c = 0; c < s->n_counters; c++) {
		for (uint32_t i = 0; i < s->n_cpus && limit == 0; i++) {
			int fd = open_one(o, &o->specs[c], o->on->core_type[i], s->cpu[i]);

			*fd_at(s, c, i) = fd;
			if (is_limit(fd))
				limit = fd;
		}
		if (limit < 0)
			give_up(s, c, limit);
	}
}

/* ---- what became of it ---------------------------------------------------------------------- */

/* A CPU is offline when that is all that was heard from it. */
static bool cpu_is_offline(const struct opener *o, uint32_t idx)
{
	const struct pev_counters *s = o->set;
	bool offline = false;

	for (uint32_t c = 0; c < s->n_counters; c++) {
		int fd = *fd_at(s, c, idx);

		if (by_core_type(&o->specs[c]) && o->on->core_type[idx] == PEV_COUNTER_NO_CORE_TYPE)
			continue; /* it was not asked */
		if (!pev_is_offline(fd) && !is_limit(fd))
			return false;
		offline |= pev_is_offline(fd);
	}
	return offline;
}

/* "cycles on cpu_atom" */
static void add_name(const struct opener *o, uint32_t counter, uint32_t core_type, struct sbuf *b)
{
	(void)sbuf_str(b, o->specs[counter].name); /* who takes the string sees a failure */
	if (o->on->n_types > 1 && core_type < o->on->n_types)
		(void)sbuf_addf(b, " on %s", o->on->types[core_type].name);
}

static char *describe_offline(const struct opener *o, uint32_t counter, uint32_t core_type)
{
	_cleanup_(sbuf_done) struct sbuf b;

	sbuf_init(&b, MESSAGE_SIZE);
	add_name(o, counter, core_type, &b);
	(void)sbuf_str(&b, ": ENODEV: all of these CPUs are offline");
	return sbuf_take(&b);
}

/* The message stays as it is found now: rights may be given up later. */
static char *describe(const struct opener *o, uint32_t counter, uint32_t core_type, uint32_t idx,
                      int code)
{
	const struct pev_counter_spec *spec = &o->specs[counter];
	struct perf_event_attr attr = attr_of(spec);
	_cleanup_(sbuf_done) struct sbuf b;
	struct err err = {0};

	sbuf_init(&b, MESSAGE_SIZE);
	add_name(o, counter, core_type, &b);
	if (by_core_type(spec) && core_type >= o->on->n_types) {
		(void)sbuf_addf(&b, ": cpu %u: %s: no core type is known for it", o->set->cpu[idx],
		                err_name(code));
	} else {
		(void)pev_open_failed(&err, code, &attr, o->set->cpu[idx]); /* returns code */
		(void)sbuf_addf(&b, ": %s", err.msg);
	}
	if (code == -EMFILE)
		(void)sbuf_addf(&b, " (%u counters on %u CPUs are %u)", o->set->n_counters,
		                o->set->n_cpus, o->set->n_counters * o->set->n_cpus);
	return sbuf_take(&b); /* NULL without memory: the code is there */
}

static void judge(const struct opener *o, const bool *offline)
{
	struct pev_counters *s = o->set;

	for (uint32_t c = 0; c < s->n_counters; c++) {
		struct pev_counter_state *states = &s->state[(size_t)c * (s->n_types + 1)];

		for (uint32_t i = 0; i < s->n_cpus; i++) {
			uint32_t type = MIN_OF(o->on->core_type[i], s->n_types);
			struct pev_counter_state *st = &states[type];
			int fd = *fd_at(s, c, i);

			if (fd >= 0) {
				st->opened++;
				s->opened++;
				continue;
			}
			if (offline[i]) {
				/* Unless another CPU of its type has more to say. */
				st->error = st->error ? st->error : -ENODEV;
				continue;
			}
			if (st->failed++ > 0)
				continue;
			st->some_error = fd;
			st->why = describe(o, c, type, i, fd);
		}
		for (uint32_t t = 0; t <= s->n_types; t++) {
			struct pev_counter_state *st = &states[t];

			if (st->opened > 0) {
				st->error = 0;
				continue;
			}
			if (st->some_error)
				st->error = st->some_error;
			else if (st->error)
				st->why = describe_offline(o, c, t);
			st->some_error = 0;
		}
	}
}

static int summarize(const struct opener *o, struct err *err)
{
	struct pev_counters *s = o->set;
	_cleanup_free_ bool *offline = calloc(s->n_cpus, sizeof(*offline));

	if (!offline)
		return err_set(err, -ENOMEM, "perf_event_open: ENOMEM");
	for (uint32_t i = 0; i < s->n_cpus; i++) {
		offline[i] = cpu_is_offline(o, i);
		s->offline_cpus += offline[i];
	}
	/* We run on one of them: then it is the events that are missing. */
	if (s->offline_cpus == s->n_cpus) {
		s->offline_cpus = 0;
		memset(offline, 0, s->n_cpus * sizeof(*offline));
	}
	judge(o, offline);
	return 0;
}

static int check(const struct pev_counter_spec *specs, uint32_t n_specs,
                 const struct pev_counter_cpus *on)
{
	if (n_specs == 0 || n_specs > PEV_COUNTERS_MAX || on->n == 0 ||
	    on->n > PEV_COUNTER_CPUS_MAX || on->n_types == 0 || on->n_types > on->n)
		return -EINVAL;
	for (uint32_t i = 0; i < n_specs; i++)
		if (by_core_type(&specs[i]) && specs[i].config > UINT32_MAX)
			return -EINVAL;
	for (uint32_t i = 0; i < on->n; i++)
		if ((i > 0 && on->cpu[i] <= on->cpu[i - 1]) ||
		    (on->core_type[i] >= on->n_types &&
		     on->core_type[i] != PEV_COUNTER_NO_CORE_TYPE))
			return -EINVAL;
	return 0;
}

/* Empties a set that was not published. */
static void set_drop(struct pev_counters *s)
{
	(void)pev_counters_close(s); /* the failure that led here is the one to tell */
}

int pev_counters_open(const struct pev_counter_spec *specs, uint32_t n_specs,
                      const struct pev_counter_cpus *on, struct pev_counters *ret, struct err *err)
{
	_cleanup_(set_drop) struct pev_counters set = {0};
	_cleanup_free_ enum extended *ext = NULL;
	struct opener o = {.specs = specs, .on = on, .set = &set};
	size_t cells;
	int r = check(specs, n_specs, on);

	if (r < 0)
		return err_set(err, r, "%u counters on %u CPUs of %u types: EINVAL", n_specs, on->n,
		               on->n_types);
	cells = (size_t)n_specs * on->n; /* at most 2^17 */
	set.cpu = calloc(on->n, sizeof(*set.cpu));
	set.fd = calloc(cells, sizeof(*set.fd));
	set.state = calloc((size_t)n_specs * (on->n_types + 1), sizeof(*set.state));
	ext = calloc(on->n_types, sizeof(*ext));
	if (!set.cpu || !set.fd || !set.state || !ext)
		return err_set(err, -ENOMEM, "%u counters on %u CPUs: ENOMEM", n_specs, on->n);
	for (size_t i = 0; i < cells; i++)
		set.fd[i] = -EBADF;
	memcpy(set.cpu, on->cpu, on->n * sizeof(*set.cpu));
	set.n_counters = n_specs;
	set.n_types = on->n_types;
	set.n_cpus = on->n;
	o.ext = ext;
	open_all(&o);
	r = summarize(&o, err);
	if (r < 0)
		return r;
	*ret = set;
	memset(&set, 0, sizeof(set)); /* moved */
	return 0;
}

/* ---- use ------------------------------------------------------------------------------------ */

const struct pev_counter_state *pev_counters_state(const struct pev_counters *s, uint32_t counter,
                                                   uint32_t core_type)
{
	assert(counter < s->n_counters);
	assert(core_type < s->n_types || core_type == PEV_COUNTER_NO_CORE_TYPE);
	return &s->state[(size_t)counter * (s->n_types + 1) + MIN_OF(core_type, s->n_types)];
}

int pev_counters_fd(const struct pev_counters *s, uint32_t counter, uint32_t cpu)
{
	const size_t k = bisect_first(i, 0, s->n_cpus, s->cpu[i] >= cpu);

	assert(counter < s->n_counters);
	return k < s->n_cpus && s->cpu[k] == cpu ? *fd_at(s, counter, (uint32_t)k) : -ESRCH;
}

int pev_counters_enable(struct pev_counters *s, struct err *err)
{
	for (uint32_t c = 0; c < s->n_counters; c++) {
		for (uint32_t i = 0; i < s->n_cpus; i++) {
			int fd = *fd_at(s, c, i), r;

			if (fd < 0 || ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) == 0)
				continue;
			r = -errno;
			(void)pev_counters_disable(s); /* the first failure is the one to tell */
			return err_set(err, r, "enable counter %u of cpu %u: %s", c, s->cpu[i],
			               err_name(r));
		}
	}
	return 0;
}

int pev_counters_disable(struct pev_counters *s)
{
	int first = 0;

	for (size_t i = 0; i < (size_t)s->n_counters * s->n_cpus; i++) {
		if (s->fd[i] >= 0 && ioctl(s->fd[i], PERF_EVENT_IOC_DISABLE, 0) < 0 && first == 0)
			first = -errno;
	}
	return first;
}

int pev_counters_read(const struct pev_counters *s, uint32_t counter, uint32_t cpu,
                      struct pev_count *ret)
{
	int fd = pev_counters_fd(s, counter, cpu);
	struct pev_count v; /* as read_format has it: value, enabled, running */
	ssize_t n;

	if (fd < 0)
		return fd;
	do
		n = read(fd, &v, sizeof(v));
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if ((size_t)n != sizeof(v))
		return -EIO; /* 0: the event is in an error state */
	*ret = v;
	return 0;
}
_Static_assert(sizeof(struct pev_count) == 24, "u64 value, enabled, running: perf_event_open(2)");

int pev_counters_close(struct pev_counters *s)
{
	int first = 0;

	for (size_t i = 0; i < (size_t)s->n_counters * s->n_cpus; i++) {
		if (s->fd[i] >= 0 && close(s->fd[i]) < 0 && first == 0)
			first = -errno;
	}
	for (size_t i = 0; i < (size_t)s->n_counters * (s->n_types + 1); i++)
		free(s->state[i].why);
	free(s->state);
	free(s->fd);
	free(s->cpu);
	*s = (struct pev_counters){0};
	return first;
}
