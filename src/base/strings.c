/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/base.h"

#define SBUF_MIN_BYTES 64 /* first allocation: most messages and paths fit */

int str_copy(char *dst, size_t dst_size, const char *src)
{
	size_t len = strlen(src);
	size_t n;

	if (dst_size == 0)
		return -E2BIG;
	n = MIN_OF(len, dst_size - 1);
	memcpy(dst, src, n);
	dst[n] = '\0';
	return n < len ? -E2BIG : 0;
}

bool str_starts(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int parse_u64(const char *s, int base, uint64_t *ret)
{
	uint64_t val = 0;
	bool over = false;

	assert(base == 10 || base == 16);
	if (base == 16 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X'))
		s += 2;
	if (*s == '\0')
		return -EINVAL;
	/* Junk after a number too large is still junk, so the whole string is read. */
	for (; *s; s++) {
		int digit = digit_of(*s);

		if (digit < 0 || digit >= base)
			return -EINVAL;
		over = over || __builtin_mul_overflow(val, (uint64_t)base, &val) ||
		       __builtin_add_overflow(val, (uint64_t)digit, &val);
	}
	if (over)
		return -ERANGE;
	*ret = val;
	return 0;
}

int parse_i64_range(const char *s, int64_t min, int64_t max, int64_t *ret)
{
	bool neg = *s == '-';
	uint64_t mag;
	int64_t val;
	int r;

	r = parse_u64(neg ? s + 1 : s, 10, &mag);
	if (r < 0)
		return r;
	if (mag > (neg ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX))
		return -ERANGE;
	/* -(2^63) has no positive twin: negate in unsigned arithmetic. */
	val = (int64_t)(neg ? 0 - mag : mag);
	if (val < min || val > max)
		return -ERANGE;
	*ret = val;
	return 0;
}

void sbuf_init(struct sbuf *b, size_t max_bytes)
{
	*b = (struct sbuf){.max = max_bytes};
}

void sbuf_done(struct sbuf *b)
{
	free(b->p);
	*b = (struct sbuf){.max = b->max};
}

void sbuf_reset(struct sbuf *b)
{
	b->len = 0;
	b->err = 0;
	if (b->p)
		b->p[0] = '\0';
}

/* Makes room for @len more bytes and the NUL. */
void *sbuf_reserve(struct sbuf *b, size_t len)
{
	size_t need, cap;
	char *p;

	if (b->err)
		return NULL;
	if (len > b->max - b->len || !size_add(b->len, len, &need) || !size_add(need, 1, &need)) {
		b->err = -E2BIG;
		return NULL;
	}
	if (need > b->cap) {
		cap = MAX_OF(b->cap, (size_t)SBUF_MIN_BYTES / 2);
		cap = size_mul(cap, 2, &cap) ? MAX_OF(cap, need) : need;
		if (cap > b->max) /* need <= max + 1 */
			cap = MAX_OF(need, b->max);
		p = realloc(b->p, cap);
		if (!p) {
			b->err = -ENOMEM;
			return NULL;
		}
		b->p = p;
		b->cap = cap;
		b->p[b->len] = '\0';
	}
	return b->p + b->len;
}

int sbuf_add(struct sbuf *b, const void *data, size_t len)
{
	char *p = sbuf_reserve(b, len);

	if (!p)
		return b->err;
	if (len > 0)
		memcpy(p, data, len);
	p[len] = '\0';
	b->len += len;
	return 0;
}

int sbuf_str(struct sbuf *b, const char *s)
{
	return sbuf_add(b, s, strlen(s));
}

int sbuf_char(struct sbuf *b, char c)
{
	return sbuf_add(b, &c, 1);
}

int sbuf_addf(struct sbuf *b, const char *fmt, ...)
{
	va_list ap;
	char *p;
	int len;

	if (b->err)
		return b->err;
	va_start(ap, fmt);
	len = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (len < 0) {
		/* Only an encoding error or more than INT_MAX bytes come here. */
		b->err = -E2BIG;
		return b->err;
	}
	p = sbuf_reserve(b, (size_t)len);
	if (!p)
		return b->err;
	va_start(ap, fmt);
	len = vsnprintf(p, (size_t)len + 1, fmt, ap);
	va_end(ap);
	assert(len >= 0);
	b->len += (size_t)len;
	return 0;
}

char *sbuf_take(struct sbuf *b)
{
	char *p;

	if (!sbuf_reserve(b, 0)) /* an empty one gets its NUL */
		return NULL;
	p = TAKE_PTR(b->p);
	b->len = b->cap = 0;
	return p;
}

const char *str_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}
