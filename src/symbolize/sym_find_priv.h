/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PA_SYM_FIND_PRIV_H
#define PA_SYM_FIND_PRIV_H

#include <sys/stat.h>

#include "symbolize/symbolize.h"

/* Where names are looked up: below a directory that they cannot leave, in our own file system, or
 * in a directory of it. */
struct sym_root {
	int fd;          /* directory; -EBADF: our own root */
	bool jail;       /* absolute links and ".." stay below @fd */
	const char *dir; /* what stands before a name in messages; "" if nothing */
};

/* Counts one in a figure of struct sym_find_stats. */
#define sym_count(counter_) atomic_fetch_add_explicit(&(counter_), 1, memory_order_relaxed)

/**
 * sym_open_regular - a file for reading, if it is a regular one
 * @path: absolute, below @root
 * What is not regular is never opened: that of a device has effects, that of a FIFO waits.
 * @ret_st: of the file, for who it is
 * Returns: 0, -ENOENT (there is none), -EINVAL (not regular; counted), -EACCES (cannot be opened,
 * for whatever reason; counted).
 */
int sym_open_regular(const struct sym_root *root, const char *path, struct sym_find_stats *stats,
                     int *ret_fd, struct stat *ret_st);

#define SYM_PATH_PARTS 6  /* of a path that is put together */
#define SYM_SEEN_MAX   64 /* candidates of a search that are remembered */

/* What a candidate must be. */
enum sym_wanted {
	SYM_WANT_BUILD_ID, /* that is what identifies it */
	SYM_WANT_LINK,     /* that, or the checksum */
	SYM_WANT_ALT,
	SYM_WANT_DWP,
	SYM_WANT_DWO,
};

struct sym_seen {
	dev_t dev;
	ino_t ino;
	bool by_link;
};

struct sym_search {
	const struct sym_find_options *o;
	struct sym_find_stats *stats;
	const struct img_file *image; /* NULL: of a package or split unit nothing is known */
	uint8_t id[IMG_BUILD_ID_MAX]; /* of what is looked for: id[id_len] */
	size_t id_len;                /* 0: none */
	struct img_debuglink link;
	bool have_link;
	bool have_self;
	dev_t self_dev;
	ino_t self_ino;
	uint64_t crc_left; /* bytes */
	struct sym_seen seen[SYM_SEEN_MAX];
	size_t n_seen;
	struct sbuf path; /* of the candidate */
	bool refused;
	int fd; /* found, with @path below @dir */
	const char *dir;
	bool by_link;
};

/**
 * sym_search_init - a search that has found nothing
 * @image: that debug files are looked for, NULL if not known; borrowed
 * Allocates: no; sym_search_done frees, and closes what was not taken.
 */
void sym_search_init(struct sym_search *s, const struct sym_find_options *o,
                     struct sym_find_stats *stats, const struct img_file *image);
void sym_search_done(struct sym_search *s);
/**
 * sym_try_parts - whether the file of a path is what is looked for
 * @parts: of the path, one after the other; NULL ones are left out
 * Returns: 1 (then @s has .fd, .path, .dir, .by_link), 0, -ENOMEM.
 */
int sym_try_parts(struct sym_search *s, const struct sym_root *root, enum sym_wanted want,
                  const char *const parts[SYM_PATH_PARTS]);
#define SYM_TRY(s_, root_, want_, ...)                                                             \
	sym_try_parts(s_, root_, want_, (const char *const[SYM_PATH_PARTS]){__VA_ARGS__})
/**
 * sym_try_build_id - the same for @prefix/.build-id/ab/cdef….debug
 */
int sym_try_build_id(struct sym_search *s, const struct sym_root *root, const char *prefix,
                     enum sym_wanted want);

#endif
