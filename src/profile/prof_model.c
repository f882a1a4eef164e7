/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "profile/profile.h"

/* Keys of the interners: hashed as bytes, so without padding. */
struct mapping_key {
	uint64_t start, limit, offset;
	uint32_t path, build_id;
};
_Static_assert(sizeof(struct mapping_key) == 32, "hashed as bytes");

struct function_key {
	int64_t start_line;
	uint32_t name, system_name, file, zero;
};
_Static_assert(sizeof(struct function_key) == 24, "hashed as bytes");

struct line_key {
	int64_t line;
	uint32_t function, column;
};
_Static_assert(sizeof(struct line_key) == 16, "hashed as bytes");

/* Followed by one line_key a line. */
struct location_key {
	uint64_t file_offset; /* the address, without a mapping */
	uint32_t mapping;     /* its serial + 1: survives a change of order; 0 none */
	uint32_t reason;
};
_Static_assert(sizeof(struct location_key) == 16, "hashed as bytes");

struct sample_key {
	uint32_t stack, labels; /* ids in stack_keys and label_keys */
};

_Static_assert(sizeof(struct prof_label) == 24, "label sets are hashed as bytes");

int prof_model_new(struct prof_model **ret)
{
	_cleanup_(prof_model_freep) struct prof_model *m = calloc(1, sizeof(*m));
	uint32_t id;
	int r;

	if (!m)
		return -ENOMEM;
	m->mappings.max = m->mapping_ids.max = PROF_MAPPINGS_MAX;
	m->functions.max = PROF_FUNCTIONS_MAX;
	m->locations.max = PROF_LOCATIONS_MAX;
	m->lines.max = PROF_LINES_MAX;
	m->samples.max = m->stack_first.max = m->label_first.max = PROF_SAMPLES_MAX;
	m->loc_ids.max = PROF_LOC_IDS_MAX;
	m->labels.max = PROF_LABELS_MAX;
	m->comments.max = PROF_COMMENTS_MAX;
	arena_init(&m->values, PROF_VALUE_BYTES_MAX);
	sbuf_init(&m->scratch, SIZE_MAX / 2); /* one location's lines or one sample's labels */

	r = intern_new(PROF_STRINGS_MAX, PROF_KEY_BYTES_MAX, &m->strings);
	if (r == 0)
		r = intern_new(PROF_MAPPINGS_MAX, PROF_KEY_BYTES_MAX, &m->mapping_keys);
	if (r == 0)
		r = intern_new(PROF_FUNCTIONS_MAX, PROF_KEY_BYTES_MAX, &m->function_keys);
	if (r == 0)
		r = intern_new(PROF_LOCATIONS_MAX, PROF_KEY_BYTES_MAX, &m->location_keys);
	if (r == 0)
		r = intern_new(PROF_SAMPLES_MAX, PROF_KEY_BYTES_MAX, &m->stack_keys);
	if (r == 0)
		r = intern_new(PROF_SAMPLES_MAX, PROF_KEY_BYTES_MAX, &m->label_keys);
	if (r == 0)
		r = intern_new(PROF_SAMPLES_MAX, PROF_KEY_BYTES_MAX, &m->sample_keys);
	if (r == 0)
		r = intern_add(m->strings, "", 0, &id, NULL);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(m);
	return 0;
}

struct prof_model *prof_model_free(struct prof_model *m)
{
	if (m) {
		intern_free(m->strings);
		intern_free(m->mapping_keys);
		intern_free(m->function_keys);
		intern_free(m->location_keys);
		intern_free(m->stack_keys);
		intern_free(m->label_keys);
		intern_free(m->sample_keys);
		vec_done(&m->mappings);
		vec_done(&m->functions);
		vec_done(&m->locations);
		vec_done(&m->lines);
		vec_done(&m->samples);
		vec_done(&m->loc_ids);
		vec_done(&m->labels);
		arena_done(&m->values);
		vec_done(&m->comments);
		vec_done(&m->mapping_ids);
		vec_done(&m->stack_first);
		vec_done(&m->label_first);
		sbuf_done(&m->scratch);
		free(m);
	}
	return NULL;
}

void prof_model_freep(struct prof_model **m)
{
	*m = prof_model_free(*m);
}

int prof_model_string(struct prof_model *m, const char *s, uint32_t *ret_id)
{
	return intern_add(m->strings, s, strlen(s), ret_id, NULL);
}

const char *prof_model_str(const struct prof_model *m, uint32_t id)
{
	return intern_get(m->strings, id, NULL);
}

static bool is_control(char c)
{
	return (unsigned char)c < ' ' || c == 0x7f;
}

int prof_model_text(struct prof_model *m, const char *s, uint32_t *ret_id)
{
	_cleanup_free_ char *copy = NULL;
	const char *p = s;

	while (*p && !is_control(*p))
		p++;
	if (!*p)
		return prof_model_string(m, s, ret_id);
	copy = strdup(s);
	if (!copy)
		return -ENOMEM;
	for (char *c = copy; *c; c++) {
		if (is_control(*c))
			*c = '?';
	}
	return prof_model_string(m, copy, ret_id);
}

int prof_model_comment(struct prof_model *m, const char *fmt, ...)
{
	_cleanup_free_ char *s = NULL;
	uint32_t id;
	va_list ap;
	int len, r;

	r = vec_reserve(&m->comments, 1);
	if (r < 0)
		return r;
	va_start(ap, fmt);
	len = vasprintf(&s, fmt, ap);
	va_end(ap);
	if (len < 0) {
		s = NULL; /* unspecified after a failure */
		return -ENOMEM;
	}
	if (len > PROF_COMMENT_LEN_MAX)
		return -E2BIG;
	for (char *p = s; *p; p++) {
		if (is_control(*p))
			*p = ' ';
	}
	r = prof_model_string(m, s, &id);
	if (r < 0)
		return r;
	return vec_push(&m->comments, id);
}

static void assert_string(const struct prof_model *m, uint32_t id)
{
	assert(id < intern_count(m->strings));
}

int prof_model_mapping(struct prof_model *m, const struct prof_mapping *map, uint32_t *ret_id)
{
	struct mapping_key key = {.start = map->start,
	                          .limit = map->limit,
	                          .offset = map->offset,
	                          .path = map->path,
	                          .build_id = map->build_id};
	uint32_t serial = intern_find(m->mapping_keys, &key, sizeof(key));
	int r;

	assert_string(m, map->path);
	assert_string(m, map->build_id);
	if (serial == INTERN_NONE) {
		r = vec_reserve(&m->mappings, 1);
		if (r == 0)
			r = vec_reserve(&m->mapping_ids, 1);
		if (r == 0)
			r = intern_add(m->mapping_keys, &key, sizeof(key), &serial, NULL);
		if (r < 0)
			return r;
		assert(serial == m->mappings.n);
		m->mappings.p[m->mappings.n++] = (struct prof_mapping){.start = map->start,
		                                                       .limit = map->limit,
		                                                       .offset = map->offset,
		                                                       .path = map->path,
		                                                       .build_id = map->build_id,
		                                                       .serial = serial};
		m->mapping_ids.p[m->mapping_ids.n++] = (uint32_t)m->mappings.n;
	}
	*ret_id = m->mapping_ids.p[serial];
	return 0;
}

int prof_model_function(struct prof_model *m, const struct prof_function *fn, uint32_t *ret_id)
{
	struct function_key key = {.start_line = fn->start_line,
	                           .name = fn->name,
	                           .system_name = fn->system_name,
	                           .file = fn->file};
	uint32_t idx = intern_find(m->function_keys, &key, sizeof(key));
	int r;

	assert_string(m, fn->name);
	assert_string(m, fn->system_name);
	assert_string(m, fn->file);
	if (idx == INTERN_NONE) {
		r = vec_reserve(&m->functions, 1);
		if (r == 0)
			r = intern_add(m->function_keys, &key, sizeof(key), &idx, NULL);
		if (r < 0)
			return r;
		assert(idx == m->functions.n);
		m->functions.p[m->functions.n++] = *fn;
	}
	*ret_id = idx + 1;
	return 0;
}

/* Only real names count. A function "0x…" for an unnamed address does not, so that pprof may
 * symbolize it. Exception: a file that pprof cannot tell from another at that path, whose names it
 * would use. */
static void mapping_flags(struct prof_model *m, const struct prof_location *loc)
{
	struct prof_mapping *map;

	if (loc->mapping == 0)
		return;
	map = &m->mappings.p[loc->mapping - 1];
	if (map->build_id == 0 && prof_model_str(m, map->path)[0] == '/')
		map->has_functions = true;
	if (loc->reason != EV_REASON_NAMED)
		return;
	for (uint32_t i = 0; i < loc->line_cnt; i++) {
		const struct prof_line *line = &m->lines.p[loc->line_first + i];

		if (line->function != 0) {
			map->has_functions = true;
			if (m->functions.p[line->function - 1].file != 0)
				map->has_filenames = true;
		}
		if (line->line != 0)
			map->has_lines = true;
	}
	if (loc->line_cnt > 1)
		map->has_inlines = true;
}

/* The key of a location in m->scratch. */
static int location_key(struct prof_model *m, uint32_t mapping, uint64_t address, uint8_t reason,
                        const struct prof_line *lines, uint32_t n_lines)
{
	struct location_key key = {.file_offset = address, .reason = reason};

	if (mapping) {
		const struct prof_mapping *map = &m->mappings.p[mapping - 1];

		/* Without a known range (limit 0) every address is inside. */
		if (map->limit != 0 && (address < map->start || address >= map->limit))
			return -EINVAL;
		key.file_offset = address - map->start + map->offset;
		key.mapping = map->serial + 1;
	}
	sbuf_reset(&m->scratch);
	(void)sbuf_add(&m->scratch, &key, sizeof(key)); /* failures stick in .err */
	for (uint32_t i = 0; i < n_lines; i++) {
		struct line_key line = {.line = lines[i].line,
		                        .function = lines[i].function,
		                        .column = lines[i].column};

		assert(lines[i].function <= m->functions.n);
		(void)sbuf_add(&m->scratch, &line, sizeof(line));
	}
	return m->scratch.err;
}

int prof_model_location(struct prof_model *m, uint32_t mapping, uint64_t address, uint8_t reason,
                        const struct prof_line *lines, uint32_t n_lines, uint32_t *ret_id)
{
	struct prof_location loc = {.mapping = mapping,
	                            .address = address,
	                            .line_first = (uint32_t)m->lines.n,
	                            .line_cnt = n_lines,
	                            .reason = reason};
	uint32_t idx;
	int r;

	assert(mapping <= m->mappings.n);
	if (n_lines > PROF_LOCATION_LINES_MAX)
		return -E2BIG;
	r = location_key(m, mapping, address, reason, lines, n_lines);
	if (r < 0)
		return r;
	idx = intern_find(m->location_keys, m->scratch.p, m->scratch.len);
	if (idx == INTERN_NONE) {
		r = vec_reserve(&m->locations, 1);
		if (r == 0)
			r = vec_reserve(&m->lines, n_lines);
		if (r == 0)
			r = intern_add(m->location_keys, m->scratch.p, m->scratch.len, &idx, NULL);
		if (r < 0)
			return r;
		assert(idx == m->locations.n);
		for (uint32_t i = 0; i < n_lines; i++)
			m->lines.p[m->lines.n++] = lines[i];
		m->locations.p[m->locations.n++] = loc;
		mapping_flags(m, &loc);
	}
	*ret_id = idx + 1;
	return 0;
}

void prof_model_uncovered(struct prof_model *m, uint32_t id)
{
	assert(id > 0 && id <= m->locations.n);
	m->locations.p[id - 1].uncovered = true;
}

/* Samples of many threads share stacks: each list of locations is kept once. */
static int stack_id(struct prof_model *m, const uint32_t *locs, uint32_t n, uint32_t *ret_id)
{
	size_t bytes = (size_t)n * sizeof(*locs);
	const void *key = n ? (const void *)locs : "";
	uint32_t id = intern_find(m->stack_keys, key, bytes);
	int r;

	if (id == INTERN_NONE) {
		for (uint32_t i = 0; i < n; i++)
			assert(locs[i] > 0 && locs[i] <= m->locations.n);
		r = vec_reserve(&m->loc_ids, n);
		if (r == 0)
			r = vec_reserve(&m->stack_first, 1);
		if (r == 0)
			r = intern_add(m->stack_keys, key, bytes, &id, NULL);
		if (r < 0)
			return r;
		m->stack_first.p[m->stack_first.n++] = (uint32_t)m->loc_ids.n;
		for (uint32_t i = 0; i < n; i++)
			m->loc_ids.p[m->loc_ids.n++] = locs[i];
	}
	*ret_id = id;
	return 0;
}

static int labels_id(struct prof_model *m, const struct prof_label *labels, uint32_t n,
                     uint32_t *ret_id)
{
	uint32_t id;
	int r;

	sbuf_reset(&m->scratch);
	(void)sbuf_reserve(&m->scratch, 0); /* not NULL for an empty set; failures stick in .err */
	for (uint32_t i = 0; i < n; i++) {
		struct prof_label label = labels[i];

		assert_string(m, label.key);
		assert_string(m, label.str);
		if (label.str != 0)
			label.num = 0;
		(void)sbuf_add(&m->scratch, &label, sizeof(label));
	}
	if (m->scratch.err)
		return m->scratch.err;
	id = intern_find(m->label_keys, m->scratch.p, m->scratch.len);
	if (id == INTERN_NONE) {
		r = vec_reserve(&m->labels, n);
		if (r == 0)
			r = vec_reserve(&m->label_first, 1);
		if (r == 0)
			r = intern_add(m->label_keys, m->scratch.p, m->scratch.len, &id, NULL);
		if (r < 0)
			return r;
		m->label_first.p[m->label_first.n++] = (uint32_t)m->labels.n;
		if (n > 0)
			memcpy(m->labels.p + m->labels.n, m->scratch.p, m->scratch.len);
		m->labels.n += n;
	}
	*ret_id = id;
	return 0;
}

/* Makes room for the values of a sample, all 0. */
static int add_values(struct prof_model *m, int64_t **ret)
{
	const size_t bytes = m->n_types * sizeof(**ret);

	*ret = arena_alloc(&m->values, bytes);
	if (*ret)
		return 0;
	/* A new chunk has a header of less than 64 bytes as well. */
	return bytes + 64 > m->values.max_bytes - m->values.used_bytes ? -E2BIG : -ENOMEM;
}

int prof_model_sample(struct prof_model *m, const uint32_t *locs, uint32_t n_locs,
                      const struct prof_label *labels, uint32_t n_labels, const int64_t *values)
{
	struct prof_sample s = {.loc_cnt = n_locs, .label_cnt = n_labels};
	struct sample_key key = {0};
	int64_t *value;
	uint32_t idx;
	int r;

	assert(m->n_types <= PROF_TYPE_MAX);
	if (n_locs > PROF_SAMPLE_LOCS_MAX || n_labels > PROF_SAMPLE_LABELS_MAX)
		return -E2BIG;
	r = stack_id(m, locs, n_locs, &key.stack);
	if (r == 0)
		r = labels_id(m, labels, n_labels, &key.labels);
	if (r < 0)
		return r;
	idx = intern_find(m->sample_keys, &key, sizeof(key));
	if (idx == INTERN_NONE) {
		r = vec_reserve(&m->samples, 1);
		if (r == 0)
			r = add_values(m, &s.value);
		if (r == 0)
			r = intern_add(m->sample_keys, &key, sizeof(key), &idx, NULL);
		if (r < 0)
			return r;
		assert(idx == m->samples.n);
		s.loc_first = m->stack_first.p[key.stack];
		s.label_first = m->label_first.p[key.labels];
		m->samples.p[m->samples.n++] = s;
	}
	value = m->samples.p[idx].value;
	assert(value || m->n_types == 0);
	for (uint32_t i = 0; i < m->n_types; i++)
		value[i] = prof_sat_add(value[i], values[i]);
	return 0;
}

uint32_t prof_model_sample_at(struct prof_model *m, const uint32_t *locs, uint32_t n_locs,
                              const struct prof_label *labels, uint32_t n_labels)
{
	struct sample_key key = {0};

	if (stack_id(m, locs, n_locs, &key.stack) < 0 ||
	    labels_id(m, labels, n_labels, &key.labels) < 0)
		return UINT32_MAX;
	return intern_find(m->sample_keys, &key, sizeof(key));
}

void prof_model_main_mapping(struct prof_model *m, uint32_t id)
{
	struct prof_mapping main_map;

	assert(id <= m->mappings.n);
	if (id <= 1)
		return;
	main_map = m->mappings.p[id - 1];
	memmove(m->mappings.p + 1, m->mappings.p, (id - 1) * sizeof(main_map));
	m->mappings.p[0] = main_map;
	for (uint32_t i = 0; i < id; i++)
		m->mapping_ids.p[m->mappings.p[i].serial] = i + 1;
	vec_each (loc, &m->locations) {
		if (loc->mapping == id)
			loc->mapping = 1;
		else if (loc->mapping > 0 && loc->mapping < id)
			loc->mapping++;
	}
}
