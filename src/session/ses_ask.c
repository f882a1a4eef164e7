/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about a session. Thread: control, but for ses_stats. */
#include "session/session_priv.h"

uint32_t ses_modes_run(const struct ses *s)
{
	return s->state == SES_NEW ? 0 : s->o.modes & ~s->env.left_out;
}

uint32_t ses_modes_written(const struct ses *s)
{
	return s->written;
}

uint32_t ses_extra_written(const struct ses *s)
{
	return s->extra_written;
}

bool ses_running(const struct ses *s)
{
	return s->state == SES_RUNNING;
}

int ses_ended_fd(const struct ses *s)
{
	return s->state == SES_RUNNING && s->target.ended_fd >= 0 ? s->target.ended_fd : -1;
}

int ses_command_status(struct ses *s, int *ret)
{
	int r = ses_command_poll(&s->cmd);

	if (r == 1)
		*ret = s->cmd.status;
	return r;
}

int ses_command_pid(const struct ses *s)
{
	return s->cmd.pid ? (int)s->cmd.pid : -EINVAL;
}

/* Reads the kernel side's counters: of the running programs, or the final ones. Sources of a
 * running capture also add to @ret. Thread: any with stats_lock, or control. */
static int counters_now(struct ses *s, struct abi_counters *all, struct pfa_stats *ret)
{
	int r;

	if (s->state != SES_RUNNING) {
		*all = s->tally.kernel;
		return 0;
	}
	r = load_counters(smp_walker_loader(s->walker), all);
	ses_each_source (s, i, src)
		if (src_all[i]->running && r == 0)
			r = src_all[i]->running(src, all, ret);
	return r;
}

int ses_stats(struct ses *s, struct pfa_stats *ret)
{
	struct abi_counters c;
	struct pfa_stats st = {0};
	int r = 0;

	pthread_mutex_lock(&s->stats_lock);
	if (s->state == SES_RUNNING) {
		r = counters_now(s, &c, &st);
		st.elapsed_ns = (s->env.end_ns ? s->env.end_ns : now_ns()) - s->env.start_ns;
		st.locked_bytes = s->cost.locked_bytes;
	} else {
		st = s->final;
	}
	if (s->state == SES_RUNNING && r == 0) {
		st.seen = c.v[ABI_CNT_SEEN];
		st.kept = c.v[ABI_CNT_KEPT];
		st.dropped = tally_dropped(&s->tally, &c);
		st.idle = c.v[ABI_CNT_TICK_IDLE];
		st.stacks = c.v[ABI_CNT_STACK_SHIPPED];
		st.agent_cpu_ns = ses_agent_cpu_ns(s, &c);
	}
	pthread_mutex_unlock(&s->stats_lock);
	if (r == 0)
		*ret = st;
	return r;
}

int ses_counter(struct ses *s, size_t i, struct pfa_counter *ret)
{
	struct abi_counters c;
	struct pfa_stats st = {0};
	int r = counters_now(s, &c, &st);

	return r < 0 ? r : tally_counter(&s->tally, &c, i, ret);
}

const char *ses_note(const struct ses *s, size_t i)
{
	return i < s->tally.n_notes ? s->tally.notes[i] : NULL;
}

/* The product of a profile; NULL: the capture has not ended. */
static const struct src_product *profile_of(const struct ses *s, enum pfa_kind kind)
{
	for (size_t i = 0; i < SRC_CNT && s->state == SES_STOPPED; i++)
		if (src_all[i]->kind && src_all[i]->profile_kind == (uint32_t)kind)
			return &s->product[i];
	return NULL;
}

const char *ses_quality(const struct ses *s, enum pfa_kind kind, size_t i)
{
	const struct src_product *p = profile_of(s, kind);

	return p && i < p->quality.v.n ? p->quality.v.p[i] : NULL;
}

const struct prof_model *ses_model(const struct ses *s, enum pfa_kind kind)
{
	const struct src_product *p = profile_of(s, kind);

	return p ? p->result.model : NULL;
}

int ses_top(const struct ses *s, enum pfa_kind kind, struct pfa_function *ret, size_t max)
{
	_cleanup_free_ struct prof_top *top = NULL;
	const struct src_product *p = profile_of(s, kind);
	const struct prof_model *m = ses_model(s, kind);
	size_t n = 0;
	int r;

	if (!m)
		return -EINVAL;
	r = prof_model_top_beyond(m, 1, p->kind.skip, max, &top, &n);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		ret[i] = (struct pfa_function){.name = prof_model_str(m, top[i].name),
		                               .module = prof_top_module(m, &top[i]),
		                               .self = (uint64_t)top[i].self,
		                               .cum = (uint64_t)top[i].cum};
	return (int)n;
}

int ses_functions(const struct ses *s, enum pfa_kind kind, bool by_process,
                  struct pfa_hot_function *ret, size_t max)
{
	const struct src_product *p = profile_of(s, kind);

	return p && p->result.model
	               ? result_functions(&p->result, p->kind.skip, by_process, ret, max)
	               : -EINVAL;
}

int ses_top_offcpu_sites(const struct ses *s, struct pfa_offcpu_site *ret, size_t max)
{
	const struct src_product *p = profile_of(s, PFA_KIND_OFFCPU);

	return p && p->result.model ? result_sites(p->result.model, ret, max) : -EINVAL;
}

const struct met_snapshot *ses_metrics(const struct ses *s)
{
	const struct met_snapshot *m = NULL;

	for (size_t i = 0; i < SRC_CNT && s->state == SES_STOPPED; i++)
		m = s->product[i].metrics ? s->product[i].metrics : m;
	return m;
}

const char *ses_weight_unit(const struct ses *s)
{
	for (size_t i = 0; i < SRC_CNT; i++)
		if (s->product[i].kind.cycles)
			return "cycles";
	return "nanoseconds";
}
