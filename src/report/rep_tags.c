/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filters by labels as `go tool pprof` has them: [KEY=]REGEX[,REGEX...] or [KEY=]RANGE, where RANGE
 * is N, N:, :N or N:M of numbers with units. Without a key, each expression must match a text
 * "key:value"; with one, any of them its value.
 * Source: internal/driver/driver_focus.go, internal/measurement of github.com/google/pprof.
 */
#include "report/rep_priv.h"

/* Factors of the units of time and of memory. */
struct unit {
	const char *name;
	double factor;
	char kind; /* 't', 'm' */
};
static const struct unit units[] = {
        {"b", 1, 'm'},
        {"byte", 1, 'm'},
        {"kb", 1024, 'm'},
        {"kbyte", 1024, 'm'},
        {"kilobyte", 1024, 'm'},
        {"mb", 1048576, 'm'},
        {"mbyte", 1048576, 'm'},
        {"megabyte", 1048576, 'm'},
        {"gb", 1073741824, 'm'},
        {"gbyte", 1073741824, 'm'},
        {"gigabyte", 1073741824, 'm'},
        {"ns", 1, 't'},
        {"nanosecond", 1, 't'},
        {"us", 1e3, 't'},
        {"microsecond", 1e3, 't'},
        {"ms", 1e6, 't'},
        {"millisecond", 1e6, 't'},
        {"s", 1e9, 't'},
        {"second", 1e9, 't'},
        {"sec", 1e9, 't'},
        {"min", 60e9, 't'},
        {"minute", 60e9, 't'},
        {"hr", 3600e9, 't'},
        {"hour", 3600e9, 't'},
};

#define UNIT_BYTES 32

struct bound {
	bool given;
	double value; /* in units of .unit, or of its kind's smallest */
	char unit[UNIT_BYTES];
};

struct rep_tags {
	const struct prof_model *m;
	char *text;   /* owned; the others point into it */
	uint32_t key; /* string; 0: all keys */
	bool has_key;
	bool is_range;
	struct bound low, high;
	VEC(struct rep_regex *) res;
};

void rep_tags_freep(struct rep_tags **t)
{
	if (*t) {
		vec_each (re, &(*t)->res)
			rep_regex_freep(re);
		vec_done(&(*t)->res);
		free((*t)->text);
	}
	freep(t);
}

static bool is_alpha(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static const struct unit *unit_of(const char *name, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		const size_t n = strlen(units[i].name);

		/* "seconds" is "second". */
		if (strncasecmp(units[i].name, name, MIN_OF(n, len)) == 0 &&
		    (len == n || (len == n + 1 && n > 2 && name[n] == 's')))
			return &units[i];
	}
	return NULL;
}

/* Reads digits and a unit. Returns NULL if there are none. */
static const char *read_bound(const char *p, struct bound *b)
{
	const char *from;
	bool negative = *p == '-';
	const struct unit *u;
	double v = 0;

	p += *p == '-' || *p == '+';
	if (*p < '0' || *p > '9')
		return NULL;
	for (; *p >= '0' && *p <= '9'; p++)
		v = v * 10 + (*p - '0');
	for (from = p; is_alpha(*p);)
		p++;
	if (p - from >= UNIT_BYTES)
		return NULL;
	u = unit_of(from, (size_t)(p - from));
	b->given = true;
	b->value = (negative ? -v : v) * (u ? u->factor : 1);
	memcpy(b->unit, from, (size_t)(p - from));
	b->unit[p - from] = 0;
	return p;
}

/* Whether both units are one, or of one kind. */
static bool same_unit(const char *a, const char *b)
{
	const struct unit *x = unit_of(a, strlen(a)), *y = unit_of(b, strlen(b));

	return x && y ? x->kind == y->kind : !x && !y && !strcmp(a, b);
}

/* Returns whether the text is a range. */
static bool read_range(struct rep_tags *t, const char *text)
{
	const char *p = *text == ':' ? text : read_bound(text, &t->low);

	if (!p)
		return false;
	if (!*p) {
		t->high = t->low;
		return true;
	}
	if (*p++ != ':')
		return false;
	if (!*p)
		return t->low.given;
	p = read_bound(p, &t->high);
	return p && !*p && (!t->low.given || same_unit(t->low.unit, t->high.unit));
}

static int compile(struct rep_tags *t, const char *option, char *list, struct err *err)
{
	int r = 0;

	/* A comma separates expressions, also inside of brackets, as in pprof. */
	while (list && r == 0) {
		struct rep_regex *re = NULL;
		char *comma = strchr(list, ',');

		if (comma)
			*comma++ = 0;
		r = rep_regex_new(option, list, &re, err);
		if (r == 0)
			r = vec_push(&t->res, re);
		if (r < 0)
			rep_regex_freep(&re);
		list = comma;
	}
	return r;
}

int rep_tags_new(const char *option, const char *text, const struct prof_model *m,
                 struct rep_tags **ret, struct err *err)
{
	_cleanup_(rep_tags_freep) struct rep_tags *t = calloc(1, sizeof(*t));
	char *equals, *value;
	int r;

	if (!t)
		return -ENOMEM;
	t->m = m;
	t->res.max = 1024;
	t->text = value = strdup(text);
	if (!t->text)
		return -ENOMEM;
	equals = strchr(t->text, '=');
	if (equals == t->text && !equals[1])
		return err_set(err, -EINVAL,
		               "%s: '=' has neither a key nor a value; write KEY=REGEX or REGEX",
		               option);
	if (equals && equals != t->text) {
		t->has_key = true;
		*equals = 0;
		if (m)
			t->key = intern_find(m->strings, t->text,
			                     strlen(t->text)); /* NONE: no sample */
	}
	if (equals)
		value = equals + 1;
	t->is_range = read_range(t, value);
	if (!t->is_range) {
		r = compile(t, option, value, err);
		if (r < 0)
			return r;
	}
	*ret = TAKE_PTR(t);
	return 0;
}

/* A label without a unit has its key as one, as in pprof. */
static bool in_range(const struct rep_tags *t, const struct prof_label *l)
{
	const char *key = prof_model_str(t->m, l->key);
	const char *unit = l->unit ? prof_model_str(t->m, l->unit) : key;
	const struct bound *any = t->low.given ? &t->low : &t->high;
	const struct unit *u;
	double v = (double)l->num;

	if (!l->unit && (!strcmp(key, "alignment") || !strcmp(key, "request")))
		unit = "bytes";
	u = unit_of(unit, strlen(unit));
	/* Numbers of a unit that is neither time nor memory are compared as they are. */
	if (u && !same_unit(unit, any->unit))
		return false;
	if (!u && unit_of(any->unit, strlen(any->unit)))
		u = unit_of(any->unit, strlen(any->unit));
	v *= u ? u->factor : 1;
	return (!t->low.given || v >= t->low.value) && (!t->high.given || v <= t->high.value);
}

static bool text_matches(const struct rep_tags *t, const struct rep_regex *re,
                         const struct prof_label *l)
{
	_cleanup_(sbuf_done) struct sbuf b;

	sbuf_init(&b, (size_t)1 << 20);
	if (t->has_key)
		return rep_regex_matches(re, prof_model_str(t->m, l->str));
	(void)sbuf_addf(&b, "%s:%s", prof_model_str(t->m, l->key), prof_model_str(t->m, l->str));
	return !b.err && rep_regex_matches(re, b.p);
}

static bool regex_matches(const struct rep_tags *t, const struct rep_regex *re,
                          const struct prof_sample *s)
{
	for (uint32_t i = 0; i < s->label_cnt; i++) {
		const struct prof_label *l = &t->m->labels.p[s->label_first + i];

		if (l->str && (!t->has_key || l->key == t->key) && text_matches(t, re, l))
			return true;
	}
	return false;
}

static bool range_matches(const struct rep_tags *t, const struct prof_sample *s)
{
	for (uint32_t i = 0; i < s->label_cnt; i++) {
		const struct prof_label *l = &t->m->labels.p[s->label_first + i];

		if (!l->str && (!t->has_key || l->key == t->key) && in_range(t, l))
			return true;
	}
	return false;
}

bool rep_tags_match(const struct rep_tags *t, const struct prof_sample *s)
{
	size_t matched = 0;

	if (t->is_range)
		return range_matches(t, s);
	for (size_t i = 0; i < t->res.n; i++)
		matched += regex_matches(t, t->res.p[i], s);
	return t->has_key ? matched > 0 : matched == t->res.n;
}
