/* SPDX-License-Identifier: Apache-2.0 */
/* encode_priv - shared by the encoders. */
#ifndef PA_ENCODE_PRIV_H
#define PA_ENCODE_PRIV_H

#include "encode/encode.h"

/**
 * enc_put_varint - a number in groups of 7 bits, the lowest first (LEB128, protobuf's varint)
 */
static inline void enc_put_varint(struct sbuf *b, uint64_t v)
{
	uint8_t bytes[10]; /* 64 bits */
	size_t n = 0;

	do {
		bytes[n++] = (uint8_t)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
		v >>= 7;
	} while (v);
	(void)sbuf_add(b, bytes, n); /* failures stick in .err */
}

/* A value derived from two counters: factor * num / den. */
struct enc_derived {
	const char *key, *title;
	enum met_counter_id num, den;
	uint32_t factor;
	const char *unit;
};
#define ENC_DERIVED_CNT 3
extern const struct enc_derived enc_derived_ratios[ENC_DERIVED_CNT];
/**
 * enc_decimal, enc_thousandths - a number with three decimals and a point, in every locale
 * @v: not negative; above 10^15 printed as 10^15. enc_thousandths: in thousandths.
 * Returns: @ret.
 */
#define ENC_DECIMAL_MAX 32
const char *enc_decimal(double v, char ret[static ENC_DECIMAL_MAX]);
const char *enc_thousandths(uint64_t v, char ret[static ENC_DECIMAL_MAX]);

#endif
