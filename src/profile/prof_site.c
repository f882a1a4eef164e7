/* SPDX-License-Identifier: Apache-2.0 */
/* Frames in which a thread is blocked, of one off-CPU stack. */
#include "profile/profile.h"

bool prof_is_switch(const char *path, const char *name)
{
	/* From our program, which is the leaf, to the functions that all intervals share. */
	static const char *const prefixes[] = {
	        "bpf_prog_",    "bpf_trampoline_",  "bpf_trace_run",  "__bpf_trace_sched_switch",
	        "__traceiter_", "trace_sched_",     "__schedule",     "schedule",
	        "io_schedule",  "preempt_schedule", "__cond_resched", "_cond_resched",
	};

	if (strcmp(path, "[kernel]") != 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
		if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
			return true;
	return false;
}

static uint32_t path_of(const struct prof_model *m, const struct prof_location *loc)
{
	return loc->mapping ? m->mappings.p[loc->mapping - 1].path : 0;
}

/* The innermost function that was inlined there. */
static uint32_t name_of(const struct prof_model *m, const struct prof_location *loc)
{
	uint32_t function = loc->line_cnt ? m->lines.p[loc->line_first].function : 0;

	return function ? m->functions.p[function - 1].name : 0;
}

struct prof_site prof_site_of(const struct prof_model *m, const struct prof_sample *s)
{
	struct prof_site f = {0};

	for (uint32_t i = 0; i < s->loc_cnt && !f.own; i++) {
		const struct prof_location *loc =
		        &m->locations.p[m->loc_ids.p[s->loc_first + i] - 1];
		const char *name = prof_model_str(m, name_of(m, loc));
		const char *path = prof_model_str(m, path_of(m, loc));

		if (!loc->mapping && !loc->address) {
			if (strcmp(name, "[woken by]") == 0)
				break;
			if (!f.mark)
				f.mark = loc;
		} else if (strcmp(path, "[kernel]") == 0) {
			/* The innermost outside of the scheduler; if there is none the
			 * outermost. */
			if (!f.kernel ||
			    prof_is_switch(path, prof_model_str(m, name_of(m, f.kernel))))
				f.kernel = loc;
		} else {
			if (!f.user)
				f.user = loc;
			if (prof_owner(path, name) == PROF_OWN)
				f.own = loc;
			else if (prof_owner(path, name) == PROF_RUNTIME && !f.runtime)
				f.runtime = loc;
		}
	}
	return f;
}

const struct prof_location *prof_site_location(const struct prof_site *f)
{
	return f->own       ? f->own
	       : f->runtime ? f->runtime
	       : f->user    ? f->user
	       : f->kernel  ? f->kernel
	                    : f->mark;
}
