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
