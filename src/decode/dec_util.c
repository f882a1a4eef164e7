/* SPDX-License-Identifier: Apache-2.0 */
/* Messages, notes and text, for the readers of all formats. */
#include "decode/decode_priv.h"

#include <stdio.h>

#define NOTE_BYTES_MAX 400

int dec_add_model(struct dec_input *in, struct prof_model **ret)
{
	struct dec_profile *p = in->ret;
	int r = p->n_models < DEC_MODELS_MAX ? prof_model_new(ret) : -E2BIG;

	if (r < 0)
		return err_set(in->err, r, "%s: %s", in->name,
		               r == -ENOMEM ? "out of memory" : "too many events");
	p->models[p->n_models++] = *ret;
	return 0;
}

int dec_bad(struct dec_input *in, int code, uint64_t at, const char *fmt, ...)
{
	char text[300];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap); /* a longer one loses its end */
	va_end(ap);
	return err_set(in->err, code, "%s: byte %llu%s: %s", in->name, (unsigned long long)at,
	               in->ret->gzip ? " after decompression" : "", text);
}

int dec_full(struct dec_input *in, uint64_t at, const struct dec_list *lists, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct dec_list *l = &lists[i];

		if (l->max == 0 || l->n < l->max)
			continue;
		if (at == DEC_NO_BYTE)
			return err_set(in->err, -E2BIG, "%s: too large: more than %zu %s", in->name,
			               l->max, l->what);
		return dec_bad(in, -E2BIG, at, "too large: more than %zu %s", l->max, l->what);
	}
	return 0;
}

static int model_full(struct dec_input *in, const struct prof_model *m, uint64_t at)
{
	const struct dec_list lists[] = {
	        {"samples", m->samples.n, m->samples.max},
	        {"different stacks", m->stack_first.n, m->stack_first.max},
	        {"locations", m->locations.n, m->locations.max},
	        {"functions", m->functions.n, m->functions.max},
	        {"mappings", m->mappings.n, m->mappings.max},
	        {"comments", m->comments.n, m->comments.max},
	        {"strings", intern_count(m->strings), PROF_STRINGS_MAX},
	        /* These grow by several at once. */
	        {"lines of locations", m->lines.n + PROF_LOCATION_LINES_MAX, m->lines.max},
	        {"frames of different stacks", m->loc_ids.n + PROF_SAMPLE_LOCS_MAX, m->loc_ids.max},
	        {"labels", m->labels.n + PROF_SAMPLE_LABELS_MAX, m->labels.max},
	};

	return dec_full(in, at, lists, ARRAY_SIZE(lists));
}

int dec_model_err(struct dec_input *in, int code, uint64_t at)
{
	if (code == -ENOMEM)
		return err_set(in->err, code, "%s: out of memory", in->name);
	for (uint32_t i = 0; i < in->ret->n_models; i++) {
		if (model_full(in, in->ret->models[i], at) < 0)
			return code;
	}
	return err_set(in->err, code, "%s: too large: more than %zu MiB of names, stacks or values",
	               in->name, PROF_KEY_BYTES_MAX >> 20);
}

void dec_note(struct dec_input *in, const char *fmt, ...)
{
	struct dec_profile *p = in->ret;
	char text[NOTE_BYTES_MAX], *copy;
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap); /* a longer one loses its end */
	va_end(ap);
	for (char *c = text; *c; c++) {
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	}
	copy = p->n_notes < DEC_NOTES_MAX ? strdup(text) : NULL;
	if (copy)
		p->notes[p->n_notes++] = copy;
	else
		p->notes_dropped++;
}

int dec_text(struct prof_model *m, const void *s, size_t len, char instead, uint32_t *ret_id)
{
	const uint8_t *p = s;
	uint8_t *copy;
	size_t i = 0;
	int r;

	while (i < len && p[i] >= ' ' && p[i] != 0x7f)
		i++;
	if (i == len)
		return intern_add(m->strings, len ? s : "", len, ret_id, NULL);
	copy = malloc(len);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, p, len);
	for (; i < len; i++) {
		if (copy[i] < ' ' || copy[i] == 0x7f)
			copy[i] = (uint8_t)instead;
	}
	r = intern_add(m->strings, copy, len, ret_id, NULL);
	free(copy);
	return r;
}
