/* SPDX-License-Identifier: Apache-2.0 */
/* cli_run.c - one capture: from options to exit status */
#include "cli_priv.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
	CLI_EXTRA_CNT = CLI_PRODUCT_CNT - CLI_FLAME,
};

static const uint64_t DEFAULT_DURATION_NS = 10ull * 1000 * 1000 * 1000;
/* timeout(1) signals its child, and then the group, with the child again. Two signals within this
 * time count as one. */
static const uint64_t SAME_SIGNAL_NS = 100ull * 1000 * 1000;

enum end {
	END_DURATION,
	END_SIGNAL,
	END_TARGET,
};

struct run {
	const struct cli_options *o;
	struct pfa_session *session;
	struct cli_outputs outs;
	char comm[CLI_NAME_MAX];  /* of the target; "": unknown, or the whole machine */
	char clean[CLI_NAME_MAX]; /* the same for file names */
	uint64_t duration_ns;     /* 0: no end by time */
	uint64_t start_ns;
	size_t n_notes;                /* printed */
	int quality_rc;                /* of --quality-output */
	struct cli_children *children; /* at the start; NULL: none are looked for */
};

/* Signal handlers have no argument. This and the terminal of the live view are the only global
 * state of the program. */
static struct {
	int wake_fd;               /* eventfd: readable once a signal came */
	_Atomic uint64_t first_ns; /* when the first came, 0: none yet */
	_Atomic int number;        /* which */
	/* The session with a start that may have to be interrupted; NULL: none. */
	struct pfa_session *_Atomic session;
	const struct cli_outputs *_Atomic outs; /* to be removed by an abort; NULL: none */
} caught = {.wake_fd = -EBADF};

static uint64_t now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail with this clock */
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void on_end_signal(int number)
{
	static const char text[] =
	        "\nperf-agent: aborted by a second signal; not all of the output was written\n";
	uint64_t first = atomic_load(&caught.first_ns), now = now_ns(), one = 1;
	int saved_errno = errno;

	if (!first) {
		struct pfa_session *session;

		atomic_store(&caught.number, number);
		atomic_store(&caught.first_ns, now);
		/* After the stores above: start() sets the session, then reads first_ns. */
		session = atomic_load(&caught.session);
		if (session)
			pfa_interrupt(session);
		/* Cannot fail: the counter is 0. */
		(void)!write(caught.wake_fd, &one, sizeof(one));
	} else if (now - first > SAME_SIGNAL_NS) {
		const struct cli_outputs *outs = atomic_load(&caught.outs);

		if (outs)
			cli_outputs_remove(outs);
		(void)!write(STDERR_FILENO, text,
		             sizeof(text) - 1); /* nowhere to report a failure */
		_exit(CLI_FAILED);
	}
	errno = saved_errno;
}

/* A handler and not SIG_IGN, which a command would inherit. Writing to a closed pipe then fails
 * instead of ending the process. */
static void on_ignored(int number)
{
	(void)number;
}

static int set_handler(int number, void (*handler)(int), bool keep_ignored)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;

	if (sigaction(number, NULL, &old) < 0)
		return -errno;
	if (keep_ignored && old.sa_handler == SIG_IGN)
		return 0;
	return sigaction(number, &action, NULL) < 0 ? -errno : 0;
}

static int catch_signals(void)
{
	int rc;

	caught.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (caught.wake_fd < 0)
		return -errno;
	rc = set_handler(SIGINT, on_end_signal, false);
	if (!rc)
		rc = set_handler(SIGTERM, on_end_signal, false);
	if (!rc)
		rc = set_handler(SIGHUP, on_end_signal, true); /* nohup(1) */
	if (!rc)
		rc = set_handler(SIGPIPE, on_ignored, true);
	return rc;
}

/* The outputs are written, so there is nothing to abort. A signal now ends the wait for the
 * command. */
static void release_signals(void)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		(void)set_handler(numbers[i], on_ignored,
		                  true); /* worked before with the same arguments */
}

/* Reads the comm of process or thread @pid; "" if it cannot be read. */
static void read_comm(int32_t pid, char *ret, size_t size)
{
	char path[64];
	size_t n = 0;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	f = fopen(path, "re");
	if (f) {
		n = fread(ret, 1, size - 1, f);
		fclose(f);
	}
	while (n && ret[n - 1] == '\n')
		n--;
	ret[n] = '\0';
}

/* Names the whole machine: by its only cgroup, else by its host name without the domain. */
static void name_machine(const struct cli_options *o, char *ret, size_t size)
{
	char text[PATH_MAX] = "";
	size_t len;

	if (o->cgroups[0] && !o->cgroups[1]) {
		(void)snprintf(text, sizeof(text), "%s", o->cgroups[0]); /* was checked to fit */
		for (len = strlen(text); len && text[len - 1] == '/'; len--)
			text[len - 1] = '\0';
	} else if (gethostname(text, sizeof(text) - 1) == 0) {
		text[strcspn(text, ".")] = '\0';
	}
	cli_clean_name(cli_base_name(text), ret, size);
}

static void name_target(struct run *r)
{
	const struct cli_options *o = r->o;
	int32_t number = o->pids.n ? o->pids.v[0] : o->tids.n ? o->tids.v[0] : 0;
	const char *slash;

	if (o->command) {
		slash = strrchr(o->command[0], '/');
		(void)snprintf(r->comm, sizeof(r->comm), "%s",
		               slash ? slash + 1 : o->command[0]); /* cut */
	} else if (number) {
		read_comm(number, r->comm, sizeof(r->comm));
	}
	if (o->all)
		name_machine(o, r->clean, sizeof(r->clean));
	else
		cli_clean_name(r->comm, r->clean, sizeof(r->clean));
	if (!r->clean[0] && number)
		(void)snprintf(r->clean, sizeof(r->clean), "%s%d", o->pids.n ? "pid" : "tid",
		               number);
	else if (!r->clean[0])
		(void)snprintf(r->clean, sizeof(r->clean), o->all ? "all" : "command");
}

/* Prints an error of the library, whose message names the call and the object. The user knows a
 * hidden file and a duplicate of standard output by other names. */
static void say_error(const struct run *r, const char *what, int rc, const struct pfa_error *err)
{
	const struct cli_output *out =
	        err->cause == PFA_CAUSE_OUTPUT ? cli_outputs_find(&r->outs, err->object) : NULL;

	if (out)
		cli_say("cannot write %s: %s", cli_output_path(out), cli_error(-rc));
	else if (err->message[0])
		cli_say("%s", err->message);
	else
		cli_say("%s: %s", what, cli_error(-rc));
}

/* Returns the index of an extra output in the list that the library gets. */
static size_t extra_index(const struct run *r, enum cli_product p)
{
	size_t n = 0;

	for (int i = CLI_FLAME; i < (int)p; i++)
		n += r->outs.of[i].wanted;
	return n;
}

/* @extra: zeroed; gets the list of extra outputs. */
static void give_outputs(const struct run *r, struct pfa_options *p,
                         struct pfa_extra_output extra[static CLI_EXTRA_CNT + 1])
{
	const size_t flame = 0, folded = extra_index(r, CLI_FOLDED),
	             perf = extra_index(r, CLI_PERF);
	const struct {
		const char **path;
		int32_t *fd;
	} to[CLI_PRODUCT_CNT] = {
	        [CLI_PROFILE] = {&p->profile.path, &p->profile.fd},
	        [CLI_OFFCPU] = {&p->offcpu.path, &p->offcpu.fd},
	        [CLI_METRICS] = {&p->pmu.path, &p->pmu.fd},
	        [CLI_FLAME] = {&extra[flame].to.path, &extra[flame].to.fd},
	        [CLI_FOLDED] = {&extra[folded].to.path, &extra[folded].to.fd},
	        [CLI_PERF] = {&extra[perf].to.path, &extra[perf].to.fd},
	};

	if (r->outs.of[CLI_FLAME].wanted)
		extra[flame].format = r->o->extra.flame_format;
	if (r->outs.of[CLI_FOLDED].wanted) {
		extra[folded].format = PFA_PROFILE_FOLDED;
		extra[folded].root = r->o->extra.folded_root;
	}
	if (r->outs.of[CLI_PERF].wanted) {
		extra[perf].format = PFA_PROFILE_PERF_DATA;
		extra[perf].compress = r->o->extra.perf_compress;
	}
	p->extra_outputs = extra;
	for (size_t i = 0; i < CLI_PRODUCT_CNT; i++) {
		const struct cli_output *out = &r->outs.of[i];

		if (!out->wanted || !to[i].path)
			continue; /* it is the command's */
		*to[i].path = cli_output_target(out);
		*to[i].fd = out->fd >= 0 ? out->fd : 0;
	}
}

static int new_session(struct run *r)
{
	struct pfa_extra_output extra[CLI_EXTRA_CNT + 1] = {{0}};
	struct pfa_options p = PFA_OPTIONS_INIT;
	struct pfa_error err = {0};
	int rc;

	cli_session_options(r->o, &p);
	give_outputs(r, &p, extra);
	rc = pfa_new(&p, &r->session, &err);
	if (rc < 0) {
		say_error(r, "cannot use the options", rc, &err);
		return rc == -EINVAL ? CLI_USAGE : CLI_FAILED;
	}
	return CLI_DONE;
}

static void say_notes(struct run *r)
{
	const char *note;

	for (; !r->o->show.quiet && (note = pfa_note(r->session, r->n_notes)); r->n_notes++)
		cli_say("note: %s", note);
}

/* Milliseconds for poll, rounded up, so that @until has passed when it returns. */
static int timeout_ms(uint64_t now, uint64_t until)
{
	uint64_t ms = until > now ? (until - now + 999999) / 1000000 : 0;

	return ms > INT_MAX ? INT_MAX : (int)ms;
}

static enum end wait_for_end(struct run *r)
{
	struct pollfd fds[] = {
	        {.fd = caught.wake_fd, .events = POLLIN},
	        {.fd = pfa_ended_fd(r->session), .events = POLLIN}, /* -1: poll ignores it */
	};
	uint64_t deadline = r->duration_ns ? r->start_ns + r->duration_ns : UINT64_MAX, now;
	struct cli_progress progress;
	enum end end;

	/* A command writes to this terminal too. */
	cli_progress_init(&progress, r->o->show.quiet || r->o->command ? NULL : r->session,
	                  r->o->on[CLI_PROFILE], r->start_ns, r->duration_ns);
	for (;;) {
		now = now_ns();
		if (now >= deadline) {
			end = END_DURATION;
			break;
		}
		cli_progress_show(&progress, now);
		if (poll(fds, 2,
		         timeout_ms(now,
		                    deadline < progress.next_ns ? deadline : progress.next_ns)) < 0)
			continue; /* EINTR: the handler has made the eventfd readable */
		if (fds[0].revents) {
			end = END_SIGNAL;
			break;
		}
		if (fds[1].revents) {
			end = END_TARGET;
			break;
		}
	}
	cli_progress_remove(&progress);
	return end;
}

static void say_end(const struct run *r, enum end end)
{
	const struct cli_options *o = r->o;
	char time[32];

	if (end == END_SIGNAL)
		cli_say("SIG%s: the capture ends; a second signal aborts",
		        sigabbrev_np(atomic_load(&caught.number)));
	if (end != END_TARGET || o->command)
		return;
	cli_format_duration(now_ns() - r->start_ns, time, sizeof(time));
	if (!o->pids.n)
		cli_say("the process%s of thread%s %d%s ended after %s", o->tids.n > 1 ? "es" : "",
		        o->tids.n > 1 ? "s" : "", o->tids.v[0], o->tids.n > 1 ? " and others" : "",
		        time);
	else if (o->pids.n > 1)
		cli_say("all %zu processes ended after %s%s", o->pids.n, time,
		        o->follow_children ? "; the capture does not wait for their children" : "");
	else
		cli_say("pid %d ended after %s%s", o->pids.v[0], time,
		        o->follow_children ? "; the capture does not wait for its children" : "");
}

/* Reports the end of the command. Returns its exit status for perf-agent. */
static int finish_command(const struct run *r, enum end end)
{
	enum cli_command_end how = end == END_SIGNAL ? CLI_COMMAND_AWAITS : CLI_COMMAND_STAYS;

	if (end == END_DURATION && !r->o->keep_command)
		how = CLI_COMMAND_ENDS;
	return cli_command_finish(r->session, r->comm, how, r->o->show.quiet);
}

static const uint32_t modes[CLI_PRODUCT_CNT] = {[CLI_PROFILE] = PFA_MODE_PROFILE,
                                                [CLI_OFFCPU] = PFA_MODE_OFFCPU,
                                                [CLI_METRICS] = PFA_MODE_PMU};

/* Reports a profile: its table, its path, its quality, how to read it. */
static void report_profile(const struct run *r, enum cli_product p, bool written)
{
	const struct cli_output *out = &r->outs.of[p];
	const uint32_t kind = p == CLI_OFFCPU ? PFA_KIND_OFFCPU : PFA_KIND_ONCPU;
	struct cli_quality *q = NULL;
	int rc;

	cli_report_table(r->session, r->o, kind);
	if (written)
		cli_say("%s written: %s", cli_product_name(p), cli_output_path(out));
	rc = cli_quality_new(r->session, kind, &q);
	if (rc < 0)
		cli_say_plain("%squality: unknown: %s", p == CLI_OFFCPU ? "off-CPU " : "",
		              cli_error(-rc));
	else
		cli_report_quality(r->session, r->o, q, p == CLI_PROFILE || !r->o->on[CLI_PROFILE]);
	if (written && out->fd < 0)
		cli_report_reading(cli_output_path(out),
		                   p == CLI_PROFILE || !r->o->on[CLI_PROFILE]);
	free(q);
}

static void report(const struct run *r, enum cli_product p, bool written)
{
	const struct cli_output *out = &r->outs.of[p];

	if (r->o->show.quiet)
		return;
	if (p == CLI_PROFILE || p == CLI_OFFCPU)
		report_profile(r, p, written);
	/* No line about metrics on standard output: the user sees them. */
	else if (written && !(p == CLI_METRICS && out->fd >= 0))
		cli_say("%s written: %s", cli_product_name(p), cli_output_path(out));
	if (written && out->fd < 0 && (p == CLI_FOLDED || p == CLI_PERF))
		cli_report_reading(cli_output_path(out), false);
}

/* Whether the library has written a product, all of it. */
static bool is_written(const struct run *r, enum cli_product p)
{
	if (p == CLI_QUALITY)
		return r->quality_rc == 0;
	if (p >= CLI_FLAME)
		return pfa_extra_outputs_written(r->session) >> extra_index(r, p) & 1;
	return pfa_modes_written(r->session) & modes[p];
}

/* Names the products that were not written. */
static void say_missing(const struct run *r)
{
	for (int i = 0; i < CLI_PRODUCT_CNT; i++) {
		const struct cli_output *out = &r->outs.of[i];

		if (out->wanted && !is_written(r, (enum cli_product)i))
			cli_say("%s not written: %s", cli_product_name((enum cli_product)i),
			        cli_output_path(out));
	}
}

/* Writes the outputs and reports them. Returns enum cli_exit. */
static int finish(struct run *r, enum end end)
{
	int stopped, status = CLI_DONE, wanted = 0, moved[CLI_PRODUCT_CNT];
	bool written[CLI_PRODUCT_CNT];
	uint32_t ran;
	struct pfa_error err = {0};

	stopped = pfa_stop(r->session, &err);
	ran = pfa_modes_run(r->session);
	if (r->outs.of[CLI_QUALITY].wanted)
		r->quality_rc = cli_quality_write(r->session, &r->outs);
	for (int i = 0; i < CLI_PRODUCT_CNT; i++) {
		const struct cli_output *out = &r->outs.of[i];

		wanted += out->wanted;
		written[i] = out->wanted && is_written(r, (enum cli_product)i);
	}
	cli_outputs_publish(&r->outs, written, moved);
	atomic_store(&caught.outs, NULL);
	release_signals();
	say_notes(r);
	if (r->o->command)
		status = finish_command(r, end);
	for (int i = 0; i < CLI_PRODUCT_CNT; i++)
		if (r->o->on[i] && (ran & modes[i] || i >= CLI_FLAME))
			report(r, (enum cli_product)i, written[i] && !moved[i]);
	/* The failure comes last, so that the user reads it. */
	for (int i = 0; i < CLI_PRODUCT_CNT; i++) {
		const struct cli_output *out = &r->outs.of[i];

		if (!moved[i])
			continue;
		cli_say("cannot rename %s to %s: %s; the %s is in the first file", out->hidden,
		        out->name, cli_error(-moved[i]), cli_product_name((enum cli_product)i));
		status = CLI_FAILED;
	}
	if (r->quality_rc < 0) {
		cli_say("cannot write %s: %s", cli_output_path(&r->outs.of[CLI_QUALITY]),
		        cli_error(-r->quality_rc));
		status = CLI_FAILED;
	}
	if (!stopped)
		return status;
	if (wanted > 1)
		say_missing(r);
	if (err.cause != PFA_CAUSE_LEFT_OUT) /* a note has said it */
		say_error(r, "cannot write the output", stopped, &err);
	return CLI_FAILED;
}

/* Starts the capture. A signal ends the start, even one that came before it. */
static int start(struct run *r, struct pfa_error *err)
{
	int rc;

	atomic_store(&caught.session, r->session);
	if (atomic_load(&caught.first_ns))
		pfa_interrupt(r->session);
	rc = pfa_start(r->session, err);
	atomic_store(&caught.session, NULL);
	return rc;
}

static int capture(struct run *r)
{
	bool stacks = r->o->on[CLI_PROFILE] || r->o->on[CLI_OFFCPU];
	struct pfa_error err = {0};
	enum end end;
	int rc;

	if (r->o->unwind == PFA_UNWIND_DWARF && stacks && !r->o->show.quiet)
		cli_say("building the unwind tables of all mapped files; Ctrl-C ends this too");
	rc = start(r, &err);
	if (rc == -EINTR && atomic_load(&caught.first_ns)) {
		cli_say("SIG%s before the capture began: no %s",
		        sigabbrev_np(atomic_load(&caught.number)),
		        !stacks                 ? "metrics"
		        : r->o->on[CLI_METRICS] ? "profile and no metrics"
		                                : "profile");
		return CLI_FAILED;
	}
	if (rc < 0) {
		say_error(r, "cannot start the capture", rc, &err);
		return CLI_FAILED;
	}
	r->children = r->o->on[CLI_PROFILE] ? cli_children_new(r->o) : NULL;
	r->start_ns = now_ns();
	if (!r->o->show.quiet)
		cli_say_start(r->o, r->session, r->comm, r->duration_ns);
	say_notes(r);
	end = wait_for_end(r);
	cli_children_add(r->session, r->children, r->o, now_ns() - r->start_ns);
	if (!r->o->show.quiet)
		say_end(r, end);
	return finish(r, end);
}

int cli_run(const struct cli_options *o)
{
	struct run r = {.o = o, .duration_ns = o->duration_ns};
	int status, rc;

	if (!r.duration_ns && !o->command && !isatty(STDERR_FILENO))
		r.duration_ns = DEFAULT_DURATION_NS;
	rc = catch_signals(); /* before anything that may take a while */
	if (rc < 0) {
		cli_say("cannot set signal handlers: %s", cli_error(-rc));
		return CLI_FAILED;
	}
	name_target(&r);
	status = cli_outputs_open(&r.outs, o, r.clean);
	atomic_store(&caught.outs, &r.outs);
	if (status == CLI_DONE)
		status = new_session(&r);
	if (status == CLI_DONE)
		status = capture(&r);
	pfa_free(r.session);
	free(r.children);
	atomic_store(&caught.outs, NULL);
	cli_outputs_done(&r.outs);
	if (caught.wake_fd >= 0)
		close(caught.wake_fd);
	return status;
}
