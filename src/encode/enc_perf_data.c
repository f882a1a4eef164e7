/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file as a whole. Its header has the size of the records, and an output cannot go back to it:
 * the first pass over the stream adds up sizes, the second one writes.
 */
#include "encode/enc_perf_priv.h"

#include <inttypes.h>

#define PART_BYTES ((size_t)64 << 10)
/* Records in order until a mark need not be sorted with later ones: perf reads a file with marks
 * in little memory, and keeps one without them as a whole. */
#define ROUND_BYTES   ((uint64_t)1 << 20)
#define ROUND_MARK    68                  /* PERF_RECORD_FINISHED_ROUND of perf */
#define FEATURES_MAX  ((size_t)256 << 20) /* of sections: 1 M build-ids with usual paths */
#define BUILD_IDS_MAX ((size_t)1 << 20)

struct perf_writer {
	const struct enc_perf_data *d;
	enc_perf_write_fn write; /* NULL in the first pass */
	void *arg;
	struct err *err;
	struct perf_sizes sizes;
	uint64_t last_time_ns, since_mark;
	struct sbuf part;
	struct perf_zstd *zstd; /* NULL: records are written as they are */
	struct perf_rec rec;
};

static int flush(struct perf_writer *w)
{
	int r = w->part.err;

	if (r == 0 && w->part.len)
		r = w->write(w->arg, w->part.p, w->part.len);
	sbuf_reset(&w->part);
	return r;
}

/* Counts and, in the second pass, writes a record as it is. */
static int emit(void *arg, const struct perf_rec *r)
{
	struct perf_writer *w = arg;

	w->sizes.data += r->len;
	if (!w->write)
		return 0;
	(void)sbuf_add(&w->part, r->p, r->len);
	return w->part.err || w->part.len >= PART_BYTES ? flush(w) : 0;
}

static int pack(struct perf_writer *w)
{
	return w->zstd ? perf_zstd_pack(w->zstd, &w->rec, emit, w) : 0;
}

/* A record of the stream. */
static int emit_packed(struct perf_writer *w)
{
	assert(w->rec.len % 8 == 0); /* perf reads records where it finds them */
	w->sizes.unpacked += w->rec.len;
	w->since_mark += w->rec.len;
	if (!w->zstd)
		return emit(w, &w->rec);
	return perf_zstd_add(w->zstd, &w->rec) ? pack(w) : 0;
}

static int emit_mark(struct perf_writer *w)
{
	int r = pack(w);

	if (r < 0)
		return r;
	perf_rec_header(&w->rec, ROUND_MARK, 0);
	perf_rec_end(&w->rec);
	w->since_mark = 0;
	w->sizes.unpacked += w->rec.len;
	return emit(w, &w->rec);
}

static int add(struct perf_writer *w, const struct enc_perf_record *x)
{
	int r;

	if (x->time_ns < w->last_time_ns)
		return err_set(w->err, -EINVAL,
		               "perf.data: a record of %" PRIu64 " ns follows one of %" PRIu64
		               " ns",
		               x->time_ns, w->last_time_ns);
	w->last_time_ns = x->time_ns;
	r = perf_record_make(w->d, x, &w->rec);
	if (r < 0)
		return err_set(w->err, r, "perf.data: a record of type %d cannot be written: %s",
		               (int)x->type, err_name(r));
	if (x->type == ENC_PERF_SAMPLE) {
		if (!w->sizes.samples++)
			w->sizes.first_time_ns = x->time_ns;
		w->sizes.last_time_ns = x->time_ns;
	}
	r = emit_packed(w);
	return r == 0 && w->since_mark >= ROUND_BYTES ? emit_mark(w) : r;
}

/* One pass over samples and process events, in order of time. */
static int pass(struct perf_writer *w)
{
	const struct enc_perf_data *d = w->d;
	struct enc_perf_record x;
	size_t side = 0;
	int more, r = 0;

	w->sizes = (struct perf_sizes){0};
	w->last_time_ns = w->since_mark = 0;
	if (w->zstd)
		perf_zstd_begin(w->zstd);
	if (d->kernel.end) {
		perf_kernel_map_make(&d->kernel, &w->rec);
		w->sizes.unpacked += w->rec.len;
		r = emit(w, &w->rec);
	}
	if (r == 0 && d->rewind)
		d->rewind(d->arg);
	do {
		more = r == 0 && d->next ? d->next(d->arg, &x) : 0;
		while (r == 0 && more >= 0 && side < d->n_side &&
		       (more == 0 || d->side[side].time_ns <= x.time_ns))
			r = add(w, &d->side[side++]);
		if (r == 0 && more > 0)
			r = add(w, &x);
	} while (r == 0 && more > 0);
	if (r == 0 && more < 0)
		r = err_set(w->err, more, "perf.data: reading the samples: %s", err_name(more));
	return r < 0 ? r : emit_mark(w);
}

static int check(const struct enc_perf_data *d, struct err *err)
{
	const struct enc_perf_kernel *k = &d->kernel;

	if (d->n_events < 1 || d->n_events > ENC_PERF_EVENTS_MAX)
		return err_set(err, -EINVAL, "perf.data: %u events, not 1 to %d", d->n_events,
		               ENC_PERF_EVENTS_MAX);
	if (d->zstd_level < 0 || d->zstd_level > 22)
		return err_set(err, -EINVAL, "perf.data: level %d of zstd, not 1 to 22",
		               d->zstd_level);
	if (k->end && (k->start >= k->end || !k->ref_name))
		return err_set(err, -EINVAL, "perf.data: the kernel's mapping is empty");
	if (d->n_build_ids > BUILD_IDS_MAX)
		return err_set(err, -E2BIG, "perf.data: more than %zu build-ids", BUILD_IDS_MAX);
	for (size_t i = 0; i < d->n_build_ids; i++)
		if (d->build_ids[i].len < 1 || d->build_ids[i].len > sizeof(d->build_ids[i].id))
			return err_set(err, -EINVAL, "perf.data: a build-id of %u bytes",
			               d->build_ids[i].len);
	return 0;
}

static int write_all(struct perf_writer *w, enc_perf_write_fn write, void *arg)
{
	struct perf_sizes first;
	uint64_t at;
	int r = pass(w);

	if (r < 0)
		return r;
	first = w->sizes;
	w->write = write;
	w->arg = arg;
	perf_put_header(w->d, &first, &w->part);
	at = w->part.len + first.data;
	r = pass(w);
	if (r < 0)
		return r;
	if (w->sizes.data != first.data || w->sizes.samples != first.samples)
		return err_set(w->err, -EINVAL,
		               "perf.data: the samples were not the same when read again");
	r = flush(w);
	if (r < 0)
		return r;
	perf_put_features(w->d, &first, at, &w->rec, &w->part);
	return flush(w);
}

int enc_perf_data(const struct enc_perf_data *d, enc_perf_write_fn write, void *arg,
                  struct err *err)
{
	_cleanup_free_ struct perf_writer *w = NULL;
	int r = check(d, err);

	if (r < 0)
		return r;
	w = calloc(1, sizeof(*w));
	if (!w)
		return err_set(err, -ENOMEM, "perf.data: out of memory (ENOMEM)");
	w->d = d;
	w->err = err;
	sbuf_init(&w->part, FEATURES_MAX);
	r = d->zstd_level ? perf_zstd_new(d->zstd_level, &w->zstd) : 0;
	if (r == 0)
		r = write_all(w, write, arg);
	else
		r = err_set(err, r, "perf.data: zstd: %s", err_name(r));
	sbuf_done(&w->part);
	w->zstd = perf_zstd_free(w->zstd);
	return r;
}
