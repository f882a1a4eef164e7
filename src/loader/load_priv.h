/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PA_LOAD_PRIV_H
#define PA_LOAD_PRIV_H

#include "loader/loader.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

/* 1,024 entries of 64 bytes a system call; more makes no difference that can be measured. */
#define LOAD_BATCH 1024

struct oncpu_bpf;
struct ring_buffer;

/* A map that is mapped; p is NULL when it is not. */
struct load_mapped {
	void *p;
	size_t bytes;
};

struct load_oncpu {
	struct oncpu_bpf *skel;
	struct load_sizes sizes;
	VEC(int) links;

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
	int iter_link_fd;

	/* Buffers of the drain path, made once. */
	struct abi_count_key *keys;
	struct abi_count *vals;
	struct abi_thread_key *tkeys;
	struct abi_thread *threads;
	struct abi_counters *per_cpu; /* per_cpu[n_cpus] */
};

/* Programs run inside RCU read-side sections: when this returns, none of those that were running
 * still is, and every CPU has passed a barrier. 10 ms and more. */
void load_wait_for_programs(void);

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

#endif
