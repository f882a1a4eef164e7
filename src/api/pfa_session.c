/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of a session. */
#include "api/api_priv.h"

#include "unwind/unwind.h"

_Static_assert(PFA_STATE_INTERRUPTIBLE == 1u << EV_OFFCPU_INTERRUPTIBLE &&
                       PFA_STATE_UNINTERRUPTIBLE == 1u << EV_OFFCPU_UNINTERRUPTIBLE &&
                       PFA_STATE_IOWAIT == 1u << EV_OFFCPU_IOWAIT &&
                       PFA_STATE_STOPPED == 1u << EV_OFFCPU_STOPPED &&
                       PFA_STATE_PREEMPTED == 1u << EV_OFFCPU_PREEMPTED &&
                       PFA_STATE_IDLE == 1u << EV_OFFCPU_IDLE,
               "one numbering");

const char *pfa_version(void)
{
	return PERF_AGENT_VERSION;
}

int pfa_new(const struct pfa_options *opts, struct pfa_session **ret, struct pfa_error *error)
{
	_cleanup_free_ struct pfa_session *s = NULL;
	struct pfa_options o = {0};
	struct err err = {0};
	int r;

	if (!ret)
		return api_give_error(error, &err, err_set(&err, -EINVAL, "pfa_new: ret is NULL"));
	r = api_take_struct(opts, sizeof(opts->size) + sizeof(opts->target), &o, sizeof(o),
	                    "options", "PFA_OPTIONS_INIT", &err);
	if (r < 0)
		return api_give_error(error, &err, r);
	s = calloc(1, sizeof(*s));
	if (!s)
		return api_give_error(error, &err, err_set(&err, -ENOMEM, "out of memory"));
	r = ses_new(&o, &s->ses, &err);
	if (r < 0)
		return api_give_error(error, &err, r);
	*ret = TAKE_PTR(s);
	return 0;
}

int pfa_start(struct pfa_session *s, struct pfa_error *error)
{
	struct err err = {0};

	if (s->stopping)
		return api_give_error(error, &err,
		                      err_set(&err, -EBUSY, "the session is being stopped"));
	api_metrics_forget(s);
	return api_give_error(error, &err, ses_start(s->ses, &err));
}

void pfa_interrupt(struct pfa_session *s)
{
	ses_interrupt(s->ses);
}

int pfa_stop(struct pfa_session *s, struct pfa_error *error)
{
	struct err err = {0};
	bool ran;
	int r;

	if (s->stopping)
		return api_give_error(error, &err,
		                      err_set(&err, -EBUSY, "the session is being stopped"));
	ran = ses_running(s->ses);
	s->stopping = true;
	r = ses_stop(s->ses, &err);
	if (ran)
		r = api_export(s, r, &err);
	s->stopping = false;
	return api_give_error(error, &err, r);
}

void pfa_free(struct pfa_session *s)
{
	if (!s)
		return;
	api_metrics_done(s);
	ses_free(s->ses);
	free(s);
}

int pfa_ended_fd(const struct pfa_session *s)
{
	return ses_ended_fd(s->ses);
}

int pfa_command_status(struct pfa_session *s, int *ret)
{
	return ses_command_status(s->ses, ret);
}

int pfa_command_pid(const struct pfa_session *s)
{
	return ses_command_pid(s->ses);
}

int pfa_stats(const struct pfa_session *s, struct pfa_stats *ret)
{
	struct pfa_stats full = {0};
	size_t size = ret->size;
	int r;

	if (size < sizeof(ret->size))
		return -EINVAL;
	r = ses_stats(s->ses, &full);
	if (r < 0)
		return r;
	full.size = MIN_OF(size, sizeof(full));
	memset(ret, 0, size); /* members of a newer caller are 0 */
	memcpy(ret, &full, full.size);
	return 0;
}

int pfa_counter(const struct pfa_session *s, size_t i, struct pfa_counter *ret)
{
	return ses_counter(s->ses, i, ret);
}

const char *pfa_note(const struct pfa_session *s, size_t i)
{
	return ses_note(s->ses, i);
}

const char *pfa_quality(const struct pfa_session *s, size_t i)
{
	return ses_quality(s->ses, PFA_KIND_ONCPU, i);
}

const char *pfa_quality_of(const struct pfa_session *s, uint32_t kind, size_t i)
{
	return ses_quality(s->ses, (enum pfa_kind)kind, i);
}

int pfa_top(const struct pfa_session *s, struct pfa_function *ret, size_t max)
{
	return pfa_top_of(s, PFA_KIND_ONCPU, ret, max);
}

int pfa_top_of(const struct pfa_session *s, uint32_t kind, struct pfa_function *ret, size_t max)
{
	if (max == 0 || max > 1000000)
		return -EINVAL;
	return ses_top(s->ses, (enum pfa_kind)kind, ret, max);
}

int pfa_hot_functions(const struct pfa_session *s, uint32_t kind, uint32_t flags,
                      struct pfa_hot_function *ret, size_t max)
{
	if (max == 0 || max > 1000000 || flags & ~PFA_HOT_BY_PROCESS)
		return -EINVAL;
	return ses_functions(s->ses, (enum pfa_kind)kind, flags & PFA_HOT_BY_PROCESS, ret, max);
}

int pfa_top_offcpu_sites(const struct pfa_session *s, struct pfa_offcpu_site *ret, size_t max)
{
	if (max == 0 || max > 1000000)
		return -EINVAL;
	return ses_top_offcpu_sites(s->ses, ret, max);
}

uint32_t pfa_modes_run(const struct pfa_session *s)
{
	return ses_modes_run(s->ses);
}

uint32_t pfa_modes_written(const struct pfa_session *s)
{
	return ses_modes_written(s->ses);
}

uint32_t pfa_extra_outputs_written(const struct pfa_session *s)
{
	return ses_extra_written(s->ses);
}

const char *pfa_weight_unit(const struct pfa_session *s)
{
	return ses_weight_unit(s->ses);
}

int pfa_unwind_info(const char *path, const uint64_t *pc, pfa_line_fn line, void *arg,
                    struct pfa_error *error)
{
	struct err err = {0};

	if (!path || !line)
		return api_give_error(error, &err,
		                      err_set(&err, -EINVAL,
		                              "pfa_unwind_info: path or line is NULL"));
	return api_give_error(error, &err, uw_info(path, pc, line, arg, &err));
}
