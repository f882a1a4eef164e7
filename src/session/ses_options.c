/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a session: checked, and copied. */
#include "session/session_priv.h"

#define DEFAULT_RATE_HZ  99 /* not in step with what runs at 100 Hz */
#define DEFAULT_DRAIN_MS 100
#define TAG_BYTES        4096 /* longest tag, and how many there may be */
#define TAGS_MAX         1024
_Static_assert(TAGS_MAX + 1 + 2 * PFA_FILTERS_MAX <= MET_TAGS_MAX, "all of them have room");
#define FLAGS                                                                                      \
	(PFA_NO_KERNEL_STACKS | PFA_EXCLUDE_OWN_PROCESS | PFA_NO_LINES | PFA_FOLLOW_CHILDREN |     \
	 PFA_DECODE_IN_PROCESS | PFA_OFFCPU_WAKERS | PFA_PER_PID | PFA_TIMELINE)

/* ---- checks ---------------------------------------------------------------------------------- */

static int check_output(const struct pfa_output *t, const char *title, struct err *err)
{
	if ((t->path != NULL) + (t->fd != 0) + (t->write != NULL) > 1)
		return err_set(
		        err, -EINVAL,
		        "output of the %s: has more than one of path, descriptor and call-back",
		        title);
	if (t->reserved0)
		return err_set(err, -EINVAL, "output of the %s: reserved0 must be 0", title);
	return t->fd < 0 ? err_set(err, -EINVAL, "output of the %s: descriptor %d is negative",
	                           title, t->fd)
	                 : 0;
}

static int check_target(const struct pfa_options *o, struct err *err)
{
	if (o->target < PFA_TARGET_PID || o->target > PFA_TARGET_COMMAND)
		return err_set(err, -EINVAL, "target: must be PID, ALL or COMMAND");
	if (o->target == PFA_TARGET_COMMAND && (!o->argv || !o->argv[0] || !o->argv[0][0]))
		return err_set(err, -EINVAL, "argv: no command");
	if (o->target != PFA_TARGET_COMMAND && o->argv)
		return err_set(err, -EINVAL, "argv: needs the target COMMAND");
	return tgt_check(o, err);
}

static uint32_t all_modes(void)
{
	uint32_t all = 0;

	for (size_t i = 0; i < SRC_CNT; i++)
		all |= src_all[i]->mode;
	return all;
}

static int check_modes(const struct pfa_options *o, struct err *err)
{
	int r = 0;

	if (o->modes & ~all_modes())
		return err_set(err, -EINVAL, "modes: unknown bits 0x%x", o->modes & ~all_modes());
	for (size_t i = 0; i < SRC_CNT && r == 0; i++) {
		const struct source *s = src_all[i];

		r = check_output(src_output(s, o), s->title, err);
		if (r == 0 && s->check)
			r = s->check(o, err);
	}
	return r;
}

static int check_strings(const struct pfa_options *o, struct err *err)
{
	for (const char *const *d = o->debug_dirs; d && *d; d++) {
		if (d - o->debug_dirs == SES_DEBUG_DIRS_MAX)
			return err_set(err, -EINVAL, "debug directories: more than %d",
			               SES_DEBUG_DIRS_MAX);
		if (!**d)
			return err_set(err, -EINVAL, "debug directories: a path is empty");
	}
	for (const char *const *t = o->tags; t && *t; t++) {
		const char *eq = strchr(*t, '=');

		if (t - o->tags == TAGS_MAX)
			return err_set(err, -EINVAL, "tag: more than %d", TAGS_MAX);
		if (strlen(*t) > TAG_BYTES)
			return err_set(err, -EINVAL,
			               "tag: '%.40s...' has %zu bytes, the limit is %d", *t,
			               strlen(*t), TAG_BYTES);
		if (!eq || eq == *t)
			return err_set(err, -EINVAL, "tag: '%s' is not of the form key=value", *t);
	}
	return 0;
}

static int check_budgets(const struct pfa_options *o, struct err *err)
{
	if (o->table_budget_bytes && (o->table_budget_bytes < SES_BUDGET_MIN_BYTES ||
	                              o->table_budget_bytes > SES_BUDGET_MAX_BYTES))
		return err_set(err, -EINVAL,
		               "table budget: %llu bytes are not between 1 MiB and 1 GiB",
		               (unsigned long long)o->table_budget_bytes);
	if (o->symbol_budget_bytes && (o->symbol_budget_bytes < SES_SYMBOLS_MIN_BYTES ||
	                               o->symbol_budget_bytes > SES_SYMBOLS_MAX_BYTES))
		return err_set(err, -EINVAL,
		               "symbol budget: %llu bytes are not between 1 MiB and 16 GiB",
		               (unsigned long long)o->symbol_budget_bytes);
	if (o->ring_bytes > (1U << 30) || o->count_entries > (1U << 24) ||
	    o->range_entries > (1U << 24) || o->drain_interval_ms > 10000)
		return err_set(
		        err, -EINVAL,
		        "sizes: over the limit (ring 1 GiB, tables 16 M entries, drain 10 s)");
	return 0;
}

int ses_options_check(const struct pfa_options *o, struct err *err)
{
	int r;

	if (o->flags & ~FLAGS)
		return err_set(err, -EINVAL, "flags: unknown bits 0x%x", o->flags & ~FLAGS);
	if (o->event > PFA_EVENT_AUTO)
		return err_set(err, -EINVAL, "event: unknown value %u", o->event);
	if (o->unwind > PFA_UNWIND_FP)
		return err_set(err, -EINVAL, "unwind: unknown value %u", o->unwind);
	r = check_target(o, err);
	if (r == 0)
		r = check_modes(o, err);
	if (r == 0)
		r = ses_extra_check(o, err);
	if (r == 0)
		r = check_budgets(o, err);
	return r == 0 ? check_strings(o, err) : r;
}

/* ---- copies ---------------------------------------------------------------------------------- */

static char **dup_strings(const char *const *v)
{
	size_t n = 0;
	char **r;

	while (v[n])
		n++;
	r = calloc(n + 1, sizeof(*r));
	for (size_t i = 0; r && i < n; i++) {
		r[i] = strdup(v[i]);
		if (!r[i]) {
			while (i > 0)
				free(r[--i]);
			free(r);
			return NULL;
		}
	}
	return r;
}

static void free_strings(const char *const *v)
{
	union {
		const char *const *in;
		char **out;
	} u = {.in = v};

	for (size_t i = 0; v && v[i]; i++)
		free(u.out[i]);
	free(u.out);
}

static size_t numbers_cnt(const int32_t *v)
{
	size_t n = 0;

	while (v[n])
		n++;
	return n;
}

static int32_t *dup_numbers(const int32_t *v)
{
	size_t n = numbers_cnt(v);
	int32_t *r = calloc(n + 1, sizeof(*r));

	if (r && n)
		memcpy(r, v, n * sizeof(*r));
	return r;
}

static void free_numbers(const int32_t *v)
{
	free((void *)(uintptr_t)v);
}

static bool dup_path(const struct pfa_output *from, struct pfa_output *to)
{
	to->path = from->path ? strdup(from->path) : NULL;
	return !from->path || to->path;
}

int ses_options_dup(const struct pfa_options *o, struct pfa_options *ret)
{
	const struct {
		const char *const *from, *const **to;
	} strings[] = {{o->argv, &ret->argv},
	               {o->tags, &ret->tags},
	               {o->debug_dirs, &ret->debug_dirs},
	               {o->comms, &ret->comms},
	               {o->cgroups, &ret->cgroups}};
	bool good = true;

	*ret = *o;
	for (size_t i = 0; i < ARRAY_SIZE(strings); i++) {
		*strings[i].to =
		        strings[i].from ? (const char *const *)dup_strings(strings[i].from) : NULL;
		good &= !strings[i].from || *strings[i].to;
	}
	ret->pids = o->pids ? dup_numbers(o->pids) : NULL;
	ret->tids = o->tids ? dup_numbers(o->tids) : NULL;
	good &= (!o->pids || ret->pids) && (!o->tids || ret->tids);
	good &= dup_path(&o->profile, &ret->profile);
	good &= dup_path(&o->offcpu, &ret->offcpu);
	good &= dup_path(&o->pmu, &ret->pmu);
	good &= ses_extra_dup(o, ret) == 0;
	if (!ret->modes)
		ret->modes = PFA_MODE_PROFILE;
	if (!ret->sample_rate_hz)
		ret->sample_rate_hz = DEFAULT_RATE_HZ;
	if (!ret->drain_interval_ms)
		ret->drain_interval_ms = DEFAULT_DRAIN_MS;
	if (!good)
		ses_options_done(ret);
	return good ? 0 : -ENOMEM;
}

static void free_path(struct pfa_output *t)
{
	free((void *)(uintptr_t)t->path);
}

void ses_options_done(struct pfa_options *o)
{
	free_strings(o->argv);
	free_strings(o->tags);
	free_strings(o->debug_dirs);
	free_strings(o->comms);
	free_strings(o->cgroups);
	free_numbers(o->pids);
	free_numbers(o->tids);
	free_path(&o->profile);
	free_path(&o->offcpu);
	free_path(&o->pmu);
	ses_extra_done(o);
	*o = (struct pfa_options){0};
}
