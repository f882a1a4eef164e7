/* SPDX-License-Identifier: Apache-2.0 */
/* prof_comment.c - what a profile says about itself as one comment; docs/output.md has the rule */
#include "profile/profile.h"

static const char PACKED[] = "# perf-agent: ";

void prof_comment_pack(struct sbuf *to, const char *item)
{
	(void)sbuf_str(to, to->len ? "; " : "# ");
	for (; *item; item++) {
		if (*item == ';' || *item == '\\')
			(void)sbuf_char(to, '\\');
		(void)sbuf_char(to, *item);
	}
}

void prof_items_init(struct prof_items *it, const char *comment)
{
	it->packed = str_starts(comment, PACKED);
	it->at = comment + (it->packed ? strlen("# ") : 0);
	sbuf_init(&it->item, PROF_COMMENT_LEN_MAX);
}

const char *prof_items_next(struct prof_items *it)
{
	const char *s = it->at;

	if (!s)
		return NULL;
	sbuf_reset(&it->item);
	it->at = NULL;
	(void)sbuf_str(&it->item, it->packed ? "" : s);
	for (; it->packed && *s; s++) {
		if (s[0] == '\\' && (s[1] == ';' || s[1] == '\\')) {
			s++;
		} else if (s[0] == ';' && s[1] == ' ') {
			it->at = s + 2;
			break;
		}
		(void)sbuf_char(&it->item, *s);
	}
	return it->item.err ? NULL : it->item.p ? it->item.p : "";
}

void prof_items_done(struct prof_items *it)
{
	sbuf_done(&it->item);
}
