/* SPDX-License-Identifier: Apache-2.0 */
/* imap - items at disjoint intervals. Part of base.h, which includes it. */
#ifndef PA_BASE_IMAP_H
#define PA_BASE_IMAP_H

#include <stddef.h>
#include <stdint.h>

/* Items at disjoint intervals of numbers, ascending. An item is a struct of the caller that begins
 * with two uint64_t: start and end (exclusive, > start). Its size is a multiple of 8 bytes, at most
 * 64. A cut changes these two alone, so other members must hold for each part of the interval.
 *
 * Items lie in chunks of at most 128, so that one insertion moves at most one chunk, however many
 * there are. Pointers to items are borrowed until the next change. */
struct imap_chunk;
struct imap {
	size_t n, max; /* items; max may be changed at any time */
	size_t item_bytes;
	size_t bytes; /* memory held besides this struct */
	struct imap_chunk **chunk;
	size_t n_chunks, cap_chunks; /* no chunk is empty */
};
struct imap_pos {
	size_t chunk, i;
};
/**
 * imap_init, imap_done - begin an empty map; free all items, and keep size and cap
 * @max_items: cap of .n
 */
void imap_init(struct imap *m, size_t item_bytes, size_t max_items);
void imap_done(struct imap *m);
/**
 * imap_copy - a map of its own with the same items, without room for more
 * Returns: 0, -ENOMEM.
 */
int imap_copy(const struct imap *m, struct imap *ret);
/**
 * imap_lower - position of the first item that ends after @x, or the end
 * Cost: O(log n).
 */
struct imap_pos imap_lower(const struct imap *m, uint64_t x);
/**
 * imap_at, imap_next - item at a position, NULL at the end; the position after that of an item
 * Position {0} is that of the first item.
 */
void *imap_at(const struct imap *m, struct imap_pos p);
struct imap_pos imap_next(const struct imap *m, struct imap_pos p);
/**
 * imap_find - the item whose interval holds @x, or NULL. Cost: O(log n).
 */
void *imap_find(const struct imap *m, uint64_t x);
/**
 * imap_insert - add a copy of @item, which must overlap none that is there
 * Returns: 0, -E2BIG (at the cap), -ENOMEM. Cost: O(log n), moves at most one chunk.
 */
int imap_insert(struct imap *m, const void *item);
/**
 * imap_cut - remove [@start, @end), which must not be empty, from all items
 * Items inside are removed; those that reach over a bound are shortened. One that reaches over both
 * becomes two, and loses its second part if there is no room for it.
 * Returns: 0, -E2BIG (at the cap), -ENOMEM: the second part is lost, all else was done.
 * Cost: O(log n + removed chunks).
 */
int imap_cut(struct imap *m, uint64_t start, uint64_t end);

#endif
