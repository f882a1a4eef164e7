/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the readers copy little-endian numbers");

int cursor_bytes(struct cursor *c, void *dst, size_t n)
{
	if (cursor_left(c) < n)
		return -ENODATA;
	if (n > 0) { /* an empty cursor may be NULL: neither memcpy nor NULL + 0 are defined */
		memcpy(dst, c->p, n);
		c->p += n;
	}
	return 0;
}

int cursor_u8(struct cursor *c, uint8_t *ret)
{
	return cursor_bytes(c, ret, sizeof(*ret));
}

int cursor_u16(struct cursor *c, uint16_t *ret)
{
	return cursor_bytes(c, ret, sizeof(*ret));
}

int cursor_u32(struct cursor *c, uint32_t *ret)
{
	return cursor_bytes(c, ret, sizeof(*ret));
}

int cursor_u64(struct cursor *c, uint64_t *ret)
{
	return cursor_bytes(c, ret, sizeof(*ret));
}

/* Both LEB128 readers take padded numbers of any length, as long as what is past bit 63 only
 * repeats zeros (or the sign). Source: DWARF 5 §7.6. */
int cursor_uleb(struct cursor *c, uint64_t *ret)
{
	const uint8_t *p = c->p;
	uint64_t val = 0;
	unsigned int shift = 0;
	uint8_t byte;

	do {
		if (p == c->end)
			return -ENODATA;
		byte = *p++;
		if (shift < 63)
			val |= (uint64_t)(byte & 0x7f) << shift;
		else if (shift == 63 && (byte & 0x7f) <= 1)
			val |= (uint64_t)(byte & 1) << 63;
		else if (byte & 0x7f)
			return -ERANGE;
		if (shift <= 63)
			shift += 7;
	} while (byte & 0x80);
	c->p = p;
	*ret = val;
	return 0;
}

int cursor_sleb(struct cursor *c, int64_t *ret)
{
	const uint8_t *p = c->p;
	uint64_t val = 0;
	unsigned int shift = 0;
	uint8_t byte;

	do {
		if (p == c->end)
			return -ENODATA;
		byte = *p++;
		if (shift < 63) {
			val |= (uint64_t)(byte & 0x7f) << shift;
		} else if (shift == 63) {
			/* Bit 63 is the sign; the six bits after it must repeat it. */
			if ((byte & 0x7f) != 0 && (byte & 0x7f) != 0x7f)
				return -ERANGE;
			val |= (uint64_t)(byte & 1) << 63;
		} else if ((byte & 0x7f) != ((val >> 63) ? 0x7f : 0)) {
			return -ERANGE;
		}
		if (shift <= 63)
			shift += 7;
	} while (byte & 0x80);
	if (shift <= 63 && (byte & 0x40))
		val |= UINT64_MAX << shift;
	c->p = p;
	*ret = (int64_t)val;
	return 0;
}

int cursor_skip(struct cursor *c, size_t n)
{
	if (cursor_left(c) < n)
		return -ENODATA;
	if (n > 0)
		c->p += n;
	return 0;
}

int cursor_sub(struct cursor *c, size_t n, struct cursor *ret)
{
	const uint8_t *p = c->p;
	int r = cursor_skip(c, n);

	if (r < 0)
		return r;
	*ret = (struct cursor){.p = p, .end = c->p};
	return 0;
}

int cursor_str(struct cursor *c, const char **ret)
{
	const uint8_t *nul = cursor_left(c) ? memchr(c->p, 0, cursor_left(c)) : NULL;

	if (!nul)
		return -ENODATA;
	*ret = (const char *)c->p;
	c->p = nul + 1;
	return 0;
}

int cursor_line(struct cursor *c, const char **ret, size_t *ret_len)
{
	const uint8_t *line = c->p;
	const uint8_t *nl;

	if (cursor_left(c) == 0)
		return -ENODATA;
	nl = memchr(line, '\n', cursor_left(c));
	*ret = (const char *)line;
	*ret_len = (size_t)((nl ? nl : c->end) - line);
	c->p = nl ? nl + 1 : c->end;
	return 0;
}
