/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regular expressions as `go tool pprof` has them (RE2), by those of POSIX: the text is translated.
 * What POSIX cannot say is refused, never read as something else.
 * Source: github.com/google/re2/wiki/Syntax; POSIX.1-2017, XBD 9.4.
 */
#include <regex.h>

#include "report/rep_priv.h"

#define PATTERN_MAX_BYTES 4096
#define REPEAT_MAX        1000 /* as RE2; of all repetitions together, since they may be nested */

struct rep_regex {
	regex_t re;
	bool made;
};

struct translation {
	const char *p;
	struct sbuf *out;
	bool ignore_case;
	uint32_t depth;  /* of groups */
	uint32_t repeat; /* product of all repetitions */
	const char *why; /* NULL: no failure */
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static void put_literal(struct translation *t, char c)
{
	if (strchr(".[]{}()*+?^$|\\", c))
		(void)sbuf_char(t->out, '\\'); /* failures stick in .err */
	(void)sbuf_char(t->out, c);
}

/* Returns the byte of \t and the like, 0 for others. */
static char control_of(char c)
{
	static const char letters[] = "tnrfva", bytes[] = "\t\n\r\f\v\a";
	const char *at = c ? strchr(letters, c) : NULL;

	return at ? bytes[at - letters] : 0;
}

/* \Q…\E */
static void translate_quoted(struct translation *t)
{
	while (*t->p && !str_starts(t->p, "\\E"))
		put_literal(t, *t->p++);
	if (*t->p)
		t->p += 2;
}

/* After a backslash outside of brackets. */
static void translate_escape(struct translation *t)
{
	const char c = *t->p;

	if (!c) {
		t->why = "it ends in a backslash";
		return;
	}
	t->p++;
	if (c == 'd' || c == 'D')
		(void)sbuf_str(t->out, c == 'd' ? "[0-9]" : "[^0-9]");
	else if (strchr("wWsSbB", c))
		(void)sbuf_addf(t->out, "\\%c", c);
	else if (c == 'A' || c == 'z')
		(void)sbuf_char(t->out, c == 'A' ? '^' : '$');
	else if (control_of(c))
		(void)sbuf_char(t->out, control_of(c));
	else if (c == 'Q')
		translate_quoted(t);
	else if (is_word(c))
		t->why = "it has an escape that is not supported";
	else
		put_literal(t, c);
}

/* A bracket expression; some items have a place of their own in those of POSIX. */
struct bracket {
	bool negated, rbracket, lbracket, caret, dash;
	enum { NO_CHAR, CHAR, MOVED_CHAR } last; /* a range can begin with CHAR alone */
	struct sbuf items;
};

static void bracket_done(struct bracket *k)
{
	sbuf_done(&k->items);
}

static void bracket_item(struct bracket *k, char c)
{
	k->last = strchr("][^-", c) ? MOVED_CHAR : CHAR;
	if (c == ']')
		k->rbracket = true;
	else if (c == '[')
		k->lbracket = true;
	else if (c == '^')
		k->caret = true;
	else if (c == '-')
		k->dash = true;
	else
		(void)sbuf_char(&k->items, c);
}

static void bracket_escape(struct translation *t, struct bracket *k)
{
	const char c = *t->p;

	if (c)
		t->p++;
	k->last = NO_CHAR;
	if (c == 'd')
		(void)sbuf_str(&k->items, "0-9");
	else if (c == 'w')
		(void)sbuf_str(&k->items, "A-Za-z0-9_");
	else if (c == 's')
		(void)sbuf_str(&k->items, " \t\n\r\f");
	else if (control_of(c))
		bracket_item(k, control_of(c));
	else if (!c || is_word(c))
		t->why = "it has an escape that is not supported";
	else
		bracket_item(k, c);
}

static void put_bracket(struct translation *t, const struct bracket *k)
{
	if (!k->negated && k->caret && !k->rbracket && !k->lbracket && !k->dash && !k->items.len) {
		(void)sbuf_str(t->out, "\\^");
		return;
	}
	(void)sbuf_str(t->out, k->negated ? "[^" : "[");
	(void)sbuf_str(t->out, k->rbracket ? "]" : "");
	(void)sbuf_add(t->out, k->items.p, k->items.len);
	(void)sbuf_str(t->out, k->lbracket ? "[" : "");
	(void)sbuf_str(t->out, k->caret ? "^" : "");
	(void)sbuf_str(t->out, k->dash ? "-]" : "]");
}

static void bracket_char(struct translation *t, struct bracket *k)
{
	if (*t->p == '\\') {
		t->p++;
		bracket_escape(t, k);
	} else if ((unsigned char)*t->p >= 0x80) {
		t->why = "it has a character in brackets that is not ASCII";
	} else {
		bracket_item(k, *t->p++);
	}
}

/* At the '-' of a range: its ends have to stay where they are. */
static void bracket_range(struct translation *t, struct bracket *k)
{
	bool fits = k->last == CHAR;

	(void)sbuf_char(&k->items, *t->p++);
	bracket_char(t, k);
	fits = fits && k->last == CHAR;
	if (!fits && !t->why)
		t->why = "a range begins or ends with one of ] [ ^ - or a class; list its "
		         "characters";
	k->last = NO_CHAR;
}

/* After '['. */
static void translate_bracket(struct translation *t)
{
	_cleanup_(bracket_done) struct bracket k = {0};
	bool first = true;

	sbuf_init(&k.items, PATTERN_MAX_BYTES * 4);
	if (*t->p == '^') {
		k.negated = true;
		t->p++;
	}
	for (; *t->p && (*t->p != ']' || first) && !t->why; first = false) {
		const char *end = str_starts(t->p, "[:") ? strstr(t->p, ":]") : NULL;

		if (end) {
			(void)sbuf_add(&k.items, t->p, (size_t)(end + 2 - t->p));
			t->p = end + 2;
			k.last = NO_CHAR;
		} else if (*t->p == '-' && k.last != NO_CHAR && t->p[1] && t->p[1] != ']') {
			bracket_range(t, &k);
		} else {
			bracket_char(t, &k);
		}
	}
	if (!*t->p && !t->why)
		t->why = "a bracket is not closed";
	if (t->why)
		return;
	t->p++;
	if (k.items.err)
		t->out->err = k.items.err;
	put_bracket(t, &k);
}

/* After '('. */
static void translate_group(struct translation *t)
{
	const char *end;

	(void)sbuf_char(t->out, '(');
	t->depth++;
	if (*t->p != '?')
		return;
	if (str_starts(t->p, "?:")) {
		t->p += 2;
	} else if ((str_starts(t->p, "?P<") || str_starts(t->p, "?<")) &&
	           (end = strchr(t->p, '>')) != NULL) {
		t->p = end + 1;
	} else {
		t->why = "'(?' with flags is supported as (?i) at the start alone";
	}
}

/* A '{' that begins no repetition is a brace. */
static void translate_brace(struct translation *t)
{
	const char *p = t->p;
	uint64_t low = 0, high = 0;

	for (; is_digit(*p) && low <= REPEAT_MAX; p++)
		low = low * 10 + (uint64_t)(*p - '0');
	high = low;
	if (p != t->p && *p == ',') {
		p++;
		if (is_digit(*p))
			high = 0;
		for (; is_digit(*p) && high <= REPEAT_MAX; p++)
			high = high * 10 + (uint64_t)(*p - '0');
	}
	if (p == t->p || (*p != '}' && !is_digit(*p))) {
		(void)sbuf_str(t->out, "\\{");
		return;
	}
	if (high * t->repeat > REPEAT_MAX || low > REPEAT_MAX) {
		t->why = "it repeats more than 1,000 times";
		return;
	}
	t->repeat *= (uint32_t)MAX_OF(high, 1U);
	(void)sbuf_char(t->out, '{');
	(void)sbuf_add(t->out, t->p, (size_t)(p + 1 - t->p));
	t->p = p + 1;
	t->p += *t->p == '?'; /* lazy: of no effect on whether it matches */
}

static int translate(struct translation *t)
{
	if (str_starts(t->p, "(?i)")) {
		t->ignore_case = true;
		t->p += 4;
	}
	while (*t->p && !t->why) {
		const char c = *t->p++;

		if (c == '\\') {
			translate_escape(t);
		} else if (c == '[') {
			translate_bracket(t);
		} else if (c == '(') {
			translate_group(t);
		} else if (c == ')' && t->depth-- == 0) {
			t->why = "a parenthesis is not opened"; /* POSIX: a character */
		} else if (c == '{') {
			translate_brace(t);
		} else if (c == '}' || c == ']') {
			put_literal(t, c);
		} else {
			(void)sbuf_char(t->out, c);
			if ((c == '*' || c == '+' || c == '?') && *t->p == '?')
				t->p++;
		}
	}
	return t->why ? -EINVAL : t->out->err;
}

int rep_regex_new(const char *option, const char *text, struct rep_regex **ret, struct err *err)
{
	_cleanup_(rep_regex_freep) struct rep_regex *r = calloc(1, sizeof(*r));
	_cleanup_(sbuf_done) struct sbuf b;
	struct translation t = {.p = text, .out = &b, .repeat = 1};
	char why[128];
	int code;

	if (!r)
		return -ENOMEM;
	sbuf_init(&b, (size_t)PATTERN_MAX_BYTES * 8);
	if (strlen(text) > PATTERN_MAX_BYTES)
		return err_set(err, -EINVAL, "%s: the regular expression is longer than %u bytes",
		               option, PATTERN_MAX_BYTES);
	code = translate(&t);
	if (code == -EINVAL)
		return err_set(err, -EINVAL, "%s: '%s' is not a regular expression: %s", option,
		               text, t.why);
	if (code < 0)
		return code;
	code = regcomp(&r->re, b.p ? b.p : "",
	               REG_EXTENDED | REG_NOSUB | (t.ignore_case ? REG_ICASE : 0));
	if (code == REG_ESPACE)
		return -ENOMEM;
	if (code) {
		(void)regerror(code, &r->re, why, sizeof(why)); /* fits */
		return err_set(err, -EINVAL, "%s: '%s' is not a regular expression: %s", option,
		               text, why);
	}
	r->made = true;
	*ret = TAKE_PTR(r);
	return 0;
}

bool rep_regex_matches(const struct rep_regex *r, const char *text)
{
	return regexec(&r->re, text, 0, NULL, 0) == 0;
}

void rep_regex_freep(struct rep_regex **r)
{
	if (*r && (*r)->made)
		regfree(&(*r)->re);
	freep(r);
}
