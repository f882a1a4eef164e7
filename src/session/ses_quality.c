/* SPDX-License-Identifier: Apache-2.0 */
/* The quality lines of a profile: one "key: value" a line. docs/output.md explains each key.
 * Thread: control. */
#include <fcntl.h>
#include <unistd.h>

#include "session/session_priv.h"

/* "depth limit" -> "depth_limit" */
static void key_of(const char *name, char *ret, size_t size)
{
	(void)str_copy(ret, size, name); /* names are short; a cut key would still be a key */
	for (char *p = ret; *p; p++)
		if (!((*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9')))
			*p = *p >= 'A' && *p <= 'Z' ? (char)(*p - 'A' + 'a') : '_';
}

/* ---- options --------------------------------------------------------------------------------- */

static int add_filter(void *arg, const char *key, const char *value)
{
	return result_line(arg, "%s: %s", key, value);
}

static int add_target(const struct ses *s, struct result_lines *to)
{
	_cleanup_(sbuf_done) struct sbuf b;
	int r;

	sbuf_init(&b, 4096);
	switch ((enum pfa_target)s->o.target) {
	case PFA_TARGET_PID:
		r = tgt_text(&s->target, &b);
		if (r == 0)
			r = result_line(to, "target: %s", b.p);
		return r == 0 && s->o.flags & PFA_FOLLOW_CHILDREN
		               ? result_line(to, "follow_children: true")
		               : r;
	case PFA_TARGET_ALL:
		return result_line(to, "target: all processes");
	case PFA_TARGET_COMMAND:
		return result_line(to, "target: command %s (pid %d)", s->o.argv[0],
		                   (int)s->cmd.pid);
	case PFA_TARGET_NONE:
		break;
	}
	return 0;
}

/* ---- the command line ------------------------------------------------------------------------ */

#define COMMAND_BYTES_MAX 4096

/* Bytes that no shell changes. */
static bool is_plain(const char *arg)
{
	return *arg && arg[strspn(arg, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	                               "0123456789_-./=:,@%+^")] == '\0';
}

static int add_argument(struct sbuf *to, const char *arg)
{
	const bool quoted = !is_plain(arg);

	if (quoted)
		(void)sbuf_char(to, '\'');
	for (; *arg; arg++) {
		if (*arg == '\'')
			(void)sbuf_str(to, "'\\''");
		else
			(void)sbuf_char(to,
			                (unsigned char)*arg < 0x20 || *arg == 0x7f ? '?' : *arg);
	}
	return quoted ? sbuf_char(to, '\'') : to->err;
}

int ses_quote_command(const char *args, size_t len, struct sbuf *to)
{
	int r = 0;

	for (size_t at = 0; at < len && r == 0; at += strlen(args + at) + 1) {
		const size_t before = to->len;

		if (at > 0)
			(void)sbuf_char(to, ' ');
		r = add_argument(to, args + at);
		if (r == 0 && to->len > COMMAND_BYTES_MAX) {
			to->len = before;
			to->p[before] = '\0';
			return sbuf_str(to, " ...");
		}
	}
	return r;
}

/* Without /proc there is no line. */
static int add_command(struct result_lines *to)
{
	_cleanup_close_ int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	_cleanup_free_ char *args = malloc(COMMAND_BYTES_MAX + 3);
	_cleanup_(sbuf_done) struct sbuf b;
	ssize_t n;
	int r;

	sbuf_init(&b, 1 << 20);
	if (!args)
		return -ENOMEM;
	n = fd < 0 ? 0 : read(fd, args, COMMAND_BYTES_MAX + 2);
	if (n <= 0)
		return 0;
	args[n] = '\0'; /* the last argument may be cut: then it is not used */
	r = ses_quote_command(args, (size_t)n, &b);
	return r < 0 ? r : result_line(to, "command: %s", b.p);
}

/* ---- the request ----------------------------------------------------------------------------- */

static const char *unwind_name(enum pfa_unwind u)
{
	switch (u) {
	case PFA_UNWIND_AUTO:
		return "auto";
	case PFA_UNWIND_FP:
		return "fp";
	case PFA_UNWIND_DWARF:
		return "dwarf";
	}
	return "unknown";
}

static int add_request(const struct ses *s, const struct src_product *p, struct result_lines *to)
{
	int r = result_line(to, "perf-agent: " PERF_AGENT_VERSION);

	if (r == 0)
		r = add_target(s, to);
	if (r == 0)
		r = tgt_each_filter(&s->target, add_filter, to);
	if (r == 0)
		r = add_command(to);
	if (r < 0)
		return r;
	(void)result_line(to, "event: %s", p->kind.event);
	if (p->kind.rate_hz)
		(void)result_line(to, "sample_rate_hz: %u", p->kind.rate_hz);
	(void)result_line(to, "unwind: %s", unwind_name((enum pfa_unwind)s->o.unwind));
	(void)result_line(to, "kernel_stacks: %s",
	                  s->o.flags & PFA_NO_KERNEL_STACKS ? "false" : "true");
	return result_line(to, "duration_s: %.3f", (double)p->result.model->duration_ns / 1e9);
}

/* ---- files with incomplete or heuristic stacks ----------------------------------------------- */

#define FILE_LINES      5
#define FILE_NAME_BYTES 128 /* bytes of a name: file names have up to 255 */

struct file_share {
	const char *name;
	const char *why; /* "without table", or why names are missing; NULL: neither */
	uint64_t weight;
};

static int cmp_name(const void *a, const void *b)
{
	const struct file_share *x = a, *y = b;
	int r = strcmp(x->name, y->name);

	return r ? r : strcmp(x->why ? x->why : "", y->why ? y->why : "");
}

static int cmp_weight(const void *a, const void *b)
{
	const struct file_share *x = a, *y = b;

	if (x->weight != y->weight)
		return (x->weight < y->weight) - (x->weight > y->weight);
	return cmp_name(a, b);
}

/* Adds up files of one name: the same library of many containers. */
static size_t merge_names(struct file_share *p, size_t n)
{
	size_t to = 0;

	qsort(p, n, sizeof(*p), cmp_name);
	for (size_t i = 0; i < n; i++) {
		if (to > 0 && cmp_name(&p[to - 1], &p[i]) == 0)
			p[to - 1].weight += p[i].weight;
		else
			p[to++] = p[i];
	}
	qsort(p, to, sizeof(*p), cmp_weight);
	return to;
}

/* Adds a line for each file with most weight, and one for the rest. */
static int add_shares(struct result_lines *to, const char *key, struct file_share *p, size_t n,
                      uint64_t whole)
{
	uint64_t rest = 0;
	int r = 0;

	n = merge_names(p, n);
	for (size_t i = 0; i < n && r == 0; i++) {
		if (i < FILE_LINES)
			r = result_line(to, "%s: %.*s%s%s%s %.2f", key, FILE_NAME_BYTES, p[i].name,
			                p[i].why ? " (" : "", p[i].why ? p[i].why : "",
			                p[i].why ? ")" : "", result_pct(p[i].weight, whole));
		else
			rest += p[i].weight;
	}
	if (r == 0 && rest)
		r = result_line(to, "%s: [others] %.2f", key, result_pct(rest, whole));
	return r;
}

static int add_incomplete(const struct ses *s, struct result_lines *to,
                          const struct result_quality *q, uint64_t whole)
{
	_cleanup_free_ struct file_share *p = calloc((size_t)q->n_incomplete + 1, sizeof(*p));
	size_t n = 0;

	if (!p)
		return -ENOMEM;
	for (uint32_t i = 0; i < q->n_incomplete; i++) {
		if (!q->incomplete[i])
			continue;
		p[n].name = i == 0 ? "[jit]" : str_base_name(trk_image(s->walk.trk, i)->path);
		p[n++].weight = q->incomplete[i];
	}
	if (q->incomplete_unknown)
		p[n++] = (struct file_share){.name = "[unknown]", .weight = q->incomplete_unknown};
	return add_shares(to, "incomplete_in", p, n, whole);
}

static int add_heuristic(const struct ses *s, struct result_lines *to,
                         const struct result_quality *q, uint64_t whole)
{
	_cleanup_free_ struct file_share *p = calloc(2 * (size_t)q->n_incomplete + 1, sizeof(*p));
	size_t n = 0;

	if (!p)
		return -ENOMEM;
	for (uint32_t i = 0; q->heuristic_in && i < 2 * q->n_incomplete; i++) {
		if (!q->heuristic_in[i])
			continue;
		p[n].name =
		        i < 2 ? "[unknown]" : str_base_name(trk_image(s->walk.trk, i / 2)->path);
		p[n].why = i % 2 ? "without table" : NULL;
		p[n++].weight = q->heuristic_in[i];
	}
	if (q->heuristic_early)
		p[n++] = (struct file_share){.name = "[before its table]",
		                             .weight = q->heuristic_early};
	return add_shares(to, "heuristic_in", p, n, whole);
}

/* Adds the files in whose code without names the program was. */
static int add_unnamed(struct result_lines *to, const struct result *result)
{
	const struct result_quality *q = &result->quality;
	const struct prof_model *m = result->model;
	_cleanup_free_ struct file_share *p = calloc(q->n_unnamed + 1, sizeof(*p));
	size_t n = 0;

	if (!p)
		return -ENOMEM;
	for (size_t i = 0; i < MIN_OF(q->n_unnamed, m->locations.n); i++) {
		const struct prof_location *loc = &m->locations.p[i];
		const char *path = loc->mapping
		                           ? prof_model_str(m, m->mappings.p[loc->mapping - 1].path)
		                           : "[unknown]";

		if (!q->unnamed[i])
			continue;
		p[n].name = str_base_name(path);
		p[n].why = ev_reason_name((enum ev_reason)loc->reason);
		p[n++].weight = q->unnamed[i];
	}
	return add_shares(to, "unnamed_in", p, n, q->weight);
}

/* Adds the outcomes of the walks of user stacks. */
static int add_walks(const struct ses *s, struct result_lines *to, const struct result_quality *q)
{
	uint64_t whole = q->user_weight;
	char key[64];
	int r = result_line(to, "complete_stacks_pct: %.2f",
	                    whole ? result_pct(q->walk[EV_WALK_ROOT], whole) : 100.0);

	for (int i = 0; i < EV_WALK_CNT && r == 0; i++) {
		if (!q->walk[i])
			continue;
		key_of(ev_walk_name((enum ev_walk)i), key, sizeof(key));
		r = result_line(to, "walk_%s_pct: %.2f", key,
		                result_pct(q->walk[i], result_has_user_stack((enum ev_walk)i)
		                                               ? whole
		                                               : q->weight));
	}
	if (r == 0)
		r = result_line(to, "heuristic_stacks_pct: %.2f", result_pct(q->heuristic, whole));
	if (r == 0)
		r = result_line(to, "jit_stacks_pct: %.2f", result_pct(q->jit, whole));
	if (r == 0)
		r = add_incomplete(s, to, q, whole);
	if (r == 0)
		r = add_heuristic(s, to, q, whole);
	return r;
}

/* Adds the quality of the stacks, and of symbolization. */
static int add_stacks(const struct ses *s, struct result_lines *to, const struct result *result)
{
	const struct result_quality *q = &result->quality;
	char key[64];
	int r = 0;

	if (q->weight) {
		r = add_walks(s, to, q);
		if (r == 0)
			r = result_line(to, "cut_stacks_pct: %.2f",
			                result_pct(q->walk[EV_WALK_DEPTH] + q->kernel_cut,
			                           q->weight));
		if (r == 0)
			r = result_line(to, "lost_stacks_pct: %.2f",
			                result_pct(q->stack_lost, q->weight));
		if (r == 0 && q->user_frames > 0)
			r = result_line(to, "named_user_pct: %.2f",
			                100 * q->user_named / q->user_frames);
		if (r == 0 && q->kernel_frames > 0)
			r = result_line(to, "named_kernel_pct: %.2f",
			                100 * q->kernel_named / q->kernel_frames);
		if (r == 0)
			r = add_unnamed(to, result);
	}
	for (int i = EV_REASON_NAMED + 1; i < EV_REASON_CNT && r == 0; i++) {
		if (!q->reason_frames[i])
			continue;
		key_of(ev_reason_name((enum ev_reason)i), key, sizeof(key));
		r = result_line(to, "unnamed_frames_%s: %llu", key,
		                (unsigned long long)q->reason_frames[i]);
	}
	return r;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int add_counter(void *arg, const char *name, uint64_t value)
{
	return result_line(arg, "%s: %llu", name, (unsigned long long)value);
}

static int add_cost(struct ses *s, struct result_lines *to)
{
	const struct ses_cost *c = &s->cost;
	const uint64_t agent = s->final.agent_cpu_ns, finish = thread_own_cpu_ns() - c->stop_ns +
	                                                       ses_threads_cpu_ns(s) -
	                                                       c->capture_ns;

	(void)result_line(to, "agent_setup_cpu_ms: %.1f", (double)c->setup_ns / 1e6);
	if (s->walk.prepare_ns)
		(void)result_line(to, "table_setup_ms: %.1f", (double)s->walk.prepare_ns / 1e6);
	(void)result_line(to, "agent_finish_cpu_ms: %.1f", (double)finish / 1e6);
	(void)result_line(to, "agent_cpu_ms: %.1f", (double)agent / 1e6);
	return result_line(to, "agent_cpu_pct: %.2f", result_pct(agent, s->final.elapsed_ns));
}

/* Adds the comments of the profile: each tag, then one with the quality lines and the notes. */
static int add_comments(const struct ses *s, const struct src_product *p)
{
	struct prof_model *m = p->result.model;
	_cleanup_(sbuf_done) struct sbuf all, note;
	int r = 0;

	sbuf_init(&all, PROF_COMMENT_LEN_MAX);
	sbuf_init(&note, PROF_COMMENT_LEN_MAX);
	for (const char *const *t = s->o.tags; t && *t && r == 0; t++)
		r = prof_model_comment(m, "%s", *t);
	for (size_t i = 0; i < p->quality.v.n; i++)
		prof_comment_pack(&all, p->quality.v.p[i]);
	for (size_t i = 0; i < s->tally.n_notes; i++) {
		sbuf_reset(&note);
		(void)sbuf_addf(&note, "note: %s", s->tally.notes[i]);
		if (!note.err)
			prof_comment_pack(&all, note.p);
	}
	if (r == 0)
		r = all.err ? all.err : note.err;
	return r == 0 ? prof_model_comment(m, "%s", all.p) : r;
}

#define ADDED_MAX 16 /* lines of ses_add_statistic */

int ses_add_statistic(struct ses *s, const char *key, const char *value, struct err *err)
{
	if (s->state != SES_RUNNING)
		return err_set(err, -EINVAL, "statistic %s: no capture is running", key);
	if (!*key || key[strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789_")])
		return err_set(err, -EINVAL,
		               "statistic: a key has lower-case letters, digits and '_'");
	if (s->added.v.n == ADDED_MAX)
		return err_set(err, -E2BIG, "statistics: more than %d", ADDED_MAX);
	return result_line(&s->added, "%s: %s", key, value);
}

int ses_quality_add(struct ses *s, size_t i)
{
	struct src_product *p = &s->product[i];
	struct result_lines *to = &p->quality;
	int r = add_request(s, p, to);

	for (size_t k = 0; k < s->added.v.n && r == 0; k++)
		r = result_line(to, "%s", s->added.v.p[k]);
	if (r == 0)
		r = src_all[i]->statistics(s->src[i], p, &s->final, to);
	if (r == 0)
		r = add_stacks(s, to, &p->result);
	if (r == 0)
		r = tally_each(&s->tally, TALLY_LOSS, add_counter, to);
	if (r == 0 && src_all[i]->coverage)
		r = src_all[i]->coverage(s->src[i], &s->final, to);
	if (r == 0)
		r = add_cost(s, to);
	return r == 0 ? add_comments(s, p) : r;
}
