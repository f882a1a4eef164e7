/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of kernel addresses: /proc/kallsyms, or what we kept of it, read once something is asked
 * for; records of what BPF and tracing make and drop meanwhile; and kallsyms again where both have
 * no name for an address and something was loaded since.
 */
#include "session/session_priv.h"

#include <limits.h>
#include <unistd.h>

void ses_kernel_record(struct ses *s, const struct ev_proc *ev)
{
	int r = 0;

	tally_count(&s->tally, TALLY_KSYMBOLS, 1);
	pthread_mutex_lock(&s->ksyms_lock);
	if (!s->ksyms)
		r = sym_ksyms_new(&s->ksyms);
	if (r == 0)
		r = sym_ksyms_add(s->ksyms, &ev->ksym, ev->time_ns);
	pthread_mutex_unlock(&s->ksyms_lock);
	if (r < 0)
		tally_count(&s->tally, TALLY_KSYMBOLS_DROPPED, 1);
}

/* Only root's: the addresses are a secret from everybody else, and what a capability of the file
 * lets this program see, its user's other programs must not read. */
static bool may_keep(struct sbuf *home)
{
	return getuid() == 0 && geteuid() == 0 && sym_kernel_cache_home(home) == 0;
}

/* With kernel_lock. @again: the real file, in the place of what is there. */
static void load_table(struct ses *s, bool again)
{
	struct sym_kernel_options o = {.uid = geteuid()};
	struct sym_kernel *k = NULL;
	enum sym_kcache how;
	struct sbuf home;
	uint64_t begin_ns = now_ns();
	int r;

	s->kernel_tried = true;
	if (sym_kernel_state(&o, &s->kernel_state) < 0)
		s->kernel_state = 0;
	sbuf_init(&home, PATH_MAX);
	if (!again && may_keep(&home))
		o.cache_home = home.p;
	r = sym_kernel_load_cached(&o, &k, &how, NULL);
	sbuf_done(&home);
	switch (how) {
	case SYM_KCACHE_USED:
		tally_count(&s->tally, TALLY_KALLSYMS_CACHED, 1);
		break;
	case SYM_KCACHE_REFUSED:
		tally_count(&s->tally, TALLY_KALLSYMS_CACHE_REFUSED, 1);
		break;
	case SYM_KCACHE_FAILED:
		tally_count(&s->tally, TALLY_KALLSYMS_CACHE_FAILED, r == 0);
		break;
	case SYM_KCACHE_OFF:
	case SYM_KCACHE_WRITTEN:
		break;
	}
	if (again)
		tally_count(&s->tally, TALLY_KALLSYMS_REREAD, 1);
	s->kernel_cached = how == SYM_KCACHE_USED;
	if (r < 0 && again)
		return; /* the one before is better than none */
	s->kernel_error = r;
	if (r < 0)
		return;
	tally_count(&s->tally, TALLY_KALLSYMS_BAD, sym_kernel_bad_lines(k));
	/* Other threads may still look into it. There are two readings at most while they do. */
	s->kernel_old = sym_kernel_free(s->kernel_old);
	s->kernel_old = s->kernel;
	s->kernel = k;
	s->kernel_ns = begin_ns;
}

static int none(enum ev_reason reason, const uint64_t *addrs, size_t n, struct sym_batch *ret)
{
	int r = sym_none_resolve(reason, n, ret);

	for (size_t i = 0; r == 0 && i < ret->n; i++)
		ret->names[i].start = addrs[i];
	return r;
}

static int resolve(struct ses *s, const uint64_t *addrs, size_t n, struct sym_batch *ret)
{
	const struct sym_kernel *k;
	uint64_t read_ns;
	int error, r;

	pthread_mutex_lock(&s->kernel_lock);
	if (!s->kernel_tried)
		load_table(s, false);
	k = s->kernel;
	read_ns = s->kernel_ns;
	error = s->kernel_error;
	pthread_mutex_unlock(&s->kernel_lock);
	if (k)
		r = sym_kernel_resolve(k, addrs, n, ret);
	else
		r = none(error == -EPERM ? EV_REASON_KALLSYMS_HIDDEN : EV_REASON_NO_KALLSYMS, addrs,
		         n, ret);
	if (r < 0)
		return r;
	pthread_mutex_lock(&s->ksyms_lock); /* D adds to the records */
	if (s->ksyms)
		r = sym_ksyms_resolve(s->ksyms, read_ns, addrs, n, ret);
	pthread_mutex_unlock(&s->ksyms_lock);
	if (r < 0)
		sym_batch_done(ret);
	return r;
}

static bool has_unnamed(const struct sym_batch *b)
{
	for (size_t i = 0; i < b->n; i++)
		if (b->names[i].reason == EV_REASON_NO_SYMBOL)
			return true;
	return false;
}

int ses_kernel_names(struct ses *s, const uint64_t *addrs, size_t n, struct sym_batch *ret)
{
	bool again;
	int r = resolve(s, addrs, n, ret);

	if (r < 0 || !has_unnamed(ret))
		return r;
	/* What we keep has no programs of BPF. */
	pthread_mutex_lock(&s->kernel_lock);
	again = s->kernel_cached;
	if (again)
		load_table(s, true);
	pthread_mutex_unlock(&s->kernel_lock);
	if (!again)
		return 0;
	sym_batch_done(ret);
	memset(ret, 0, sizeof(*ret));
	return resolve(s, addrs, n, ret);
}

/* Can a new reading tell more than the last one? What was made and dropped meanwhile is in the
 * records, unless some were lost. */
static bool worth_reading(struct ses *s)
{
	const struct sym_kernel_options o = {0};
	uint64_t state;

	if (!s->kernel)
		return false;
	return tally_get(&s->tally, TALLY_SB_LOST) > 0 ||
	       tally_get(&s->tally, TALLY_KSYMBOLS_DROPPED) > 0 ||
	       sym_kernel_state(&o, &state) < 0 || state != s->kernel_state;
}

static int cmp_addr(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

void ses_kernel_finish(struct ses *s)
{
	VEC(uint64_t) addrs = VEC_INIT(UINT32_MAX);
	struct ses_result res = {.image = SES_KERNEL_IMAGE};
	int r = 0;

	vec_each (b, &s->results) {
		for (size_t i = 0; b->image == SES_KERNEL_IMAGE && i < b->batch.n && r == 0; i++)
			if (b->batch.names[i].reason != EV_REASON_NAMED)
				r = vec_push(&addrs, b->addrs[i]);
	}
	if (r < 0 || addrs.n == 0) {
		vec_done(&addrs); /* they stay without a name */
		return;
	}
	qsort(addrs.p, addrs.n, sizeof(*addrs.p), cmp_addr); /* each was asked for once */
	r = resolve(s, addrs.p, addrs.n, &res.batch);
	if (r == 0 && has_unnamed(&res.batch) && worth_reading(s)) {
		sym_batch_done(&res.batch);
		memset(&res.batch, 0, sizeof(res.batch));
		pthread_mutex_lock(&s->kernel_lock);
		load_table(s, true);
		pthread_mutex_unlock(&s->kernel_lock);
		r = resolve(s, addrs.p, addrs.n, &res.batch);
	}
	if (r < 0) {
		vec_done(&addrs);
		return;
	}
	res.addrs = addrs.p;
	ses_result_add(s, &res);
}
