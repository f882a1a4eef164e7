/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Candidates for a debug file. A name is only a hint; the file's content decides. If image and
 * candidate both have a build-id, they must be equal. Otherwise the checksum of the link decides.
 */
#include <limits.h>
#include <stdatomic.h>

#include "symbolize/sym_find_priv.h"

/* Bytes that one search reads for checksums. Files without a build-id are small, or made to cost
 * time: linkers of all distributions write one. */
#define CRC_BYTES_MAX (2ULL << 30)

void sym_search_init(struct sym_search *s, const struct sym_find_options *o,
                     struct sym_find_stats *stats, const struct img_file *image)
{
	struct stat st;
	int fd = image ? img_file_fd(image) : -EBADF;

	*s = (struct sym_search){
	        .o = o, .stats = stats, .image = image, .fd = -EBADF, .crc_left = CRC_BYTES_MAX};
	sbuf_init(&s->path, PATH_MAX - 1);
	if (fd >= 0 && fstat(fd, &st) == 0) {
		s->have_self = true;
		s->self_dev = st.st_dev;
		s->self_ino = st.st_ino;
	}
}

void sym_search_done(struct sym_search *s)
{
	closep(&s->fd);
	sbuf_done(&s->path);
}

/* ---- what a candidate is -------------------------------------------------------------------- */

/* Returns 1, 0, -ENOMEM. */
static int has_section(struct img_file *f, const char *const *names, size_t n)
{
	struct img_area a;

	for (size_t i = 0; i < n; i++) {
		int r = img_section_find(f, names[i], &a);

		if (r == -ENOMEM)
			return r;
		if (r == 0 && a.size > 0)
			return 1;
	}
	return 0;
}

/* Returns whether the candidate has any of the wanted sections: 1, 0, -ENOMEM. */
static int is_useful(struct img_file *f, enum sym_wanted want)
{
	static const char *const debug[] = {".debug_info", ".debug_line", ".symtab"};
	static const char *const alt[] = {".debug_info", ".debug_str"};
	static const char *const index[] = {".debug_cu_index", ".debug_tu_index"};
	static const char *const split[] = {".debug_info.dwo", ".debug_types.dwo"};

	switch (want) {
	case SYM_WANT_BUILD_ID:
	case SYM_WANT_LINK:
		return has_section(f, debug, ARRAY_SIZE(debug));
	case SYM_WANT_ALT:
		return has_section(f, alt, ARRAY_SIZE(alt));
	case SYM_WANT_DWP:
		return has_section(f, index, ARRAY_SIZE(index));
	case SYM_WANT_DWO:
		return has_section(f, split, ARRAY_SIZE(split));
	}
	return 0;
}

/* Compares the checksum of the link: 0, or negative if it was refused, and counted. */
static int check_crc(struct sym_search *s, int fd, uint64_t size)
{
	uint32_t crc;
	int r;

	if (size > s->crc_left) {
		sym_count(s->stats->unreadable);
		return -EACCES;
	}
	s->crc_left -= size;
	r = img_file_crc(fd, &crc);
	if (r < 0) {
		if (r != -ENOMEM)
			sym_count(s->stats->unreadable);
		return r;
	}
	if (crc != s->link.crc) {
		sym_count(s->stats->wrong_crc);
		return -EINVAL;
	}
	return 0;
}

/* Compares the build: 0 if it is the wanted one, -ENOMEM, else refused, and counted. */
static int check_build(struct sym_search *s, struct img_file *f, int fd, uint64_t size,
                       enum sym_wanted want)
{
	uint8_t id[IMG_BUILD_ID_MAX];
	size_t len = 0;
	int r;

	if (want == SYM_WANT_DWP || want == SYM_WANT_DWO)
		return 0;
	r = img_build_id(f, id, &len);
	if (r == -ENOMEM)
		return r;
	if (r < 0 && r != -ENOENT) {
		sym_count(s->stats->unreadable);
		return r;
	}
	if (want == SYM_WANT_LINK && (r == -ENOENT || s->id_len == 0))
		return check_crc(s, fd, size);
	if (r == -ENOENT || len != s->id_len || memcmp(id, s->id, len) != 0) {
		sym_count(s->stats->wrong_build_id);
		return -EINVAL;
	}
	return 0;
}

/* Checks a candidate: 0, -ENOMEM, else refused, and counted. */
static int check_candidate(struct sym_search *s, int fd, const struct stat *st,
                           enum sym_wanted want)
{
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	int r;

	if (s->have_self && st->st_dev == s->self_dev && st->st_ino == s->self_ino) {
		sym_count(s->stats->itself);
		return -EINVAL;
	}
	r = img_file_open(fd, &f, NULL);
	if (r == -ENOMEM)
		return r;
	if (r < 0) {
		if (r == -ENOEXEC || r == -EINVAL)
			sym_count(s->stats->bad);
		else
			sym_count(s->stats->unreadable);
		return r;
	}
	/* Sections are checked before the build: a checksum costs more. */
	r = is_useful(f, want);
	if (r == -ENOMEM)
		return r;
	if (r == 0 || (s->image && (img_machine(f) != img_machine(s->image) ||
	                            img_is_64(f) != img_is_64(s->image)))) {
		sym_count(s->stats->bad);
		return -EINVAL;
	}
	return check_build(s, f, fd, st->st_size > 0 ? (uint64_t)st->st_size : 0, want);
}

/* Links may lead to one file twice. */
static bool was_seen(struct sym_search *s, const struct stat *st, enum sym_wanted want)
{
	for (size_t i = 0; i < s->n_seen; i++) {
		const struct sym_seen *k = &s->seen[i];

		if (k->dev == st->st_dev && k->ino == st->st_ino &&
		    k->by_link == (want == SYM_WANT_LINK))
			return true;
	}
	if (s->n_seen < ARRAY_SIZE(s->seen))
		s->seen[s->n_seen++] =
		        (struct sym_seen){st->st_dev, st->st_ino, want == SYM_WANT_LINK};
	return false;
}

/* Tries the file of s->path below @root: 1 (it is the wanted one), 0, -ENOMEM. */
static int try_path(struct sym_search *s, const struct sym_root *root, enum sym_wanted want)
{
	_cleanup_close_ int fd = -EBADF;
	struct stat st;
	int r = s->path.err;

	if (r == -ENOMEM)
		return r;
	if (r < 0 || s->path.len == 0)
		return 0; /* longer than a path can be */
	r = sym_open_regular(root, s->path.p, s->stats, &fd, &st);
	if (r == -ENOENT)
		return 0;
	if (r == 0 && was_seen(s, &st, want))
		return 0;
	if (r == 0) {
		sym_count(s->stats->opened);
		r = check_candidate(s, fd, &st, want);
	}
	if (r == -ENOMEM)
		return r;
	if (r < 0) {
		s->refused = true;
		return 0;
	}
	s->fd = TAKE_FD(fd);
	s->dir = root->dir;
	s->by_link = want == SYM_WANT_LINK;
	return 1;
}

int sym_try_parts(struct sym_search *s, const struct sym_root *root, enum sym_wanted want,
                  const char *const parts[SYM_PATH_PARTS])
{
	sbuf_reset(&s->path);
	for (size_t i = 0; i < SYM_PATH_PARTS; i++) {
		if (parts[i])
			(void)sbuf_str(&s->path, parts[i]); /* try_path returns .err */
	}
	return try_path(s, root, want);
}

int sym_try_build_id(struct sym_search *s, const struct sym_root *root, const char *prefix,
                     enum sym_wanted want)
{
	if (s->id_len < 2)
		return 0;
	sbuf_reset(&s->path);
	(void)sbuf_addf(&s->path, "%s/.build-id/%02x/", prefix, s->id[0]); /* as above */
	for (size_t i = 1; i < s->id_len; i++)
		(void)sbuf_addf(&s->path, "%02x", s->id[i]);
	(void)sbuf_str(&s->path, ".debug");
	return try_path(s, root, want);
}
