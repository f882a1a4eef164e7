/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The samples of a capture as records of perf.data. perf finds the file of an address by the
 * mappings that the records before it have: so a mapping is written before a sample needs it,
 * and again when another one was in its place meanwhile. Thread: control.
 */
#include <sys/mman.h>

#include "session/ses_perf_priv.h"

/* A mapping of a process as the reader knows it. */
struct mapped {
	uint64_t start, end, pgoff;
	uint32_t image; /* 0: anonymous */
	bool live;      /* false: another one was written in its place */
};

/* The order of mappings: file, then offset, so that both an address and an offset are found by
 * bisection; anonymous ones by address. */
static int mapped_cmp(const struct mapped *a, const struct mapped *b)
{
	if (a->image != b->image)
		return a->image < b->image ? -1 : 1;
	if (a->pgoff != b->pgoff)
		return a->pgoff < b->pgoff ? -1 : 1;
	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	return a->end < b->end ? -1 : a->end > b->end;
}

/* A process as the reader knows it. */
struct view {
	struct ev_proc_id proc;
	VEC(struct mapped) maps; /* in their order, each once */
};

struct thread_key {
	uint64_t start_ns;
	uint32_t pid, exec_id, tid, pad;
};
_Static_assert(sizeof(struct thread_key) == 24, "hashed as bytes");

struct ses_perf_records {
	struct ses *s;
	struct result_source src; /* names of kernel code only */
	uint32_t event[2];
	const struct stream_sample *samples; /* samples[n] */
	size_t n, at;
	struct intern *pids; /* uint32_t -> index of its view */
	VEC(struct view) views;
	struct intern *threads;              /* struct thread_key: its name is written */
	VEC(struct enc_perf_record) records; /* of the sample at hand */
	size_t next;
	VEC(uint64_t) kernel, user;
};

static struct sym_named kernel_name(void *arg, uint32_t image, uint64_t addr)
{
	return symbolizer_find(((const struct ses *)arg)->walk.symbolizer, image, addr);
}

/* Forgets what the reader knows. */
static void forget(struct ses_perf_records *p)
{
	vec_each (v, &p->views)
		vec_done(&v->maps);
	vec_done(&p->views);
	p->views.max = UINT32_MAX;
	p->pids = intern_free(p->pids);
	p->threads = intern_free(p->threads);
	p->records.n = p->next = p->at = 0;
}

struct ses_perf_records *ses_perf_records_free(struct ses_perf_records *p)
{
	if (p) {
		forget(p);
		vec_done(&p->records);
		vec_done(&p->kernel);
		vec_done(&p->user);
		free(p);
	}
	return NULL;
}

int ses_perf_records_new(struct ses *s, const uint32_t event[2], struct ses_perf_records **ret)
{
	struct ses_perf_records *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->s = s;
	p->src = (struct result_source){.name = kernel_name, .arg = s};
	memcpy(p->event, event, sizeof(p->event));
	p->samples = stream_samples(s->walk.stream, &p->n);
	p->views.max = p->records.max = p->kernel.max = p->user.max = UINT32_MAX;
	*ret = p;
	return 0;
}

void ses_perf_records_rewind(void *arg)
{
	forget(arg);
}

/* ---- processes and threads ------------------------------------------------------------------- */

/* Returns the view of a process, without mappings if it executes another program; NULL: no
 * memory. */
static struct view *view_of(struct ses_perf_records *p, const struct ev_proc_id *proc,
                            bool *ret_exec)
{
	struct view *v;
	bool added;
	uint32_t id;

	*ret_exec = false;
	if (vec_reserve(&p->views, 1) < 0 ||
	    intern_add(p->pids, &proc->pid, sizeof(proc->pid), &id, &added) < 0)
		return NULL;
	if (added) {
		p->views.p[p->views.n++] = (struct view){.proc = *proc, .maps.max = UINT32_MAX};
		return &p->views.p[id];
	}
	v = &p->views.p[id];
	if (v->proc.start_ns != proc->start_ns || v->proc.exec_id != proc->exec_id) {
		*ret_exec = v->proc.start_ns == proc->start_ns;
		v->proc = *proc;
		v->maps.n = 0;
	}
	return v;
}

/* A task outside of our pid namespace has the number -1, as in files of perf: the kernel's number
 * may be that of another one here. */
static struct enc_perf_record record_of(enum enc_perf_type type, const struct ev_count *c,
                                        uint64_t time_ns)
{
	return (struct enc_perf_record){.type = type,
	                                .pid = c->foreign_ns ? UINT32_MAX : c->proc.pid,
	                                .tid = c->foreign_ns ? UINT32_MAX : c->tid,
	                                .time_ns = time_ns};
}

/* Adds the name of a thread that the reader does not know. */
static int add_name(struct ses_perf_records *p, const struct ev_count *c, uint64_t time_ns,
                    bool exec)
{
	const struct thread_key key = {.start_ns = c->proc.start_ns,
	                               .pid = c->proc.pid,
	                               .exec_id = c->proc.exec_id,
	                               .tid = c->tid};
	struct enc_perf_record rec = record_of(ENC_PERF_COMM, c, time_ns);
	bool added;
	uint32_t id;
	int r = intern_add(p->threads, &key, sizeof(key), &id, &added);

	if (r < 0 || !added)
		return r;
	rec.comm.name = prof_agg_comm(p->s->walk.agg, &c->proc, c->tid);
	if (!rec.comm.name || !rec.comm.name[0])
		rec.comm.name = trk_comm(p->s->walk.trk, &c->proc);
	rec.comm.exec = exec;
	return rec.comm.name[0] ? vec_push(&p->records, rec) : 0;
}

/* ---- mappings -------------------------------------------------------------------------------- */

/* Adds the record of a mapping, which takes the place of those that it overlaps. */
static int put_map(struct ses_perf_records *p, const struct ev_count *c, uint64_t time_ns,
                   struct view *v, struct mapped *m)
{
	const struct trk_image *img = m->image ? trk_image(p->s->walk.trk, m->image) : NULL;
	struct enc_perf_record rec = record_of(ENC_PERF_MMAP, c, time_ns);
	struct enc_perf_map *to = &rec.map;

	vec_each (o, &v->maps)
		if (o != m && o->live && o->start < m->end && m->start < o->end)
			o->live = false;
	m->live = true;
	rec.tid = rec.pid;
	to->start = m->start;
	to->len = m->end - m->start;
	to->pgoff = m->pgoff;
	to->prot = PROT_READ | PROT_EXEC;
	to->flags = MAP_PRIVATE;
	to->path = "//anon";
	if (img) {
		to->path = img->path;
		to->dev_major = img->file.dev_major;
		to->dev_minor = img->file.dev_minor;
		to->ino = img->file.ino;
		to->build_id_len = MIN_OF(img->build_id_len, (uint8_t)sizeof(to->build_id));
		memcpy(to->build_id, img->build_id, to->build_id_len);
	}
	return vec_push(&p->records, rec);
}

/* Makes a mapping known to the reader. */
static int use_map(struct ses_perf_records *p, const struct ev_count *c, uint64_t time_ns,
                   struct view *v, const struct trk_location *at)
{
	const struct mapped m = {.start = at->map_start,
	                         .end = at->map_end,
	                         .pgoff = at->image ? at->map_pgoff : 0,
	                         .image = at->image ? at->image->id : 0};
	const size_t i = bisect_first(k, 0, v->maps.n, mapped_cmp(&v->maps.p[k], &m) >= 0);
	struct mapped *to;

	if (i == v->maps.n || mapped_cmp(&v->maps.p[i], &m) != 0) {
		if (vec_reserve(&v->maps, 1) < 0)
			return -ENOMEM;
		to = &v->maps.p[i];
		memmove(to + 1, to, (v->maps.n++ - i) * sizeof(*to));
		*to = m;
	}
	to = &v->maps.p[i];
	return to->live ? 0 : put_map(p, c, time_ns, v, to);
}

/* Returns a mapping of a file offset, one that the reader has if there is one; NULL: none. */
static struct mapped *find_offset(struct view *v, uint32_t image, uint64_t off)
{
	struct mapped *found = NULL;
	size_t i = bisect_first(k, 0, v->maps.n,
	                        v->maps.p[k].image > image ||
	                                (v->maps.p[k].image == image && v->maps.p[k].pgoff > off));

	while (i-- > 0 && v->maps.p[i].image == image) {
		struct mapped *m = &v->maps.p[i];

		if (off - m->pgoff >= m->end - m->start)
			continue;
		if (m->live)
			return m;
		found = m;
	}
	return found;
}

/* Returns the address of a file offset in the process; the offset itself if it is mapped nowhere. */
static int image_address(struct ses_perf_records *p, const struct ev_count *c, uint64_t time_ns,
                         struct view *v, uint32_t image, uint64_t off, uint64_t *ret)
{
	struct mapped *m = find_offset(v, image, off);
	struct trk_location at;

	if (m) {
		*ret = m->start + (off - m->pgoff);
		return m->live ? 0 : put_map(p, c, time_ns, v, m);
	}
	*ret = off;
	if (trk_resolve_image(p->s->walk.trk, &c->proc, image, off, &at) < 0)
		return 0;
	*ret = at.map_start + (off - at.map_pgoff);
	return use_map(p, c, time_ns, v, &at);
}

/* ---- stacks ---------------------------------------------------------------------------------- */

/* Addresses are those that are looked up: of the call, not of the instruction after it. So perf
 * shows the function and the line that our own profiles have. */
static uint64_t look_up(const struct ev_frame *f)
{
	return f->exact ? f->addr : f->addr - 1;
}

static int add_kernel(struct ses_perf_records *p, const struct ev_count *c)
{
	const struct ev_stack *st = c->kstack ? prof_agg_stack(p->s->walk.agg, c->kstack) : NULL;
	int r = 0;

	p->kernel.n = 0;
	for (uint32_t i = st && c->offcpu ? result_traced_frames(&p->src, st) : 0;
	     st && i < st->n && r == 0; i++)
		r = vec_push(&p->kernel, look_up(&st->frames[i]));
	return r;
}

/* Adds one user frame. @v: NULL: no mappings. Returns 1 where the stack ends before it. */
static int add_user_frame(struct ses_perf_records *p, const struct ev_count *c, uint64_t time_ns,
                          struct view *v, const struct ev_frame *f)
{
	struct trk_location at;
	uint64_t addr = look_up(f);
	int r = 0;

	if (!v) {
		r = 0;
	} else if (f->space == EV_SPACE_IMAGE) {
		r = image_address(p, c, time_ns, v, f->image, addr, &addr);
	} else if (trk_resolve_any(p->s->walk.trk, &c->proc, addr, &at) == 0 && at.map_end) {
		r = use_map(p, c, time_ns, v, &at);
	} else if (f->space == EV_SPACE_RAW && p->user.n &&
	           trk_proc_reason(p->s->walk.trk, &c->proc) == EV_REASON_NAMED) {
		return 1; /* as in the profile: no code, although all mappings are known */
	}
	return r < 0 ? r : vec_push(&p->user, addr);
}

static int add_user(struct ses_perf_records *p, const struct ev_count *c, uint64_t time_ns,
                    struct view *v)
{
	const struct ev_stack *st = c->ustack ? prof_agg_stack(p->s->walk.agg, c->ustack) : NULL;
	int r = 0;

	p->user.n = 0;
	for (uint32_t i = 0; st && i < st->n && r == 0; i++)
		r = add_user_frame(p, c, time_ns, v, &st->frames[i]);
	return MIN_OF(r, 0);
}

/* Makes the records of a sample. */
static int add_sample(struct ses_perf_records *p, const struct stream_sample *s,
                      const struct ev_count *c)
{
	struct enc_perf_record rec = record_of(ENC_PERF_SAMPLE, c, s->time_ns);
	struct view *v = NULL;
	bool exec;
	int r = 0;

	if (!c->foreign_ns) {
		v = view_of(p, &c->proc, &exec);
		r = v ? add_name(p, c, s->time_ns, exec) : -ENOMEM;
	}
	if (r == 0)
		r = add_kernel(p, c);
	if (r == 0)
		r = add_user(p, c, s->time_ns, v);
	if (r < 0)
		return r;
	rec.sample = (struct enc_perf_sample){
	        .event = p->event[c->offcpu != EV_OFFCPU_NONE],
	        .cpu = s->cpu,
	        .period = s->weight,
	        .in_kernel = c->kstack != 0 || c->kthread,
	        .n_kernel = (uint32_t)p->kernel.n,
	        .n_user = (uint32_t)p->user.n,
	        .kernel = p->kernel.p,
	        .user = p->user.p,
	};
	return vec_push(&p->records, rec);
}

static int begin(struct ses_perf_records *p)
{
	int r = 0;

	if (!p->pids)
		r = intern_new(UINT32_MAX - 1, SIZE_MAX / 2, &p->pids);
	if (r == 0 && !p->threads)
		r = intern_new(UINT32_MAX - 1, SIZE_MAX / 2, &p->threads);
	return r;
}

int ses_perf_records_next(void *arg, struct enc_perf_record *ret)
{
	struct ses_perf_records *p = arg;
	int r = begin(p);

	while (r == 0 && p->next == p->records.n) {
		const struct stream_sample *s;
		const struct ev_count *c;

		if (p->at == p->n)
			return 0;
		s = &p->samples[p->at++];
		c = prof_agg_count_at(p->s->walk.agg, s->count);
		p->records.n = p->next = 0;
		if (p->event[c->offcpu != EV_OFFCPU_NONE] != UINT32_MAX)
			r = add_sample(p, s, c);
	}
	if (r < 0)
		return r;
	*ret = p->records.p[p->next++];
	return 1;
}
