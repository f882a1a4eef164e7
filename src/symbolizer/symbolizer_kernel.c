/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/symbolizer_priv.h"

#include <limits.h>
#include <unistd.h>

struct kernel_names {
	struct tally *tally;

	/* Guards the members down to cached. The first thread that needs the table loads it. A
	 * leaf. */
	pthread_mutex_t table_lock;
	struct ksyms *table, *old; /* old: the table before it was read again */
	uint64_t read_ns, state;   /* when it was read, and ksyms_state then */
	int error;
	bool tried, cached;

	/* Guards records: the drain thread must not wait while a table is loaded. A leaf. */
	pthread_mutex_t records_lock;
	struct ksyms_log *records; /* NULL: no record came */
};

int kernel_names_new(struct tally *tally, struct kernel_names **ret)
{
	struct kernel_names *k = calloc(1, sizeof(*k));

	if (!k)
		return -ENOMEM;
	k->tally = tally;
	/* Plain mutexes: glibc's cannot fail to be made. */
	(void)pthread_mutex_init(&k->table_lock, NULL);
	(void)pthread_mutex_init(&k->records_lock, NULL);
	*ret = k;
	return 0;
}

struct kernel_names *kernel_names_free(struct kernel_names *k)
{
	if (!k)
		return NULL;
	k->table = ksyms_free(k->table);
	k->old = ksyms_free(k->old);
	k->records = ksyms_log_free(k->records);
	(void)pthread_mutex_destroy(&k->table_lock); /* no thread holds it */
	(void)pthread_mutex_destroy(&k->records_lock);
	free(k);
	return NULL;
}

void kernel_names_record(struct kernel_names *k, const struct ev_proc *ev)
{
	int r = 0;

	tally_count(k->tally, TALLY_KSYMBOLS, 1);
	pthread_mutex_lock(&k->records_lock);
	if (!k->records)
		r = ksyms_log_new(&k->records);
	if (r == 0)
		r = ksyms_log_add(k->records, &ev->ksym, ev->time_ns);
	pthread_mutex_unlock(&k->records_lock);
	if (r < 0)
		tally_count(k->tally, TALLY_KSYMBOLS_DROPPED, 1);
}

/* Only root may use a cache. The addresses are secret from other users, and a program with file
 * capabilities may not reveal them to other programs of its user. */
static bool may_keep(struct sbuf *home)
{
	return getuid() == 0 && geteuid() == 0 && ksyms_cache_home(home) == 0;
}

/* Loads the table. Under table_lock. @again: from kallsyms, replacing the current one. */
static void load_table(struct kernel_names *k, bool again)
{
	struct ksyms_options o = {.uid = geteuid()};
	struct ksyms *table = NULL;
	enum ksyms_cache how;
	struct sbuf home;
	uint64_t begin_ns = now_ns();
	int r;

	k->tried = true;
	if (ksyms_state(&o, &k->state) < 0)
		k->state = 0;
	sbuf_init(&home, PATH_MAX);
	if (!again && may_keep(&home))
		o.cache_home = home.p;
	r = ksyms_load_cached(&o, &table, &how, NULL);
	sbuf_done(&home);
	switch (how) {
	case KSYMS_CACHE_USED:
		tally_count(k->tally, TALLY_KALLSYMS_CACHED, 1);
		break;
	case KSYMS_CACHE_REFUSED:
		tally_count(k->tally, TALLY_KALLSYMS_CACHE_REFUSED, 1);
		break;
	case KSYMS_CACHE_FAILED:
		tally_count(k->tally, TALLY_KALLSYMS_CACHE_FAILED, r == 0);
		break;
	case KSYMS_CACHE_OFF:
	case KSYMS_CACHE_WRITTEN:
		break;
	}
	if (again)
		tally_count(k->tally, TALLY_KALLSYMS_REREAD, 1);
	k->cached = how == KSYMS_CACHE_USED;
	if (r < 0 && again)
		return; /* the earlier table is better than none */
	k->error = r;
	if (r < 0)
		return;
	tally_count(k->tally, TALLY_KALLSYMS_BAD, ksyms_bad_lines(table));
	/* Other threads may still use the old table. There are at most two readings during that
	 * time. */
	k->old = ksyms_free(k->old);
	k->old = k->table;
	k->table = table;
	k->read_ns = begin_ns;
}

static int resolve(struct kernel_names *k, const uint64_t *addrs, size_t n, struct sym_batch *ret)
{
	const struct ksyms *table;
	uint64_t read_ns;
	int error, r;

	pthread_mutex_lock(&k->table_lock);
	if (!k->tried)
		load_table(k, false);
	table = k->table;
	read_ns = k->read_ns;
	error = k->error;
	pthread_mutex_unlock(&k->table_lock);
	if (table)
		r = ksyms_resolve(table, addrs, n, ret);
	else
		r = sym_none_resolve(error == -EPERM ? EV_REASON_KALLSYMS_HIDDEN
		                                     : EV_REASON_NO_KALLSYMS,
		                     addrs, n, ret);
	if (r < 0)
		return r;
	pthread_mutex_lock(&k->records_lock);
	if (k->records)
		r = ksyms_log_resolve(k->records, read_ns, addrs, n, ret);
	pthread_mutex_unlock(&k->records_lock);
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

int kernel_names_resolve(struct kernel_names *k, const uint64_t *addrs, size_t n,
                         struct sym_batch *ret)
{
	bool again;
	int r = resolve(k, addrs, n, ret);

	if (r < 0 || !has_unnamed(ret))
		return r;
	/* The cache has no BPF programs. */
	pthread_mutex_lock(&k->table_lock);
	again = k->cached;
	if (again)
		load_table(k, true);
	pthread_mutex_unlock(&k->table_lock);
	if (!again)
		return 0;
	sym_batch_done(ret);
	memset(ret, 0, sizeof(*ret));
	return resolve(k, addrs, n, ret);
}

/* Returns whether a new reading can have more than the last one. Code that was added or removed
 * since is in the records, unless some were lost. */
static bool worth_reading(struct kernel_names *k)
{
	const struct ksyms_options o = {0};
	uint64_t state;

	if (!k->table)
		return false;
	return tally_get(k->tally, TALLY_SB_LOST) > 0 ||
	       tally_get(k->tally, TALLY_KSYMBOLS_DROPPED) > 0 || ksyms_state(&o, &state) < 0 ||
	       state != k->state;
}

int kernel_names_resolve_again(struct kernel_names *k, const uint64_t *addrs, size_t n,
                               struct sym_batch *ret)
{
	int r = resolve(k, addrs, n, ret);

	if (r < 0 || !has_unnamed(ret) || !worth_reading(k))
		return r;
	sym_batch_done(ret);
	memset(ret, 0, sizeof(*ret));
	pthread_mutex_lock(&k->table_lock);
	load_table(k, true);
	pthread_mutex_unlock(&k->table_lock);
	return resolve(k, addrs, n, ret);
}

int kernel_names_error(struct kernel_names *k)
{
	int r;

	pthread_mutex_lock(&k->table_lock);
	r = k->tried ? k->error : 0;
	pthread_mutex_unlock(&k->table_lock);
	return r;
}
