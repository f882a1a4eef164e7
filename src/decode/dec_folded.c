/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folded stacks: "main;serve;read_[k] 42", root first.
 * Source: stackcollapse-perf.pl of github.com/brendangregg/FlameGraph: the marks "_[k]" (kernel),
 * "_[j]" (JIT), "_[i]" (inlined into the frame before); inferno writes fractions.
 */
#include "decode/decode_priv.h"

#include <inttypes.h>

struct folded {
	struct dec_input *in;
	struct prof_model *m;
	uint32_t kernel, jit; /* mappings, 0: none yet */
	uint64_t line;        /* its number */
	uint64_t rounded;     /* values */
	int64_t unit;         /* what a number is multiplied by */
	VEC(uint32_t) locs;   /* of one line, leaf first */
	struct prof_line lines[PROF_LOCATION_LINES_MAX];
};

/* Text whose first line is no stack is no profile at all. */
static int bad_line(struct folded *f, const char *what)
{
	if (f->m->samples.n == 0)
		return err_set(f->in->err, -EINVAL,
		               "%s: no profile: expected pprof, perf.data or folded stacks (lines "
		               "such as 'main;work 12'), found text: line %" PRIu64 ": %s",
		               f->in->name, f->line, what);
	return err_set(f->in->err, -EINVAL, "%s: line %" PRIu64 ": %s", f->in->name, f->line, what);
}

/* ---- the value ------------------------------------------------------------------------------- */

/* Digits, and a fraction, which is rounded half up. Returns 0, -EINVAL, -ERANGE. */
static int parse_value(const char *s, size_t len, int64_t *ret, bool *ret_rounded)
{
	int64_t v = 0;
	size_t i = 0;

	for (; i < len && s[i] >= '0' && s[i] <= '9'; i++) {
		if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, s[i] - '0', &v))
			return -ERANGE;
	}
	if (i == 0)
		return -EINVAL;
	*ret_rounded = false;
	if (i < len) {
		if (s[i] != '.' || i + 1 == len)
			return -EINVAL;
		if (s[i + 1] >= '5' && s[i + 1] <= '9' && __builtin_add_overflow(v, 1, &v))
			return -ERANGE;
		for (i++; i < len; i++) {
			if (s[i] < '0' || s[i] > '9')
				return -EINVAL;
			*ret_rounded |= s[i] != '0';
		}
	}
	*ret = v;
	return 0;
}

/* Takes the value off the end of a line. */
static int take_value(struct folded *f, const char *s, size_t *len, int64_t *ret)
{
	size_t from = *len;
	bool rounded;
	int r;

	while (from > 0 && s[from - 1] != ' ' && s[from - 1] != '\t')
		from--;
	if (from == 0)
		return bad_line(f, "no blank between a stack and its number");
	if (s[from] == '-')
		return bad_line(f, "the number after the stack is negative");
	r = parse_value(s + from, *len - from, ret, &rounded);
	if (r == -ERANGE)
		return bad_line(f, "the number after the stack is over 2^63");
	if (r < 0)
		return bad_line(f, "no number after the stack");
	f->rounded += rounded;
	while (from > 0 && (s[from - 1] == ' ' || s[from - 1] == '\t'))
		from--;
	if (from == 0)
		return bad_line(f, "no stack before the number");
	*len = from;
	return 0;
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* A mapping without a range: frames have no addresses. */
static int special_mapping(struct folded *f, const char *path, uint32_t *id)
{
	struct prof_mapping map = {0};
	int r = 0;

	if (*id == 0)
		r = prof_model_string(f->m, path, &map.path);
	if (r == 0 && *id == 0)
		r = prof_model_mapping(f->m, &map, id);
	return r;
}

/* Returns the letter of the mark "_[x]" at the end, and takes it off; 0: there is none. */
static char take_mark(const char *s, size_t *len)
{
	const char *end = s + *len;
	char c;

	if (*len < 5 || end[-4] != '_' || end[-3] != '[' || end[-1] != ']')
		return 0;
	c = end[-2];
	if (c != 'k' && c != 'j' && c != 'i')
		return 0;
	*len -= 4;
	return c;
}

/* "0x401136 [serve]": what perf-agent writes for an address without a name. Puts the file into a
 * mapping, and says in the function that it is no name: docs/output.md, "Names". */
static int read_unnamed(struct folded *f, const char *name, size_t len, struct prof_function *fn,
                        uint32_t *ret_map)
{
	struct prof_mapping map = {0};
	size_t at = 2; /* after "0x" */
	int r;

	if (len < at || memcmp(name, "0x", at) != 0)
		return 0;
	while (at < len &&
	       ((name[at] >= '0' && name[at] <= '9') || (name[at] >= 'a' && name[at] <= 'f')))
		at++;
	if (at == 2 || len - at < strlen(" [x]") || memcmp(name + at, " [", 2) != 0 ||
	    name[len - 1] != ']')
		return 0;
	at += 2;
	r = dec_text(f->m, name + at, len - 1 - at, '?', &map.path);
	if (r == 0)
		r = prof_model_mapping(f->m, &map, ret_map);
	return r < 0 ? r
	             : prof_model_string(f->m, "unresolved: no symbol covers the address",
	                                 &fn->system_name);
}

static int add_location(struct folded *f, char mark, uint32_t n, uint32_t map)
{
	const char *name =
	        prof_model_str(f->m, f->m->functions.p[f->lines[n - 1].function - 1].name);
	const uint8_t reason = str_starts(name, "0x") ? EV_REASON_NO_SYMBOL : EV_REASON_NAMED;
	uint32_t loc = 0;
	int r = 0;

	if (mark == 'k') {
		r = special_mapping(f, "[kernel]", &f->kernel);
		map = f->kernel;
	} else if (mark == 'j') {
		r = special_mapping(f, "[jit]", &f->jit);
		map = f->jit;
	}
	if (r == 0)
		r = prof_model_location(f->m, map, 0, reason, f->lines, n, &loc);
	return r < 0 ? r : vec_push(&f->locs, loc);
}

static int add_stack(struct folded *f, const char *s, size_t len)
{
	uint32_t n = 0; /* lines of the location that is being made */
	size_t end = len;
	int r = 0;

	f->locs.n = 0;
	while (r == 0) {
		size_t from = end, name_len;
		struct prof_function fn = {0};
		uint32_t map = 0;
		char mark;

		while (from > 0 && s[from - 1] != ';')
			from--;
		name_len = end - from;
		mark = take_mark(s + from, &name_len);
		if (name_len == 0)
			r = prof_model_string(f->m, "[unknown]", &fn.name);
		else
			r = dec_text(f->m, s + from, name_len, '?', &fn.name);
		if (r == 0)
			r = read_unnamed(f, s + from, name_len, &fn, &map);
		f->lines[n] = (struct prof_line){0};
		if (r == 0)
			r = prof_model_function(f->m, &fn, &f->lines[n].function);
		n++;
		/* The root is a function, whatever it says. */
		if (r == 0 && (mark != 'i' || from == 0 || n == PROF_LOCATION_LINES_MAX)) {
			r = add_location(f, mark, n, map);
			n = 0;
		}
		if (from == 0)
			break;
		end = from - 1;
	}
	return r;
}

static int read_line(struct folded *f, const char *s, size_t len)
{
	int64_t value = 0;
	int r;

	while (len > 0 && (s[len - 1] == '\r' || s[len - 1] == ' ' || s[len - 1] == '\t'))
		len--;
	if (len == 0)
		return 0;
	r = take_value(f, s, &len, &value);
	if (r < 0)
		return r;
	if (__builtin_mul_overflow(value, f->unit, &value))
		return bad_line(f, "the time after the stack is over 2^63 ns");
	r = add_stack(f, s, len);
	if (r == 0)
		r = prof_model_sample(f->m, f->locs.p, (uint32_t)f->locs.n, NULL, 0, &value);
	if (r == -E2BIG && f->locs.n >= PROF_SAMPLE_LOCS_MAX) {
		err_set(f->in->err, r, "%s: line %" PRIu64 ": more than %u frames", f->in->name,
		        f->line, PROF_SAMPLE_LOCS_MAX);
		return r;
	}
	return r < 0 ? dec_model_err(f->in, r, DEC_NO_BYTE) : 0;
}

/* A line has a number without a unit: the caller may know it. */
static int set_type(struct folded *f)
{
	const char *type = f->in->o->folded_type ? f->in->o->folded_type : "";
	const bool time = strcmp(type, "cpu") == 0 || strcmp(type, "offcpu") == 0;
	const bool known = time || strcmp(type, "samples") == 0;
	struct prof_type *t = &f->m->sample_type[0];
	int r = prof_model_string(f->m, known ? type : "value", &t->type);

	if (r == 0)
		r = prof_model_string(f->m, time ? "nanoseconds" : "count", &t->unit);
	if (r < 0)
		return dec_model_err(f->in, r, DEC_NO_BYTE);
	f->m->n_types = 1;
	f->unit = time ? 1000 : 1;
	if (!known)
		dec_note(f->in,
		         "the numbers have no unit; --value samples, cpu or offcpu (us) gives it");
	return 0;
}

static int read_lines(struct folded *f)
{
	struct cursor c = cursor_of(f->in->data, f->in->len);
	const char *s;
	size_t len;
	int r;

	r = set_type(f);
	while (r == 0 && cursor_line(&c, &s, &len) == 0) {
		f->line++;
		r = read_line(f, s, len);
	}
	return r;
}

int dec_folded(struct dec_input *in)
{
	_cleanup_free_ struct folded *f = calloc(1, sizeof(*f));
	int r;

	if (!f)
		return err_set(in->err, -ENOMEM, "%s: out of memory", in->name);
	f->in = in;
	f->locs.max = PROF_SAMPLE_LOCS_MAX;
	r = dec_add_model(in, &f->m);
	if (r == 0)
		r = read_lines(f);
	if (r == 0 && f->m->samples.n == 0)
		r = err_set(in->err, -EINVAL, "%s: no stacks: all lines are blank", in->name);
	if (r == 0 && f->rounded)
		dec_note(in, "%" PRIu64 " values with fractions were rounded to whole numbers",
		         f->rounded);
	vec_done(&f->locs);
	return r;
}
