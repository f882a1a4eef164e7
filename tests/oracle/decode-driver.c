/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode-driver - what decode makes of a file
 *
 * usage: decode-driver FILE            print models as text: types, comments, samples
 *        decode-driver FILE PPROF      write the first model as pprof, without gzip
 *        decode-driver FILE PPROF I    write model number I
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#include "decode/decode.h"
#include "encode/encode.h"

static const char *str(const struct prof_model *m, uint32_t id)
{
	return prof_model_str(m, id);
}

/* "ADDRESS/OFFSET NAME|NAME…": offset in the file, if there is one; innermost inlined function first. */
static void print_location(const struct prof_model *m, const struct prof_location *l)
{
	const struct prof_mapping *map = l->mapping ? &m->mappings.p[l->mapping - 1] : NULL;

	printf("\t%" PRIx64 "/%" PRIx64 " ", l->address,
	       map && str(m, map->path)[0] == '/' ? l->address - map->start + map->offset
	                                          : l->address);
	for (uint32_t i = 0; i < l->line_cnt; i++) {
		const struct prof_line *ln = &m->lines.p[l->line_first + i];

		printf("%s%s", i ? "|" : "",
		       ln->function ? str(m, m->functions.p[ln->function - 1].name) : "");
	}
	if (l->reason != EV_REASON_NAMED && l->line_cnt == 0)
		printf("[unknown]");
}

static void print_model(const struct prof_model *m)
{
	for (uint32_t i = 0; i < m->n_types; i++)
		printf("type\t%s\t%s\n", str(m, m->sample_type[i].type),
		       str(m, m->sample_type[i].unit));
	vec_each (c, &m->comments)
		printf("comment\t%s\n", str(m, *c));
	vec_each (s, &m->samples) {
		printf("sample");
		for (uint32_t i = 0; i < m->n_types; i++)
			printf("\t%" PRId64, s->value[i]);
		printf("\nlabels");
		for (uint32_t i = 0; i < s->label_cnt; i++) {
			const struct prof_label *l = &m->labels.p[s->label_first + i];

			if (l->str)
				printf("\t%s=%s", str(m, l->key), str(m, l->str));
			else
				printf("\t%s=%" PRId64, str(m, l->key), l->num);
		}
		printf("\nstack");
		for (uint32_t i = 0; i < s->loc_cnt; i++)
			print_location(m, &m->locations.p[m->loc_ids.p[s->loc_first + i] - 1]);
		printf("\n");
	}
}

static int write_pprof(const struct prof_model *m, const char *path)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	struct sbuf b;
	int r;

	sbuf_init(&b, (size_t)1 << 30);
	r = fd < 0 ? -errno : enc_pprof_raw(m, &b);
	if (r == 0)
		r = file_write_full(fd, b.p, b.len);
	sbuf_done(&b);
	return r;
}

int main(int argc, char **argv)
{
	struct dec_profile p = {0};
	struct err err = {0};
	uint64_t i = 0;
	int r;

	if (argc < 2 || argc > 4 || (argc == 4 && parse_u64(argv[3], 10, &i) < 0))
		return 2;
	r = dec_file(argv[1], NULL, &p, &err);
	if (r < 0) {
		fprintf(stderr, "%s\n", err.msg);
	} else {
		for (uint32_t n = 0; n < p.n_notes; n++)
			fprintf(stderr, "note: %s\n", p.notes[n]);
		if (argc == 2) {
			for (i = 0; i < p.n_models; i++)
				print_model(p.models[i]);
		} else {
			r = i < p.n_models ? write_pprof(p.models[i], argv[2]) : -EINVAL;
		}
	}
	dec_profile_done(&p);
	return r < 0;
}
