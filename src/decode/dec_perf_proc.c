/* SPDX-License-Identifier: Apache-2.0 */
/* Processes of a perf.data: what they map, and what their threads are called, as time passes. */
#include "decode/dec_perf_priv.h"

#define PROCS_MAX 4194304
#define MAPS_MAX  1048576 /* of one process */
/* By forks, in all: they alone make memory that is not bounded by the length of the file. */
#define MAPS_COPIED_BYTES_MAX ((size_t)256 << 20)
#define IMAGES_MAX            1048576
#define RANGES_MAX            4194304

#define KERNEL_PID UINT32_MAX

/* Keys: hashed as bytes. */
struct image_key {
	struct ev_file_id file;
	uint32_t path, zero;
	uint8_t build_id[24];
};
_Static_assert(sizeof(struct image_key) == 48, "hashed as bytes");

struct range_key {
	uint64_t pgoff, len;
	uint32_t image, zero;
};
_Static_assert(sizeof(struct range_key) == 24, "hashed as bytes");

struct mmap_record {
	uint32_t pid, tid;
	uint64_t addr, len, pgoff;
	struct ev_file_id file;
	struct dec_perf_build_id build_id;
	const char *path;
};

void dec_perf_proc_done(struct dec_perf *p)
{
	vec_each (proc, &p->procs)
		imap_done(&proc->maps);
	vec_done(&p->procs);
}

/* ---- processes and threads ------------------------------------------------------------------- */

/* Returns an index, since a later call may move the processes. */
static int proc_of(struct dec_perf *p, uint32_t pid, uint32_t *ret)
{
	struct dec_perf_proc proc = {0};
	bool is_new = false;
	int r;

	p->procs.max = PROCS_MAX;
	r = vec_reserve(&p->procs, 1);
	if (r == 0)
		r = intern_add(p->pids, &pid, sizeof(pid), ret, &is_new);
	if (r == 0 && is_new) {
		imap_init(&proc.maps, sizeof(struct dec_perf_map), MAPS_MAX);
		r = vec_push(&p->procs, proc);
	}
	return r;
}

static void drop_maps(struct dec_perf *p, struct dec_perf_proc *proc)
{
	p->maps_copied -= proc->copied;
	proc->copied = 0;
	imap_done(&proc->maps);
}

static int set_comm(struct dec_perf *p, uint32_t tid, uint32_t text)
{
	uint32_t id = 0;
	bool is_new = false;
	int r;

	p->comms.max = PROCS_MAX;
	r = vec_reserve(&p->comms, 1);
	if (r == 0)
		r = intern_add(p->tids, &tid, sizeof(tid), &id, &is_new);
	if (r == 0 && is_new)
		r = vec_push(&p->comms, 0);
	if (r == 0)
		p->comms.p[id] = text;
	return r;
}

uint32_t dec_perf_comm(const struct dec_perf *p, uint32_t tid)
{
	const uint32_t id = intern_find(p->tids, &tid, sizeof(tid));

	return id == INTERN_NONE ? 0 : p->comms.p[id];
}

static int apply_comm(struct dec_perf *p, uint16_t misc, struct cursor c)
{
	uint32_t pid = 0, tid = 0, text = 0, proc = 0;
	const char *name = "";
	int r = cursor_u32(&c, &pid);

	if (r == 0)
		r = cursor_u32(&c, &tid);
	if (r == 0)
		r = cursor_str(&c, &name);
	if (r == 0)
		r = intern_add(p->texts, name, strlen(name), &text, NULL);
	if (r == 0)
		r = set_comm(p, tid, text);
	if (r < 0 || !(misc & PERF_RECORD_MISC_COMM_EXEC))
		return r;
	r = proc_of(p, pid, &proc);
	if (r == 0)
		drop_maps(p, &p->procs.p[proc]);
	return r;
}

/* A child has the mappings of its parent, and a new thread the name of its creator. */
static int apply_fork(struct dec_perf *p, struct cursor c)
{
	uint32_t v[4] = {0}; /* pid, ppid, tid, ptid */
	uint32_t child_id = 0, parent_id = 0;
	struct dec_perf_proc *child;
	const struct imap *parent;
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(v) && r == 0; i++)
		r = cursor_u32(&c, &v[i]);
	if (r == 0)
		r = set_comm(p, v[2], dec_perf_comm(p, v[3]));
	if (r < 0 || v[0] == v[1])
		return r;
	r = proc_of(p, v[1], &parent_id);
	if (r == 0)
		r = proc_of(p, v[0], &child_id);
	if (r < 0)
		return r;
	parent = &p->procs.p[parent_id].maps;
	child = &p->procs.p[child_id];
	/* A process that had the number before. */
	drop_maps(p, child);
	if (parent->bytes > MAPS_COPIED_BYTES_MAX - p->maps_copied) {
		p->cnt.no_maps++;
		return 0;
	}
	r = imap_copy(parent, &child->maps);
	if (r == 0) {
		child->copied = child->maps.bytes;
		p->maps_copied += child->copied;
	}
	return r;
}

/* ---- mappings -------------------------------------------------------------------------------- */

static int range_of(struct dec_perf *p, const struct mmap_record *m, uint32_t *ret)
{
	struct image_key key = {.file = m->file};
	struct range_key range = {.pgoff = m->pgoff, .len = m->len};
	struct dec_perf_image image = {.file = m->file, .build_id = m->build_id};
	uint32_t by_path = intern_find(p->build_id_paths, m->path, strlen(m->path));
	bool is_new = false;
	int r = intern_add(p->texts, m->path, strlen(m->path), &image.path, NULL);

	if (image.build_id.len == 0 && by_path != INTERN_NONE)
		image.build_id = p->build_ids.p[by_path];
	key.path = image.path;
	memcpy(key.build_id, image.build_id.id, image.build_id.len);
	p->images.max = IMAGES_MAX;
	p->ranges.max = RANGES_MAX;
	if (r == 0)
		r = vec_reserve(&p->images, 1);
	if (r == 0)
		r = intern_add(p->image_keys, &key, sizeof(key), &range.image, &is_new);
	if (r == 0 && is_new)
		r = vec_push(&p->images, image);
	if (r == 0)
		r = vec_reserve(&p->ranges, 1);
	if (r == 0)
		r = intern_add(p->range_keys, &range, sizeof(range), ret, &is_new);
	if (r == 0 && is_new)
		r = vec_push(&p->ranges, (struct dec_perf_range){.start = m->addr,
		                                                 .len = m->len,
		                                                 .pgoff = m->pgoff,
		                                                 .image = range.image});
	return r;
}

/* Whether a mapping is of a file, or of code that has a name. */
static bool has_file(const struct mmap_record *m)
{
	return ev_map_kind_of(m->path, &(struct ev_file_id){.ino = 1}) != EV_MAP_ANON;
}

static int add_map(struct dec_perf *p, const struct mmap_record *m)
{
	struct dec_perf_map map = {
	        .start = m->addr, .end = m->addr + m->len, .delta = m->pgoff - m->addr};
	struct imap *maps;
	uint32_t proc = 0;
	int r = 0;

	if (m->len == 0 || map.end < map.start)
		return 0; /* damaged: no address is in it */
	if (has_file(m)) {
		r = range_of(p, m, &map.range);
		map.range++;
	}
	if (r == 0)
		r = proc_of(p, m->pid, &proc);
	if (r < 0)
		return r;
	maps = &p->procs.p[proc].maps;
	r = imap_cut(maps, map.start, map.end);
	return r < 0 ? r : imap_insert(maps, &map);
}

static int read_file_id(struct cursor *c, uint16_t misc, struct mmap_record *ret)
{
	uint8_t bytes[24];
	struct cursor id;
	int r = cursor_bytes(c, bytes, sizeof(bytes));

	if (r < 0)
		return r;
	if (misc & PERF_RECORD_MISC_MMAP_BUILD_ID) {
		ret->build_id.len = MIN_OF(bytes[0], (uint8_t)EV_BUILD_ID_MAX);
		memcpy(ret->build_id.id, bytes + 4, EV_BUILD_ID_MAX);
		return 0;
	}
	id = cursor_of(bytes, sizeof(bytes));
	(void)cursor_u32(&id, &ret->file.dev_major); /* all are there */
	(void)cursor_u32(&id, &ret->file.dev_minor);
	(void)cursor_u64(&id, &ret->file.ino);
	return 0;
}

static int apply_mmap(struct dec_perf *p, const struct perf_event_header *h, struct cursor c)
{
	struct mmap_record m = {0};
	int r = cursor_u32(&c, &m.pid);

	if (r == 0)
		r = cursor_u32(&c, &m.tid);
	if (r == 0)
		r = cursor_u64(&c, &m.addr);
	if (r == 0)
		r = cursor_u64(&c, &m.len);
	if (r == 0)
		r = cursor_u64(&c, &m.pgoff);
	if (r == 0 && h->type == PERF_RECORD_MMAP2)
		r = read_file_id(&c, h->misc, &m);
	if (r == 0 && h->type == PERF_RECORD_MMAP2)
		r = cursor_skip(&c, 8); /* prot, flags */
	if (r == 0)
		r = cursor_str(&c, &m.path);
	if (r < 0)
		return r;
	if (m.pid == KERNEL_PID) {
		/* "[kernel.kallsyms]_text": its offset is the address of that symbol. */
		if (str_starts(m.path, "[kernel.kallsyms]"))
			p->facts.kernel_ref = m.pgoff;
		return 0;
	}
	return add_map(p, &m);
}

int dec_perf_apply(struct dec_perf *p, const struct perf_event_header *h, struct cursor c)
{
	switch (h->type) {
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		return apply_mmap(p, h, c);
	case PERF_RECORD_COMM:
		return apply_comm(p, h->misc, c);
	case PERF_RECORD_FORK:
		return apply_fork(p, c);
	default:
		/* The numbers of a process that ended are given to another by its fork. */
		return 0;
	}
}

struct dec_perf_frame dec_perf_user_frame(const struct dec_perf *p, uint32_t pid, uint64_t addr,
                                          bool exact)
{
	const uint64_t look = exact || addr == 0 ? addr : addr - 1;
	const uint32_t id = intern_find(p->pids, &pid, sizeof(pid));
	const struct dec_perf_map *map =
	        id == INTERN_NONE ? NULL : imap_find(&p->procs.p[id].maps, look);

	if (!map)
		return (struct dec_perf_frame){.addr = look, .space = DEC_PERF_RAW};
	if (!map->range)
		return (struct dec_perf_frame){.addr = look, .space = DEC_PERF_ANON};
	return (struct dec_perf_frame){
	        .addr = look + map->delta, .space = DEC_PERF_FILE, .range = map->range - 1};
}
