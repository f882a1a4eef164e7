/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ksyms - names of kernel addresses: /proc/kallsyms, the cache of it, and records of code that the
 * kernel adds and removes during a capture.
 *
 * Thread: any for a loaded table, which never changes; one at a time for a log.
 */
#ifndef PA_KSYMS_H
#define PA_KSYMS_H

#include "symbolize/symbolize.h"

struct ksyms;
/**
 * ksyms_load - read /proc/kallsyms
 * @path: NULL, or another file for tests
 * Reads text symbols only (t T w W). Those of modules and BPF programs are shown with " [module]";
 * their linkage name has none. The best symbol of an address is kept, as for ELF.
 * Returns: 0, -EPERM (every address reads 0: kptr_restrict or no CAP_SYSLOG), -ENODATA (no text
 * symbol at all), -ENOMEM, errno of open or read.
 * Cost: one pass; 12 bytes a symbol and the names, at most 4 M symbols and 64 MiB of names.
 * Symbols over that count as bad lines.
 */
int ksyms_load(const char *path, struct ksyms **ret, struct err *err);
/* Files for ksyms_load_cached. */
struct ksyms_options {
	const char *kallsyms, *modules, *boot_id; /* NULL: those of /proc */
	const char *cache_home; /* the file is PATH/perf-agent/kallsyms.cache; NULL: none */
	/* owner of the folder and the file: the effective uid of the agent */
	uint32_t uid;
};
enum ksyms_cache {
	KSYMS_CACHE_OFF = 0, /* no cache was requested */
	KSYMS_CACHE_USED,
	/* there was none, or it was damaged or of another state of the kernel */
	KSYMS_CACHE_WRITTEN,
	KSYMS_CACHE_REFUSED, /* no folder belongs to @uid alone, and none could be made */
	KSYMS_CACHE_FAILED,  /* it could not be written, or changed during reading */
};
/**
 * ksyms_load_cached - ksyms_load, or its result from earlier in this boot
 * A cache is valid while /proc/modules and the first lines of kallsyms are unchanged. It lacks BPF
 * programs and trampolines of tracing: for an address without a name in a table that is USED, the
 * caller reads kallsyms. Folder and file are no symbolic links, have modes 0700 and 0600, and belong
 * to @uid. So does the folder above, to which only @uid can write.
 * Returns: as ksyms_load; *ret_cache also on failure.
 * Cost: a fifth of ksyms_load if it is USED, some 20 ms more than that if it is WRITTEN.
 */
int ksyms_load_cached(const struct ksyms_options *o, struct ksyms **ret,
                      enum ksyms_cache *ret_cache, struct err *err);
/**
 * ksyms_state - a hash that changes when modules are loaded or unloaded, or addresses hidden or
 * shown
 * Returns: 0, -EINVAL, errno of open or read. Cost: the kernel prints /proc/modules.
 */
int ksyms_state(const struct ksyms_options *o, uint64_t *ret);
/**
 * ksyms_cache_home - $XDG_CACHE_HOME, or $HOME/.cache
 * Returns: 0 (appended to @b), -ENOENT (neither is set, or the program runs with privileges of its
 * file), the error of @b.
 */
int ksyms_cache_home(struct sbuf *b);
/**
 * ksyms_parse - the same for @len bytes in memory, for tests and fuzzing
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
 * ksyms_resolve - name kernel addresses
 * @addrs: addrs[n], ascending, unique; look-up addresses
 * @ret:   names[n], by index of @addrs; for sym_batch_done
 * A symbol ends at the next one or at data, after 1 MiB at the latest. The last one of a module ends
 * with its page, except for [bpf]. Reasons: NO_SYMBOL, NO_MEMORY (the batch's strings are at 64 MiB).
 * Returns: 0 (each name has its own reason), -ENOMEM. Cost: O(n * log symbols).
 */
int ksyms_resolve(const struct ksyms *k, const uint64_t *addrs, size_t n, struct sym_batch *ret);
/**
 * ksyms_cnt, ksyms_bad_lines, ksyms_bytes - statistics of the table
 * cnt: symbols, one an address. bad_lines: lines that were damaged, over a limit, or text at
 * address 0. bytes: memory held.
 */
size_t ksyms_cnt(const struct ksyms *k);
uint64_t ksyms_bad_lines(const struct ksyms *k);
size_t ksyms_bytes(const struct ksyms *k);
/**
 * ksyms_range - first text address and end (exclusive) of the last symbol
 * For the kernel's mapping in the profile. It includes modules and BPF programs.
 * Returns: 0, -ENOENT (no symbols).
 */
int ksyms_range(const struct ksyms *k, uint64_t *ret_start, uint64_t *ret_end);

/* Code that the kernel added or removed, by KSYMBOL records. Thread: one at a time. */
struct ksyms_log;
/**
 * ksyms_log_new, ksyms_log_free, ksyms_log_freep - NULL is accepted, free returns NULL
 * Returns: 0, -ENOMEM.
 */
int ksyms_log_new(struct ksyms_log **ret);
struct ksyms_log *ksyms_log_free(struct ksyms_log *s);
void ksyms_log_freep(struct ksyms_log **s);
/**
 * ksyms_log_add - add a record, in order of time
 * @k: copied. The record of a removal repeats the range; it also names code that was there before the
 *     capture.
 * Returns: 0, -EINVAL (no such name or length), -E2BIG (over 256 Ki records or 16 MiB of names),
 * -ENOMEM.
 */
int ksyms_log_add(struct ksyms_log *s, const struct ev_ksymbol *k, uint64_t time_ns);
/**
 * ksyms_log_resolve - name addresses that ksyms_resolve left without a name, or named by code that
 * was there earlier or ends before them
 * @table_ns: CLOCK_MONOTONIC before the reading that @b came from
 * @addrs:    addrs[n], ascending, unique, those of @b
 * The newest record of an address decides. Samples have no time, so an address that is reused during
 * the capture has one name.
 * Returns: 0, -ENOMEM (@b is then for sym_batch_done only). Cost: O(records * log n).
 */
int ksyms_log_resolve(const struct ksyms_log *s, uint64_t table_ns, const uint64_t *addrs, size_t n,
                      struct sym_batch *b);

#endif
