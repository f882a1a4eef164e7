/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loader-skeleton - skeletons and calls of libbpf that are made up
 */
#ifndef PA_TEST_LOADER_SKELETON_H
#define PA_TEST_LOADER_SKELETON_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include "loader/loader.h"

static struct {
	int load_errno[2]; /* of the first and second try; 0: the real one */
	int loads;
	bool no_btf;
	int link_errno;
	bool old;   /* a kernel without the helpers of 5.11 */
	bool hooks; /* programs at functions of the kernel are loaded */
} fake;

int __real_bpf_object__load_skeleton(struct bpf_object_skeleton *s);
int __wrap_bpf_object__load_skeleton(struct bpf_object_skeleton *s);
int __wrap_bpf_object__load_skeleton(struct bpf_object_skeleton *s)
{
	int e = fake.loads < 2 ? fake.load_errno[fake.loads] : 0;

	fake.loads++;
	if (e) {
		errno = e;
		return -e;
	}
	return __real_bpf_object__load_skeleton(s);
}

int __real_access(const char *path, int mode);
int __wrap_access(const char *path, int mode);
int __wrap_access(const char *path, int mode)
{
	if (fake.no_btf && strcmp(path, "/sys/kernel/btf/vmlinux") == 0) {
		errno = ENOENT;
		return -1;
	}
	return __real_access(path, mode);
}

int __real_bpf_link_create(int prog, int target, enum bpf_attach_type type,
                           const struct bpf_link_create_opts *o);
int __wrap_bpf_link_create(int prog, int target, enum bpf_attach_type type,
                           const struct bpf_link_create_opts *o);
int __wrap_bpf_link_create(int prog, int target, enum bpf_attach_type type,
                           const struct bpf_link_create_opts *o)
{
	if (fake.link_errno)
		return -fake.link_errno;
	return __real_bpf_link_create(prog, target, type, o);
}

int __real_libbpf_probe_bpf_helper(enum bpf_prog_type type, enum bpf_func_id id, const void *o);
int __wrap_libbpf_probe_bpf_helper(enum bpf_prog_type type, enum bpf_func_id id, const void *o);
int __wrap_libbpf_probe_bpf_helper(enum bpf_prog_type type, enum bpf_func_id id, const void *o)
{
	return fake.old ? 0 : __real_libbpf_probe_bpf_helper(type, id, o);
}

/* A probe for such programs gets -EINVAL then: its program is wrong. */
int __wrap_bpf_prog_load(enum bpf_prog_type type, const char *name, const char *license,
                         const struct bpf_insn *insns, size_t n, struct bpf_prog_load_opts *o);
int __wrap_bpf_prog_load(enum bpf_prog_type type, const char *name, const char *license,
                         const struct bpf_insn *insns, size_t n, struct bpf_prog_load_opts *o)
{
	(void)type, (void)name, (void)license, (void)insns, (void)n, (void)o;
	return fake.hooks ? -EINVAL : -EPERM;
}

static const struct load_sizes sizes = {
        .ring_bytes = 65536,
        .count_entries = 1024,
        .thread_entries = 256,
        .range_entries = 1000, /* not a multiple of a page */
        .proc_entries = 16,
        .shipped_entries = 1024,
        .followed_entries = 16,
        .tid_entries = 2,
        .comm_entries = 2,
};

static inline unsigned int open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned int n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static inline int reset(void **state)
{
	(void)state;
	memset(&fake, 0, sizeof(fake));
	return 0;
}

static inline bool permitted(void)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct d[2] = {0};
	uint64_t eff;

	if (syscall(SYS_capget, &h, d) < 0)
		return false;
	eff = d[0].effective | (uint64_t)d[1].effective << 32;
	return (eff >> CAP_BPF & 1) && (eff >> CAP_PERFMON & 1);
}

static inline struct load_oncpu *open_ok(uint32_t target)
{
	const struct abi_config cfg = {
	        .target = target, .target_tgid = (uint32_t)getpid(), .hash_seed = 1};
	struct load_oncpu *l = NULL;
	struct err err = {0};

	if (load_oncpu_open(&cfg, &sizes, &l, &err) < 0)
		fail_msg("%s", err.msg);
	return l;
}

#endif
