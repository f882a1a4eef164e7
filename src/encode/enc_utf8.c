/* SPDX-License-Identifier: Apache-2.0 */
#include "encode/encode_priv.h"

size_t enc_put_name(struct sbuf *b, const char *name, size_t len)
{
	const uint8_t *s = (const uint8_t *)name;
	const size_t from = b->len;

	for (size_t at = 0; at < len;) {
		size_t n = utf8_len(s + at, len - at);

		if (n == 0 || utf8_is_control(s + at, n))
			(void)sbuf_char(b, '?');
		else
			(void)sbuf_add(b, s + at, n);
		at += MAX_OF(n, (size_t)1);
	}
	return b->len > from ? columns_of(b->p + from, b->len - from) : 0;
}

/* Returns the code point of the character s[n], n at most 3. */
static uint32_t code_point(const uint8_t *s, size_t n)
{
	if (n == 1)
		return s[0];
	if (n == 2)
		return (s[0] & 0x1fu) << 6 | (s[1] & 0x3fu);
	return (s[0] & 0xfu) << 12 | (s[1] & 0x3fu) << 6 | (s[2] & 0x3fu);
}

void enc_put_json_string(struct sbuf *b, const char *str, size_t len)
{
	const uint8_t *s = (const uint8_t *)str;

	(void)sbuf_char(b, '"');
	for (size_t at = 0; at < len;) {
		size_t n = utf8_len(s + at, len - at);

		if (n == 0)
			(void)sbuf_addf(b, "\\\\x%02x", s[at]);
		else if (utf8_is_control(s + at, n))
			(void)sbuf_addf(b, "\\u%04x", code_point(s + at, n));
		else if (s[at] == '"' || s[at] == '\\')
			(void)sbuf_addf(b, "\\%c", s[at]);
		else
			(void)sbuf_add(b, s + at, n);
		at += MAX_OF(n, (size_t)1);
	}
	(void)sbuf_char(b, '"');
}
