/* SPDX-License-Identifier: Apache-2.0 */
/* What a capture is started with: event, sizes, sampler, tables, target. Thread: C. */
#include "session/session_priv.h"

#include <dirent.h>
#include <linux/perf_event.h>
#include <sys/random.h>
#include <sys/syscall.h>

static int choose_event(struct ses *s, struct err *err)
{
	int e = 0, r;

	s->spec = pev_spec_cpu_clock(s->o.rate_hz);
	s->cycles = false;
	if (s->o.event == SES_EVENT_CPU_CLOCK)
		return 0;
	r = pev_probe_cycles(s->cpus[0], s->o.rate_hz, &s->spec, &e, err);
	if (r < 0)
		return ses_explain(r, err);
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
	tally_note(&s->tally,
	           "no hardware cycles to sample (perf_event_open: %s): cpu-clock instead",
	           err_name(e));
	return 0;
}

/* Of the process map, 32 bytes each. */
#define RANGES_MAX         (1ULL << 20)
#define RANGES_SPARE       1024ULL
#define RANGES_PER_PROCESS 24ULL /* of browsers and desktops; others have 6 */
#define RANGES_COUNTED     16    /* processes whose mappings are counted for it */

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

	if (s->o.target == SES_TARGET_PID && !s->o.follow_children &&
	    s->targets.n <= RANGES_COUNTED) {
		/* What cannot be counted here is found again, and said, by the first look. */
		for (uint32_t i = 0; i < s->targets.n; i++)
			(void)proc_maps_read(s->targets.pids[i], count_mapping, &n, NULL, NULL);
		n = MAX_OF(2 * n + RANGES_SPARE, 16384ULL);
	} else {
		if (s->o.target == SES_TARGET_ALL)
			n = RANGES_PER_PROCESS * count_processes();
		else
			n = 2 * RANGES_PER_PROCESS * s->targets.n;
		n = MAX_OF(n, 65536ULL);
	}
	return pow2_at_least(MIN_OF(n, RANGES_MAX));
}

static void choose_sizes(const struct ses *s, struct load_sizes *z)
{
	const bool off = s->o.modes & SES_OFFCPU, pmu = s->o.modes & SES_PMU;
	bool one = s->o.target == SES_TARGET_PID && !ses_targets_tree(s);
	uint64_t per_s = (uint64_t)s->o.rate_hz * s->n_cpus, page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t mib;

	z->no_sample = !(s->o.modes & SES_PROFILE);
	if (z->no_sample)
		z->programs = off && pmu ? "off-CPU and scheduler programs"
		              : off      ? "off-CPU programs"
		                         : "scheduler programs";
	if (!ses_walks(s)) {
		/* Target and filters alone, whose sizes are set. */
		z->no_walk = true;
		z->ring_bytes = z->copy_ring_bytes = (uint32_t)page;
		z->count_entries = z->thread_entries = z->range_entries = z->proc_entries =
		        z->shipped_entries = 1;
		return;
	}
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
	if (s->o.unwind == SES_UNWIND_FP)
		return;
	/* 32 bytes each. The rest of a machine with more files than this is walked by guesses. */
	z->image_entries = s->o.target == SES_TARGET_ALL ? 65536 : 8192;
	/* 64 or 128 first samples until D has been woken, 256 of waits; more are guessed. */
	mib = s->o.modes & SES_OFFCPU ? 4 : one ? 1 : 2;
	z->copy_ring_bytes = pow2_at_least(MAX_OF(mib << 20, page));
}

/* First samples of a process in an image without a table: until D was woken and a table built, a
 * quarter of a second on one CPU; more are guessed. The ring of copies bounds them besides. Waits
 * come as fast as they like, and each may be one that lasts. */
static uint32_t copy_quota(const struct ses *s)
{
	if (s->o.modes & SES_OFFCPU)
		return 1024;
	return MIN_OF(MAX_OF(s->o.rate_hz / 4, 32U), 1024U);
}

/* After the tracker and the aggregation. */
static int open_tables(struct ses *s, struct err *err)
{
	struct load_oncpu *l = smp_loader(s->smp);
	struct uw_rules_mem rules = {0};
	struct uw_backing backing = {0};
	int r;

	if (s->o.unwind == SES_UNWIND_FP)
		return ses_deferred_new(s, NULL, NULL, load_control(l), err);
	r = load_tables(l, &rules, &backing);
	if (r < 0)
		return err_set(err, r, "unwind tables: %s", err_name(r));
	return ses_deferred_new(s, &rules, &backing, load_control(l), err);
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
	ses_targets_config(s, &o.cfg, &o.sizes);
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
	o.cfg.copy_quota = copy_quota(s);
	/* Weights of other events are no time. */
	o.cfg.cpu_time = (s->o.modes & SES_PROFILE) && !s->cycles;
	o.cfg.few_weight = ABI_CPU_TIME_SAMPLES * s->spec.period;
	choose_sizes(s, &o.sizes);
	r = smp_open(&o, &s->smp, err);
	if (r < 0)
		return ses_explain(r, err);
	return ses_targets_load(s, smp_loader(s->smp), err);
}

static int pidfd_of(pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	return fd < 0 ? -errno : fd;
}

static int ended_early(const struct ses *s, struct err *err)
{
	if (s->targets.n > 1)
		return err_set(err, -ESRCH,
		               "all %u processes ended while the capture was being started",
		               s->targets.n);
	return err_set(err, -ESRCH, "process %u ended while the capture was being started",
	               s->target_pid);
}

/* Where a step is over that takes long, and last of all before the target is let go: an
 * ses_interrupt() that comes behind that last look found sampling begun. */
static int check_interrupted(struct ses *s, struct err *err)
{
	if (!atomic_load(&s->interrupted))
		return 0;
	return err_set(err, -EINTR, "interrupted before the capture began");
}

/* Before anything is captured: what cannot be written is said now. */
static int open_outputs(struct ses *s, struct err *err)
{
	const struct {
		uint32_t mode;
		const struct enc_target *to;
	} kinds[SES_KIND_CNT] = {{SES_PROFILE, &s->o.profile}, {SES_OFFCPU, &s->o.offcpu}};

	for (size_t i = 0; i < SES_KIND_CNT; i++) {
		const struct enc_target *t = kinds[i].to;
		int r;

		if (!(s->o.modes & kinds[i].mode) || (!t->path && !t->fd && !t->write))
			continue;
		r = enc_output_open(t, &s->product[i].out, err);
		if (r < 0)
			return r;
	}
	if (s->o.modes & SES_PMU && (s->o.pmu.path || s->o.pmu.fd || s->o.pmu.write))
		return enc_output_open(&s->o.pmu, &s->pmu_out, err);
	return 0;
}

/* What one mode lacks does not end the others: noted now, and an error once they are written. */
static int go_without(struct ses *s, uint32_t mode, int r, struct err *err)
{
	if (r >= 0 || !(s->o.modes & ~(s->without | mode)))
		return r;
	if (!s->without && err)
		s->without_why = *err;
	s->without |= mode;
	tally_note(&s->tally, "%s is left out: %s", mode == SES_PMU ? "PMU" : "off-CPU profile",
	           err ? err->msg : err_name(r));
	return 0;
}

/* What stacks need: the aggregation, the tracker, tables, the symbolizer. */
static int open_walk(struct ses *s, const struct load_procs *procs, struct err *err)
{
	struct trk_options to = {0};
	struct prof_agg_limits limits = {0};
	int r;

	r = prof_agg_new(&limits, &s->agg);
	if (r == 0)
		r = ses_jit_new(s);
	if (r < 0)
		return err_set(err, r, "aggregation: %s", err_name(r));

	/* Rings first: what changes while /proc is read is then told by a record. */
	r = pev_sideband_open(s->cpus, s->n_cpus, s->o.target == SES_TARGET_ALL ? 64 : 32,
	                      &s->sideband, err);
	if (r < 0)
		return ses_explain(r, err);
	to.loader = smp_loader(s->smp);
	to.target_pids = procs->tgids;
	to.n_target_pids = procs->n;
	to.follow_children = s->o.target == SES_TARGET_COMMAND || s->o.follow_children;
	r = trk_new(&to, &s->trk, err);
	if (r == 0)
		r = open_tables(s, err);
	if (r < 0)
		return r;
	if (s->o.target != SES_TARGET_ALL) {
		r = trk_scan(s->trk, err);
		if (r == -ESRCH && s->o.target == SES_TARGET_PID)
			return ended_early(s, err);
		if (r < 0)
			return r;
		trk_flush(s->trk);
		ses_check_privileges(s, 0);
	}
	/* B alone: it reads files, and waits for nobody. */
	r = ses_naming_start(s, err);
	if (r < 0)
		return r;
	if (s->o.target != SES_TARGET_ALL) {
		r = deferred_prepare(s->deferred, ses_prepare_check, &s->prepare_ns);
		if (r < 0 && r != -EINTR)
			return ended_early(s, err);
	}
	return 0;
}

int ses_start_capture(struct ses *s, struct err *err)
{
	struct load_procs procs = {0};
	int r, n;

	r = check_interrupted(s, err);
	if (r < 0)
		return r;
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
	r = open_outputs(s, err);
	if (r == 0)
		r = choose_event(s, err);
	if (r < 0)
		return r;
	r = open_sampler(s, err);
	if (r == 0 && s->o.modes & SES_OFFCPU) {
		r = go_without(s, SES_OFFCPU, ses_off_open(s, err), err);
		if (s->without & SES_OFFCPU)
			s->off = smp_off_free(s->off);
	}
	if (r == 0 && s->o.modes & SES_PMU) {
		r = go_without(s, SES_PMU, ses_pmu_open(s, err), err);
		if (s->without & SES_PMU)
			ses_pmu_free(s);
	}
	if (r == 0)
		r = check_interrupted(s, err);
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
	procs.tgids = s->o.target == SES_TARGET_PID ? s->targets.pids : &s->target_pid;
	procs.n = s->o.target == SES_TARGET_PID ? s->targets.n : s->o.target == SES_TARGET_COMMAND;
	procs.existing = s->o.follow_children;
	if (ses_walks(s)) {
		r = open_walk(s, &procs, err);
		if (r < 0)
			return r;
	}
	r = check_interrupted(s, err);
	if (r < 0)
		return r;
	s->before_cpu_ns = ses_threads_cpu_ns(s);
	if (proc_idle_ns(s->cpus, s->n_cpus, &s->idle_start_ns) < 0)
		s->idle_start_ns = 0; /* idle_pct is left out */
	s->start_ns = now_and_realtime_ns(&s->start_realtime_ns);
	if (s->jit)
		jit_begin(s->jit, s->start_ns);
	r = smp_start(s->smp, s->cpus, s->o.modes & SES_PROFILE ? s->n_cpus : 0,
	              ses_targets_tree(s) ? &procs : NULL, err);
	if (r == -ESRCH && s->o.target == SES_TARGET_PID)
		return ended_early(s, err);
	if (r < 0)
		return ses_explain(r, err);
	/* Programs run in the order in which they are attached: the short one first, so that the
	 * walks of the other are no part of what it measures. */
	if (s->pmu) {
		r = go_without(s, SES_PMU, ses_pmu_start(s, err), err);
		if (s->without & SES_PMU)
			ses_pmu_free(s);
	}
	if (r == 0 && s->off) {
		r = smp_off_start(s->off, err);
		r = go_without(s, SES_OFFCPU, r < 0 ? ses_explain(r, err) : 0, err);
		if (s->without & SES_OFFCPU)
			s->off = smp_off_free(s->off);
	}
	if (r < 0)
		return r;
	/* What waits in a command's process is still our own code, for its start. */
	if (s->off && smp_off_begin(s->off, s->o.target != SES_TARGET_COMMAND) < 0)
		tally_count(&s->tally, TALLY_OFF_NOT_LOOKED, 1);
	tally_count(&s->tally, TALLY_CPUS_SKIPPED, smp_skipped_cpus(s->smp));
	s->locked_bytes = load_locked_bytes(smp_loader(s->smp));
	if (s->off)
		s->locked_bytes += load_off_locked_bytes(smp_off_loader(s->off));
	s->locked_bytes += ses_pmu_locked_bytes(s);
	r = ses_targets_watch(s, err);
	if (r == 0)
		r = ses_threads_start(s, err);
	if (r == 0)
		r = check_interrupted(s, err);
	if (r < 0)
		return r;
	if (s->o.target == SES_TARGET_COMMAND)
		r = ses_command_go(&s->cmd, s->o.argv[0], err);
	else if (s->o.target == SES_TARGET_PID && ses_targets_ended(s))
		r = ended_early(s, err);
	return r;
}
