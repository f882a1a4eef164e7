/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sections by name. All headers are read once, at the first search. 16 bytes a section are kept, so
 * that a dozen searches in a file with thousands of sections cost as much as one.
 */
#include "image/image_priv.h"

/* The names while they are indexed. */
struct names {
	uint64_t off, size; /* in the file */
	char *p;            /* their first p[len] */
	size_t len;
};

static uint64_t shdr_bytes(const struct img_file *f)
{
	return f->is64 ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr);
}

/* FNV-1a. The name is not compared again. A file that makes two names collide could as well have
 * given the section the other name. */
static uint64_t hash_name(const char *name, size_t len)
{
	uint64_t h = 0xcbf29ce484222325ULL;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (uint8_t)name[i]) * 0x100000001b3ULL;
	return h;
}

/* Returns 0 with @ret empty if there are none, -ENOMEM, errno of pread. */
static int open_names(const struct img_file *f, struct names *ret)
{
	struct names n = {0};
	struct img_shdr str;
	int r;

	if (f->shstrndx >= f->n_sections)
		return 0;
	r = img_read_shdr(f, f->shoff + f->shstrndx * shdr_bytes(f), &str);
	if (r == -ENODATA || (r == 0 && (str.type == SHT_NOBITS || str.off > f->size)))
		return 0;
	if (r < 0)
		return r;
	n.off = str.off;
	n.size = MIN_OF(str.size, f->size - str.off);
	n.len = (size_t)MIN_OF(n.size, (uint64_t)IMG_SEC_NAMES_BYTES);
	n.p = malloc(n.len + 1);
	if (!n.p)
		return -ENOMEM;
	r = img_read(f, n.off, n.p, n.len);
	if (r < 0) {
		free(n.p);
		return r == -ENODATA ? 0 : r;
	}
	*ret = n;
	return 0;
}

/* Hashes the name at @at: 1, 0 (not terminated, or longer than any name that is searched for),
 * errno. */
static int hash_at(const struct img_file *f, const struct names *n, uint32_t at, uint64_t *ret)
{
	char one[IMG_SEC_NAME_MAX];
	const char *p = one;
	size_t len = (size_t)MIN_OF(n->size - at, (uint64_t)sizeof(one));
	int r;

	if (at < n->len && n->len - at >= len) {
		p = n->p + at;
	} else {
		r = img_read(f, n->off + at, one, len);
		if (r < 0)
			return r == -ENODATA ? 0 : r;
	}
	if (!memchr(p, 0, len))
		return 0;
	*ret = hash_name(p, strlen(p));
	return 1;
}

static int cmp_names(const void *a, const void *b)
{
	const struct img_sec_name *x = a, *y = b;

	if (x->hash != y->hash)
		return x->hash > y->hash ? 1 : -1;
	return (x->idx > y->idx) - (x->idx < y->idx);
}

static int add_names(struct img_file *f, const struct names *n, uint8_t *chunk)
{
	const uint64_t bytes = shdr_bytes(f);
	const size_t per_chunk = (size_t)(IMG_CHUNK_BYTES / bytes);

	for (size_t i = 0; i < f->n_sections; i += per_chunk) {
		size_t cnt = MIN_OF(per_chunk, f->n_sections - i);
		struct cursor c = cursor_of(chunk, cnt * (size_t)bytes);
		int r = img_read(f, f->shoff + i * bytes, chunk, cnt * (size_t)bytes);

		if (r == -ENODATA) { /* the file has shrunk */
			f->bad++;
			return 0;
		}
		if (r < 0)
			return r;
		for (size_t k = 0; k < cnt; k++) {
			uint32_t name, type;
			uint64_t hash = 0;

			/* The first two fields are the same in both classes; the sizes are checked
			 * above. */
			if (cursor_u32(&c, &name) < 0 || cursor_u32(&c, &type) < 0 ||
			    cursor_skip(&c, (size_t)bytes - 8) < 0)
				return 0;
			if (type == SHT_NULL || name >= n->size)
				continue;
			r = hash_at(f, n, name, &hash);
			if (r < 0)
				return r;
			if (r > 0)
				f->sec_names[f->n_sec_names++] =
				        (struct img_sec_name){hash, (uint32_t)(i + k)};
		}
	}
	return 0;
}

static void names_done(struct names *n)
{
	free(n->p);
}

static int index_names(struct img_file *f)
{
	_cleanup_free_ uint8_t *chunk = NULL;
	_cleanup_(names_done) struct names n = {0};
	int r;

	r = open_names(f, &n);
	if (r < 0)
		return r;
	if (n.size == 0) {
		f->indexed = true;
		return 0;
	}
	chunk = malloc(IMG_CHUNK_BYTES);
	f->sec_names = calloc(f->n_sections, sizeof(*f->sec_names));
	r = chunk && f->sec_names ? add_names(f, &n, chunk) : -ENOMEM;
	if (r < 0) {
		free(f->sec_names);
		f->sec_names = NULL;
		f->n_sec_names = 0;
		return r;
	}
	if (f->n_sec_names)
		qsort(f->sec_names, f->n_sec_names, sizeof(*f->sec_names), cmp_names);
	f->indexed = true;
	return 0;
}

/* Returns the lowest index with that hash, or UINT32_MAX. */
static uint32_t find_hash(const struct img_file *f, uint64_t hash)
{
	const size_t k = bisect_first(i, 0, f->n_sec_names, f->sec_names[i].hash >= hash);

	return k < f->n_sec_names && f->sec_names[k].hash == hash ? f->sec_names[k].idx
	                                                          : UINT32_MAX;
}

int img_section_lookup(struct img_file *f, const char *const *wanted, size_t n,
                       struct img_shdr *ret, const char **ret_name)
{
	uint32_t best = UINT32_MAX;
	const char *name = NULL;
	struct img_shdr s;
	int r;

	if (!f->indexed) {
		r = index_names(f);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < n; i++) {
		uint32_t idx = find_hash(f, hash_name(wanted[i], strlen(wanted[i])));

		if (idx < best) {
			best = idx;
			name = wanted[i];
		}
	}
	if (best == UINT32_MAX)
		return -ENOENT;
	r = img_read_shdr(f, f->shoff + best * shdr_bytes(f), &s);
	if (r < 0)
		return r == -ENODATA ? -ENOENT : r;
	*ret = s;
	*ret_name = name;
	return 0;
}
