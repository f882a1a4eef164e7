/* SPDX-License-Identifier: Apache-2.0 */
/* Values of functions by line and address. */
#include "report_models.h"

#include "report/rep_priv.h"

#define BASE 0x10000 /* of the mapping; its file offset is 0x1000 */

/* One frame: "function:line", inlined calls first, and the address. */
struct frame {
	uint64_t addr;
	const char *lines[3];
};

static uint32_t add_location(struct prof_model *m, uint32_t map, const struct frame *f)
{
	struct prof_line lines[3] = {0};
	uint32_t n = 0, id;

	for (; n < 3 && f->lines[n]; n++) {
		char name[64];
		char *colon;

		(void)snprintf(name, sizeof(name), "%s", f->lines[n]);
		colon = strchr(name, ':');
		assert_non_null(colon);
		*colon = 0;
		lines[n].line = strtoll(colon + 1, NULL, 10);
		lines[n].function = rm_function(m, name);
	}
	assert_int_equal(prof_model_location(m, map, f->addr, 0, lines, n, &id), 0);
	return id;
}

static void add_sample(struct prof_model *m, uint32_t map, int64_t value,
                       const struct frame *frames, size_t n)
{
	const int64_t values[] = {value / 100, value};
	uint32_t locs[4];

	for (size_t i = 0; i < n; i++)
		locs[i] = add_location(m, map, &frames[i]);
	assert_int_equal(prof_model_sample(m, locs, (uint32_t)n, NULL, 0, values), 0);
}

/* work: self 100 at line 20, 300 at line 22, and 600 of square, which is inlined at line 22; it
 * calls itself from line 30, and is called by main. */
static struct prof_model *model(const char *path)
{
	static const char *const none[] = {NULL};
	struct prof_model *m = rm_model(none);
	struct prof_mapping map = {.start = BASE, .limit = BASE + 0x10000, .offset = 0x1000};
	uint32_t id;

	map.path = rm_string(m, path);
	map.build_id = rm_string(m, "abcd");
	assert_int_equal(prof_model_mapping(m, &map, &id), 0);
	add_sample(m, id, 100,
	           (const struct frame[]){{BASE + 0x10, {"work:20"}}, {BASE + 0x105, {"main:7"}}},
	           2);
	add_sample(m, id, 300,
	           (const struct frame[]){{BASE + 0x24, {"work:22"}}, {BASE + 0x105, {"main:7"}}},
	           2);
	add_sample(m, id, 600,
	           (const struct frame[]){{BASE + 0x28, {"square:3", "work:22"}},
	                                  {BASE + 0x2d, {"work:30"}},
	                                  {BASE + 0x2d, {"work:30"}},
	                                  {BASE + 0x105, {"main:7"}}},
	           4);
	return m;
}

/* ---- folding --------------------------------------------------------------------------------- */

static void line_is(const struct rep_sites *s, size_t i, int64_t line, int64_t self, int64_t cum)
{
	assert_true(i < s->lines.n);
	assert_int_equal(s->lines.p[i].line, line);
	assert_int_equal(s->lines.p[i].self, self);
	assert_int_equal(s->lines.p[i].cum, cum);
}

static void address_is(const struct rep_sites *s, size_t i, uint64_t off, int64_t line,
                       int64_t self, int64_t cum)
{
	assert_true(i < s->addresses.n);
	assert_int_equal(s->addresses.p[i].off, off);
	assert_int_equal(s->addresses.p[i].line, line);
	assert_int_equal(s->addresses.p[i].self, self);
	assert_int_equal(s->addresses.p[i].cum, cum);
}

static void test_lines_and_addresses_have_the_values_of_their_function(void **state)
{
	_cleanup_(prof_model_freep) struct prof_model *m = model("/bin/app");
	_cleanup_(rep_sites_done) struct rep_sites s = {0}, inlined = {0};

	(void)state;
	assert_int_equal(rep_sites_of(m, 1, rm_string(m, "work"), &s), 0);
	assert_int_equal(s.lines.n, 3);
	line_is(&s, 0, 20, 100, 100);
	line_is(&s, 1, 22, 300, 900); /* square has its own self value */
	line_is(&s, 2, 30, 0, 600);   /* recursion counts once a sample */
	assert_int_equal(s.addresses.n, 4);
	address_is(&s, 0, 0x1010, 20, 100, 100);
	address_is(&s, 1, 0x1024, 22, 300, 300);
	address_is(&s, 2, 0x1028, 22, 0, 600);
	address_is(&s, 3, 0x102d, 30, 0, 600);
	assert_int_equal(rep_sites_of(m, 1, rm_string(m, "square"), &inlined), 0);
	assert_int_equal(inlined.lines.n, 1);
	line_is(&inlined, 0, 3, 600, 600);
	address_is(&inlined, 0, 0x1028, 3, 600, 600);
}

static void test_addresses_without_a_range_have_no_file(void **state)
{
	_cleanup_(prof_model_freep) struct prof_model *m = rm_model((const char *const[]){NULL});
	_cleanup_(rep_sites_done) struct rep_sites s = {0};
	struct prof_mapping map = {.path = rm_string(m, "/bin/app")};
	uint32_t id;

	(void)state;
	assert_int_equal(prof_model_mapping(m, &map, &id), 0);
	add_sample(m, id, 100, &(const struct frame){0x4321, {"work:-5"}}, 1);
	add_sample(m, 0, 200, &(const struct frame){0, {"work:0"}}, 1);
	assert_int_equal(rep_sites_of(m, 1, rm_string(m, "work"), &s), 0);
	assert_int_equal(s.lines.n, 1); /* a negative line is not known either */
	line_is(&s, 0, 0, 300, 300);
	assert_int_equal(s.addresses.n, 2);
	assert_int_equal(s.addresses.p[1].path, 0);
	address_is(&s, 0, 0, 0, 200, 200);
	address_is(&s, 1, 0x4321, 0, 100, 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_lines_and_addresses_have_the_values_of_their_function),
	        cmocka_unit_test(test_addresses_without_a_range_have_no_file),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
