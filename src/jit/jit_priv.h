/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PA_JIT_PRIV_H
#define PA_JIT_PRIV_H

#include "jit/jit.h"
#include "proc/proc.h"

#include <sys/stat.h>

#define JIT_PROCS_MAX 1024 /* processes that live, or whose files were not read to their end */
#define JIT_PROCS_ALL 8192 /* the same, and ended processes of which only names are kept */
#define JIT_BYTES     ((size_t)32 << 20) /* names and addresses of all processes */
#define JIT_ADDRS_MAX 65536              /* watched addresses of a process */

/* A /tmp directory, shared by all processes that have it. */
struct jit_dir {
	dev_t dev;
	ino_t ino;
	int fd;         /* O_PATH; -EBADF: free */
	uint32_t users; /* processes */
};

/* State of the perf-map at its last reading. */
struct jit_map {
	ino_t ino;
	off_t size;
	struct timespec mtime;
};

struct jit_proc {
	struct ev_proc_id id;
	bool exact; /* id is that of a sample; else only the pid is known */
	bool read, refused;
	bool complete;     /* it has ended and all names are read: nothing else is kept of it */
	bool reused;       /* the code at a sampled address was replaced: it will happen again */
	uint64_t start_ns; /* CLOCK_BOOTTIME, rounded down to a tick */
	uint32_t nspid, euid, ppid;
	/* Index + 1 in procs of its parent, whose code it has; 0: not known. Set at the end. */
	uint32_t parent;
	uint32_t dir; /* index + 1 of dirs; 0: none */
	int dump_fd;
	bool dump_due; /* a jitdump was mapped */
	off_t dump_size;
	struct jit_map map;
	struct jitcode *code;
	size_t bytes; /* of code, as counted in jit.bytes */
	uint64_t due_ns;
	struct intern *addrs; /* sampled; id is the index of codes */
	VEC(uint32_t) codes;  /* jitcode_version() of each at the last check */
};

struct jit {
	struct jit_options o;

	/* Drain, then control. */
	struct intern *stacks; /* hashes of stacks with such frames */
	struct intern *pairs;  /* reported (process, stack) pairs */
	uint16_t epoch;
	VEC(uint64_t) epoch_ns; /* by epoch: when it began */

	_Atomic bool end_epoch; /* tracker -> drain */

	/* Tracker, then control. */
	VEC(struct jit_proc) procs;
	size_t n_complete;   /* of them */
	struct intern *ids;  /* struct ev_proc_id -> index of found */
	VEC(uint32_t) found; /* index + 1 in procs; 0: it had ended already */
	VEC(struct jit_dir) dirs;
	uint32_t n_dumps, max_dumps;
	uint64_t evict_ns; /* no eviction is tried before */
	size_t bytes;
	uint32_t n_images;      /* checked */
	size_t next;            /* of procs, the first one of the next round */
	char refusal[160];      /* why the first file was not read; "" if all were */
	struct sym_frame frame; /* of the last jit_name() */
};

/* jit_core.c */
bool jit_is_memfd(const char *path);

/* jit_procs.c */
void jit_proc_done(struct jit_proc *p);
/* Adds a process that is alive. NULL: it has ended, or there are too many. */
struct jit_proc *jit_add_proc(struct jit *j, const struct ev_proc_id *id, bool exact);
/* Returns the process of a sample, added if new. NULL: it has ended, or there are too many. */
struct jit_proc *jit_get_proc(struct jit *j, const struct ev_proc_id *id);
/* Drops all but the names of an ended process once its files are read to their end. */
void jit_complete_gone(struct jit *j, struct jit_proc *p, uint64_t now);

/* jit_files.c */
bool jit_is_dump(const char *path);
void jit_find_dump(struct jit *j, struct jit_proc *p); /* opens the jitdump that it maps */
/* Reads the files if they have grown. @final: to the end. */
void jit_read_proc(struct jit *j, struct jit_proc *p, uint64_t now, bool final);

#endif
