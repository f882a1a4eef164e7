/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: pprof-driver                          prints the names of its models, one a line
 *        pprof-driver MODEL OUT.pb.gz OUT.jsonl
 *
 * Builds a model, writes it as pprof and as text: one JSON array a line, strings as hexadecimal
 * digits of their bytes (test-pprof-oracle.py has the fields). The text comes from the model, never
 * from what the encoder made.
 */
#include <inttypes.h>
#include <stdio.h>

#include "encode/encode.h"

/* Inputs are constants: whatever fails here is a bug. */
#define MUST(call)                                                                                 \
	do {                                                                                       \
		int must_ = (call);                                                                \
		if (must_ != 0) {                                                                  \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,              \
			        err_name(must_));                                                  \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static uint64_t rnd_state = 88172645463325252ULL;

static uint32_t rnd(uint32_t below) /* xorshift64: repeats */
{
	rnd_state ^= rnd_state << 13;
	rnd_state ^= rnd_state >> 7;
	rnd_state ^= rnd_state << 17;
	return (uint32_t)(rnd_state >> 16) % below;
}

/* ---- making models -------------------------------------------------------------------------- */

static uint32_t str(struct prof_model *m, const char *s)
{
	uint32_t id;

	MUST(prof_model_string(m, s, &id));
	return id;
}

static uint32_t fn(struct prof_model *m, const char *name, const char *sys, const char *file,
                   int64_t start)
{
	struct prof_function f = {.start_line = start};
	uint32_t id;

	f.name = str(m, name);
	f.system_name = str(m, sys);
	f.file = str(m, file);
	MUST(prof_model_function(m, &f, &id));
	return id;
}

static uint32_t map(struct prof_model *m, uint64_t start, uint64_t limit, uint64_t off,
                    const char *path, const char *build_id)
{
	struct prof_mapping pm = {.start = start, .limit = limit, .offset = off};
	uint32_t id;

	pm.path = str(m, path);
	pm.build_id = str(m, build_id);
	MUST(prof_model_mapping(m, &pm, &id));
	return id;
}

static uint32_t loc(struct prof_model *m, uint32_t mapping, uint64_t addr, uint8_t reason,
                    const struct prof_line *lines, uint32_t n)
{
	uint32_t id;

	MUST(prof_model_location(m, mapping, addr, reason, lines, n, &id));
	return id;
}

static uint32_t named(struct prof_model *m, uint32_t mapping, uint64_t addr, const char *name)
{
	struct prof_line line = {.function = fn(m, name, name, "", 0)};

	return loc(m, mapping, addr, EV_REASON_NAMED, &line, 1);
}

static void sample(struct prof_model *m, const uint32_t *locs, uint32_t n,
                   const struct prof_label *labels, uint32_t n_labels, int64_t cnt, int64_t ns)
{
	int64_t values[PROF_TYPE_MAX] = {cnt, ns};

	MUST(prof_model_sample(m, locs, n, labels, n_labels, values));
}

static void build_empty(struct prof_model *m)
{
	MUST(prof_model_comment(m, "samples: 0"));
}

static void build_basic(struct prof_model *m)
{
	uint32_t lib = map(m, 0x7f0000001000, 0x7f0000005000, 0x1000, "/no/libx.so", "");
	uint32_t exe = map(m, 0x400000, 0x402000, 0, "/no/prog", "00ff12");
	uint32_t kern = map(m, 0xffffffff80000000, UINT64_MAX, 0, "[kernel]", "");
	struct prof_line inl[] = {{.function = fn(m, "inner()", "_Z5innerv", "i.h", 3), .line = 5},
	                          {.function = fn(m, "outer()", "_Z5outerv", "o.c", 9), .line = 17},
	                          {.function = fn(m, "outmost()", "_Z7outmostv", "o.c", 2),
	                           .line = 4}};
	uint32_t s[] = {named(m, kern, 0xffffffff80000010, "sys_read"),
	                loc(m, lib, 0x7f0000001004, EV_REASON_NAMED, inl, 3),
	                loc(m, lib, 0x7f0000001005, EV_REASON_NO_SYMBOL, NULL, 0),
	                loc(m, 0, 0x1234, EV_REASON_NO_MAPPING, NULL, 0),
	                named(m, exe, 0x400001, "main")};

	sample(m, s, 5, NULL, 0, 3, 30000000);
	sample(m, s + 1, 4, NULL, 0, 2, 20000000);
	sample(m, s + 2, 3, NULL, 0, 1, 10000000);
	sample(m, s + 3, 2, NULL, 0, 7, 70000000);
	sample(m, s + 4, 1, NULL, 0, 5, 50000000);
	sample(m, s, 5, NULL, 0, 1, 10000000); /* joins the first */
	prof_model_main_mapping(m, exe);
	MUST(prof_model_comment(m, "key: value"));
	MUST(prof_model_comment(m, "key: value"));
	MUST(prof_model_comment(m, "tag: a=b"));
}

static void build_huge(struct prof_model *m)
{
	uint32_t top = map(m, UINT64_MAX - 0xfff, UINT64_MAX, UINT64_MAX - 0xfff, "/no/high", "ab");
	struct prof_line line = {.function = fn(m, "f", "f", "f.c", INT64_MAX), .line = INT64_MAX};
	struct prof_line neg = {.function = fn(m, "g", "g", "g.c", -1), .line = INT64_MIN};
	uint32_t a = loc(m, top, UINT64_MAX - 1, EV_REASON_NAMED, &line, 1);
	uint32_t b = loc(m, 0, UINT64_MAX, EV_REASON_NAMED, &neg, 1);
	struct prof_label labels[] = {{.key = str(m, "big"), .num = INT64_MAX},
	                              {.key = str(m, "small"), .num = INT64_MIN}};

	m->time_realtime_ns = INT64_MAX;
	m->duration_ns = INT64_MAX;
	m->period = INT64_MAX;
	sample(m, &a, 1, labels, 2, INT64_MAX, 1);
	sample(m, &a, 1, labels, 2, 1, 1); /* stops at the end */
	sample(m, &b, 1, labels + 1, 1, 127, 128);
	sample(m, &b, 1, labels, 1, 16383, 16384);
	sample(m, &b, 1, NULL, 0, INT64_MIN, -1);
}

static void build_names(struct prof_model *m)
{
	static const char *const names[] = {
	        "größe",
	        "関数",
	        "🔥::<impl Foo for Bar<'a>>::baz",
	        "operator\"\"_x(char const*, unsigned long)",
	        "back\\slash 'quote'",
	        "bad \xff\xfe byte",
	        "cut \xe2\x82",
	        "surrogate \xed\xa0\x80",
	        "overlong \xc0\x80",
	        "a:b c/d [e] (f) {g} M=1 s=2",
	};
	uint32_t mapping = map(m, 0x1000, 0x9000, 0, "/no/ünï \xfc path", "");

	for (uint32_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct prof_label l = {.key = str(m, "comm"), .str = str(m, names[i])};
		struct prof_line line = {.function = fn(m, names[i], "x", names[i], i), .line = i};
		uint32_t id = loc(m, mapping, 0x1000 + i, EV_REASON_NAMED, &line, 1);

		sample(m, &id, 1, &l, 1, i + 1, i * 1000 + 1);
		MUST(prof_model_comment(m, "%s", names[i]));
	}
}

/* Not for pprof -raw, which has a line for each thing. */
static void build_control(struct prof_model *m)
{
	char name[256];
	uint32_t id;

	for (int i = 1; i < 256; i++)
		name[i - 1] = (char)i;
	name[255] = '\0';
	id = named(m, 0, 1, name);
	sample(m, &id, 1, NULL, 0, 1, 1);
	id = named(m, 0, 2, "line\nbreak\r\n\ttab");
	sample(m, &id, 1, NULL, 0, 1, 1);
}

static void build_recursion(struct prof_model *m)
{
	uint32_t exe = map(m, 0x400000, 0x500000, 0x2000, "/no/rec", "");
	static uint32_t deep[1024];
	uint32_t a[3], b, cycle[6], n = 0;

	for (uint32_t i = 0; i < 3; i++)
		a[i] = named(m, exe, 0x400100 + i, "a"); /* three call sites */
	b = named(m, exe, 0x400200, "b");
	for (uint32_t i = 0; i < 6; i++)
		cycle[i] = i % 2 ? b : a[i / 2];
	sample(m, cycle, 6, NULL, 0, 10, 100);
	sample(m, cycle + 1, 5, NULL, 0, 20, 200);
	while (n < ARRAY_SIZE(deep) - 1)
		deep[n++] = a[0];
	deep[n++] = named(m, exe, 0x400300, "main");
	sample(m, deep, n, NULL, 0, 5, 50);
	sample(m, deep + 1000, n - 1000, NULL, 0, 1, 10);
}

static void build_labels(struct prof_model *m)
{
	uint32_t id = named(m, 0, 1, "f");
	struct prof_label l[] = {{.key = str(m, "pid"), .num = 1},
	                         {.key = str(m, "tid"), .num = 4194304},
	                         {.key = str(m, "comm"), .str = str(m, "kworker/0:1")},
	                         {.key = str(m, "comm"), .str = str(m, "other")},
	                         {.key = str(m, "neg"), .num = -5}};

	for (uint32_t from = 0; from < ARRAY_SIZE(l); from++) {
		for (uint32_t n = 1; from + n <= ARRAY_SIZE(l); n++)
			sample(m, &id, 1, l + from, n, from + n, n);
	}
	sample(m, &id, 1, NULL, 0, 1, 1);
	sample(m, NULL, 0, l, 3, 1, 1);
	sample(m, NULL, 0, NULL, 0, 2, 1);
}

#define MANY_SAMPLES 30000 /* 1.6 MB: from 1 MiB on the file is compressed at another level */
#define MANY_LOCS    5000
#define MANY_FUNCS   800
#define MANY_MAPS    30

static void build_many(struct prof_model *m)
{
	static uint32_t maps[MANY_MAPS], funcs[MANY_FUNCS], locs[MANY_LOCS];
	uint32_t pid = str(m, "pid"), tid = str(m, "tid"), comm = str(m, "comm");

	for (uint32_t i = 0; i < MANY_MAPS; i++) {
		uint64_t start = 0x7f0000000000 + i * 0x100000;
		char path[32];

		(void)snprintf(path, sizeof(path), "/no/lib%u.so", i);
		maps[i] = map(m, start, start + 0x100000, 0x1000 * i, path, "");
	}
	for (uint32_t i = 0; i < MANY_FUNCS; i++) {
		char name[32];

		(void)snprintf(name, sizeof(name), "function_%u", i);
		funcs[i] = fn(m, name, name, i % 3 ? "" : "file.c", i % 7);
	}
	for (uint32_t i = 0; i < MANY_LOCS; i++) {
		uint64_t addr = 0x7f0000000000 + (i % MANY_MAPS) * 0x100000 + i * 16;
		struct prof_line lines[3];

		for (uint32_t k = 0; k < ARRAY_SIZE(lines); k++)
			lines[k] = (struct prof_line){.function = funcs[rnd(MANY_FUNCS)],
			                              .line = rnd(300)};
		locs[i] = loc(m, maps[i % MANY_MAPS], addr, EV_REASON_NAMED, lines, rnd(4));
	}
	while (m->samples.n < MANY_SAMPLES) {
		struct prof_label l[] = {{.key = pid, .num = 1 + rnd(100)},
		                         {.key = tid, .num = 1 + rnd(100000)},
		                         {.key = comm, .str = str(m, rnd(2) ? "one" : "two")}};
		uint32_t stack[16], n = 1 + rnd(ARRAY_SIZE(stack));
		uint32_t cnt = 1 + rnd(1000);

		for (uint32_t i = 0; i < n; i++)
			stack[i] = locs[rnd(MANY_LOCS)];
		sample(m, stack, n, l, 3, cnt, (int64_t)cnt * 10101010);
	}
	prof_model_main_mapping(m, maps[MANY_MAPS - 1]);
}

static const struct {
	const char *name;
	void (*build)(struct prof_model *m);
} models[] = {
        {"empty", build_empty},   {"basic", build_basic},     {"huge", build_huge},
        {"names", build_names},   {"control", build_control}, {"recursion", build_recursion},
        {"labels", build_labels}, {"many", build_many},
};

/* ---- text ----------------------------------------------------------------------------------- */

static void put_str(FILE *f, const struct prof_model *m, uint32_t id)
{
	const char *s = prof_model_str(m, id);

	fputc('"', f);
	while (*s)
		fprintf(f, "%02x", (unsigned char)*s++);
	fputc('"', f);
}

/* ["tag", string …   without its end */
static void put_strs(FILE *f, const struct prof_model *m, const char *tag, const uint32_t *ids,
                     size_t n)
{
	fprintf(f, "[\"%s\"", tag);
	for (size_t i = 0; i < n; i++) {
		fputs(", ", f);
		put_str(f, m, ids[i]);
	}
}

static void put_sample(FILE *f, const struct prof_model *m, const struct prof_sample *s)
{
	fputs("[\"sample\", [", f);
	for (uint32_t i = 0; i < s->loc_cnt; i++)
		fprintf(f, "%s%u", i ? ", " : "", m->loc_ids.p[s->loc_first + i]);
	fputs("], [", f);
	for (uint32_t i = 0; i < m->n_types; i++)
		fprintf(f, "%s%" PRId64, i ? ", " : "", s->value[i]);
	fputs("], [", f);
	for (uint32_t i = 0; i < s->label_cnt; i++) {
		const struct prof_label *l = &m->labels.p[s->label_first + i];

		put_strs(f, m, "label", (uint32_t[]){l->key, l->str}, 2);
		fprintf(f, ", %" PRId64 "]%s", l->num, i + 1 < s->label_cnt ? ", " : "");
	}
	fputs("]]\n", f);
}

static void put_location(FILE *f, const struct prof_model *m, const struct prof_location *l)
{
	fprintf(f, "[\"location\", %u, %" PRIu64 ", [", l->mapping, l->address);
	for (uint32_t i = 0; i < l->line_cnt; i++) {
		const struct prof_line *line = &m->lines.p[l->line_first + i];

		fprintf(f, "%s[%u, %" PRId64 "]", i ? ", " : "", line->function, line->line);
	}
	fputs("]]\n", f);
}

static void put_tops(FILE *f, const struct prof_model *m)
{
	for (uint32_t type = 0; type < m->n_types; type++) {
		_cleanup_free_ struct prof_top *top = NULL;
		size_t n;

		MUST(prof_model_top(m, type, SIZE_MAX, &top, &n));
		for (size_t i = 0; i < n; i++) {
			fprintf(f, "[\"top\", %u, %u, ", type, top[i].mapping);
			put_str(f, m, top[i].name);
			fprintf(f, ", %" PRId64 ", %" PRId64 "]\n", top[i].self, top[i].cum);
		}
	}
}

static void put_model(FILE *f, const struct prof_model *m)
{
	for (uint32_t i = 0; i < m->n_types; i++) {
		put_strs(f, m, "sample_type",
		         (uint32_t[]){m->sample_type[i].type, m->sample_type[i].unit}, 2);
		fputs("]\n", f);
	}
	put_strs(f, m, "period_type", (uint32_t[]){m->period_type.type, m->period_type.unit}, 2);
	fputs("]\n", f);
	put_strs(f, m, "default_type", &m->default_type, 1);
	fprintf(f, "]\n[\"numbers\", %" PRId64 ", %" PRId64 ", %" PRId64 "]\n", m->period,
	        m->time_realtime_ns, m->duration_ns);
	put_strs(f, m, "comments", m->comments.p, m->comments.n);
	fputs("]\n", f);
	for (size_t i = 0; i < m->mappings.n; i++) {
		const struct prof_mapping *p = &m->mappings.p[i];

		put_strs(f, m, "mapping", (uint32_t[]){p->path, p->build_id}, 2);
		fprintf(f, ", %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %d, %d, %d, %d]\n", p->start,
		        p->limit, p->offset, p->has_functions, p->has_filenames, p->has_lines,
		        p->has_inlines);
	}
	for (size_t i = 0; i < m->functions.n; i++) {
		const struct prof_function *p = &m->functions.p[i];

		put_strs(f, m, "function", (uint32_t[]){p->name, p->system_name, p->file}, 3);
		fprintf(f, ", %" PRId64 "]\n", p->start_line);
	}
	for (size_t i = 0; i < m->locations.n; i++)
		put_location(f, m, &m->locations.p[i]);
	for (size_t i = 0; i < m->samples.n; i++)
		put_sample(f, m, &m->samples.p[i]);
	put_tops(f, m);
}

/* ---- main ----------------------------------------------------------------------------------- */

static struct prof_model *new_model(void)
{
	struct prof_model *m;

	MUST(prof_model_new(&m));
	m->n_types = 2;
	m->sample_type[0] = (struct prof_type){str(m, "samples"), str(m, "count")};
	m->sample_type[1] = (struct prof_type){str(m, "cpu"), str(m, "nanoseconds")};
	m->default_type = m->sample_type[1].type;
	m->period_type = m->sample_type[1];
	m->period = 10101010;
	m->time_realtime_ns = 1700000000123456789;
	m->duration_ns = 10000000001;
	return m;
}

static int write_model(struct prof_model *m, const char *pprof, const char *text)
{
	_cleanup_(enc_output_freep) struct enc_output *o = NULL;
	struct sbuf gz;
	struct err err = {0};
	FILE *f = fopen(text, "we");

	if (!f) {
		fprintf(stderr, "%s: %s\n", text, err_name(errno));
		return 1;
	}
	put_model(f, m);
	if (ferror(f) | fclose(f)) {
		fprintf(stderr, "write %s failed\n", text);
		return 1;
	}
	sbuf_init(&gz, (size_t)1 << 30);
	if (enc_output_open(&(struct pfa_output){.path = pprof}, &o, &err) < 0 ||
	    enc_pprof(m, &gz) < 0 || enc_output_commit(o, gz.p, gz.len, &err) < 0) {
		fprintf(stderr, "%s: %s\n", pprof, gz.err ? err_name(gz.err) : err.msg);
		sbuf_done(&gz);
		return 1;
	}
	sbuf_done(&gz);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 1) {
		for (size_t i = 0; i < ARRAY_SIZE(models); i++)
			puts(models[i].name);
		return 0;
	}
	for (size_t i = 0; argc == 4 && i < ARRAY_SIZE(models); i++) {
		_cleanup_(prof_model_freep) struct prof_model *m = NULL;

		if (strcmp(models[i].name, argv[1]) != 0)
			continue;
		m = new_model();
		models[i].build(m);
		return write_model(m, argv[2], argv[3]);
	}
	fprintf(stderr, "usage: %s [MODEL OUT.pb.gz OUT.jsonl]\n", argv[0]);
	return 2;
}
