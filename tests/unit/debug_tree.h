/* SPDX-License-Identifier: Apache-2.0 */
/*
 * debug-tree - trees of small ELF files, for tests that look for debug files
 * Each test has a tree of its own: root/ is the root of a process, debug/ a folder of debug files
 * of ours. Opens with openat, for tests that replace open.
 */
#ifndef PA_TEST_DEBUG_TREE_H
#define PA_TEST_DEBUG_TREE_H

#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <zlib.h>

#include "elf_sections.h"
#include "symbolize/symbolize.h"

static const uint8_t id_a[20] = {0xab, 0xcd, 0xef, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
static const uint8_t id_b[20] = {0xab, 0xcd, 0xef, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 99};
#define HEX_REST "cdef0405060708090a0b0c0d0e0f1000000000"
#define BY_ID    "/.build-id/ab/" HEX_REST ".debug"
#define CRC_ANY  0x600df00d

/* ---- trees ---- */

static char tmp[64];
static int root_fd = -EBADF;
static char debug_dir[96];
static const char *const debug_dirs[] = {debug_dir};
static const struct sym_find_options in_debug = {.dirs = debug_dirs, .n_dirs = 1};
static const struct sym_find_options nowhere = {0};

static const char *at(const char *rel)
{
	static char path[2][PATH_MAX];
	static int i;

	i ^= 1;
	snprintf(path[i], sizeof(path[i]), "%s/%s", tmp, rel);
	return path[i];
}

static inline void parents(const char *rel)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s", at(rel));
	for (char *p = path + strlen(tmp) + 1; (p = strchr(p, '/')); p++) {
		*p = 0;
		assert_true(mkdir(path, 0755) == 0 || errno == EEXIST);
		*p = '/';
	}
}

static inline void put(const char *rel, const void *p, size_t len)
{
	int fd;

	parents(rel);
	fd = openat(AT_FDCWD, at(rel), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(file_write_full(fd, p, len), 0);
	close(fd);
}

static inline void put_link(const char *rel, const char *to)
{
	parents(rel);
	assert_int_equal(symlink(to, at(rel)), 0);
}

static inline int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	return remove(path);
}

static inline int tree_setup(void **state)
{
	(void)state;
	snprintf(tmp, sizeof(tmp), "/tmp/test-sym-find-XXXXXX");
	if (!mkdtemp(tmp))
		return -1;
	parents("root/x");
	parents("debug/x");
	snprintf(debug_dir, sizeof(debug_dir), "%s/debug", tmp);
	root_fd = openat(AT_FDCWD, at("root"), O_PATH | O_DIRECTORY | O_CLOEXEC);
	return root_fd >= 0 ? 0 : -1;
}

static inline int tree_teardown(void **state)
{
	(void)state;
	closep(&root_fd);
	return nftw(tmp, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- files in them ---- */

struct kind {
	const uint8_t *id;
	size_t id_len;       /* 0: none */
	const char *link;    /* .gnu_debuglink */
	uint32_t crc;        /* of that */
	const char *alt;     /* .gnu_debugaltlink's path; its id is id_a */
	const char *section; /* NULL: .debug_info; "": nothing of use */
	const char *text;    /* its bytes: so that files differ */
	bool is32;
};

static inline void make(const struct kind *k, struct sbuf *b)
{
	struct sbuf note = {0}, link = {0}, alt = {0};
	const char *text = k->text ? k->text : "information";
	struct es_sec secs[4] = {0};
	size_t n = 0;

	secs[n++] = (struct es_sec){
	        .name = !k->section        ? ".debug_info"
	                : *k->section == 0 ? ".comment"
	                                   : k->section,
	        .bytes = text,
	        .len = strlen(text),
	};
	if (k->id_len) {
		es_note(&note, k->id, k->id_len);
		secs[n++] = (struct es_sec){.name = ".note.gnu.build-id",
		                            .bytes = note.p,
		                            .len = note.len,
		                            .type = SHT_NOTE};
	}
	if (k->link) {
		es_debuglink(&link, k->link, k->crc);
		secs[n++] =
		        (struct es_sec){.name = ".gnu_debuglink", .bytes = link.p, .len = link.len};
	}
	if (k->alt) {
		sbuf_init(&alt, 8192);
		sbuf_add(&alt, k->alt, strlen(k->alt) + 1);
		sbuf_add(&alt, id_a, sizeof(id_a));
		secs[n++] = (struct es_sec){
		        .name = ".gnu_debugaltlink", .bytes = alt.p, .len = alt.len};
	}
	es_build(k->is32, secs, n, b, NULL);
	sbuf_done(&note);
	sbuf_done(&link);
	sbuf_done(&alt);
}

/* Returns its checksum. */
static inline uint32_t put_elf(const char *rel, const struct kind *k)
{
	struct sbuf b;
	uint32_t crc;

	make(k, &b);
	put(rel, b.p, b.len);
	crc = (uint32_t)crc32(0, (const Bytef *)b.p, (uInt)b.len);
	sbuf_done(&b);
	return crc;
}

static const struct kind with_id = {.id = id_a, .id_len = 20};
static const struct kind other_id = {.id = id_b, .id_len = 20};
static const struct kind without_id = {0};

/* Files that were found, and refused. */
struct outcome {
	int r;
	char path[PATH_MAX];
	struct stat st;
	struct sym_find_stats stats;
};

static inline bool is_file(const struct stat *st, const char *rel)
{
	struct stat want;

	return stat(at(rel), &want) == 0 && want.st_dev == st->st_dev && want.st_ino == st->st_ino;
}

static inline void expect_file(const struct outcome *out, int r, const char *rel)
{
	assert_int_equal(out->r, r);
	assert_true(is_file(&out->st, rel));
}

/* Exactly these were counted. */
static inline void expect_counts(const struct sym_find_stats *s, uint64_t opened,
                                 uint64_t wrong_crc, uint64_t wrong_id, uint64_t not_regular,
                                 uint64_t unreadable, uint64_t bad, uint64_t itself)
{
	assert_int_equal(s->opened, opened);
	assert_int_equal(s->wrong_crc, wrong_crc);
	assert_int_equal(s->wrong_build_id, wrong_id);
	assert_int_equal(s->not_regular, not_regular);
	assert_int_equal(s->unreadable, unreadable);
	assert_int_equal(s->bad, bad);
	assert_int_equal(s->itself, itself);
}

#endif
