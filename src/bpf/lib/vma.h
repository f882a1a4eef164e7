/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The kernel's mapping of an address, in the terms of struct abi_range. The look-up reads the tree
 * of a process's areas (a maple tree, Linux 6.1) without a lock. If the tree changes meanwhile, it
 * may find no area, or one that does not hold the address; both count as not found.
 */
#ifndef PA_BPF_VMA_H
#define PA_BPF_VMA_H

#include "bpf/lib/scratch.h"

static __always_inline __u32 content_of(struct inode *inode)
{
	__u64 ino = BPF_CORE_READ(inode, i_ino);

	if (bpf_core_field_exists(inode->i_mtime_sec)) {
		return abi_content(ino, BPF_CORE_READ(inode, i_mtime_sec),
		                   BPF_CORE_READ(inode, i_mtime_nsec));
	} else if (bpf_core_field_exists(((struct inode___6_7 *)inode)->__i_mtime)) {
		struct inode___6_7 *old = (struct inode___6_7 *)inode;

		return abi_content(ino, BPF_CORE_READ(old, __i_mtime.tv_sec),
		                   BPF_CORE_READ(old, __i_mtime.tv_nsec));
	} else {
		struct inode___5_10 *old = (struct inode___5_10 *)inode;

		return abi_content(ino, BPF_CORE_READ(old, i_mtime.tv_sec),
		                   BPF_CORE_READ(old, i_mtime.tv_nsec));
	}
}

static __always_inline void mapping_of(struct vm_area_struct *vma, struct mapping *ret)
{
	struct file *file = BPF_CORE_READ(vma, vm_file);

	ret->start = BPF_CORE_READ(vma, vm_start);
	ret->end = BPF_CORE_READ(vma, vm_end);
	ret->base = 0;
	ret->content = 0;
	if (!file)
		return;
	ret->content = content_of(BPF_CORE_READ(file, f_inode));
	ret->base = ret->start - ((__u64)BPF_CORE_READ(vma, vm_pgoff) << (cfg.page_shift & 63));
}

/* Returns 1 if mapping and range have the same content at the same file offset; both cover one
 * address. */
static __always_inline int is_same_mapping(const struct mapping *m, const struct abi_range *r)
{
	if (!m->content)
		return r->image == 0;
	return r->content == m->content && r->start - r->pgoff == m->base;
}

/* include/linux/maple_tree.h: the low bits of an entry. */
#define MAPLE_IS_ROOT(e) (((e)&3) == 2 && (e) > 4096) /* else a single area, or none */
#define MAPLE_TYPE(e)    ((__u32)((e) >> 3) & 15)
#define MAPLE_NODE(e)    ((e) & ~255ULL)
#define MAPLE_LEAF       1
#define MAPLE_ARANGE     3
/* A node has at least ten areas: 10 levels are more than a process may have. */
#define MAPLE_LEVELS 10

/* Puts the area that covers @addr into s->verify.vma: 0, or 1 if there is none. */
__noinline int find_vma(__u64 addr)
{
	struct scratch *s = get_scratch();
	struct task_struct *task;
	struct mm_struct *mm;
	__u64 entry = 0;
	__u32 level, i;

	/* Kernels before 6.1 have no maple tree. */
	if (!s || !bpf_core_field_exists(((struct mm_struct *)0)->mm_mt))
		return 1;
	task = (struct task_struct *)bpf_get_current_task();
	mm = BPF_CORE_READ(task, mm);
	if (!mm)
		return 1;
	entry = (__u64)BPF_CORE_READ(mm, mm_mt.ma_root);
	if (!MAPLE_IS_ROOT(entry))
		return 1;
	for (level = 0; level < MAPLE_LEVELS; level++) {
		__u32 type = MAPLE_TYPE(entry), at, slots;
		__u64 node = MAPLE_NODE(entry), before = 0;

		if (type == MAPLE_ARANGE) {
			at = bpf_core_field_offset(struct maple_arange_64, slot);
			slots = MAPLE_ARANGE_SLOTS;
		} else {
			at = bpf_core_field_offset(struct maple_range_64, slot);
			slots = MAPLE_RANGE_SLOTS;
		}
		/* Both kinds of nodes have their pivots at the same offset. */
		if (bpf_probe_read_kernel(
		            s->verify.pivots, sizeof(s->verify.pivots),
		            (void *)(node + bpf_core_field_offset(struct maple_range_64, pivot))))
			return 1;
		for (i = 0; i < MAPLE_RANGE_SLOTS - 1; i++) {
			__u64 pivot = s->verify.pivots[i];

			/* The last slot has no pivot. */
			if (i + 1 >= slots || pivot <= before || addr <= pivot)
				break;
			before = pivot;
		}
		if (bpf_probe_read_kernel(&entry, sizeof(entry), (void *)(node + at + 8 * i)))
			return 1;
		if (type <= MAPLE_LEAF)
			break;
	}
	if (!entry)
		return 1;
	mapping_of((struct vm_area_struct *)entry, &s->verify.vma);
	return addr < s->verify.vma.start || addr >= s->verify.vma.end;
}

#endif
