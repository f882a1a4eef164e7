/* SPDX-License-Identifier: Apache-2.0 */
/* cli_session.c - from the options of the command line to those of the library */
#include "cli_priv.h"

void cli_session_options(const struct cli_options *o, struct pfa_options *p)
{
	p->target = o->all ? PFA_TARGET_ALL : o->command ? PFA_TARGET_COMMAND : PFA_TARGET_PID;
	if (o->pids.n)
		p->pid = o->pids.v[0];
	if (o->pids.n > 1)
		p->pids = o->pids.v + 1;
	p->tids = o->tids.v;
	if (o->comms[0])
		p->comms = o->comms;
	if (o->cgroups[0])
		p->cgroups = o->cgroups;
	p->argv = (const char *const *)o->command;
	p->sample_rate_hz = o->sample_rate_hz;
	p->event = o->event;
	p->unwind = o->unwind;
	p->table_budget_bytes = o->table_budget_bytes;
	p->debug_dirs = o->debug_dirs;
	p->symbol_budget_bytes = o->symbol_budget_bytes;
	p->flags = (o->kernel_stacks ? 0 : PFA_NO_KERNEL_STACKS) | (o->lines ? 0 : PFA_NO_LINES) |
	           (o->all ? PFA_EXCLUDE_OWN_PROCESS : 0) |
	           (o->follow_children && o->pids.n ? PFA_FOLLOW_CHILDREN : 0) |
	           (o->offcpu_wakers ? PFA_OFFCPU_WAKERS : 0) | (o->per_pid ? PFA_PER_PID : 0) |
	           (o->extra.timeline ? PFA_TIMELINE : 0);
	p->tags = o->tags;
	p->modes = (o->on[CLI_PROFILE] ? PFA_MODE_PROFILE : 0) |
	           (o->on[CLI_OFFCPU] ? PFA_MODE_OFFCPU : 0) |
	           (o->on[CLI_METRICS] ? PFA_MODE_PMU : 0);
	p->offcpu_states = o->offcpu_states;
	p->offcpu_min_ns = o->offcpu_min_ns;
	p->offcpu_max_ns = o->offcpu_max_ns;
	p->offcpu_threads = o->sizes.offcpu_threads;
	p->pmu_format = o->pmu_format;
	p->ring_bytes = o->sizes.ring_bytes;
	p->count_entries = o->sizes.count_entries;
	p->range_entries = o->sizes.range_entries;
}
