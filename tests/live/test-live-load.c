/* SPDX-License-Identifier: Apache-2.0 */
/* Loads the programs for each target and asks the kernel what it made of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "loader/loader.h"

/* A tenth of the kernel's limit of 1,000,000: room for a verifier that prunes less. */
#define VERIFIED_MAX 100000
#define PROGS_MAX    8

static const struct load_sizes sizes = {
        .ring_bytes = 65536,
        .count_entries = 1024,
        .thread_entries = 256,
        .range_entries = 1024,
        .proc_entries = 64,
        .shipped_entries = 1024,
        .followed_entries = 64,
};

struct progs {
	struct bpf_prog_info info[PROGS_MAX];
	size_t n;
};

static bool is_program(const char *fd)
{
	_cleanup_(sbuf_done) struct sbuf b;
	char path[320]; /* a name has up to 255 bytes */

	sbuf_init(&b, 4096);
	(void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%s", fd);
	return file_read_all(AT_FDCWD, path, &b, NULL) == 0 && b.len &&
	       memmem(b.p, b.len, "prog_type:", strlen("prog_type:")) != NULL;
}

/* The programs that this process holds. */
static void find_programs(struct progs *ret)
{
	struct dirent *e;
	DIR *d = opendir("/proc/self/fd");

	assert_non_null(d);
	ret->n = 0;
	while ((e = readdir(d))) {
		uint64_t fd;
		uint32_t len = sizeof(ret->info[0]);

		if (parse_u64(e->d_name, 10, &fd) < 0 || !is_program(e->d_name))
			continue;
		assert_true(ret->n < PROGS_MAX);
		memset(&ret->info[ret->n], 0, sizeof(ret->info[0]));
		assert_int_equal(bpf_obj_get_info_by_fd((int)fd, &ret->info[ret->n], &len), 0);
		ret->n++;
	}
	closedir(d);
}

static bool has_program(const struct progs *p, const char *name)
{
	for (size_t i = 0; i < p->n; i++)
		if (strcmp(p->info[i].name, name) == 0)
			return true;
	return false;
}

static void check_target(const char *what, uint32_t target, uint32_t nested_ns, size_t programs)
{
	const struct abi_config cfg = {
	        .target = target,
	        .target_tgid = (uint32_t)getpid(),
	        .kernel_stacks = 1,
	        .nested_ns = nested_ns,
	        .pidns_ino = 1,
	        .hash_seed = 1,
	};
	struct load_oncpu *l = NULL;
	struct err err = {0};
	struct progs p;

	find_programs(&p);
	assert_int_equal(p.n, 0);
	if (load_oncpu_open(&cfg, &sizes, &l, &err) < 0)
		fail_msg("%s: %s", what, err.msg);
	find_programs(&p);
	for (size_t i = 0; i < p.n; i++) {
		const struct bpf_prog_info *info = &p.info[i];

		printf("# %s: %s: %u instructions, %u bytes of machine code, ", what, info->name,
		       info->xlated_prog_len / 8, info->jited_prog_len);
		if (info->verified_insns)
			printf("%u verified\n", info->verified_insns);
		else
			printf("this kernel does not tell how many were verified\n");
		assert_true(info->xlated_prog_len > 0);
		assert_true(info->verified_insns < VERIFIED_MAX);
	}
	assert_int_equal(p.n, programs);
	assert_true(has_program(&p, "oncpu_sample"));
	assert_true(has_program(&p, "tasks"));
	assert_int_equal(has_program(&p, "follow_fork"), target == ABI_TARGET_TREE);
	assert_int_equal(has_program(&p, "follow_free"), target == ABI_TARGET_TREE);
	load_oncpu_free(l);
	find_programs(&p);
	assert_int_equal(p.n, 0);
}

static void test_one_process(void **state)
{
	(void)state;
	check_target("PID", ABI_TARGET_PID, 0, 2);
	check_target("PID in a pid namespace", ABI_TARGET_PID, 1, 2);
}

static void test_whole_machine(void **state)
{
	(void)state;
	check_target("ALL", ABI_TARGET_ALL, 0, 2);
	check_target("ALL in a pid namespace", ABI_TARGET_ALL, 1, 2);
}

static void test_command(void **state)
{
	(void)state;
	check_target("TREE", ABI_TARGET_TREE, 0, 4);
	check_target("TREE in a pid namespace", ABI_TARGET_TREE, 1, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_one_process),
	        cmocka_unit_test(test_whole_machine),
	        cmocka_unit_test(test_command),
	};
	struct load_oncpu *l = NULL;
	struct err err = {0};
	int r = load_oncpu_open(&(struct abi_config){.target = ABI_TARGET_ALL}, &sizes, &l, &err);

	cmocka_set_message_output(CM_OUTPUT_TAP);
	load_oncpu_free(l);
	if (r == -EPERM || r == -EACCES) {
		printf("1..0 # SKIP %s\n", err.msg);
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
