/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns of thread names to the states of abi_names.h; pure. */
#include "loader/load_priv.h"

/* A part of a pattern. */
struct part {
	bool star;        /* any bytes; else one byte of: */
	uint64_t set[4];  /* a bit for each byte; never 0 */
	const char *next; /* after it; NULL: the part is malformed */
};

static void set_add(struct part *p, unsigned char from, unsigned char to)
{
	for (unsigned int c = from; c <= to; c++)
		p->set[c / 64] |= 1ull << (c % 64);
}

static bool set_has(const struct part *p, unsigned int c)
{
	return p->set[c / 64] >> (c % 64) & 1;
}

/* Reads one character of a set, after a backslash if there is one. */
static unsigned char set_char(const char **at)
{
	if (**at == '\\' && (*at)[1])
		(*at)++;
	return (unsigned char)*(*at)++;
}

/* Reads "[…]" at @at. Returns false if nothing closes it: '[' is for itself then. */
static bool read_set(const char *at, struct part *p)
{
	bool negated = at[1] == '!' || at[1] == '^';
	const char *begin = at + 1 + negated;

	for (at = begin; *at && (*at != ']' || at == begin);) {
		unsigned char from, to;

		if (at[0] == '[' && (at[1] == ':' || at[1] == '.' || at[1] == '=')) {
			p->next = NULL;
			return true;
		}
		from = to = set_char(&at);
		if (at[0] == '-' && at[1] && at[1] != ']') {
			at++;
			to = set_char(&at);
		}
		set_add(p, from, to);
	}
	if (!*at)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(p->set) && negated; i++)
		p->set[i] = ~p->set[i];
	p->next = at + 1;
	return true;
}

/* Reads the part at @at, which is not the end. */
static struct part read_part(const char *at)
{
	struct part p = {.next = at + 1};

	if (*at == '*') {
		p.star = true;
	} else if (*at == '?') {
		set_add(&p, 1, 255);
	} else if (*at != '[' || !read_set(at, &p)) {
		p = (struct part){.next = at};
		set_add(&p, (unsigned char)(*at == '\\' && at[1] ? at[1] : *at),
		        (unsigned char)(*at == '\\' && at[1] ? at[1] : *at));
		p.next += *at == '\\' && at[1] ? 2 : 1;
	}
	return p;
}

int load_name_pattern(const char *comm)
{
	unsigned int bytes = 0;

	if (!strpbrk(comm, "*?[\\"))
		return 0;
	while (*comm) {
		struct part p = read_part(comm);

		if (!p.next)
			return -EINVAL;
		bytes += !p.star;
		comm = p.next;
	}
	return bytes < ABI_NAME_STATES ? 1 : -E2BIG;
}

void load_name_add(struct abi_name_set *sets, uint32_t i, const char *pattern)
{
	struct abi_name_set *set = &sets[i / ABI_NAME_PATTERNS];
	uint64_t state = 1ull << (i % ABI_NAME_PATTERNS * ABI_NAME_STATES);

	set->first |= state;
	while (pattern && *pattern) { /* NULL: malformed, which load_name_pattern refuses */
		struct part p = read_part(pattern);

		pattern = p.next;
		if (p.star) {
			set->loops |= state;
			continue;
		}
		for (unsigned int c = 1; c < ARRAY_SIZE(set->accept); c++)
			if (set_has(&p, c))
				set->accept[c] |= state;
		state <<= 1;
	}
	set->last |= state;
}
