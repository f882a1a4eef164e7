/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is kept of images between batches of addresses: their debug files, with the indexes and the
 * sections that had to be decompressed. What has not been used for longest goes when memory or
 * descriptors reach their budget, and comes back when it is asked for.
 *
 * Thread: one batch at a time, whoever asks (sym_files.c): so the budget is that of the process and
 * not one a thread.
 */
#include <fcntl.h>

#include "dwarf/dwarf.h"
#include "gotab/gotab.h"
#include "symbolize/sym_engine.h"

/* Of .gnu_debugdata: Fedora's largest have some MB. */
#define MINI_SHARE 4

/* A file that belongs to an image. */
struct part {
	struct img_file *f;
	int fd;
};

/* What opens split units for an entry. */
struct opening {
	struct sym_engine *c;
	const struct sym_source *src; /* of the batch in work */
};

/* What is known of one image. */
struct entry {
	bool known;     /* parts were looked for: what is not here is not to be had */
	bool lines;     /* dw and go as well */
	bool refused;   /* some of its debug data, which was counted */
	bool was_there; /* before it was dropped */
	uint64_t used;
	size_t bytes;
	uint32_t fds;
	struct part self; /* the image, where it has lines itself: its descriptor may be closed
	                   * after the batch */
	uint8_t *mem;     /* bytes under self, where it has no file */
	size_t mem_len;
	struct part debug, alt, dwp;
	struct opening opening;
	uint8_t *mini; /* bytes of .gnu_debugdata, under mini_img */
	size_t mini_len;
	struct img_file *mini_img;
	struct dw_file *dw;
	struct gotab *go;
	struct dw_stats seen; /* of dw, already in the counters */
};

struct sym_engine {
	struct sym_engine_options o;
	struct sym_engine_stats *stats; /* of who made it */
	struct entry **entries;         /* entries[n_entries], by image id; NULL: not met */
	uint32_t n_entries;
	uint64_t clock;
	size_t bytes;
	uint32_t fds;
};

/* ---- entries --------------------------------------------------------------------------------- */

static void part_close(struct part *p)
{
	p->f = img_file_free(p->f);
	closep(&p->fd);
}

static void entry_drop(struct entry *e)
{
	e->dw = dw_free(e->dw); /* before what it borrows */
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

/* @spare: the entry in work. */
static void shrink(struct sym_engine *c, size_t bytes, uint32_t fds, const struct entry *spare)
{
	while (c->bytes > bytes || c->fds > fds) {
		struct entry *oldest = NULL;

		for (uint32_t i = 0; i < c->n_entries; i++) {
			struct entry *e = c->entries[i];

			if (e && e != spare && (e->bytes || e->fds) &&
			    (!oldest || e->used < oldest->used))
				oldest = e;
		}
		if (!oldest)
			return;
		c->bytes -= oldest->bytes;
		c->fds -= oldest->fds;
		entry_drop(oldest);
		oldest->was_there = true;
		c->stats->dropped++;
	}
}

static int entry_take(struct sym_engine *c, uint32_t id, struct entry **ret)
{
	struct entry *e;

	if (id >= c->n_entries) {
		uint32_t n = MAX_OF(id + 1, c->n_entries * 2);
		struct entry **p = reallocarray(c->entries, n, sizeof(struct entry *));

		if (!p)
			return -ENOMEM;
		memset(p + c->n_entries, 0, (n - c->n_entries) * sizeof(*p));
		c->entries = p;
		c->n_entries = n;
	}
	e = c->entries[id];
	if (!e) {
		e = calloc(1, sizeof(*e));
		if (!e)
			return -ENOMEM;
		e->self.fd = e->debug.fd = e->alt.fd = e->dwp.fd = -EBADF;
		c->entries[id] = e;
	}
	e->used = ++c->clock;
	*ret = e;
	return 0;
}

static uint32_t count_fds(const struct entry *e)
{
	return (e->self.fd >= 0) + (e->debug.fd >= 0) + (e->alt.fd >= 0) + (e->dwp.fd >= 0);
}

/* Its memory as it is now. */
static void account(struct sym_engine *c, struct entry *e)
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

static void entry_drop_counted(struct sym_engine *c, struct entry *e)
{
	c->bytes -= e->bytes;
	c->fds -= e->fds;
	entry_drop(e);
}

static void entry_give(struct sym_engine *c, struct entry *e)
{
	account(c, e);
	shrink(c, c->o.budget_bytes, c->o.max_fds, e);
}

/* ---- what belongs to an image ---------------------------------------------------------------- */

static bool has_section(struct img_file *f, const char *name)
{
	struct img_area a;

	return img_section_find(f, name, &a) == 0;
}

bool sym_has_lines(struct img_file *f)
{
	return has_section(f, ".debug_info") || has_section(f, ".debug_line");
}

/* @fd, if there is one, becomes the part's. */
static int part_open(struct sym_engine *c, struct part *p, int fd)
{
	int r;

	if (fd < 0)
		return 0;
	r = img_file_open(fd, &p->f, NULL);
	if (r == 0) {
		p->fd = fd;
		return 0;
	}
	(void)close(fd); /* read only */
	if (r != -ENOMEM)
		c->stats->bad_files++;
	return r == -ENOMEM ? r : 0;
}

static int keep_image(struct sym_engine *c, struct entry *e, const struct sym_source *src)
{
	int fd;

	if (src->mem) { /* which is the caller's for this batch only */
		e->mem = malloc(MAX_OF(src->mem_len, (size_t)1));
		if (!e->mem)
			return -ENOMEM;
		memcpy(e->mem, src->mem, src->mem_len);
		e->mem_len = src->mem_len;
		return img_file_open_mem(e->mem, e->mem_len, &e->self.f, NULL);
	}
	fd = fcntl(src->fd, F_DUPFD_CLOEXEC, 3);
	return fd < 0 ? 0 : part_open(c, &e->self, fd); /* without descriptors: no lines */
}

static int find_parts(struct sym_engine *c, struct entry *e, const struct sym_source *src,
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
	sym_parts_close(&parts); /* what a failure left */
	return r;
}

static int open_mini(struct sym_engine *c, struct entry *e, struct img_file *img)
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
	struct opening *o = arg;
	int r = o->c->o.helper.dwo(o->c->o.helper.arg, o->src, dir, name, ret_fd);

	return r > 0 ? 0 : r == 0 ? -ENOENT : r;
}

/* Debug data that the budget is too small for, once for each time that the file is opened. */
static void count_refused(struct sym_engine *c, struct entry *e)
{
	c->stats->refused += !e->refused;
	e->refused = true;
}

/* Within what the others leave of the budget. */
static int open_dwarf(struct sym_engine *c, struct entry *e, struct img_file *f)
{
	struct dw_options o = {
	        .alt = e->alt.f, .dwp = e->dwp.f, .open_dwo = open_dwo, .arg = &e->opening};
	int r;

	shrink(c, c->o.budget_bytes / 2, c->o.max_fds, e);
	o.max_bytes = c->o.budget_bytes - MIN_OF(c->bytes, c->o.budget_bytes / 2);
	r = dw_open(f, &o, &e->dw);
	if (r == -E2BIG) { /* once more with all of it */
		shrink(c, 0, c->o.max_fds, e);
		o.max_bytes = c->o.budget_bytes;
		r = dw_open(f, &o, &e->dw);
	}
	if (r == 0)
		c->stats->debug_files++;
	if (r == -E2BIG)
		count_refused(c, e);
	else if (r < 0 && r != -ENOENT && r != -ENOMEM)
		c->stats->bad_files++;
	return r == -ENOMEM ? r : 0;
}

static int reopen_dwarf(struct sym_engine *c, struct entry *e)
{
	int r = open_dwarf(c, e, e->debug.f ? e->debug.f : e->self.f);

	return r < 0 ? r : e->dw ? 0 : -ENOENT;
}

/* Opens what decodes lines. */
static int open_lines(struct sym_engine *c, struct entry *e)
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

/* ---- resolving ------------------------------------------------------------------------------- */

/* An address of the batch, by its virtual address. */
struct wanted {
	uint64_t vaddr;
	size_t i;
};

struct resolving {
	struct sym_lines lines;
	struct wanted *wanted; /* wanted[n], ascending, unique */
	uint64_t *vaddrs;      /* the same */
	size_t n, at;          /* at: of the address that Go's table is asked for */
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

/* Go's table before DWARF: it is there in each Go program, and what its own tracebacks print. What
 * is left to DWARF moves to the front. */
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

static void count_dwarf(struct sym_engine *c, struct entry *e)
{
	const struct dw_stats now = *dw_stats(e->dw);

	c->stats->bad += now.bad - e->seen.bad;
	c->stats->unsupported += now.unsupported - e->seen.unsupported;
	c->stats->over_limit += now.over_limit - e->seen.over_limit;
	c->stats->over_steps += now.over_steps - e->seen.over_steps;
	c->stats->dwo_missing += now.dwo_missing - e->seen.dwo_missing;
	e->seen = now;
}

/* What the others leave of the budget now. */
static void limit_dwarf(struct sym_engine *c, struct entry *e)
{
	account(c, e);
	dw_limit(e->dw, c->o.budget_bytes - MIN_OF(c->bytes - e->bytes, c->o.budget_bytes));
}

/* The most that was held, what was in use for a while included. */
static void note_peak(struct sym_engine *c, struct entry *e)
{
	uint64_t peak;

	peak = c->bytes - e->bytes + dw_stats(e->dw)->bytes_peak;
	if (peak > c->stats->bytes_peak)
		c->stats->bytes_peak = peak;
}

static void forget_dwarf(struct sym_engine *c, struct entry *e)
{
	count_dwarf(c, e);
	e->dw = dw_free(e->dw);
	e->seen = (struct dw_stats){0};
}

/*
 * Frames of DWARF into the batch. Without a section that found no room (strings, say) they would be
 * half right, and without a unit they miss some: then what came is taken back, the others make
 * room, and it is tried once more.
 */
static int resolve_dwarf(struct sym_engine *c, struct entry *e, struct resolving *rs)
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
		account(c, e);
		/* The rest of its units is good. */
		if (!sections && (tries > 0 || c->bytes == e->bytes)) {
			count_refused(c, e);
			break;
		}
		memcpy(b->names, before, b->n * sizeof(*before));
		b->frames.n = frames;
		if (tries > 0) { /* nor will there be room for the next batch */
			count_refused(c, e);
			forget_dwarf(c, e);
			break;
		}
		shrink(c, e->bytes, c->o.max_fds, e);
		if (!sections)
			continue;
		/* A section that was refused is not asked for again by the same file. */
		forget_dwarf(c, e);
		r = reopen_dwarf(c, e);
		if (r < 0)
			break;
	}
	if (e->dw)
		count_dwarf(c, e);
	return r;
}

static int add_lines(struct sym_engine *c, struct entry *e, const struct sym_source *src,
                     struct img_file *img, const uint64_t *offs, size_t n, struct sym_batch *b)
{
	_cleanup_(resolving_done) struct resolving rs = {0};
	int r;

	r = sym_lines_init(&rs.lines, b);
	if (r == 0)
		r = list_addresses(&rs, img, offs, n);
	if (r < 0)
		return r;
	e->opening = (struct opening){.c = c, .src = src};
	r = open_lines(c, e);
	if (r == 0 && e->go)
		r = resolve_go(&rs, e->go);
	if (r == 0 && e->dw) {
		r = resolve_dwarf(c, e, &rs);
	}
	/* What cannot be read has its names without lines. */
	if (r < 0 && r != -ENOMEM && r != -EPIPE && r != -ENOENT)
		c->stats->bad_files++;
	return r == -ENOMEM || r == -EPIPE ? r : 0;
}

static uint64_t bad_items(const struct entry *e, const struct img_file *img)
{
	uint64_t n = img ? img_bad_items(img) : 0;

	if (e->self.f)
		n += img_bad_items(e->self.f);
	if (e->debug.f)
		n += img_bad_items(e->debug.f);
	return n;
}

static int resolve(struct sym_engine *c, struct entry *e, const struct sym_source *src,
                   struct img_file *img, const uint64_t *offs, size_t n, struct sym_batch *ret)
{
	_cleanup_(sym_batch_done) struct sym_batch out = {0};
	struct img_file *files[SYM_ELF_FILES_MAX] = {img};
	uint64_t bad_before = bad_items(e, NULL);
	size_t n_files = 1;
	int r = 0;

	if (!e->known) {
		r = find_parts(c, e, src, img);
		if (r == 0 && !has_section(img, ".symtab") &&
		    !(e->debug.f && has_section(e->debug.f, ".symtab")))
			r = open_mini(c, e, img);
		if (r < 0)
			return r;
		e->known = true;
		c->stats->rebuilt += e->was_there;
	}
	if (e->debug.f && !has_section(img, ".symtab"))
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

int sym_engine_resolve(struct sym_engine *c, const struct sym_source *src, const uint64_t *offs,
                       size_t n, struct sym_batch *ret)
{
	_cleanup_(img_file_freep) struct img_file *img = NULL;
	struct entry *e;
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
	r = entry_take(c, src->id, &e);
	if (r < 0)
		return r;
	r = resolve(c, e, src, img, offs, n, ret);
	if (r < 0) /* what is half made is made anew */
		entry_drop_counted(c, e);
	entry_give(c, e);
	/* What has no name is shown by the address that nm and objdump print. */
	for (size_t i = 0; r == 0 && i < n; i++)
		if (ret->names[i].reason != EV_REASON_NAMED &&
		    img_off_to_vaddr(img, offs[i], &ret->names[i].start) < 0)
			ret->names[i].start = offs[i];
	return r;
}

/* ---- life ------------------------------------------------------------------------------------ */

struct sym_engine *sym_engine_free(struct sym_engine *c)
{
	if (!c)
		return NULL;
	for (uint32_t i = 0; i < c->n_entries; i++) {
		if (c->entries[i])
			entry_drop(c->entries[i]);
		free(c->entries[i]);
	}
	free(c->entries);
	free(c);
	return NULL;
}

void sym_engine_freep(struct sym_engine **c)
{
	*c = sym_engine_free(*c);
}

int sym_engine_new(const struct sym_engine_options *o, struct sym_engine **ret)
{
	_cleanup_(sym_engine_freep) struct sym_engine *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->o = *o;
	c->stats = o->stats;
	*ret = TAKE_PTR(c);
	return 0;
}
