/* SPDX-License-Identifier: Apache-2.0 */
/* Names, lines and inlined calls of a batch of addresses of one image, from all of its files. */
#include "symbolize/sym_cache.h"

struct sym_engine {
	struct sym_cache cache;
};

/* An address of the batch, as virtual address. */
struct wanted {
	uint64_t vaddr;
	size_t i;
};

struct resolving {
	struct sym_lines lines;
	struct wanted *wanted; /* wanted[n], ascending, unique */
	uint64_t *vaddrs;      /* vaddrs[n], from wanted */
	size_t n, at;          /* at: index of the address that gotab_resolve is called for */
};

static void resolving_done(struct resolving *rs)
{
	sym_lines_done(&rs->lines);
	free(rs->wanted);
	free(rs->vaddrs);
}

static int by_vaddr(const void *pa, const void *pb)
{
	const struct wanted *a = pa, *b = pb;

	return (a->vaddr > b->vaddr) - (a->vaddr < b->vaddr);
}

static int list_addresses(struct resolving *rs, const struct img_file *img, const uint64_t *offs,
                          size_t n)
{
	size_t k = 0;

	rs->wanted = calloc(n + 1, sizeof(*rs->wanted));
	rs->vaddrs = calloc(n + 1, sizeof(*rs->vaddrs));
	if (!rs->wanted || !rs->vaddrs)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		if (img_off_to_vaddr(img, offs[i], &rs->wanted[k].vaddr) == 0)
			rs->wanted[k++].i = i;
	}
	qsort(rs->wanted, k, sizeof(*rs->wanted), by_vaddr);
	for (size_t i = 0; i < k; i++) {
		/* Segments of a damaged file may map two offsets to one address. */
		if (rs->n && rs->wanted[rs->n - 1].vaddr == rs->wanted[i].vaddr)
			continue;
		rs->wanted[rs->n] = rs->wanted[i];
		rs->vaddrs[rs->n++] = rs->wanted[i].vaddr;
	}
	return 0;
}

static int take_dwarf(void *arg, size_t i, const struct dw_frame *f, bool last)
{
	struct resolving *rs = arg;
	const struct sym_line_frame lf = {
	        .name = f->name,
	        .linkage = f->linkage,
	        .file = f->file,
	        .line = f->line,
	        .column = f->column,
	        .start_line = f->start_line,
	};

	return sym_lines_add(&rs->lines, rs->wanted[i].i, &lf, last);
}

static int take_go(void *arg, const struct gotab_frame *f, bool last)
{
	struct resolving *rs = arg;
	const struct sym_line_frame lf = {
	        .name = f->name,
	        .file = f->file,
	        .line = f->line,
	        .start_line = f->start_line,
	        .name_wins = true,
	};

	return sym_lines_add(&rs->lines, rs->wanted[rs->at].i, &lf, last);
}

/* Resolves by Go's table first: every Go program has it, and Go's own tracebacks print it.
 * Addresses that it does not have move to the front, for DWARF. */
static int resolve_go(struct resolving *rs, struct gotab *go)
{
	size_t left = 0;
	int r;

	for (rs->at = 0; rs->at < rs->n; rs->at++) {
		r = gotab_resolve(go, rs->vaddrs[rs->at], take_go, rs);
		if (r == 0)
			continue;
		sym_lines_drop(&rs->lines);
		if (r == -ENOMEM)
			return r;
		rs->wanted[left] = rs->wanted[rs->at];
		rs->vaddrs[left++] = rs->vaddrs[rs->at];
	}
	rs->n = left;
	return 0;
}

static void count_dwarf(struct sym_cache *c, struct sym_cached *e)
{
	const struct dw_stats now = *dw_stats(e->dw);

	c->stats->bad += now.bad - e->seen.bad;
	c->stats->unsupported += now.unsupported - e->seen.unsupported;
	c->stats->over_limit += now.over_limit - e->seen.over_limit;
	c->stats->over_steps += now.over_steps - e->seen.over_steps;
	c->stats->dwo_missing += now.dwo_missing - e->seen.dwo_missing;
	e->seen = now;
}

/* Limits DWARF to what other images leave of the budget. */
static void limit_dwarf(struct sym_cache *c, struct sym_cached *e)
{
	sym_cache_account(c, e);
	dw_limit(e->dw, c->o.budget_bytes - MIN_OF(c->bytes - e->bytes, c->o.budget_bytes));
}

/* Updates the peak, with memory that was in use only during the call. */
static void note_peak(struct sym_cache *c, struct sym_cached *e)
{
	uint64_t peak;

	peak = c->bytes - e->bytes + dw_stats(e->dw)->bytes_peak;
	if (peak > c->stats->bytes_peak)
		c->stats->bytes_peak = peak;
}

static void forget_dwarf(struct sym_cache *c, struct sym_cached *e)
{
	count_dwarf(c, e);
	e->dw = dw_free(e->dw);
	e->seen = (struct dw_stats){0};
}

/*
 * Adds DWARF's frames to the batch. If a section found no room, names would be missing; if a unit
 * found none, its frames would be. The frames are then removed, other images are dropped, and the
 * addresses are resolved once more.
 */
static int resolve_dwarf(struct sym_cache *c, struct sym_cached *e, struct resolving *rs)
{
	struct sym_batch *b = rs->lines.b;
	_cleanup_free_ struct sym_name *before = calloc(b->n + 1, sizeof(*before));
	const size_t frames = b->frames.n;
	int r = 0;

	if (!before)
		return -ENOMEM;
	memcpy(before, b->names, b->n * sizeof(*before));
	for (int tries = 0; tries < 2; tries++) {
		struct dw_stats was;
		bool sections, units;

		limit_dwarf(c, e);
		was = *dw_stats(e->dw);
		r = dw_resolve(e->dw, rs->vaddrs, rs->n, take_dwarf, rs);
		sym_lines_drop(&rs->lines);
		note_peak(c, e);
		sections = dw_stats(e->dw)->sections_refused > was.sections_refused;
		units = dw_stats(e->dw)->units_refused > was.units_refused;
		if (r == -ENOMEM || (!sections && !units))
			break;
		sym_cache_account(c, e);
		/* The other units are good. */
		if (!sections && (tries > 0 || c->bytes == e->bytes)) {
			sym_cache_count_refused(c, e);
			break;
		}
		memcpy(b->names, before, b->n * sizeof(*before));
		b->frames.n = frames;
		if (tries > 0) { /* the next batch would find no room either */
			sym_cache_count_refused(c, e);
			forget_dwarf(c, e);
			break;
		}
		sym_cache_shrink(c, e->bytes, c->o.max_fds, e);
		if (!sections)
			continue;
		/* An open file does not read a refused section again. */
		forget_dwarf(c, e);
		r = sym_cached_reopen_dwarf(c, e);
		if (r < 0)
			break;
	}
	if (e->dw)
		count_dwarf(c, e);
	return r;
}

static int add_lines(struct sym_cache *c, struct sym_cached *e, const struct sym_source *src,
                     struct img_file *img, const uint64_t *offs, size_t n, struct sym_batch *b)
{
	_cleanup_(resolving_done) struct resolving rs = {0};
	int r;

	r = sym_lines_init(&rs.lines, b);
	if (r == 0)
		r = list_addresses(&rs, img, offs, n);
	if (r < 0)
		return r;
	e->opening = (struct sym_opening){.c = c, .src = src};
	r = sym_cached_open_lines(c, e);
	if (r == 0 && e->go)
		r = resolve_go(&rs, e->go);
	if (r == 0 && e->dw) {
		r = resolve_dwarf(c, e, &rs);
	}
	/* A file that cannot be read has names without lines. */
	if (r < 0 && r != -ENOMEM && r != -EPIPE && r != -ENOENT)
		c->stats->bad_files++;
	return r == -ENOMEM || r == -EPIPE ? r : 0;
}

static uint64_t bad_items(const struct sym_cached *e, const struct img_file *img)
{
	uint64_t n = img ? img_bad_items(img) : 0;

	if (e->self.f)
		n += img_bad_items(e->self.f);
	if (e->debug.f)
		n += img_bad_items(e->debug.f);
	return n;
}

static int resolve(struct sym_cache *c, struct sym_cached *e, const struct sym_source *src,
                   struct img_file *img, const uint64_t *offs, size_t n, struct sym_batch *ret)
{
	_cleanup_(sym_batch_done) struct sym_batch out = {0};
	struct img_file *files[SYM_ELF_FILES_MAX] = {img};
	uint64_t bad_before = bad_items(e, NULL);
	size_t n_files = 1;
	int r = 0;

	r = sym_cached_find(c, e, src, img);
	if (r < 0)
		return r;
	if (e->debug.f && !sym_has_section(img, ".symtab"))
		files[n_files++] = e->debug.f;
	if (e->mini_img)
		files[n_files++] = e->mini_img;
	r = sym_elf_resolve_all(files, n_files, offs, n, &out);
	if (r == 0 && !c->o.no_lines)
		r = add_lines(c, e, src, img, offs, n, &out);
	if (r < 0)
		return r;
	c->stats->elf_bad += bad_items(e, img) - bad_before;
	*ret = out;
	out = (struct sym_batch){0};
	return 0;
}

int sym_engine_resolve(struct sym_engine *engine, const struct sym_source *src,
                       const uint64_t *offs, size_t n, struct sym_batch *ret)
{
	_cleanup_(img_file_freep) struct img_file *img = NULL;
	struct sym_cache *c = &engine->cache;
	struct sym_cached *e;
	int r;

	r = src->mem ? img_file_open_mem(src->mem, src->mem_len, &img, NULL)
	             : img_file_open(src->fd, &img, NULL);
	if (r == -ENOMEM)
		return r;
	if (r < 0)
		return sym_batch_none(r == -ENOEXEC  ? EV_REASON_NOT_ELF
		                      : r == -EINVAL ? EV_REASON_BAD_ELF
		                                     : EV_REASON_NO_FILE,
		                      offs, n, ret);
	r = sym_cache_get(c, src->id, &e);
	if (r < 0)
		return r;
	r = resolve(c, e, src, img, offs, n, ret);
	if (r < 0) /* a half-made entry is made anew */
		sym_cache_drop(c, e);
	sym_cache_put(c, e);
	/* An address without a name is shown as nm and objdump print it. */
	for (size_t i = 0; r == 0 && i < n; i++)
		if (ret->names[i].reason != EV_REASON_NAMED &&
		    img_off_to_vaddr(img, offs[i], &ret->names[i].start) < 0)
			ret->names[i].start = offs[i];
	return r;
}

/* ---- life ------------------------------------------------------------------------------------ */

struct sym_engine *sym_engine_free(struct sym_engine *e)
{
	if (e)
		sym_cache_done(&e->cache);
	free(e);
	return NULL;
}

void sym_engine_freep(struct sym_engine **e)
{
	*e = sym_engine_free(*e);
}

int sym_engine_new(const struct sym_engine_options *o, struct sym_engine **ret)
{
	struct sym_engine *e = calloc(1, sizeof(*e));

	if (!e)
		return -ENOMEM;
	sym_cache_init(&e->cache, o);
	*ret = e;
	return 0;
}
