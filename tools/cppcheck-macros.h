/* SPDX-License-Identifier: Apache-2.0 */
/* Read by cppcheck before every file: macros that it cannot parse, or whose headers it does not
 * see. */
#define __typeof__(x) void *
#define DL_FOREACH(head, el)           for (el = (head); el; el = (el)->next)
#define DL_FOREACH_SAFE(head, el, tmp) for (el = (head); el && ((tmp = (el)->next), 1); el = tmp)
#define LL_FOREACH(head, el)           for (el = (head); el; el = (el)->next)
#define LL_FOREACH_SAFE(head, el, tmp) for (el = (head); el && ((tmp = (el)->next), 1); el = tmp)
#define HASH_ITER(hh, head, el, tmp)   for (el = (head), tmp = (el); el; el = tmp)
