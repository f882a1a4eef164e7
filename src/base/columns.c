/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"

/* Decodes one character of s[len], len at least 1; returns its bytes. @ret: UINT32_MAX: no UTF-8. */
static size_t decode(const unsigned char *s, size_t len, uint32_t *ret)
{
	const size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
	uint32_t c = n == 1 ? s[0] : s[0] & (0x7fu >> n);

	*ret = UINT32_MAX;
	if (n == 0 || n > len)
		return 1;
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 1;
		c = c << 6 | (s[i] & 0x3f);
	}
	*ret = c;
	return n;
}

static size_t columns_of_char(uint32_t c)
{
	static const struct {
		uint32_t first, last, columns;
	} ranges[] = {
#define X(first, last, columns) {first, last, columns},
#include "base/columns.def"
#undef X
	};
	size_t low = 0, high = sizeof(ranges) / sizeof(ranges[0]);

	if (c < ranges[0].first || c == UINT32_MAX)
		return 1;
	/* The last range that begins at c or before. */
	while (high - low > 1) {
		const size_t at = low + (high - low) / 2;

		if (ranges[at].first <= c)
			low = at;
		else
			high = at;
	}
	return c <= ranges[low].last ? ranges[low].columns : 1;
}

size_t columns_walk(const char *s, size_t len, size_t most, size_t *ret_columns)
{
	size_t i = 0, columns = 0, n;

	for (; i < len; i += n) {
		uint32_t c;
		size_t width;

		n = decode((const unsigned char *)s + i, len - i, &c);
		width = columns_of_char(c);
		if (columns + width > most)
			break;
		columns += width;
	}
	*ret_columns = columns;
	return i;
}

size_t columns_of(const char *s, size_t len)
{
	size_t columns;

	(void)columns_walk(s, len, SIZE_MAX, &columns);
	return columns;
}

size_t columns_tail(const char *s, size_t len, size_t most)
{
	const size_t have = columns_of(s, len);
	size_t cut, from;

	if (have <= most)
		return 0;
	from = columns_walk(s, len, have - most, &cut);
	/* A wide character that begins before the end and does not fit it. */
	return cut == have - most ? from : columns_walk(s, len, have - most + 1, &cut);
}
