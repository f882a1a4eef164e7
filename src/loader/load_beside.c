/* SPDX-License-Identifier: Apache-2.0 */
/* What objects that stand beside the sampling program's have in common: its maps, links, sizes. */
#include "loader/load_priv.h"

#include <stdlib.h>

#include "bpf/oncpu_skel.h"

static bool is_own(const struct bpf_map *m, const struct load_own *own)
{
	for (size_t i = 0; i < own->n; i++)
		if (m == own->maps[i])
			return true;
	return false;
}

int load_share_maps(const struct load_oncpu *base, struct bpf_object *obj,
                    const struct bpf_map *bss, const struct load_own *own)
{
	struct bpf_map *m, *of;
	int r = 0;

	bpf_object__for_each_map (m, obj) {
		if (is_own(m, own))
			continue;
		of = m == bss ? base->skel->maps.bss
		              : bpf_object__find_map_by_name(base->skel->obj, bpf_map__name(m));
		if (!of)
			return -ENOENT; /* a bug: test-live-load loads it */
		r = bpf_map__reuse_fd(m, bpf_map__fd(of));
		if (r < 0)
			return r;
	}
	return 0;
}

uint64_t load_own_bytes(const struct load_own *own)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < own->n; i++)
		sum += load_memlock_of(bpf_map__fd(own->maps[i]));
	return sum;
}

int load_size_maps(bool preallocate, const struct load_sized *maps, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int r = bpf_map__set_max_entries(maps[i].map, maps[i].n);

		if (r == 0 && maps[i].hash && preallocate)
			r = bpf_map__set_map_flags(maps[i].map, 0);
		if (r < 0)
			return r;
	}
	return 0;
}

int load_attach_tracepoint(struct load_links *links, const struct bpf_program *p, struct err *err)
{
	int link = bpf_raw_tracepoint_open(NULL, bpf_program__fd(p)), r;

	if (link < 0)
		return err_set(err, link, "bpf(BPF_RAW_TRACEPOINT_OPEN) of %s: %s",
		               bpf_program__section_name(p), err_name(link));
	r = vec_push(&links->v, link);
	if (r < 0) {
		(void)close(link);
		return err_set(err, r, "attach: %s", err_name(r));
	}
	return 0;
}

void load_close_links(struct load_links *links, size_t first)
{
	for (size_t i = first; i < links->v.n; i++)
		(void)close(links->v.p[i]); /* nothing is written through a link */
	links->v.n = first;
}

int load_iterate(const struct bpf_program *p, int *link_fd)
{
	if (*link_fd < 0) {
		int link = bpf_link_create(bpf_program__fd(p), 0, BPF_TRACE_ITER, NULL);

		if (link < 0)
			return link;
		*link_fd = link;
	}
	return bpf_iter_create(*link_fd);
}

int load_iterate_through(int fd)
{
	char buf[64];
	ssize_t n;

	do {
		n = read(fd, buf, sizeof(buf));
	} while (n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN)));
	return n < 0 ? -errno : 0;
}
