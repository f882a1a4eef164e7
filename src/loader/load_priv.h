/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PA_LOAD_PRIV_H
#define PA_LOAD_PRIV_H

#include "loader/load_btf.h"
#include "loader/loader.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

/* Calls go down only: load_oncpu, load_offcpu, load_sched and the files over the maps of
 * load_oncpu (load_maps, load_targets, load_cpu_time) → load_tables → load_common, load_object,
 * load_btf, load_error. */

/* 1,024 entries of 64 bytes a system call; more makes no difference that can be measured. */
#define LOAD_BATCH 1024
/* Largest key and value that is read in batches. */
#define LOAD_KEY_MAX sizeof(struct abi_count_key)
#define LOAD_VAL_MAX sizeof(struct abi_cpu_time)

struct oncpu_bpf;
struct ring_buffer;

/* The memory of a map; p is NULL when it is not mapped. */
struct load_mapped {
	void *p;
	size_t bytes;
};

/* Room for LOAD_BATCH keys and values. */
struct load_batch {
	void *keys, *vals;
};

/* Descriptors of links. */
struct load_links {
	VEC(int) v;
};

struct load_oncpu {
	struct oncpu_bpf *skel;
	struct load_sizes sizes;
	struct load_links links;

	struct abi_range *ranges; /* mapped */
	size_t ranges_bytes;

	/* Unwind tables. segments[n_segments] change under the lock of the store that calls. */
	struct load_mapped images, rules, wides, ops;
	struct load_mapped *segments;
	uint32_t n_segments;

	struct ring_buffer *ring;           /* both: stacks and deferred samples */
	load_ring_fn stack_fn, deferred_fn; /* during a drain */
	void *ring_arg;

	int n_cpus; /* possible CPUs: values of per-CPU maps */
	int iter_link_fd, hook_link_fd;

	bool preallocated; /* hash maps: the kernel wants it so */

	/* Buffers of the drain path, made once. */
	struct load_batch batch;
	struct abi_counters *per_cpu; /* per_cpu[n_cpus] */
};

/* ---- load_common.c: parts that all objects share --------------------------------------------- */

struct load_sized {
	struct bpf_map *map;
	uint32_t n;
	bool hash;
};
/* Sets the entries of maps; @preallocate: hash maps have all of them from the start. Returns 0,
 * errno of libbpf. */
int load_size_maps(bool preallocate, const struct load_sized *maps, size_t n);
/* The maps that an object does not share with the sampling program's. */
struct load_own {
	const struct bpf_map *maps[16];
	size_t n;
};
/* Makes all other maps of @obj those of @base, before @obj is loaded. @bss: the control words of
 * @obj. Returns 0, -ENOENT (the base has no map of that name), errno of dup or bpf(2). */
int load_share_maps(const struct load_oncpu *base, struct bpf_object *obj,
                    const struct bpf_map *bss, const struct load_own *own);
/* Returns the memory of a map by its fdinfo, 0 if that does not say. */
uint64_t load_memlock_of(int fd);
uint64_t load_own_bytes(const struct load_own *own); /* memory of all of them */

/* Attaches a program to its tracepoint. Returns 0, errno of BPF_RAW_TRACEPOINT_OPEN, -ENOMEM,
 * -E2BIG; @err names the tracepoint. */
int load_attach_tracepoint(struct load_links *links, const struct bpf_program *p, struct err *err);
void load_close_links(struct load_links *links, size_t first); /* those from @first on */
/* Returns a descriptor to read an iterator through, whose link is made once; or negative errno. */
int load_iterate(const struct bpf_program *p, int *link_fd);
/* Runs an iterator that writes nothing: it works while it is read. Closes nothing. Returns 0, or
 * negative errno of read(2). */
int load_iterate_through(int fd);
/* Waits until no program that was running still runs, and every CPU has passed a barrier: programs
 * run inside RCU read-side sections. Takes 10 ms and more. */
void load_wait_for_programs(void);

int load_batch_init(struct load_batch *b, size_t key_size, size_t val_size); /* 0, -ENOMEM */
void load_batch_done(struct load_batch *b);
typedef void (*load_entry_fn)(void *arg, const void *key, const void *val);
/* Hands on the entries of a hash map; @clear: deletes them too, and no program may write the map.
 * Returns how many, or negative errno of bpf(2). */
int load_batch_read(int fd, bool clear, struct load_batch *b, size_t key_size, size_t val_size,
                    load_entry_fn fn, void *arg);
/* Sums the counters of a per-CPU map; per_cpu[n_cpus] is room for it. Returns 0, errno of
 * bpf(2). */
int load_counters_sum(int fd, struct abi_counters *per_cpu, int n_cpus, struct abi_counters *ret);

/* ---- load_error.c: why libbpf failed --------------------------------------------------------- */

/* Collects the messages of libbpf during a call into it. */
struct load_log {
	struct sbuf text;
};
void load_log_begin(struct load_log *log);
void load_log_end(struct load_log *log);
/* Describes a failed load or attach: the call, its errno, the last message of libbpf or the
 * verifier, and the remedies that are known here. Sets ERR_NO_BTF, ERR_MEMLOCK, ERR_CAPABILITY or
 * ERR_USER_NS where it is that. Returns @code. */
int load_explain(const struct load_log *log, int code, const char *what, struct err *err);

/* ---- load_object.c: open and load with a cut of the kernel's BTF ----------------------------- */

/* One object between its open by libbpf and its load. */
struct load_object {
	struct load_log log;
	int cut_fd;    /* memfd of the cut of the kernel's BTF */
	char path[32]; /* by which libbpf opens it */
	struct load_btf_id ids[12];
	size_t n_ids;
};
/* Begins; load_object_end must follow, also after a failure. @opts: for the skeleton's open.
 * Returns 0, errno of memfd_create(2), error of libbpf. */
int load_object_begin(struct load_object *o, struct bpf_object_open_opts *opts);
/* Adds an id for load_object_resolve to find. Returns 0, -E2BIG. */
int load_object_want(struct load_object *o, const char *name, uint32_t kind);
/* Cuts the kernel's BTF for @obj, between open and load. Returns as load_btf_cut, or errno of
 * open(2). */
int load_object_resolve(struct load_object *o, const struct bpf_object *obj);
uint32_t load_object_id(const struct load_object *o, const char *name); /* 0: the kernel has none */
void load_object_end(struct load_object *o);

/* ---- load_tables.c --------------------------------------------------------------------------- */

/* Maps the tables that load_tables hands out, and unmaps them. Returns 0, -ENOMEM, errno of
 * mmap. */
int load_tables_map(struct load_oncpu *l, struct err *err);
void load_tables_unmap(struct load_oncpu *l);

#endif
