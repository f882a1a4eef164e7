/* SPDX-License-Identifier: Apache-2.0 */
/* test-session-extra - the outputs of profiles besides pprof. */
#include "session/session_priv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static int keep(void *arg, const void *data, size_t len)
{
	struct sbuf *b = arg;

	return sbuf_add(b, data, len);
}

static int refuse(void *arg, const void *data, size_t len)
{
	(void)arg;
	(void)data;
	(void)len;
	return -ENOSPC;
}

static struct prof_model *model(bool offcpu)
{
	struct prof_function fn = {0};
	struct prof_line line = {0};
	const int64_t values[] = {3, 7000000};
	struct prof_model *m;
	uint32_t loc;

	assert_int_equal(prof_model_new(&m), 0);
	m->n_types = 2;
	assert_int_equal(prof_model_string(m, offcpu ? "contentions" : "samples",
	                                   &m->sample_type[0].type),
	                 0);
	assert_int_equal(prof_model_string(m, offcpu ? "offcpu" : "cpu", &m->sample_type[1].type),
	                 0);
	assert_int_equal(prof_model_string(m, "nanoseconds", &m->sample_type[1].unit), 0);
	assert_int_equal(prof_model_string(m, "work", &fn.name), 0);
	assert_int_equal(prof_model_function(m, &fn, &line.function), 0);
	assert_int_equal(prof_model_location(m, 0, 1, EV_REASON_NAMED, &line, 1, &loc), 0);
	assert_int_equal(prof_model_sample(m, &loc, 1, NULL, 0, values), 0);
	return m;
}

static struct ses *session(uint32_t modes, const struct pfa_extra_output *extra)
{
	const struct pfa_options o = {
	        .target = PFA_TARGET_ALL, .modes = modes, .extra_outputs = extra};
	struct ses *s = NULL;

	assert_int_equal(ses_new(&o, &s, NULL), 0);
	if (s->o.modes & PFA_MODE_PROFILE)
		s->product[SRC_ONCPU].result.model = model(false);
	if (s->o.modes & PFA_MODE_OFFCPU)
		s->product[SRC_OFFCPU].result.model = model(true);
	return s;
}

#define BOTH (PFA_MODE_PROFILE | PFA_MODE_OFFCPU)
#define TO                                                                                         \
	{                                                                                          \
		.path = "x"                                                                        \
	}
#define LIST(...)                                                                                  \
	(const struct pfa_extra_output[])                                                          \
	{                                                                                          \
		__VA_ARGS__,                                                                       \
		{                                                                                  \
			.format = PFA_PROFILE_END                                                  \
		}                                                                                  \
	}

static void test_extra_outputs_are_checked(void **state)
{
	const struct {
		uint32_t modes;
		struct pfa_extra_output x;
		const char *want; /* in the message; NULL: it is right */
	} cases[] = {
	        {0, {.format = PFA_PROFILE_FLAME_HTML, .to = TO}, NULL},
	        {BOTH, {.format = PFA_PROFILE_FLAME_HTML, .to = TO}, NULL},
	        {BOTH,
	         {.format = PFA_PROFILE_FOLDED, .modes = PFA_MODE_OFFCPU, .root = 2, .to = TO},
	         NULL},
	        {BOTH | PFA_MODE_PMU,
	         {.format = PFA_PROFILE_FLAME_SVG, .modes = PFA_MODE_PROFILE, .to = TO},
	         NULL},
	        {0, {.format = 5, .to = TO}, "unknown format 5"},
	        {0, {.format = PFA_PROFILE_PERF_DATA, .root = 1, .to = TO}, "root must be 0"},
	        {PFA_MODE_PMU, {.format = PFA_PROFILE_PERF_DATA, .to = TO}, "modes"},
	        {0, {.format = PFA_PROFILE_FLAME_HTML}, "needs one of path"},
	        {0,
	         {.format = PFA_PROFILE_FLAME_HTML, .to = {.path = "x", .fd = 3}},
	         "needs one of path"},
	        {0, {.format = PFA_PROFILE_FLAME_HTML, .to = {.fd = -3}}, "needs one of path"},
	        {0,
	         {.format = PFA_PROFILE_FLAME_HTML, .to = {.path = "x", .reserved0 = 1}},
	         "reserved0"},
	        {0, {.format = PFA_PROFILE_FLAME_HTML, .compress = 1, .to = TO}, "in this format"},
	        {0, {.format = PFA_PROFILE_PERF_DATA, .compress = 22, .to = TO}, NULL},
	        {0, {.format = PFA_PROFILE_PERF_DATA, .compress = 23, .to = TO}, "must be 0 to 22"},
	        {BOTH, {.format = PFA_PROFILE_FOLDED, .to = TO}, "has one profile"},
	        {BOTH,
	         {.format = PFA_PROFILE_FLAME_SVG, .modes = BOTH, .to = TO},
	         "has one profile"},
	        {0, {.format = PFA_PROFILE_FOLDED, .root = 3, .to = TO}, "root must be 0, 1 or 2"},
	        {0,
	         {.format = PFA_PROFILE_FLAME_SVG, .root = 1, .to = TO},
	         "root must be 0 in this"},
	        {0, {.format = PFA_PROFILE_FOLDED, .modes = PFA_MODE_OFFCPU, .to = TO}, "modes"},
	        {PFA_MODE_PMU, {.format = PFA_PROFILE_FLAME_HTML, .to = TO}, "modes"},
	        {BOTH | PFA_MODE_PMU,
	         {.format = PFA_PROFILE_FLAME_HTML, .modes = PFA_MODE_PMU, .to = TO},
	         "modes"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct pfa_options o = {.target = PFA_TARGET_ALL,
		                              .modes = cases[i].modes,
		                              .extra_outputs = LIST(cases[i].x)};
		struct err err = {0};
		struct ses *s = NULL;
		int r = ses_new(&o, &s, &err);

		if (r != (cases[i].want ? -EINVAL : 0) ||
		    (cases[i].want && !strstr(err.msg, cases[i].want)))
			fail_msg("case %zu: %d '%s'", i, r, err.msg);
		ses_free(s);
	}
}

static void test_a_time_line_needs_a_page(void **state)
{
	struct pfa_extra_output x[2] = {{.format = PFA_PROFILE_FOLDED, .to = TO}};
	struct pfa_options o = {.target = PFA_TARGET_ALL, .flags = PFA_TIMELINE};
	struct err err = {0};
	struct ses *s = NULL;

	(void)state;
	assert_int_equal(ses_new(&o, &s, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "time line: needs"));
	o.extra_outputs = x;
	assert_int_equal(ses_new(&o, &s, &err), -EINVAL);
	assert_null(s);
	x[0].format = PFA_PROFILE_FLAME_HTML;
	assert_int_equal(ses_new(&o, &s, &err), 0);
	ses_free(s);
}

static void test_too_many_are_refused(void **state)
{
	struct pfa_extra_output many[PFA_EXTRA_OUTPUTS_MAX + 2] = {{0}};
	const struct pfa_options o = {.target = PFA_TARGET_ALL, .extra_outputs = many};
	struct ses *s = NULL;

	(void)state;
	for (size_t i = 0; i < PFA_EXTRA_OUTPUTS_MAX; i++)
		many[i] = (struct pfa_extra_output){.format = PFA_PROFILE_FOLDED, .to = TO};
	assert_int_equal(ses_new(&o, &s, NULL), 0);
	s = ses_free(s);
	many[PFA_EXTRA_OUTPUTS_MAX] = many[0];
	assert_int_equal(ses_new(&o, &s, NULL), -E2BIG);
	assert_null(s);
}

static void test_the_list_is_copied(void **state)
{
	char path[] = "out.html";
	struct pfa_extra_output list[] = {{.format = PFA_PROFILE_FLAME_HTML, .to = {.path = path}},
	                                  {.format = PFA_PROFILE_END}};
	struct ses *s = session(0, list);

	(void)state;
	path[0] = 'X';
	list[0].format = 0;
	assert_int_equal(s->o.extra_outputs[0].format, PFA_PROFILE_FLAME_HTML);
	assert_string_equal(s->o.extra_outputs[0].to.path, "out.html");
	assert_int_equal(s->o.extra_outputs[1].format, PFA_PROFILE_END);
	ses_free(s);
}

static void test_each_has_the_profiles_that_were_asked_for(void **state)
{
	struct sbuf b[4];
	struct ses *s;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(b); i++)
		sbuf_init(&b[i], 1 << 24);
	s = session(BOTH, LIST({.format = PFA_PROFILE_FOLDED,
	                        .modes = PFA_MODE_PROFILE,
	                        .to = {.write = keep, .write_arg = &b[0]}},
	                       {.format = PFA_PROFILE_FOLDED,
	                        .modes = PFA_MODE_OFFCPU,
	                        .to = {.write = keep, .write_arg = &b[1]}},
	                       {.format = PFA_PROFILE_FLAME_HTML,
	                        .to = {.write = keep, .write_arg = &b[2]}},
	                       {.format = PFA_PROFILE_FLAME_SVG,
	                        .modes = PFA_MODE_OFFCPU,
	                        .to = {.write = keep, .write_arg = &b[3]}}));
	assert_int_equal(ses_extra_open(s, NULL), 0);
	assert_int_equal(ses_extra_write(s, NULL), 0);
	assert_int_equal(ses_extra_written(s), 15);
	assert_string_equal(b[0].p, "work 3\n");
	assert_string_equal(b[1].p, "work 7000\n");
	assert_non_null(strstr(b[2].p, "<!DOCTYPE html>"));
	assert_non_null(strstr(b[3].p, ">Off-CPU: 7.00 ms, 3 intervals</text>"));
	for (size_t i = 0; i < ARRAY_SIZE(b); i++)
		sbuf_done(&b[i]);
	ses_free(s);
}

static void test_one_that_fails_does_not_affect_the_others(void **state)
{
	struct err err = {0};
	struct sbuf b;
	struct ses *s = session(
	        0, LIST({.format = PFA_PROFILE_FOLDED, .to = {.write = refuse}},
	                {.format = PFA_PROFILE_FOLDED, .to = {.write = keep, .write_arg = &b}}));

	(void)state;
	sbuf_init(&b, 1 << 20);
	assert_int_equal(ses_extra_open(s, NULL), 0);
	assert_int_equal(ses_extra_write(s, &err), -ENOSPC);
	assert_int_equal(err.code, -ENOSPC);
	assert_int_equal(ses_extra_written(s), 2);
	assert_string_equal(b.p, "work 3\n");
	sbuf_done(&b);
	ses_free(s);
}

static void test_a_profile_that_was_left_out_is_not_written(void **state)
{
	struct sbuf b, c;
	struct ses *s = session(BOTH, LIST({.format = PFA_PROFILE_FOLDED,
	                                    .modes = PFA_MODE_OFFCPU,
	                                    .to = {.write = keep, .write_arg = &b}},
	                                   {.format = PFA_PROFILE_FLAME_HTML,
	                                    .to = {.write = keep, .write_arg = &c}}));

	(void)state;
	sbuf_init(&b, 1 << 20);
	sbuf_init(&c, 1 << 20);
	prof_model_freep(&s->product[SRC_OFFCPU].result.model);
	assert_int_equal(ses_extra_open(s, NULL), 0);
	assert_int_equal(ses_extra_write(s, NULL), 0);
	assert_int_equal(ses_extra_written(s), 2); /* the page has the other one */
	assert_int_equal(b.len, 0);
	sbuf_done(&b);
	sbuf_done(&c);
	ses_free(s);
}

static void test_a_directory_that_is_missing_is_refused_at_the_start(void **state)
{
	struct err err = {0};
	struct ses *s = session(0, LIST({.format = PFA_PROFILE_FLAME_HTML,
	                                 .to = {.path = "/nonexistent/dir/x.html"}}));

	(void)state;
	assert_int_equal(ses_extra_open(s, &err), -ENOENT);
	assert_non_null(strstr(err.msg, "/nonexistent/dir"));
	ses_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_extra_outputs_are_checked),
	        cmocka_unit_test(test_a_time_line_needs_a_page),
	        cmocka_unit_test(test_too_many_are_refused),
	        cmocka_unit_test(test_the_list_is_copied),
	        cmocka_unit_test(test_each_has_the_profiles_that_were_asked_for),
	        cmocka_unit_test(test_one_that_fails_does_not_affect_the_others),
	        cmocka_unit_test(test_a_profile_that_was_left_out_is_not_written),
	        cmocka_unit_test(test_a_directory_that_is_missing_is_refused_at_the_start),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
