/* SPDX-License-Identifier: Apache-2.0 */
/* The outputs of profiles besides pprof: flame graphs, folded stacks, perf.data. Thread: control. */
#include "session/session_priv.h"

#define STACK_MODES (PFA_MODE_PROFILE | PFA_MODE_OFFCPU)

static const char *name_of(const struct pfa_extra_output *x)
{
	switch ((enum pfa_profile_format)x->format) {
	case PFA_PROFILE_FLAME_HTML:
	case PFA_PROFILE_FLAME_SVG:
		return "flame graph";
	case PFA_PROFILE_FOLDED:
		return "folded stacks";
	case PFA_PROFILE_PERF_DATA:
		return "perf.data file";
	case PFA_PROFILE_END:
		break;
	}
	return "extra output";
}

/* The profiles that an output has, of those that the options ask for. */
static uint32_t modes_of(const struct pfa_options *o, const struct pfa_extra_output *x)
{
	const uint32_t modes = o->modes ? o->modes : PFA_MODE_PROFILE;

	return x->modes ? x->modes : modes & STACK_MODES;
}

/* ---- options --------------------------------------------------------------------------------- */

static int check_one(const struct pfa_options *o, const struct pfa_extra_output *x, size_t i,
                     struct err *err)
{
	const uint32_t asked = o->modes ? o->modes : PFA_MODE_PROFILE, modes = modes_of(o, x);

	if (x->format > PFA_PROFILE_PERF_DATA)
		return err_set(err, -EINVAL, "extra output %zu: unknown format %u", i, x->format);
	if (x->modes & ~STACK_MODES || modes & ~asked || !modes)
		return err_set(err, -EINVAL,
		               "extra output %zu: its modes must be PROFILE, OFFCPU or both, and "
		               "be modes of the capture",
		               i);
	if ((x->format == PFA_PROFILE_FLAME_SVG || x->format == PFA_PROFILE_FOLDED) &&
	    modes == STACK_MODES)
		return err_set(err, -EINVAL,
		               "extra output %zu: this format has one profile; select PROFILE or "
		               "OFFCPU",
		               i);
	if (x->root > PFA_ROOT_THREAD || (x->root && x->format != PFA_PROFILE_FOLDED))
		return err_set(err, -EINVAL, "extra output %zu: root must be 0%s", i,
		               x->format == PFA_PROFILE_FOLDED ? ", 1 or 2" : " in this format");
	if (x->compress > (x->format == PFA_PROFILE_PERF_DATA ? 22 : 0))
		return err_set(err, -EINVAL, "extra output %zu: compress must be 0%s", i,
		               x->format == PFA_PROFILE_PERF_DATA ? " to 22" : " in this format");
	if (x->to.reserved0)
		return err_set(err, -EINVAL, "extra output %zu: reserved0 must be 0", i);
	if ((x->to.path != NULL) + (x->to.fd > 0) + (x->to.write != NULL) != 1 || x->to.fd < 0)
		return err_set(err, -EINVAL,
		               "extra output %zu: needs one of path, descriptor and call-back", i);
	return 0;
}

static size_t count(const struct pfa_options *o)
{
	size_t n = 0;

	while (o->extra_outputs && n <= PFA_EXTRA_OUTPUTS_MAX &&
	       o->extra_outputs[n].format != PFA_PROFILE_END)
		n++;
	return n;
}

int ses_extra_check(const struct pfa_options *o, struct err *err)
{
	const size_t n = count(o);
	bool page = false;
	int r = 0;

	if (n > PFA_EXTRA_OUTPUTS_MAX)
		return err_set(err, -E2BIG, "extra outputs: more than %d", PFA_EXTRA_OUTPUTS_MAX);
	for (size_t i = 0; i < n && r == 0; i++) {
		r = check_one(o, &o->extra_outputs[i], i, err);
		page = page || o->extra_outputs[i].format == PFA_PROFILE_FLAME_HTML;
	}
	if (r == 0 && o->flags & PFA_TIMELINE && !page)
		return err_set(err, -EINVAL, "time line: needs an extra output FLAME_HTML");
	return r;
}

int ses_extra_dup(const struct pfa_options *o, struct pfa_options *ret)
{
	const size_t n = count(o);
	struct pfa_extra_output *v;

	ret->extra_outputs = NULL;
	if (n == 0)
		return 0;
	v = calloc(n + 1, sizeof(*v));
	if (!v)
		return -ENOMEM;
	ret->extra_outputs = v;
	for (size_t i = 0; i < n; i++) {
		v[i] = o->extra_outputs[i];
		v[i].to.path = v[i].to.path ? strdup(v[i].to.path) : NULL;
		if (o->extra_outputs[i].to.path && !v[i].to.path)
			return -ENOMEM;
	}
	return 0;
}

void ses_extra_done(struct pfa_options *o)
{
	for (size_t i = 0; i < count(o); i++)
		free((void *)(uintptr_t)o->extra_outputs[i].to.path);
	free((void *)(uintptr_t)o->extra_outputs);
}

/* ---- writing --------------------------------------------------------------------------------- */

int ses_extra_open(struct ses *s, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < count(&s->o) && r == 0; i++)
		r = enc_output_open(&s->o.extra_outputs[i].to, &s->extra[i], err);
	return r;
}

int ses_encode(uint32_t format, uint32_t root, const struct enc_flame_profile *profiles, size_t n,
               bool offcpu, struct sbuf *b)
{
	const struct prof_model *m = profiles[0].model;
	struct enc_folded_options folded = {.root = (enum enc_folded_root)root};

	switch ((enum pfa_profile_format)format) {
	case PFA_PROFILE_FLAME_HTML:
		return enc_flame_html(profiles, n, b);
	case PFA_PROFILE_FLAME_SVG:
		return enc_flame_svg(m, m->n_types - 1, b);
	case PFA_PROFILE_FOLDED:
		if (offcpu) {
			folded.type_idx = m->n_types - 1;
			folded.divisor = 1000; /* nanoseconds to microseconds */
		}
		return enc_folded(m, &folded, b);
	case PFA_PROFILE_PERF_DATA: /* written in parts */
	case PFA_PROFILE_END:
		break;
	}
	return -EINVAL;
}

/* Makes the page. */
static int encode_page(struct ses *s, struct enc_flame_profile *profiles, const size_t *sources,
                       size_t n, struct sbuf *b)
{
	struct enc_time_sample *times[SRC_CNT] = {NULL};
	int r = 0;

	for (size_t i = 0; i < n && r == 0 && s->o.flags & PFA_TIMELINE; i++) {
		r = ses_stream_times(s, sources[i], &times[i], &profiles[i].n_times);
		profiles[i].times = times[i];
		profiles[i].times_lost =
		        s->product[sources[i]].result.kept -
		        MIN_OF(s->product[sources[i]].result.kept, (uint64_t)profiles[i].n_times);
	}
	if (r == 0)
		r = enc_flame_html(profiles, n, b);
	for (size_t i = 0; i < n; i++)
		free(times[i]);
	return r;
}

static int write_one(struct ses *s, size_t i, struct err *err)
{
	const struct pfa_extra_output *x = &s->o.extra_outputs[i];
	struct enc_flame_profile profiles[SRC_CNT] = {0};
	size_t sources[SRC_CNT], n = 0;
	uint32_t modes = 0;
	struct sbuf b;
	int r;

	for (size_t k = 0; k < SRC_CNT; k++) {
		if (!(modes_of(&s->o, x) & src_all[k]->mode) || !s->product[k].result.model)
			continue;
		sources[n] = k;
		profiles[n++].model = s->product[k].result.model;
		modes |= src_all[k]->mode;
	}
	if (n == 0)
		return 0; /* why there is no profile is reported already */
	if (x->format == PFA_PROFILE_PERF_DATA) {
		r = ses_perf_data_write(s, modes, x->compress, s->extra[i], err);
		s->extra_written |= r < 0 ? 0 : 1U << i;
		return r;
	}
	sbuf_init(&b, SIZE_MAX / 2);
	r = x->format == PFA_PROFILE_FLAME_HTML
	            ? encode_page(s, profiles, sources, n, &b)
	            : ses_encode(x->format, x->root, profiles, n, modes == PFA_MODE_OFFCPU, &b);
	if (r < 0)
		r = err_set(err, r, "encoding the %s: %s", name_of(x), err_name(r));
	else
		r = enc_output_commit(s->extra[i], b.p, b.len, err);
	sbuf_done(&b);
	s->extra_written |= r < 0 ? 0 : 1U << i;
	return r;
}

int ses_extra_write(struct ses *s, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < count(&s->o); i++)
		if (s->extra[i])
			r = ses_first(r, write_one(s, i, r == 0 ? err : NULL));
	return r;
}

void ses_extra_close(struct ses *s)
{
	for (size_t i = 0; i < PFA_EXTRA_OUTPUTS_MAX; i++)
		s->extra[i] = enc_output_free(s->extra[i]);
}
