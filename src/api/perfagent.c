/* SPDX-License-Identifier: Apache-2.0 */
/* api - the public face: struct pfa_options in, session out. Values of the public enums are those
 * of the session. */
#include "perfagent/perfagent.h"

#include "session/session.h"

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
_Static_assert(sizeof(((struct pfa_error *)0)->message) == sizeof(((struct err *)0)->msg),
               "copied whole");

struct pfa_session {
	struct ses *ses;
};

#define DEFAULT_RATE_HZ 99 /* not in step with what runs at 100 Hz */

static int give_error(struct pfa_error *to, const struct err *from, int code)
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

/* Takes what the caller knows; the rest is zero. -E2BIG when it knows more than we and uses it. */
static int take_options(const struct pfa_options *in, struct pfa_options *ret, struct err *err)
{
	const uint8_t *bytes = (const uint8_t *)in;

	if (!in || in->size < sizeof(in->size) + sizeof(in->target))
		return err_set(err, -EINVAL, "options: size is not set: use PFA_OPTIONS_INIT");
	for (size_t i = sizeof(*ret); i < in->size; i++)
		if (bytes[i])
			return err_set(
			        err, -E2BIG,
			        "options: made for a newer library than " PERF_AGENT_VERSION);
	memset(ret, 0, sizeof(*ret));
	memcpy(ret, in, MIN_OF(in->size, sizeof(*ret)));
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
		return give_error(error, &err,
		                  err_set(&err, -EINVAL, "pfa_new: no place for the session"));
	r = take_options(opts, &o, &err);
	if (r == 0 && (o.flags & ~(PFA_NO_KERNEL_STACKS | PFA_EXCLUDE_OWN_PROCESS)))
		r = err_set(&err, -EINVAL, "flags: unknown bits 0x%x", o.flags);
	if (r == 0 && o.reserved0)
		r = err_set(&err, -EINVAL, "reserved0: must be 0");
	if (r == 0 && o.unwind > PFA_UNWIND_FP)
		r = err_set(&err, -EINVAL, "unwind: unknown mode %u", o.unwind);
	if (r == 0 && (o.target < PFA_TARGET_PID || o.target > PFA_TARGET_COMMAND))
		r = err_set(&err, -EINVAL, "target: one of PID, ALL and COMMAND is needed");
	if (r < 0)
		return give_error(error, &err, r);
	s = calloc(1, sizeof(*s));
	if (!s)
		return give_error(error, &err, err_set(&err, -ENOMEM, "out of memory"));
	so.target = (enum ses_target)o.target;
	so.pid = o.pid;
	so.argv = o.argv;
	so.rate_hz = o.sample_rate_hz ? o.sample_rate_hz : DEFAULT_RATE_HZ;
	so.event = (enum ses_event)o.event;
	so.kernel_stacks = !(o.flags & PFA_NO_KERNEL_STACKS);
	so.exclude_process = (o.flags & PFA_EXCLUDE_OWN_PROCESS) != 0;
	so.tags = o.tags;
	so.profile.path = o.profile_path;
	so.profile.fd = o.profile_fd;
	so.profile.write = o.profile_write;
	so.profile.arg = o.profile_write_arg;
	so.ring_bytes = o.ring_bytes;
	so.count_entries = o.count_entries;
	so.range_entries = o.range_entries;
	so.drain_interval_ms = o.drain_interval_ms;
	so.unwind = (enum ses_unwind)o.unwind;
	so.table_budget_bytes = o.table_budget_bytes;
	r = ses_new(&so, &s->ses, &err);
	if (r < 0)
		return give_error(error, &err, r);
	*ret = TAKE_PTR(s);
	return 0;
}

int pfa_start(struct pfa_session *s, struct pfa_error *error)
{
	struct err err = {0};

	return give_error(error, &err, ses_start(s->ses, &err));
}

void pfa_interrupt(struct pfa_session *s)
{
	ses_interrupt(s->ses);
}

int pfa_stop(struct pfa_session *s, struct pfa_error *error)
{
	struct err err = {0};

	return give_error(error, &err, ses_stop(s->ses, &err));
}

void pfa_free(struct pfa_session *s)
{
	if (!s)
		return;
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
	memset(ret, 0, size); /* what a newer caller asks for beyond us reads 0 */
	memcpy(ret, &full, full.size);
	return 0;
}

int pfa_counter(const struct pfa_session *s, size_t i, struct pfa_counter *ret)
{
	struct ses_counter c;
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
	return ses_quality(s->ses, i);
}

int pfa_top(const struct pfa_session *s, struct pfa_function *ret, size_t max)
{
	_cleanup_free_ struct ses_function *f = NULL;
	int n;

	if (max == 0 || max > 1000000)
		return -EINVAL;
	f = calloc(max, sizeof(*f));
	if (!f)
		return -ENOMEM;
	n = ses_top(s->ses, f, max);
	for (int i = 0; i < n; i++)
		ret[i] = (struct pfa_function){.name = f[i].name,
		                               .module = f[i].module,
		                               .self = f[i].self,
		                               .cum = f[i].cum};
	return n;
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
		return give_error(error, &err,
		                  err_set(&err, -EINVAL,
		                          "pfa_unwind_info: no path, or nobody to give lines to"));
	return give_error(error, &err, ses_unwind_info(path, pc, line, arg, &err));
}
