/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PA_SYMBOLIZE_PRIV_H
#define PA_SYMBOLIZE_PRIV_H

#include "symbolize/symbolize.h"

#define SYM_MANGLED_MAX   (16 * 1024) /* longer names are shown as they are */
#define SYM_DEMANGLED_MAX (64 * 1024)
/* Of the strings of one batch: 100,000 of the longest names that libLLVM has. */
#define SYM_STRINGS_MAX (64 * 1024 * 1024)

/* Empty results for @n addresses, all with @reason: 0, -ENOMEM. */
int sym_batch_init(struct sym_batch *b, size_t n, enum ev_reason reason);

/* A linkage name as it is shown: demangled, symbol version removed, @suffix behind it. */
struct sym_text {
	const char *linkage, *name;
};

/**
 * sym_batch_text - the strings of one symbol into the batch
 * @linkage: as in the table; @suffix: "" or " [module]"
 * @scratch: of the caller, reused between calls
 * Returns: 0, -E2BIG (the batch's strings are at their cap), -ENOMEM.
 */
int sym_batch_text(struct sym_batch *b, const char *linkage, const char *suffix,
                   struct sbuf *scratch, struct sym_text *ret);

/* Order of names for one address: fewest leading underscores, then bytes. As strcmp. */
int sym_name_cmp(const char *a, const char *b);

#endif
