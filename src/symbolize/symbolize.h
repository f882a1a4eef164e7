/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symbolize - address to name, in batches; what is kept between them is in sym_kernel, sym_files
 * (debug information, under a budget) and sym_jit.
 * Thread: each call works on its own objects; sym_kernel is immutable after it was loaded, so any.
 */
#ifndef PA_SYMBOLIZE_H
#define PA_SYMBOLIZE_H

#include "image/image.h"
#include "proc/proc.h"

#define SYM_FRAMES_MAX 128 /* of one address: the outermost inlined calls past it are left out */

/* A function, or a call that the compiler inlined into one. Strings live as long as the batch. */
struct sym_frame {
	const char *name;    /* as people write it: demangled; never NULL */
	const char *linkage; /* as in the symbol table (differs from name when demangled) */
	const char *file;    /* whole path, NULL: unknown */
	uint32_t line;       /* of the address, in outer frames of the call; 0: unknown */
	uint32_t column;     /* 0: unknown */
	uint32_t start_line; /* of the function; 0: unknown */
};

/* What was found for one address. */
struct sym_name {
	uint64_t start; /* of the symbol: file offset (user), address (kernel) */
	uint32_t
	        first; /* sym_batch.frames[first … first + n): innermost first, the function last */
	uint32_t n;    /* 0 when reason != NAMED, else 1 and more */
	enum ev_reason reason;
};

/* Results of one batch: names[i] belongs to addrs[i]. */
struct sym_batch {
	size_t n;
	struct sym_name *names;
	VEC(struct sym_frame) frames;
	struct arena strings;
};
/* Frames of names[i], NULL when it has no name. */
static inline const struct sym_frame *sym_batch_frames(const struct sym_batch *b, size_t i)
{
	return b->names[i].n ? &b->frames.p[b->names[i].first] : NULL;
}
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
/* What one address is called. */
struct sym_named {
	const struct sym_frame *frames; /* frames[n], innermost first */
	uint32_t n;                     /* 0 when reason is not NAMED */
	enum ev_reason reason;
	uint64_t start; /* of the symbol; without a name the address that people know */
};
/**
 * sym_batch_at - what address @i of a batch is called; borrowed until sym_batch_done
 */
struct sym_named sym_batch_at(const struct sym_batch *b, size_t i);
/**
 * sym_none_resolve - a batch in which all @n have this reason: an image that could not be opened
 * @addrs: addrs[n], each shown as its own name's start; NULL: 0 is
 * Returns: 0, -ENOMEM.
 */
int sym_none_resolve(enum ev_reason reason, const uint64_t *addrs, size_t n, struct sym_batch *ret);

/**
 * sym_demangle - C++ (Itanium) with parameters, Rust (v0 and legacy) without its hash, procedures
 * of Fortran's modules (gfortran) as module::procedure, into @b Bounded: 16 KiB in, 64 KiB out, and
 * libiberty's own limit of recursion, which refuses C++ names of more than 1,024 characters.
 * Returns: 0 (appended), -ENOENT (neither, or over a bound; @b as it was), -ENOMEM, -E2BIG (@b
 * full), or the error that stood in @b already.
 */
int sym_demangle(const char *name, struct sbuf *b);

/* ---- debug files ---------------------------------------------------------------------------- */

/* Where debug files are looked for. Thread: any; only the counters change. */
struct sym_find_options {
	const char *const *dirs; /* dirs[n_dirs]: roots such as /usr/lib/debug, of our own file
	                          * system, looked at first; may be NULL */
	size_t n_dirs;
};
enum sym_found {
	SYM_FOUND_NONE = 0,
	SYM_FOUND_BUILD_ID,  /* DIR/.build-id/xx/rest.debug */
	SYM_FOUND_DEBUGLINK, /* by .gnu_debuglink, with the build-id or the checksum equal */
	SYM_FOUND_REFUSED,   /* candidates were there, and none was right */
};
/* Why candidates were refused. Relaxed atomics. */
struct sym_find_stats {
	_Atomic uint64_t opened;
	_Atomic uint64_t wrong_crc, wrong_build_id; /* of another build */
	_Atomic uint64_t not_regular; /* directory, device, FIFO, socket; they are never opened */
	_Atomic uint64_t unreadable;  /* errno of open and pread; too large for its checksum */
	_Atomic uint64_t bad;         /* no ELF file, damaged, of another machine, or useless */
	_Atomic uint64_t itself;      /* a debuglink that leads to the file that has it */
};
/**
 * sym_find_debug - the separate debug file of an image
 * @f:       the image
 * @path:    of the image, in the file system of @root_fd; for .gnu_debuglink
 * @root_fd: directory (O_PATH does), the root of the image's process: names are looked up below it
 *           and cannot leave it; -EBADF: ours
 * @ret_fd:  the caller's; regular, readable, of the same build
 * Looks in @o->dirs by build-id and by debuglink, then below @root_fd and in ours: by build-id in
 * /usr/lib/debug, by debuglink beside the image, in .debug and in /usr/lib/debug.
 * Returns: SYM_FOUND_BUILD_ID or _DEBUGLINK (with *ret_fd and *ret_path, which is malloc'ed and the
 * caller's: for messages and for what it refers to), else NONE or REFUSED; -ENOMEM.
 */
int sym_find_debug(const struct sym_find_options *o, struct sym_find_stats *stats,
                   struct img_file *f, const char *path, int root_fd, int *ret_fd, char **ret_path);
/**
 * sym_find_alt - the common file that dwz took out of @debug (.gnu_debugaltlink), by its build-id
 * @path: of @debug
 * Returns: 1 with *ret_fd, 0 (it has none, or it is not there), -ENOMEM.
 */
int sym_find_alt(const struct sym_find_options *o, struct sym_find_stats *stats,
                 struct img_file *debug, const char *path, int root_fd, int *ret_fd);
/**
 * sym_find_dwp, sym_find_dwo - package of split units (PATH.dwp, PATH.debug's .dwp; also in
 * @o->dirs), and the file of one split unit (@name, below @dir where it is relative, below each of
 * @o->dirs)
 * @path: of the image or of its debug file: each may have one
 * Neither says of which build it is: whoever reads it compares the ids of its units.
 * Returns: 1 with *ret_fd, 0 (not there), -ENOMEM.
 */
int sym_find_dwp(const struct sym_find_options *o, struct sym_find_stats *stats, const char *path,
                 int root_fd, int *ret_fd);
int sym_find_dwo(const struct sym_find_options *o, struct sym_find_stats *stats, const char *dir,
                 const char *name, int root_fd, int *ret_fd);

/* ---- images, with all that is known of them ------------------------------------------------- */

/* An image as a batch of addresses sees it. */
struct sym_source {
	uint32_t id;     /* of the image: what is kept of it between batches is found by this */
	int fd;          /* or -EBADF, with mem */
	const void *mem; /* bytes of the vDSO; mem[mem_len] */
	size_t mem_len;
	const char *path; /* in the file system of root_fd; "" if none */
	int root_fd;      /* see sym_find_debug */
};
/* A batch among several. */
struct sym_ask {
	struct sym_source src;
	const uint64_t *offs; /* offs[n], ascending, unique */
	size_t n;
	int result;             /* written: as sym_files_resolve returns */
	struct sym_batch batch; /* written where that is 0 */
};
struct sym_files_options {
	struct sym_find_options find; /* dirs: copied */
	size_t budget_bytes;          /* of indexes and debug data; 0: 64 MiB */
	uint32_t max_fds;             /* debug files that are kept open in this process; 0: 64 */
	uint32_t child_fds;           /* by a child; 0: an eighth of what it may open, <= 1,024 */
	bool no_lines;                /* names of symbol tables alone */
	bool in_process;              /* no child process: files are decoded in this one */
};
/* Figures of decoding; relaxed atomics. Sent by the child as they stand here. */
struct sym_engine_stats {
	_Atomic uint64_t debug_files; /* with lines, that were opened: separate ones, and images */
	_Atomic uint64_t dropped;     /* for the budget or for descriptors */
	_Atomic uint64_t rebuilt;     /* opened again after that */
	_Atomic uint64_t refused;     /* files with debug data over the budget */
	_Atomic uint64_t bad_files;   /* debug files that are damaged, or no ELF files */
	_Atomic uint64_t bad, unsupported, over_limit, over_steps, dwo_missing; /* of dw_stats */
	_Atomic uint64_t elf_bad;    /* damaged items of images and their debug files */
	_Atomic uint64_t bytes_peak; /* held at a time */
};
struct sym_files_stats {
	struct sym_engine_stats engine;
	struct sym_find_stats find;
	_Atomic uint64_t child_cpu_ns;
	_Atomic uint64_t
	        crashes; /* of the child, or it took too long: its image has no names then */
	_Atomic uint64_t given_up; /* addresses that have none for that, or for want of a child */
	_Atomic uint64_t late;     /* that have none since sym_files_end came first */
};
struct sym_files;
/**
 * sym_files_new - what is kept of images between batches: nothing yet
 * Unless @o->in_process it forks a child that decodes: without capabilities, file system and
 * network, under limits of memory and CPU time; it is reaped by sym_files_free. Where
 * that cannot be made, files are decoded in this process (sym_files_child tells).
 * Returns: 0, -ENOMEM.
 */
int sym_files_new(const struct sym_files_options *o, struct sym_files **ret);
/**
 * sym_files_free, sym_files_freep - NULL is accepted; free returns NULL; the child ends
 */
struct sym_files *sym_files_free(struct sym_files *c);
void sym_files_freep(struct sym_files **c);
/**
 * sym_files_child - number of the child process in our pid namespace; 0: there is none
 * It changes when a child had to be replaced.
 */
uint32_t sym_files_child(const struct sym_files *c);
/**
 * sym_files_refused - path of the first image whose debug information was refused, or a part of it,
 * for the budget; NULL: none was. Borrowed until sym_files_free. Thread: any.
 */
const char *sym_files_refused(const struct sym_files *c);
/**
 * sym_files_resolve - names, lines and inlined calls at file offsets of one image
 * @src:  borrowed during the call
 * @offs: offs[n], ascending, unique; look-up addresses
 * The function's name comes from the image's symbol table, its debug file's, .gnu_debugdata or
 * .gopclntab, else from DWARF; lines and inlined calls from DWARF or .gopclntab.
 * Returns: 0 (each name has its own reason), -ENOMEM. Thread: any. Cost: one batch at a time is
 * decoded by the child.
 */
int sym_files_resolve(struct sym_files *c, const struct sym_source *src, const uint64_t *offs,
                      size_t n, struct sym_batch *ret);
/**
 * sym_files_resolve_all - several batches: the child is not woken for each
 * @v: v[n]; src and offs borrowed during the call
 * Returns: nothing: each has its result. Thread: any. Cost: as of each alone, less two switches of
 * process.
 */
void sym_files_resolve_all(struct sym_files *c, struct sym_ask *v, size_t n);
/**
 * sym_files_end - decode nothing from now on
 * The child is ended, so that what it is at is broken off; without a child the batch in work goes
 * on. All addresses that are asked for have the reason LATE.
 * Thread: any, also while others resolve.
 */
void sym_files_end(struct sym_files *c);
/**
 * sym_files_stats - figures up to now; borrowed until sym_files_free
 */
const struct sym_files_stats *sym_files_stats(const struct sym_files *c);

/* ---- code generated at run time ------------------------------------------------------------- */

/*
 * Code of one process by address and time: from a perf-map (no times: a line is taken to be true
 * from when it was first read; what was there at the first reading, from ever) and from a jitdump
 * (with times). Later code takes the place of what it overlaps.
 */
struct sym_jit;
/**
 * sym_jit_new - no code yet
 * @max_bytes: of memory; lines and records past it are counted and left out; 0: 64 MiB
 * Returns: 0, -ENOMEM.
 */
int sym_jit_new(size_t max_bytes, struct sym_jit **ret);
struct sym_jit *sym_jit_free(struct sym_jit *j);
void sym_jit_freep(struct sym_jit **j);
/**
 * sym_jit_read_map - lines that were appended to a perf-map since the last call
 * @fd:     regular file; a file that has shrunk or is another one is read from its beginning
 * @now_ns: CLOCK_MONOTONIC
 * An unfinished last line is left for the next call unless @final.
 * Returns: number of new entries that took the place of others, -ENOMEM, errno of pread.
 */
int sym_jit_read_map(struct sym_jit *j, int fd, uint64_t now_ns, bool final);
/**
 * sym_jit_read_dump - records that were appended to a jitdump since the last call
 * Times are those of the dump's clock, CLOCK_MONOTONIC where its header does not say otherwise
 * (arch timestamps are taken as "when they were read").
 * Returns: as sym_jit_read_map; -EINVAL (no jitdump, or another byte order).
 */
int sym_jit_read_dump(struct sym_jit *j, int fd, uint64_t now_ns);
/**
 * sym_jit_more - did the last reading end because it had read enough for one call, before the end?
 */
bool sym_jit_more(const struct sym_jit *j);
/**
 * sym_jit_find - the code at an address
 * @time_ns: CLOCK_MONOTONIC; UINT64_MAX: newest
 * @ret: strings live until the next call with @j; file and line where the producer tells them, the
 * line of the function where it does not tell that of the address
 * Where nothing was there at @time_ns it is what came first after it: a map is read later than it
 * is written, and what was sampled was there.
 * Returns: 0, -ENOENT, -ENOMEM. Cost: O(log^2 n); after new code that took the place of other the
 * first with a time before it O(n log n).
 */
int sym_jit_find(struct sym_jit *j, uint64_t addr, uint64_t time_ns, struct sym_frame *ret);
/**
 * sym_jit_code - the same number as long as the same code lies at an address
 * Returns: 0 where none is now.
 */
uint32_t sym_jit_code(const struct sym_jit *j, uint64_t addr);
/**
 * sym_jit_bytes, sym_jit_limit - memory held; another @max_bytes, with which more may be taken in
 * Look-ups by time need up to as much again.
 */
size_t sym_jit_bytes(const struct sym_jit *j);
void sym_jit_limit(struct sym_jit *j, size_t max_bytes);
struct sym_jit_stats {
	uint64_t entries, reused; /* that took the place of others */
	uint64_t bad;             /* damaged lines and records, skipped */
	uint64_t over_limit;
};
const struct sym_jit_stats *sym_jit_stats(const struct sym_jit *j);

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
/* Where the table may be kept from one capture to the next. */
struct sym_kernel_options {
	const char *kallsyms, *modules, *boot_id; /* NULL: those of /proc */
	const char *cache_home; /* the file is PATH/perf-agent/kallsyms.cache; NULL: none */
	uint32_t uid;           /* of who owns all of it: the effective one of ours */
};
enum sym_kcache {
	SYM_KCACHE_OFF = 0, /* none was asked for */
	SYM_KCACHE_USED,
	SYM_KCACHE_WRITTEN, /* there was none, or it was of another state of the kernel, or damaged
	                     */
	SYM_KCACHE_REFUSED, /* there is no folder that is @uid's alone, and none could be made */
	SYM_KCACHE_FAILED,  /* it could not be written, or changed while it was read */
};
/**
 * sym_kernel_load_cached - sym_kernel_load, or what it found earlier in this boot
 * Kept for as long as /proc/modules and the first lines of kallsyms are the same. Programs of BPF
 * and the trampolines of tracing are not in what was kept: who meets an address without a name in a
 * table that is USED reads the real one. Folder and file are of mode 0700 and 0600, @uid's, and no
 * symbolic links; the folder above is @uid's too, and only @uid can write to it.
 * Returns: as sym_kernel_load; *ret_cache also then.
 * Cost: a fifth of sym_kernel_load where it is USED, some 20 ms beside it where it is WRITTEN.
 */
int sym_kernel_load_cached(const struct sym_kernel_options *o, struct sym_kernel **ret,
                           enum sym_kcache *ret_cache, struct err *err);
/**
 * sym_kernel_state - a number that is another one when modules came or went since, or addresses
 * were hidden or shown Returns: 0, -EINVAL, errno of open or read. Cost: the kernel prints
 * /proc/modules.
 */
int sym_kernel_state(const struct sym_kernel_options *o, uint64_t *ret);
/**
 * sym_kernel_cache_home - $XDG_CACHE_HOME, or $HOME/.cache
 * Returns: 0 (appended to @b), -ENOENT (neither is set, or a privilege came with the program), the
 * error of @b.
 */
int sym_kernel_cache_home(struct sbuf *b);
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
 * A symbol reaches to the next one or to data, at most 1 MiB; the last one of a module to the end
 * of its page, but for [bpf]. Reasons: NO_SYMBOL, NO_MEMORY (the batch's strings are at 64 MiB).
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

/* Code that the kernel made or dropped, by KSYMBOL records. Thread: one at a time. */
struct sym_ksyms;
/**
 * sym_ksyms_new, sym_ksyms_free, sym_ksyms_freep - nothing yet; NULL is accepted, free returns NULL
 * Returns: 0, -ENOMEM.
 */
int sym_ksyms_new(struct sym_ksyms **ret);
struct sym_ksyms *sym_ksyms_free(struct sym_ksyms *s);
void sym_ksyms_freep(struct sym_ksyms **s);
/**
 * sym_ksyms_add - a record, in order of time
 * @k: copied. When code is dropped it is told once more where it was: that counts as well, for what
 * was there before we were Returns: 0, -EINVAL (no such name or length), -E2BIG (over 256 Ki
 * records or 16 MiB of names), -ENOMEM.
 */
int sym_ksyms_add(struct sym_ksyms *s, const struct ev_ksymbol *k, uint64_t time_ns);
/**
 * sym_ksyms_resolve - names of addresses that sym_kernel_resolve left without, or named by what was
 * there earlier or ends before
 * @table_ns: CLOCK_MONOTONIC before the reading that @b came from
 * @addrs:    addrs[n], ascending, unique, those of @b
 * The newest record at an address says what is there; samples have no time, so that an address
 * which was used again while it was watched has one name. Returns: 0, -ENOMEM (@b is then for
 * sym_batch_done only). Cost: O(records * log n).
 */
int sym_ksyms_resolve(const struct sym_ksyms *s, uint64_t table_ns, const uint64_t *addrs, size_t n,
                      struct sym_batch *b);

#endif
