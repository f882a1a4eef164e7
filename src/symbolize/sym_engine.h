/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symbolize, private: decodes symbol tables and debug information, and keeps files of images
 * between batches. It opens no file by name: a helper gives it descriptors. So it can run in a
 * process that may only read the files that it was given (sym_process.c).
 */
#ifndef PA_SYM_ENGINE_H
#define PA_SYM_ENGINE_H

#include "symbolize/symbolize_priv.h"

/* Files that belong to an image; -EBADF: none. */
struct sym_parts {
	int debug_fd, alt_fd, dwp_fd;
};

/* Opens files for an engine. */
struct sym_helper {
	/* Returns 0 with *ret, whose descriptors the engine owns; -ENOMEM, -EPIPE (no answer). */
	int (*parts)(void *arg, const struct sym_source *src, struct sym_parts *ret);
	/* The file of a split unit: returns 1 with *ret_fd, 0 (not found), or as parts. */
	int (*dwo)(void *arg, const struct sym_source *src, const char *dir, const char *name,
	           int *ret_fd);
	void *arg;
};

struct sym_engine_options {
	struct sym_helper helper;
	struct sym_engine_stats *stats; /* incremented by the engine; borrowed */
	size_t budget_bytes;            /* > 0 */
	/* > 0; in the options of sym_process_start, 0: as many as the process may have */
	uint32_t max_fds;
	bool no_lines;
};

struct sym_engine;
int sym_engine_new(const struct sym_engine_options *o, struct sym_engine **ret); /* 0, -ENOMEM */
struct sym_engine *sym_engine_free(struct sym_engine *e);
void sym_engine_freep(struct sym_engine **e);
/* As sym_files_resolve, and -EPIPE from the helper. */
int sym_engine_resolve(struct sym_engine *e, const struct sym_source *src, const uint64_t *offs,
                       size_t n, struct sym_batch *ret);

/* Finds the parts of an image by its names: 0, -ENOMEM. sym_parts.c */
int sym_parts_find(const struct sym_find_options *o, struct sym_find_stats *stats,
                   const struct sym_source *src, struct sym_parts *ret);
void sym_parts_close(struct sym_parts *p);

bool sym_has_section(struct img_file *f, const char *name);
/* Returns whether an image has debug information itself. */
bool sym_has_lines(struct img_file *f);

/* Makes a batch without names for @reason, shown by their offsets: 0, -ENOMEM. */
int sym_batch_none(enum ev_reason reason, const uint64_t *offs, size_t n, struct sym_batch *ret);

#endif
