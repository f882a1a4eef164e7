/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symbolize, private: files of images that are kept between batches of addresses, with the indexes
 * and the decompressed sections of their debug information. The least recently used image is
 * dropped when memory or descriptors reach their budget; it is opened again when it is asked for.
 *
 * Thread: one batch at a time, whoever asks (sym_files.c). So the budget is the process's, not a
 * thread's.
 */
#ifndef PA_SYM_CACHE_H
#define PA_SYM_CACHE_H

#include "dwarf/dwarf.h"
#include "gotab/gotab.h"
#include "symbolize/sym_engine.h"

/* A file that belongs to an image. */
struct sym_part {
	struct img_file *f;
	int fd;
};

struct sym_cache;
/* Argument of the call that opens split units. */
struct sym_opening {
	struct sym_cache *c;
	const struct sym_source *src; /* of the current batch */
};

/* The files of one image. */
struct sym_cached {
	bool known;     /* its files were searched for: a file that is not here does not exist */
	bool lines;     /* dw and go were opened, if there are such tables */
	bool refused;   /* some of its debug data was over the budget, and counted */
	bool was_there; /* it was dropped before */
	uint64_t used;
	size_t bytes;
	uint32_t fds;
	struct sym_part self; /* the image itself, if it has lines; with a descriptor of our own */
	uint8_t *mem;         /* mem[mem_len]: bytes of self, if it has no file */
	size_t mem_len;
	struct sym_part debug, alt, dwp;
	struct sym_opening opening;
	uint8_t *mini; /* mini[mini_len]: .gnu_debugdata, decompressed; bytes of mini_img */
	size_t mini_len;
	struct img_file *mini_img;
	struct dw_file *dw;
	struct gotab *go;
	struct dw_stats seen; /* of dw, already added to the counters */
};

struct sym_cache {
	struct sym_engine_options o;
	struct sym_engine_stats *stats; /* the caller's */
	struct sym_cached **images;     /* images[n_images], by image id; NULL: not met */
	uint32_t n_images;
	uint64_t clock;
	size_t bytes;
	uint32_t fds;
};

void sym_cache_init(struct sym_cache *c, const struct sym_engine_options *o);
void sym_cache_done(struct sym_cache *c);
/* The image with this id, borrowed until sym_cache_done: 0, -ENOMEM. */
int sym_cache_get(struct sym_cache *c, uint32_t id, struct sym_cached **ret);
/* Ends the use of an image by a batch: accounts its memory, and drops others if that is too much. */
void sym_cache_put(struct sym_cache *c, struct sym_cached *e);
/* Adds an image's memory and descriptors, as they are now, to the sums. */
void sym_cache_account(struct sym_cache *c, struct sym_cached *e);
/* Drops least recently used images until no more than this is held. @spare: the current image. */
void sym_cache_shrink(struct sym_cache *c, size_t bytes, uint32_t fds,
                      const struct sym_cached *spare);
/* Closes all files of an image. */
void sym_cache_drop(struct sym_cache *c, struct sym_cached *e);
/* Counts debug data that the budget is too small for, once each time that the file is opened. */
void sym_cache_count_refused(struct sym_cache *c, struct sym_cached *e);

/* Finds and opens the files of an image, once: 0, -ENOMEM, -EPIPE (the helper does not answer). */
int sym_cached_find(struct sym_cache *c, struct sym_cached *e, const struct sym_source *src,
                    struct img_file *img);
/* Opens the tables of lines, once: 0 (with or without), -ENOMEM. */
int sym_cached_open_lines(struct sym_cache *c, struct sym_cached *e);
/* Opens e->dw again: 0, -ENOENT, -ENOMEM. */
int sym_cached_reopen_dwarf(struct sym_cache *c, struct sym_cached *e);

#endif
