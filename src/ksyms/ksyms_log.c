/* SPDX-License-Identifier: Apache-2.0 */
/* Names of code that the kernel adds at run time, from KSYMBOL records. /proc/kallsyms has the
 * start of such code at the moment of reading; a record has its length, and when it was added or
 * removed. */
#include "ksyms/ksyms_priv.h"

#define RECORDS_MAX (256 * 1024)
#define NAMES_MAX   (16 * 1024 * 1024)

struct record {
	uint64_t start, end, time_ns;
	uint32_t name; /* bytes of names */
	bool bpf;
};

struct ksyms_log {
	VEC(struct record) v; /* by time */
	struct intern *names; /* with NUL */
};

int ksyms_log_new(struct ksyms_log **ret)
{
	_cleanup_(ksyms_log_freep) struct ksyms_log *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->v.max = RECORDS_MAX;
	r = intern_new(RECORDS_MAX, NAMES_MAX, &s->names);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(s);
	return 0;
}

struct ksyms_log *ksyms_log_free(struct ksyms_log *s)
{
	if (!s)
		return NULL;
	vec_done(&s->v);
	intern_free(s->names);
	free(s);
	return NULL;
}

void ksyms_log_freep(struct ksyms_log **s)
{
	*s = ksyms_log_free(*s);
}

int ksyms_log_add(struct ksyms_log *s, const struct ev_ksymbol *k, uint64_t time_ns)
{
	struct record rec = {.start = k->start, .time_ns = time_ns, .bpf = k->bpf};
	size_t len = strlen(k->name);
	int r;

	if (!ksyms_name_ok((const uint8_t *)k->name, len) || memchr(k->name, '\t', len) ||
	    k->len == 0 || __builtin_add_overflow(k->start, k->len, &rec.end))
		return -EINVAL;
	r = vec_reserve(&s->v, 1);
	if (r == 0)
		r = intern_add(s->names, k->name, len + 1, &rec.name, NULL);
	return r < 0 ? r : vec_push(&s->v, rec);
}

/* The name as kallsyms would show it. */
static const char *suffix_of(const struct record *rec, const char *name)
{
	if (rec->bpf)
		return " [bpf]";
	if (str_starts(name, "ftrace"))
		return " [__builtin__ftrace]";
	return str_starts(name, "kprobe") ? " [__builtin__kprobes]" : "";
}

static int rename_one(const struct ksyms_log *s, const struct record *rec, struct sym_batch *b,
                      size_t i, struct sbuf *scratch)
{
	const char *name = intern_get(s->names, rec->name, NULL);
	uint32_t frame;
	int r = sym_batch_symbol(b, name, suffix_of(rec, name), scratch, &frame);

	if (r == -ENOMEM)
		return r;
	b->names[i] = (struct sym_name){
	        .start = rec->start,
	        .first = r < 0 ? 0 : frame,
	        .n = r < 0 ? 0 : 1,
	        .reason = r < 0 ? EV_REASON_NO_MEMORY : EV_REASON_NAMED,
	};
	return 0;
}

int ksyms_log_resolve(const struct ksyms_log *s, uint64_t table_ns, const uint64_t *addrs, size_t n,
                      struct sym_batch *b)
{
	/* last[n]: 1 + index of the newest record of that address */
	_cleanup_free_ uint32_t *last = NULL;
	_cleanup_(sbuf_done) struct sbuf scratch;
	int r = 0;

	if (s->v.n == 0 || n == 0)
		return 0;
	sbuf_init(&scratch, SYM_DEMANGLED_MAX + 64);
	last = calloc(n, sizeof(*last));
	if (!last)
		return -ENOMEM;
	for (size_t k = 0; k < s->v.n; k++)
		for (size_t i = bisect_first(m, 0, n, addrs[m] >= s->v.p[k].start);
		     i < n && addrs[i] < s->v.p[k].end; i++)
			last[i] = (uint32_t)k + 1;
	for (size_t i = 0; i < n && r == 0; i++) {
		const struct record *rec = last[i] ? &s->v.p[last[i] - 1] : NULL;
		const struct sym_name *now = &b->names[i];

		if (rec && (now->reason != EV_REASON_NAMED || rec->time_ns > table_ns ||
		            rec->start > now->start))
			r = rename_one(s, rec, b, i, &scratch);
	}
	return r;
}
