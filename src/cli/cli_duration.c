/* SPDX-License-Identifier: Apache-2.0 */
/* cli_duration.c - reads and prints numbers: durations, sizes, weights, shares; pure */
#include "cli_priv.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>

static const struct unit {
	const char *name;
	uint64_t ns;
} units[] = {
        {"ns", 1},
        {"us", 1000},
        {"\u00b5s", 1000}, /* micro sign */
        {"\u03bcs", 1000}, /* Greek mu */
        {"ms", 1000 * 1000},
        {"s", 1000 * 1000 * 1000},
        {"m", 60ull * 1000 * 1000 * 1000},
        {"h", 3600ull * 1000 * 1000 * 1000},
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* A unit ends where the next number begins: "1m30s"; "1mx" is not valid. */
static const struct unit *find_unit(const char *s, size_t len)
{
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strlen(units[i].name) == len && !memcmp(units[i].name, s, len))
			return &units[i];
	}
	return NULL;
}

/* Reads one "<number><unit>" at *@s and moves *@s past it. @first: the unit may be left out, if nothing
 * follows. */
static int parse_component(const char **s, bool first, uint64_t *ret_ns)
{
	/* A digit after the 18th is less than a nanosecond of any unit. */
	const uint64_t scale_max = 1000000000000000000ull;
	uint64_t whole = 0, fraction = 0, scale = 1, ns;
	const struct unit *unit;
	const char *p = *s;
	bool any = false;
	size_t len = 0;

	for (; is_digit(*p); p++, any = true) {
		if (__builtin_mul_overflow(whole, 10, &whole) ||
		    __builtin_add_overflow(whole, (uint64_t)(*p - '0'), &whole))
			return -ERANGE;
	}
	if (*p == '.') {
		for (p++; is_digit(*p); p++, any = true) {
			if (scale == scale_max)
				continue;
			fraction = fraction * 10 + (uint64_t)(*p - '0');
			scale *= 10;
		}
	}
	if (!any)
		return -EINVAL;
	while (p[len] && p[len] != '.' && !is_digit(p[len]))
		len++;
	/* A number alone is in seconds. */
	unit = len || p[0] || !first ? find_unit(p, len) : find_unit("s", 1);
	if (!unit)
		return -EINVAL;
	if (__builtin_mul_overflow(whole, unit->ns, &ns) ||
	    __builtin_add_overflow(ns, (uint64_t)((unsigned __int128)fraction * unit->ns / scale),
	                           &ns))
		return -ERANGE;
	*s = p + len;
	*ret_ns = ns;
	return 0;
}

int cli_parse_duration(const char *s, int64_t *ret_ns)
{
	bool negative = *s == '-';
	bool first = true;
	uint64_t sum = 0;

	if (*s == '-' || *s == '+')
		s++;
	if (!*s)
		return -EINVAL;
	for (; *s; first = false) {
		uint64_t ns;
		int rc;

		rc = parse_component(&s, first, &ns);
		if (rc < 0)
			return rc;
		if (__builtin_add_overflow(sum, ns, &sum) || sum > INT64_MAX)
			return -ERANGE;
	}
	*ret_ns = negative ? -(int64_t)sum : (int64_t)sum;
	return 0;
}

int cli_parse_bool(const char *s, bool *ret)
{
	static const char *const yes[] = {"true", "yes", "on", "1", "t", "y"};
	static const char *const no[] = {"false", "no", "off", "0", "f", "n"};

	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
		if (!strcasecmp(s, yes[i]) || !strcasecmp(s, no[i])) {
			*ret = !strcasecmp(s, yes[i]);
			return 0;
		}
	}
	return -EINVAL;
}

int cli_parse_u64(const char *s, uint64_t *ret)
{
	uint64_t value = 0;

	if (!*s)
		return -EINVAL;
	for (const char *p = s; *p; p++) {
		if (!is_digit(*p))
			return -EINVAL;
	}
	for (; *s; s++) {
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*s - '0'), &value))
			return -ERANGE;
	}
	*ret = value;
	return 0;
}

int cli_parse_size(const char *s, uint64_t *ret)
{
	static const char letters[] = "KMG";
	size_t len = strlen(s);
	const char *unit = len ? strchr(letters, s[len - 1]) : NULL;
	uint64_t value;
	char digits[32];
	int rc;

	if (unit)
		len--;
	if (len >= sizeof(digits))
		return -EINVAL;
	memcpy(digits, s, len);
	digits[len] = '\0';
	rc = cli_parse_u64(digits, &value);
	if (rc < 0)
		return rc;
	if (unit && __builtin_mul_overflow(value, 1ull << (10 * (unit - letters + 1)), &value))
		return -ERANGE;
	*ret = value;
	return 0;
}

int cli_parse_address(const char *s, uint64_t *ret)
{
	static const char digits[] = "0123456789abcdef";
	uint64_t value = 0;

	if (s[0] == '0' && (s[1] == 'x' || s[1] == 'X'))
		s += 2;
	if (!*s)
		return -EINVAL;
	for (; *s; s++) {
		char c = *s >= 'A' && *s <= 'F' ? (char)(*s - 'A' + 'a') : *s;
		const char *digit = strchr(digits, c);

		if (!digit)
			return -EINVAL;
		if (value >> 60)
			return -ERANGE;
		value = value << 4 | (uint64_t)(digit - digits);
	}
	*ret = value;
	return 0;
}

/* Prints three significant digits. */
static void format_scaled(double value, const char *unit, char *ret, size_t size)
{
	int digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;

	(void)snprintf(ret, size, "%.*f %s", digits, value, unit); /* cut when @size is too small */
}

void cli_format_duration(uint64_t ns, char *ret, size_t size)
{
	if (ns < 1000)
		(void)snprintf(ret, size, "%u ns", (unsigned int)ns);
	else if (ns < 999500)
		format_scaled((double)ns / 1e3, "us", ret, size);
	else if (ns < 999500000)
		format_scaled((double)ns / 1e6, "ms", ret, size);
	else
		format_scaled((double)ns / 1e9, "s", ret, size);
}

void cli_format_weight(uint64_t weight, const char *unit, char *ret, size_t size)
{
	static const char *const prefixes[] = {"k", "M", "G", "T", "P", "E"};
	double value = (double)weight;
	size_t i = 0;

	if (!strcmp(unit, "nanoseconds")) {
		cli_format_duration(weight, ret, size);
		return;
	}
	if (weight < 1000) {
		(void)snprintf(ret, size, "%u", (unsigned int)weight);
		return;
	}
	for (value /= 1e3; value >= 999.5 && i + 1 < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		value /= 1e3;
	format_scaled(value, prefixes[i], ret, size);
}

void cli_format_pct(double pct, uint64_t samples, char ret[CLI_PCT_MAX])
{
	/* A step of the last digit is at least one sample, of many samples a hundredth. */
	int digits = samples < 1000 ? 0 : samples < 100000 ? 1 : 2;
	double step = digits == 0 ? 1 : digits == 1 ? 0.1 : 0.01;

	if (pct > 0 && pct <= step / 2)
		(void)snprintf(ret, CLI_PCT_MAX, "<%.*f", digits, step);
	else if (pct < 100 && pct >= 100 - step / 2)
		(void)snprintf(ret, CLI_PCT_MAX, ">%.*f", digits, 100 - step);
	else
		(void)snprintf(ret, CLI_PCT_MAX, "%.*f", digits, pct);
}

const char *cli_plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

void cli_format_count(uint64_t n, char ret[CLI_COUNT_MAX])
{
	char digits[CLI_COUNT_MAX];
	size_t len, to = 0;

	(void)snprintf(digits, sizeof(digits), "%" PRIu64, n);
	len = strlen(digits);
	for (size_t i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			ret[to++] = ',';
		ret[to++] = digits[i];
	}
	ret[to] = '\0';
}
