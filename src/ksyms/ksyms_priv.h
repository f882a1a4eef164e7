/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's table of symbols: how it is built, from /proc/kallsyms or from our cache of it. */
#ifndef PA_KSYMS_PRIV_H
#define PA_KSYMS_PRIV_H

#include "ksyms/ksyms.h"

#define KSYMS_NAME_MAX 1024 /* with module; KSYM_NAME_LEN is 512, module names below 64 */
#define KSYMS_MAX      (4 * 1024 * 1024)
#define KSYMS_BLOB_MAX (64 * 1024 * 1024)
#define KSYMS_NO_CODE  3          /* rank of ksyms_symbol.name */
#define KSYMS_NO_NAME  UINT32_MAX /* of names: no code from here on */

/* Split after sorting: 12 bytes a symbol, and look-ups touch addresses only. */
struct ksyms {
	uint64_t *addrs; /* addrs[n], ascending, unique */
	uint32_t *names; /* names[n]: offset in blob of "symbol" or "symbol\t[module]", with NUL, or
	                  * NO_NAME; never two of these in a row, nor the first */
	size_t n, cnt;   /* cnt: with a name */
	char *blob;      /* blob[blob_len] */
	size_t blob_len;
	uint64_t bad_lines;
};

struct ksyms_symbol {
	uint64_t addr;
	uint32_t name; /* offset in the blob; above it the rank: 0 global, 1 weak, 2 local, 3 no
	                * code: it only ends what stands before it */
};

struct ksyms_parser {
	VEC(struct ksyms_symbol) syms;
	struct sbuf blob;
	size_t prev_name, prev_len; /* in blob: the name added last */
	uint64_t bad_lines;
	uint64_t hidden; /* text symbols at address 0 */
	bool unsorted;
	bool skipping; /* the rest of a line that was longer than the buffer */
};

void ksyms_parser_init(struct ksyms_parser *p);
void ksyms_parser_done(struct ksyms_parser *p);
/* "symbol" or "symbol\t[module]", nothing unprintable, not too long. */
bool ksyms_name_ok(const uint8_t *name, size_t len);
/* A symbol, its name checked; @rank: of ksyms_symbol, 3 has no name. 0, -E2BIG, -ENOMEM. */
int ksyms_add(struct ksyms_parser *p, uint64_t addr, uint32_t rank, const uint8_t *name,
              size_t len);
/* The table of all that was added: 0, -EPERM (hidden), -ENODATA, -ENOMEM. */
int ksyms_finish(struct ksyms_parser *p, struct ksyms **ret);
/* What a cache is good for: one boot, and as long as nothing is loaded or hidden. */
struct ksyms_cache_key {
	uint8_t boot_id[16];
	uint64_t state; /* hash over the first lines of kallsyms and the modules */
};
/* As of now: 0, -EINVAL, errno of open or read. */
int ksyms_cache_key(const struct ksyms_options *o, struct ksyms_cache_key *ret);
/* Bytes of a cache: 0, -EINVAL (damaged, another version), -ESTALE (another boot, other modules),
 * -ENOMEM. */
int ksyms_cache_parse(const void *bytes, size_t len, const struct ksyms_cache_key *key,
                      struct ksyms **ret);
/* What BPF and the kernel's own tracing made is left out. 0, or the error of @b. */
int ksyms_cache_format(const struct ksyms *k, const struct ksyms_cache_key *key, struct sbuf *b);

/* Of a name in the blob: "[module]", NULL: the kernel's own. */
const char *ksyms_module(const char *name);

#endif
