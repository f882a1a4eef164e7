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
	const char *name;    /* demangled; NULL when reason != NAMED */
	const char *linkage; /* as in the symbol table (differs from name when demangled) */
	uint64_t start;      /* of the symbol: file offset (user), address (kernel) */
	enum ev_reason reason;
};

/* Results of one batch: names[i] belongs to addrs[i]. */
struct sym_batch {
	size_t n;
	struct sym_name *names;
	struct arena strings;
};
/**
 * sym_batch_done - free what a resolve filled in; a zeroed batch is accepted
 */
void sym_batch_done(struct sym_batch *b);

/**
 * sym_elf_resolve - names of code at file offsets of one image
 * @offs: offs[n] in bytes, ascending, unique; look-up addresses (return addresses minus 1 already)
 * @ret:  names[n], by index of @offs; for sym_batch_done
 * Best symbol: one whose [value, value + size) holds the address before one of size 0 that starts
 * at or before it, in the same section, with no other symbol's start or end between; among equals
 * innermost (highest start, then smallest), then global over weak over local, then fewest leading
 * underscores, then the name. Names are shown demangled, without "@VERSION".
 * Memory: O(n), not O(symbols); names end at 64 MiB for a batch (reason NO_MEMORY from there on).
 * Names are read to break at most 65,536 + 16 n ties; after that the first in the file wins.
 * Reasons: NO_SYMTAB, NO_SYMBOL, BAD_ELF (no symbol of the table is sound, or the name is not),
 * NO_FILE (the file cannot be read any more), NO_MEMORY.
 * Returns: 0 (each name has its own reason), -ENOMEM (also: more than 2^31 - 1 offsets).
 * Cost: O(symbols * log n).
 */
int sym_elf_resolve(struct img_file *f, const uint64_t *offs, size_t n, struct sym_batch *ret);
/**
 * sym_none_resolve - a batch in which all @n have this reason: an image that could not be opened
 * Returns: 0, -ENOMEM.
 */
int sym_none_resolve(enum ev_reason reason, size_t n, struct sym_batch *ret);

/**
 * sym_demangle - C++ (Itanium) with parameters, Rust (v0 and legacy) without its hash, into @b
 * Bounded: 16 KiB in, 64 KiB out, and libiberty's own limit of recursion, which refuses C++ names
 * of more than 1,024 characters.
 * Returns: 0 (appended), -ENOENT (neither, or over a bound; @b as it was), -ENOMEM, -E2BIG (@b
 * full), or the error that stood in @b already.
 */
int sym_demangle(const char *name, struct sbuf *b);

/* ---- kernel --------------------------------------------------------------------------------- */

struct sym_kernel;
/**
 * sym_kernel_load - read /proc/kallsyms
 * @path: NULL, or another file for tests
 * Text symbols only (t T w W). Those of modules and BPF programs are shown with " [module]", their
 * linkage name is without. Of symbols at one address the best stays, by the rule for ELF.
 * Returns: 0, -EPERM (every address reads 0: kptr_restrict or no CAP_SYSLOG), -ENODATA (no text
 * symbol at all), -ENOMEM, errno of open or read.
 * Cost: one pass; 12 bytes a symbol and the names, at most 4 M symbols and 64 MiB of names (what
 * is over that counts as bad lines).
 */
int sym_kernel_load(const char *path, struct sym_kernel **ret, struct err *err);
/**
 * sym_kernel_parse - the same over @len bytes in memory, for tests and fuzzing
 * @text: not kept
 * Returns: 0, -EPERM, -ENODATA, -ENOMEM, as sym_kernel_load.
 */
int sym_kernel_parse(const char *text, size_t len, struct sym_kernel **ret);
/**
 * sym_kernel_free, sym_kernel_freep - NULL is accepted; free returns NULL
 */
struct sym_kernel *sym_kernel_free(struct sym_kernel *k);
void sym_kernel_freep(struct sym_kernel **k);
/**
 * sym_kernel_resolve - names of kernel addresses
 * @addrs: addrs[n], ascending, unique; look-up addresses
 * @ret:   names[n], by index of @addrs; for sym_batch_done
 * A symbol reaches to the next one, at most 1 MiB. Reasons: NO_SYMBOL, NO_MEMORY (the
 * batch's strings are at 64 MiB).
 * Returns: 0 (each name has its own reason), -ENOMEM. Cost: O(n * log symbols).
 */
int sym_kernel_resolve(const struct sym_kernel *k, const uint64_t *addrs, size_t n,
                       struct sym_batch *ret);
/**
 * sym_kernel_cnt, sym_kernel_bad_lines, sym_kernel_bytes - figures of the table
 * cnt: symbols, one an address. bad_lines: lines that were damaged, over a limit, or text at
 * address 0. bytes: memory held.
 */
size_t sym_kernel_cnt(const struct sym_kernel *k);
uint64_t sym_kernel_bad_lines(const struct sym_kernel *k);
size_t sym_kernel_bytes(const struct sym_kernel *k);
/**
 * sym_kernel_range - first text address and end (exclusive) of the last symbol
 * For the kernel's mapping in the profile. Modules and BPF programs are inside.
 * Returns: 0, -ENOENT (no symbols).
 */
int sym_kernel_range(const struct sym_kernel *k, uint64_t *ret_start, uint64_t *ret_end);

#endif
