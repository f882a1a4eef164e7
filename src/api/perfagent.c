/* SPDX-License-Identifier: Apache-2.0 */
/* api - the public face: struct pfa_options in, session out. Values of the public enums are those
 * of the session. */
#include "api/api_priv.h"

_Static_assert((int)PFA_TARGET_PID == (int)SES_TARGET_PID &&
                       (int)PFA_TARGET_ALL == (int)SES_TARGET_ALL &&
                       (int)PFA_TARGET_COMMAND == (int)SES_TARGET_COMMAND,
               "one numbering");
_Static_assert((int)PFA_EVENT_CPU_CLOCK == (int)SES_EVENT_CPU_CLOCK &&
                       (int)PFA_EVENT_CYCLES == (int)SES_EVENT_CYCLES &&
                       (int)PFA_EVENT_AUTO == (int)SES_EVENT_AUTO,
               "one numbering");
_Static_assert((int)PFA_UNWIND_AUTO == (int)SES_UNWIND_AUTO &&
                       (int)PFA_UNWIND_FP == (int)SES_UNWIND_FP &&
                       (int)PFA_UNWIND_DWARF == (int)SES_UNWIND_DWARF,
               "one numbering");
_Static_assert(PFA_MODE_PROFILE == SES_PROFILE && PFA_MODE_OFFCPU == SES_OFFCPU &&
                       PFA_MODE_PMU == SES_PMU,
               "one numbering");
_Static_assert(PFA_STATE_INTERRUPTIBLE == 1u << EV_OFF_INTERRUPTIBLE &&
                       PFA_STATE_UNINTERRUPTIBLE == 1u << EV_OFF_UNINTERRUPTIBLE &&
                       PFA_STATE_IOWAIT == 1u << EV_OFF_IOWAIT &&
                       PFA_STATE_STOPPED == 1u << EV_OFF_STOPPED &&
                       PFA_STATE_PREEMPTED == 1u << EV_OFF_PREEMPTED &&
                       PFA_STATE_IDLE == 1u << EV_OFF_IDLE,
               "one numbering");
_Static_assert((int)PFA_KIND_ONCPU == (int)SES_KIND_ONCPU &&
                       (int)PFA_KIND_OFFCPU == (int)SES_KIND_OFFCPU,
               "one numbering");
_Static_assert(PFA_PIDS_MAX == SES_PIDS_MAX && PFA_FILTERS_MAX == SES_FILTERS_MAX, "one limit");
_Static_assert(sizeof(((struct pfa_error *)0)->message) == sizeof(((struct err *)0)->msg),
               "copied whole");

#define DEFAULT_RATE_HZ 99 /* not in step with what runs at 100 Hz */

int api_give_error(struct pfa_error *to, const struct err *from, int code)
{
	if (to && code < 0) {
		to->code = code;
		(void)str_copy(to->message, sizeof(to->message),
		               from->msg[0] ? from->msg : err_name(code));
	}
	return code;
}

const char *pfa_version(void)
{
	return PERF_AGENT_VERSION;
}

int api_take_struct(const void *in, size_t least, void *ret, size_t size, const char *what,
                    const char *init, struct err *err)
{
	const uint8_t *bytes = in;
	size_t theirs = 0;

	if (in)
		memcpy(&theirs, in, sizeof(theirs));
	if (theirs < least)
		return err_set(err, -EINVAL, "%s: size is not set: use %s", what, init);
	for (size_t i = size; i < theirs; i++)
		if (bytes[i])
			return err_set(err, -E2BIG,
			               "%s: made for a newer library than " PERF_AGENT_VERSION,
			               what);
	memset(ret, 0, size);
	memcpy(ret, in, MIN_OF(theirs, size));
	return 0;
}

int pfa_new(const struct pfa_options *opts, struct pfa_session **ret, struct pfa_error *error)
{
	_cleanup_free_ struct pfa_session *s = NULL;
	struct pfa_options o = {0};
	struct ses_options so = {0};
	struct err err = {0};
	int r;

	if (!ret)
		return api_give_error(error, &err,
		                      err_set(&err, -EINVAL, "pfa_new: no place for the session"));
	r = api_take_struct(opts, sizeof(opts->size) + sizeof(opts->target), &o, sizeof(o),
	                    "options", "PFA_OPTIONS_INIT", &err);
	if (r == 0 && (o.flags & ~(PFA_NO_KERNEL_STACKS | PFA_EXCLUDE_OWN_PROCESS | PFA_NO_LINES |
	                           PFA_FOLLOW_CHILDREN | PFA_DECODE_IN_PROCESS | PFA_OFFCPU_WAKERS |
	                           PFA_PER_PID)))
		r = err_set(&err, -EINVAL, "flags: unknown bits 0x%x", o.flags);
	if (r == 0 && o.reserved0)
		r = err_set(&err, -EINVAL, "reserved0: must be 0");
	if (r == 0 && o.pmu_format > PFA_FORMAT_JSON)
		r = err_set(&err, -EINVAL, "format of metrics: unknown: %u", o.pmu_format);
	if (r == 0 && o.unwind > PFA_UNWIND_FP)
		r = err_set(&err, -EINVAL, "unwind: unknown mode %u", o.unwind);
	if (r == 0 && (o.target < PFA_TARGET_PID || o.target > PFA_TARGET_COMMAND))
		r = err_set(&err, -EINVAL, "target: one of PID, ALL and COMMAND is needed");
	if (r < 0)
		return api_give_error(error, &err, r);
	s = calloc(1, sizeof(*s));
	if (!s)
		return api_give_error(error, &err, err_set(&err, -ENOMEM, "out of memory"));
	so.target = (enum ses_target)o.target;
	so.pid = o.pid;
	so.pids = o.pids;
	so.tids = o.tids;
	so.follow_children = (o.flags & PFA_FOLLOW_CHILDREN) != 0;
	so.argv = o.argv;
	so.comms = o.comms;
	so.cgroups = o.cgroups;
	so.rate_hz = o.sample_rate_hz ? o.sample_rate_hz : DEFAULT_RATE_HZ;
	so.event = (enum ses_event)o.event;
	so.kernel_stacks = !(o.flags & PFA_NO_KERNEL_STACKS);
	so.exclude_process = (o.flags & PFA_EXCLUDE_OWN_PROCESS) != 0;
	so.tags = o.tags;
	so.profile.path = o.profile_path;
	so.profile.fd = o.profile_fd;
	so.profile.write = o.profile_write;
	so.profile.arg = o.profile_write_arg;
	so.modes = o.modes;
	so.offcpu.path = o.offcpu_path;
	so.offcpu.fd = o.offcpu_fd;
	so.offcpu.write = o.offcpu_write;
	so.offcpu.arg = o.offcpu_write_arg;
	so.pmu.path = o.pmu_path;
	so.pmu.fd = o.pmu_fd;
	so.pmu.write = o.pmu_write;
	so.pmu.arg = o.pmu_write_arg;
	so.pmu_json = o.pmu_format == PFA_FORMAT_JSON;
	so.per_pid = (o.flags & PFA_PER_PID) != 0;
	so.off_states = o.offcpu_states;
	so.off_wakers = (o.flags & PFA_OFFCPU_WAKERS) != 0;
	so.off_min_ns = o.offcpu_min_ns;
	so.off_max_ns = o.offcpu_max_ns;
	so.off_threads = o.offcpu_threads;
	so.ring_bytes = o.ring_bytes;
	so.count_entries = o.count_entries;
	so.range_entries = o.range_entries;
	so.drain_interval_ms = o.drain_interval_ms;
	so.unwind = (enum ses_unwind)o.unwind;
	so.table_budget_bytes = o.table_budget_bytes;
	so.debug_dirs = o.debug_dirs;
	so.symbol_budget_bytes = o.symbol_budget_bytes;
	so.no_lines = (o.flags & PFA_NO_LINES) != 0;
	so.decode_in_process = (o.flags & PFA_DECODE_IN_PROCESS) != 0;
	r = ses_new(&so, &s->ses, &err);
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
	struct ses_stats st;
	struct pfa_stats full = {0};
	size_t size = ret->size;
	int r;

	if (size < sizeof(ret->size))
		return -EINVAL;
	r = ses_stats(s->ses, &st);
	if (r < 0)
		return r;
	full.size = MIN_OF(size, sizeof(full));
	full.elapsed_ns = st.elapsed_ns;
	full.seen = st.seen;
	full.kept = st.kept;
	full.dropped = st.dropped;
	full.idle = st.idle;
	full.weight = st.weight;
	full.stacks = st.stacks;
	full.agent_cpu_ns = st.agent_cpu_ns;
	full.locked_bytes = st.locked_bytes;
	full.waits_seen = st.waits_seen;
	full.waits = st.waits;
	full.waits_dropped = st.waits_dropped;
	full.wait_ns = st.wait_ns;
	memset(ret, 0, size); /* what a newer caller asks for beyond us reads 0 */
	memcpy(ret, &full, full.size);
	return 0;
}

int pfa_counter(const struct pfa_session *s, size_t i, struct pfa_counter *ret)
{
	struct tally_counter c;
	int r = ses_counter(s->ses, i, &c);

	if (r < 0)
		return r;
	*ret = (struct pfa_counter){
	        .name = c.name, .unit = c.unit, .help = c.help, .value = c.value};
	return 0;
}

const char *pfa_note(const struct pfa_session *s, size_t i)
{
	return ses_note(s->ses, i);
}

const char *pfa_quality(const struct pfa_session *s, size_t i)
{
	return ses_quality(s->ses, SES_KIND_ONCPU, i);
}

const char *pfa_quality_of(const struct pfa_session *s, uint32_t kind, size_t i)
{
	return kind < SES_KIND_CNT ? ses_quality(s->ses, (enum ses_kind)kind, i) : NULL;
}

int pfa_top(const struct pfa_session *s, struct pfa_function *ret, size_t max)
{
	return pfa_top_of(s, PFA_KIND_ONCPU, ret, max);
}

int pfa_top_of(const struct pfa_session *s, uint32_t kind, struct pfa_function *ret, size_t max)
{
	_cleanup_free_ struct ses_function *f = NULL;
	int n;

	if (kind >= SES_KIND_CNT)
		return -EINVAL;
	if (max == 0 || max > 1000000)
		return -EINVAL;
	f = calloc(max, sizeof(*f));
	if (!f)
		return -ENOMEM;
	n = ses_top(s->ses, (enum ses_kind)kind, f, max);
	for (int i = 0; i < n; i++)
		ret[i] = (struct pfa_function){.name = f[i].name,
		                               .module = f[i].module,
		                               .self = f[i].self,
		                               .cum = f[i].cum};
	return n;
}

int pfa_top_waits(const struct pfa_session *s, struct pfa_wait *ret, size_t max)
{
	_cleanup_free_ struct result_site *w = NULL;
	int n;

	if (max == 0 || max > 1000000)
		return -EINVAL;
	w = calloc(max, sizeof(*w));
	if (!w)
		return -ENOMEM;
	n = ses_top_waits(s->ses, w, max);
	for (int i = 0; i < n; i++)
		ret[i] = (struct pfa_wait){.name = w[i].name,
		                           .module = w[i].module,
		                           .where = w[i].where,
		                           .where_cnt = w[i].where_cnt,
		                           .unnamed_cnt = w[i].unnamed_cnt,
		                           .wait_ns = w[i].wait_ns,
		                           .waits = w[i].waits,
		                           .longest_ns = w[i].longest_ns};
	return n;
}

uint32_t pfa_modes_run(const struct pfa_session *s)
{
	return ses_modes_run(s->ses);
}

uint32_t pfa_modes_written(const struct pfa_session *s)
{
	return ses_modes_written(s->ses);
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
		return api_give_error(
		        error, &err,
		        err_set(&err, -EINVAL,
		                "pfa_unwind_info: no path, or nobody to give lines to"));
	return api_give_error(error, &err, ses_unwind_info(path, pc, line, arg, &err));
}
