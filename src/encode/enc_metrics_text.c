/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics as text. Rows of zeros are left out: nothing of that kind happened.
 */
#include <inttypes.h>
#include <stdio.h>

#include "encode/enc_text_priv.h"

#define THREADS_OF_ONE  32 /* fit a screen or two; JSON has all */
#define THREADS_OF_MANY 8
#define HEADER_PIDS     8
#define COMM_WIDTH      (MET_COMM_LEN - 1)

static const char *const time_titles[MET_TIME_CNT] = {
        [MET_SLICE] = "On-CPU Time (time slice per context switch)",
        [MET_RUNQ] = "Runqueue Latency (time waiting for CPU)",
        [MET_OFF] = "Off-CPU Time (time blocked)",
};

static const char *const reason_titles[MET_REASON_CNT] = {
        [MET_REASON_PREEMPTED] = "Preempted (running)",
        [MET_REASON_YIELDED] = "Yielded (sched_yield)",
        [MET_REASON_SLEEP] = "Voluntary (sleep/mutex)",
        [MET_REASON_IOWAIT] = "I/O Wait (block I/O)",
        [MET_REASON_UNINTERRUPTIBLE] = "Uninterruptible (not for I/O)",
        [MET_REASON_STOPPED] = "Stopped/Traced",
        [MET_REASON_EXITED] = "Exited",
};

/* ---- pieces --------------------------------------------------------------------------------- */
/* Failures stick in the buffer and are checked once, at the end. */

static void put_comm(struct sbuf *b, const char comm[static MET_COMM_LEN])
{
	(void)enc_put_name(b, comm, strnlen(comm, MET_COMM_LEN));
}

static void put_padded_comm(struct sbuf *b, const char comm[static MET_COMM_LEN])
{
	enc_put_spaces(b, enc_put_name(b, comm, strnlen(comm, MET_COMM_LEN)), COMM_WIDTH);
}

/* "1234.567" ms, to the nearest µs. */
static const char *ms_of(uint64_t ns, char ret[static ENC_DECIMAL_MAX])
{
	return enc_thousandths(ns / 1000 + (ns % 1000 >= 500), ret);
}

static void put_ms(struct sbuf *b, uint64_t ns, int width)
{
	char ms[ENC_DECIMAL_MAX];

	(void)sbuf_addf(b, "%*s", width, ms_of(ns, ms));
}

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

static uint64_t sub_sat(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static bool entry_is_empty(const struct met_entry *e)
{
	uint64_t any = e->switches;

	for (int i = 0; i < MET_TIME_CNT; i++)
		any |= e->ns[i] | e->time[i].count;
	vec_each (c, &e->counters) {
		if (met_counter_counted(c))
			any |= c->value;
	}
	return any == 0;
}

/* ---- times and reasons ---------------------------------------------------------------------- */

static void put_time(struct sbuf *b, const char *title, const struct met_summary *t)
{
	const struct {
		const char *name;
		uint64_t ns;
	} rows[] = {
	        {"Min:", t->min_ns},    {"Max:", t->max_ns}, {"Mean:", t->mean_ns},
	        {"P50:", t->p50_ns},    {"P95:", t->p95_ns}, {"P99:", t->p99_ns},
	        {"P99.9:", t->p999_ns},
	};

	(void)sbuf_addf(b, "\n%s:\n", title);
	if (t->count == 0) {
		(void)sbuf_str(b, "  no complete interval in the capture\n");
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		(void)sbuf_addf(b, "  %-7s", rows[i].name);
		put_ms(b, rows[i].ns, ENC_NUMBER_WIDTH);
		(void)sbuf_str(b, " ms\n");
	}
}

static void put_sums(struct sbuf *b, const struct met_entry *e)
{
	static const char *const names[MET_TIME_CNT] = {
	        [MET_SLICE] = "On CPU:",
	        [MET_RUNQ] = "Run queue:",
	        [MET_OFF] = "Off CPU:",
	};

	(void)sbuf_str(b, "\nTotal Time (of all threads):\n");
	for (int i = 0; i < MET_TIME_CNT; i++) {
		if (!e->ns[i] && !e->time[i].count)
			continue;
		(void)sbuf_addf(b, "  %-10s", names[i]);
		put_ms(b, e->ns[i], ENC_NUMBER_WIDTH);
		(void)sbuf_addf(b, " ms  (%" PRIu64 " complete interval%s)\n", e->time[i].count,
		                plural(e->time[i].count));
	}
}

static void put_reasons(struct sbuf *b, const struct met_entry *e, bool aggregate)
{
	char pct[ENC_DECIMAL_MAX];

	(void)sbuf_addf(b, "\nContext Switch Reasons%s:\n", aggregate ? " (aggregate)" : "");
	if (e->switches == 0) {
		(void)sbuf_str(b, "  no context switches\n");
		return;
	}
	for (int i = 0; i < MET_REASON_CNT; i++) {
		if (!e->reason[i])
			continue;
		enc_put_title(b, 2, reason_titles[i]);
		(void)sbuf_addf(b, "%5s %%  (%" PRIu64 " time%s)\n",
		                enc_pct_of(e->reason[i], e->switches, 0.5, pct), e->reason[i],
		                plural(e->reason[i]));
	}
}

/* ---- threads -------------------------------------------------------------------------------- */

static uint64_t switches_of(const struct met_thread *t)
{
	uint64_t sum = 0;

	for (int i = 0; i < MET_REASON_CNT; i++)
		sum = enc_add_sat(sum, t->reason[i]);
	return sum;
}

static void put_thread_times(struct sbuf *b, const uint64_t ns[static MET_TIME_CNT],
                             uint64_t switches)
{
	for (int i = 0; i < MET_TIME_CNT; i++)
		put_ms(b, ns[i], ENC_NUMBER_WIDTH);
	(void)sbuf_addf(b, " %10" PRIu64 "\n", switches);
}

static void put_threads(struct sbuf *b, const struct met_entry *e, size_t shown_max)
{
	uint64_t more_ns[MET_TIME_CNT] = {0}, ended_ns[MET_TIME_CNT];
	uint64_t more_switches = 0, ended_switches = e->switches;

	if (e->threads.n == 0 && e->ended_threads == 0)
		return;
	/* Sums of the process without those of threads that have not ended. */
	memcpy(ended_ns, e->ns, sizeof(ended_ns));
	(void)sbuf_addf(b, "\nThreads:\n  %10s %-*s%*s%*s%*s %10s\n", "TID", COMM_WIDTH, "COMM",
	                ENC_NUMBER_WIDTH, "ON-CPU ms", ENC_NUMBER_WIDTH, "RUNQ ms",
	                ENC_NUMBER_WIDTH, "OFF-CPU ms", "SWITCHES");
	for (size_t i = 0; i < e->threads.n; i++) {
		const struct met_thread *t = &e->threads.p[i];
		uint64_t switches = switches_of(t);

		if (i < shown_max) {
			(void)sbuf_addf(b, "  %10" PRIu32 " ", t->tid);
			put_padded_comm(b, t->comm);
			put_thread_times(b, t->ns, switches);
		} else {
			for (int k = 0; k < MET_TIME_CNT; k++)
				more_ns[k] = enc_add_sat(more_ns[k], t->ns[k]);
			more_switches = enc_add_sat(more_switches, switches);
		}
		for (int k = 0; k < MET_TIME_CNT; k++)
			ended_ns[k] = sub_sat(ended_ns[k], t->ns[k]);
		ended_switches = sub_sat(ended_switches, switches);
	}
	if (e->threads.n > shown_max) {
		size_t n = e->threads.n - shown_max;

		(void)sbuf_addf(b, "  %10zu %-*s", n, COMM_WIDTH, "more");
		put_thread_times(b, more_ns, more_switches);
	}
	if (e->ended_threads > 0) {
		(void)sbuf_addf(b, "  %10" PRIu64 " %-*s", e->ended_threads, COMM_WIDTH, "ended");
		put_thread_times(b, ended_ns, ended_switches);
	}
}

/* ---- entries -------------------------------------------------------------------------------- */

static void put_entry(struct sbuf *b, const struct met_snapshot *s, const struct met_entry *e,
                      bool aggregate, size_t threads_max)
{
	if (entry_is_empty(e)) {
		(void)sbuf_str(b, "Nothing was counted: no thread ran or was woken.\n");
		return;
	}
	for (int i = 0; i < MET_TIME_CNT; i++)
		put_time(b, time_titles[i], &e->time[i]);
	put_sums(b, e);
	put_reasons(b, e, aggregate);
	enc_put_counters(b, s, e);
	if (threads_max > 0)
		put_threads(b, e, threads_max);
}

static void put_label(struct sbuf *b, const struct met_label *l)
{
	(void)enc_put_name(b, l->key, strlen(l->key));
	(void)sbuf_char(b, '=');
	(void)enc_put_name(b, l->value, strlen(l->value));
}

static void put_labels_of(struct sbuf *b, const struct met_entry *e)
{
	for (size_t i = 0; i < e->labels.n; i++) {
		(void)sbuf_str(b, i ? ", " : "Labels: ");
		put_label(b, &e->labels.p[i]);
	}
	if (e->labels.n > 0)
		(void)sbuf_char(b, '\n');
}

static void put_cell(struct sbuf *b, const struct met_summary *t, uint64_t ns)
{
	if (t->count == 0) {
		(void)sbuf_addf(b, " %11s", "-");
	} else {
		(void)sbuf_char(b, ' ');
		put_ms(b, ns, 11);
	}
}

static void put_table_row(struct sbuf *b, const struct met_entry *e)
{
	const struct met_summary *runq = &e->time[MET_RUNQ];
	char ipc[ENC_DECIMAL_MAX] = "-";
	double ratio;

	put_ms(b, e->ns[MET_SLICE], ENC_NUMBER_WIDTH);
	(void)sbuf_addf(b, " %10" PRIu64, e->switches);
	put_cell(b, &e->time[MET_SLICE], e->time[MET_SLICE].p50_ns);
	put_cell(b, runq, runq->p50_ns);
	put_cell(b, runq, runq->p99_ns);
	put_cell(b, &e->time[MET_OFF], e->time[MET_OFF].p50_ns);
	if (met_ratio(e, MET_COUNTER_INSTRUCTIONS, MET_COUNTER_CYCLES, &ratio) == 0)
		enc_decimal(ratio, ipc);
	(void)sbuf_addf(b, "%8s\n", ipc);
}

static void put_table(struct sbuf *b, const struct met_snapshot *s)
{
	(void)sbuf_str(b, "\nProcesses by CPU time (times in ms):\n");
	(void)sbuf_addf(b, "%10s %-*s%*s %10s%12s%12s%12s%12s%8s\n", "PID", COMM_WIDTH, "COMM",
	                ENC_NUMBER_WIDTH, "CPU time", "SWITCHES", "SLICE p50", "RUNQ p50",
	                "RUNQ p99", "OFF p50", "IPC");
	vec_each (e, &s->procs) {
		if (e->pid) {
			(void)sbuf_addf(b, "%10" PRIu32 " ", e->pid);
			put_padded_comm(b, e->comm);
		} else {
			(void)sbuf_addf(b, "%10s %-*s", "other", COMM_WIDTH, "");
		}
		put_table_row(b, e);
	}
	(void)sbuf_addf(b, "%10s %-*s", "all", COMM_WIDTH, "");
	put_table_row(b, &s->all);
}

static void put_processes(struct sbuf *b, const struct met_snapshot *s, size_t threads_max)
{
	put_table(b, s);
	vec_each (e, &s->procs) {
		if (e->pid) {
			(void)sbuf_addf(b, "\n--- PID %" PRIu32 " (", e->pid);
			put_comm(b, e->comm);
			(void)sbuf_str(b, ") ---\n");
		} else {
			(void)sbuf_addf(b,
			                "\n--- Other (%" PRIu64
			                " thread%s of the processes over the limit) ---\n",
			                s->other_threads, s->other_threads == 1 ? "" : "s");
		}
		put_labels_of(b, e);
		(void)sbuf_addf(b, "Context switches: %" PRIu64 "\n", e->switches);
		put_entry(b, s, e, e->pid == 0, threads_max);
	}
}

/* ---- the whole ------------------------------------------------------------------------------ */

static uint64_t process_cnt(const struct met_snapshot *s)
{
	uint64_t n = 0;

	vec_each (e, &s->procs)
		n += e->pid != 0;
	return n;
}

static void put_header_pids(struct sbuf *b, const struct met_snapshot *s)
{
	size_t n = 0;

	(void)sbuf_str(b, "=== Scheduler Statistics (");
	if (s->procs.n == 0)
		(void)sbuf_str(b, "PIDs");
	else
		(void)sbuf_addf(b, "PID%s: ", plural(s->procs.n));
	vec_each (e, &s->procs) {
		if (n == HEADER_PIDS) {
			(void)sbuf_addf(b, " and %zu more", s->procs.n - n);
			break;
		}
		(void)sbuf_addf(b, n++ ? ", %" PRIu32 : "%" PRIu32, e->pid);
	}
	(void)sbuf_str(b, ") ===\n");
}

/* Filters belong to the heading: they say what is counted. */
static void put_filters(struct sbuf *b, const struct met_snapshot *s)
{
	static const char prefix[] = "filter_";

	vec_each (l, &s->labels) {
		if (strncmp(l->key, prefix, strlen(prefix)) != 0)
			continue;
		(void)sbuf_addf(b, "Only %s: ", l->key + strlen(prefix));
		(void)enc_put_name(b, l->value, strlen(l->value));
		(void)sbuf_char(b, '\n');
	}
}

static void put_machine(struct sbuf *b, const struct met_snapshot *s)
{
	char seconds[ENC_DECIMAL_MAX];

	put_filters(b, s);

	(void)sbuf_addf(b, "Duration: %s s\n",
	                enc_thousandths(s->duration_ns / NSEC_PER_MSEC, seconds));
	if (s->cpus > 0) {
		(void)sbuf_addf(b, "CPUs: %" PRIu32, s->cpus);
		if (s->cpus_offline > 0)
			(void)sbuf_addf(b, " (%" PRIu32 " more offline)", s->cpus_offline);
		(void)sbuf_char(b, '\n');
	}
	if (s->core_types.n > 1) {
		(void)sbuf_str(b, "Core types: ");
		for (size_t i = 0; i < s->core_types.n; i++) {
			(void)sbuf_str(b, i ? ", " : "");
			(void)enc_put_name(b, s->core_types.p[i], strlen(s->core_types.p[i]));
		}
		(void)sbuf_char(b, '\n');
	}
}

static void put_lists(struct sbuf *b, const struct met_snapshot *s)
{
	if (s->labels.n > 0)
		(void)sbuf_str(b, "\nLabels:\n");
	vec_each (l, &s->labels) {
		(void)sbuf_str(b, "  ");
		put_label(b, l);
		(void)sbuf_char(b, '\n');
	}
	if (s->notes.n > 0)
		(void)sbuf_str(b, "\nNotes:\n");
	vec_each (note, &s->notes) {
		(void)sbuf_str(b, "  ");
		(void)enc_put_name(b, *note, strlen(*note));
		(void)sbuf_char(b, '\n');
	}
}

static void put_pids(struct sbuf *b, const struct met_snapshot *s)
{
	put_header_pids(b, s);
	if (s->procs.n == 1) {
		(void)sbuf_str(b, "Command: ");
		put_comm(b, s->procs.p[0].comm);
		(void)sbuf_char(b, '\n');
		put_labels_of(b, &s->procs.p[0]);
		put_machine(b, s);
		(void)sbuf_addf(b, "Context switches: %" PRIu64 "\n", s->procs.p[0].switches);
		put_entry(b, s, &s->procs.p[0], false, THREADS_OF_ONE);
		return;
	}
	put_machine(b, s);
	if (s->procs.n > 0)
		put_processes(b, s, THREADS_OF_MANY);
	else
		put_entry(b, s, &s->all, true, THREADS_OF_ONE);
}

static void put_all(struct sbuf *b, const struct met_snapshot *s)
{
	(void)sbuf_str(b, "=== Scheduler Statistics (System-Wide) ===\n");
	put_machine(b, s);
	(void)sbuf_addf(b, "Context switches: %" PRIu64 "\n", s->all.switches);
	put_entry(b, s, &s->all, true, 0);
}

static void put_per_pid(struct sbuf *b, const struct met_snapshot *s)
{
	uint64_t n = process_cnt(s);

	(void)sbuf_str(b, "=== Scheduler Statistics (System-Wide, Per-PID) ===\n");
	put_machine(b, s);
	(void)sbuf_addf(b, "Profiled %" PRIu64 " process%s\n", n, n == 1 ? "" : "es");
	(void)sbuf_addf(b, "Context switches: %" PRIu64 "\n", s->all.switches);
	put_processes(b, s, 0);
}

static bool nothing_collected(const struct met_snapshot *s)
{
	if (!entry_is_empty(&s->all))
		return false;
	vec_each (e, &s->procs) {
		if (!entry_is_empty(e))
			return false;
	}
	return true;
}

int enc_metrics_text(const struct met_snapshot *s, struct sbuf *out)
{
	size_t len = out->len;

	if (nothing_collected(s)) {
		(void)sbuf_str(out, "No scheduler statistics were collected.\n");
	} else {
		switch (s->scope) {
		case MET_PIDS:
			put_pids(out, s);
			break;
		case MET_ALL:
			put_all(out, s);
			break;
		case MET_PER_PID:
			put_per_pid(out, s);
			break;
		}
	}
	put_lists(out, s);
	if (out->err) {
		out->len = len;
		if (out->p)
			out->p[len] = '\0';
	}
	return out->err;
}
