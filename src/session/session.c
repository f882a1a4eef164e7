/* SPDX-License-Identifier: Apache-2.0 */
#include "session/session_priv.h"

#include <dirent.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/syscall.h>

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

static int choose_event(struct ses *s, struct err *err)
{
	int e = 0, r;

	s->spec = pev_spec_cpu_clock(s->o.rate_hz);
	s->cycles = false;
	if (s->o.event == SES_EVENT_CPU_CLOCK)
		return 0;
	r = pev_probe_cycles(s->cpus[0], s->o.rate_hz, &s->spec, &e, err);
	if (r < 0)
		return ses_explain(s, r, err);
	if (r == 1) {
		s->cycles = true;
		return 0;
	}
	/* Refused, not absent: err has the call and the remedy. */
	if (s->o.event == SES_EVENT_CYCLES && e == EACCES)
		return err ? err->code : -e;
	if (s->o.event == SES_EVENT_CYCLES)
		return err_set(err, -e,
		               "event cycles: perf_event_open: %s: no hardware cycles to sample "
		               "here (a virtual machine "
		               "without a PMU?): use cpu-clock or auto",
		               err_name(e));
	s->spec = pev_spec_cpu_clock(s->o.rate_hz);
	ses_note_add(s, "no hardware cycles to sample (perf_event_open: %s): cpu-clock instead",
	             err_name(e));
	return 0;
}

/* Of the process map, 32 bytes each. */
#define RANGES_MAX         (1ULL << 20)
#define RANGES_SPARE       1024ULL
#define RANGES_PER_PROCESS 24ULL /* of browsers and desktops; others have 6 */

static uint32_t pow2_at_least(uint64_t v)
{
	uint32_t p = 1;

	while (p < v && p < (1U << 30))
		p *= 2;
	return p;
}

static int count_mapping(void *arg, const struct ev_mapping *m)
{
	(void)m;
	(*(uint64_t *)arg)++;
	return 0;
}

static uint64_t count_processes(void)
{
	DIR *d = opendir("/proc");
	uint64_t n = 0;

	for (struct dirent *e; d && (e = readdir(d));)
		n += e->d_name[0] >= '1' && e->d_name[0] <= '9';
	if (d)
		(void)closedir(d); /* only read from */
	return n;
}

/* Executable mappings that the process map holds, by what there is now: a list is written anew
 * beside the one that it follows. */
static uint32_t range_entries(const struct ses *s)
{
	uint64_t n = 0;

	if (s->o.target == SES_TARGET_PID) {
		/* What cannot be counted here is found again, and said, by the first look. */
		(void)proc_maps_read(s->target_pid, count_mapping, &n, NULL, NULL);
		n = MAX_OF(2 * n + RANGES_SPARE, 16384ULL);
	} else {
		if (s->o.target == SES_TARGET_ALL)
			n = RANGES_PER_PROCESS * count_processes();
		n = MAX_OF(n, 65536ULL);
	}
	return pow2_at_least(MIN_OF(n, RANGES_MAX));
}

static void choose_sizes(const struct ses *s, struct load_sizes *z)
{
	bool one = s->o.target == SES_TARGET_PID;
	uint64_t per_s = (uint64_t)s->o.rate_hz * s->n_cpus, page = (uint64_t)sysconf(_SC_PAGESIZE);

	/* Stacks: what a second of nothing but new, deep stacks needs is more than anyone has; 256
	 * KiB hold 1,000 of 30 frames, and a stack that finds no place comes again. */
	z->ring_bytes = pow2_at_least(
	        MAX_OF(s->o.ring_bytes ? s->o.ring_bytes
	                               : (one ? 262144U : MAX_OF(524288U, s->n_cpus * 65536U)),
	               page));
	/* Counts: half a table must outlast a drain interval in which every sample is new. */
	z->count_entries = s->o.count_entries
	                           ? s->o.count_entries
	                           : (uint32_t)MIN_OF(MAX_OF(per_s, 8192ULL), 1ULL << 20);
	z->thread_entries = one ? 4096 : 16384;
	z->range_entries = s->o.range_entries ? s->o.range_entries : range_entries(s);
	z->proc_entries = one ? 64 : 32768;
	z->shipped_entries = one ? 16384 : 65536;
	z->followed_entries = s->o.target == SES_TARGET_COMMAND ? 65536 : 1;
	if (s->o.unwind == SES_UNWIND_FP)
		return;
	/* 32 bytes each. The rest of a machine with more files than this is walked by guesses. */
	z->image_entries = s->o.target == SES_TARGET_ALL ? 65536 : 8192;
	/* 64 or 128 first samples until W has been woken; more are guessed. */
	z->copy_ring_bytes = pow2_at_least(MAX_OF((uint64_t)(one ? 1 : 2) << 20, page));
}

/* First samples of a process in an image without a table: until D was woken and a table built, a
 * quarter of a second on one CPU; more are guessed. The ring of copies bounds them besides. */
static uint32_t copy_quota(uint32_t rate_hz)
{
	return MIN_OF(MAX_OF(rate_hz / 4, 32U), 1024U);
}

static int open_tables(struct ses *s, struct err *err)
{
	struct load_oncpu *l = smp_loader(s->smp);
	struct uw_rules_mem rules = {0};
	struct uw_backing backing = {0};
	int r;

	if (s->o.unwind == SES_UNWIND_FP)
		return 0;
	r = load_tables(l, &rules, &backing);
	if (r < 0)
		return err_set(err, r, "unwind tables: %s", err_name(r));
	return ses_tables_new(s, &rules, &backing, load_control(l), err);
}

static int open_sampler(struct ses *s, struct err *err)
{
	struct smp_options o = {.spec = s->spec};
	uint64_t dev, ino;
	bool initial = true;
	int64_t max_stack = 0;
	int r = proc_self_pidns(&dev, &ino, &initial);

	if (r < 0)
		return err_set(err, r, "/proc/self/ns/pid: %s", err_name(r));
	o.cfg.target = s->o.target == SES_TARGET_PID   ? ABI_TARGET_PID
	               : s->o.target == SES_TARGET_ALL ? ABI_TARGET_ALL
	                                               : ABI_TARGET_TREE;
	o.cfg.target_tgid = s->target_pid;
	/* A command's samples are never ours, and who profiles its own process asks for it. */
	o.cfg.agent_tgid = s->o.target == SES_TARGET_COMMAND ? 0 : (uint32_t)getpid();
	o.cfg.agent_whole = s->o.target == SES_TARGET_ALL && s->o.exclude_process;
	o.cfg.kernel_stacks = s->o.kernel_stacks;
	o.cfg.nested_ns = !initial;
	o.cfg.pidns_ino = (uint32_t)ino;
	if (proc_sysctl("kernel/perf_event_max_stack", &max_stack) < 0 || max_stack <= 0)
		max_stack = ABI_MAX_KERNEL_FRAMES;
	o.cfg.max_kframes = (uint32_t)MIN_OF(max_stack, (int64_t)ABI_MAX_KERNEL_FRAMES);
	if (getrandom(&o.cfg.hash_seed, sizeof(o.cfg.hash_seed), 0) != sizeof(o.cfg.hash_seed))
		return err_set(err, -EIO, "getrandom: %s", err_name(errno));
	s->hash_seed = o.cfg.hash_seed;
	o.cfg.unwind = s->o.unwind == SES_UNWIND_FP ? ABI_UNWIND_FP : ABI_UNWIND_TABLES;
	o.cfg.walk_flags = s->o.walk_flags;
	o.cfg.copy_quota = copy_quota(s->o.rate_hz);
	choose_sizes(s, &o.sizes);
	r = smp_open(&o, &s->smp, err);
	if (r < 0)
		return ses_explain(s, r, err);
	/* Where the iterator does not show the target, its number alone has to do. */
	if (s->o.target == SES_TARGET_PID)
		(void)load_target(smp_loader(s->smp), s->target_pid);
	return open_tables(s, err);
}

static int pidfd_of(pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	return fd < 0 ? -errno : fd;
}

static bool target_ended(const struct ses *s)
{
	struct pollfd p = {.fd = s->ended_fd, .events = POLLIN};

	return poll(&p, 1, 0) > 0;
}

static int ended_early(const struct ses *s, struct err *err)
{
	return err_set(err, -ESRCH, "process %u ended while the capture was being started",
	               s->target_pid);
}

static int start(struct ses *s, struct err *err)
{
	struct trk_options to = {0};
	struct prof_agg_limits limits = {0};
	int r, n;

	r = ses_check_target(s, err);
	if (r < 0)
		return r;
	s->cpus = calloc(PEV_CPUS_MAX, sizeof(*s->cpus));
	if (!s->cpus)
		return err_set(err, -ENOMEM, "out of memory");
	n = proc_online_cpus(s->cpus, PEV_CPUS_MAX, err);
	if (n <= 0)
		return n < 0 ? n : err_set(err, -ENODEV, "no online CPU");
	s->n_cpus = (uint32_t)n;
	r = ses_check_descriptors(s, err);
	if (r < 0)
		return r;
	if (s->o.profile.path || s->o.profile.fd || s->o.profile.write) {
		r = enc_output_open(&s->o.profile, &s->out, err);
		if (r < 0)
			return r;
	}
	r = choose_event(s, err);
	if (r < 0)
		return r;
	r = open_sampler(s, err);
	if (r < 0)
		return r;
	if (s->o.target == SES_TARGET_COMMAND) {
		r = ses_command_spawn(s->o.argv, &s->cmd, err);
		if (r < 0)
			return r;
		s->target_pid = (uint32_t)s->cmd.pid;
		s->ended_fd = pidfd_of(s->cmd.pid);
		if (s->ended_fd < 0)
			return err_set(err, s->ended_fd, "pidfd_open: %s", err_name(s->ended_fd));
	}
	r = prof_agg_new(&limits, &s->agg);
	if (r == 0)
		r = intern_new(1U << 24, SIZE_MAX / 2, &s->requested);
	if (r < 0)
		return err_set(err, r, "aggregation: %s", err_name(r));

	/* Rings first: what changes while /proc is read is then told by a record. */
	r = pev_sideband_open(s->cpus, s->n_cpus, s->o.target == SES_TARGET_ALL ? 64 : 32,
	                      &s->sideband, err);
	if (r < 0)
		return ses_explain(s, r, err);
	to.loader = smp_loader(s->smp);
	to.target_pid = s->o.target == SES_TARGET_ALL ? 0 : s->target_pid;
	to.follow_children = s->o.target == SES_TARGET_COMMAND;
	r = trk_new(&to, &s->trk, err);
	if (r < 0)
		return r;
	if (s->o.target != SES_TARGET_ALL) {
		r = trk_scan(s->trk, err);
		if (r == -ESRCH && s->o.target == SES_TARGET_PID)
			return ended_early(s, err);
		if (r < 0)
			return r;
		trk_flush(s->trk);
		ses_check_privileges(s);
	}
	/* B alone: it reads files, and waits for nobody. */
	r = ses_naming_start(s, err);
	if (r < 0)
		return r;
	if (s->o.target != SES_TARGET_ALL) {
		r = ses_tables_prepare(s);
		if (r < 0)
			return ended_early(s, err);
	}
	s->before_cpu_ns = ses_threads_cpu_ns(s);
	if (proc_idle_ns(s->cpus, s->n_cpus, &s->idle_start_ns) < 0)
		s->idle_start_ns = 0; /* ticks that idle CPUs miss are then counted as missed */
	s->start_realtime_ns = now_realtime_ns();
	s->start_ns = now_ns();
	r = smp_start(s->smp, s->cpus, s->n_cpus,
	              s->o.target == SES_TARGET_COMMAND ? s->target_pid : 0, err);
	if (r < 0)
		return ses_explain(s, r, err);
	ses_count(s, SES_CNT_CPUS_SKIPPED, smp_skipped_cpus(s->smp));
	s->locked_bytes = load_locked_bytes(smp_loader(s->smp));
	r = ses_threads_start(s, err);
	if (r < 0)
		return r;
	if (s->o.target == SES_TARGET_COMMAND)
		r = ses_command_go(&s->cmd, s->o.argv[0], err);
	else if (s->o.target == SES_TARGET_PID && target_ended(s))
		r = ended_early(s, err);
	return r;
}

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
	r = start(s, err);
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
	if (s->tables) /* segments of tables were made meanwhile */
		s->locked_bytes = MAX_OF(s->locked_bytes, load_locked_bytes(smp_loader(s->smp)));
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
