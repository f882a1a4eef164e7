/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protobuf's wire format over a cursor, for dec_pprof*.c alone.
 * Source: protobuf.dev/programming-guides/encoding.
 */
#ifndef PA_DEC_PB_H
#define PA_DEC_PB_H

#include "base/base.h"

enum dec_wire {
	DEC_WIRE_VARINT = 0,
	DEC_WIRE_FIXED64 = 1,
	DEC_WIRE_BYTES = 2,
	DEC_WIRE_FIXED32 = 5,
};

/* One field of a message. */
struct dec_field {
	uint32_t num;
	enum dec_wire wire;
	uint64_t value;      /* VARINT, FIXED* */
	struct cursor bytes; /* BYTES */
};

/* Reads a number; most have one byte. Returns 0, -ENODATA, -ERANGE. */
static inline int dec_pb_varint(struct cursor *c, uint64_t *ret)
{
	if (c->p != c->end && *c->p < 0x80) {
		*ret = *c->p++;
		return 0;
	}
	return cursor_uleb(c, ret);
}

/* Reads the next field. Returns 0, -ENODATA (truncated), -ERANGE (a number over 64 bits, or a field
 * number over 2^29), -EINVAL (unknown wire type). */
static inline int dec_pb_field(struct cursor *c, struct dec_field *ret)
{
	uint64_t tag, len;
	uint32_t v32;
	int r = dec_pb_varint(c, &tag);

	if (r < 0)
		return r;
	if (tag >> 3 == 0 || tag >> 32)
		return -ERANGE;
	ret->num = (uint32_t)(tag >> 3);
	ret->wire = (enum dec_wire)(tag & 7);
	switch ((int)ret->wire) {
	case DEC_WIRE_VARINT:
		return dec_pb_varint(c, &ret->value);
	case DEC_WIRE_FIXED64:
		return cursor_u64(c, &ret->value);
	case DEC_WIRE_BYTES:
		r = dec_pb_varint(c, &len);
		return r < 0 ? r : cursor_sub(c, len, &ret->bytes);
	case DEC_WIRE_FIXED32:
		r = cursor_u32(c, &v32);
		if (r == 0)
			ret->value = v32;
		return r;
	default:
		return -EINVAL;
	}
}

#endif
