/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ksyms - names of kernel addresses: /proc/kallsyms, the cache of it, and records of code that the
 * kernel adds and removes while a capture runs.
 * Thread: a loaded table never changes, so any; a log, one at a time.
 */
#ifndef PA_KSYMS_H
#define PA_KSYMS_H

#include "symbolize/symbolize.h"

struct ksyms;
/**
 * ksyms_load - read /proc/kallsyms
 * @path: NULL, or another file for tests
 * Text symbols only (t T w W). Those of modules and BPF programs are shown with " [module]", their
 * linkage name is without. Of symbols at one address the best stays, by the rule for ELF.
 * Returns: 0, -EPERM (every address reads 0: kptr_restrict or no CAP_SYSLOG), -ENODATA (no text
 * symbol at all), -ENOMEM, errno of open or read.
 * Cost: one pass; 12 bytes a symbol and the names, at most 4 M symbols and 64 MiB of names (what
 * is over that counts as bad lines).
 */
int ksyms_load(const char *path, struct ksyms **ret, struct err *err);
/* Where the table may be kept from one capture to the next. */
struct ksyms_options {
	const char *kallsyms, *modules, *boot_id; /* NULL: those of /proc */
	const char *cache_home; /* the file is PATH/perf-agent/kallsyms.cache; NULL: none */
	uint32_t uid;           /* of who owns all of it: the effective one of ours */
};
enum ksyms_cache {
	KSYMS_CACHE_OFF = 0, /* none was asked for */
	KSYMS_CACHE_USED,
	KSYMS_CACHE_WRITTEN, /* there was none, or it was of another state of the kernel, or damaged
	                     */
	KSYMS_CACHE_REFUSED, /* there is no folder that is @uid's alone, and none could be made */
	KSYMS_CACHE_FAILED,  /* it could not be written, or changed while it was read */
};
/**
 * ksyms_load_cached - ksyms_load, or what it found earlier in this boot
 * Kept for as long as /proc/modules and the first lines of kallsyms are the same. Programs of BPF
 * and the trampolines of tracing are not in what was kept: who meets an address without a name in a
 * table that is USED reads the real one. Folder and file are of mode 0700 and 0600, @uid's, and no
 * symbolic links; the folder above is @uid's too, and only @uid can write to it.
 * Returns: as ksyms_load; *ret_cache also then.
 * Cost: a fifth of ksyms_load where it is USED, some 20 ms beside it where it is WRITTEN.
 */
int ksyms_load_cached(const struct ksyms_options *o, struct ksyms **ret,
                      enum ksyms_cache *ret_cache, struct err *err);
/**
 * ksyms_state - a number that is another one when modules came or went since, or addresses
 * were hidden or shown Returns: 0, -EINVAL, errno of open or read. Cost: the kernel prints
 * /proc/modules.
 */
int ksyms_state(const struct ksyms_options *o, uint64_t *ret);
/**
 * ksyms_cache_home - $XDG_CACHE_HOME, or $HOME/.cache
 * Returns: 0 (appended to @b), -ENOENT (neither is set, or a privilege came with the program), the
 * error of @b.
 */
int ksyms_cache_home(struct sbuf *b);
/**
 * ksyms_parse - the same over @len bytes in memory, for tests and fuzzing
 * @text: not kept
 * Returns: 0, -EPERM, -ENODATA, -ENOMEM, as ksyms_load.
 */
int ksyms_parse(const char *text, size_t len, struct ksyms **ret);
/**
 * ksyms_free, ksyms_freep - NULL is accepted; free returns NULL
 */
struct ksyms *ksyms_free(struct ksyms *k);
void ksyms_freep(struct ksyms **k);
/**
 * ksyms_resolve - names of kernel addresses
 * @addrs: addrs[n], ascending, unique; look-up addresses
 * @ret:   names[n], by index of @addrs; for sym_batch_done
 * A symbol reaches to the next one or to data, at most 1 MiB; the last one of a module to the end
 * of its page, but for [bpf]. Reasons: NO_SYMBOL, NO_MEMORY (the batch's strings are at 64 MiB).
 * Returns: 0 (each name has its own reason), -ENOMEM. Cost: O(n * log symbols).
 */
int ksyms_resolve(const struct ksyms *k, const uint64_t *addrs, size_t n, struct sym_batch *ret);
/**
 * ksyms_cnt, ksyms_bad_lines, ksyms_bytes - figures of the table
 * cnt: symbols, one an address. bad_lines: lines that were damaged, over a limit, or text at
 * address 0. bytes: memory held.
 */
size_t ksyms_cnt(const struct ksyms *k);
uint64_t ksyms_bad_lines(const struct ksyms *k);
size_t ksyms_bytes(const struct ksyms *k);
/**
 * ksyms_range - first text address and end (exclusive) of the last symbol
 * For the kernel's mapping in the profile. Modules and BPF programs are inside.
 * Returns: 0, -ENOENT (no symbols).
 */
int ksyms_range(const struct ksyms *k, uint64_t *ret_start, uint64_t *ret_end);

/* Code that the kernel made or dropped, by KSYMBOL records. Thread: one at a time. */
struct ksyms_log;
/**
 * ksyms_log_new, ksyms_log_free, ksyms_log_freep - nothing yet; NULL is accepted, free returns NULL
 * Returns: 0, -ENOMEM.
 */
int ksyms_log_new(struct ksyms_log **ret);
struct ksyms_log *ksyms_log_free(struct ksyms_log *s);
void ksyms_log_freep(struct ksyms_log **s);
/**
 * ksyms_log_add - a record, in order of time
 * @k: copied. When code is dropped it is told once more where it was: that counts as well, for what
 * was there before we were Returns: 0, -EINVAL (no such name or length), -E2BIG (over 256 Ki
 * records or 16 MiB of names), -ENOMEM.
 */
int ksyms_log_add(struct ksyms_log *s, const struct ev_ksymbol *k, uint64_t time_ns);
/**
 * ksyms_log_resolve - names of addresses that ksyms_resolve left without, or named by what was
 * there earlier or ends before
 * @table_ns: CLOCK_MONOTONIC before the reading that @b came from
 * @addrs:    addrs[n], ascending, unique, those of @b
 * The newest record at an address says what is there; samples have no time, so that an address
 * which was used again while it was watched has one name. Returns: 0, -ENOMEM (@b is then for
 * sym_batch_done only). Cost: O(records * log n).
 */
int ksyms_log_resolve(const struct ksyms_log *s, uint64_t table_ns, const uint64_t *addrs, size_t n,
                      struct sym_batch *b);

#endif
