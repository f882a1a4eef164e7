/* SPDX-License-Identifier: Apache-2.0 */
/* Values among the lines "key: value" that a profile of perf-agent says about itself. */
#include "report/rep_priv.h"

#define REASONS_MAX 32
#define SHARE_SHOWN 1 /* percent; smaller ones are left out of lists, but for the first */

const char *rep_item_next(const struct rep_items *it, const char *key, size_t *at)
{
	const size_t len = strlen(key);

	while (*at < it->n) {
		const char *text = it->p[(*at)++];

		if (strncmp(text, key, len) == 0 && str_starts(text + len, ": "))
			return text + len + 2;
	}
	return NULL;
}

const char *rep_item(const struct rep_items *it, const char *key)
{
	size_t at = 0;

	return rep_item_next(it, key, &at);
}

/* Not strtod, which depends on the locale. */
static double number(const char *p)
{
	double v = 0, part = 1;

	if (!p || *p < '0' || *p > '9')
		return -1;
	for (; *p >= '0' && *p <= '9'; p++)
		v = v * 10 + (*p - '0');
	if (*p == '.')
		for (p++; *p >= '0' && *p <= '9'; p++)
			v += (*p - '0') * (part /= 10);
	return *p || v > 1e15 ? -1 : v;
}

double rep_item_number(const struct rep_items *it, const char *key, double otherwise)
{
	const double v = number(rep_item(it, key));

	return v < 0 ? otherwise : v;
}

bool rep_item_part(const struct rep_items *it, const char *key, size_t *at, struct rep_part *ret)
{
	const char *text;

	while ((text = rep_item_next(it, key, at))) {
		const char *share = strrchr(text, ' ');
		const double pct = share && share > text ? number(share + 1) : -1;

		if (pct > 0) {
			*ret = (struct rep_part){text, (size_t)(share - text), pct};
			return true;
		}
	}
	return false;
}

void rep_put_listed(struct sbuf *b, const struct rep_part *f, int64_t samples)
{
	if (b->len && f->pct < SHARE_SHOWN)
		return;
	(void)sbuf_str(b, b->len ? ", " : ""); /* failures stick in .err */
	(void)enc_put_name(b, f->name, f->len);
	(void)sbuf_char(b, ' ');
	rep_put_pct(b, f->pct, samples);
	(void)sbuf_str(b, " %");
}

void rep_put_files(struct sbuf *b, const struct rep_items *it, const char *key, int64_t samples)
{
	struct rep_part f;

	for (size_t at = 0; rep_item_part(it, key, &at, &f);)
		rep_put_listed(b, &f, samples);
}

/* ---- outcomes of walks ----------------------------------------------------------------------- */

/* The line "walk_read_fault_pct: 3.10" gives "read_fault" and 3.1. */
static int cmp_reason(const void *a, const void *b)
{
	const struct rep_part *x = a, *y = b;

	if (x->pct != y->pct)
		return x->pct < y->pct ? 1 : -1;
	return (x->name > y->name) - (x->name < y->name);
}

static bool is_reason(const char *name, size_t len)
{
	/* A complete stack, and two outcomes without a user stack. */
	static const char *const others[] = {"root_reached", "no_walk", "mm_released"};

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (strlen(others[i]) == len && !strncmp(others[i], name, len))
			return false;
	return true;
}

static void put_reason(struct sbuf *b, const struct rep_part *r, int64_t samples)
{
	static const char jit[] = "jit_code";

	(void)sbuf_str(b, b->len ? ", " : "");
	rep_put_pct(b, r->pct, samples);
	(void)sbuf_str(b, " % ");
	if (r->len == strlen(jit) && !strncmp(r->name, jit, r->len)) {
		(void)sbuf_str(b, "JIT code");
		return;
	}
	for (size_t i = 0; i < r->len; i++) {
		const bool hyphen = !strncmp(r->name + i, "_bit_", 5); /* "32-bit task" */

		(void)sbuf_char(b, r->name[i] != '_' ? r->name[i] : hyphen ? '-' : ' ');
	}
}

void rep_put_reasons(struct sbuf *b, const struct rep_items *it, int64_t samples)
{
	static const char before[] = "walk_", after[] = "_pct: ";
	struct rep_part all[REASONS_MAX] = {0};
	size_t n = 0;

	for (size_t i = 0; i < it->n && n < REASONS_MAX; i++) {
		const char *name, *end;

		if (!str_starts(it->p[i], before))
			continue;
		name = it->p[i] + strlen(before);
		end = strstr(name, after);
		if (!end)
			continue;
		all[n] = (struct rep_part){name, (size_t)(end - name), number(end + strlen(after))};
		if (all[n].pct > 0 && is_reason(name, all[n].len))
			n++;
	}
	qsort(all, n, sizeof(all[0]), cmp_reason);
	for (size_t i = 0; i < n && (i == 0 || all[i].pct >= SHARE_SHOWN); i++)
		put_reason(b, &all[i], samples);
}
