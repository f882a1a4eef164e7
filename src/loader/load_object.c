/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens and loads one BPF object with a cut of the kernel's BTF instead of all of it.
 *
 * libbpf reads all of it for any program that attaches by BTF id, to find the id. Such programs are
 * in sections of ours (src/bpf/lib/bpf.h, PA_SEC), whose handler sets the id that load_btf_cut
 * found. They have another type until then, because libbpf decides by the type whether to read BTF.
 */
#include "loader/load_priv.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif

#define KERNEL_BTF "/sys/kernel/btf/vmlinux"
#define CUT_MAX    (1U << 20)

/* Kinds of programs that attach by BTF id. */
static const struct kind {
	const char *section; /* before the name */
	const char *handled; /* pattern for libbpf */
	const char *prefix;  /* of the name in BTF */
	uint32_t btf_kind;
	enum bpf_attach_type attach;
} kinds[] = {
        {"pa.tp_btf/", "pa.tp_btf+", "btf_trace_", BTF_KIND_TYPEDEF, BPF_TRACE_RAW_TP},
        {"pa.iter/", "pa.iter+", "bpf_iter_", BTF_KIND_FUNC, BPF_TRACE_ITER},
        {"pa.fexit/", "pa.fexit+", "", BTF_KIND_FUNC, BPF_TRACE_FEXIT},
};

/* The object that this thread loads now. */
static __thread const struct load_object *loading;

static struct {
	pthread_once_t once;
	int error; /* of registering */
	int ids[ARRAY_SIZE(kinds)];
} handlers = {.once = PTHREAD_ONCE_INIT};

static const struct kind *kind_of(const struct bpf_program *p)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (str_starts(bpf_program__section_name(p), kinds[i].section))
			return &kinds[i];
	return NULL;
}

/* Makes the BTF name of the target of @p. */
static int target_of(const struct bpf_program *p, const struct kind *k, struct load_btf_id *ret)
{
	int n = snprintf(ret->name, sizeof(ret->name), "%s%s", k->prefix,
	                 bpf_program__section_name(p) + strlen(k->section));

	ret->kind = k->btf_kind;
	ret->id = 0;
	return n < (int)sizeof(ret->name) ? 0 : -EINVAL;
}

static int on_prepare_load(struct bpf_program *p, struct bpf_prog_load_opts *o, long cookie)
{
	const struct kind *k = &kinds[cookie];
	struct load_btf_id want = {0};
	int r = target_of(p, k, &want);

	if (r < 0 || !loading)
		return -EINVAL;
	for (size_t i = 0; i < loading->n_ids; i++) {
		const struct load_btf_id *id = &loading->ids[i];

		if (id->kind != want.kind || strcmp(id->name, want.name) != 0 || !id->id)
			continue;
		o->attach_btf_id = id->id;
		o->expected_attach_type = k->attach;
		return bpf_program__set_type(p, BPF_PROG_TYPE_TRACING);
	}
	return -ESRCH; /* the error of libbpf */
}

static void register_handlers(void)
{
	struct libbpf_prog_handler_opts with = {.sz = sizeof(with),
	                                        .prog_prepare_load_fn = on_prepare_load};

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		with.cookie = (long)i;
		handlers.ids[i] =
		        libbpf_register_prog_handler(kinds[i].handled, BPF_PROG_TYPE_RAW_TRACEPOINT,
		                                     0, &with);
		if (handlers.ids[i] < 0)
			handlers.error = handlers.ids[i];
	}
}

/* The library may be unloaded while its program continues to use libbpf. */
__attribute__((destructor)) static void unregister_handlers(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (handlers.ids[i] > 0)
			(void)libbpf_unregister_prog_handler(handlers.ids[i]);
}

/* A file of the cut's size may be made: else SIGXFSZ would end the process. */
static bool may_write(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur >= CUT_MAX;
}

/* With vm.memfd_noexec=2 (6.3) the kernel refuses files that could be made executable; before 6.3 it
 * does not know the flag. */
static int open_memfd(void)
{
	int fd = memfd_create("perf-agent-btf", MFD_CLOEXEC | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("perf-agent-btf", MFD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int load_object_begin(struct load_object *o, struct bpf_object_open_opts *opts)
{
	memset(o, 0, sizeof(*o));
	load_log_begin(&o->log);
	o->cut_fd = may_write() ? open_memfd() : -EBADF;
	if (o->cut_fd < 0 && o->cut_fd != -EBADF)
		return o->cut_fd;
	(void)pthread_once(&handlers.once, register_handlers);
	if (handlers.error < 0)
		return handlers.error;
	(void)snprintf(o->path, sizeof(o->path), "/proc/self/fd/%d", o->cut_fd);
	*opts = (struct bpf_object_open_opts){.sz = sizeof(*opts),
	                                      .btf_custom_path = o->cut_fd < 0 ? NULL : o->path};
	return 0;
}

int load_object_want(struct load_object *o, const char *name, uint32_t kind)
{
	if (o->n_ids == ARRAY_SIZE(o->ids))
		return -E2BIG;
	o->ids[o->n_ids].kind = kind;
	return str_copy(o->ids[o->n_ids++].name, sizeof(o->ids[0].name), name);
}

uint32_t load_object_id(const struct load_object *o, const char *name)
{
	for (size_t i = 0; i < o->n_ids; i++)
		if (strcmp(o->ids[i].name, name) == 0)
			return o->ids[i].id;
	return 0;
}

int load_object_resolve(struct load_object *o, const struct bpf_object *obj)
{
	_cleanup_close_ int fd = open(KERNEL_BTF, O_RDONLY | O_CLOEXEC);
	_cleanup_(sbuf_done) struct sbuf cut;
	struct bpf_program *p;
	int r = 0;

	sbuf_init(&cut, CUT_MAX);
	if (fd < 0)
		return -errno;
	bpf_object__for_each_program (p, obj) {
		const struct kind *k = kind_of(p);
		struct load_btf_id want = {0};

		if (!k)
			continue;
		r = target_of(p, k, &want);
		if (r == 0)
			r = load_object_want(o, want.name, want.kind);
		if (r < 0)
			return r;
	}
	r = load_btf_cut(fd, bpf_object__btf(obj), o->ids, o->n_ids, &cut);
	if (r == 0 && o->cut_fd >= 0)
		r = file_write_full(o->cut_fd, cut.p, cut.len);
	loading = o;
	return r;
}

void load_object_end(struct load_object *o)
{
	loading = NULL;
	closep(&o->cut_fd);
	load_log_end(&o->log);
}
