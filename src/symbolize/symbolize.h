/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symbolize - address to name, in batches; nothing is kept between batches but the kernel's table.
 * Thread: each call works on its own objects; sym_kernel is immutable after it was loaded, so any.
 */
#ifndef PA_SYMBOLIZE_H
#define PA_SYMBOLIZE_H

#include "image/image.h"
#include "proc/proc.h"

/* The name found for one address. Strings are borrowed from the sym_batch. */
struct sym_name {
	const char *name;   /* demangled; NULL when reason != NAMED */
	const char *linkage; /* as in the symbol table (differs from name when demangled) */
	uint64_t start;	    /* of the symbol: file offset (user), address (kernel) */
	enum ev_reason reason;
};

/* Results of one batch: names[i] belongs to addrs[i]. */
struct sym_batch {
	size_t n;
	struct sym_name *names;
	struct arena strings;
};
void sym_batch_done(struct sym_batch *b);

/**
 * sym_elf_resolve - names of code at file offsets of one image
 * @offs: ascending, unique; look-up addresses (return addresses minus 1 already)
 * Best symbol: one whose [value, value + size) holds the address before one of size 0 that starts at or
 * before it with no other symbol's start or end between; among equals innermost (highest start, then
 * smallest), then global over weak over local, then fewest leading underscores, then the name.
 * Memory: O(n), not O(symbols). Returns 0 (each name has its own reason), -ENOMEM.
 */
int sym_elf_resolve(struct img_file *f, const uint64_t *offs, size_t n, struct sym_batch *ret);
/* All @n get this reason: an image that could not be opened. */
int sym_none_resolve(enum ev_reason reason, size_t n, struct sym_batch *ret);

/* Demangles C++ (Itanium) and Rust (v0 and legacy, hash removed) into @b; -ENOENT if it is neither. Output,
 * input and recursion are bounded. */
int sym_demangle(const char *name, struct sbuf *b);

/* ---- kernel --------------------------------------------------------------------------------- */

struct sym_kernel;
/* Parses /proc/kallsyms (or @path, for tests): text symbols only, modules and BPF programs with " [module]".
 * -EPERM when every address reads 0 (kptr_restrict, no CAP_SYSLOG), errno, -ENOMEM. */
int sym_kernel_load(const char *path, struct sym_kernel **ret, struct err *err);
int sym_kernel_parse(const char *text, size_t len, struct sym_kernel **ret); /* for tests and fuzzing */
struct sym_kernel *sym_kernel_free(struct sym_kernel *k);
void sym_kernel_freep(struct sym_kernel **k);
/* @addrs ascending, unique. A symbol reaches to the next one, at most 1 MiB. */
int sym_kernel_resolve(const struct sym_kernel *k, const uint64_t *addrs, size_t n, struct sym_batch *ret);
size_t sym_kernel_cnt(const struct sym_kernel *k);
uint64_t sym_kernel_bad_lines(const struct sym_kernel *k);
size_t sym_kernel_bytes(const struct sym_kernel *k); /* memory held */
/* First and last text address, for the mapping of the profile. 0, -ENOENT. */
int sym_kernel_range(const struct sym_kernel *k, uint64_t *ret_start, uint64_t *ret_end);

#endif
