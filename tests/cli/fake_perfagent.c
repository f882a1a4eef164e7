/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_perfagent.c - a libperfagent that samples nothing and does what environment variables say,
 * for tests of the command line that need no kernel and no privileges. It really starts commands
 * and writes outputs.
 *
 *   FAKE_NEW, FAKE_START, FAKE_STOP, FAKE_UNWIND: "<errno> <message>": that call fails so
 *   FAKE_STOP_MS: pfa_stop takes so long; FAKE_END_MS: the target (not of COMMAND) ends after so long
 *   FAKE_SEEN, FAKE_DROPPED, FAKE_OWN, FAKE_ELAPSED_MS, FAKE_AGENT_MS; FAKE_UNIT: "nanoseconds" unless given
 *   FAKE_TOP: functions, one a line: self cum module name…; FAKE_PROCESS: with -a, their process
 *   FAKE_WAITS, FAKE_WAITS_DROPPED; FAKE_OFF_QUALITY: as FAKE_QUALITY, of the off-CPU profile
 *   FAKE_OFF_PLACES: where they wait, a line each: ns waits longest where where_cnt unnamed_cnt module name…
 *   FAKE_WITHOUT: "<modes> <message>": they are left out, which pfa_stop tells last
 *   FAKE_NOTES, FAKE_LATE_NOTES (after pfa_stop), FAKE_QUALITY: lines
 *   FAKE_NEW_WAIT, FAKE_START_WAIT: that call waits until this FIFO is opened and closed
 *   FAKE_LOG: file to which the options that were given are appended, one "name value" a line
 */
#include <perfagent/perfagent_report.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	LINES_MAX = 64,
	PRODUCTS = 3,
	EXTRA_MAX = 2,
};

enum state {
	STATE_NEW,
	STATE_RUNNING,
	STATE_STOPPED,
};

struct lines {
	char *text;
	char *line[LINES_MAX];
	size_t n;
};

struct pfa_session {
	struct pfa_options o;
	char *path[PRODUCTS];
	struct pfa_extra_output extra[EXTRA_MAX + 1]; /* their paths are owned */
	unsigned int extra_written;
	char **argv;
	enum state state;
	int ended_fd;
	pid_t child;
	int child_ended, child_status;
	volatile sig_atomic_t interrupted;
	unsigned int without, written;                  /* modes */
	struct lines notes, places, top[2], quality[2]; /* by enum pfa_kind */
};

static const char *const content[PRODUCTS] = {"fake profile\n", "fake waits\n", "fake metrics\n"};

static const char *get(const char *name, const char *otherwise)
{
	const char *v = getenv(name);

	return v ? v : otherwise;
}

static uint64_t get_number(const char *name)
{
	return strtoull(get(name, "0"), NULL, 10);
}

static int scripted_failure(const char *name, struct pfa_error *err)
{
	const char *script = getenv(name);
	char *message;
	long code;

	if (!script)
		return 0;
	code = strtol(script, &message, 10);
	if (err) {
		err->code = (int)-code;
		(void)snprintf(err->message, sizeof(err->message), "%s",
		               *message ? message + 1 : "");
	}
	return (int)-code;
}

static int split_lines(struct lines *l, const char *name, const char *more)
{
	char *rest;

	free(l->text);
	l->n = 0;
	if (asprintf(&l->text, "%s\n%s", get(name, ""), more) < 0) {
		l->text = NULL;
		return -ENOMEM;
	}
	rest = l->text;
	for (char *p; (p = strsep(&rest, "\n")) && l->n < LINES_MAX;) {
		if (*p)
			l->line[l->n++] = p;
	}
	return 0;
}

/* Until the test that opened the other end of the FIFO has closed it. */
static void wait_for_test(const char *name)
{
	const char *path = getenv(name);
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	char c;

	while (fd >= 0 && read(fd, &c, 1) < 0 && errno == EINTR)
		continue;
	if (fd >= 0)
		close(fd);
}

static void log_options(const struct pfa_options *o)
{
	const char *name = getenv("FAKE_LOG");
	FILE *f = name ? fopen(name, "ae") : NULL;

	if (!f)
		return;
	fprintf(f, "size_ok %d\ntarget %u\npid %d\nrate %u\nevent %u\nunwind %u\nflags %u\n",
	        o->size == sizeof(*o), o->target, o->pid, o->sample_rate_hz, o->event, o->unwind,
	        o->flags);
	for (size_t i = 0; o->argv && o->argv[i]; i++)
		fprintf(f, "argv %s\n", o->argv[i]);
	for (size_t i = 0; o->pids && o->pids[i]; i++)
		fprintf(f, "also %d\n", o->pids[i]);
	for (size_t i = 0; o->tids && o->tids[i]; i++)
		fprintf(f, "tid %d\n", o->tids[i]);
	for (size_t i = 0; o->comms && o->comms[i]; i++)
		fprintf(f, "comm %s\n", o->comms[i]);
	for (size_t i = 0; o->cgroups && o->cgroups[i]; i++)
		fprintf(f, "cgroup %s\n", o->cgroups[i]);
	for (size_t i = 0; o->tags && o->tags[i]; i++)
		fprintf(f, "tag %s\n", o->tags[i]);
	fprintf(f, "path %s\nfd %d\n", o->profile.path ? o->profile.path : "(none)",
	        o->profile.fd > 0);
	fprintf(f, "modes %u\noffcpu_path %s\noffcpu_fd %d\npmu_path %s\npmu_fd %d\n", o->modes,
	        o->offcpu.path ? o->offcpu.path : "(none)", o->offcpu.fd > 0,
	        o->pmu.path ? o->pmu.path : "(none)", o->pmu.fd > 0);
	fprintf(f, "states %u\nmin %llu\nmax %llu\noff_threads %u\nformat %u\n", o->offcpu_states,
	        (unsigned long long)o->offcpu_min_ns, (unsigned long long)o->offcpu_max_ns,
	        o->offcpu_threads, o->pmu_format);
	fprintf(f, "ring %u\ncounts %u\nranges %u\n", o->ring_bytes, o->count_entries,
	        o->range_entries);
	for (size_t i = 0; o->debug_dirs && o->debug_dirs[i]; i++)
		fprintf(f, "debug-dir %s\n", o->debug_dirs[i]);
	for (size_t i = 0; o->extra_outputs && o->extra_outputs[i].format; i++)
		fprintf(f, "extra %u %u %u %s %d%s\n", o->extra_outputs[i].format,
		        o->extra_outputs[i].modes, o->extra_outputs[i].root,
		        o->extra_outputs[i].to.path ? o->extra_outputs[i].to.path : "(none)",
		        o->extra_outputs[i].to.fd > 0,
		        o->extra_outputs[i].compress ? " compressed" : "");
	fprintf(f, "symbols %llu\n", (unsigned long long)o->symbol_budget_bytes);
	fprintf(f, "budget %llu\n", (unsigned long long)o->table_budget_bytes);
	fclose(f);
}

static char **copy_strings(const char *const *from)
{
	size_t n = 0;
	char **copy;

	while (from && from[n])
		n++;
	copy = calloc(n + 1, sizeof(*copy));
	for (size_t i = 0; copy && i < n; i++)
		copy[i] = strdup(from[i]);
	return copy;
}

const char *pfa_version(void)
{
	return get("FAKE_VERSION", PERF_AGENT_VERSION);
}

int pfa_new(const struct pfa_options *opts, struct pfa_session **ret, struct pfa_error *err)
{
	struct pfa_session *s;
	int rc;

	log_options(opts);
	wait_for_test("FAKE_NEW_WAIT");
	rc = scripted_failure("FAKE_NEW", err);
	if (rc < 0)
		return rc;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->o = *opts;
	s->ended_fd = -1;
	s->argv = copy_strings(opts->argv);
	s->path[0] = opts->profile.path ? strdup(opts->profile.path) : NULL;
	s->path[1] = opts->offcpu.path ? strdup(opts->offcpu.path) : NULL;
	s->path[2] = opts->pmu.path ? strdup(opts->pmu.path) : NULL;
	for (size_t i = 0; opts->extra_outputs && opts->extra_outputs[i].format && i < EXTRA_MAX;
	     i++) {
		s->extra[i] = opts->extra_outputs[i];
		s->extra[i].to.path = s->extra[i].to.path ? strdup(s->extra[i].to.path) : NULL;
	}
	*ret = s;
	return 0;
}

static int start_command(struct pfa_session *s, struct pfa_error *err)
{
	int pipe_fds[2], code = 0;

	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return -errno;
	s->child = fork();
	if (s->child < 0)
		return -errno;
	if (s->child == 0) {
		execvp(s->argv[0], s->argv);
		code = errno;
		if (write(pipe_fds[1], &code, sizeof(code)) < 0)
			_exit(126);
		_exit(127);
	}
	close(pipe_fds[1]);
	if (read(pipe_fds[0], &code, sizeof(code)) < 0)
		code = errno;
	close(pipe_fds[0]);
	if (code) {
		(void)waitpid(s->child, NULL, 0);
		err->code = -code;
		(void)snprintf(err->message, sizeof(err->message), "exec %s: %s", s->argv[0],
		               strerrorname_np(code));
		return -code;
	}
	s->ended_fd = (int)syscall(SYS_pidfd_open, s->child, 0);
	return s->ended_fd < 0 ? -errno : 0;
}

static int start_timer(struct pfa_session *s, uint64_t ms)
{
	struct itimerspec t = {.it_value = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000}};

	s->ended_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	if (s->ended_fd < 0 || timerfd_settime(s->ended_fd, 0, &t, NULL) < 0)
		return -errno;
	return 0;
}

int pfa_start(struct pfa_session *s, struct pfa_error *err)
{
	int rc;

	if (s->state == STATE_RUNNING)
		return -EBUSY;
	wait_for_test("FAKE_START_WAIT");
	rc = s->interrupted ? -EINTR : scripted_failure("FAKE_START", err);
	s->interrupted = 0;
	if (!rc)
		rc = split_lines(&s->notes, "FAKE_NOTES", "");
	s->without = (unsigned int)get_number("FAKE_WITHOUT");
	if (!rc && s->o.target == PFA_TARGET_COMMAND)
		rc = start_command(s, err);
	else if (!rc && getenv("FAKE_END_MS"))
		rc = start_timer(s, get_number("FAKE_END_MS"));
	if (!rc)
		s->state = STATE_RUNNING;
	return rc;
}

static int write_output(const char *path, int fd, const char *text, struct pfa_error *err)
{
	size_t len = strlen(text);
	char name[256];
	int rc = 0;

	if (!path && fd <= 0)
		return 0;
	(void)snprintf(name, sizeof(name), "descriptor %d", fd);
	if (path) {
		fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
		(void)snprintf(name, sizeof(name), "%s", path);
	}
	if (fd < 0 || write(fd, text, len) != (ssize_t)len) {
		rc = -errno;
		if (err) {
			err->code = rc;
			err->cause = PFA_CAUSE_OUTPUT;
			(void)snprintf(err->object, sizeof(err->object), "%.63s", name);
			(void)snprintf(err->message, sizeof(err->message), "write %s: %s", name,
			               strerrorname_np(-rc));
		}
	}
	if (path && fd >= 0)
		close(fd);
	return rc;
}

/* All of them, as the real one: the first failure is reported. */
static int write_outputs(struct pfa_session *s, struct pfa_error *err)
{
	const int fds[PRODUCTS] = {s->o.profile.fd, s->o.offcpu.fd, s->o.pmu.fd};
	int first = 0;

	s->written = 0;
	if (s->o.profile.write)
		return s->o.profile.write(s->o.profile.write_arg, content[0], strlen(content[0]));
	for (int i = 0; i < PRODUCTS; i++) {
		int rc = 0;

		if (!(pfa_modes_run(s) >> i & 1))
			continue;
		rc = write_output(s->path[i], fds[i], content[i], first ? NULL : err);
		s->written |= rc ? 0 : 1u << i;
		first = first ? first : rc;
	}
	s->extra_written = 0;
	for (int i = 0; s->extra[i].format; i++) {
		int rc = write_output(s->extra[i].to.path, s->extra[i].to.fd,
		                      s->extra[i].format == PFA_PROFILE_FOLDED ? "fake folded\n"
		                                                               : "fake flames\n",
		                      first ? NULL : err);

		s->extra_written |= rc ? 0 : 1u << i;
		first = first ? first : rc;
	}
	return first;
}

uint32_t pfa_extra_outputs_written(const struct pfa_session *s)
{
	return s->extra_written;
}

uint32_t pfa_modes_run(const struct pfa_session *s)
{
	return (s->o.modes ? s->o.modes : PFA_MODE_PROFILE) & ~s->without;
}

uint32_t pfa_modes_written(const struct pfa_session *s)
{
	return s->written;
}

void pfa_interrupt(struct pfa_session *s)
{
	s->interrupted = 1;
}

int pfa_stop(struct pfa_session *s, struct pfa_error *err)
{
	uint64_t ms = get_number("FAKE_STOP_MS");
	struct timespec t = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
	int rc;

	if (s->state != STATE_RUNNING)
		return -EINVAL;
	while (nanosleep(&t, &t) < 0)
		continue;
	s->state = STATE_STOPPED;
	if (s->ended_fd >= 0)
		close(s->ended_fd);
	s->ended_fd = -1;
	rc = split_lines(&s->quality[0], "FAKE_QUALITY", "");
	if (!rc)
		rc = split_lines(&s->quality[1], "FAKE_OFF_QUALITY", "");
	if (!rc)
		rc = split_lines(&s->top[0], "FAKE_TOP", "");
	if (!rc)
		rc = split_lines(&s->places, "FAKE_OFF_PLACES", "");
	if (!rc)
		rc = split_lines(&s->notes, "FAKE_NOTES", get("FAKE_LATE_NOTES", ""));
	if (!rc)
		rc = scripted_failure("FAKE_STOP", err);
	if (!rc)
		rc = write_outputs(s, err);
	if (rc || !s->without)
		return rc;
	if (err)
		err->cause = PFA_CAUSE_LEFT_OUT;
	return scripted_failure("FAKE_WITHOUT", err);
}

void pfa_free(struct pfa_session *s)
{
	if (!s)
		return;
	if (s->ended_fd >= 0)
		close(s->ended_fd);
	for (size_t i = 0; s->argv && s->argv[i]; i++)
		free(s->argv[i]);
	free(s->argv);
	for (int i = 0; i < PRODUCTS; i++)
		free(s->path[i]);
	for (int i = 0; i < EXTRA_MAX; i++)
		free((void *)(uintptr_t)s->extra[i].to.path);
	for (int i = 0; i < 2; i++) {
		free(s->top[i].text);
		free(s->quality[i].text);
	}
	free(s->notes.text);
	free(s->places.text);
	free(s);
}

int pfa_ended_fd(const struct pfa_session *s)
{
	return s->ended_fd;
}

int pfa_command_status(struct pfa_session *s, int *ret)
{
	if (s->o.target != PFA_TARGET_COMMAND || !s->child)
		return -EINVAL;
	if (!s->child_ended && waitpid(s->child, &s->child_status, WNOHANG) == s->child)
		s->child_ended = 1;
	if (s->child_ended)
		*ret = s->child_status;
	return s->child_ended;
}

int pfa_command_pid(const struct pfa_session *s)
{
	return s->o.target == PFA_TARGET_COMMAND && s->child ? s->child : -EINVAL;
}

/* The k-th number of a line of FAKE_TOP. */
static uint64_t top_number(const char *line, int k)
{
	char *end;
	uint64_t v = strtoull(line, &end, 10);

	return k ? strtoull(end, NULL, 10) : v;
}

int pfa_stats(const struct pfa_session *s, struct pfa_stats *ret)
{
	size_t size = ret->size;

	if (getenv("FAKE_STATS_FAIL"))
		return -EINVAL;
	*ret = (struct pfa_stats){.size = size,
	                          .elapsed_ns = get_number("FAKE_ELAPSED_MS") * 1000000,
	                          .seen = get_number("FAKE_SEEN"),
	                          .dropped = get_number("FAKE_DROPPED") + get_number("FAKE_OWN"),
	                          .agent_cpu_ns = get_number("FAKE_AGENT_MS") * 1000000};
	ret->kept = ret->seen - ret->dropped;
	for (size_t i = 0; i < s->top[0].n; i++)
		ret->weight += top_number(s->top[0].line[i], 0);
	ret->offcpu_seen = get_number("FAKE_WAITS");
	ret->offcpu_dropped = get_number("FAKE_WAITS_DROPPED");
	ret->offcpu_kept = ret->offcpu_seen - ret->offcpu_dropped;
	for (size_t i = 0; i < s->places.n; i++)
		ret->offcpu_ns += top_number(s->places.line[i], 0);
	return 0;
}

int pfa_counter(const struct pfa_session *s, size_t i, struct pfa_counter *ret)
{
	const struct pfa_counter counters[] = {
	        {"seen", "samples", "samples that hit the target", get_number("FAKE_SEEN")},
	        {"dropped_counts_full", "samples",
	         "samples dropped because the count table was full", get_number("FAKE_DROPPED")},
	        {"dropped_agent", "samples", "the agent's own", get_number("FAKE_OWN")},
	        {"offcpu_dropped_tables_full", "intervals",
	         "off-CPU intervals dropped because the thread table was full",
	         get_number("FAKE_WAITS_DROPPED")},
	};

	(void)s;
	if (i >= sizeof(counters) / sizeof(counters[0]))
		return -ENOENT;
	*ret = counters[i];
	return 0;
}

const char *pfa_note(const struct pfa_session *s, size_t i)
{
	return i < s->notes.n ? s->notes.line[i] : NULL;
}

const char *pfa_quality_of(const struct pfa_session *s, uint32_t kind, size_t i)
{
	return s->state == STATE_STOPPED && kind < 2 && i < s->quality[kind].n
	               ? s->quality[kind].line[i]
	               : NULL;
}

const char *pfa_quality(const struct pfa_session *s, size_t i)
{
	return pfa_quality_of(s, PFA_KIND_ONCPU, i);
}

int pfa_top_of(const struct pfa_session *s, uint32_t kind, struct pfa_function *ret, size_t max)
{
	static char modules[2][LINES_MAX][256];
	size_t i;

	if (s->state != STATE_STOPPED || kind >= 2)
		return -EINVAL;
	for (i = 0; i < s->top[kind].n && i < max; i++) {
		const char *line = s->top[kind].line[i];
		int at = 0;

		ret[i].self = top_number(line, 0);
		ret[i].cum = top_number(line, 1);
		(void)sscanf(line, "%*s %*s %255s %n", modules[kind][i], &at);
		ret[i].module = modules[kind][i];
		ret[i].name = line + at;
	}
	return (int)i;
}

int pfa_hot_functions(const struct pfa_session *s, uint32_t kind, uint32_t flags,
                      struct pfa_hot_function *ret, size_t max)
{
	struct pfa_function f[LINES_MAX];
	int n = pfa_top_of(s, kind, f, max < LINES_MAX ? max : LINES_MAX);
	for (int i = 0; i < n; i++) {
		const char *path = f[i].module, *process = flags ? get("FAKE_PROCESS", "proc") : "";
		unsigned int own = path[0] == '/' && !strstr(path, "libc.so");
		unsigned int pct = strcmp(f[i].name, "main") ? 0 : 95;
		ret[i] = (struct pfa_hot_function){f[i].name, path,      process, own,
		                                   pct,       f[i].self, f[i].cum};
	}
	return n;
}

int pfa_top_offcpu_sites(const struct pfa_session *s, struct pfa_offcpu_site *ret, size_t max)
{
	static char words[LINES_MAX][2][128];
	size_t i;

	if (s->state != STATE_STOPPED)
		return -EINVAL;
	for (i = 0; i < s->places.n && i < max; i++) {
		unsigned long long ns = 0, waits = 0, longest = 0;
		int at = 0;

		ret[i] = (struct pfa_offcpu_site){.where = words[i][0], .module = words[i][1]};
		(void)sscanf(s->places.line[i], "%llu %llu %llu %127s %u %u %127s %n", &ns, &waits,
		             &longest, words[i][0], &ret[i].where_cnt, &ret[i].unnamed_cnt,
		             words[i][1], &at);
		ret[i].offcpu_ns = ns;
		ret[i].intervals = waits;
		ret[i].longest_ns = longest;
		ret[i].name = s->places.line[i] + at;
	}
	return (int)i;
}

int pfa_top(const struct pfa_session *s, struct pfa_function *ret, size_t max)
{
	return pfa_top_of(s, PFA_KIND_ONCPU, ret, max);
}

const char *pfa_weight_unit(const struct pfa_session *s)
{
	return s->state == STATE_NEW ? NULL : get("FAKE_UNIT", "nanoseconds");
}

int pfa_unwind_info(const char *path, const uint64_t *pc, pfa_line_fn line, void *arg,
                    struct pfa_error *err)
{
	char text[4096];
	int rc = scripted_failure("FAKE_UNWIND", err);

	if (rc < 0)
		return rc;
	(void)snprintf(text, sizeof(text), "file: %s", path);
	line(arg, text);
	if (pc) {
		(void)snprintf(text, sizeof(text), "pc: 0x%llx", (unsigned long long)*pc);
		line(arg, text);
	}
	return 0;
}

/* Reports are tested with the real library (test-report.py). */
int pfa_report_check(const struct pfa_report_options *o, struct pfa_error *err)
{
	(void)o;
	return scripted_failure("FAKE_REPORT", err);
}

int pfa_report(const struct pfa_report_options *o, const struct pfa_output *to,
               struct pfa_error *err)
{
	(void)to;
	return pfa_report_check(o, err);
}
