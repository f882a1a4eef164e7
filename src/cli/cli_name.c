/* SPDX-License-Identifier: Apache-2.0 */
/* cli_name.c - names of output files; pure */
#include "base/utf8.h"
#include "cli_priv.h"

#include <errno.h>
#include <string.h>

static bool is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Whether the character s[n] of a file's name needs no quotes in any shell, or is other text that
 * a terminal shows. */
static bool is_safe(const char *s, size_t n)
{
	static const char safe[] =
	        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+@";

	return n == 1 ? strchr(safe, *s) != NULL : n && !utf8_is_control((const uint8_t *)s, n);
}

void cli_clean_name(const char *name, char *ret, size_t size)
{
	char *to = ret;
	size_t len;

	while (is_blank(*name))
		name++;
	len = strlen(name);
	while (len && is_blank(name[len - 1]))
		len--;
	for (size_t step; len; name += step, len -= step) {
		const size_t n = utf8_len((const uint8_t *)name, len);
		const bool hidden = to == ret && (*name == '.' || *name == '-');

		step = n ? n : 1;
		if (to + step >= ret + size)
			break;
		if (hidden || !is_safe(name, n)) {
			*to++ = '_';
		} else {
			memcpy(to, name, n);
			to += n;
		}
	}
	*to = '\0';
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
