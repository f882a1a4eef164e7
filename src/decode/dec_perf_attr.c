/* SPDX-License-Identifier: Apache-2.0 */
/* Events and features of a perf.data: what precedes or follows the records. */
#include "decode/dec_perf_priv.h"

#include <stdio.h>

#define ATTRS_MAX     1024
#define IDS_MAX       1048576 /* one for each event and CPU, or thread */
#define BUILD_IDS_MAX 1048576
#define ATTR_SIZE_MIN 64 /* PERF_ATTR_SIZE_VER0 */

/* Numbers of features: enum in tools/perf/util/header.h. */
enum {
	FEAT_BUILD_ID = 2,
	FEAT_HOSTNAME = 3,
	FEAT_OSRELEASE = 4,
	FEAT_VERSION = 5,
	FEAT_CMDLINE = 11,
	FEAT_EVENT_DESC = 12,
	FEAT_CLOCK_DATA = 29,
};

int dec_perf_err(const struct dec_perf *p, int code, uint64_t at)
{
	const struct dec_list lists[] = {
	        {"ids of events", p->id_attrs.n, p->id_attrs.max},
	        {"files with a build-id", p->build_ids.n, p->build_ids.max},
	        {"processes", p->procs.n, p->procs.max},
	        {"threads", p->comms.n, p->comms.max},
	        {"mapped files", p->images.n, p->images.max},
	        {"parts of mapped files", p->ranges.n, p->ranges.max},
	        {"names of files and threads", intern_count(p->texts), DEC_PERF_FILES_MAX},
	        {"different frames", p->frame_models.n, p->frame_models.max},
	        {"different samples", p->sums.n, p->sums.max},
	};

	if (code == -E2BIG && dec_full(p->in, at, lists, ARRAY_SIZE(lists)) < 0)
		return code;
	vec_each (proc, &p->procs) {
		const struct dec_list maps = {"mappings of one process", proc->maps.n,
		                              proc->maps.max};

		if (code == -E2BIG && dec_full(p->in, at, &maps, 1) < 0)
			return code;
	}
	return dec_model_err(p->in, code, at);
}

/* ---- events ---------------------------------------------------------------------------------- */

static const char *software_name(uint64_t config)
{
	static const char *const names[] = {
	        [PERF_COUNT_SW_CPU_CLOCK] = "cpu-clock",
	        [PERF_COUNT_SW_TASK_CLOCK] = "task-clock",
	        [PERF_COUNT_SW_PAGE_FAULTS] = "page-faults",
	        [PERF_COUNT_SW_CONTEXT_SWITCHES] = "context-switches",
	        [PERF_COUNT_SW_CPU_MIGRATIONS] = "cpu-migrations",
	        [PERF_COUNT_SW_PAGE_FAULTS_MIN] = "minor-faults",
	        [PERF_COUNT_SW_PAGE_FAULTS_MAJ] = "major-faults",
	        [PERF_COUNT_SW_ALIGNMENT_FAULTS] = "alignment-faults",
	        [PERF_COUNT_SW_EMULATION_FAULTS] = "emulation-faults",
	        [PERF_COUNT_SW_DUMMY] = "dummy",
	        [PERF_COUNT_SW_BPF_OUTPUT] = "bpf-output",
	};

	return config < ARRAY_SIZE(names) && names[config] ? names[config] : "software";
}

static const char *hardware_name(uint64_t config)
{
	static const char *const names[] = {
	        [PERF_COUNT_HW_CPU_CYCLES] = "cycles",
	        [PERF_COUNT_HW_INSTRUCTIONS] = "instructions",
	        [PERF_COUNT_HW_CACHE_REFERENCES] = "cache-references",
	        [PERF_COUNT_HW_CACHE_MISSES] = "cache-misses",
	        [PERF_COUNT_HW_BRANCH_INSTRUCTIONS] = "branches",
	        [PERF_COUNT_HW_BRANCH_MISSES] = "branch-misses",
	        [PERF_COUNT_HW_BUS_CYCLES] = "bus-cycles",
	        [PERF_COUNT_HW_STALLED_CYCLES_FRONTEND] = "stalled-cycles-frontend",
	        [PERF_COUNT_HW_STALLED_CYCLES_BACKEND] = "stalled-cycles-backend",
	        [PERF_COUNT_HW_REF_CPU_CYCLES] = "ref-cycles",
	};

	config &= UINT32_MAX; /* above: the kind of core */
	return config < ARRAY_SIZE(names) ? names[config] : "hardware";
}

static const char *event_name(const struct dec_perf_attr *a)
{
	if (a->type == PERF_TYPE_SOFTWARE)
		return software_name(a->config);
	if (a->type == PERF_TYPE_HARDWARE)
		return hardware_name(a->config);
	return a->type == PERF_TYPE_TRACEPOINT ? "tracepoint" : "event";
}

/* Members that a shorter struct of an older perf lacks are 0. */
static void read_attr(struct cursor c, struct dec_perf_attr *ret)
{
	struct perf_event_attr a = {0};

	(void)cursor_bytes(&c, &a, MIN_OF(sizeof(a), cursor_left(&c))); /* that many are left */
	*ret = (struct dec_perf_attr){.type = a.type,
	                              .config = a.config,
	                              .period = a.freq ? 0 : a.sample_period,
	                              .sample_type = a.sample_type,
	                              .read_format = a.read_format,
	                              .branch_type = a.branch_sample_type,
	                              .regs_user = a.sample_regs_user,
	                              .sample_id_all = a.sample_id_all,
	                              .exclude_callchain_user = a.exclude_callchain_user};
	(void)str_copy(ret->name, sizeof(ret->name), event_name(ret)); /* all fit */
}

int dec_perf_add_attr(struct dec_perf *p, struct cursor c, uint64_t at)
{
	struct dec_perf_attr a;
	int r;

	if (cursor_left(&c) < ATTR_SIZE_MIN)
		return dec_bad(p->in, -EINVAL, at, "perf.data: an event of %zu bytes",
		               cursor_left(&c));
	read_attr(c, &a);
	p->attrs.max = ATTRS_MAX;
	r = vec_push(&p->attrs, a);
	if (r == -E2BIG)
		return dec_bad(p->in, r, at, "perf.data: more than %d events", ATTRS_MAX);
	return r < 0 ? dec_perf_err(p, r, at) : 0;
}

/* Returns 0, -E2BIG, -ENOMEM. */
static int add_id(struct dec_perf *p, uint64_t id, uint32_t attr)
{
	uint32_t idx;
	bool is_new = false;
	int r = 0;

	if (!p->ids)
		r = intern_new(IDS_MAX, SIZE_MAX / 2, &p->ids);
	p->id_attrs.max = IDS_MAX;
	if (r == 0)
		r = vec_reserve(&p->id_attrs, 1);
	if (r == 0)
		r = intern_add(p->ids, &id, sizeof(id), &idx, &is_new);
	if (r == 0 && is_new)
		r = vec_push(&p->id_attrs, attr);
	return r;
}

int dec_perf_add_id(struct dec_perf *p, uint64_t id, uint32_t attr)
{
	const int r = add_id(p, id, attr);

	return r < 0 ? dec_perf_err(p, r, DEC_NO_BYTE) : 0;
}

/* ---- features -------------------------------------------------------------------------------- */

/* A string: u32 length with padding, bytes. Returns 0, -ENODATA. */
static int read_string(struct cursor *c, char *to, size_t size)
{
	struct cursor s = {0};
	uint32_t len = 0;
	int r = cursor_u32(c, &len);

	if (r == 0)
		r = cursor_sub(c, len, &s);
	if (r < 0)
		return r;
	len = s.p ? (uint32_t)strnlen((const char *)s.p, cursor_left(&s)) : 0;
	len = MIN_OF(len, (uint32_t)size - 1);
	if (len > 0)
		memcpy(to, s.p, len);
	to[len] = 0;
	return 0;
}

static int read_command(struct dec_perf *p, struct cursor *c)
{
	char word[256];
	struct sbuf line;
	uint32_t n = 0;
	int r = cursor_u32(c, &n);

	sbuf_init(&line, sizeof(p->facts.command) - 1);
	for (uint32_t i = 0; i < n && r == 0; i++) {
		r = read_string(c, word, sizeof(word));
		if (r == 0 && i > 0)
			(void)sbuf_char(&line, ' ');
		if (r == 0)
			(void)sbuf_str(&line, word); /* past the cap nothing is added */
	}
	if (r == 0 && line.p)
		(void)str_copy(p->facts.command, sizeof(p->facts.command), line.p);
	sbuf_done(&line);
	return r;
}

/* Names of events, by their ids. */
static int read_events(struct dec_perf *p, struct cursor *c)
{
	uint32_t n = 0, attr_size = 0, n_ids = 0;
	int r = cursor_u32(c, &n);

	if (r == 0)
		r = cursor_u32(c, &attr_size);
	for (uint32_t i = 0; i < n && r == 0; i++) {
		char name[DEC_PERF_NAME_MAX];

		r = cursor_skip(c, attr_size);
		if (r == 0)
			r = cursor_u32(c, &n_ids);
		if (r == 0)
			r = read_string(c, name, sizeof(name));
		/* The order is that of the events. */
		if (r == 0 && i < p->attrs.n && name[0])
			memcpy(p->attrs.p[i].name, name, sizeof(name));
		for (uint32_t k = 0; k < n_ids && r == 0; k++) {
			uint64_t id = 0;

			r = cursor_u64(c, &id);
			if (r == 0 && i < p->attrs.n)
				r = add_id(p, id, i);
		}
	}
	return r;
}

static int read_clock(struct dec_perf *p, struct cursor *c)
{
	uint32_t version, clock;
	uint64_t wall = 0, ns = 0;
	int r = cursor_u32(c, &version);

	if (r == 0)
		r = cursor_u32(c, &clock);
	if (r == 0)
		r = cursor_u64(c, &wall);
	if (r == 0)
		r = cursor_u64(c, &ns);
	if (r == 0) {
		p->facts.wall_ns = wall;
		p->facts.clock_ns = ns;
	}
	return r;
}

int dec_perf_add_build_id(struct dec_perf *p, struct cursor c, uint16_t misc)
{
	struct dec_perf_build_id b = {.len = EV_BUILD_ID_MAX};
	uint8_t tail[4] = {0};
	const char *path = "";
	uint32_t pid, id;
	bool is_new = false;
	int r = cursor_u32(&c, &pid);

	if (r == 0)
		r = cursor_bytes(&c, b.id, sizeof(b.id));
	if (r == 0)
		r = cursor_bytes(&c, tail, sizeof(tail));
	if (r == 0)
		r = cursor_str(&c, &path);
	if (r < 0)
		return r;
	if (misc & DEC_PERF_MISC_BUILD_ID_SIZE)
		b.len = MIN_OF(tail[0], (uint8_t)EV_BUILD_ID_MAX);
	p->build_ids.max = BUILD_IDS_MAX;
	r = vec_reserve(&p->build_ids, 1);
	if (r == 0)
		r = intern_add(p->build_id_paths, path, strlen(path), &id, &is_new);
	if (r == 0 && is_new)
		r = vec_push(&p->build_ids, b);
	return r;
}

static int read_build_ids(struct dec_perf *p, struct cursor *c)
{
	int r = 0;

	while (r == 0 && cursor_left(c) > 0) {
		struct perf_event_header h = {0};
		struct cursor body = {0};

		r = cursor_bytes(c, &h, sizeof(h));
		if (r == 0 && h.size < sizeof(h))
			r = -ENODATA;
		if (r == 0)
			r = cursor_sub(c, h.size - sizeof(h), &body);
		if (r == 0)
			r = dec_perf_add_build_id(p, body, h.misc);
	}
	return r;
}

int dec_perf_feature(struct dec_perf *p, uint32_t num, struct cursor c, uint64_t at)
{
	struct dec_perf_facts *f = &p->facts;
	int r;

	switch (num) {
	case FEAT_BUILD_ID:
		r = read_build_ids(p, &c);
		break;
	case FEAT_HOSTNAME:
		r = read_string(&c, f->host, sizeof(f->host));
		break;
	case FEAT_OSRELEASE:
		r = read_string(&c, f->release, sizeof(f->release));
		break;
	case FEAT_VERSION:
		r = read_string(&c, f->version, sizeof(f->version));
		break;
	case FEAT_CMDLINE:
		r = read_command(p, &c);
		break;
	case FEAT_EVENT_DESC:
		r = read_events(p, &c);
		break;
	case FEAT_CLOCK_DATA:
		r = read_clock(p, &c);
		break;
	default:
		return 0;
	}
	if (r == -ENODATA)
		return dec_bad(p->in, -EINVAL, at, "perf.data: feature %u is truncated", num);
	return r < 0 ? dec_perf_err(p, r, at) : 0;
}
