/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The maps of unwind tables, mapped for the store that writes them; the segments of the word space
 * are made as they are needed.
 */
#include "loader/load_priv.h"

#include <sys/mman.h>

#include "bpf/oncpu_skel.h"

/* Segments made at a time: as many as there are already, and at most this many. A kernel waits an
 * RCU grace period (10 ms) for a change of a map of maps; a batch waits once. */
#define SEGMENTS_AT_A_TIME 16

static size_t page_round(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (bytes + page - 1) & ~(page - 1);
}

static int map_fd(int fd, size_t bytes, const char *what, struct load_mapped *ret, struct err *err)
{
	void *p = mmap(NULL, page_round(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return err_set(err, -errno, "mmap of the BPF map of %s: %s", what, err_name(errno));
	ret->p = p;
	ret->bytes = page_round(bytes);
	return 0;
}

int load_tables_map(struct load_oncpu *l, struct err *err)
{
	const struct {
		struct bpf_map *map;
		size_t bytes;
		const char *what;
		struct load_mapped *to;
	} maps[] = {
	        {l->skel->maps.images, (size_t)l->sizes.image_entries * sizeof(struct abi_image),
	         "images", &l->images},
	        {l->skel->maps.rules, ABI_RULES_MAX * sizeof(struct abi_rule), "rules", &l->rules},
	        {l->skel->maps.wides, ABI_WIDES_MAX * sizeof(struct abi_wide), "wide rules",
	         &l->wides},
	        {l->skel->maps.ops, ABI_OPS_MAX * sizeof(struct abi_op), "expressions", &l->ops},
	};
	int r = 0;

	if (!l->sizes.image_entries)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(maps) && r == 0; i++)
		r = map_fd(bpf_map__fd(maps[i].map), maps[i].bytes, maps[i].what, maps[i].to, err);
	if (r == 0) {
		l->segments = calloc(ABI_SEGMENTS_MAX, sizeof(*l->segments));
		if (!l->segments)
			r = err_set(err, -ENOMEM, "out of memory");
	}
	return r;
}

static void unmap(struct load_mapped *m)
{
	if (m->p)
		munmap(m->p, m->bytes);
	m->p = NULL;
}

void load_tables_unmap(struct load_oncpu *l)
{
	unmap(&l->images);
	unmap(&l->rules);
	unmap(&l->wides);
	unmap(&l->ops);
	for (uint32_t i = 0; i < l->n_segments; i++)
		unmap(&l->segments[i]);
	free(l->segments);
	l->segments = NULL;
	l->n_segments = 0;
}

/* Makes the map of one segment. Returns its descriptor, or a negative errno. */
static int segment_new(struct load_mapped *ret)
{
	const struct bpf_map_create_opts o = {.sz = sizeof(o), .map_flags = BPF_F_MMAPABLE};
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "pa_segment", sizeof(uint32_t),
	                        ABI_VALUE_WORDS * sizeof(uint32_t),
	                        ABI_SEGMENT_WORDS / ABI_VALUE_WORDS, &o);
	int r;

	if (fd < 0)
		return fd;
	r = map_fd(fd, ABI_SEGMENT_WORDS * sizeof(uint32_t), "a segment", ret, NULL);
	if (r < 0) {
		(void)close(fd); /* nothing else holds the map */
		return r;
	}
	return fd;
}

/* Inserts maps into the word space. Returns 0 or a negative errno. */
static int insert(struct load_oncpu *l, const uint32_t *at, const int *fds, uint32_t n)
{
	int outer = bpf_map__fd(l->skel->maps.segments), r = -EINVAL;
	uint32_t done = n;

	if (n > 1)
		r = bpf_map_update_batch(outer, at, fds, &done, NULL);
	if (r == 0)
		return 0;
	/* Kernels before 6.0 know no batches of maps of maps. */
	for (uint32_t i = 0; i < n; i++) {
		r = bpf_map_update_elem(outer, &at[i], &fds[i], BPF_ANY);
		if (r < 0)
			return r;
	}
	return 0;
}

static int segment_get(void *arg, uint32_t i, uint32_t **ret)
{
	uint32_t at[SEGMENTS_AT_A_TIME], n = 0;
	int fds[SEGMENTS_AT_A_TIME] = {-ENOMEM}, r = 0;
	struct load_oncpu *l = arg;

	if (i >= ABI_SEGMENTS_MAX)
		return -E2BIG;
	while (i >= l->n_segments && r == 0) {
		uint32_t want = MIN_OF(MAX_OF(l->n_segments, 1U), (uint32_t)SEGMENTS_AT_A_TIME);

		want = MIN_OF(want, ABI_SEGMENTS_MAX - l->n_segments);
		for (n = 0; n < want; n++) {
			at[n] = l->n_segments + n;
			fds[n] = segment_new(&l->segments[at[n]]);
			if (fds[n] < 0)
				break;
		}
		r = n ? insert(l, at, fds, n) : fds[0];
		for (uint32_t k = 0; k < n; k++) {
			(void)close(fds[k]); /* the outer map holds it */
			if (r < 0)
				unmap(&l->segments[at[k]]);
		}
		if (r == 0)
			l->n_segments += n;
	}
	if (r < 0)
		return r;
	*ret = l->segments[i].p;
	return 0;
}

static void wait_for_programs(void *arg)
{
	(void)arg;
	load_wait_for_programs();
}

int load_tables(struct load_oncpu *l, struct uw_rules_mem *rules, struct uw_backing *backing)
{
	if (!l->sizes.image_entries)
		return -ENOENT;
	*rules = (struct uw_rules_mem){
	        .rules = l->rules.p,
	        .wides = l->wides.p,
	        .ops = l->ops.p,
	        .n_rules = ABI_RULES_MAX,
	        .n_wides = ABI_WIDES_MAX,
	        .n_ops = ABI_OPS_MAX,
	};
	*backing = (struct uw_backing){
	        .images = l->images.p,
	        .n_images = l->sizes.image_entries,
	        .max_segments = ABI_SEGMENTS_MAX,
	        .segment = segment_get,
	        .wait_for_programs = wait_for_programs,
	        .arg = l,
	};
	return 0;
}
