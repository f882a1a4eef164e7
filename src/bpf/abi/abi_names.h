/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Patterns of thread names: a non-deterministic automaton in bits, for both sides. */
#ifndef PA_ABI_NAMES_H
#define PA_ABI_NAMES_H

#include <linux/types.h>

/* Four patterns share the 64 bits of a set: a name has at most 15 bytes, so a pattern has at most 15 characters
 * that match one byte, and 16 states. */
#define ABI_NAME_STATES   16
#define ABI_NAME_PATTERNS 4  /* of a set */
#define ABI_NAME_SETS     16 /* 64 patterns */

/* Value of the map name_sets. State k of a pattern: its first k characters have matched. */
struct abi_name_set {
	__u64 first;       /* states before the first byte */
	__u64 loops;       /* states that any byte leaves as they are: a '*' comes next */
	__u64 last;        /* states in which the name matches */
	__u64 accept[256]; /* by byte: states whose next character matches it; [0]: none */
};
_Static_assert(sizeof(struct abi_name_set) == 2072, "shared layout");

/* Returns 1 if the name matches one of the patterns. @lo, @hi: its 16 bytes, little-endian, NUL and zeros at the
 * end. Without branches, so that the verifier has one path. */
static __attribute__((always_inline)) inline int abi_name_matches(const struct abi_name_set *s,
                                                                  __u64 lo, __u64 hi)
{
	__u64 at = s->first;
	__u32 i;

	for (i = 0; i + 1 < ABI_NAME_STATES; i++) {
		__u64 c = lo & 0xff;
		__u64 ended = 0 - ((c - 1) >> 63); /* all bits after the end of the name */

		at = (at & (s->loops | ended)) | (at & s->accept[c]) << 1;
		lo = lo >> 8 | hi << 56;
		hi >>= 8;
	}
	return (at & s->last) != 0;
}

#endif
