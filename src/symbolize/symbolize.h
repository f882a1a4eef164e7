/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symbolize - names of addresses, in batches. sym_files keeps debug information between batches,
 * under a budget. Kernel addresses: ksyms. JIT code: jitcode.
 *
 * Thread: each call works on its own objects.
 */
#ifndef PA_SYMBOLIZE_H
#define PA_SYMBOLIZE_H

#include "image/image.h"
#include "proc/proc.h"

#define SYM_MANGLED_MAX   (16 * 1024) /* longer names are not demangled */
#define SYM_DEMANGLED_MAX (64 * 1024)
/* Strings of one batch: enough for 100,000 of the longest names that libLLVM has. */
#define SYM_STRINGS_MAX (64 * 1024 * 1024)
/* of one address; further inlined calls are left out, the outermost first */
#define SYM_FRAMES_MAX 128

/* A function, or a call that the compiler inlined into one. Strings live as long as the batch. */
struct sym_frame {
	const char *name; /* demangled; never NULL */
	/* as in the symbol table; another string than name if that is demangled */
	const char *linkage;
	const char *file;    /* whole path, NULL: unknown */
	uint32_t line;       /* of the address; in outer frames, of the call; 0: unknown */
	uint32_t column;     /* 0: unknown */
	uint32_t start_line; /* of the function; 0: unknown */
};

/* The result for one address. */
struct sym_name {
	uint64_t start; /* of the symbol: file offset (user), address (kernel) */
	uint32_t
	        first; /* sym_batch.frames[first … first + n): innermost first, the function last */
	uint32_t n;    /* 0 if reason is not NAMED, else 1 or more */
	enum ev_reason reason;
};

/* Results of one batch: names[i] belongs to addrs[i]. */
struct sym_batch {
	size_t n;
	struct sym_name *names;
	VEC(struct sym_frame) frames;
	struct arena strings;
};
/* Returns the frames of names[i], or NULL if it has no name. */
static inline const struct sym_frame *sym_batch_frames(const struct sym_batch *b, size_t i)
{
	return b->names[i].n ? &b->frames.p[b->names[i].first] : NULL;
}
/**
 * sym_batch_done - free the results of a batch; a zeroed one is accepted
 */
void sym_batch_done(struct sym_batch *b);

/**
 * sym_elf_resolve - name code at file offsets of one image, by its symbol tables
 * @offs: offs[n] in bytes, ascending, unique; look-up addresses (return addresses minus 1 already)
 * @ret:  names[n], by index of @offs; for sym_batch_done
 *
 * Candidates are symbols whose [value, value + size) holds the address. Without one, a symbol of
 * size 0 at or before the address, in the same section, with no start or end of another symbol
 * between them. The best of several is: innermost (highest start, then smallest), global before
 * weak before local, fewest leading underscores, first by name. Names are demangled and have no "@VERSION".
 *
 * Memory: O(n), not O(symbols). Names end at 64 MiB a batch: reason NO_MEMORY from there on.
 * At most 65,536 + 16 n ties are decided by name; after that the first in the file wins.
 * Reasons: NO_SYMTAB, NO_SYMBOL, BAD_ELF (no symbol of the table is sound, or the name is not),
 * NO_FILE (the file can no longer be read), NO_MEMORY.
 * Returns: 0 (each name has its own reason), -ENOMEM (also: more than 2^31 - 1 offsets).
 * Cost: O(symbols * log n).
 */
int sym_elf_resolve(struct img_file *f, const uint64_t *offs, size_t n, struct sym_batch *ret);
/* The result for one address, as pointers. */
struct sym_named {
	const struct sym_frame *frames; /* frames[n], innermost first */
	uint32_t n;                     /* 0 if reason is not NAMED */
	enum ev_reason reason;
	uint64_t start; /* of the symbol; without a name, the address that people know */
};
/**
 * sym_batch_at - the result for address @i of a batch; borrowed until sym_batch_done
 */
struct sym_named sym_batch_at(const struct sym_batch *b, size_t i);
/**
 * sym_none_resolve - make a batch without names, for an image that could not be opened
 * @addrs: addrs[n], which become the starts of the names; NULL: the starts are 0
 * Returns: 0, -ENOMEM.
 */
int sym_none_resolve(enum ev_reason reason, const uint64_t *addrs, size_t n, struct sym_batch *ret);

/**
 * sym_demangle - append the name as the source has it
 * C++ (Itanium) with parameters; Rust (v0 and legacy) without its hash; procedures of Fortran's
 * modules (gfortran) as module::procedure. Bounds: 16 KiB in, 64 KiB out, and libiberty's own limit
 * of recursion, which refuses C++ names of more than 1,024 characters.
 * Returns: 0 (appended), -ENOENT (no mangled name, or over a bound; @b as it was), -ENOMEM, -E2BIG
 * (@b is full), or the earlier error of @b.
 */
int sym_demangle(const char *name, struct sbuf *b);

/* ---- filling a batch, for ksyms and jitcode --------------------------------------------------- */

/* Makes results for @n addresses, all without a name for @reason: 0, -ENOMEM. */
int sym_batch_init(struct sym_batch *b, size_t n, enum ev_reason reason);

/**
 * sym_batch_text - add the strings of one symbol to the batch
 * The name is demangled, without its symbol version, and ends in @suffix.
 * @linkage: as in the table; @suffix: "" or " [module]"
 * @scratch: the caller's, reused between calls
 * @ret:     a frame without file and line
 * Returns: 0, -E2BIG (the batch's strings are at their cap), -ENOMEM.
 */
int sym_batch_text(struct sym_batch *b, const char *linkage, const char *suffix,
                   struct sbuf *scratch, struct sym_frame *ret);
/**
 * sym_batch_symbol - the same, and add the frame, which all addresses of that symbol share
 * @ret: its index in b->frames
 */
int sym_batch_symbol(struct sym_batch *b, const char *linkage, const char *suffix,
                     struct sbuf *scratch, uint32_t *ret);

/* Compares names of one address: fewest leading underscores first, then by bytes. As strcmp. */
int sym_name_cmp(const char *a, const char *b);

/* ---- debug files ---------------------------------------------------------------------------- */

/* Directories with debug files. Thread: any; only the counters change. */
struct sym_find_options {
	/* dirs[n_dirs]: searched first, in the agent's file system, such as /usr/lib/debug; may
	 * be NULL */
	const char *const *dirs;
	size_t n_dirs;
};
enum sym_found {
	SYM_FOUND_NONE = 0,
	SYM_FOUND_BUILD_ID,  /* DIR/.build-id/xx/rest.debug */
	SYM_FOUND_DEBUGLINK, /* by .gnu_debuglink, and build-id or checksum match */
	SYM_FOUND_REFUSED,   /* there were candidates, but no right one */
};
/* Reasons for which candidates were refused. Relaxed atomics. */
struct sym_find_stats {
	_Atomic uint64_t opened;
	_Atomic uint64_t wrong_crc, wrong_build_id; /* of another build */
	_Atomic uint64_t not_regular; /* directory, device, FIFO, socket; they are never opened */
	_Atomic uint64_t unreadable;  /* errno of open or pread; or too large for its checksum */
	/* not an ELF file, damaged, of another machine, or without the wanted sections */
	_Atomic uint64_t bad;
	_Atomic uint64_t itself; /* a debuglink that leads to its own file */
};
/**
 * sym_find_debug - find the separate debug file of an image
 * @f:       the image
 * @path:    path of the image, in the file system of @root_fd; for .gnu_debuglink
 * @root_fd: root directory of the image's process (O_PATH suffices): names are looked up below it
 *           and cannot leave it; -EBADF: the agent's root
 * @ret_fd:  the caller's; regular, readable, of the same build
 * Searches @o->dirs by build-id and by debuglink, then @root_fd, then the agent's root: by build-id
 * in /usr/lib/debug; by debuglink in the image's directory, in its .debug and in /usr/lib/debug.
 * Returns: SYM_FOUND_BUILD_ID or _DEBUGLINK (with *ret_fd, and *ret_path: malloc'ed, the caller's,
 * for messages and for further files), else NONE or REFUSED; -ENOMEM.
 */
int sym_find_debug(const struct sym_find_options *o, struct sym_find_stats *stats,
                   struct img_file *f, const char *path, int root_fd, int *ret_fd, char **ret_path);
/**
 * sym_find_alt - find the common file that dwz made of @debug (.gnu_debugaltlink), by its build-id
 * @path: path of @debug
 * Returns: 1 with *ret_fd, 0 (@debug needs none, or it was not found), -ENOMEM.
 */
int sym_find_alt(const struct sym_find_options *o, struct sym_find_stats *stats,
                 struct img_file *debug, const char *path, int root_fd, int *ret_fd);
/**
 * sym_find_dwp, sym_find_dwo - find a package of split units, or the file of one split unit
 * A package is PATH.dwp, or PATH.debug's .dwp, also in @o->dirs. A unit's file is @name, below @dir
 * if it is relative, and below each of @o->dirs.
 * @path: path of the image or of its debug file: each may have a package
 * Neither has a build-id: the reader compares the ids of the units.
 * Returns: 1 with *ret_fd, 0 (not found), -ENOMEM.
 */
int sym_find_dwp(const struct sym_find_options *o, struct sym_find_stats *stats, const char *path,
                 int root_fd, int *ret_fd);
int sym_find_dwo(const struct sym_find_options *o, struct sym_find_stats *stats, const char *dir,
                 const char *name, int root_fd, int *ret_fd);

/* ---- images, with all that is known of them ------------------------------------------------- */

/* An image whose addresses are resolved. */
struct sym_source {
	uint32_t id;     /* of the image; its files are kept between batches under this */
	int fd;          /* or -EBADF, with mem */
	const void *mem; /* bytes of the vDSO; mem[mem_len] */
	size_t mem_len;
	const char *path; /* in the file system of root_fd; "" if none */
	int root_fd;      /* as for sym_find_debug */
};
/* One batch of several. */
struct sym_request {
	struct sym_source src;
	const uint64_t *offs; /* offs[n], ascending, unique */
	size_t n;
	int result;             /* written: as sym_files_resolve returns */
	struct sym_batch batch; /* written if result is 0 */
};
struct sym_files_options {
	struct sym_find_options find; /* dirs: copied */
	size_t budget_bytes;          /* of indexes and debug data; 0: 64 MiB */
	/* debug files that stay open if this process decodes; 0: 64 */
	uint32_t max_fds;
	/* the same for the symbolizer process; 0: an eighth of its limit, at most 1,024 */
	uint32_t process_fds;
	bool no_lines;   /* names from symbol tables alone */
	bool in_process; /* decode here, without a symbolizer process */
};
/* Statistics of decoding; relaxed atomics. The symbolizer process sends them as they are here. */
struct sym_engine_stats {
	/* files with lines that were opened: separate ones, and images */
	_Atomic uint64_t debug_files;
	_Atomic uint64_t dropped;   /* images dropped for memory or descriptors */
	_Atomic uint64_t rebuilt;   /* opened again after that */
	_Atomic uint64_t refused;   /* files with debug data over the budget */
	_Atomic uint64_t bad_files; /* debug files that are damaged, or no ELF files */
	_Atomic uint64_t bad, unsupported, over_limit, over_steps, dwo_missing; /* see dw_stats */
	_Atomic uint64_t elf_bad;    /* damaged items of images and their debug files */
	_Atomic uint64_t bytes_peak; /* most memory held at a time */
};
struct sym_files_stats {
	struct sym_engine_stats engine;
	struct sym_find_stats find;
	_Atomic uint64_t process_cpu_ns;
	/* of the symbolizer process, or times that it took too long: that image has no names then */
	_Atomic uint64_t crashes;
	/* addresses without a name for that, or because there was no process */
	_Atomic uint64_t given_up;
	_Atomic uint64_t late; /* addresses without a name because sym_files_end was called */
};
struct sym_files;
/**
 * sym_files_new - start with no image
 * Unless @o->in_process it forks the symbolizer process, which decodes without capabilities, file
 * system and network, under limits of memory and CPU time. sym_files_free reaps it. If it cannot be
 * started, this process decodes; sym_files_pid returns 0 then.
 * Returns: 0, -ENOMEM.
 */
int sym_files_new(const struct sym_files_options *o, struct sym_files **ret);
/**
 * sym_files_free, sym_files_freep - NULL is accepted; free returns NULL; the symbolizer process
 * ends
 */
struct sym_files *sym_files_free(struct sym_files *c);
void sym_files_freep(struct sym_files **c);
/**
 * sym_files_pid - pid of the symbolizer process in the agent's pid namespace; 0: there is none It
 * changes when a process had to be replaced.
 */
uint32_t sym_files_pid(const struct sym_files *c);
/**
 * sym_files_refused - path of the first image some of whose debug information was over the budget
 * Returns: NULL if there was none. Borrowed until sym_files_free. Thread: any.
 */
const char *sym_files_refused(const struct sym_files *c);
/**
 * sym_files_resolve - names, lines and inlined calls at file offsets of one image
 * @src:  borrowed during the call
 * @offs: offs[n], ascending, unique; look-up addresses
 * The function's name comes from the symbol table of the image, of its debug file or of
 * .gnu_debugdata, from .gopclntab, else from DWARF. Lines and inlined calls come from DWARF or
 * .gopclntab.
 * Returns: 0 (each name has its own reason), -ENOMEM. Thread: any. Cost: one batch at a time is
 * decoded.
 */
int sym_files_resolve(struct sym_files *c, const struct sym_source *src, const uint64_t *offs,
                      size_t n, struct sym_batch *ret);
/**
 * sym_files_resolve_all - resolve several batches with few wake-ups of the symbolizer process
 * @v: v[n]; src and offs borrowed during the call
 * Each batch has its own result. Thread: any. Cost: as of each alone, less two switches of process.
 */
void sym_files_resolve_all(struct sym_files *c, struct sym_request *v, size_t n);
/**
 * sym_files_end - decode nothing from now on
 * Kills the symbolizer process, so that a batch that is being decoded ends. Without a process that
 * batch goes on. Addresses that are not resolved yet get the reason LATE.
 * Thread: any, also while others resolve.
 */
void sym_files_end(struct sym_files *c);
/**
 * sym_files_stats - statistics so far; borrowed until sym_files_free
 */
const struct sym_files_stats *sym_files_stats(const struct sym_files *c);

#endif
