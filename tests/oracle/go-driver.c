/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of a Go program's .gopclntab against those of its .debug_frame, at every pc of every
 * function that both tell: go-driver compare FILE
 * Or the rows of its .gopclntab as text: go-driver rows FILE
 * The last line of compare: {"functions": …, "pcs": …, "differ": …, "roots": …, "saved": …}
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#include "unwind/unwind_priv.h"

struct row {
	uint64_t at, fn_start, fn_end;
	uint16_t code;
};
struct rows {
	VEC(struct row) v;
	uint64_t start, end, functions;
	struct uw_rules *rules;
	struct uw_quota quota;
	struct uw_build_stats stats;
};

static int on_function(void *arg, uint64_t start, uint64_t end)
{
	struct rows *r = arg;

	r->start = start;
	r->end = end;
	r->functions++;
	return 0;
}

static int on_row(void *arg, uint64_t at, uint16_t code)
{
	struct rows *r = arg;
	struct row *last = r->v.n ? &r->v.p[r->v.n - 1] : NULL;

	if (at < r->start || at >= r->end)
		return 0;
	if (last && last->at == at) {
		last->code = code;
		return 0;
	}
	return vec_push(&r->v, ((struct row){at, r->start, r->end, code}));
}

static int by_at(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return (x->at > y->at) - (x->at < y->at);
}

static struct uw_sink sink_of(struct rows *r)
{
	return (struct uw_sink){.rules = r->rules,
	                        .quota = &r->quota,
	                        .stats = &r->stats,
	                        .function = on_function,
	                        .row = on_row,
	                        .arg = r};
}

/* Index of the last row at or before @at, SIZE_MAX if there is none. */
static size_t row_of(const struct rows *r, uint64_t at)
{
	size_t lo = 0, hi = r->v.n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (r->v.p[mid].at <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo ? lo - 1 : SIZE_MAX;
}

static bool is_root(const struct uw_rule *r)
{
	return r->kind == ABI_RULE_ROOT ||
	       (r->kind == ABI_RULE_FRAME && (r->col[ABI_COL_RA].kind == ABI_COL_SAME ||
	                                      r->col[ABI_COL_RA].kind == ABI_COL_UNDEF));
}

/* CFA and return address; the frame pointer is not in .debug_frame. */
static bool same(const struct uw_rule *a, const struct uw_rule *b)
{
	if (is_root(a) || is_root(b))
		return is_root(a) && is_root(b);
	return a->kind == b->kind && a->cfa_kind == b->cfa_kind && a->cfa_reg == b->cfa_reg &&
	       a->cfa_off == b->cfa_off && a->col[ABI_COL_RA].kind == b->col[ABI_COL_RA].kind &&
	       a->col[ABI_COL_RA].val == b->col[ABI_COL_RA].val;
}

static void say(const struct rows *r, uint64_t at, const struct uw_rule *rule)
{
	_cleanup_(sbuf_done) struct sbuf b;

	sbuf_init(&b, 4096);
	if (uw_rule_print(r->rules, rule, &b) < 0)
		return;
	printf("%#" PRIx64 " %s\n", at, b.p);
}

static int compare(const struct rows *df, const struct rows *go)
{
	uint64_t pcs = 0, differ = 0, roots = 0, saved = 0;

	for (size_t i = 0; i < df->v.n; i++) {
		const struct row *d = &df->v.p[i];
		const uint64_t end =
		        i + 1 < df->v.n ? MIN_OF(df->v.p[i + 1].at, d->fn_end) : d->fn_end;
		struct uw_rule want, got;

		if (uw_rules_expand(df->rules, d->code, &want) < 0)
			return 1;
		for (uint64_t at = d->at; at < end; at++) {
			const size_t k = row_of(go, at);

			if (k == SIZE_MAX || at >= go->v.p[k].fn_end)
				continue; /* no table: C code, padding */
			if (uw_rules_expand(go->rules, go->v.p[k].code, &got) < 0)
				return 1;
			pcs++;
			if (is_root(&got)) {
				roots++; /* the linker's .debug_frame does not tell them */
				continue;
			}
			saved += got.col[ABI_REG_FP].kind != ABI_COL_SAME;
			if (same(&want, &got))
				continue;
			if (differ++ < 20) {
				say(df, at, &want);
				say(go, at, &got);
			}
		}
	}
	printf("{\"functions\": %" PRIu64 ", \"pcs\": %" PRIu64 ", \"differ\": %" PRIu64
	       ", \"roots\": %" PRIu64 ", \"saved\": %" PRIu64 "}\n",
	       go->functions, pcs, differ, roots, saved);
	return 0;
}

int main(int argc, char **argv)
{
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	struct rows df = {.v = {.max = SIZE_MAX / 64}}, go = {.v = {.max = SIZE_MAX / 64}};
	struct uw_area area = {.debug_frame = true};
	_cleanup_close_ int fd = -EBADF;
	struct uw_rules *rules = NULL;
	struct err err = {0};
	struct uw_sink sink;
	struct img_area a;
	uint8_t *p = NULL;
	int r;

	if (argc != 3)
		return 2;
	fd = open(argv[2], O_RDONLY | O_CLOEXEC);
	if (fd < 0 || img_file_open(fd, &f, &err) < 0 || uw_rules_new(NULL, &rules) < 0)
		return 2;
	df.rules = go.rules = rules;
	sink = sink_of(&go);
	r = uw_go_read(f, &sink, NULL);
	if (r < 0) {
		fprintf(stderr, "%s: .gopclntab: %s\n", argv[2], err_name(r));
		return 1;
	}
	if (go.stats.bad_entries) {
		fprintf(stderr, "%s: %" PRIu64 " damaged\n", argv[2], go.stats.bad_entries);
		return 1;
	}
	if (strcmp(argv[1], "rows") == 0) {
		for (size_t i = 0; i < go.v.n; i++) {
			struct uw_rule rule;

			if (uw_rules_expand(rules, go.v.p[i].code, &rule) < 0)
				return 1;
			say(&go, go.v.p[i].at, &rule);
		}
	} else {
		r = img_area_find(f, IMG_AREA_DEBUG_FRAME, &a);
		if (r == 0)
			r = img_area_load(f, &a, SIZE_MAX, &p, &area.len);
		area.p = p;
		sink = sink_of(&df);
		if (r == 0)
			r = uw_cfi_read(f, &area, &sink);
		if (r < 0) {
			fprintf(stderr, "%s: .debug_frame: %s\n", argv[2], err_name(r));
			return 1;
		}
		/* In the order of the file, which need not be that of addresses. */
		qsort(df.v.p, df.v.n, sizeof(*df.v.p), by_at);
		if (compare(&df, &go) != 0)
			return 1;
	}
	free(p);
	vec_done(&df.v);
	vec_done(&go.v);
	uw_rules_free(rules);
	return 0;
}
