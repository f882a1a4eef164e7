/* SPDX-License-Identifier: Apache-2.0 */
/* Frames to locations: mapping, names and lines, or the reason why there is no name. */
#include "result/result_priv.h"

#include <stdio.h>

/* The key of a location. */
struct frame_key {
	struct ev_frame frame;
	uint32_t jit, epoch; /* process (jit_find_proc) and time, for code that has no file */
};
_Static_assert(sizeof(struct frame_key) == 24, "hashed as bytes");

/* ---- mappings -------------------------------------------------------------------------------- */

static int add_mapping(struct build *b, const char *path, const uint8_t *build_id,
                       size_t build_id_len, uint64_t start, uint64_t limit, uint64_t offset,
                       uint32_t *ret)
{
	struct prof_mapping map = {.start = start, .limit = limit, .offset = offset};
	char hex[2 * EV_BUILD_ID_MAX + 1] = "";
	int r;

	for (size_t i = 0; i < build_id_len; i++)
		(void)snprintf(hex + 2 * i, 3, "%02x", build_id[i]);
	r = prof_model_text(b->m, path, &map.path);
	if (r == 0)
		r = prof_model_string(b->m, hex, &map.build_id);
	return r < 0 ? r : prof_model_mapping(b->m, &map, ret);
}

/* One mapping for the kernel and its modules: kallsyms does not have the ends of modules. */
int result_kernel_mapping(struct build *b, uint32_t *ret)
{
	uint8_t id[EV_BUILD_ID_MAX];
	size_t len = 0;
	int r = 0;

	if (!b->kernel_mapping) {
		if (proc_kernel_build_id(id, &len) < 0)
			len = 0; /* the mapping has none then */
		r = add_mapping(b, "[kernel]", id, len, 0xffff000000000000ULL, UINT64_MAX, 0,
		                &b->kernel_mapping);
	}
	*ret = b->kernel_mapping;
	return r;
}

static int jit_mapping(struct build *b, uint32_t *ret)
{
	int r = 0;

	if (!b->jit_mapping)
		r = add_mapping(b, "[jit]", NULL, 0, 4096, 1ULL << 56, 4096, &b->jit_mapping);
	*ret = b->jit_mapping;
	return r;
}

/* Returns 0, -EINVAL (mapped nowhere), -E2BIG (the image has too many stretches, or the profile too
 * many mappings), -ENOMEM. */
int result_image_address(struct build *b, const struct ev_proc_id *proc, uint32_t image,
                         uint64_t off, uint32_t *ret_map, uint64_t *ret_addr)
{
	const struct trk_image *img;
	struct result_stretch n;
	struct trk_location pl;
	int r;

	if (image == 0 || image > b->n_images)
		return -EINVAL;
	vec_each (st, &b->images[image].v) {
		if (off >= st->pgoff && off - st->pgoff < st->len) {
			*ret_map = st->mapping;
			*ret_addr = st->start + (off - st->pgoff);
			return 0;
		}
	}
	img = b->src->image(b->src->arg, image);
	if (b->src->mapping(b->src->arg, proc, image, off, &pl) < 0)
		return -EINVAL;
	n = (struct result_stretch){
	        .pgoff = pl.map_pgoff, .len = pl.map_end - pl.map_start, .start = pl.map_start};
	r = vec_reserve(&b->images[image].v, 1);
	if (r == 0)
		r = add_mapping(b, img->path, img->build_id, img->build_id_len, pl.map_start,
		                pl.map_end, pl.map_pgoff, &n.mapping);
	if (r == 0)
		r = vec_push(&b->images[image].v, n);
	if (r < 0)
		return r;
	*ret_map = n.mapping;
	*ret_addr = n.start + (off - n.pgoff);
	return 0;
}

/* ---- locations ------------------------------------------------------------------------------- */

int result_synthetic(struct build *b, const char *name, uint32_t *ret)
{
	struct prof_function fn = {0};
	struct prof_line line = {0};
	int r = prof_model_string(b->m, name, &fn.name);

	if (r == 0)
		r = prof_model_function(b->m, &fn, &line.function);
	return r < 0 ? r : prof_model_location(b->m, 0, 0, EV_REASON_NAMED, &line, 1, ret);
}

static int frame_line(struct build *b, const struct sym_frame *f, struct prof_line *ret)
{
	struct prof_function fn = {.start_line = f->start_line};
	int r = prof_model_text(b->m, f->name, &fn.name);

	if (r == 0)
		r = prof_model_text(b->m, f->linkage, &fn.system_name);
	if (r == 0 && f->file)
		r = prof_model_text(b->m, f->file, &fn.file);
	*ret = (struct prof_line){.line = f->line, .column = f->column};
	return r < 0 ? r : prof_model_function(b->m, &fn, &ret->function);
}

/* Makes a location with its names. @shown: the address of an unnamed frame in the profile; @module:
 * its file, or NULL. */
static int named_location(struct build *b, uint32_t mapping, uint64_t address,
                          const struct sym_named *n, uint64_t shown, const char *module,
                          uint32_t *ret)
{
	struct prof_line lines[SYM_FRAMES_MAX];
	struct prof_function fn = {0};
	char text[512];
	uint32_t n_lines = 0;
	int r = 0;

	for (uint32_t i = 0; i < n->n && n_lines < ARRAY_SIZE(lines) && r == 0; i++)
		r = frame_line(b, &n->frames[i], &lines[n_lines++]);
	if (n->n == 0) {
		if (module)
			(void)snprintf(text, sizeof(text), "0x%llx [%s]", (unsigned long long)shown,
			               module);
		else
			(void)snprintf(text, sizeof(text), "0x%llx", (unsigned long long)shown);
		r = prof_model_text(b->m, text, &fn.name);
		(void)snprintf(text, sizeof(text), "unresolved: %s", ev_reason_name(n->reason));
		if (r == 0)
			r = prof_model_string(b->m, text, &fn.system_name);
		lines[0] = (struct prof_line){0};
		if (r == 0)
			r = prof_model_function(b->m, &fn, &lines[0].function);
		n_lines = 1;
	}
	if (r == 0)
		r = prof_model_location(b->m, mapping, address, (uint8_t)n->reason, lines, n_lines,
		                        ret);
	/* Outside of its mapping, as an address near the ends of the range can be: no mapping. */
	if (r == -EINVAL)
		r = prof_model_location(b->m, 0, address, (uint8_t)n->reason, lines, n_lines, ret);
	return r;
}

/* As result_make_location, for JIT code; -ENOENT: it has no symbol. */
static int jit_location(struct build *b, const struct ev_proc_id *proc, const struct frame_key *key,
                        uint32_t *ret)
{
	uint64_t look = key->frame.addr - !key->frame.exact;
	struct sym_named n = {0};
	struct trk_location pl;
	uint32_t map;
	int r;

	if (key->frame.space == EV_SPACE_IMAGE) {
		if (b->src->mapping(b->src->arg, proc, key->frame.image, look, &pl) < 0)
			return -ENOENT;
		look = pl.map_start + (look - pl.map_pgoff);
	}
	if (!jit_name(b->src->jit, key->jit, (uint16_t)key->epoch, look, &n))
		return -ENOENT;
	r = jit_mapping(b, &map);
	return r < 0 ? r : named_location(b, map, look, &n, look, NULL, ret);
}

int result_make_location(struct build *b, const struct ev_proc_id *proc, const struct ev_frame *f,
                         uint32_t *ret)
{
	uint64_t look = f->exact ? f->addr : f->addr - 1, address;
	struct sym_named n = {0};
	uint32_t map = 0;
	int r;

	switch ((enum ev_space)f->space) {
	case EV_SPACE_KERNEL:
		n = b->src->name(b->src->arg, 0, look);
		r = result_kernel_mapping(b, &map);
		return r < 0 ? r : named_location(b, map, look, &n, look, NULL, ret);
	case EV_SPACE_IMAGE:
		n = b->src->name(b->src->arg, f->image, look);
		r = result_image_address(b, proc, f->image, look, &map, &address);
		if (r == -ENOMEM)
			return r;
		if (r < 0)
			address = look; /* and map is 0: its name has the file */
		return named_location(b, map, address, &n, n.start,
		                      f->image <= b->n_images
		                              ? str_base_name(
		                                        b->src->image(b->src->arg, f->image)->path)
		                              : NULL,
		                      ret);
	case EV_SPACE_ANON:
		n.reason = EV_REASON_JIT;
		r = jit_mapping(b, &map);
		return r < 0 ? r : named_location(b, map, look, &n, look, "jit", ret);
	case EV_SPACE_RAW:
		n.reason = b->src->proc_reason(b->src->arg, proc);
		if (n.reason == EV_REASON_NAMED)
			n.reason = EV_REASON_NO_MAPPING;
		return named_location(b, 0, look, &n, look, NULL, ret);
	case EV_SPACE_MOVED:
		n.reason = EV_REASON_MOVED;
		return named_location(b, 0, look, &n, look, NULL, ret);
	}
	return -EINVAL;
}

static struct result_cached *cached_of(struct build *b, const struct ev_frame *f)
{
	/* Bits in the middle of the product depend on all bits of both. */
	uint64_t mixed = (f->addr ^ (uint64_t)f->image << 40) * 0x9e3779b97f4a7c15ULL;

	return &b->cache[(mixed >> 32) % RESULT_CACHE_FRAMES];
}

int result_frame_location(struct build *b, const struct ev_proc_id *proc, const struct ev_frame *f,
                          uint32_t *ret)
{
	struct frame_key key = {.frame = *f};
	struct result_cached *cache = cached_of(b, f);
	bool maybe_jit;
	uint32_t id, loc;
	int r = -ENOENT;

	if (cache->loc && memcmp(&cache->frame, f, sizeof(*f)) == 0) {
		*ret = cache->loc;
		return 0;
	}
	maybe_jit = jit_maybe(b->src->jit, f);
	if (maybe_jit) {
		key.jit = jit_find_proc(b->src->jit, proc);
		key.epoch = key.jit ? b->epoch : 0;
	}
	id = intern_find(b->frame_keys, &key, sizeof(key));

	if (id != INTERN_NONE) {
		*ret = b->frame_locs.p[id];
		if (!maybe_jit)
			*cache = (struct result_cached){*f, *ret};
		return 0;
	}
	/* Key and location are added together or not at all: a frame that failed may come again. */
	if (key.jit)
		r = jit_location(b, proc, &key, &loc);
	if (r == -ENOENT)
		r = result_make_location(b, proc, f, &loc);
	if (r == 0)
		r = vec_reserve(&b->frame_locs, 1);
	if (r == 0)
		r = intern_add(b->frame_keys, &key, sizeof(key), &id, NULL);
	if (r == 0)
		r = vec_push(&b->frame_locs, loc);
	if (r == 0 && !maybe_jit)
		*cache = (struct result_cached){*f, loc};
	if (r == 0)
		*ret = loc;
	return r;
}
