/* SPDX-License-Identifier: Apache-2.0 */
/* enc_text_priv - shared by the files that write metrics as text. Failures stick in the buffer and
 * are checked once, at the end. */
#ifndef PA_ENC_TEXT_PRIV_H
#define PA_ENC_TEXT_PRIV_H

#include "encode/encode_priv.h"

#define ENC_NUMBER_WIDTH 14

/**
 * enc_put_spaces - fill with blanks from column @have to @width
 */
void enc_put_spaces(struct sbuf *b, size_t have, size_t width);
/**
 * enc_put_title - write a title with a colon, padded to the column of numbers; it may be untrusted
 * @indent: columns before it
 */
void enc_put_title(struct sbuf *b, size_t indent, const char *title);
/**
 * enc_pct_of - "12.3": @part of @all in percent
 * @all:   not 0
 * @round: 0.5 to the nearest tenth, 0 downwards
 * Returns: @ret.
 */
const char *enc_pct_of(uint64_t part, uint64_t all, double round, char ret[static ENC_DECIMAL_MAX]);
/**
 * enc_add_sat - a + b, UINT64_MAX if that does not fit
 */
uint64_t enc_add_sat(uint64_t a, uint64_t b);
/**
 * enc_put_counters - write the blocks of hardware and software counters
 */
void enc_put_counters(struct sbuf *b, const struct met_snapshot *s, const struct met_entry *e);

#endif
