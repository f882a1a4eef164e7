/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a perf.data on this machine, if they are still the same. */
#include "decode/dec_perf_names.h"

#include <stdio.h>
#include <sys/utsname.h>

/* Whether an open file has the recorded build-id, if one was recorded. */
static enum ev_reason check_file(int fd, const struct dec_perf_image *image)
{
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	uint8_t id[IMG_BUILD_ID_MAX];
	size_t len = 0;
	int r = img_file_open(fd, &f, NULL);

	if (r < 0)
		return r == -ENOEXEC ? EV_REASON_NOT_ELF : EV_REASON_BAD_ELF;
	if (image->build_id.len == 0)
		return EV_REASON_NAMED;
	/* Old versions of perf do not say how long a build-id is. */
	return img_build_id(f, id, &len) == 0 && len <= image->build_id.len &&
	                       memcmp(id, image->build_id.id, len) == 0
	               ? EV_REASON_NAMED
	               : EV_REASON_FILE_REPLACED;
}

/* Opens a path. Without a build-id the file must have the recorded device and inode. Returns NAMED
 * with *ret_fd, else why it is not used. */
static enum ev_reason try_path(const char *path, const struct dec_perf_image *image, int *ret_fd)
{
	_cleanup_close_ int fd = -EBADF;
	enum ev_reason reason;

	if (image->build_id.len == 0 && image->file.ino == 0)
		return EV_REASON_FILE_REPLACED;
	fd = image->build_id.len > 0 ? proc_open_regular(path) : proc_open_path(path, &image->file);
	if (fd < 0)
		return fd == -ESTALE ? EV_REASON_FILE_REPLACED : EV_REASON_NO_FILE;
	reason = check_file(fd, image);
	if (reason == EV_REASON_NAMED)
		*ret_fd = TAKE_FD(fd);
	return reason;
}

/* perf's cache: ~/.debug/.build-id/ab/cdef…/elf. */
static int cache_path(const struct dec_perf_build_id *id, char *to, size_t size)
{
	const char *home = getenv("HOME");
	char hex[2 * EV_BUILD_ID_MAX + 1] = "";
	int n;

	if (!home || id->len == 0)
		return -ENOENT;
	for (size_t i = 0; i < id->len; i++)
		(void)snprintf(hex + 2 * i, 3, "%02x", id->id[i]);
	n = snprintf(to, size, "%s/.debug/.build-id/%.2s/%s/elf", home, hex, hex + 2);
	return n < 0 || (size_t)n >= size ? -ENOENT : 0;
}

enum ev_reason dec_perf_image_open(const struct dec_perf *p, const struct dec_perf_image *image,
                                   int *ret_fd)
{
	const char *path = intern_get(p->texts, image->path, NULL);
	enum ev_reason reason = EV_REASON_NO_FILE;
	char cached[512];

	if (p->in->o->no_names)
		return reason;
	if (path[0] == '/')
		reason = try_path(path, image, ret_fd);
	if (reason != EV_REASON_NAMED &&
	    cache_path(&image->build_id, cached, sizeof(cached)) == 0 &&
	    try_path(cached, image, ret_fd) == EV_REASON_NAMED)
		reason = EV_REASON_NAMED;
	return reason;
}

/* ---- the kernel ------------------------------------------------------------------------------ */

const struct dec_perf_build_id *dec_perf_kernel_id(const struct dec_perf *p)
{
	static const char name[] = "[kernel.kallsyms]";
	const uint32_t id = intern_find(p->build_id_paths, name, strlen(name));

	return id == INTERN_NONE ? NULL : &p->build_ids.p[id];
}

/* Whether the recorded kernel is the one that runs: by its build-id, else by its release. */
static bool is_this_kernel(const struct dec_perf *p)
{
	const struct dec_perf_build_id *id = dec_perf_kernel_id(p);
	uint8_t own[EV_BUILD_ID_MAX];
	struct utsname u;
	size_t len;

	if (id && proc_kernel_build_id(own, &len) == 0)
		return len <= id->len && memcmp(own, id->id, len) == 0;
	return p->facts.release[0] && uname(&u) == 0 && strcmp(u.release, p->facts.release) == 0;
}

/* Whether it is at the same addresses: those change with each boot. */
static bool is_this_boot(const struct dec_perf *p, const struct ksyms *k)
{
	struct sym_batch b = {0};
	bool same;

	if (p->facts.kernel_ref == 0)
		return false;
	if (ksyms_resolve(k, &p->facts.kernel_ref, 1, &b) < 0)
		return false;
	same = b.names[0].n > 0 && b.names[0].start == p->facts.kernel_ref;
	sym_batch_done(&b);
	return same;
}

int dec_perf_kernel_names(const struct dec_perf *p, const uint64_t *addrs, size_t n,
                          struct sym_batch *ret, const char **ret_why)
{
	_cleanup_(ksyms_freep) struct ksyms *k = NULL;
	enum ev_reason reason = EV_REASON_NO_KALLSYMS;
	int r;

	*ret_why = NULL;
	if (p->in->o->no_names) {
		*ret_why = "names were not requested";
	} else if (!is_this_kernel(p)) {
		*ret_why = "it was recorded on another kernel than the one that runs";
	} else {
		r = ksyms_load(p->in->o->kallsyms, &k, NULL);
		if (r == -EPERM) {
			reason = EV_REASON_KALLSYMS_HIDDEN;
			*ret_why = "kernel addresses are hidden: kernel.kptr_restrict, or no "
			           "CAP_SYSLOG";
		} else if (r < 0) {
			*ret_why = "/proc/kallsyms cannot be read";
		} else if (!is_this_boot(p, k)) {
			*ret_why = "it was recorded during another boot";
		}
	}
	return *ret_why ? sym_none_resolve(reason, addrs, n, ret) : ksyms_resolve(k, addrs, n, ret);
}
