/* SPDX-License-Identifier: Apache-2.0 */
/* Values of functions by line and address, and the listings of them, with files that are made up. */
#include "report_models.h"

#include "report/rep_priv.h"

#define BASE    0x10000 /* of the mapping; its file offset is 0x1000 */
#define LINES   400     /* of the made-up source file */
#define FN_ADDR 0x2000  /* virtual address of the symbol: file offset + 0x1000 - 0x1000 + 0x400 */

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

/* ---- listings -------------------------------------------------------------------------------- */

struct files {
	int source_r, sites_r, code_r; /* what the reader returns */
	const char *line;              /* of each source line; NULL: "line N" */
	int64_t changed_ns;
	uint64_t end; /* of the symbol; 0: none has the addresses */
	struct sbuf text;
	struct ev_instruction code[512];
};

static int source(void *arg, const char *path, struct ev_source *ret, struct err *err)
{
	struct files *f = arg;

	if (f->source_r < 0)
		return err_set(err, f->source_r, "cannot read %s", path);
	sbuf_done(&f->text);
	sbuf_init(&f->text, 1 << 20);
	for (int i = 1; i <= LINES; i++)
		(void)(f->line ? sbuf_addf(&f->text, "%s\n", f->line)
		               : sbuf_addf(&f->text, "\tline %d\n", i));
	*ret = (struct ev_source){.path = "/elsewhere/work.c",
	                          .text = f->text.p,
	                          .len = f->text.len,
	                          .changed_realtime_ns = f->changed_ns};
	return 0;
}

static int sites(void *arg, const char *path, const char *build_id, const uint64_t *offs, size_t n,
                 struct ev_site *ret, struct err *err)
{
	struct files *f = arg;

	if (f->sites_r < 0)
		return err_set(err, f->sites_r, "%s is another build than %s", path, build_id);
	for (size_t i = 0; i < n; i++) {
		ret[i] = (struct ev_site){.addr = offs[i] + 0x1000};
		if (!f->end)
			continue;
		ret[i].start = FN_ADDR;
		ret[i].end = f->end;
		ret[i].symbol = "work.part.0";
	}
	return 0;
}

static int instructions(void *arg, uint64_t start, uint64_t end, const struct ev_instruction **ret,
                        size_t *ret_n, struct err *err)
{
	struct files *f = arg;

	if (f->code_r < 0)
		return err_set(err, f->code_r, "no objdump");
	assert_int_equal(start, FN_ADDR);
	assert_int_equal(end, f->end);
	*ret_n = MIN_OF((end - start) / 4, ARRAY_SIZE(f->code));
	for (size_t i = 0; i < *ret_n; i++)
		f->code[i] = (struct ev_instruction){.addr = start + 4 * i,
		                                     .text = i == 10 ? "mul %rax" : "nop"};
	*ret = f->code;
	return 0;
}

/* The report of a function as text, or the message. */
static char *listing_of(struct prof_model *m, struct files *f, const struct rep_options *from)
{
	const struct rep_reader reader = {
	        .arg = f, .source = source, .sites = sites, .instructions = instructions};
	struct rep_input in = {.name = "a", .model = m};
	struct rep_options o = *from;
	struct err err = {0};
	struct sbuf out;
	int r;

	o.view = REP_ANNOTATE;
	o.reader = &reader;
	o.subject = o.subject ? o.subject : "work";
	sbuf_init(&out, 1 << 22);
	r = rep_write(&o, &in, 1, &out, &err);
	sbuf_done(&f->text);
	if (r < 0) {
		sbuf_done(&out);
		return strdup(err.msg[0] ? err.msg : err_symbol(r));
	}
	return sbuf_take(&out);
}

static void has(char *text, const char *const *parts)
{
	assert_non_null(text);
	if (!text)
		return; /* clang-tidy */
	for (; *parts; parts++)
		if (!strstr(text, *parts))
			fail_msg("no %s in %s", *parts, text);
}

static size_t count(const char *text, const char *part)
{
	size_t n = 0;

	for (const char *p = text; (p = strstr(p, part)); p++)
		n++;
	return n;
}

static void test_a_listing_has_source_lines_and_instructions(void **state)
{
	_cleanup_(prof_model_freep) struct prof_model *m = model("/bin/app");
	struct files f = {.end = FN_ADDR + 64};
	_cleanup_free_ char *text = listing_of(m, &f, &(struct rep_options){.format = REP_TEXT});
	_cleanup_free_ char *json = listing_of(m, &f, &(struct rep_options){.format = REP_JSON});
	_cleanup_free_ char *mark =
	        listing_of(m, &f, &(struct rep_options){.format = REP_MARKDOWN});

	(void)state;
	has(text,
	    (const char *const[]){
	            "source of work\nwork.c, read from /elsewhere/work.c\n",
	            "  self     cum  line  source\n     .       .     1          line 1\n",
	            "300 ns  900 ns    22          line 22\n",
	            "     .  600 ns    30          line 30\n", "35          line 35\n\n",
	            "instructions of work\nwork.part.0 of /bin/app\n",
	            "     .       .         0x2000  nop\n", "100 ns  100 ns    20   0x2010  nop\n",
	            "     .  600 ns    22   0x2028  mul %rax\n",
	            /* the address of a caller is inside its call */
	            "     .  600 ns    30   0x202c  nop\n", NULL});
	has(json,
	    (const char *const[]){
	            "\"view\": \"annotate\"",
	            "{\"table\": \"source\", \"of\": \"work\", \"file\": \"work.c\", \"read\": "
	            "\"/elsewhere/work.c\", \"symbol\": null, \"note\": null, \"rows\": [",
	            "{\"self\": 300, \"cum\": 900, \"line\": 22, \"text\": \"\\u0009line 22\"}",
	            "\"symbol\": \"work.part.0\"",
	            "{\"self\": 0, \"cum\": 600, \"line\": 22, \"address\": \"0x2028\", "
	            "\"text\": \"mul %rax\"}",
	            NULL});
	has(mark, (const char *const[]){"## source of `work`\n\n`work.c`, read from "
	                                "`/elsewhere/work.c`\n\n```\n",
	                                "\n`work.part.0` of `/bin/app`\n\n```\n", NULL});
	assert_int_equal(count(mark, "```\n"), 4);
}

static void test_long_stretches_without_values_lose_their_middle(void **state)
{
	_cleanup_(prof_model_freep) struct prof_model *m = model("/bin/app");
	struct files f = {.end = FN_ADDR + 0x800};
	_cleanup_free_ char *text = NULL, *json = NULL;

	(void)state;
	add_sample(m, 1, 50, &(const struct frame){BASE + 0x410, {"work:300"}}, 1);
	text = listing_of(m, &f, &(struct rep_options){.format = REP_TEXT});
	has(text, (const char *const[]){
	                  " 35          line 35\n", "\xe2\x80\xa6 259 lines without values\n",
	                  " 295          line 295\n", " 305          line 305\n\n", NULL});
	assert_null(strstr(text, "line 36\n"));
	assert_null(strstr(text, "line 294\n"));
	/* The value at 0x2410, and the last instruction at 0x27fc. */
	has(text, (const char *const[]){" 0x2040  nop\n", "\xe2\x80\xa6 238 lines without values\n",
	                                " 0x23fc  nop\n", " 0x2424  nop\n", " 240 lines",
	                                " 0x27fc  nop\n", NULL});
	assert_null(strstr(text, "0x2044"));
	assert_null(strstr(text, "0x23f8"));
	json = listing_of(m, &f, &(struct rep_options){.format = REP_JSON});
	assert_null(strstr(json, "without values"));
	add_sample(m, 1, 50, &(const struct frame){BASE + 0x14, {"work:9223372036854775807"}}, 1);
	free(text);
	text = listing_of(m, &f, &(struct rep_options){.format = REP_TEXT});
	has(text, (const char *const[]){"note: the file is shorter than the profile says",
	                                " 9223372036854775807\n", NULL});
}

static void test_what_cannot_be_read_is_said_and_values_stay(void **state)
{
	_cleanup_(prof_model_freep) struct prof_model *m = model("/bin/app");
	struct files f = {.source_r = -ENOENT, .sites_r = -ESTALE};
	_cleanup_free_ char *text = listing_of(m, &f, &(struct rep_options){.format = REP_TEXT});
	_cleanup_free_ char *bare = NULL, *no_tool = NULL, *old = NULL, *memory = NULL;

	(void)state;
	has(text,
	    (const char *const[]){"\nwork.c\nnote: cannot read work.c\n", "300 ns  900 ns    22\n",
	                          "\n/bin/app\nnote: /bin/app is another build than abcd\n", NULL});
	f = (struct files){.changed_ns = 50};
	m->time_realtime_ns = 20;
	m->duration_ns = 10;
	bare = listing_of(m, &f, &(struct rep_options){.format = REP_TEXT});
	has(bare, (const char *const[]){"note: the file was changed after the profile was taken\n",
	                                "note: no symbol has these addresses", "--debug-dir",
	                                "300 ns  300 ns    22   0x2024\n", NULL});
	f = (struct files){.changed_ns = 30, .end = FN_ADDR + 64, .code_r = -ENOENT};
	no_tool = listing_of(m, &f, &(struct rep_options){.format = REP_TEXT});
	has(no_tool, (const char *const[]){"work.part.0 of /bin/app\nnote: no objdump\n",
	                                   "300 ns  300 ns    22   0x2024\n", NULL});
	assert_null(strstr(no_tool, "was changed"));
	f = (struct files){.source_r = -ENOMEM};
	memory = listing_of(m, &f, &(struct rep_options){.format = REP_TEXT});
	assert_string_equal(memory, "ENOMEM");
	old = listing_of(m, &f, &(struct rep_options){.subject = "nothing"});
	assert_string_equal(old, "a: no function matches 'nothing'");
}

static void test_source_text_is_shown_as_text(void **state)
{
	_cleanup_(prof_model_freep) struct prof_model *m = model("/bin/app");
	struct files f = {.end = FN_ADDR + 64,
	                  .line = "a\tb\x1b[31m\xe2\x80\xaereversed\xff ```` \xe2\x82\xac\r"};
	_cleanup_free_ char *text = listing_of(m, &f, &(struct rep_options){.format = REP_TEXT});
	_cleanup_free_ char *mark =
	        listing_of(m, &f, &(struct rep_options){.format = REP_MARKDOWN});
	_cleanup_free_ char *narrow =
	        listing_of(m, &f,
	                   &(struct rep_options){.format = REP_TEXT, .width = 50, .colours = true});
	_cleanup_free_ char *coloured = listing_of(
	        m, &f, &(struct rep_options){.format = REP_MARKDOWN, .width = 50, .colours = true});

	(void)state;
	has(text, (const char *const[]){"  a       b?[31m?reversed? ```` \xe2\x82\xac?\n", NULL});
	has(mark, (const char *const[]){"\n`````\n", NULL});
	has(narrow, (const char *const[]){"  a       b?[31m?reversed? ``\xe2\x80\xa6\n",
	                                  "\x1b[1m300 ns\x1b[0m", NULL});
	assert_string_equal(coloured, mark);
}

static void test_profiles_without_files_or_addresses(void **state)
{
	_cleanup_(prof_model_freep) struct prof_model *m = rm_model((const char *const[]){NULL});
	struct files f = {0};
	struct prof_function fn = {.name = rm_string(m, "work")};
	struct prof_line line = {0};
	const int64_t values[] = {1, 100};
	_cleanup_free_ char *text = NULL;
	uint32_t id;

	(void)state;
	assert_int_equal(prof_model_function(m, &fn, &line.function), 0);
	assert_int_equal(prof_model_location(m, 0, 0, 0, &line, 1, &id), 0);
	assert_int_equal(prof_model_sample(m, &id, 1, NULL, 0, values), 0);
	text = listing_of(m, &f, &(struct rep_options){.format = REP_TEXT});
	has(text, (const char *const[]){
	                  "note: the profile has no source file of this function\n",
	                  "100 ns  100 ns        (line not known)\n",
	                  "note: the profile has no addresses of this function in a file\n", NULL});
}

static void test_the_first_functions_that_match_are_listed(void **state)
{
	_cleanup_(prof_model_freep) struct prof_model *m = rm_model(
	        (const char *const[]){"|main;f1 1 100", "|main;f2 2 200", "|main;f3 3 300",
	                              "|main;f4 4 400", "|main;?@/lib/libf.so 1 900", NULL});
	struct files f = {0};
	_cleanup_free_ char *text = listing_of(m, &f, &(struct rep_options){.subject = "f"});
	_cleanup_free_ char *one = listing_of(m, &f, &(struct rep_options){.subject = "f1"});

	(void)state;
	has(text,
	    (const char *const[]){"\nthe first 3 are listed; a longer name selects others\n",
	                          "source of f4\n", "source of f3\n", "source of f2\n", NULL});
	assert_int_equal(count(text, "source of "), 3);
	assert_null(strstr(text, "libf")); /* code without a name is no function */
	assert_int_equal(count(one, "source of f1\n"), 1);
	assert_null(strstr(one, "are listed"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_lines_and_addresses_have_the_values_of_their_function),
	        cmocka_unit_test(test_addresses_without_a_range_have_no_file),
	        cmocka_unit_test(test_a_listing_has_source_lines_and_instructions),
	        cmocka_unit_test(test_long_stretches_without_values_lose_their_middle),
	        cmocka_unit_test(test_what_cannot_be_read_is_said_and_values_stay),
	        cmocka_unit_test(test_source_text_is_shown_as_text),
	        cmocka_unit_test(test_profiles_without_files_or_addresses),
	        cmocka_unit_test(test_the_first_functions_that_match_are_listed),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
