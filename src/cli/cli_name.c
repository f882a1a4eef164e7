/* SPDX-License-Identifier: Apache-2.0 */
/* cli_name.c - names of output files; pure */
#include "cli_priv.h"

#include <errno.h>
#include <string.h>

static bool is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_utf8_tail(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

void cli_clean_name(const char *name, char *ret, size_t size)
{
	size_t len;

	while (is_blank(*name))
		name++;
	len = strlen(name);
	while (len && is_blank(name[len - 1]))
		len--;
	if (len >= size) {
		len = size - 1;
		while (len && is_utf8_tail(name[len]))
			len--;
	}
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)name[i];
		bool bad = c < 0x20 || c == 0x7f || c == '/' || (i == 0 && (c == '.' || c == '-'));

		ret[i] = bad ? '_' : name[i];
	}
	ret[len] = '\0';
}

int cli_output_name(const char *comm, const struct tm *when, unsigned int number,
                    const char *suffix, char *ret, size_t size)
{
	char stamp[32], middle[16] = "";
	int n;

	if (!strftime(stamp, sizeof(stamp), "%Y%m%d%H%M", when))
		return -ENAMETOOLONG;
	if (number >= 2)
		(void)snprintf(middle, sizeof(middle), "-%u", number); /* 11 characters at most */
	n = snprintf(ret, size, "%s%s%s%s%s", comm ? comm : "", comm ? "-" : "", stamp, middle,
	             suffix);
	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}
