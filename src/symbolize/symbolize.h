/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symbolize - address to name, in batches; what is kept between them is in sym_files (debug
 * information, under a budget). Kernel addresses: ksyms. JIT code: jitcode.
 * Thread: each call works on its own objects.
 */
#ifndef PA_SYMBOLIZE_H
#define PA_SYMBOLIZE_H

#include "image/image.h"
#include "proc/proc.h"

#define SYM_MANGLED_MAX   (16 * 1024) /* longer names are shown as they are */
#define SYM_DEMANGLED_MAX (64 * 1024)
/* Of the strings of one batch: 100,000 of the longest names that libLLVM has. */
#define SYM_STRINGS_MAX (64 * 1024 * 1024)
#define SYM_FRAMES_MAX  128 /* of one address: the outermost inlined calls past it are left out */

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

/* ---- filling a batch, for ksyms and jitcode --------------------------------------------------- */

/* Empty results for @n addresses, all with @reason: 0, -ENOMEM. */
int sym_batch_init(struct sym_batch *b, size_t n, enum ev_reason reason);

/**
 * sym_batch_text - the strings of one symbol into the batch: as it is shown, that is demangled,
 * the symbol version removed, @suffix behind it
 * @linkage: as in the table; @suffix: "" or " [module]"
 * @scratch: of the caller, reused between calls
 * @ret:     a frame without file and line
 * Returns: 0, -E2BIG (the batch's strings are at their cap), -ENOMEM.
 */
int sym_batch_text(struct sym_batch *b, const char *linkage, const char *suffix,
                   struct sbuf *scratch, struct sym_frame *ret);
/**
 * sym_batch_symbol - the same as a frame of the batch, for all addresses in that symbol
 * @ret: its index in b->frames
 */
int sym_batch_symbol(struct sym_batch *b, const char *linkage, const char *suffix,
                     struct sbuf *scratch, uint32_t *ret);

/* Order of names for one address: fewest leading underscores, then bytes. As strcmp. */
int sym_name_cmp(const char *a, const char *b);

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

#endif
