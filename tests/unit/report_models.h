/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report-models - models from lines of text, for tests of reports
 *
 *     "comm=nginx pid=7|main;work@/lib/libx.so;outer^inner 3 300"
 *
 * Labels, '|', frames root first, then the values. "outer^inner": inner is inlined; "@PATH": the
 * mapping; a frame "?@PATH" has no name. A label value of digits is a number. The source file of
 * a function f is "f.c". "0x12 [x]" is the text that perf-agent writes for code without a name.
 */
#ifndef PA_TEST_REPORT_MODELS_H
#define PA_TEST_REPORT_MODELS_H

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include "report/report.h"

#define RM_ITEMS_MAX 64

static inline uint32_t rm_string(struct prof_model *m, const char *s)
{
	uint32_t id;

	assert_int_equal(prof_model_string(m, s, &id), 0);
	return id;
}

static inline uint32_t rm_function(struct prof_model *m, const char *name)
{
	struct prof_function fn = {.name = rm_string(m, name), .system_name = 0, .start_line = 1};
	char file[256];
	uint32_t id;

	(void)snprintf(file, sizeof(file), "%s.c", name);
	if (strncmp(name, "0x", 2) != 0)
		fn.file = rm_string(m, file);
	else
		fn.system_name = rm_string(m, "unresolved: no symbol table");
	assert_int_equal(prof_model_function(m, &fn, &id), 0);
	return id;
}

static inline uint32_t rm_mapping(struct prof_model *m, const char *path)
{
	struct prof_mapping map = {.start = 0x1000, .limit = 0x100000};
	uint32_t id;

	map.path = rm_string(m, path);
	map.start += (uint64_t)map.path << 32;
	map.limit += (uint64_t)map.path << 32;
	assert_int_equal(prof_model_mapping(m, &map, &id), 0);
	return id;
}

/* @frame is changed. Addresses differ by name, so that equal frames are one location. */
static inline uint32_t rm_location(struct prof_model *m, char *frame)
{
	struct prof_line lines[RM_ITEMS_MAX] = {0}, reversed[RM_ITEMS_MAX];
	char *at = strchr(frame, '@'), *save = NULL;
	uint32_t mapping, n = 0, id;
	uint64_t address;

	if (at)
		*at++ = 0;
	mapping = rm_mapping(m, at ? at : "/bin/app");
	address = m->mappings.p[mapping - 1].start + hash_bytes(frame, strlen(frame)) % 0xf0000;
	for (char *f = strtok_r(frame, "^", &save); f && strcmp(frame, "?") != 0;
	     f = strtok_r(NULL, "^", &save)) {
		lines[n] = (struct prof_line){.function = rm_function(m, f), .line = 11 + n};
		n++;
	}
	for (uint32_t i = 0; i < n; i++)
		reversed[i] = lines[n - 1 - i];
	assert_int_equal(prof_model_location(m, mapping, address, 0, reversed, n, &id), 0);
	return id;
}

static inline uint32_t rm_labels(struct prof_model *m, char *text, struct prof_label *labels)
{
	char *save = NULL;
	uint32_t n = 0;

	for (char *l = strtok_r(text, " ", &save); l; l = strtok_r(NULL, " ", &save)) {
		char *value = strchr(l, '='), *end;
		struct prof_label label = {0};
		long long number;

		*value++ = 0;
		label.key = rm_string(m, l);
		number = strtoll(value, &end, 10);
		if (*end)
			label.str = rm_string(m, value);
		else
			label.num = number;
		labels[n++] = label;
	}
	return n;
}

static inline void rm_add(struct prof_model *m, const char *line)
{
	_cleanup_free_ char *copy = strdup(line);
	struct prof_label labels[RM_ITEMS_MAX];
	uint32_t locs[RM_ITEMS_MAX] = {0}, leaf_first[RM_ITEMS_MAX], n = 0, n_labels;
	int64_t values[PROF_TYPE_MAX] = {0};
	char *frames = strchr(copy, '|'), *numbers, *save = NULL;

	*frames++ = 0;
	numbers = strchr(frames, ' ');
	*numbers++ = 0;
	n_labels = rm_labels(m, copy, labels);
	for (uint32_t i = 0; i < m->n_types; i++)
		values[i] = strtoll(numbers, &numbers, 10);
	for (char *f = strtok_r(frames, ";", &save); f; f = strtok_r(NULL, ";", &save))
		locs[n++] = rm_location(m, f);
	for (uint32_t i = 0; i < n; i++)
		leaf_first[i] = locs[n - 1 - i];
	assert_int_equal(prof_model_sample(m, leaf_first, n, labels, n_labels, values), 0);
}

/* @lines: NULL-terminated. Values: samples/count, cpu/nanoseconds. */
static inline struct prof_model *rm_model(const char *const *lines)
{
	struct prof_model *m;

	assert_int_equal(prof_model_new(&m), 0);
	m->n_types = 2;
	m->sample_type[0].type = rm_string(m, "samples");
	m->sample_type[0].unit = rm_string(m, "count");
	m->sample_type[1].type = rm_string(m, "cpu");
	m->sample_type[1].unit = rm_string(m, "nanoseconds");
	m->default_type = m->sample_type[1].type;
	m->duration_ns = 10000000000;
	for (; *lines; lines++)
		rm_add(m, *lines);
	return m;
}

#endif
