/* SPDX-License-Identifier: Apache-2.0 */
#include "session/session_priv.h"

#include <linux/perf_event.h>
#include <poll.h>
#include <stdio.h>

/* ---- options --------------------------------------------------------------------------------- */

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

static int check_options(const struct ses_options *o, struct err *err)
{
	switch (o->target) {
	case SES_TARGET_PID:
		if (o->pid <= 0)
			return err_set(err, -EINVAL, "pid: %lld is no process number",
			               (long long)o->pid);
		break;
	case SES_TARGET_COMMAND:
		if (!o->argv || !o->argv[0] || !o->argv[0][0])
			return err_set(err, -EINVAL, "argv: no command");
		break;
	case SES_TARGET_ALL:
		break;
	default:
		return err_set(err, -EINVAL, "target: one of PID, ALL and COMMAND is needed");
	}
	if (o->target != SES_TARGET_PID && o->pid != 0)
		return err_set(err, -EINVAL, "pid: given with another target than PID");
	if (o->target != SES_TARGET_COMMAND && o->argv)
		return err_set(err, -EINVAL, "argv: given with another target than COMMAND");
	if (o->rate_hz == 0)
		return err_set(err, -EINVAL, "sample rate: must be at least 1 Hz");
	if (o->event > SES_EVENT_AUTO)
		return err_set(err, -EINVAL, "event: unknown");
	if (o->unwind > SES_UNWIND_FP)
		return err_set(err, -EINVAL, "unwind: unknown mode %u", (unsigned int)o->unwind);
	if (o->table_budget_bytes && (o->table_budget_bytes < SES_BUDGET_MIN_BYTES ||
	                              o->table_budget_bytes > SES_BUDGET_MAX_BYTES))
		return err_set(err, -EINVAL,
		               "table budget: %llu bytes are not between 1 MiB and 1 GiB",
		               (unsigned long long)o->table_budget_bytes);
	for (const char *const *t = o->tags; t && *t; t++) {
		const char *eq = strchr(*t, '=');

		if (t - o->tags == SES_TAGS_MAX)
			return err_set(err, -EINVAL, "tag: more than %d", SES_TAGS_MAX);
		if (strlen(*t) > SES_TAG_BYTES)
			return err_set(err, -EINVAL,
			               "tag: '%.40s...' has %zu bytes, the limit is %d", *t,
			               strlen(*t), SES_TAG_BYTES);
		if (!eq || eq == *t)
			return err_set(err, -EINVAL, "tag: '%s' is not of the form key=value", *t);
	}
	if ((o->profile.path != NULL) + (o->profile.fd != 0) + (o->profile.write != NULL) > 1)
		return err_set(err, -EINVAL,
		               "output: more than one of path, descriptor and call-back");
	if (o->profile.fd < 0)
		return err_set(err, -EINVAL, "output: descriptor %d", o->profile.fd);
	if (o->ring_bytes > (1U << 30) || o->count_entries > (1U << 24) ||
	    o->range_entries > (1U << 24) || o->drain_interval_ms > 10000)
		return err_set(
		        err, -EINVAL,
		        "sizes: over the limit (ring 1 GiB, tables 16 M entries, drain 10 s)");
	return 0;
}

int ses_new(const struct ses_options *o, struct ses **ret, struct err *err)
{
	struct ses *s;
	int r = check_options(o, err);

	if (r < 0)
		return r;
	s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	s->o = *o;
	s->o.argv = NULL;
	s->o.tags = NULL;
	s->o.profile.path = NULL;
	s->ended_fd = s->stop_fd = s->cmd.go_fd = s->cmd.error_fd = -EBADF;
	s->quality.max = 1024;
	s->results.max = UINT32_MAX;
	pthread_mutex_init(&s->kernel_lock, NULL);
	pthread_mutex_init(&s->results_lock, NULL);
	pthread_mutex_init(&s->stats_lock, NULL);
	if (o->argv)
		s->o.argv = (const char *const *)dup_strings(o->argv);
	if (o->tags)
		s->o.tags = (const char *const *)dup_strings(o->tags);
	if (o->profile.path)
		s->o.profile.path = strdup(o->profile.path);
	if (s->o.drain_interval_ms == 0)
		s->o.drain_interval_ms = 100;
	if ((o->argv && !s->o.argv) || (o->tags && !s->o.tags) ||
	    (o->profile.path && !s->o.profile.path)) {
		ses_free(s);
		return err_set(err, -ENOMEM, "out of memory");
	}
	*ret = s;
	return 0;
}

/* ---- between captures ------------------------------------------------------------------------ */

void ses_note_add(struct ses *s, const char *fmt, ...)
{
	va_list ap;
	char *line = NULL;
	int n;

	if (s->n_notes == SES_NOTES_MAX)
		return;
	va_start(ap, fmt);
	n = vasprintf(&line, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	/* What is known at the start is asked again at the end. */
	for (size_t i = 0; i < s->n_notes; i++)
		if (strcmp(s->notes[i], line) == 0) {
			free(line);
			return;
		}
	s->notes[s->n_notes++] = line;
}

static void forget_results(struct ses *s)
{
	s->model = prof_model_free(s->model);
	while (s->n_notes)
		free(s->notes[--s->n_notes]);
	vec_each (q, &s->quality)
		free(*q);
	s->quality.n = 0;
	pthread_mutex_lock(&s->stats_lock);
	memset(&s->final, 0, sizeof(s->final));
	memset(&s->kernel_counters, 0, sizeof(s->kernel_counters));
	for (int i = 0; i < SES_CNT_MAX; i++)
		s->counters[i] = 0;
	s->setup_cpu_ns = s->capture_cpu_ns = s->stop_cpu_ns = 0;
	s->before_cpu_ns = s->prepare_ns = 0;
	s->start_ns = s->end_ns = 0;
	s->locked_bytes = 0;
	pthread_mutex_unlock(&s->stats_lock);
}

/* Everything of one capture but its results. Threads must have ended. */
static void release(struct ses *s)
{
	struct ses_item item;
	struct ses_job job;

	while (s->q_w && queue_pop(s->q_w, &item, 0) == 0)
		if (item.type == SES_ITEM_PROC)
			free(item.proc.long_path);
		else if (item.type == SES_ITEM_COPY)
			ses_copy_free(item.copy);
	s->q_w = queue_free(s->q_w);
	while (s->q_jobs && queue_pop(s->q_jobs, &job, 0) == 0)
		ses_job_done(&job, true);
	s->q_jobs = queue_free(s->q_jobs);
	vec_each (res, &s->results) {
		free(res->addrs);
		sym_batch_done(&res->batch);
	}
	vec_done(&s->results);
	for (uint32_t i = 0; i < s->n_groups; i++)
		vec_done(&s->groups[i].addrs);
	free(s->groups);
	s->groups = NULL;
	s->n_groups = 0;
	s->requested = intern_free(s->requested);
	s->kernel = sym_kernel_free(s->kernel);
	s->kernel_tried = false;
	s->kernel_error = 0;
	ses_tables_free(s);
	s->trk = trk_free(s->trk);
	s->sideband = pev_sideband_free(s->sideband);
	s->smp = smp_free(s->smp); /* not RUNNING: ses_stats does not look at it */
	s->agg = prof_agg_free(s->agg);
	s->out = enc_output_free(s->out);
	closep(&s->stop_fd);
	closep(&s->ended_fd);
	ses_command_done(&s->cmd);
	free(s->cpus);
	s->cpus = NULL;
}

struct ses *ses_free(struct ses *s)
{
	if (!s)
		return NULL;
	if (s->tables)
		atomic_store(&s->tables->abandoned, true);
	ses_threads_stop(s);
	ses_naming_stop(s);
	release(s);
	forget_results(s);
	vec_done(&s->quality);
	free_strings(s->o.argv);
	free_strings(s->o.tags);
	free((void *)(uintptr_t)s->o.profile.path);
	pthread_mutex_destroy(&s->kernel_lock);
	pthread_mutex_destroy(&s->results_lock);
	pthread_mutex_destroy(&s->stats_lock);
	free(s);
	return NULL;
}

/* ---- start ----------------------------------------------------------------------------------- */

int ses_start(struct ses *s, struct err *err)
{
	uint64_t cpu = ses_thread_cpu_ns();
	int r;

	if (s->state == SES_RUNNING)
		return err_set(err, -EBUSY, "the session is running already");
	forget_results(s);
	memset(&s->cmd, 0, sizeof(s->cmd));
	s->cmd.go_fd = s->cmd.error_fd = -EBADF;
	s->target_pid = 0;
	r = ses_start_capture(s, err);
	atomic_store(&s->interrupted, false); /* it was for this start */
	if (r < 0) {
		ses_threads_stop(s);
		ses_naming_stop(s);
		release(s);
		return r;
	}
	pthread_mutex_lock(&s->stats_lock);
	s->setup_cpu_ns = ses_thread_cpu_ns() - cpu + s->before_cpu_ns;
	s->state = SES_RUNNING;
	pthread_mutex_unlock(&s->stats_lock);
	return 0;
}

/* ---- stop ------------------------------------------------------------------------------------ */

/* Idle CPUs may sleep through their ticks; that is idle time, not a loss: as far as the kernel says
 * that they were idle for longer than idle ticks were seen. */
static void count_missed(struct ses *s, uint64_t missed)
{
	uint64_t idle_ns, idle = 0, seen = s->kernel_counters.v[ABI_CNT_TICK_IDLE];

	if (s->spec.type == PERF_TYPE_SOFTWARE && s->idle_start_ns &&
	    proc_idle_ns(s->cpus, s->n_cpus, &idle_ns) == 0 && idle_ns > s->idle_start_ns)
		idle = (idle_ns - s->idle_start_ns) / s->spec.period;
	idle = MIN_OF(idle > seen ? idle - seen : 0, missed);
	ses_count(s, SES_CNT_IDLE_TICKS_MISSED, idle);
	ses_count(s, SES_CNT_MISSED_TICKS, missed - idle);
}

static void final_figures(struct ses *s)
{
	const struct smp_stats *st = smp_stats(s->smp);
	const struct pev_sideband_stats *sb = pev_sideband_stats(s->sideband);
	const struct trk_stats *t = trk_stats(s->trk);
	struct abi_counters *c = &s->kernel_counters;
	uint64_t ticks, taken = st->taken_samples + st->copied_samples;

	if (load_counters(smp_loader(s->smp), c) < 0) {
		ses_count(s, SES_CNT_READ_ERRORS, 1);
		c->v[ABI_CNT_SEEN] = c->v[ABI_CNT_KEPT] = taken;
	}
	ticks = c->v[ABI_CNT_TICK_IDLE] + c->v[ABI_CNT_TICK_FOREIGN] + c->v[ABI_CNT_SEEN];
	if (st->expected_ticks > ticks)
		count_missed(s, st->expected_ticks - ticks);
	/* With those in records of the ring of copies that contradicted themselves. */
	if (c->v[ABI_CNT_KEPT] > taken)
		ses_count(s, SES_CNT_DROP_UNREAD, c->v[ABI_CNT_KEPT] - taken);
	ses_count(s, SES_CNT_RING_BAD, st->bad_records);
	ses_count(s, SES_CNT_READ_ERRORS, st->read_errors);
	ses_count(s, SES_CNT_SB_RECORDS, sb->records);
	ses_count(s, SES_CNT_SB_LOST, sb->lost);
	ses_count(s, SES_CNT_SB_BAD, sb->malformed);
	ses_count(s, SES_CNT_PROCS, t->procs);
	ses_count(s, SES_CNT_PROCS_DENIED, t->procs_denied);
	ses_count(s, SES_CNT_PROCS_DROPPED, t->dropped_procs);
	ses_count(s, SES_CNT_IMAGES, t->images);
	ses_count(s, SES_CNT_IMAGES_FAILED, t->images_failed);
	ses_count(s, SES_CNT_IMAGES_DAMAGED, t->damaged_notes);
	ses_count(s, SES_CNT_IMAGES_DROPPED, t->dropped_images);
	ses_count(s, SES_CNT_MAPPINGS_DROPPED, t->dropped_mappings);
	ses_count(s, SES_CNT_RANGES_FULL, t->ranges_full);
	ses_count(s, SES_CNT_MAPS_BAD, t->bad_map_lines);
	ses_tables_figures(s);
	if (s->tables) { /* segments of tables were made meanwhile */
		uint64_t bytes = load_locked_bytes(smp_loader(s->smp));

		pthread_mutex_lock(&s->stats_lock);
		s->locked_bytes = MAX_OF(s->locked_bytes, bytes);
		pthread_mutex_unlock(&s->stats_lock);
	}
	s->final.seen = c->v[ABI_CNT_SEEN];
	s->final.idle = c->v[ABI_CNT_TICK_IDLE] + s->counters[SES_CNT_IDLE_TICKS_MISSED];
	s->final.elapsed_ns = s->end_ns - s->start_ns;
	s->final.locked_bytes = s->locked_bytes;
	s->final.agent_cpu_ns = ses_agent_cpu_ns(s, c);
}

static int write_output(struct ses *s, struct err *err)
{
	struct sbuf b;
	int r;

	if (!s->out)
		return 0;
	sbuf_init(&b, SIZE_MAX / 2);
	r = enc_pprof(s->model, &b);
	if (r < 0)
		r = err_set(err, r, "encoding the profile: %s", err_name(r));
	else
		r = enc_output_commit(s->out, b.p, b.len, err);
	sbuf_done(&b);
	return r;
}

void ses_interrupt(struct ses *s)
{
	atomic_store(&s->interrupted, true);
}

int ses_stop(struct ses *s, struct err *err)
{
	int r;

	if (s->state != SES_RUNNING)
		return err_set(err, -EINVAL, "the session is not running");
	pthread_mutex_lock(&s->stats_lock);
	s->end_ns = now_ns();
	s->capture_cpu_ns = ses_threads_cpu_ns(s);
	pthread_mutex_unlock(&s->stats_lock);
	s->stop_cpu_ns = ses_thread_cpu_ns();
	ses_threads_stop(s);
	if (s->scan_error < 0)
		ses_note_add(s, "the first look at all processes failed: %s",
		             err_name(s->scan_error));
	ses_copies_merge(s);
	final_figures(s);
	r = ses_profile_build(s, err);
	if (r == 0)
		r = write_output(s, err);
	if (s->o.target == SES_TARGET_COMMAND)
		(void)ses_command_poll(&s->cmd); /* asked again by ses_command_status */
	ses_naming_stop(s);
	/* Before the sampler goes: from here on pfa_stats of another thread answers with the final
	 * figures. */
	pthread_mutex_lock(&s->stats_lock);
	s->state = SES_STOPPED;
	pthread_mutex_unlock(&s->stats_lock);
	atomic_store(&s->interrupted, false); /* it came too late, and is not for the next start */
	release(s);
	return r;
}

/* ---- questions ------------------------------------------------------------------------------- */

bool ses_running(const struct ses *s)
{
	return s->state == SES_RUNNING;
}

int ses_ended_fd(const struct ses *s)
{
	return s->state == SES_RUNNING && s->ended_fd >= 0 ? s->ended_fd : -1;
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

uint64_t ses_sum_drops(const struct ses *s, const struct abi_counters *c)
{
	uint64_t sum = 0;

#define ADD_DROP(v) sum += (v);
#define ADD_TICK(v)
#define ADD_LOSS(v)
#define ADD_INFO(v)
#define X(id, name, unit, kind, help) ADD_##kind(c->v[ABI_CNT_##id])
#include "bpf/abi/counters.def"
#undef X
#define X(id, name, unit, kind, help) ADD_##kind(s->counters[SES_CNT_##id])
#include "session/counters.def"
#undef X
#undef ADD_DROP
#undef ADD_TICK
#undef ADD_LOSS
#undef ADD_INFO
	return sum;
}

/* Counters as of now: of the running program, or the final ones. With stats_lock, or on C. */
static int counters_now(struct ses *s, struct abi_counters *ret)
{
	if (s->state == SES_RUNNING)
		return load_counters(smp_loader(s->smp), ret);
	*ret = s->kernel_counters;
	return 0;
}

int ses_stats(struct ses *s, struct ses_stats *ret)
{
	struct abi_counters c;
	int r = 0;

	pthread_mutex_lock(&s->stats_lock);
	if (s->state != SES_RUNNING)
		*ret = s->final;
	else
		r = counters_now(s, &c);
	if (s->state == SES_RUNNING && r == 0) {
		memset(ret, 0, sizeof(*ret));
		ret->elapsed_ns = (s->end_ns ? s->end_ns : now_ns()) - s->start_ns;
		ret->seen = c.v[ABI_CNT_SEEN];
		ret->kept = c.v[ABI_CNT_KEPT];
		ret->dropped = ses_sum_drops(s, &c);
		ret->idle = c.v[ABI_CNT_TICK_IDLE];
		ret->stacks = c.v[ABI_CNT_STACK_SHIPPED];
		ret->agent_cpu_ns = ses_agent_cpu_ns(s, &c);
		ret->locked_bytes = s->locked_bytes;
	}
	pthread_mutex_unlock(&s->stats_lock);
	return r;
}

int ses_counter(struct ses *s, size_t i, struct ses_counter *ret)
{
	static const struct ses_counter table[] = {
#define X(id, name, unit, kind, help) {name, unit, help, 0},
#include "bpf/abi/counters.def"
#include "session/counters.def"
#undef X
	};
	struct abi_counters c;
	int r;

	if (i >= ARRAY_SIZE(table))
		return -ENOENT;
	r = counters_now(s, &c);
	if (r < 0)
		return r;
	*ret = table[i];
	ret->value = i < ABI_CNT_MAX ? c.v[i] : atomic_load(&s->counters[i - ABI_CNT_MAX]);
	return 0;
}

const char *ses_note(const struct ses *s, size_t i)
{
	return i < s->n_notes ? s->notes[i] : NULL;
}

const char *ses_quality(const struct ses *s, size_t i)
{
	return s->state == SES_STOPPED && i < s->quality.n ? s->quality.p[i] : NULL;
}

int ses_top(const struct ses *s, struct ses_function *ret, size_t max)
{
	_cleanup_free_ struct prof_top *top = NULL;
	size_t n = 0;
	int r;

	if (s->state != SES_STOPPED || !s->model)
		return -EINVAL;
	r = prof_model_top(s->model, 1, max, &top, &n);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		ret[i].name = prof_model_str(s->model, top[i].name);
		ret[i].module =
		        top[i].mapping
		                ? prof_model_str(s->model,
		                                 s->model->mappings.p[top[i].mapping - 1].path)
		                : "";
		ret[i].self = (uint64_t)top[i].self;
		ret[i].cum = (uint64_t)top[i].cum;
	}
	return (int)n;
}

const char *ses_weight_unit(const struct ses *s)
{
	return s->cycles ? "cycles" : "nanoseconds";
}
