/* SPDX-License-Identifier: Apache-2.0 */
/* The start of a capture: outputs, sources, the walker, the target. Thread: control. */
#include "session/session_priv.h"

#include <stdio.h>
#include <sys/random.h>

#include "proc/proc.h"

static bool any_walks(const struct ses *s)
{
	ses_each_source (s, i, src)
		if (src_all[i]->walks)
			return true;
	return false;
}

/* Called after each step that takes long, and right before the command executes. An ses_interrupt()
 * after that last check has no effect: sampling has begun. */
static int check_interrupted(struct ses *s, struct err *err)
{
	if (!atomic_load(&s->interrupted))
		return 0;
	return err_set(err, -EINTR, "interrupted before the capture began");
}

static int ended_early(const struct ses *s, struct err *err)
{
	if (s->target.n > 1)
		return err_set(err, -ESRCH,
		               "all %u processes ended while the capture was being started",
		               s->target.n);
	return err_set(err, -ESRCH, "process %u ended while the capture was being started",
	               s->target.pid);
}

/* Describes -ESRCH of a step: the target has ended. */
static int if_ended(const struct ses *s, int r, struct err *err)
{
	return r == -ESRCH && !tgt_all(&s->target) ? ended_early(s, err) : r;
}

/* Opens the outputs before anything is captured: a bad path fails the start. */
static int open_outputs(struct ses *s, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < SRC_CNT && r == 0; i++) {
		const struct pfa_output *to = src_output(src_all[i], &s->o);

		if (s->o.modes & src_all[i]->mode && (to->path || to->fd || to->write))
			r = enc_output_open(to, &s->out[i], err);
	}
	return r == 0 ? ses_extra_open(s, err) : r;
}

/* Leaves out a source that cannot be started, if another one can: a note now, an error of ses_stop
 * later. @r: the result of its call. */
static int leave_out(struct ses *s, size_t i, int r, struct err *err)
{
	const uint32_t mode = src_all[i]->mode;

	r = r < 0 ? ses_explain(r, err) : 0;
	if (r == 0 || src_all[i]->required || !(s->o.modes & ~(s->env.left_out | mode)))
		return r;
	if (!s->env.left_out)
		(void)err_set_cause(&s->left_out, r, ERR_LEFT_OUT, src_all[i]->title, "%s",
		                    err ? err->msg : err_name(r));
	s->env.left_out |= mode;
	s->src[i] = src_all[i]->free(s->src[i]);
	tally_note(&s->tally, "%s is left out: %s", src_all[i]->title,
	           err ? err->msg : err_name(r));
	if (err)
		*err = (struct err){0}; /* what fails later has a cause of its own */
	return 0;
}

static int open_sources(struct ses *s, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < SRC_CNT && r == 0; i++)
		if (s->o.modes & src_all[i]->mode)
			r = leave_out(s, i, src_all[i]->open(&s->env, &s->src[i], err), err);
	return r;
}

static int load_sources(struct ses *s, struct err *err)
{
	int r = 0;

	ses_each_source (s, i, src)
		if (r == 0)
			r = leave_out(s, i, src_all[i]->load(src, err), err);
	return r;
}

static int start_sources(struct ses *s, struct err *err)
{
	int r = 0;

	ses_each_source (s, i, src)
		if (r == 0)
			r = leave_out(s, i, src_all[i]->start(src, err), err);
	ses_each_source (s, i, src) {
		if (r == 0 && src_all[i]->begin)
			src_all[i]->begin(src);
		if (r == 0 && src_all[i]->kind)
			ses_kind(s, i);
	}
	return r;
}

/* "off-CPU and scheduler programs" */
static void name_programs(const struct ses *s, char *ret, size_t size)
{
	size_t len = 0;

	ses_each_source (s, i, src) {
		int n = snprintf(ret + len, size - len, "%s%s", len ? " and " : "",
		                 src_all[i]->programs);

		len += (size_t)MAX_OF(n, 0);
	}
	(void)snprintf(ret + len, size - len, " programs"); /* there is room: names are short */
}

static int open_walker(struct ses *s, struct err *err)
{
	struct abi_config cfg = {0};
	struct load_sizes sizes = {0};
	char programs[128] = "";
	uint64_t dev, ino;
	bool initial = true;
	int64_t max_stack = 0;
	int r = proc_self_pidns(&dev, &ino, &initial);

	if (r < 0)
		return err_set(err, r, "/proc/self/ns/pid: %s", err_name(r));
	tgt_config(&s->target, &cfg, &sizes);
	/* A command's samples are never ours, and a program that profiles itself wants its own. */
	cfg.agent_tgid = s->o.target == PFA_TARGET_COMMAND ? 0 : (uint32_t)getpid();
	cfg.agent_whole = tgt_all(&s->target) && (s->o.flags & PFA_EXCLUDE_OWN_PROCESS);
	cfg.kernel_stacks = !(s->o.flags & PFA_NO_KERNEL_STACKS);
	cfg.nested_ns = !initial;
	cfg.pidns_ino = (uint32_t)ino;
	if (proc_sysctl("kernel/perf_event_max_stack", &max_stack) < 0 || max_stack <= 0)
		max_stack = ABI_MAX_KERNEL_FRAMES;
	cfg.max_kframes = (uint32_t)MIN_OF(max_stack, (int64_t)ABI_MAX_KERNEL_FRAMES);
	if (getrandom(&cfg.hash_seed, sizeof(cfg.hash_seed), 0) != sizeof(cfg.hash_seed))
		return err_set(err, -EIO, "getrandom: %s", err_name(errno));
	s->walk.hash_seed = cfg.hash_seed;
	cfg.unwind = s->o.unwind == PFA_UNWIND_FP ? ABI_UNWIND_FP : ABI_UNWIND_TABLES;
	cfg.walk_flags = s->hooks.walk_flags;
	cfg.stream = ses_streams(s);
	cfg.deferred_quota = ses_deferred_quota(s);
	ses_sizes(s, any_walks(s), &sizes);
	ses_each_source (s, i, src)
		if (src_all[i]->config)
			src_all[i]->config(src, &cfg, &sizes);
	name_programs(s, programs, sizeof(programs));
	sizes.programs = programs;
	r = smp_walker_open(&cfg, &sizes, &s->walker, err);
	if (r < 0)
		return ses_explain(r, err);
	s->env.walker = s->walker;
	return tgt_load(&s->target, smp_walker_loader(s->walker), &s->tally, err);
}

static int find_cpus(struct ses *s, struct err *err)
{
	int n;

	s->cpus = calloc(PEV_CPUS_MAX, sizeof(*s->cpus));
	if (!s->cpus)
		return err_set(err, -ENOMEM, "out of memory");
	n = proc_online_cpus(s->cpus, PEV_CPUS_MAX, err);
	if (n <= 0)
		return n < 0 ? n : err_set(err, -ENODEV, "no online CPU");
	s->env.cpus = s->cpus;
	s->env.n_cpus = (uint32_t)n;
	return ses_check_descriptors(s, err);
}

/* Opens and loads everything; no program runs yet. */
static int prepare(struct ses *s, struct err *err)
{
	int r = check_interrupted(s, err);

	if (r == 0)
		r = ses_check_proc(err);
	if (r == 0)
		r = tgt_open(&s->target, err);
	if (r == 0)
		r = find_cpus(s, err);
	if (r == 0)
		r = open_outputs(s, err);
	if (r == 0)
		r = open_sources(s, err);
	if (r == 0)
		r = open_walker(s, err);
	if (r == 0)
		r = load_sources(s, err);
	if (r == 0)
		r = check_interrupted(s, err);
	if (r == 0 && s->o.target == PFA_TARGET_COMMAND) {
		r = ses_command_spawn(s->o.argv, &s->cmd, err);
		if (r == 0)
			r = tgt_command(&s->target, (uint32_t)s->cmd.pid, err);
	}
	if (r == 0 && any_walks(s))
		r = if_ended(s, ses_walk_open(s, err), err);
	return r == 0 ? check_interrupted(s, err) : r;
}

/* Attaches and starts everything; from here on samples may come. */
static int begin(struct ses *s, struct err *err)
{
	const struct load_procs procs = tgt_procs(&s->target);
	int r = 0;

	s->cost.before_ns = ses_threads_cpu_ns(s);
	s->env.agg = s->walk.agg;
	s->env.start_ns = now_and_realtime_ns(&s->env.start_realtime_ns);
	if (s->walk.jit)
		jit_begin(s->walk.jit, s->env.start_ns);
	if (tgt_tree(&s->target)) {
		r = load_follow(smp_walker_loader(s->walker), &procs, err);
		if (r < 0 && r != -ESRCH)
			r = ses_explain(r, err);
	}
	if (r == 0)
		r = start_sources(s, err);
	if (r < 0)
		return if_ended(s, r, err);
	s->cost.locked_bytes = ses_locked_bytes(s);
	r = tgt_watch(&s->target, err);
	return r == 0 ? ses_threads_start(s, err) : r;
}

int ses_start_capture(struct ses *s, struct err *err)
{
	int r = prepare(s, err);

	if (r == 0)
		r = begin(s, err);
	if (r == 0)
		r = check_interrupted(s, err);
	if (r == 0 && s->o.target == PFA_TARGET_COMMAND)
		return ses_command_go(&s->cmd, s->o.argv[0], err);
	if (r == 0 && s->o.target == PFA_TARGET_PID && tgt_ended(&s->target))
		return ended_early(s, err);
	return r;
}
