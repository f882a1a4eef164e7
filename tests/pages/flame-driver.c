// SPDX-License-Identifier: Apache-2.0
/*
 * flame-driver - makes profiles of what standard input describes, and writes them in one format
 *
 *   flame-driver html|svg|folded|pprof <DESCRIPTION >OUTPUT
 *   flame-driver diff|diff-svg BEFORE AFTER <DESCRIPTION >OUTPUT
 *                             a page or a picture that compares the two profiles, and their names
 *
 * One thing a line, with tabs between its words, in which "\xNN" is a byte:
 *   profile TYPE              "cpu" or "offcpu"; begins a profile
 *   comment TEXT
 *   seconds COUNT             the length of the capture; 10
 *   period NS                 of sampling; 0: not known
 *   location ID MODULE BUILD-ID ADDRESS REASON FUNCTION…
 *                             functions innermost first, each NAME|LINKAGE|FILE|LINE; MODULE may be empty
 *   uncovered ID              a location whose caller was found heuristically
 *   sample COUNT NS PID TID COMM STATE LONGEST ID…
 *                             leaf first; STATE and LONGEST are empty on CPU
 *   time START DURATION SAMPLE VALUE
 *                             of the time line; SAMPLE is an index of samples; VALUE may be negative
 *   lost COUNT                events that are not in the time line
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "encode/encode.h"

#define WORDS_MAX     1100
#define LOCATIONS_MAX 100000
#define MODELS_MAX    2

struct profile {
	struct enc_flame_profile p;
	VEC(struct enc_time_sample) times;
};

static struct profile profiles[MODELS_MAX];
static struct prof_model *m;
static size_t n_models;
static uint32_t locations[LOCATIONS_MAX];

static void must(int r, const char *what)
{
	if (r < 0) {
		fprintf(stderr, "flame-driver: %s: %s\n", what, strerrorname_np(-r));
		exit(1);
	}
}

static uint32_t str(const char *s)
{
	uint32_t id;

	must(prof_model_string(m, s, &id), "string");
	return id;
}

static uint64_t number(const char *s)
{
	uint64_t v = 0;

	if (*s)
		must(parse_u64(s, 10, &v), s);
	return v;
}

static int hex(char c)
{
	return isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10;
}

static void unescape(char *s)
{
	char *to = s;

	for (; *s; s++)
		if (s[0] == '\\' && s[1] == 'x' && isxdigit((unsigned char)s[2]) &&
		    isxdigit((unsigned char)s[3])) {
			*to++ = (char)(hex(s[2]) * 16 + hex(s[3]));
			s += 3;
		} else {
			*to++ = *s;
		}
	*to = '\0';
}

static size_t split(char *line, char separator, char **words)
{
	size_t n = 0;

	for (char *at = line; at && n < WORDS_MAX;) {
		words[n++] = at;
		at = strchr(at, separator);
		if (at)
			*at++ = '\0';
	}
	return n;
}

static void begin_profile(const char *type)
{
	if (n_models == MODELS_MAX)
		must(-E2BIG, "profile");
	must(prof_model_new(&m), "model");
	profiles[n_models].times.max = SIZE_MAX / sizeof(struct enc_time_sample);
	profiles[n_models++].p.model = m;
	m->n_types = 2;
	m->sample_type[0] =
	        (struct prof_type){str(strcmp(type, "offcpu") == 0 ? "contentions" : "samples"),
	                           str("count")};
	m->sample_type[1] = (struct prof_type){str(type), str("nanoseconds")};
	m->default_type = m->sample_type[1].type;
	m->time_realtime_ns = 1700000000000000000;
	m->duration_ns = 10000000000;
}

static void add_location(char **w, size_t n)
{
	struct prof_mapping map = {.path = str(w[2]), .build_id = str(w[3])};
	struct prof_line lines[64] = {0};
	uint32_t mapping = 0, n_lines = 0, id = (uint32_t)number(w[1]);

	if (*w[2])
		must(prof_model_mapping(m, &map, &mapping), "mapping");
	for (size_t i = 6; i < n && n_lines < 64; i++) {
		char *parts[WORDS_MAX];
		struct prof_function fn = {0};

		if (split(w[i], '|', parts) != 4)
			must(-EINVAL, "function");
		for (size_t k = 0; k < 3; k++)
			unescape(parts[k]);
		fn.name = str(parts[0]);
		fn.system_name = str(parts[1]);
		fn.file = str(parts[2]);
		fn.start_line = (int64_t)number(parts[3]);
		must(prof_model_function(m, &fn, &lines[n_lines].function), "function");
		lines[n_lines++].line = fn.start_line;
	}
	if (id >= LOCATIONS_MAX)
		must(-E2BIG, "location");
	must(prof_model_location(m, mapping, number(w[4]), (uint8_t)number(w[5]), lines, n_lines,
	                         &locations[id]),
	     "location");
}

static void add_sample(char **w, size_t n)
{
	const int64_t values[] = {(int64_t)number(w[1]), (int64_t)number(w[2])};
	struct prof_label labels[5];
	uint32_t locs[WORDS_MAX], n_locs = 0, n_labels = 0;

	labels[n_labels++] = (struct prof_label){.key = str("pid"), .num = (int64_t)number(w[3])};
	labels[n_labels++] = (struct prof_label){.key = str("tid"), .num = (int64_t)number(w[4])};
	unescape(w[5]);
	labels[n_labels++] = (struct prof_label){.key = str("comm"), .str = str(w[5])};
	if (*w[6])
		labels[n_labels++] = (struct prof_label){.key = str("state"), .str = str(w[6])};
	if (*w[7])
		labels[n_labels++] = (struct prof_label){.key = str("longest"),
		                                         .num = (int64_t)number(w[7]),
		                                         .unit = str("nanoseconds")};
	for (size_t i = 8; i < n; i++)
		if (*w[i])
			locs[n_locs++] = locations[number(w[i]) % LOCATIONS_MAX];
	must(prof_model_sample(m, locs, n_locs, labels, n_labels, values), "sample");
}

static void add_time(char **w)
{
	const struct enc_time_sample t = {.start_ns = number(w[1]),
	                                  .duration_ns = number(w[2]),
	                                  .sample = (uint32_t)number(w[3])};

	must(vec_push(&profiles[n_models - 1].times, t), "time");
}

static void read_line(char *line)
{
	char *words[WORDS_MAX] = {line};
	size_t n = split(line, '\t', words);

	if (strcmp(words[0], "profile") == 0 && n == 2) {
		begin_profile(words[1]);
	} else if (m && strcmp(words[0], "comment") == 0 && n == 2) {
		unescape(words[1]);
		must(prof_model_comment(m, "%s", words[1]), "comment");
	} else if (m && strcmp(words[0], "seconds") == 0 && n == 2) {
		m->duration_ns = (int64_t)number(words[1]) * 1000000000;
	} else if (m && strcmp(words[0], "period") == 0 && n == 2) {
		m->period = (int64_t)number(words[1]);
	} else if (m && strcmp(words[0], "location") == 0 && n >= 6) {
		add_location(words, n);
	} else if (m && strcmp(words[0], "uncovered") == 0 && n == 2) {
		prof_model_uncovered(m, locations[number(words[1]) % LOCATIONS_MAX]);
	} else if (m && strcmp(words[0], "sample") == 0 && n >= 8) {
		add_sample(words, n);
	} else if (m && strcmp(words[0], "time") == 0 && n == 4) {
		add_time(words);
	} else if (m && strcmp(words[0], "lost") == 0 && n == 2) {
		profiles[n_models - 1].p.times_lost = number(words[1]);
	} else {
		must(-EINVAL, words[0]);
	}
}

static int encode_html(struct sbuf *b)
{
	struct enc_flame_profile all[MODELS_MAX];

	for (size_t i = 0; i < n_models; i++) {
		all[i] = profiles[i].p;
		all[i].times = profiles[i].times.p;
		all[i].n_times = profiles[i].times.n;
	}
	return enc_flame_html(all, n_models, b);
}

static int compare(char **argv, struct sbuf *b)
{
	const struct enc_flame_diff d = {.before = profiles[0].p.model,
	                                 .after = profiles[1].p.model,
	                                 .before_name = argv[2],
	                                 .after_name = argv[3]};

	return strcmp(argv[1], "diff") == 0 ? enc_flame_diff_html(&d, b)
	                                    : enc_flame_diff_svg(&d, 1, b);
}

int main(int argc, char **argv)
{
	const char *format = argc == 2 || argc == 4 ? argv[1] : "";
	char *line = NULL;
	size_t size = 0;
	struct sbuf b;
	ssize_t len;
	int r = -EINVAL;

	while ((len = getline(&line, &size, stdin)) > 0) {
		if (line[len - 1] == '\n')
			line[len - 1] = '\0';
		read_line(line);
	}
	free(line);
	if (!n_models)
		must(-EINVAL, "no profile");
	sbuf_init(&b, (size_t)1 << 30);
	if (strcmp(format, "html") == 0)
		r = encode_html(&b);
	else if (str_starts(format, "diff") && argc == 4 && n_models == 2)
		r = compare(argv, &b);
	else if (strcmp(format, "svg") == 0)
		r = enc_flame_svg(m, 1, &b);
	else if (strcmp(format, "folded") == 0)
		r = enc_folded(m, &(struct enc_folded_options){0}, &b);
	else if (strcmp(format, "pprof") == 0)
		r = enc_pprof(m, &b);
	must(r, format);
	if (fwrite(b.p, 1, b.len, stdout) != b.len || fflush(stdout))
		must(-EIO, "write");
	sbuf_done(&b);
	for (size_t i = 0; i < n_models; i++) {
		vec_done(&profiles[i].times);
		prof_model_free((struct prof_model *)(uintptr_t)profiles[i].p.model);
	}
	return 0;
}
