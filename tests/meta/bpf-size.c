// SPDX-License-Identifier: Apache-2.0
/*
 * bpf-size NAME OBJECT [NAME OBJECT ...]: loads each object and prints what the verifier processed
 * and how large each program is. NAME is the compiler. One test for each object and configuration:
 * less than VERIFIED_MAX instructions processed for each program. An OBJECT of "-" says that the
 * compiler is not installed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <linux/capability.h>

#include "base/base.h"
#include "bpf/abi/abi.h"
#include "loader/load_priv.h"

/* A tenth of the kernel's limit of 1,000,000: room for a verifier that prunes less. */
#define VERIFIED_MAX 100000
#define LOG_BYTES    (1 << 20)

/* The verifier leaves out code by the configuration that it knows: the product's, and
 * with all that only tests use. */
static const struct config {
	const char *name;
	struct abi_config cfg;
} configs[] = {
        {"frame pointers", {.target = ABI_TARGET_TREE, .kernel_stacks = 1, .hash_seed = 1}},
        {"tables",
         {.target = ABI_TARGET_TREE,
          .kernel_stacks = 1,
          .nested_ns = 1,
          .hash_seed = 1,
          .unwind = ABI_UNWIND_TABLES,
          .deferred_quota = 32}},
        {"tables, all filters",
         {.target = ABI_TARGET_TREE,
          .follow = 1,
          .filters = ABI_FILTER_TID | ABI_FILTER_COMM | ABI_FILTER_CGROUP,
          .n_cgroups = ABI_FILTER_CGROUPS,
          .kernel_stacks = 1,
          .nested_ns = 1,
          .hash_seed = 1,
          .unwind = ABI_UNWIND_TABLES,
          .deferred_quota = 32}},
        {"tables, stream",
         {.target = ABI_TARGET_TREE,
          .kernel_stacks = 1,
          .nested_ns = 1,
          .hash_seed = 1,
          .unwind = ABI_UNWIND_TABLES,
          .stream = 1,
          .deferred_quota = 32}},
        {"tables, all of the tests'",
         {.target = ABI_TARGET_ALL,
          .kernel_stacks = 1,
          .nested_ns = 1,
          .hash_seed = 1,
          .unwind = ABI_UNWIND_TABLES,
          .walk_flags = ABI_WALK_TWICE | ABI_WALK_DEFER_ALL,
          .deferred_quota = 32}},
};

static unsigned number;

static void result(bool ok, const char *compiler, const char *what)
{
	printf("%s %u - %s: %s\n", ok ? "ok" : "not ok", ++number, compiler, what);
}

static void skipped(const char *compiler, const char *what)
{
	printf("ok %u - %s: %s # SKIP %s is not installed\n", ++number, compiler, what, compiler);
}

static int __attribute__((format(printf, 2, 0)))
quiet(enum libbpf_print_level level, const char *fmt, va_list args)
{
	if (level != LIBBPF_WARN)
		return 0;
	fputs("# ", stdout);
	return vprintf(fmt, args);
}

/* Returns the offset of the variable cfg in .rodata, by the object's own types. */
static int cfg_offset(const struct bpf_object *obj)
{
	const struct btf *btf = bpf_object__btf(obj);
	const struct btf_type *sec;
	int id = btf ? btf__find_by_name_kind(btf, ".rodata", BTF_KIND_DATASEC) : -1;

	if (id < 0)
		return -1;
	sec = btf__type_by_id(btf, (uint32_t)id);
	for (uint32_t i = 0; i < btf_vlen(sec); i++) {
		const struct btf_var_secinfo *v = &btf_var_secinfos(sec)[i];
		const struct btf_type *t = btf__type_by_id(btf, v->type);

		if (strcmp(btf__name_by_offset(btf, t->name_off), "cfg") == 0)
			return (int)v->offset;
	}
	return -1;
}

static bool set_config(struct bpf_object *obj, const struct abi_config *cfg)
{
	struct bpf_map *map;
	int off = cfg_offset(obj);

	bpf_object__for_each_map (map, obj) {
		const char *name = bpf_map__name(map);
		size_t len = 0;
		char *p;

		if (!strstr(name, ".rodata"))
			continue;
		p = (char *)(uintptr_t)bpf_map__initial_value(map, &len);
		if (!p || off < 0 || (size_t)off + sizeof(*cfg) > len)
			return false;
		memcpy(p + off, cfg, sizeof(*cfg));
		return true;
	}
	return false;
}

/* "processed N insns" of the verifier's log; for kernels that do not tell it otherwise. */
static uint32_t processed(const char *log)
{
	const char *p = strstr(log, "processed ");

	return p ? (uint32_t)strtoul(p + strlen("processed "), NULL, 10) : 0;
}

/* As src/loader/load_oncpu.c asks: some machines refuse programs at functions of the kernel. */
static bool refuses_hooks(void)
{
	const struct bpf_insn empty[] = {
	        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
	        {.code = BPF_JMP | BPF_EXIT},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, o, .expected_attach_type = BPF_TRACE_FEXIT,
	            .attach_btf_id = 1);

	return bpf_prog_load(BPF_PROG_TYPE_TRACING, "probe", "GPL", empty, ARRAY_SIZE(empty), &o) ==
	       -EPERM;
}

static bool check_object(const char *compiler, const char *path, const struct config *c)
{
	struct bpf_object_open_opts opts;
	struct load_object loading;
	struct bpf_object *obj = NULL;
	struct bpf_program *prog;
	uint32_t programs = 0;
	bool ok = load_object_begin(&loading, &opts) == 0;

	opts.kernel_log_level = 4;
	if (ok)
		obj = bpf_object__open_file(path, &opts);
	ok = obj && set_config(obj, &c->cfg) && load_object_resolve(&loading, obj) == 0;

	if (!ok) {
		printf("# %s: cannot be opened, or has no cfg\n", path);
		bpf_object__close(obj);
		load_object_end(&loading);
		return false;
	}
	bpf_object__for_each_program (prog, obj) {
		char *log = calloc(1, LOG_BYTES);

		if (!log || bpf_program__set_log_buf(prog, log, LOG_BYTES) < 0)
			ok = false;
		if (str_starts(bpf_program__section_name(prog), "pa.fexit/") && refuses_hooks())
			bpf_program__set_autoload(prog, false);
	}
	if (bpf_object__load(obj) < 0)
		ok = false;
	bpf_object__for_each_program (prog, obj) {
		struct bpf_prog_info info = {0};
		uint32_t len = sizeof(info), verified;
		size_t log_len;
		char *log = (char *)(uintptr_t)bpf_program__log_buf(prog, &log_len);
		int fd = bpf_program__fd(prog);

		if (fd >= 0 && bpf_obj_get_info_by_fd(fd, &info, &len) == 0) {
			verified = info.verified_insns ? info.verified_insns : processed(log);
			printf("# %s, %s: %s: %u processed, %u instructions, %u bytes of machine "
			       "code\n",
			       compiler, c->name, bpf_program__name(prog), verified,
			       info.xlated_prog_len / 8, info.jited_prog_len);
			ok = ok && verified > 0 && verified < VERIFIED_MAX;
			programs++;
		} else if (!bpf_program__autoload(prog)) {
			printf("# %s: refused here\n", bpf_program__name(prog));
		} else {
			printf("# %s: not loaded: %s\n", bpf_program__name(prog),
			       log && *log ? log : "no log");
			ok = false;
		}
		(void)bpf_program__set_log_buf(prog, NULL, 0);
		free(log);
	}
	bpf_object__close(obj);
	load_object_end(&loading);
	return ok && programs > 0;
}

int main(int argc, char **argv)
{
	size_t n = ARRAY_SIZE(configs);

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc < 3 || argc % 2 == 0) {
		fprintf(stderr, "usage: bpf-size NAME OBJECT [NAME OBJECT ...]\n");
		return 2;
	}
	if (!cap_effective(CAP_BPF) || !cap_effective(CAP_PERFMON)) {
		printf("1..0 # SKIP needs CAP_BPF and CAP_PERFMON\n");
		return 0;
	}
	libbpf_set_print(quiet);
	printf("1..%zu\n", n * (size_t)(argc / 2));
	for (int i = 1; i + 1 < argc; i += 2)
		for (size_t k = 0; k < n; k++)
			if (strcmp(argv[i + 1], "-") == 0)
				skipped(argv[i], configs[k].name);
			else
				result(check_object(argv[i], argv[i + 1], &configs[k]), argv[i],
				       configs[k].name);
	return 0;
}
