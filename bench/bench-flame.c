// SPDX-License-Identifier: Apache-2.0
/*
 * bench-flame - bytes and time of the encoders of stacks, from a model that is made here
 *
 *   bench-flame [STACKS [DIRECTORY]]     default: 100,000; with DIRECTORY the files are written there
 *   bench-flame STACKS - FORMAT          encodes once, for tools that count instructions: html, timed.html, svg, folded, pb.gz
 *
 * The model: 12,000 functions in 40 files, names of 20 to 120 bytes, each function with 1 to 12 callees of which the first
 * are called most; stacks of 5 to 60 frames, as a service of C++ with some kernel has them; 64 threads. Each of 16 CPUs has a
 * period of its own, and each thread a ratio of its time to its samples, as in a capture. "timed.html" is the
 * page with a time line of 60 s: each event at a time of its own. Prints, for each encoder, bytes, bytes per 1,000 stacks
 * and the median of 5 times.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "encode/encode.h"

#include "bench_chance.h"

#define FUNCTIONS 12000
#define CALLEES   12
#define MODULES   40
#define THREADS   64
#define CPUS      16
#define DEPTH_MAX 60
#define PERIOD_NS 10101010
#define RUNS      5

static void must(int r, const char *what)
{
	if (r < 0) {
		fprintf(stderr, "bench-flame: %s: %s\n", what, strerrorname_np(-r));
		exit(1);
	}
}

static uint32_t str(struct prof_model *m, const char *s)
{
	uint32_t id;

	must(prof_model_string(m, s, &id), "string");
	return id;
}

static void make_name(char *to, size_t size, uint32_t i)
{
	static const char *const words[] = {"std",    "vector",   "request",    "parse",
	                                    "http",   "handler",  "storage",    "engine",
	                                    "detail", "allocate", "shared_ptr", "string",
	                                    "index",  "commit",   "query"};
	size_t parts = 2 + chance(8), at = 0;

	for (size_t k = 0; k < parts && at < size; k++)
		at += (size_t)snprintf(to + at, size - at, "%s%s", k ? "::" : "",
		                       words[chance(ARRAY_SIZE(words))]);
	if (at < size)
		(void)snprintf(to + at, size - at, "::function_%u(unsigned long, char const*)", i);
}

static VEC(struct enc_time_sample) times;
static uint32_t locations[FUNCTIONS];
static uint32_t callees[FUNCTIONS][CALLEES], callee_cnt[FUNCTIONS];

static void make_functions(struct prof_model *m)
{
	uint32_t maps[MODULES];

	for (uint32_t i = 0; i < MODULES; i++) {
		char path[64], id[48];
		struct prof_mapping map = {.start = 0x400000 + ((uint64_t)i << 24)};

		(void)snprintf(path, sizeof(path),
		               i ? "/usr/lib/x86_64-linux-gnu/libpart%u.so.1" : "[kernel]", i);
		(void)snprintf(id, sizeof(id), "%08x%08x%08x%08x%08x", chance(1u << 31),
		               chance(1u << 31), chance(1u << 31), chance(1u << 31),
		               chance(1u << 31));
		map.limit = map.start + (1 << 24);
		map.path = str(m, path);
		map.build_id = str(m, id);
		must(prof_model_mapping(m, &map, &maps[i]), "mapping");
	}
	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		char name[512], file[64];
		struct prof_function fn = {.start_line = 1 + chance(3000)};
		struct prof_line line = {0};
		uint32_t module = i % MODULES;

		make_name(name, sizeof(name), i);
		(void)snprintf(file, sizeof(file), "/build/src/part%u/file%u.cc", module, i / 20);
		fn.name = str(m, name);
		fn.file = str(m, file);
		must(prof_model_function(m, &fn, &line.function), "function");
		line.line = fn.start_line;
		must(prof_model_location(m, maps[module],
		                         0x400000 + ((uint64_t)module << 24) + i * 64,
		                         EV_REASON_NAMED, &line, 1, &locations[i]),
		     "location");
		callee_cnt[i] = 1 + chance(CALLEES);
		for (uint32_t k = 0; k < CALLEES; k++)
			callees[i][k] = chance(FUNCTIONS);
	}
}

/* The smallest of two: the first callees are called most. */
static uint32_t step(uint32_t fn)
{
	uint32_t a = chance(callee_cnt[fn]), b = chance(callee_cnt[fn]);

	return callees[fn][MIN_OF(a, b)];
}

static void make_samples(struct prof_model *m, uint32_t stacks)
{
	int64_t period_of[CPUS], ratio_pct[THREADS];
	struct intern *seen;
	uint32_t made = 0, path[DEPTH_MAX], locs[DEPTH_MAX], depth = 1;

	must(intern_new(UINT32_MAX - 1, SIZE_MAX / 2, &seen), "intern");
	for (size_t i = 0; i < CPUS; i++)
		period_of[i] = PERIOD_NS + chance(PERIOD_NS / 40);
	for (size_t i = 0; i < THREADS; i++)
		ratio_pct[i] = 97 + chance(7);
	path[0] = 0;
	while (made < stacks) {
		/* The next stack shares its beginning with the one before. */
		uint32_t keep = 1 + chance(depth), to = MIN_OF(keep + chance(14), DEPTH_MAX - 1),
		         id;
		uint32_t thread = chance(THREADS);
		bool is_new;
		struct prof_label labels[3];
		int64_t values[2] = {1 + (chance(8) == 0 ? chance(40) : 0), 0};

		keep = MAX_OF(keep, MIN_OF(depth, 4U));
		for (uint32_t i = keep; i <= to; i++)
			path[i] = step(path[i - 1]);
		depth = MAX_OF(to, keep - 1) + 1;
		for (uint32_t i = 0; i < depth; i++)
			locs[depth - 1 - i] = locations[path[i]];
		must(intern_add(seen, locs, depth * sizeof(*locs), &id, &is_new), "stack");
		made += is_new;
		for (int64_t k = 0; k < values[0]; k++)
			values[1] += period_of[chance(CPUS)];
		values[1] = values[1] * ratio_pct[thread] / 100;
		labels[0] = (struct prof_label){.key = str(m, "pid"), .num = 4711};
		labels[1] = (struct prof_label){.key = str(m, "tid"), .num = 4711 + thread};
		labels[2] = (struct prof_label){.key = str(m, "comm"),
		                                .str = str(m, thread % 4 ? "worker" : "service")};
		must(prof_model_sample(m, locs, depth, labels, 3, values), "sample");
	}
	intern_free(seen);
}

/* As many events of each sample as it has counted. */
static void make_times(const struct prof_model *m)
{
	for (uint32_t i = 0; i < m->samples.n; i++)
		for (int64_t k = 0; k < m->samples.p[i].value[0]; k++) {
			struct enc_time_sample t = {.start_ns = (uint64_t)chance(60000) * 1000000 +
			                                        chance(1000000),
			                            .sample = i};

			must(vec_push(&times, t), "times");
		}
}

static int cmp_u64(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Not inlined: tools that count instructions know it by its name. */
__attribute__((noinline)) static int encode(const struct prof_model *m, const char *format,
                                            struct sbuf *b)
{
	struct enc_flame_profile p = {.model = m};

	if (strcmp(format, "html") == 0)
		return enc_flame_html(&p, 1, b);
	if (strcmp(format, "timed.html") == 0) {
		p.times = times.p;
		p.n_times = times.n;
		return enc_flame_html(&p, 1, b);
	}
	if (strcmp(format, "svg") == 0)
		return enc_flame_svg(m, 1, b);
	if (strcmp(format, "pb.gz") == 0)
		return enc_pprof(m, b);
	return enc_folded(m, &(struct enc_folded_options){0}, b);
}

static void encode_once(const struct prof_model *m, const char *format)
{
	struct sbuf b;

	sbuf_init(&b, (size_t)1 << 30);
	must(encode(m, format, &b), format);
	printf("%zu bytes\n", b.len);
	sbuf_done(&b);
}

static void measure(const struct prof_model *m, const char *format, uint32_t stacks,
                    const char *dir)
{
	uint64_t took[RUNS];
	struct sbuf b;

	for (int i = 0; i < RUNS; i++) {
		uint64_t began;

		sbuf_init(&b, (size_t)1 << 30);
		began = thread_own_cpu_ns();
		must(encode(m, format, &b), format);
		took[i] = thread_own_cpu_ns() - began;
		if (i < RUNS - 1)
			sbuf_done(&b);
	}
	qsort(took, RUNS, sizeof(*took), cmp_u64);
	printf("%-10s %10zu bytes %8zu bytes/1,000 stacks %8.1f ms CPU\n", format, b.len,
	       b.len * 1000 / stacks, (double)took[RUNS / 2] / 1e6);
	if (dir) {
		char path[4096];
		FILE *f;

		(void)snprintf(path, sizeof(path), "%s/flame.%s", dir, format);
		f = fopen(path, "we");
		if (!f || fwrite(b.p, 1, b.len, f) != b.len || fclose(f))
			must(-EIO, path);
	}
	sbuf_done(&b);
}

int main(int argc, char **argv)
{
	static const char *const formats[] = {"html", "timed.html", "svg", "folded", "pb.gz"};
	uint64_t stacks = 100000;
	struct prof_model *m;

	if (argc > 4 ||
	    (argc > 1 && (parse_u64(argv[1], 10, &stacks) < 0 || !stacks || stacks > 4000000))) {
		fprintf(stderr, "usage: bench-flame [STACKS [DIRECTORY|- [FORMAT]]]\n");
		return 2;
	}
	must(prof_model_new(&m), "model");
	m->n_types = 2;
	m->sample_type[0] = (struct prof_type){str(m, "samples"), str(m, "count")};
	m->sample_type[1] = (struct prof_type){str(m, "cpu"), str(m, "nanoseconds")};
	m->default_type = m->sample_type[1].type;
	m->duration_ns = 60000000000;
	m->period = PERIOD_NS;
	must(prof_model_comment(m, "target: all processes"), "comment");
	make_functions(m);
	make_samples(m, (uint32_t)stacks);
	times.max = 1 << 24;
	make_times(m);
	printf("%llu stacks, %zu samples, %zu events\n", (unsigned long long)stacks, m->samples.n,
	       times.n);
	if (argc == 4)
		encode_once(m, argv[3]);
	for (size_t i = 0; argc < 4 && i < ARRAY_SIZE(formats); i++)
		measure(m, formats[i], (uint32_t)stacks, argc > 2 ? argv[2] : NULL);
	vec_done(&times);
	prof_model_free(m);
	return 0;
}
