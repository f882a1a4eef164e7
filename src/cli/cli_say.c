/* SPDX-License-Identifier: Apache-2.0 */
/* cli_say.c - lines on standard error. Names in them come from other processes: bytes that a
 * terminal would obey are replaced. */
#include "base/columns.h"
#include "base/utf8.h"
#include "cli_priv.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

void cli_make_printable(char *s)
{
	char *to = s;

	for (size_t left = strlen(s), step; left; s += step, left -= step) {
		const size_t n = utf8_len((const uint8_t *)s, left);

		step = n ? n : 1;
		if (n == 0 || utf8_is_control((const uint8_t *)s, n)) {
			*to++ = '?';
			continue;
		}
		for (size_t i = 0; i < n; i++)
			*to++ = s[i];
	}
	*to = '\0';
}

size_t cli_columns(const char *s)
{
	return columns_of(s, strlen(s));
}

void cli_shorten(char *s, size_t columns, bool keep_end)
{
	const size_t len = strlen(s);
	size_t from, kept;

	if (columns_of(s, len) <= columns)
		return;
	if (columns < 2) {
		s[columns_walk(s, len, columns, &kept)] = '\0';
		return;
	}
	/* At least three columns are removed, which have as many bytes or more. */
	if (!keep_end) {
		from = columns_walk(s, len, columns - 2, &kept);
		memcpy(s + from, "..", 3);
		return;
	}
	from = columns_tail(s, len, columns - 2);
	memmove(s + 2, s + from, strlen(s + from) + 1);
	memcpy(s, "..", 2);
}

const char *cli_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

void cli_fit(const char *s, size_t columns, char ret[CLI_NAME_BYTES_MAX])
{
	(void)snprintf(ret, CLI_NAME_BYTES_MAX, "%s",
	               s); /* C++ names can be longer than any line */
	cli_make_printable(ret);
	cli_shorten(ret, columns, false);
}

size_t cli_columns_printed(const char *s)
{
	char text[CLI_NAME_BYTES_MAX];

	cli_fit(s, CLI_NAME_BYTES_MAX, text);
	return cli_columns(text);
}

uint32_t cli_columns_given(void)
{
	const char *text = getenv("COLUMNS");
	uint64_t n;

	return text && cli_parse_u64(text, &n) == 0 && n >= CLI_WIDTH_MIN && n <= CLI_WIDTH_MAX
	               ? (uint32_t)n
	               : 0;
}

size_t cli_terminal_width(void)
{
	struct winsize w;

	/* Below 40 the terminal does not know its size, or no table fits it. */
	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col >= CLI_WIDTH_MIN)
		return w.ws_col;
	return cli_columns_given() ? cli_columns_given() : CLI_WIDTH_DEFAULT;
}

int cli_refuse(char message[CLI_MESSAGE_MAX], const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(message, CLI_MESSAGE_MAX, format, ap); /* long words are cut */
	va_end(ap);
	return -EINVAL;
}

const char *cli_error(int number)
{
	static char text[128];
	const char *words = strerrordesc_np(number), *symbol = strerrorname_np(number);

	if (!words || !symbol)
		(void)snprintf(text, sizeof(text), "error %d", number);
	else
		(void)snprintf(text, sizeof(text), "%s (%s)", words, symbol); /* fits */
	/* "No such file", but "RFS specific error". */
	if (text[0] >= 'A' && text[0] <= 'Z' && text[1] >= 'a' && text[1] <= 'z')
		text[0] = (char)(text[0] - 'A' + 'a');
	return text;
}

static void __attribute__((format(printf, 2, 0)))
say(const char *prefix, const char *format, va_list ap)
{
	char line[2048];

	/* 2 KiB: messages of the library have up to 512 bytes, rows the width of the terminal. */
	(void)vsnprintf(line, sizeof(line), format, ap);
	cli_make_printable(line);
	/* A failure to write to standard error cannot be reported. */
	(void)fprintf(stderr, "%s%s\n", prefix, line);
}

void cli_say(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	say("perf-agent: ", format, ap);
	va_end(ap);
}

void cli_say_plain(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	say("", format, ap);
	va_end(ap);
}
