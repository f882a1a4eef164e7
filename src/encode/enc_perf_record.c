/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of perf.data. Source: linux/perf_event.h (PERF_RECORD_*).
 */
#include "encode/enc_perf_priv.h"

#include <stdio.h>
#include <string.h>

#define COMM_MAX 16 /* TASK_COMM_LEN of the kernel, with its NUL */

/* ---- fields ---------------------------------------------------------------------------------- */

static void put(struct perf_rec *r, const void *p, size_t len)
{
	assert(len <= sizeof(r->p) - r->len);
	memcpy(r->p + r->len, p, len);
	r->len += len;
}

void perf_rec_u32(struct perf_rec *r, uint32_t v)
{
	put(r, &v, sizeof(v));
}

void perf_rec_u64(struct perf_rec *r, uint64_t v)
{
	put(r, &v, sizeof(v));
}

void perf_rec_header(struct perf_rec *r, uint32_t type, uint32_t misc)
{
	const struct perf_event_header h = {.type = type, .misc = (uint16_t)misc};

	r->len = 0;
	put(r, &h, sizeof(h));
}

void perf_rec_end(struct perf_rec *r)
{
	const uint16_t size = (uint16_t)r->len;

	assert(r->len <= UINT16_MAX);
	memcpy(r->p + offsetof(struct perf_event_header, size), &size, sizeof(size));
}

static void put_text(struct perf_rec *r, const char *name, size_t max, size_t align, bool clean)
{
	const uint8_t *s = (const uint8_t *)(name ? name : ""), *end = s + strlen((const char *)s);
	const size_t start = r->len;

	while (s < end) {
		const size_t n = utf8_len(s, (size_t)(end - s)), step = MAX_OF(n, (size_t)1);
		const bool bad = clean && (n == 0 || utf8_is_control(s, n));

		if (r->len - start + (bad ? 1 : step) >= max)
			break;
		put(r, bad ? (const uint8_t *)"?" : s, bad ? 1 : step);
		s += step;
	}
	do
		put(r, "", 1);
	while ((r->len - start) % align);
}

void perf_rec_name(struct perf_rec *r, const char *name, size_t max, size_t align)
{
	put_text(r, name, max, align, true);
}

void perf_rec_path(struct perf_rec *r, const char *path, size_t max, size_t align)
{
	put_text(r, path, max, align, false);
}

/* The end of all records but samples (sample_id_all): the fields of struct sample_id that
 * PERF_FIELDS has. Their CPU is not known. */
static void put_trailer(struct perf_rec *r, const struct enc_perf_record *from)
{
	perf_rec_u32(r, from->pid);
	perf_rec_u32(r, from->tid);
	perf_rec_u64(r, from->time_ns);
	perf_rec_u64(r, 0); /* CPU, reserved */
	perf_rec_u64(r, perf_event_id(0));
}

/* ---- records --------------------------------------------------------------------------------- */

static int make_sample(const struct enc_perf_data *d, const struct enc_perf_record *from,
                       struct perf_rec *r)
{
	const struct enc_perf_sample *s = &from->sample;
	const uint32_t n_kernel = MIN_OF(s->n_kernel, (uint32_t)ENC_PERF_CHAIN_MAX);
	const uint32_t n_user = MIN_OF(s->n_user, ENC_PERF_CHAIN_MAX - n_kernel);
	const bool in_kernel = n_kernel || (!n_user && s->in_kernel);

	if (s->event >= d->n_events)
		return -EINVAL;
	perf_rec_header(r, PERF_RECORD_SAMPLE,
	                in_kernel ? PERF_RECORD_MISC_KERNEL : PERF_RECORD_MISC_USER);
	perf_rec_u64(r, perf_event_id(s->event));
	perf_rec_u64(r, n_kernel ? s->kernel[0] : n_user ? s->user[0] : 0);
	perf_rec_u32(r, from->pid);
	perf_rec_u32(r, from->tid);
	perf_rec_u64(r, from->time_ns);
	perf_rec_u32(r, s->cpu);
	perf_rec_u32(r, 0);
	perf_rec_u64(r, s->period);
	/* A marker before the addresses of each address space. */
	perf_rec_u64(r, (uint64_t)n_kernel + (n_kernel > 0) + n_user + (n_user > 0));
	if (n_kernel) {
		perf_rec_u64(r, (uint64_t)PERF_CONTEXT_KERNEL);
		put(r, s->kernel, n_kernel * sizeof(*s->kernel));
	}
	if (n_user) {
		perf_rec_u64(r, (uint64_t)PERF_CONTEXT_USER);
		put(r, s->user, n_user * sizeof(*s->user));
	}
	return 0;
}

static void make_comm(const struct enc_perf_record *from, struct perf_rec *r)
{
	perf_rec_header(r, PERF_RECORD_COMM, from->comm.exec ? PERF_RECORD_MISC_COMM_EXEC : 0);
	perf_rec_u32(r, from->pid);
	perf_rec_u32(r, from->tid);
	perf_rec_name(r, from->comm.name, COMM_MAX, 8);
	put_trailer(r, from);
}

/* A module of the kernel: its mappings are those of process -1. */
static void make_kernel_map(const struct enc_perf_record *from, struct perf_rec *r)
{
	const struct enc_perf_map *m = &from->map;

	perf_rec_header(r, PERF_RECORD_MMAP, PERF_RECORD_MISC_KERNEL);
	perf_rec_u32(r, UINT32_MAX);
	perf_rec_u32(r, 0);
	perf_rec_u64(r, m->start);
	perf_rec_u64(r, m->len);
	perf_rec_u64(r, m->pgoff);
	perf_rec_path(r, m->path, PERF_NAME_MAX, 8);
	put_trailer(r, from);
}

static int make_map(const struct enc_perf_record *from, struct perf_rec *r)
{
	const struct enc_perf_map *m = &from->map;
	/* length, three reserved bytes, the id */
	uint8_t build_id[24] = {m->build_id_len};

	_Static_assert(sizeof(build_id) == 4 + sizeof(m->build_id), "as in struct mmap2 of perf");
	if (m->build_id_len > sizeof(m->build_id))
		return -EINVAL;
	if (m->kernel) {
		make_kernel_map(from, r);
		return 0;
	}
	perf_rec_header(r, PERF_RECORD_MMAP2,
	                PERF_RECORD_MISC_USER |
	                        (m->build_id_len ? PERF_RECORD_MISC_MMAP_BUILD_ID : 0));
	perf_rec_u32(r, from->pid);
	perf_rec_u32(r, from->tid);
	perf_rec_u64(r, m->start);
	perf_rec_u64(r, m->len);
	perf_rec_u64(r, m->pgoff);
	if (m->build_id_len) {
		memcpy(build_id + 4, m->build_id, m->build_id_len);
		put(r, build_id, sizeof(build_id));
	} else {
		perf_rec_u32(r, m->dev_major);
		perf_rec_u32(r, m->dev_minor);
		perf_rec_u64(r, m->ino);
		perf_rec_u64(r, m->ino_generation);
	}
	perf_rec_u32(r, m->prot);
	perf_rec_u32(r, m->flags);
	perf_rec_path(r, m->path, PERF_NAME_MAX, 8);
	put_trailer(r, from);
	return 0;
}

static void make_task(const struct enc_perf_record *from, struct perf_rec *r)
{
	perf_rec_header(r, from->type == ENC_PERF_FORK ? PERF_RECORD_FORK : PERF_RECORD_EXIT, 0);
	perf_rec_u32(r, from->pid);
	perf_rec_u32(r, from->parent.ppid);
	perf_rec_u32(r, from->tid);
	perf_rec_u32(r, from->parent.ptid);
	perf_rec_u64(r, from->time_ns);
	put_trailer(r, from);
}

static void make_lost(const struct enc_perf_record *from, struct perf_rec *r)
{
	if (from->type == ENC_PERF_LOST) {
		perf_rec_header(r, PERF_RECORD_LOST, 0);
		perf_rec_u64(r, perf_event_id(0));
	} else {
		perf_rec_header(r, PERF_RECORD_LOST_SAMPLES, 0);
	}
	perf_rec_u64(r, from->lost);
	put_trailer(r, from);
}

static void make_ksymbol(const struct enc_perf_record *from, struct perf_rec *r)
{
	const uint16_t type =
	        from->ksymbol.bpf ? PERF_RECORD_KSYMBOL_TYPE_BPF : PERF_RECORD_KSYMBOL_TYPE_OOL;
	const uint16_t flags = from->ksymbol.gone ? PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER : 0;

	perf_rec_header(r, PERF_RECORD_KSYMBOL, PERF_RECORD_MISC_KERNEL);
	perf_rec_u64(r, from->ksymbol.start);
	perf_rec_u32(r, from->ksymbol.len);
	perf_rec_u32(r, type | (uint32_t)flags << 16);
	perf_rec_name(r, from->ksymbol.name, PERF_NAME_MAX, 8);
	put_trailer(r, from);
}

int perf_record_make(const struct enc_perf_data *d, const struct enc_perf_record *from,
                     struct perf_rec *r)
{
	int ret = 0;

	switch (from->type) {
	case ENC_PERF_SAMPLE:
		ret = make_sample(d, from, r);
		break;
	case ENC_PERF_COMM:
		make_comm(from, r);
		break;
	case ENC_PERF_MMAP:
		ret = make_map(from, r);
		break;
	case ENC_PERF_FORK:
	case ENC_PERF_EXIT:
		make_task(from, r);
		break;
	case ENC_PERF_LOST:
	case ENC_PERF_LOST_SAMPLES:
		make_lost(from, r);
		break;
	case ENC_PERF_KSYMBOL:
		make_ksymbol(from, r);
		break;
	default:
		return -EINVAL;
	}
	if (ret == 0)
		perf_rec_end(r);
	return ret;
}

void perf_kernel_map_make(const struct enc_perf_kernel *k, struct perf_rec *r)
{
	const struct enc_perf_record none = {.time_ns = 0};
	char name[64];

	/* The address of the symbol is where perf expects a file offset: it tells by the symbol's
	 * address in its own table how far the kernel was moved. */
	(void)snprintf(name, sizeof(name), "[kernel.kallsyms]%s", k->ref_name);
	perf_rec_header(r, PERF_RECORD_MMAP, PERF_RECORD_MISC_KERNEL);
	perf_rec_u32(r, UINT32_MAX);
	perf_rec_u32(r, 0);
	perf_rec_u64(r, k->start);
	perf_rec_u64(r, k->end - k->start);
	perf_rec_u64(r, k->ref);
	perf_rec_name(r, name, sizeof(name), 8);
	put_trailer(r, &none);
	perf_rec_end(r);
}
