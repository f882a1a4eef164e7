/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PA_SYM_FIND_PRIV_H
#define PA_SYM_FIND_PRIV_H

#include <sys/stat.h>

#include "symbolize/symbolize.h"

/* A root for names: a directory that they cannot leave, the agent's file system, or a directory of
 * it. */
struct sym_root {
	int fd;          /* directory; -EBADF: the agent's root */
	bool jail;       /* absolute links and ".." stay below @fd */
	const char *dir; /* prefix of the name in messages; "" if none */
};

/* Adds one to a counter of struct sym_find_stats. */
#define sym_count(counter_) atomic_fetch_add_explicit(&(counter_), 1, memory_order_relaxed)

/**
 * sym_open_regular - open a file for reading, if it is a regular one
 * @path: absolute, below @root
 * Other files are never opened: opening a device may have effects, and opening a FIFO blocks.
 * @ret_st: stat of the file, to identify it
 * Returns: 0, -ENOENT, -EINVAL (not regular; counted), -EACCES (cannot be opened for any other
 * reason; counted).
 */
int sym_open_regular(const struct sym_root *root, const char *path, struct sym_find_stats *stats,
                     int *ret_fd, struct stat *ret_st);

#define SYM_PATH_PARTS 6  /* pieces of a path */
#define SYM_SEEN_MAX   64 /* candidates that a search keeps, to skip them the second time */

/* How a candidate is identified. */
enum sym_wanted {
	SYM_WANT_BUILD_ID, /* by its build-id */
	SYM_WANT_LINK,     /* by its build-id, or by the checksum */
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
	/* NULL: nothing is known of the image, for a package or a split unit */
	const struct img_file *image;
	uint8_t id[IMG_BUILD_ID_MAX]; /* id[id_len] of the wanted file */
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
	int fd; /* the file that was found, @path below @dir */
	const char *dir;
	bool by_link;
};

/**
 * sym_search_init - begin a search
 * @image: the file with the wanted debug file, NULL if not known; borrowed
 * Allocates: no. sym_search_done frees, and closes what was not moved out.
 */
void sym_search_init(struct sym_search *s, const struct sym_find_options *o,
                     struct sym_find_stats *stats, const struct img_file *image);
void sym_search_done(struct sym_search *s);
/**
 * sym_try_parts - check whether the file of a path is the wanted one
 * @parts: the path in parts, concatenated; NULL ones are left out
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
