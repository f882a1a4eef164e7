/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's table of symbols: how it is built, from /proc/kallsyms or from our cache of it. */
#ifndef PA_SYMBOLIZE_KERNEL_PRIV_H
#define PA_SYMBOLIZE_KERNEL_PRIV_H

#include "symbolize/symbolize_priv.h"

#define SYM_KERNEL_NAME_MAX 1024 /* with module; KSYM_NAME_LEN is 512, module names below 64 */
#define SYM_KERNEL_MAX      (4 * 1024 * 1024)
#define SYM_KERNEL_BLOB_MAX (64 * 1024 * 1024)
#define SYM_KERNEL_NO_CODE  3          /* rank of sym_ksym.name */
#define SYM_KERNEL_NO_NAME  UINT32_MAX /* of names: no code from here on */

/* Split after sorting: 12 bytes a symbol, and look-ups touch addresses only. */
struct sym_kernel {
	uint64_t *addrs; /* addrs[n], ascending, unique */
	uint32_t *names; /* names[n]: offset in blob of "symbol" or "symbol\t[module]", with NUL, or
	                  * NO_NAME; never two of these in a row, nor the first */
	size_t n, cnt;   /* cnt: with a name */
	char *blob;      /* blob[blob_len] */
	size_t blob_len;
	uint64_t bad_lines;
};

struct sym_ksym {
	uint64_t addr;
	uint32_t name; /* offset in the blob; above it the rank: 0 global, 1 weak, 2 local, 3 no
	                * code: it only ends what stands before it */
};

struct sym_kernel_parser {
	VEC(struct sym_ksym) syms;
	struct sbuf blob;
	size_t prev_name, prev_len; /* in blob: the name added last */
	uint64_t bad_lines;
	uint64_t hidden; /* text symbols at address 0 */
	bool unsorted;
	bool skipping; /* the rest of a line that was longer than the buffer */
};

void sym_kernel_parser_init(struct sym_kernel_parser *p);
void sym_kernel_parser_done(struct sym_kernel_parser *p);
/* "symbol" or "symbol\t[module]", nothing unprintable, not too long. */
bool sym_kernel_name_ok(const uint8_t *name, size_t len);
/* A symbol, its name checked; @rank: of sym_ksym, 3 has no name. 0, -E2BIG, -ENOMEM. */
int sym_kernel_add(struct sym_kernel_parser *p, uint64_t addr, uint32_t rank, const uint8_t *name,
                   size_t len);
/* The table of all that was added: 0, -EPERM (hidden), -ENODATA, -ENOMEM. */
int sym_kernel_finish(struct sym_kernel_parser *p, struct sym_kernel **ret);
/* What a cache is good for: one boot, and as long as nothing is loaded or hidden. */
struct sym_kcache_key {
	uint8_t boot_id[16];
	uint64_t state; /* hash over the first lines of kallsyms and the modules */
};
/* As of now: 0, -EINVAL, errno of open or read. */
int sym_kcache_key(const struct sym_kernel_options *o, struct sym_kcache_key *ret);
/* Bytes of a cache: 0, -EINVAL (damaged, another version), -ESTALE (another boot, other modules),
 * -ENOMEM. */
int sym_kcache_parse(const void *bytes, size_t len, const struct sym_kcache_key *key,
                     struct sym_kernel **ret);
/* What BPF and the kernel's own tracing made is left out. 0, or the error of @b. */
int sym_kcache_format(const struct sym_kernel *k, const struct sym_kcache_key *key, struct sbuf *b);

/* Of a name in the blob: "[module]", NULL: the kernel's own. */
const char *sym_kernel_module(const char *name);

#endif
