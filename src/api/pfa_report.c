/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of the public interface: reads the files, and has the module report do the rest. */
#include "api/api_priv.h"

#include "decode/decode.h"
#include "encode/encode.h"
#include "listing/listing.h"
#include "perfagent/perfagent_report.h"
#include "report/report.h"

#define FILES_MAX        1024
#define REPORT_MAX_BYTES ((size_t)1 << 30)

_Static_assert((int)PFA_REPORT_TEXT == (int)REP_TEXT &&
                       (int)PFA_REPORT_MARKDOWN == (int)REP_MARKDOWN &&
                       (int)PFA_REPORT_JSON == (int)REP_JSON &&
                       (int)PFA_REPORT_FOLDED == (int)REP_FOLDED &&
                       (int)PFA_REPORT_PPROF == (int)REP_PPROF &&
                       (int)PFA_REPORT_HTML == (int)REP_HTML && (int)PFA_REPORT_SVG == (int)REP_SVG,
               "one numbering");

_Static_assert((int)PFA_REPORT_TOP == (int)REP_TOP && (int)PFA_REPORT_PEEK == (int)REP_PEEK &&
                       (int)PFA_REPORT_TREE == (int)REP_TREE && (int)PFA_REPORT_BY == (int)REP_BY &&
                       (int)PFA_REPORT_DIFF == (int)REP_DIFF &&
                       (int)PFA_REPORT_ANNOTATE == (int)REP_ANNOTATE,
               "one numbering");

struct inputs {
	struct dec_profile *profiles; /* profiles[n_files] */
	size_t n_files;
	struct dec_options how;
	VEC(struct rep_input) v;
};

static void inputs_done(struct inputs *in)
{
	for (size_t i = 0; i < in->n_files && in->profiles; i++)
		dec_profile_done(&in->profiles[i]);
	freep(&in->profiles);
	vec_done(&in->v);
}

static int check_view(const struct pfa_report_options *o, struct err *err)
{
	const bool by_function = o->view == PFA_REPORT_PEEK || o->view == PFA_REPORT_ANNOTATE;
	const bool needs = by_function || o->view == PFA_REPORT_BY;

	if (o->view > PFA_REPORT_ANNOTATE)
		return err_set(err, -EINVAL, "view: %u is unknown", o->view);
	if (needs != (o->subject && *o->subject))
		return err_set(err, -EINVAL, "subject: %s",
		               needs ? "this view needs one" : "this view has none");
	if (o->view == PFA_REPORT_DIFF &&
	    (o->format == PFA_REPORT_FOLDED || o->format == PFA_REPORT_PPROF))
		return err_set(err, -EINVAL,
		               "view: changes are no profile; use text, markdown, "
		               "json, html or svg");
	if (o->view != PFA_REPORT_TOP && o->view != PFA_REPORT_DIFF && o->format > PFA_REPORT_JSON)
		return err_set(
		        err, -EINVAL,
		        "view: a format of profiles has no views; use text, markdown or json");
	if (o->min_permille > 1000)
		return err_set(err, -EINVAL, "min_permille: %u is above 1,000", o->min_permille);
	if (!by_function)
		return 0;
	return rep_subject_check(o->view == PFA_REPORT_PEEK ? "peek" : "annotate", o->subject, err);
}

static int count_files(const char *const *files, const char *what, size_t *ret, struct err *err)
{
	size_t n = 0;

	while (files && files[n] && n <= FILES_MAX)
		n++;
	if (n == 0)
		return err_set(err, -EINVAL, "%s: no profile is given", what);
	if (n > FILES_MAX)
		return err_set(err, -E2BIG, "%s: more than %d", what, FILES_MAX);
	*ret = n;
	return 0;
}

/* Copies and checks the options. *@ret_files, *@ret_base: how many files there are. */
static int take_options(const struct pfa_report_options *from, struct pfa_report_options *o,
                        struct rep_options *ret, size_t *ret_files, size_t *ret_base,
                        struct err *err)
{
	int r = api_take_struct(from, offsetof(struct pfa_report_options, format), o, sizeof(*o),
	                        "struct pfa_report_options", "PFA_REPORT_OPTIONS_INIT", err);

	if (r < 0)
		return r;
	*ret_base = 0;
	r = count_files(o->files, "files", ret_files, err);
	if (r == 0 && o->view == PFA_REPORT_DIFF)
		r = count_files(o->base, "base", ret_base, err);
	if (r < 0)
		return r;
	if (o->format > PFA_REPORT_SVG)
		return err_set(err, -EINVAL, "format: %u is unknown", o->format);
	if (o->sort > PFA_REPORT_BY_CUM)
		return err_set(err, -EINVAL, "sort: %u is unknown", o->sort);
	if (o->flags &
	    ~(uint32_t)(PFA_REPORT_FULL_NAMES | PFA_REPORT_COLOURS | PFA_REPORT_ADDRESSES))
		return err_set(err, -EINVAL, "flags: 0x%x is unknown", o->flags);
	r = check_view(o, err);
	if (r < 0)
		return r;
	*ret = (struct rep_options){.format = (enum rep_format)o->format,
	                            .view = (enum rep_view_kind)o->view,
	                            .subject = o->subject,
	                            .min_share = o->min_permille / 1000.0,
	                            .value = o->value,
	                            .by_cum = o->sort == PFA_REPORT_BY_CUM,
	                            .max_rows = o->rows,
	                            .width = o->width,
	                            .full_names = o->flags & PFA_REPORT_FULL_NAMES,
	                            .colours = o->flags & PFA_REPORT_COLOURS,
	                            .addresses = o->flags & PFA_REPORT_ADDRESSES,
	                            .filter = {.focus = o->focus,
	                                       .ignore = o->ignore,
	                                       .hide = o->hide,
	                                       .show = o->show,
	                                       .tagfocus = o->tagfocus,
	                                       .tagignore = o->tagignore}};
	return rep_filter_check(&ret->filter, err);
}

static size_t count_dirs(const char *const *dirs)
{
	size_t n = 0;

	while (dirs && dirs[n])
		n++;
	return n;
}

static int read_file(struct inputs *in, size_t i, const char *path, struct err *err)
{
	struct dec_profile *p = &in->profiles[i];
	int r = dec_file(path, &in->how, p, err);

	for (uint32_t k = 0; k < p->n_models && r == 0; k++) {
		struct rep_input one = {.name = strcmp(path, "-") == 0 ? "standard input" : path,
		                        .model = p->models[k],
		                        .format = dec_format_name(p->format),
		                        .tool_unknown = p->format == DEC_FOLDED,
		                        .notes = (const char *const *)p->notes,
		                        .n_notes = k ? 0 : p->n_notes};

		r = vec_push(&in->v, one);
	}
	return r;
}

/* Reads files[n]; the profiles are inputs of @in. */
static int read_files(struct inputs *in, const char *const *files, size_t n, struct err *err)
{
	int r = 0;

	in->v.max = (size_t)FILES_MAX * DEC_MODELS_MAX;
	in->profiles = calloc(n + 1, sizeof(*in->profiles));
	if (!in->profiles)
		return -ENOMEM;
	in->n_files = n;
	for (size_t i = 0; i < n && r == 0; i++)
		r = read_file(in, i, files[i], err);
	return r;
}

/* ---- listings of code, for REP_ANNOTATE ------------------------------------------------------- */

static int read_source(void *arg, const char *path, struct ev_source *ret, struct err *err)
{
	return lst_source(arg, path, ret, err);
}

static int read_sites(void *arg, const char *path, const char *build_id, const uint64_t *offs,
                      size_t n, struct ev_site *ret, struct err *err)
{
	return lst_sites(arg, path, build_id, offs, n, ret, err);
}

static int read_instructions(void *arg, uint64_t start, uint64_t end,
                             const struct ev_instruction **ret, size_t *ret_n, struct err *err)
{
	return lst_instructions(arg, start, end, ret, ret_n, err);
}

static int report(const struct pfa_report_options *from, struct sbuf *out, struct err *err)
{
	_cleanup_(inputs_done) struct inputs in = {0}, base = {0};
	_cleanup_(lst_freep) struct lst *listings = NULL;
	struct rep_reader reader = {
	        .source = read_source, .sites = read_sites, .instructions = read_instructions};
	struct pfa_report_options o;
	struct rep_options opts;
	size_t n = 0, n_base = 0;
	int r = take_options(from, &o, &opts, &n, &n_base, err);

	if (r < 0)
		return r;
	in.how = base.how = (struct dec_options){.debug_dirs = o.debug_dirs,
	                                         .n_debug_dirs = count_dirs(o.debug_dirs),
	                                         .folded_type = o.value};
	r = lst_new(&(struct lst_options){.source_dirs = o.source_dirs,
	                                  .n_source_dirs = count_dirs(o.source_dirs),
	                                  .debug_dirs = o.debug_dirs,
	                                  .n_debug_dirs = in.how.n_debug_dirs},
	            &listings);
	if (r == 0)
		r = read_files(&base, o.base, n_base, err);
	if (r == 0)
		r = read_files(&in, o.files, n, err);
	if (r < 0)
		return r;
	opts.base = base.v.p;
	opts.n_base = base.v.n;
	reader.arg = listings;
	opts.reader = &reader;
	return rep_write(&opts, in.v.p, in.v.n, out, err);
}

size_t pfa_short_name(const char *name, uint32_t columns, char *ret, size_t size)
{
	_cleanup_(sbuf_done) struct sbuf b;
	size_t n;

	sbuf_init(&b, REPORT_MAX_BYTES);
	(void)rep_put_name(&b, name, columns, true);
	n = b.err ? 0 : MIN_OF(b.len, size - 1);
	/* A character that does not fit is left out as a whole. */
	while (n < b.len && n > 0 && ((unsigned char)b.p[n] & 0xc0) == 0x80)
		n--;
	if (n)
		memcpy(ret, b.p, n);
	ret[n] = 0;
	return n;
}

int pfa_report_check(const struct pfa_report_options *from, struct pfa_error *error)
{
	struct pfa_report_options o;
	struct rep_options opts;
	struct err err = {0};
	size_t n = 0, n_base = 0;

	return api_give_error(error, &err, take_options(from, &o, &opts, &n, &n_base, &err));
}

int pfa_report(const struct pfa_report_options *from, const struct pfa_output *to,
               struct pfa_error *error)
{
	_cleanup_(enc_output_freep) struct enc_output *output = NULL;
	_cleanup_(sbuf_done) struct sbuf out;
	struct err err = {0};
	int r = to ? enc_output_open(to, &output, &err)
	           : err_set(&err, -EINVAL, "pfa_report: the output is NULL");

	sbuf_init(&out, REPORT_MAX_BYTES);
	if (r == 0)
		r = report(from, &out, &err);
	if (r == 0)
		r = enc_output_commit(output, out.p, out.len, &err);
	return api_give_error(error, &err, r);
}
