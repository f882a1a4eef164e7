/* SPDX-License-Identifier: Apache-2.0 */
#include "label/label.h"

#include <limits.h>

#include "proc/proc.h"

/* Far above the processes of a capture; further ones have no labels. */
#define PROCS_MAX (1U << 20)

/* The identity of a process, which exec does not change. */
struct proc_key {
	uint64_t start_ns;
	uint32_t pid;
	uint32_t foreign; /* pid is the kernel's number */
};
_Static_assert(sizeof(struct proc_key) == 16, "hashed as bytes");

struct pfa_label_sink {
	struct met_label v[PFA_LABELS_MAX];
	uint32_t n;
	int error; /* out of memory */
};

struct labels {
	struct {
		pfa_enrich_fn fn;
		void *arg;
	} enrichers[PFA_ENRICHERS_MAX];
	uint32_t n_enrichers;
	struct intern *keys; /* struct proc_key -> index of procs; NULL: no process yet */
	VEC(struct label_list) procs;
};

int labels_new(struct labels **ret)
{
	struct labels *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->procs.max = PROCS_MAX;
	*ret = l;
	return 0;
}

int labels_add_enricher(struct labels *l, pfa_enrich_fn fn, void *arg, struct err *err)
{
	if (!fn)
		return err_set(err, -EINVAL, "enricher: no function");
	if (l->n_enrichers == PFA_ENRICHERS_MAX)
		return err_set(err, -E2BIG, "enrichers: more than %d", PFA_ENRICHERS_MAX);
	l->enrichers[l->n_enrichers].fn = fn;
	l->enrichers[l->n_enrichers].arg = arg;
	l->n_enrichers++;
	return 0;
}

bool labels_any(const struct labels *l)
{
	return l->n_enrichers > 0;
}

/* ---- one label ------------------------------------------------------------------------------- */

/* 0x80 to 0x9f are control characters too: in UTF-8 after 0xc2. */
static bool has_control(const char *s)
{
	for (const uint8_t *p = (const uint8_t *)s; *p; p++)
		if (*p < 0x20 || *p == 0x7f || (p[0] == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0))
			return true;
	return false;
}

static int check_text(const char *s, size_t max_bytes)
{
	size_t len = s ? strnlen(s, max_bytes + 1) : 0;

	/* pprof takes an empty value for the number 0. */
	if (len == 0)
		return -EINVAL;
	if (len > max_bytes)
		return -E2BIG;
	return has_control(s) ? -EINVAL : 0;
}

static bool is_ours(const char *key)
{
	static const char *const keys[] = {"pid",     "tid",      "comm", "state",
	                                   "longest", "runqueue", "waker"};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (strcmp(keys[i], key) == 0)
			return true;
	return false;
}

int label_add(struct pfa_label_sink *sink, const char *key, const char *value)
{
	_cleanup_free_ char *k = NULL, *v = NULL;
	int r = check_text(key, PFA_LABEL_KEY_BYTES);

	if (r == 0)
		r = check_text(value, PFA_LABEL_VALUE_BYTES);
	if (r < 0)
		return r;
	if (is_ours(key))
		return -EEXIST;
	for (uint32_t i = 0; i < sink->n; i++)
		if (strcmp(sink->v[i].key, key) == 0)
			return -EEXIST;
	if (sink->n == PFA_LABELS_MAX)
		return -E2BIG;
	k = strdup(key);
	v = strdup(value);
	if (!k || !v) {
		sink->error = -ENOMEM;
		return -ENOMEM;
	}
	sink->v[sink->n++] = (struct met_label){TAKE_PTR(k), TAKE_PTR(v)};
	return 0;
}

/* ---- one process ----------------------------------------------------------------------------- */

static void labels_done(struct met_label *v, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		free(v[i].key);
		free(v[i].value);
	}
}

/* Appends the cgroup of a living process. The start time tells whether the kernel reused its
 * number. */
static void find_cgroup(const struct proc_key *key, struct sbuf *b)
{
	uint64_t before, after;

	/* /proc has the start in clock ticks, rounded down. */
	if (key->foreign || key->start_ns == 0 || proc_start_ns(key->pid, &before) < 0 ||
	    before > key->start_ns || key->start_ns - before >= 10 * NSEC_PER_MSEC)
		return;
	if (proc_cgroup_path(key->pid, b) < 0 || proc_start_ns(key->pid, &after) < 0 ||
	    after != before)
		sbuf_reset(b);
}

static void ask(const struct labels *l, const struct trk *trk, const struct proc_key *key,
                const char *comm, struct pfa_label_sink *sink)
{
	_cleanup_(sbuf_done) struct sbuf cgroup;
	const struct ev_proc_id newest = {.pid = key->pid, .start_ns = key->start_ns};
	const char *name = trk && !key->foreign ? trk_comm(trk, &newest) : "";
	struct pfa_process p = {
	        .size = sizeof(p),
	        .pid = key->foreign ? 0 : key->pid,
	        .start_ns = key->start_ns,
	        .comm = name[0] ? name : comm,
	};

	sbuf_init(&cgroup, PATH_MAX);
	find_cgroup(key, &cgroup);
	p.cgroup = cgroup.len ? cgroup.p : NULL;
	for (uint32_t i = 0; i < l->n_enrichers; i++)
		l->enrichers[i].fn(l->enrichers[i].arg, &p, sink);
}

static int keep(struct labels *l, const struct proc_key *key, const struct pfa_label_sink *sink)
{
	struct label_list of = {.n = sink->n};
	uint32_t id;
	int r = vec_reserve(&l->procs, 1);

	if (r == 0 && of.n) {
		of.v = calloc(of.n, sizeof(*of.v));
		r = of.v ? 0 : -ENOMEM;
	}
	if (r == 0)
		r = intern_add(l->keys, key, sizeof(*key), &id, NULL);
	if (r < 0) {
		free(of.v);
		return r;
	}
	if (of.v)
		memcpy(of.v, sink->v, of.n * sizeof(*of.v));
	return vec_push(&l->procs, of);
}

int labels_of(struct labels *l, const struct trk *trk, const struct ev_proc_id *proc,
              bool foreign_ns, const char *comm, struct label_list *ret)
{
	const struct proc_key key = {
	        .start_ns = proc->start_ns, .pid = proc->pid, .foreign = foreign_ns};
	struct pfa_label_sink sink = {.n = 0};
	uint32_t id;
	int r;

	if (l->n_enrichers == 0) {
		*ret = (struct label_list){.n = 0};
		return 0;
	}
	r = l->keys ? 0 : intern_new(PROCS_MAX, SIZE_MAX / 2, &l->keys);
	if (r < 0)
		return r;
	id = intern_find(l->keys, &key, sizeof(key));
	if (id == INTERN_NONE) {
		if (l->procs.n == PROCS_MAX) {
			*ret = (struct label_list){.n = 0};
			return 0;
		}
		ask(l, trk, &key, comm ? comm : "", &sink);
		r = sink.error < 0 ? sink.error : keep(l, &key, &sink);
		if (r < 0) {
			labels_done(sink.v, sink.n);
			return r;
		}
		id = (uint32_t)l->procs.n - 1;
	}
	*ret = l->procs.p[id];
	return 0;
}

int labels_of_metrics(struct labels *l, const struct trk *trk, struct met_snapshot *m)
{
	int r = 0;

	if (l->n_enrichers == 0)
		return 0;
	vec_each (e, &m->procs) {
		const struct ev_proc_id id = {.pid = e->pid, .start_ns = e->start_ns};
		char comm[MET_COMM_LEN + 1] = "";
		struct label_list of = {0};

		if (e->pid == 0)
			continue;
		memcpy(comm, e->comm, MET_COMM_LEN);
		r = r < 0 ? r : labels_of(l, trk, &id, false, comm, &of);
		for (uint32_t i = 0; r == 0 && of.v && i < of.n; i++)
			r = met_entry_label(e, of.v[i].key, of.v[i].value);
	}
	return r;
}

void labels_forget(struct labels *l)
{
	vec_each (of, &l->procs) {
		labels_done(of->v, of->n);
		free(of->v);
	}
	vec_done(&l->procs);
	l->keys = intern_free(l->keys);
}

struct labels *labels_free(struct labels *l)
{
	if (!l)
		return NULL;
	labels_forget(l);
	free(l);
	return NULL;
}
