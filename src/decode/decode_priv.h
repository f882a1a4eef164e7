/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PA_DECODE_PRIV_H
#define PA_DECODE_PRIV_H

#include "decode/decode.h"

/* The input of a reader. */
struct dec_input {
	const uint8_t *data;
	size_t len;
	const char *name;
	const struct dec_options *o;
	struct dec_profile *ret;
	struct err *err;
};

/* Adds a model without samples to the profile. Returns 0, -E2BIG, -ENOMEM, with the message. */
int dec_add_model(struct dec_input *in, struct prof_model **ret);
/* Describes a failure at a byte of the (decompressed) input. Returns @code. */
int dec_bad(struct dec_input *in, int code, uint64_t at, const char *fmt, ...) PRINTF_FMT(4, 5);
/* A list and its limit, for messages. */
struct dec_list {
	const char *what;
	size_t n, max;
};
#define DEC_NO_BYTE UINT64_MAX
/* Describes the limit that a list has met, at a byte of the input or DEC_NO_BYTE. Returns -E2BIG; 0: none has. */
int dec_full(struct dec_input *in, uint64_t at, const struct dec_list *lists, size_t n);
/* Describes a failure of the model: out of memory, or over one of its limits. Returns @code. */
int dec_model_err(struct dec_input *in, int code, uint64_t at);
/* Adds a note. */
void dec_note(struct dec_input *in, const char *fmt, ...) PRINTF_FMT(2, 3);
/* Id of untrusted text of @len bytes: control bytes become @instead. */
int dec_text(struct prof_model *m, const void *s, size_t len, char instead, uint32_t *ret_id);

/* The readers. Return as dec_profile. */
int dec_folded(struct dec_input *in);
int dec_pprof(struct dec_input *in);
int dec_perf(struct dec_input *in);

#endif
