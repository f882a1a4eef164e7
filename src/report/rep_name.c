/* SPDX-License-Identifier: Apache-2.0 */
/* Names and numbers as people read them. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "report/rep_priv.h"

#define NAME_BYTES_MAX ((size_t)1 << 20)
#define ELLIPSIS       "\xe2\x80\xa6" /* one column */
#define TAB_COLUMNS    8

/* ---- names ---------------------------------------------------------------------------------- */

static bool is_word(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       c == '_' || (unsigned char)c >= 0x80;
}

/* Returns the bytes of "operator<<" and the like at @p, 0 if there is none. Their '<' open nothing. */
static size_t operator_len(const char *name, const char *p)
{
	static const char word[] = "operator";
	const char *end;

	if (!str_starts(p, word) || (p != name && is_word(p[-1])))
		return 0;
	end = p + strlen(word);
	if (*end != '<' && *end != '>' && *end != '-')
		return 0;
	while (*end == '<' || *end == '>' || *end == '=' || *end == '-')
		end++;
	if (*end == ' ' && end[1] == '<') /* "operator<< <char>" */
		end++;
	return (size_t)(end - p);
}

/* Returns the end of the template arguments that open at @p, NULL if they do not end. */
static const char *arguments_end(const char *p)
{
	size_t depth = 0;

	for (; *p; p++) {
		if (*p == '<')
			depth++;
		else if (*p == '>' && p[-1] != '-' && --depth == 0)
			return p + 1;
	}
	return NULL;
}

/* Whether the brackets at @p are a name of their own, as Python and Java have them. */
static bool is_bracketed_name(const char *name, const char *p)
{
	static const char *const names[] = {"<module>",   "<lambda>",   "<genexpr>",
	                                    "<listcomp>", "<dictcomp>", "<setcomp>",
	                                    "<locals>",   "<init>",     "<clinit>"};

	if (p == name + 4 && str_starts(name, "py::"))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (str_starts(p, names[i]))
			return true;
	return false;
}

#define ARGUMENTS_KEPT ((ptrdiff_t)strlen("<int>")) /* they are hardly longer than "<…>" */

/* '<' after a name opens arguments: "map<", "Vec::<", "operator<< <". Elsewhere it is part of the
 * name: "<T as Trait>::call", "<unknown>", "py::<module>". */
static void fold_arguments(struct sbuf *to, const char *name)
{
	bool opens = false, all_end = true;

	for (const char *p = name; *p;) {
		size_t n = operator_len(name, p);
		const bool tried = all_end && opens && *p == '<' && !is_bracketed_name(name, p);
		const char *end = tried ? arguments_end(p) : NULL;

		if (tried && !end)
			all_end =
			        false; /* one search to the end is enough for a name of any length */
		if (n) {
			(void)sbuf_add(to, p, n); /* failures stick in .err */
			opens = p[n - 1] == ' ';
			p += n;
		} else if (end && end - p > ARGUMENTS_KEPT) {
			(void)sbuf_str(to, "<" ELLIPSIS ">");
			opens = false;
			p = end;
		} else {
			opens = is_word(*p) || (*p == ':' && p != name && p[-1] == ':');
			(void)sbuf_char(to, *p++);
		}
	}
}

/* Returns the offset of the function in a qualified name: "f(int)" of "ns::Class::f(int)". 0: the name has
 * no qualifier. */
static size_t function_offset(const char *s, size_t len)
{
	size_t depth = 0, from = 0;

	for (size_t i = 0; i + 2 < len; i++) {
		if (strchr("<([{", s[i]))
			depth++;
		else if (depth && strchr(">)]}", s[i]) && !(s[i] == '>' && s[i - 1] == '-'))
			depth--;
		else if (depth == 0 && s[i] == ':' && s[i + 1] == ':' && s[i + 2] != '<')
			from = i + 2; /* in Rust's "f::<T>" that is f */
	}
	return from;
}

/* Appends text with its middle cut out, where it has a qualifier inside of that. Returns its columns. */
static size_t put_cut(struct sbuf *b, const char *s, size_t len, size_t columns)
{
	const size_t have = columns_of(s, len);
	size_t from, keep, head, tail, kept;

	if (columns == 0 || have <= columns) {
		(void)sbuf_add(b, s, len);
		return have;
	}
	from = function_offset(s, len);
	keep = columns_of(s + from, len - from);
	if (from && keep > columns - 1 && columns > 2) {
		/* The function's name, without the end of its arguments. */
		(void)sbuf_str(b, ELLIPSIS); /* failures stick in .err */
		(void)sbuf_add(b, s + from, columns_walk(s + from, len - from, columns - 2, &kept));
		(void)sbuf_str(b, ELLIPSIS);
		return kept + 2;
	}
	/* The end of a name says more than its beginning, which is often a namespace. */
	keep = from ? MIN_OF(keep + strlen("::"), columns - 1) : 0;
	keep = MAX_OF(keep, columns - 1 - (columns - 1) / 2);
	head = columns_walk(s, len, columns - 1 - keep, &kept);
	tail = columns_tail(s, len, keep);
	(void)sbuf_add(b, s, head);
	(void)sbuf_str(b, ELLIPSIS);
	(void)sbuf_add(b, s + tail, len - tail);
	return kept + 1 + columns_of(s + tail, len - tail);
}

size_t rep_put_name(struct sbuf *b, const char *name, size_t columns, bool fold)
{
	_cleanup_(sbuf_done) struct sbuf clean, folded;
	const struct sbuf *from = &clean;

	sbuf_init(&clean, NAME_BYTES_MAX);
	sbuf_init(&folded, NAME_BYTES_MAX);
	(void)enc_put_name(&clean, name, MIN_OF(strlen(name), NAME_BYTES_MAX / 2));
	if (fold && !clean.err && clean.len) {
		fold_arguments(&folded, clean.p);
		from = &folded;
	}
	if (from->err && !b->err)
		b->err = from->err;
	return put_cut(b, from->p ? from->p : "", from->len, columns);
}

/* ---- code ------------------------------------------------------------------------------------ */

size_t rep_put_code(struct sbuf *b, const char *text, size_t columns)
{
	_cleanup_(sbuf_done) struct sbuf plain, clean;
	size_t at = 0, kept;

	sbuf_init(&plain, NAME_BYTES_MAX);
	sbuf_init(&clean, NAME_BYTES_MAX);
	for (const char *p = text; *p; p++) {
		(void)sbuf_char(&plain, *p == '\t' ? ' ' : *p); /* failures stick in .err */
		at += ((unsigned char)*p & 0xc0) != 0x80;
		for (; *p == '\t' && at % TAB_COLUMNS; at++)
			(void)sbuf_char(&plain, ' ');
	}
	if (plain.p)
		(void)enc_put_name(&clean, plain.p, plain.len);
	if ((plain.err || clean.err) && !b->err)
		b->err = plain.err ? plain.err : clean.err;
	if (!clean.p)
		return 0;
	at = columns_of(clean.p, clean.len);
	if (!columns || at <= columns) {
		(void)sbuf_add(b, clean.p, clean.len);
		return at;
	}
	(void)sbuf_add(b, clean.p, columns_walk(clean.p, clean.len, columns - 1, &kept));
	(void)sbuf_str(b, ELLIPSIS);
	return kept + 1;
}

/* ---- numbers -------------------------------------------------------------------------------- */

void rep_put_count(struct sbuf *b, int64_t v)
{
	char digits[24];
	int n = snprintf(digits, sizeof(digits), "%" PRIu64, v < 0 ? -(uint64_t)v : (uint64_t)v);

	(void)sbuf_str(b, v < 0 ? "-" : "");
	for (int i = 0; i < n; i++) {
		if (i && (n - i) % 3 == 0)
			(void)sbuf_char(b, ',');
		(void)sbuf_char(b, digits[i]);
	}
}

void rep_put_fixed(struct sbuf *b, double v, uint32_t decimals)
{
	static const double tens[] = {1, 10, 100, 1000, 10000};
	const double factor = tens[decimals], most = 9e18 / factor;
	const int64_t n = llround(MIN_OF(MAX_OF(v, -most), most) * factor);
	const uint64_t size = n < 0 ? (uint64_t)-n : (uint64_t)n;

	assert(decimals < ARRAY_SIZE(tens));
	(void)sbuf_addf(b, "%s%" PRIu64, n < 0 ? "-" : "", size / (uint64_t)factor);
	if (decimals)
		(void)sbuf_addf(b, ".%0*" PRIu64, (int)decimals, size % (uint64_t)factor);
}

/* Three digits: "1.23 s", "12.3 s", "123 s". */
static void put_scaled(struct sbuf *b, double v, const char *unit)
{
	const double size = fabs(v);

	rep_put_fixed(b, v, size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
	(void)sbuf_addf(b, " %s", unit);
}

struct scale {
	const char *unit;
	double factor;
};

static void put_in(struct sbuf *b, double v, const struct scale *scales, size_t n)
{
	size_t i = 0;

	/* 999.5 would be shown as 1000. */
	while (i + 1 < n && fabs(v) < 0.9995 * scales[i].factor)
		i++;
	put_scaled(b, v / scales[i].factor, scales[i].unit);
}

void rep_put_value(struct sbuf *b, int64_t v, const char *unit)
{
	static const struct scale times[] = {
	        {"h", 3600e9}, {"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}};
	static const struct scale sizes[] = {{"TB", 1099511627776.0},
	                                     {"GB", 1073741824.0},
	                                     {"MB", 1048576.0},
	                                     {"kB", 1024.0},
	                                     {"B", 1}};
	static const struct scale inputs[] = {
	        {"nanoseconds", 1}, {"microseconds", 1e3}, {"milliseconds", 1e6}, {"seconds", 1e9}};

	if (v == 0) {
		(void)sbuf_char(b, '0');
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(inputs); i++) {
		/* Hours from 10 on: "2 h" would hide a third of an hour. */
		const double ns = (double)v * inputs[i].factor;
		const size_t from = fabs(ns) < 36000e9 ? 1 : 0;

		if (strcmp(unit, inputs[i].unit) == 0) {
			put_in(b, ns, times + from, ARRAY_SIZE(times) - from);
			return;
		}
	}
	if (strcmp(unit, "bytes") == 0)
		put_in(b, (double)v, sizes, ARRAY_SIZE(sizes));
	else
		rep_put_count(b, v);
}

void rep_put_pct(struct sbuf *b, double pct, int64_t samples)
{
	const uint32_t decimals = samples <= 0 ? 1 : samples < 1000 ? 0 : samples < 100000 ? 1 : 2;
	const double half = decimals == 0 ? 0.5 : decimals == 1 ? 0.05 : 0.005;

	(void)sbuf_str(b, pct < 0 ? "-" : "");
	pct = fabs(pct);
	/* Neither "0" nor "100" unless it is. */
	if (pct > 0 && pct < half) {
		(void)sbuf_char(b, '<');
		pct = 2 * half;
	} else if (pct < 100 && pct >= 100 - half) {
		(void)sbuf_char(b, '>');
		pct = 100 - 2 * half;
	}
	rep_put_fixed(b, pct, decimals);
}
