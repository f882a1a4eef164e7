/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks as lists of functions. */
#include "report/rep_priv.h"

#define FRAMES_MAX ((size_t)PROF_SAMPLE_LOCS_MAX * PROF_LOCATION_LINES_MAX)

uint32_t rep_node(const struct prof_model *m, const struct prof_location *loc,
                  const struct prof_line *l, bool addresses)
{
	uint32_t name = l ? rep_line_name(m, l) : 0;

	if (addresses && l && l->function)
		name = m->functions.p[l->function - 1].name;
	return name ? name : intern_count(m->strings) + rep_location_path(m, loc);
}

int rep_frames_of(const struct prof_model *m, const struct prof_sample *s, struct rep_frames *f)
{
	int r = 0;

	f->v.max = FRAMES_MAX;
	f->v.n = 0;
	for (uint32_t i = 0; i < s->loc_cnt && r == 0; i++) {
		const struct prof_location *loc =
		        &m->locations.p[m->loc_ids.p[s->loc_first + i] - 1];

		for (uint32_t k = 0; k < MAX_OF(loc->line_cnt, 1U) && r == 0; k++) {
			const struct prof_line *l =
			        loc->line_cnt ? &m->lines.p[loc->line_first + k] : NULL;
			struct rep_frame one = {.node = rep_node(m, loc, l, f->addresses),
			                        .path = rep_location_path(m, loc)};

			r = vec_push(&f->v, one);
		}
	}
	return r;
}

void rep_frames_done(struct rep_frames *f)
{
	vec_done(&f->v);
}

const char *rep_node_name(struct rep_doc *d, const struct prof_model *m, uint32_t node)
{
	const uint32_t n = intern_count(m->strings);

	return node < n ? rep_fn_name(d, m, node, 0) : rep_fn_name(d, m, 0, node - n);
}
