/* SPDX-License-Identifier: Apache-2.0 */
/*
 * utf8 - which characters of an untrusted text a reader may see. The command uses it too. Pure.
 */
#ifndef PA_UTF8_H
#define PA_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * utf8_len - length of the UTF-8 sequence at @s
 * @left: bytes at @s, at least 1
 * Returns: 1 to 4; 0 if it is not UTF-8.
 * Source: Unicode 15, table 3-7.
 */
size_t utf8_len(const uint8_t *s, size_t left);
/**
 * utf8_is_control - whether a terminal obeys the character s[n] instead of showing it
 * @n: as utf8_len returns it; 0 if s[0] is not UTF-8
 * Control characters: U+0000 to U+001F, U+007F to U+009F. Direction controls, after which text is shown
 * in another order than it has: U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069.
 * Source: Unicode 15, section 23.1; UAX #9, section 2.
 */
bool utf8_is_control(const uint8_t *s, size_t n);

#endif
