/* SPDX-License-Identifier: Apache-2.0 */
/* cli_statistics.c - values among the lines "key: value" of a profile */
#include "cli_priv.h"

#include <stdlib.h>
#include <string.h>

const char *cli_statistic(const struct pfa_session *s, uint32_t kind, const char *key)
{
	size_t len = strlen(key);
	const char *line;

	for (size_t i = 0; (line = pfa_quality_of(s, kind, i)); i++) {
		if (!strncmp(line, key, len) && line[len] == ':')
			return line + len + 1 + strspn(line + len + 1, " ");
	}
	return NULL;
}

double cli_statistic_number(const struct pfa_session *s, uint32_t kind, const char *key,
                            double otherwise)
{
	const char *v = cli_statistic(s, kind, key);

	return v ? strtod(v, NULL) : otherwise;
}

bool cli_statistic_next(const struct pfa_session *s, uint32_t kind, const char *key, size_t *at,
                        struct cli_share *ret)
{
	size_t len = strlen(key);
	const char *line;

	while ((line = pfa_quality_of(s, kind, (*at)++))) {
		const char *name, *share = strrchr(line, ' ');

		if (strncmp(line, key, len) != 0 || line[len] != ':')
			continue;
		name = line + len + 1 + strspn(line + len + 1, " ");
		if (!share || share <= name || !(strtod(share, NULL) > 0))
			continue;
		*ret = (struct cli_share){name, (int)(share - name), strtod(share, NULL)};
		return true;
	}
	return false;
}

bool cli_statistic_files(const struct pfa_session *s, uint32_t kind, const char *key,
                         uint64_t samples, char *text, size_t size)
{
	struct cli_share f;
	size_t n = 0;

	text[0] = '\0';
	for (size_t at = 0; n < size && cli_statistic_next(s, kind, key, &at, &f);) {
		char pct[CLI_PCT_MAX];

		if (n && f.pct < CLI_SHARE_SHOWN)
			continue;
		cli_format_pct(f.pct, samples, pct);
		n += (size_t)snprintf(text + n, size - n, "%s%.*s %s %%", n ? ", " : "", f.len,
		                      f.name, pct);
	}
	return n;
}

#define REASONS_MAX 32

/* The line "walk_read_fault_pct: 3.10" gives "read_fault" and 3.1. */
struct reason {
	const char *name;
	int name_len;
	double pct;
};

static int cmp_reason(const void *a, const void *b)
{
	const struct reason *x = a, *y = b;

	if (x->pct != y->pct)
		return x->pct < y->pct ? 1 : -1;
	return x->name < y->name ? -1 : 1; /* in the order of the library */
}

static bool is_reason(const char *name, size_t len)
{
	/* A complete stack, and two outcomes without a user stack. */
	static const char *const others[] = {"root_reached", "no_walk", "mm_released"};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (strlen(others[i]) == len && !strncmp(others[i], name, len))
			return false;
	return true;
}

bool cli_statistic_reasons(const struct pfa_session *s, uint32_t kind, uint64_t samples, char *text,
                           size_t size)
{
	static const char before[] = "walk_", after[] = "_pct: ";
	struct reason all[REASONS_MAX] = {0};
	size_t n = 0, len = 0;
	const char *line;

	for (size_t i = 0; (line = pfa_quality_of(s, kind, i)) && n < REASONS_MAX; i++) {
		const char *name = line + strlen(before), *end;

		if (strncmp(line, before, strlen(before)) != 0)
			continue;
		end = strstr(name, after);
		if (!end)
			continue;
		all[n] = (struct reason){.name = name,
		                         .name_len = (int)(end - name),
		                         .pct = strtod(end + strlen(after), NULL)};
		if (all[n].pct > 0 && is_reason(name, (size_t)all[n].name_len))
			n++;
	}
	qsort(all, n, sizeof(all[0]), cmp_reason);
	text[0] = '\0';
	for (size_t i = 0; i < n && len < size; i++) {
		size_t from = len;
		char pct[CLI_PCT_MAX];

		if (i && all[i].pct < CLI_SHARE_SHOWN)
			break;
		cli_format_pct(all[i].pct, samples, pct);
		len += (size_t)snprintf(text + len, size - len, "%s%s %% %.*s", i ? ", " : "", pct,
		                        all[i].name_len, all[i].name);
		if (len > size)
			len = size; /* cut off */
		for (char *p = text + from; *p; p++)
			if (*p == '_') /* "32-bit task" is the only name with a hyphen */
				*p = strncmp(p, "_bit_", 5) == 0 ? '-' : ' ';
		if (len - from >= strlen("jit code") && len < size &&
		    strcmp(text + len - strlen("jit code"), "jit code") == 0)
			memcpy(text + len - strlen("jit code"), "JIT", 3);
	}
	return n > 0;
}
