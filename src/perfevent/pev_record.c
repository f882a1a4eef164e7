/* SPDX-License-Identifier: Apache-2.0 */
/* Records of the side-band rings; layouts from perf_event_open(2) and linux/perf_event.h. */
#include "perfevent/pev_priv.h"

#include <sys/mman.h>

#define DELETED " (deleted)" /* d_path appends it to the names of unlinked files */

/* Splits a record into its body, between header and trailer, and the trailer. */
static int open_record(const void *rec, size_t len, struct perf_event_header *h,
                       struct cursor *body, struct pev_trailer *t)
{
	struct cursor c = cursor_of(rec, len);
	struct cursor tail;

	if (len < sizeof(*h) + sizeof(*t) || cursor_bytes(&c, h, sizeof(*h)) < 0 || h->size != len)
		return -EINVAL;
	if (cursor_sub(&c, cursor_left(&c) - sizeof(*t), body) < 0)
		return -EINVAL;
	tail = c;
	return cursor_bytes(&tail, t, sizeof(*t)) < 0 ? -EINVAL : 0;
}

/* u32 pid, tid; u64 addr, len, pgoff; u32 maj, min; u64 ino, generation; u32 prot, flags; char
 * name[] */
static int parse_mmap2(uint8_t *rec, struct cursor *c, const struct perf_event_header *h,
                       struct ev_proc *e)
{
	size_t mark = strlen(DELETED);
	uint64_t size, generation;
	uint32_t prot, flags;
	const char *name;
	size_t name_off, n;

	/* Then there are a build-id's bytes in the place of device and inode; never asked for. */
	if (h->misc & PERF_RECORD_MISC_MMAP_BUILD_ID)
		return -EINVAL;
	if (cursor_u32(c, &e->pid) < 0 || cursor_u32(c, &e->tid) < 0 ||
	    cursor_u64(c, &e->map.start) < 0 || cursor_u64(c, &size) < 0 ||
	    cursor_u64(c, &e->map.pgoff) < 0 || cursor_u32(c, &e->map.file.dev_major) < 0 ||
	    cursor_u32(c, &e->map.file.dev_minor) < 0 || cursor_u64(c, &e->map.file.ino) < 0 ||
	    cursor_u64(c, &generation) < 0 || cursor_u32(c, &prot) < 0 || cursor_u32(c, &flags) < 0)
		return -EINVAL;
	if (size == 0 || __builtin_add_overflow(e->map.start, size, &e->map.end))
		return -EINVAL;
	name_off = (size_t)(c->p - rec);
	if (cursor_str(c, &name) < 0)
		return -EINVAL;
	n = strlen(name);
	if (name[0] == '/' && n > mark && strcmp(name + n - mark, DELETED) == 0) {
		rec[name_off + n - mark] = '\0';
		e->map.deleted = 1;
	}
	e->type = EV_PROC_MMAP;
	e->map.path = name;
	e->map.exec = (prot & PROT_EXEC) != 0;
	e->map.kind = (uint8_t)ev_map_kind_of(name, &e->map.file);
	return 1;
}

/* u32 pid, tid; char comm[] */
static int parse_comm(struct cursor *c, const struct perf_event_header *h, struct ev_proc *e)
{
	const char *comm;

	if (cursor_u32(c, &e->pid) < 0 || cursor_u32(c, &e->tid) < 0 || cursor_str(c, &comm) < 0)
		return -EINVAL;
	e->type = EV_PROC_COMM;
	e->exec = (h->misc & PERF_RECORD_MISC_COMM_EXEC) != 0;
	(void)str_copy(e->comm, sizeof(e->comm),
	               comm); /* cut should a kernel ever have longer names */
	return 1;
}

/* u32 pid, ppid, tid, ptid; u64 time. That time is taken later than the trailer's, by which records
 * are sorted: handed on, it would break the order. */
static int parse_task(struct cursor *c, enum ev_proc_type type, struct ev_proc *e)
{
	if (cursor_u32(c, &e->pid) < 0 || cursor_u32(c, &e->ppid) < 0 ||
	    cursor_u32(c, &e->tid) < 0 || cursor_u32(c, &e->ptid) < 0 ||
	    cursor_skip(c, sizeof(uint64_t)) < 0)
		return -EINVAL;
	e->type = type;
	return 1;
}

/* u64 addr; u32 len; u16 type, flags; char name[] */
static int parse_ksymbol(struct cursor *c, struct ev_proc *e)
{
	uint16_t type, flags;
	uint64_t end;

	if (cursor_u64(c, &e->ksym.start) < 0 || cursor_u32(c, &e->ksym.len) < 0 ||
	    cursor_u16(c, &type) < 0 || cursor_u16(c, &flags) < 0 ||
	    cursor_str(c, &e->ksym.name) < 0)
		return -EINVAL;
	if (e->ksym.start == 0 || e->ksym.len == 0 || e->ksym.name[0] == '\0' ||
	    __builtin_add_overflow(e->ksym.start, e->ksym.len, &end))
		return -EINVAL;
	e->type = EV_PROC_KSYMBOL;
	e->ksym.bpf = type == PERF_RECORD_KSYMBOL_TYPE_BPF;
	e->ksym.gone = (flags & PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER) != 0;
	return 1;
}

/* u64 id, lost */
static int parse_lost(struct cursor *c, struct ev_proc *e)
{
	uint64_t id;

	if (cursor_u64(c, &id) < 0 || cursor_u64(c, &e->lost) < 0)
		return -EINVAL;
	e->type = EV_PROC_LOST;
	return 1;
}

int pev_record_parse(void *rec, size_t len, struct ev_proc *ret)
{
	struct perf_event_header h;
	struct ev_proc e = {0};
	struct pev_trailer t;
	struct cursor body;
	int r;

	if (open_record(rec, len, &h, &body, &t) < 0)
		return -EINVAL;
	e.map.path = "";
	e.time_ns = t.time_ns;
	switch (h.type) {
	case PERF_RECORD_MMAP2:
		r = parse_mmap2(rec, &body, &h, &e);
		break;
	case PERF_RECORD_COMM:
		r = parse_comm(&body, &h, &e);
		break;
	case PERF_RECORD_FORK:
		r = parse_task(&body, EV_PROC_FORK, &e);
		break;
	case PERF_RECORD_EXIT:
		r = parse_task(&body, EV_PROC_EXIT, &e);
		break;
	case PERF_RECORD_KSYMBOL:
		r = parse_ksymbol(&body, &e);
		break;
	case PERF_RECORD_LOST:
		r = parse_lost(&body, &e);
		break;
	default: /* not an enum of ours: kernels add types */
		r = 0;
		break;
	}
	if (r == 1)
		*ret = e;
	return r;
}
