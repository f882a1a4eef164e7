/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symbolize, private: what decodes symbol tables and debug information, with what it keeps of
 * images between batches. It opens no file by name: who runs it hands it descriptors. So it can run
 * in a process that may do nothing but read what it was given (sym_child.c).
 */
#ifndef PA_SYM_ENGINE_H
#define PA_SYM_ENGINE_H

#include "symbolize/symbolize_priv.h"

/* Files that belong to an image; -EBADF: none. */
struct sym_parts {
	int debug_fd, alt_fd, dwp_fd;
};

/* What opens files for an engine. */
struct sym_helper {
	/* 0 with *ret, whose descriptors become the engine's; -ENOMEM, -EPIPE (nobody answers). */
	int (*parts)(void *arg, const struct sym_source *src, struct sym_parts *ret);
	/* A split unit's file: 1 with *ret_fd, 0 (not there), as parts. */
	int (*dwo)(void *arg, const struct sym_source *src, const char *dir, const char *name,
	           int *ret_fd);
	void *arg;
};

struct sym_engine_options {
	struct sym_helper helper;
	struct sym_engine_stats *stats; /* counted there; borrowed */
	size_t budget_bytes;            /* > 0 */
	uint32_t max_fds;               /* > 0; for a child 0: as many as it may have */
	bool no_lines;
};

struct sym_engine;
int sym_engine_new(const struct sym_engine_options *o, struct sym_engine **ret); /* 0, -ENOMEM */
struct sym_engine *sym_engine_free(struct sym_engine *e);
void sym_engine_freep(struct sym_engine **e);
/* As sym_files_resolve; -EPIPE from the helper. */
int sym_engine_resolve(struct sym_engine *e, const struct sym_source *src, const uint64_t *offs,
                       size_t n, struct sym_batch *ret);

/* The parts of an image, looked up by its names: 0, -ENOMEM. sym_parts.c */
int sym_parts_find(const struct sym_find_options *o, struct sym_find_stats *stats,
                   const struct sym_source *src, struct sym_parts *ret);
void sym_parts_close(struct sym_parts *p);

bool sym_has_section(struct img_file *f, const char *name);
/* Whether an image has debug information itself. */
bool sym_has_lines(struct img_file *f);

/* All of a batch have @reason, and are shown by their offsets: 0, -ENOMEM. */
int sym_batch_none(enum ev_reason reason, const uint64_t *offs, size_t n, struct sym_batch *ret);

#endif
