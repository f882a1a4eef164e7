/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's table of symbols: built from /proc/kallsyms or from the agent's cache of it. */
#ifndef PA_KSYMS_PRIV_H
#define PA_KSYMS_PRIV_H

#include "ksyms/ksyms.h"

#define KSYMS_NAME_MAX 1024 /* with module; KSYM_NAME_LEN is 512, module names below 64 */
#define KSYMS_MAX      (4 * 1024 * 1024)
#define KSYMS_BLOB_MAX (64 * 1024 * 1024)
#define KSYMS_NO_CODE  3          /* rank of ksyms_symbol.name */
#define KSYMS_NO_NAME  UINT32_MAX /* offset of names: no code from here on */

/* Split after sorting: 12 bytes a symbol, and look-ups read addresses only. */
struct ksyms {
	uint64_t *addrs; /* addrs[n], ascending, unique */
	/* names[n]: offset in blob of "symbol" or "symbol\t[module]", with NUL, or NO_NAME;
	 * never two of these in a row, nor the first */
	uint32_t *names;
	size_t n, cnt; /* cnt: with a name */
	char *blob;    /* blob[blob_len] */
	size_t blob_len;
	uint64_t bad_lines;
};

struct ksyms_symbol {
	uint64_t addr;
	/* offset in the blob; upper bits: rank 0 global, 1 weak, 2 local, 3 data, which only
	 * ends the code before it */
	uint32_t name;
};

struct ksyms_parser {
	VEC(struct ksyms_symbol) syms;
	struct sbuf blob;
	size_t prev_name, prev_len; /* in blob: the last name that was added */
	uint64_t bad_lines;
	uint64_t hidden; /* text symbols at address 0 */
	bool unsorted;
	bool skipping; /* skipping the rest of a line that was longer than the buffer */
};

void ksyms_parser_init(struct ksyms_parser *p);
void ksyms_parser_done(struct ksyms_parser *p);
/* Checks a name: "symbol" or "symbol\t[module]", printable, not too long. */
bool ksyms_name_ok(const uint8_t *name, size_t len);
/* Adds a symbol whose name was checked; @rank: of ksyms_symbol, 3 has no name. 0, -E2BIG,
 * -ENOMEM. */
int ksyms_add(struct ksyms_parser *p, uint64_t addr, uint32_t rank, const uint8_t *name,
              size_t len);
/* Makes the table of all added symbols: 0, -EPERM (hidden), -ENODATA, -ENOMEM. */
int ksyms_finish(struct ksyms_parser *p, struct ksyms **ret);
/* Validity of a cache: one boot, and until modules or the visibility of addresses change. */
struct ksyms_cache_key {
	uint8_t boot_id[16];
	uint64_t state; /* hash over the first lines of kallsyms and the modules */
};
/* Reads the current state: 0, -EINVAL, errno of open or read. */
int ksyms_cache_key(const struct ksyms_options *o, struct ksyms_cache_key *ret);
/* Reads the bytes of a cache: 0, -EINVAL (damaged, another version), -ESTALE (another boot, other
 * modules), -ENOMEM. */
int ksyms_cache_parse(const void *bytes, size_t len, const struct ksyms_cache_key *key,
                      struct ksyms **ret);
/* Writes the bytes of a cache, without code that BPF and the kernel's tracing added. 0, or the
 * error of @b. */
int ksyms_cache_format(const struct ksyms *k, const struct ksyms_cache_key *key, struct sbuf *b);

/* Returns the "[module]" of a name in the blob, or NULL: the kernel's own. */
const char *ksyms_module(const char *name);

#endif
