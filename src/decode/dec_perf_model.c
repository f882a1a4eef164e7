/* SPDX-License-Identifier: Apache-2.0 */
/* Models of a perf.data: one for each event, with names for its addresses. */
#include "decode/dec_perf_names.h"

#include <inttypes.h>
#include <stdio.h>

#define UNNAMED_NOTES_MAX 8

struct names {
	struct dec_perf *p;
	struct sym_files *files; /* NULL while no file was needed */
	uint32_t n_models;
	struct prof_model *models[DEC_MODELS_MAX];
	uint32_t *locs[DEC_MODELS_MAX]; /* by frame: location of the model */
	uint32_t n_frames;
	uint32_t *order;    /* frames by space, image, address */
	uint64_t *addrs;    /* of one group */
	uint32_t unnamed;   /* files without names; the first ones have a note */
	uint64_t anon, raw; /* frames */
};

static const struct dec_perf_frame *frame_at(const struct dec_perf *p, uint32_t id)
{
	return intern_get(p->frames, id, NULL);
}

/* Equal for frames that are named together. */
static uint32_t group_of(const struct dec_perf *p, const struct dec_perf_frame *f)
{
	return f->space == DEC_PERF_FILE ? DEC_PERF_FILE + p->ranges.p[f->range].image : f->space;
}

static int cmp_frames(const void *a, const void *b, void *arg)
{
	const struct dec_perf *p = arg;
	const struct dec_perf_frame *x = frame_at(p, *(const uint32_t *)a),
	                            *y = frame_at(p, *(const uint32_t *)b);
	const uint32_t gx = group_of(p, x), gy = group_of(p, y);

	if (gx != gy)
		return gx < gy ? -1 : 1;
	return (x->addr > y->addr) - (x->addr < y->addr);
}

/* ---- locations ------------------------------------------------------------------------------- */

static int add_mapping(struct prof_model *m, const char *path, const struct dec_perf_build_id *id,
                       struct prof_mapping map, uint32_t *ret)
{
	char hex[2 * EV_BUILD_ID_MAX + 1] = "";
	int r = prof_model_text(m, path, &map.path);

	for (size_t i = 0; id && i < id->len; i++)
		(void)snprintf(hex + 2 * i, 3, "%02x", id->id[i]);
	if (r == 0)
		r = prof_model_string(m, hex, &map.build_id);
	return r < 0 ? r : prof_model_mapping(m, &map, ret);
}

/* The mapping and the address of a frame in a model. */
static int place_of(const struct names *n, struct prof_model *m, const struct dec_perf_frame *f,
                    uint32_t *ret_map, uint64_t *ret_addr)
{
	struct prof_mapping map = {0};

	*ret_map = 0;
	*ret_addr = f->addr;
	if (f->space == DEC_PERF_FILE) {
		const struct dec_perf_range *range = &n->p->ranges.p[f->range];
		const struct dec_perf_image *image = &n->p->images.p[range->image];

		map.start = range->start;
		map.limit = range->start + range->len;
		map.offset = range->pgoff;
		*ret_addr = f->addr - range->pgoff + range->start;
		return add_mapping(m, intern_get(n->p->texts, image->path, NULL), &image->build_id,
		                   map, ret_map);
	}
	if (f->space == DEC_PERF_KERNEL) {
		map.start = 0xffff000000000000ULL;
		map.limit = UINT64_MAX;
		if (f->addr < map.start || f->addr >= map.limit)
			map.start = map.limit = 0;
		return add_mapping(m, "[kernel]", dec_perf_kernel_id(n->p), map, ret_map);
	}
	if (f->space == DEC_PERF_ANON)
		return add_mapping(m, "[jit]", NULL, map, ret_map);
	return 0;
}

static int named_line(struct prof_model *m, const struct sym_frame *f, struct prof_line *ret)
{
	struct prof_function fn = {.start_line = f->start_line};
	int r = prof_model_text(m, f->name, &fn.name);

	if (r == 0)
		r = prof_model_text(m, f->linkage, &fn.system_name);
	if (r == 0 && f->file)
		r = prof_model_text(m, f->file, &fn.file);
	*ret = (struct prof_line){.line = f->line, .column = f->column};
	return r < 0 ? r : prof_model_function(m, &fn, &ret->function);
}

/* As profiles of perf-agent have it: docs/output.md, "Names". */
static int unnamed_line(const struct names *n, struct prof_model *m, const struct dec_perf_frame *f,
                        const struct sym_named *named, struct prof_line *ret)
{
	struct prof_function fn = {0};
	char text[512];
	int r;

	if (f->space == DEC_PERF_FILE) {
		const uint32_t image = n->p->ranges.p[f->range].image;
		const char *path = intern_get(n->p->texts, n->p->images.p[image].path, NULL);

		(void)snprintf(text, sizeof(text), "0x%" PRIx64 " [%s]",
		               named->start ? named->start : f->addr, str_base_name(path));
	} else {
		(void)snprintf(text, sizeof(text), "0x%" PRIx64 "%s", f->addr,
		               f->space == DEC_PERF_ANON ? " [jit]" : "");
	}
	r = prof_model_text(m, text, &fn.name);
	(void)snprintf(text, sizeof(text), "unresolved: %s", ev_reason_name(named->reason));
	if (r == 0)
		r = prof_model_string(m, text, &fn.system_name);
	*ret = (struct prof_line){0};
	return r < 0 ? r : prof_model_function(m, &fn, &ret->function);
}

static int add_location(struct names *n, uint32_t model, uint32_t frame,
                        const struct sym_named *named)
{
	const struct dec_perf_frame *f = frame_at(n->p, frame);
	struct prof_model *m = n->models[model];
	struct prof_line lines[SYM_FRAMES_MAX];
	uint32_t n_lines = 0, map = 0;
	uint64_t addr = 0;
	int r = place_of(n, m, f, &map, &addr);

	for (; n_lines < named->n && n_lines < ARRAY_SIZE(lines) && r == 0; n_lines++)
		r = named_line(m, &named->frames[n_lines], &lines[n_lines]);
	if (r == 0 && named->n == 0)
		r = unnamed_line(n, m, f, named, &lines[n_lines++]);
	if (r == 0)
		r = prof_model_location(m, map, addr, (uint8_t)named->reason, lines, n_lines,
		                        &n->locs[model][frame]);
	/* A mapping at the end of the address space. */
	if (r == -EINVAL)
		r = prof_model_location(m, 0, addr, (uint8_t)named->reason, lines, n_lines,
		                        &n->locs[model][frame]);
	return r;
}

/* ---- names ----------------------------------------------------------------------------------- */

static int file_names(struct names *n, uint32_t image, size_t cnt, struct sym_batch *ret,
                      enum ev_reason *ret_why)
{
	const struct dec_options *o = n->p->in->o;
	const struct dec_perf_image *img = &n->p->images.p[image];
	_cleanup_close_ int fd = -EBADF;
	int r = 0;

	*ret_why = dec_perf_image_open(n->p, img, &fd);
	if (*ret_why != EV_REASON_NAMED)
		return sym_none_resolve(*ret_why, n->addrs, cnt, ret);
	if (!n->files)
		r = sym_files_new(&(struct sym_files_options){.find = {.dirs = o->debug_dirs,
		                                                       .n_dirs = o->n_debug_dirs}},
		                  &n->files);
	if (r < 0)
		return r;
	return sym_files_resolve(
	        n->files,
	        &(struct sym_source){.id = image,
	                             .fd = fd,
	                             .path = intern_get(n->p->texts, img->path, NULL),
	                             .root_fd = -EBADF},
	        n->addrs, cnt, ret);
}

static void note_file(struct names *n, uint32_t image, enum ev_reason why)
{
	const char *path = intern_get(n->p->texts, n->p->images.p[image].path, NULL);

	/* Code of the kernel that processes see as a file. */
	if (why == EV_REASON_NAMED || path[0] == '[' || n->p->in->o->no_names)
		return;
	if (n->unnamed++ < UNNAMED_NOTES_MAX)
		dec_note(n->p->in, "%s has no names: %s%s", path,
		         why == EV_REASON_FILE_REPLACED
		                 ? "the file on this machine is another build"
		                 : ev_reason_name(why),
		         why == EV_REASON_NO_FILE ? "; run this where it was recorded, or copy the "
		                                    "file here"
		                                  : "");
}

/* Names the frames order[from … to), which are of one group, and makes their locations. */
static int name_group(struct names *n, uint32_t from, uint32_t to)
{
	const struct dec_perf *p = n->p;
	const struct dec_perf_frame *f = frame_at(p, n->order[from]);
	struct sym_batch b = {0};
	enum ev_reason why = EV_REASON_NAMED;
	const char *kernel_why = NULL;
	size_t cnt = 0;
	int r;

	for (uint32_t i = from; i < to; i++) {
		const uint64_t addr = frame_at(p, n->order[i])->addr;

		if (cnt == 0 || n->addrs[cnt - 1] != addr)
			n->addrs[cnt++] = addr;
	}
	switch ((enum dec_perf_space)f->space) {
	case DEC_PERF_FILE:
		r = file_names(n, p->ranges.p[f->range].image, cnt, &b, &why);
		note_file(n, p->ranges.p[f->range].image, why);
		break;
	case DEC_PERF_KERNEL:
		r = dec_perf_kernel_names(p, n->addrs, cnt, &b, &kernel_why);
		if (kernel_why)
			dec_note(p->in, "kernel code has no names: %s", kernel_why);
		break;
	case DEC_PERF_ANON:
		n->anon += to - from;
		r = sym_none_resolve(EV_REASON_JIT, n->addrs, cnt, &b);
		break;
	case DEC_PERF_RAW:
	default:
		n->raw += to - from;
		r = sym_none_resolve(EV_REASON_NO_MAPPING, n->addrs, cnt, &b);
		break;
	}
	cnt = 0;
	for (uint32_t i = from; i < to && r == 0; i++) {
		struct sym_named named;

		cnt += i > from && frame_at(p, n->order[i])->addr != n->addrs[cnt];
		named = sym_batch_at(&b, cnt);
		for (uint32_t m = 0; m < n->n_models && r == 0; m++) {
			if (p->frame_models.p[n->order[i]] >> m & 1)
				r = add_location(n, m, n->order[i], &named);
		}
	}
	sym_batch_done(&b);
	return r;
}

static int name_frames(struct names *n)
{
	int r = 0;

	for (uint32_t i = 0; i < n->n_frames; i++)
		n->order[i] = i;
	qsort_r(n->order, n->n_frames, sizeof(*n->order), cmp_frames, n->p);
	for (uint32_t from = 0, to = 0; from < n->n_frames && r == 0; from = to) {
		const uint32_t group = group_of(n->p, frame_at(n->p, n->order[from]));

		while (to < n->n_frames && group_of(n->p, frame_at(n->p, n->order[to])) == group)
			to++;
		r = name_group(n, from, to);
	}
	if (n->unnamed > UNNAMED_NOTES_MAX)
		dec_note(n->p->in, "%u more files have no names", n->unnamed - UNNAMED_NOTES_MAX);
	if (n->anon)
		dec_note(n->p->in, "%" PRIu64 " addresses are of JIT code, which has no names here",
		         n->anon);
	return r;
}

/* ---- models ---------------------------------------------------------------------------------- */

static int set_type(struct prof_model *m, struct prof_type *t, const char *type, const char *unit)
{
	int r = prof_model_text(m, type, &t->type);

	return r < 0 ? r : prof_model_string(m, unit, &t->unit);
}

/* Returns the mean period of samples if the kernel changed it to keep a frequency. 0: not known, or
 * no whole number is within 1 % of it. */
static int64_t period_of(const struct dec_perf_attr *a)
{
	const int64_t n = a->sum.samples, weight = a->sum.weight;
	int64_t ret, rest;

	if (a->period)
		return a->period <= INT64_MAX ? (int64_t)a->period : 0;
	if (!(a->sample_type & PERF_SAMPLE_PERIOD) || n == 0 || weight == INT64_MAX)
		return 0;
	ret = weight / n + (weight % n > n / 2);
	rest = weight > ret * n ? weight - ret * n : ret * n - weight;
	return rest <= weight / 100 ? ret : 0;
}

/* The types that profiles of perf-agent have, where the event is one of theirs. */
static int set_types(struct prof_model *m, const struct dec_perf_attr *a)
{
	const bool clock = a->type == PERF_TYPE_SOFTWARE && a->config <= PERF_COUNT_SW_TASK_CLOCK;
	const bool offcpu = str_starts(a->name, "offcpu-time");
	int r = set_type(m, &m->sample_type[0], offcpu ? "contentions" : "samples", "count");

	if (r == 0 && offcpu)
		r = set_type(m, &m->sample_type[1], "offcpu", "nanoseconds");
	else if (r == 0 && clock)
		r = set_type(m, &m->sample_type[1], "cpu", "nanoseconds");
	else if (r == 0)
		r = set_type(m, &m->sample_type[1], a->name, "count");
	m->n_types = 2;
	m->default_type = m->sample_type[1].type;
	m->period = period_of(a);
	if (m->period)
		m->period_type = m->sample_type[1];
	return r;
}

static int add_comments(const struct dec_perf *p, struct prof_model *m,
                        const struct dec_perf_attr *a)
{
	const struct dec_perf_facts *f = &p->facts;
	static const char own[] = "perf-agent "; /* before the version: ses_perf_facts.c */
	int r = prof_model_comment(m, "event: %s", a->name);

	if (r == 0 && f->command[0])
		r = prof_model_comment(m, "command: %s", f->command);
	if (r == 0 && f->host[0])
		r = prof_model_comment(m, "host: %s", f->host);
	if (r == 0 && f->release[0])
		r = prof_model_comment(m, "kernel: %s", f->release);
	if (r == 0 && str_starts(f->version, own))
		r = prof_model_comment(m, "perf-agent: %s", f->version + strlen(own));
	else if (r == 0 && f->version[0])
		r = prof_model_comment(m, "perf: %s", f->version);
	if (r == 0 && p->cnt.lost)
		r = prof_model_comment(m, "lost: %" PRIu64, p->cnt.lost);
	return r;
}

static int make_models(struct names *n)
{
	const struct dec_perf *p = n->p;
	int r = 0;

	vec_each (a, &p->attrs) {
		struct prof_model *m = NULL;

		if (!a->has_samples)
			continue;
		r = dec_add_model(p->in, &m);
		if (r < 0)
			return r;
		n->models[n->n_models] = m;
		n->locs[n->n_models] = calloc(MAX_OF(n->n_frames, 1U), sizeof(uint32_t));
		if (!n->locs[n->n_models++])
			return dec_model_err(p->in, -ENOMEM, DEC_NO_BYTE);
		r = set_types(m, a);
		if (r == 0)
			r = add_comments(p, m, a);
		if (r < 0)
			return dec_model_err(p->in, r, DEC_NO_BYTE);
		m->duration_ns = (int64_t)(p->facts.last_ns - p->facts.first_ns);
		if (p->facts.wall_ns && p->facts.first_ns)
			m->time_realtime_ns = (int64_t)(p->facts.wall_ns +
			                                (p->facts.first_ns - p->facts.clock_ns));
	}
	return 0;
}

static int add_sample(struct names *n, uint32_t id)
{
	const struct dec_perf *p = n->p;
	const struct dec_perf_key *k = intern_get(p->keys, id, NULL);
	const uint32_t model = p->attrs.p[k->attr].model;
	struct prof_model *m = n->models[model];
	struct prof_label labels[3] = {{.num = (int32_t)k->pid}, {.num = (int32_t)k->tid}, {0}};
	const int64_t values[2] = {p->sums.p[id].samples, p->sums.p[id].weight};
	size_t len;
	const uint32_t *frames = intern_get(p->stacks, k->stack, &len);
	int r = prof_model_string(m, "pid", &labels[0].key);

	if (r == 0)
		r = prof_model_string(m, "tid", &labels[1].key);
	if (r == 0)
		r = prof_model_string(m, "comm", &labels[2].key);
	if (r == 0)
		r = prof_model_text(m, intern_get(p->texts, k->comm, NULL), &labels[2].str);
	n->p->stack.n = 0;
	for (size_t i = 0; i < len / sizeof(*frames) && r == 0; i++)
		r = vec_push(&n->p->stack, n->locs[model][frames[i]]);
	if (r < 0)
		return r;
	return prof_model_sample(m, n->p->stack.p, (uint32_t)n->p->stack.n, labels, k->comm ? 3 : 2,
	                         values);
}

int dec_perf_models(struct dec_perf *p)
{
	struct names n = {.p = p, .n_frames = intern_count(p->frames)};
	int r;

	n.order = malloc(MAX_OF(n.n_frames, 1U) * sizeof(*n.order));
	n.addrs = malloc(MAX_OF(n.n_frames, 1U) * sizeof(*n.addrs));
	if (!n.order || !n.addrs) {
		free(n.order);
		free(n.addrs);
		return dec_model_err(p->in, -ENOMEM, DEC_NO_BYTE);
	}
	r = make_models(&n);
	if (r == 0) {
		r = name_frames(&n);
		for (uint32_t i = 0; i < intern_count(p->keys) && r == 0; i++)
			r = add_sample(&n, i);
		if (r < 0)
			r = dec_model_err(p->in, r, DEC_NO_BYTE);
	}
	for (uint32_t i = 0; i < n.n_models; i++)
		free(n.locs[i]);
	free(n.order);
	free(n.addrs);
	sym_files_free(n.files);
	return r;
}
