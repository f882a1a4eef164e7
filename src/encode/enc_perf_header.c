/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Header and feature sections of perf.data: header | ids | attributes | records | table of sections
 * | sections. Source: tools/perf/Documentation/perf.data-file-format.txt.
 */
#include "encode/enc_perf_priv.h"

#include <string.h>
#include <time.h>

#define ATTR_BYTES   PERF_ATTR_SIZE_VER5 /* 112: what Linux 4.7 knew; no later field is used */
#define STRING_ALIGN 64                  /* of strings in sections: NAME_ALIGN of perf */

/* Feature sections that are written, by perf's numbers, in the order of the file. */
enum perf_feature {
	FEAT_BUILD_ID = 2,
	FEAT_HOSTNAME = 3,
	FEAT_OSRELEASE = 4,
	FEAT_VERSION = 5,
	FEAT_ARCH = 6,
	FEAT_NRCPUS = 7,
	FEAT_CPUDESC = 8,
	FEAT_CPUID = 9,
	FEAT_TOTAL_MEM = 10,
	FEAT_CMDLINE = 11,
	FEAT_EVENT_DESC = 12,
	FEAT_SAMPLE_TIME = 21,
	FEAT_CLOCKID = 23,
	FEAT_COMPRESSED = 27,
	FEAT_CLOCK_DATA = 29,
	FEAT_CNT = 30,
};

#define BUILD_ID_SIZED 0x8000 /* PERF_RECORD_MISC_BUILD_ID_SIZE: the length is in the record */

struct perf_section {
	uint64_t offset, size;
};

struct perf_file_header {
	char magic[8];
	uint64_t size;
	uint64_t attr_size; /* with the section of its ids */
	struct perf_section attrs, data, event_types;
	uint64_t features[4];
};
_Static_assert(sizeof(struct perf_file_header) == 104, "perf tells versions by the size");

/* ---- before the records ---------------------------------------------------------------------- */

static void make_attr(const struct enc_perf_event *e, bool first, struct perf_event_attr *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->type = e->type;
	ret->size = ATTR_BYTES;
	ret->config = e->config;
	ret->sample_type = PERF_FIELDS;
	ret->read_format = PERF_FORMAT_ID;
	if (e->sample_freq) {
		ret->freq = 1;
		ret->sample_freq = e->sample_freq;
	} else {
		ret->sample_period = e->sample_period;
	}
	ret->exclude_kernel = e->exclude_kernel;
	ret->exclude_user = e->exclude_user;
	ret->sample_id_all = 1;
	ret->use_clockid = 1;
	ret->clockid = CLOCK_MONOTONIC;
	/* Process events are reported once, with the first event. */
	ret->mmap = ret->mmap2 = ret->comm = ret->comm_exec = ret->task = first;
}

static bool has_feature(const struct enc_perf_data *d, enum perf_feature f)
{
	const struct enc_perf_facts *x = &d->facts;

	switch (f) {
	case FEAT_BUILD_ID:
		return d->n_build_ids > 0;
	case FEAT_HOSTNAME:
		return x->hostname;
	case FEAT_OSRELEASE:
		return x->os_release;
	case FEAT_VERSION:
		return x->version;
	case FEAT_ARCH:
		return x->arch;
	case FEAT_NRCPUS:
		return x->cpus_avail > 0;
	case FEAT_CPUDESC:
		return x->cpu_desc;
	case FEAT_CPUID:
		return x->cpu_id;
	case FEAT_TOTAL_MEM:
		return x->total_mem_kib > 0;
	case FEAT_CMDLINE:
		return x->n_cmdline > 0;
	case FEAT_EVENT_DESC:
	case FEAT_SAMPLE_TIME:
	case FEAT_CLOCKID:
		return true;
	case FEAT_COMPRESSED:
		return d->zstd_level != 0;
	case FEAT_CLOCK_DATA:
		return x->has_clock;
	case FEAT_CNT:
		break;
	}
	return false;
}

void perf_put_header(const struct enc_perf_data *d, const struct perf_sizes *s, struct sbuf *b)
{
	const uint64_t ids_at = sizeof(struct perf_file_header);
	const uint64_t attrs_at = ids_at + d->n_events * sizeof(uint64_t);
	struct perf_file_header h = {
	        .magic = {'P', 'E', 'R', 'F', 'I', 'L', 'E', '2'},
	        .size = sizeof(h),
	        .attr_size = ATTR_BYTES + sizeof(struct perf_section),
	};

	h.attrs.offset = attrs_at;
	h.attrs.size = d->n_events * h.attr_size;
	h.data.offset = attrs_at + h.attrs.size;
	h.data.size = s->data;
	for (uint32_t f = 0; f < FEAT_CNT; f++)
		if (has_feature(d, (enum perf_feature)f))
			h.features[0] |= 1ULL << f;
	(void)sbuf_add(b, &h, sizeof(h)); /* failures stick in .err */
	for (uint32_t i = 0; i < d->n_events; i++) {
		const uint64_t id = perf_event_id(i);

		(void)sbuf_add(b, &id, sizeof(id));
	}
	for (uint32_t i = 0; i < d->n_events; i++) {
		const struct perf_section ids = {ids_at + i * sizeof(uint64_t), sizeof(uint64_t)};
		struct perf_event_attr attr;

		make_attr(&d->events[i], i == 0, &attr);
		(void)sbuf_add(b, &attr, ATTR_BYTES);
		(void)sbuf_add(b, &ids, sizeof(ids));
	}
}

/* ---- after the records ----------------------------------------------------------------------- */

static void put_u32(struct sbuf *b, uint32_t v)
{
	(void)sbuf_add(b, &v, sizeof(v));
}

static void put_u64(struct sbuf *b, uint64_t v)
{
	(void)sbuf_add(b, &v, sizeof(v));
}

static void put_rec(struct sbuf *b, const struct perf_rec *r)
{
	(void)sbuf_add(b, r->p, r->len);
}

/* Its padded length, and the string in that. */
static void put_string(struct sbuf *b, struct perf_rec *tmp, const char *s)
{
	tmp->len = 0;
	perf_rec_name(tmp, s, PERF_NAME_MAX, STRING_ALIGN);
	put_u32(b, (uint32_t)tmp->len);
	put_rec(b, tmp);
}

static void put_build_ids(const struct enc_perf_data *d, struct perf_rec *tmp, struct sbuf *b)
{
	for (size_t i = 0; i < d->n_build_ids; i++) {
		const struct enc_perf_build_id *id = &d->build_ids[i];
		uint8_t bytes[24] = {0}; /* the id in 20 bytes, its length, three reserved */

		memcpy(bytes, id->id, MIN_OF(id->len, sizeof(id->id)));
		bytes[20] = id->len;
		/* perf itself leaves the type of these 0. */
		perf_rec_header(tmp, 0,
		                BUILD_ID_SIZED | (id->kernel ? PERF_RECORD_MISC_KERNEL
		                                             : PERF_RECORD_MISC_USER));
		perf_rec_u32(tmp, id->pid);
		for (size_t k = 0; k < sizeof(bytes); k += sizeof(uint32_t)) {
			uint32_t word;

			memcpy(&word, bytes + k, sizeof(word));
			perf_rec_u32(tmp, word);
		}
		perf_rec_path(tmp, id->path, PERF_NAME_MAX, STRING_ALIGN);
		perf_rec_end(tmp);
		put_rec(b, tmp);
	}
}

static void put_event_desc(const struct enc_perf_data *d, struct perf_rec *tmp, struct sbuf *b)
{
	put_u32(b, d->n_events);
	put_u32(b, ATTR_BYTES);
	for (uint32_t i = 0; i < d->n_events; i++) {
		struct perf_event_attr attr;

		make_attr(&d->events[i], i == 0, &attr);
		(void)sbuf_add(b, &attr, ATTR_BYTES);
		put_u32(b, 1); /* ids */
		put_string(b, tmp, d->events[i].name);
		put_u64(b, perf_event_id(i));
	}
}

static void put_feature(const struct enc_perf_data *d, const struct perf_sizes *s,
                        enum perf_feature f, struct perf_rec *tmp, struct sbuf *b)
{
	const struct enc_perf_facts *x = &d->facts;

	switch (f) {
	case FEAT_BUILD_ID:
		put_build_ids(d, tmp, b);
		break;
	case FEAT_HOSTNAME:
		put_string(b, tmp, x->hostname);
		break;
	case FEAT_OSRELEASE:
		put_string(b, tmp, x->os_release);
		break;
	case FEAT_VERSION:
		put_string(b, tmp, x->version);
		break;
	case FEAT_ARCH:
		put_string(b, tmp, x->arch);
		break;
	case FEAT_NRCPUS:
		put_u32(b, x->cpus_avail);
		put_u32(b, x->cpus_online);
		break;
	case FEAT_CPUDESC:
		put_string(b, tmp, x->cpu_desc);
		break;
	case FEAT_CPUID:
		put_string(b, tmp, x->cpu_id);
		break;
	case FEAT_TOTAL_MEM:
		put_u64(b, x->total_mem_kib);
		break;
	case FEAT_CMDLINE:
		put_u32(b, x->n_cmdline);
		for (uint32_t i = 0; i < x->n_cmdline; i++)
			put_string(b, tmp, x->cmdline[i]);
		break;
	case FEAT_EVENT_DESC:
		put_event_desc(d, tmp, b);
		break;
	case FEAT_SAMPLE_TIME:
		put_u64(b, s->first_time_ns);
		put_u64(b, s->last_time_ns);
		break;
	case FEAT_CLOCKID:
		put_u64(b, 1); /* resolution, ns */
		break;
	case FEAT_COMPRESSED:
		put_u32(b, 1); /* version */
		put_u32(b, 1); /* zstd */
		put_u32(b, (uint32_t)d->zstd_level);
		put_u32(b, (uint32_t)(s->unpacked / MAX_OF(s->data, 1U)));
		put_u32(b, PERF_ZSTD_UNPACKED);
		break;
	case FEAT_CLOCK_DATA:
		put_u32(b, 1); /* version */
		put_u32(b, CLOCK_MONOTONIC);
		put_u64(b, x->realtime_ns);
		put_u64(b, x->monotonic_ns);
		break;
	case FEAT_CNT:
		break;
	}
}

void perf_put_features(const struct enc_perf_data *d, const struct perf_sizes *s, uint64_t at,
                       struct perf_rec *tmp, struct sbuf *b)
{
	const size_t table = b->len;
	uint32_t n = 0, k = 0;

	for (uint32_t f = 0; f < FEAT_CNT; f++)
		n += has_feature(d, (enum perf_feature)f);
	for (uint32_t i = 0; i < 2 * n; i++)
		put_u64(b, 0); /* filled below */
	for (uint32_t f = 0; f < FEAT_CNT && !b->err; f++) {
		const size_t start = b->len;
		struct perf_section section = {.offset = at + start - table};

		if (!has_feature(d, (enum perf_feature)f))
			continue;
		put_feature(d, s, (enum perf_feature)f, tmp, b);
		if (b->err)
			break;
		section.size = b->len - start;
		memcpy(b->p + table + k++ * sizeof(section), &section, sizeof(section));
	}
}
