/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolize/sym_engine.h"

int sym_batch_init(struct sym_batch *b, size_t n, enum ev_reason reason)
{
	struct sym_name *names;

	names = calloc(MAX_OF(n, (size_t)1), sizeof(*names));
	if (!names)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		names[i].reason = reason;
	b->n = n;
	b->names = names;
	memset(&b->frames, 0, sizeof(b->frames));
	b->frames.max = UINT32_MAX;
	arena_init(&b->strings, SYM_STRINGS_MAX);
	return 0;
}

void sym_batch_done(struct sym_batch *b)
{
	if (!b->names) /* never filled */
		return;
	free(b->names);
	vec_done(&b->frames);
	b->names = NULL;
	b->n = 0;
	arena_done(&b->strings);
}

int sym_none_resolve(enum ev_reason reason, const uint64_t *addrs, size_t n, struct sym_batch *ret)
{
	int r = sym_batch_init(ret, n, reason);

	for (size_t i = 0; r == 0 && addrs && i < n; i++)
		ret->names[i].start = addrs[i];
	return r;
}

struct sym_named sym_batch_at(const struct sym_batch *b, size_t i)
{
	const struct sym_name *n = &b->names[i];

	return (struct sym_named){.frames = sym_batch_frames(b, i),
	                          .n = n->n,
	                          .reason = n->reason,
	                          .start = n->start};
}

int sym_batch_text(struct sym_batch *b, const char *linkage, const char *suffix,
                   struct sbuf *scratch, struct sym_frame *ret)
{
	/* Linkers write versions into .symtab, as in "memcpy@@GLIBC_2.14"; no other name contains
	 * '@'. */
	size_t len = strcspn(linkage, "@");
	struct sym_frame t = {0};
	int r;

	t.linkage = arena_strndup(&b->strings, linkage, strlen(linkage));
	if (!t.linkage)
		return -E2BIG;
	sbuf_reset(scratch);
	if (len == 0)
		len = strlen(linkage);
	r = -ENOENT;
	if (linkage[len] == 0)
		r = sym_demangle(linkage, scratch);
	else if (sbuf_add(scratch, linkage, len) == 0) {
		_cleanup_free_ char *bare = sbuf_take(scratch);

		if (!bare)
			return -ENOMEM;
		sbuf_reset(scratch);
		r = sym_demangle(bare, scratch);
	}
	if (r == -ENOENT)
		r = sbuf_add(scratch, linkage, len);
	if (r == 0)
		r = sbuf_str(scratch, suffix);
	if (r < 0)
		return r;
	if (strcmp(scratch->p, t.linkage) == 0) {
		t.name = t.linkage;
	} else {
		t.name = arena_strndup(&b->strings, scratch->p, scratch->len);
		if (!t.name)
			return -E2BIG;
	}
	*ret = t;
	return 0;
}

int sym_batch_symbol(struct sym_batch *b, const char *linkage, const char *suffix,
                     struct sbuf *scratch, uint32_t *ret)
{
	struct sym_frame frame;
	int r = sym_batch_text(b, linkage, suffix, scratch, &frame);

	if (r == 0)
		r = vec_push(&b->frames, frame);
	if (r == 0)
		*ret = (uint32_t)b->frames.n - 1;
	return r;
}

int sym_name_cmp(const char *a, const char *b)
{
	size_t ua = strspn(a, "_"), ub = strspn(b, "_");

	if (ua != ub)
		return ua < ub ? -1 : 1;
	return strcmp(a, b);
}

int sym_batch_none(enum ev_reason reason, const uint64_t *offs, size_t n, struct sym_batch *ret)
{
	int r = sym_none_resolve(reason, NULL, n, ret);

	for (size_t i = 0; r == 0 && i < n; i++)
		ret->names[i].start = offs[i];
	return r;
}
