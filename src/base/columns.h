/* SPDX-License-Identifier: Apache-2.0 */
/*
 * columns - how wide UTF-8 text is on a terminal: no column for combining characters, two for those of
 * East Asia and emoji. The command uses it too. Bytes that are not UTF-8 have one column each. wcwidth of
 * the C library is not used: it needs a locale, which allocates and may be missing. Pure. Cost: O(bytes),
 * more by a search in columns.def for characters beyond Latin.
 */
#ifndef PA_COLUMNS_H
#define PA_COLUMNS_H

#include <stddef.h>

/**
 * columns_walk - the longest beginning of a text within some columns
 * @s: s[len]
 * @ret_columns: its columns, at most @most; less if a wide character did not fit
 * Returns: its bytes. Combining characters belong to the character before them.
 */
size_t columns_walk(const char *s, size_t len, size_t most, size_t *ret_columns);
/**
 * columns_of - the columns of a text
 */
size_t columns_of(const char *s, size_t len);
/**
 * columns_tail - the longest end of a text within some columns
 * Returns: the offset of its first byte.
 */
size_t columns_tail(const char *s, size_t len, size_t most);

#endif
