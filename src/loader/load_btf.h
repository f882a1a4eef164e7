/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cut of the kernel's BTF: the types and members that one BPF object names, and nothing else.
 *
 * libbpf 1.1 reads all of /sys/kernel/btf/vmlinux for each object, 5 to 10 MB that it holds twice
 * while it does, and searches it once for each name. The cut has some KB; libbpf takes it by
 * bpf_object_open_opts.btf_custom_path.
 */
#ifndef PA_LOAD_BTF_H
#define PA_LOAD_BTF_H

#include "base/base.h"

#include <bpf/btf.h>

/* The id of a type in the kernel's own numbering, which is not that of the cut. */
struct load_btf_id {
	char name[64];
	uint32_t kind; /* BTF_KIND_… */
	uint32_t id;   /* 0: the kernel has none of that name and kind */
};

/**
 * load_btf_cut - the cut for one object
 * @fd:    raw BTF of the kernel, read with pread
 * @local: the object's own BTF. Types of the kernel that have the name of a named type of it, up
 *         to a "___flavour", are in the cut, with those members and values whose names occur in it;
 *         so are the types of these members, but for what pointers point to.
 * @ids:   ids[n_ids]; names and kinds given, ids filled in
 * @ret:   appended to
 * Returns: 0, -EINVAL (no BTF of this byte order, or damaged), -EOPNOTSUPP (a kind of type that is
 * not known), -ENOMEM, -E2BIG, errno of pread.
 * Cost: one pass over @fd, 4 ms; memory: half its section of types, and 4 bytes a type.
 */
int load_btf_cut(int fd, const struct btf *local, struct load_btf_id *ids, size_t n_ids,
                 struct sbuf *ret);

#endif
