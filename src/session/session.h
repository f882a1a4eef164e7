/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session - threads, wiring, lifetime: one capture after another from one set of options.
 *
 * Threads: C is the caller's. D drains the kernel's rings. W knows processes and images. B × (cores
 * - 1, 1 to 4) name addresses. Everything belongs to one of them; what crosses goes through a
 * queue. All end in ses_stop.
 */
#ifndef PA_SESSION_H
#define PA_SESSION_H

#include "encode/encode.h"

struct ses;

enum ses_target { SES_TARGET_PID = 1, SES_TARGET_ALL, SES_TARGET_COMMAND };
enum ses_event { SES_EVENT_CPU_CLOCK = 0, SES_EVENT_CYCLES, SES_EVENT_AUTO };

/* Checked by ses_new; all pointers are copied. */
struct ses_options {
	enum ses_target target;
	int64_t pid;
	const char *const *argv; /* COMMAND */
	uint32_t rate_hz;
	enum ses_event event;
	bool kernel_stacks;
	bool exclude_process;      /* leave the whole calling process out of ALL */
	const char *const *tags;   /* may be NULL */
	struct enc_target profile; /* all zero: no output */
	/* 0: chosen by target, rate and CPUs */
	uint32_t ring_bytes, count_entries, range_entries, drain_interval_ms;
};

struct ses_stats {
	uint64_t elapsed_ns;
	uint64_t seen, kept, dropped, idle, weight, stacks;
	uint64_t agent_cpu_ns, locked_bytes;
};

struct ses_function {
	const char *name, *module; /* borrowed until the next start or free */
	uint64_t self, cum;
};

struct ses_counter {
	const char *name, *unit, *help;
	uint64_t value;
};

/* 0, -EINVAL (message names the option), -ENOMEM. Opens nothing. */
int ses_new(const struct ses_options *o, struct ses **ret, struct err *err);
int ses_start(struct ses *s, struct err *err);
int ses_stop(struct ses *s, struct err *err);
struct ses *ses_free(struct ses *s);
bool ses_running(const struct ses *s);

int ses_ended_fd(const struct ses *s); /* -1: none */
int ses_command_status(struct ses *s,
                       int *ret); /* 1 ended, 0 runs, -EINVAL no command, -ECHILD unknown */
int ses_command_pid(const struct ses *s);
int ses_stats(struct ses *s, struct ses_stats *ret); /* any thread */
int ses_counter(struct ses *s, size_t i, struct ses_counter *ret);
const char *ses_note(const struct ses *s, size_t i);
const char *ses_quality(const struct ses *s, size_t i);
int ses_top(const struct ses *s, struct ses_function *ret, size_t max);
const char *ses_weight_unit(const struct ses *s);

#endif
