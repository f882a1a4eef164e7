/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listing - the text of code: lines of source files, and instructions as objdump (binutils) prints
 * them. File names come from profiles, so they are untrusted: only regular files are opened, and
 * what is read is bounded.
 *
 * Thread: an object belongs to one thread at a time.
 */
#ifndef PA_LISTING_H
#define PA_LISTING_H

#include "event/event.h"

struct lst;

struct lst_options {
	const char *const *source_dirs; /* source_dirs[n_source_dirs]: borrowed until lst_free */
	size_t n_source_dirs;
	const char *const *debug_dirs; /* debug_dirs[n_debug_dirs]: the same */
	size_t n_debug_dirs;
};
/**
 * lst_new - a reader of listings; opens nothing yet
 * Returns: 0, -ENOMEM.
 */
int lst_new(const struct lst_options *o, struct lst **ret);
/**
 * lst_free, lst_freep - NULL is accepted; free returns NULL
 */
struct lst *lst_free(struct lst *l);
void lst_freep(struct lst **l);

/**
 * lst_source - read a source file, of at most 64 MiB
 * @path: as the profile has it
 * Tries in each source directory the whole path, then the path without its first folders, down to
 * the name of the file; then the path itself.
 * @ret: borrowed until the next call
 * Returns: 0, -ENOENT, -EINVAL (no regular file, or an empty one), -EFBIG, errno of open and read
 * (all with @err), -ENOMEM.
 */
int lst_source(struct lst *l, const char *path, struct ev_source *ret, struct err *err);
/**
 * lst_sites - find addresses and symbols of code at file offsets
 * @path:     program or library, as the profile has it
 * @build_id: in hex; "": not known, then any build is accepted
 * @offs:     offs[n], ascending
 * @ret:      ret[n]; symbols are borrowed until the next call. An offset that no executable segment
 *            has gets address 0.
 * Symbols are those of the file, of its debug file and of its .gnu_debugdata. Of several the one
 * that begins last is taken. Those without a size are left out.
 * Returns: 0, -ESTALE (another build), -ENOENT and other errno of open, -ENOEXEC, -EINVAL (all with
 * @err), -ENOMEM.
 */
int lst_sites(struct lst *l, const char *path, const char *build_id, const uint64_t *offs, size_t n,
              struct ev_site *ret, struct err *err);
/**
 * lst_instructions - disassemble [start, end) of the file of the last successful lst_sites
 * Runs objdump, under limits of CPU time, memory and output; it is killed if this process ends.
 * @ret: ret[*ret_n], ascending addresses, at least one; borrowed until the next call of lst_sites
 *       or lst_instructions
 * Returns: 0, -ENOENT (there is no objdump), -E2BIG (more than 1 MiB of code), -EIO (objdump
 * failed), errno of fork and the like (all with @err), -ENOMEM.
 */
int lst_instructions(struct lst *l, uint64_t start, uint64_t end, const struct ev_instruction **ret,
                     size_t *ret_n, struct err *err);

#endif
