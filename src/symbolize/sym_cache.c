/* SPDX-License-Identifier: Apache-2.0 */
/* Files of images, kept between batches under a budget. See sym_cache.h. */
#include <fcntl.h>

#include "symbolize/sym_cache.h"

/* Share of the budget for .gnu_debugdata; Fedora's largest have some MB. */
#define MINI_SHARE 4

/* ---- images that are kept -------------------------------------------------------------------- */

static void part_close(struct sym_part *p)
{
	p->f = img_file_free(p->f);
	closep(&p->fd);
}

static void close_all(struct sym_cached *e)
{
	e->dw = dw_free(e->dw); /* before the files that it borrows */
	e->go = gotab_free(e->go);
	e->mini_img = img_file_free(e->mini_img);
	freep(&e->mini);
	part_close(&e->dwp);
	part_close(&e->alt);
	part_close(&e->debug);
	part_close(&e->self);
	freep(&e->mem);
	e->mem_len = e->mini_len = 0;
	e->bytes = 0;
	e->fds = 0;
	e->known = e->lines = e->refused = false;
	e->seen = (struct dw_stats){0};
}

void sym_cache_shrink(struct sym_cache *c, size_t bytes, uint32_t fds,
                      const struct sym_cached *spare)
{
	while (c->bytes > bytes || c->fds > fds) {
		struct sym_cached *oldest = NULL;

		for (uint32_t i = 0; i < c->n_images; i++) {
			struct sym_cached *e = c->images[i];

			if (e && e != spare && (e->bytes || e->fds) &&
			    (!oldest || e->used < oldest->used))
				oldest = e;
		}
		if (!oldest)
			return;
		c->bytes -= oldest->bytes;
		c->fds -= oldest->fds;
		close_all(oldest);
		oldest->was_there = true;
		c->stats->dropped++;
	}
}

int sym_cache_get(struct sym_cache *c, uint32_t id, struct sym_cached **ret)
{
	struct sym_cached *e;

	if (id >= c->n_images) {
		uint32_t n = MAX_OF(id + 1, c->n_images * 2);
		struct sym_cached **p = reallocarray(c->images, n, sizeof(struct sym_cached *));

		if (!p)
			return -ENOMEM;
		memset(p + c->n_images, 0, (n - c->n_images) * sizeof(*p));
		c->images = p;
		c->n_images = n;
	}
	e = c->images[id];
	if (!e) {
		e = calloc(1, sizeof(*e));
		if (!e)
			return -ENOMEM;
		e->self.fd = e->debug.fd = e->alt.fd = e->dwp.fd = -EBADF;
		c->images[id] = e;
	}
	e->used = ++c->clock;
	*ret = e;
	return 0;
}

static uint32_t count_fds(const struct sym_cached *e)
{
	return (e->self.fd >= 0) + (e->debug.fd >= 0) + (e->alt.fd >= 0) + (e->dwp.fd >= 0);
}

void sym_cache_account(struct sym_cache *c, struct sym_cached *e)
{
	size_t bytes = e->mini_len + e->mem_len;

	if (e->dw)
		bytes += dw_bytes(e->dw);
	if (e->go)
		bytes += gotab_bytes(e->go);
	c->bytes += bytes - e->bytes;
	e->bytes = bytes;
	c->fds += count_fds(e) - e->fds;
	e->fds = count_fds(e);
	if (c->bytes > c->stats->bytes_peak)
		c->stats->bytes_peak = c->bytes;
}

void sym_cache_drop(struct sym_cache *c, struct sym_cached *e)
{
	c->bytes -= e->bytes;
	c->fds -= e->fds;
	close_all(e);
}

void sym_cache_put(struct sym_cache *c, struct sym_cached *e)
{
	sym_cache_account(c, e);
	sym_cache_shrink(c, c->o.budget_bytes, c->o.max_fds, e);
}

/* ---- what belongs to an image ---------------------------------------------------------------- */

/* Opens a part. It owns @fd, unless that is negative. */
static int part_open(struct sym_cache *c, struct sym_part *p, int fd)
{
	int r;

	if (fd < 0)
		return 0;
	r = img_file_open(fd, &p->f, NULL);
	if (r == 0) {
		p->fd = fd;
		return 0;
	}
	(void)close(fd); /* it was only read */
	if (r != -ENOMEM)
		c->stats->bad_files++;
	return r == -ENOMEM ? r : 0;
}

static int keep_image(struct sym_cache *c, struct sym_cached *e, const struct sym_source *src)
{
	int fd;

	if (src->mem) { /* the caller's bytes are valid for this batch only */
		e->mem = malloc(MAX_OF(src->mem_len, (size_t)1));
		if (!e->mem)
			return -ENOMEM;
		memcpy(e->mem, src->mem, src->mem_len);
		e->mem_len = src->mem_len;
		return img_file_open_mem(e->mem, e->mem_len, &e->self.f, NULL);
	}
	fd = fcntl(src->fd, F_DUPFD_CLOEXEC, 3);
	return fd < 0 ? 0 : part_open(c, &e->self, fd); /* without a free descriptor: no lines */
}

static int find_parts(struct sym_cache *c, struct sym_cached *e, const struct sym_source *src,
                      struct img_file *img)
{
	struct sym_parts parts = {-EBADF, -EBADF, -EBADF};
	struct img_area a;
	int r = 0;

	if (c->o.no_lines)
		return 0;
	if (sym_has_lines(img) || img_area_find(img, IMG_AREA_GOPCLNTAB, &a) == 0)
		r = keep_image(c, e, src);
	if (r == 0 && !src->mem)
		r = c->o.helper.parts(c->o.helper.arg, src, &parts);
	if (r == 0)
		r = part_open(c, &e->debug, TAKE_FD(parts.debug_fd));
	if (r == 0)
		r = part_open(c, &e->alt, TAKE_FD(parts.alt_fd));
	if (r == 0)
		r = part_open(c, &e->dwp, TAKE_FD(parts.dwp_fd));
	sym_parts_close(&parts); /* what a failure left open */
	return r;
}

static int open_mini(struct sym_cache *c, struct sym_cached *e, struct img_file *img)
{
	int r = img_minidebug(img, c->o.budget_bytes / MINI_SHARE, &e->mini, &e->mini_len);

	if (r == -E2BIG)
		c->stats->refused++;
	if (r == 0)
		r = img_file_open_mem(e->mini, e->mini_len, &e->mini_img, NULL);
	if (r < 0) {
		freep(&e->mini);
		e->mini_len = 0;
	}
	return r == -ENOMEM ? r : 0;
}

static int open_dwo(void *arg, const char *dir, const char *name, int *ret_fd)
{
	struct sym_opening *o = arg;
	int r = o->c->o.helper.dwo(o->c->o.helper.arg, o->src, dir, name, ret_fd);

	return r > 0 ? 0 : r == 0 ? -ENOENT : r;
}

void sym_cache_count_refused(struct sym_cache *c, struct sym_cached *e)
{
	c->stats->refused += !e->refused;
	e->refused = true;
}

/* Opens within what other images leave of the budget. */
static int open_dwarf(struct sym_cache *c, struct sym_cached *e, struct img_file *f)
{
	struct dw_options o = {
	        .alt = e->alt.f, .dwp = e->dwp.f, .open_dwo = open_dwo, .arg = &e->opening};
	int r;

	sym_cache_shrink(c, c->o.budget_bytes / 2, c->o.max_fds, e);
	o.max_bytes = c->o.budget_bytes - MIN_OF(c->bytes, c->o.budget_bytes / 2);
	r = dw_open(f, &o, &e->dw);
	if (r == -E2BIG) { /* once more, with all of it */
		sym_cache_shrink(c, 0, c->o.max_fds, e);
		o.max_bytes = c->o.budget_bytes;
		r = dw_open(f, &o, &e->dw);
	}
	if (r == 0)
		c->stats->debug_files++;
	if (r == -E2BIG)
		sym_cache_count_refused(c, e);
	else if (r < 0 && r != -ENOENT && r != -ENOMEM)
		c->stats->bad_files++;
	return r == -ENOMEM ? r : 0;
}

int sym_cached_reopen_dwarf(struct sym_cache *c, struct sym_cached *e)
{
	int r = open_dwarf(c, e, e->debug.f ? e->debug.f : e->self.f);

	return r < 0 ? r : e->dw ? 0 : -ENOENT;
}

int sym_cached_open_lines(struct sym_cache *c, struct sym_cached *e)
{
	int r = 0;

	if (e->lines)
		return 0;
	if (e->debug.f)
		r = open_dwarf(c, e, e->debug.f);
	else if (e->self.f && sym_has_lines(e->self.f))
		r = open_dwarf(c, e, e->self.f);
	if (r == 0 && e->self.f)
		r = gotab_open(e->self.f, c->o.budget_bytes / 2, &e->go);
	if (r == -ENOMEM)
		return r;
	e->lines = true;
	return 0;
}

int sym_cached_find(struct sym_cache *c, struct sym_cached *e, const struct sym_source *src,
                    struct img_file *img)
{
	int r;

	if (e->known)
		return 0;
	r = find_parts(c, e, src, img);
	if (r == 0 && !sym_has_section(img, ".symtab") &&
	    !(e->debug.f && sym_has_section(e->debug.f, ".symtab")))
		r = open_mini(c, e, img);
	if (r < 0)
		return r;
	e->known = true;
	c->stats->rebuilt += e->was_there;
	return 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

void sym_cache_init(struct sym_cache *c, const struct sym_engine_options *o)
{
	*c = (struct sym_cache){.o = *o, .stats = o->stats};
}

void sym_cache_done(struct sym_cache *c)
{
	for (uint32_t i = 0; i < c->n_images; i++) {
		if (c->images[i])
			close_all(c->images[i]);
		free(c->images[i]);
	}
	free(c->images);
	c->images = NULL;
	c->n_images = 0;
}
