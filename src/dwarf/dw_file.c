/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and frees a debug file. */
#include "dwarf/dwarf_priv.h"

#define BYTES_DEFAULT ((size_t)64 << 20)
#define STEPS_DEFAULT (1ULL << 28)

static int open_sources(struct dw_file *d, struct img_file *f)
{
	int r;

	d->main.img = f;
	r = dw_src_open(d, &d->main, false);
	if (r < 0)
		return r;
	if (!dw_has(&d->main, DW_SEC_INFO) && !dw_has(&d->main, DW_SEC_LINE))
		return -ENOENT;
	/* A section that these lack is noticed when something refers to it. */
	if (d->o.alt) {
		d->alt.img = d->o.alt;
		r = dw_src_open(d, &d->alt, false);
	}
	if (r == 0 && d->o.dwp) {
		d->dwp.img = d->o.dwp;
		r = dw_src_open(d, &d->dwp, true);
	}
	return r;
}

int dw_open(struct img_file *f, const struct dw_options *o, struct dw_file **ret)
{
	_cleanup_(dw_freep) struct dw_file *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return -ENOMEM;
	d->o = *o;
	d->max_bytes = o->max_bytes ? o->max_bytes : BYTES_DEFAULT;
	d->o.max_steps = o->max_steps ? o->max_steps : STEPS_DEFAULT;
	d->steps = d->o.max_steps;
	d->bytes = MIN_OF(sizeof(*d), d->max_bytes);
	d->n_pages = MIN_OF(d->max_bytes / 8 / DW_PAGE_BYTES + 1, (size_t)DW_PAGES_MAX);
	d->tables_max = MIN_OF(d->max_bytes / 8, (size_t)DW_TABLES_BYTES);
	d->names_bytes = MIN_OF(d->max_bytes / 8, (size_t)DW_NAMES_BYTES);
	d->main.fd = d->alt.fd = d->dwp.fd = -EBADF;
	r = open_sources(d, f);
	r = r < 0 ? r : dw_index_build(d);
	if (r == -ENODATA || r == -ETIME || r == -ERANGE || r == -ENOTSUP)
		r = -EINVAL;
	if (r < 0)
		return r;
	dw_pages_drop(d);
	*ret = TAKE_PTR(d);
	return 0;
}

struct dw_file *dw_free(struct dw_file *d)
{
	if (!d)
		return NULL;
	dw_split_done(d); /* it uses cus */
	dw_cus_drop(d);
	dw_dealloc(d, d->cus, DW_CUS * sizeof(*d->cus));
	dw_abbrevs_drop_all(d);
	dw_src_done(d, &d->main);
	dw_src_done(d, &d->alt);
	dw_src_done(d, &d->dwp);
	dw_pages_drop(d);
	free(d->die_buf);
	vec_done(&d->ranges);
	free(d);
	return NULL;
}

void dw_freep(struct dw_file **d)
{
	*d = dw_free(*d);
}

size_t dw_bytes(const struct dw_file *d)
{
	return d->bytes;
}

void dw_limit(struct dw_file *d, size_t max_bytes)
{
	d->max_bytes = MAX_OF(max_bytes, d->bytes);
	d->stats.bytes_peak = d->bytes;
}

const struct dw_stats *dw_stats(const struct dw_file *d)
{
	return &d->stats;
}
