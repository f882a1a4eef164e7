/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PA_LOAD_PRIV_H
#define PA_LOAD_PRIV_H

#include "loader/load_btf.h"
#include "loader/loader.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

/* 1,024 entries of 64 bytes a system call; more makes no difference that can be measured. */
#define LOAD_BATCH 1024
/* Largest key and value that is read in batches. */
#define LOAD_KEY_MAX sizeof(struct abi_count_key)
#define LOAD_VAL_MAX sizeof(struct abi_cpu_time)

struct oncpu_bpf;
struct ring_buffer;

/* A map that is mapped; p is NULL when it is not. */
struct load_mapped {
	void *p;
	size_t bytes;
};

/* Room for LOAD_BATCH keys and values. */
struct load_batch {
	void *keys, *vals;
};
int load_batch_init(struct load_batch *b, size_t key_size, size_t val_size); /* 0, -ENOMEM */
void load_batch_done(struct load_batch *b);
typedef void (*load_entry_fn)(void *arg, const void *key, const void *val);
/* Hands on what is in a hash map, @clear: and deletes it: how many entries, or negative errno of
 * bpf(2). Nobody may write a map that is cleared. */
int load_batch_take(int fd, bool clear, struct load_batch *b, size_t key_size, size_t val_size,
                    load_entry_fn fn, void *arg);
/* Counters of a per-CPU map, summed; per_cpu[n_cpus] is room for it. 0, errno of bpf(2). */
int load_counters_sum(int fd, struct abi_counters *per_cpu, int n_cpus, struct abi_counters *ret);
uint64_t load_memlock_of(int fd); /* as its fdinfo tells; 0: it does not */

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

	/* Tables; segments[n_segments] change under the lock of the store that asks for them. */
	struct load_mapped images, rules, wides, ops;
	struct load_mapped *segments;
	uint32_t n_segments;

	struct ring_buffer *ring;      /* both: stacks and copies */
	load_ring_fn ring_fn, copy_fn; /* during a drain */
	void *ring_arg;

	int n_cpus; /* possible CPUs: values of per-CPU maps */
	int iter_link_fd, hook_link_fd;

	bool preallocated; /* hash maps: the kernel wants it so */

	/* Buffers of the drain path, made once. */
	struct load_batch batch;
	struct abi_counters *per_cpu; /* per_cpu[n_cpus] */
};

/* Programs run inside RCU read-side sections: when this returns, none of those that were running
 * still is, and every CPU has passed a barrier. 10 ms and more. */
void load_wait_for_programs(void);

/* load_beside.c. The maps that an object does not share with the sampling program's. */
struct load_own {
	const struct bpf_map *maps[16];
	size_t n;
};
/* All others of @obj, whose words that steer are @bss, are those of @base: before it is loaded.
 * 0, -ENOENT (the base has none of that name), errno of dup or bpf(2). */
int load_share_maps(const struct load_oncpu *base, struct bpf_object *obj,
                    const struct bpf_map *bss, const struct load_own *own);
uint64_t load_own_bytes(const struct load_own *own); /* of memory */
struct load_sized {
	struct bpf_map *map;
	uint32_t n;
	bool hash;
};
/* Entries of maps; @preallocate: hash maps have all of them from the start. 0, errno of libbpf. */
int load_size_maps(bool preallocate, const struct load_sized *maps, size_t n);
/* 0, errno of BPF_RAW_TRACEPOINT_OPEN, -ENOMEM, -E2BIG; @err names the tracepoint. */
int load_attach_tracepoint(struct load_links *links, const struct bpf_program *p, struct err *err);
void load_close_links(struct load_links *links, size_t first); /* those from @first on */
/* A descriptor to read an iterator through, whose link is made once; or negative errno. */
int load_iterate(const struct bpf_program *p, int *link_fd);
/* Runs an iterator that writes nothing: what it does is done while it is read. Closes nothing.
 * Returns: 0, or negative errno of read(2). */
int load_iterate_through(int fd);

/* load_tables.c: maps what load_tables hands out, and gives it back. */
int load_tables_map(struct load_oncpu *l, struct err *err);
void load_tables_unmap(struct load_oncpu *l);

/* Where libbpf's own words go during a call into it; see load_error.c. */
struct load_log {
	struct sbuf text;
};
void load_log_begin(struct load_log *log);
void load_log_end(struct load_log *log);
/* Describes a failed load or attach: the call, its errno, the last thing that libbpf or the
 * verifier said, and the remedies that can be told from here. Returns @code. */
int load_explain(const struct load_log *log, int code, const char *what, struct err *err);

/* load_object.c. One object on its way from libbpf's open to its load. */
struct load_object {
	struct load_log log;
	int cut_fd;    /* memfd of the cut of the kernel's BTF */
	char path[32]; /* by which libbpf opens it */
	struct load_btf_id ids[12];
	size_t n_ids;
};
/* Ends with load_object_end, also where it fails. @opts: for the skeleton's open. 0, errno of
 * memfd_create(2), error of libbpf. */
int load_object_begin(struct load_object *o, struct bpf_object_open_opts *opts);
/* One more id that load_object_resolve finds. 0, -E2BIG. */
int load_object_want(struct load_object *o, const char *name, uint32_t kind);
/* Between open and load: cuts the kernel's BTF for @obj. 0, as load_btf_cut, errno of open(2). */
int load_object_resolve(struct load_object *o, const struct bpf_object *obj);
uint32_t load_object_id(const struct load_object *o, const char *name); /* 0: the kernel has none */
void load_object_end(struct load_object *o);

#endif
