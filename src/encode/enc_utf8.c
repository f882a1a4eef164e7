/* SPDX-License-Identifier: Apache-2.0 */
#include "encode/encode_priv.h"

size_t enc_utf8_len(const uint8_t *s, size_t left)
{
	uint8_t lo = 0x80, hi = 0xbf;
	size_t n;

	if (s[0] < 0x80)
		return 1;
	if (s[0] < 0xc2 || s[0] > 0xf4)
		return 0;
	n = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
	if (n > left)
		return 0;
	if (s[0] == 0xe0)
		lo = 0xa0; /* overlong */
	else if (s[0] == 0xed)
		hi = 0x9f; /* surrogates */
	else if (s[0] == 0xf0)
		lo = 0x90; /* overlong */
	else if (s[0] == 0xf4)
		hi = 0x8f; /* past U+10FFFF */
	if (s[1] < lo || s[1] > hi)
		return 0;
	for (size_t i = 2; i < n; i++) {
		if (s[i] < 0x80 || s[i] > 0xbf)
			return 0;
	}
	return n;
}

size_t enc_put_name(struct sbuf *b, const char *name, size_t len)
{
	const uint8_t *s = (const uint8_t *)name;
	const size_t from = b->len;

	for (size_t at = 0; at < len;) {
		size_t n = enc_utf8_len(s + at, len - at);
		/* U+0080 to U+009F are control characters, too. */
		bool c1 = n == 2 && s[at] == 0xc2 && s[at + 1] < 0xa0;

		if (n == 0 || c1 || s[at] < 0x20 || s[at] == 0x7f)
			(void)sbuf_char(b, '?');
		else
			(void)sbuf_add(b, s + at, n);
		at += MAX_OF(n, (size_t)1);
	}
	return b->len > from ? columns_of(b->p + from, b->len - from) : 0;
}

void enc_put_json_string(struct sbuf *b, const char *str, size_t len)
{
	const uint8_t *s = (const uint8_t *)str;

	(void)sbuf_char(b, '"');
	for (size_t at = 0; at < len;) {
		size_t n = enc_utf8_len(s + at, len - at);

		if (n == 0)
			(void)sbuf_addf(b, "\\\\x%02x", s[at]);
		else if (s[at] < 0x20 || s[at] == 0x7f)
			(void)sbuf_addf(b, "\\u%04x", s[at]);
		else if (n == 2 && s[at] == 0xc2 && s[at + 1] < 0xa0)
			(void)sbuf_addf(b, "\\u%04x", s[at + 1]);
		else if (s[at] == '"' || s[at] == '\\')
			(void)sbuf_addf(b, "\\%c", s[at]);
		else
			(void)sbuf_add(b, s + at, n);
		at += MAX_OF(n, (size_t)1);
	}
	(void)sbuf_char(b, '"');
}
