/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PA_DEC_PPROF_PRIV_H
#define PA_DEC_PPROF_PRIV_H

#include "decode/dec_pb.h"
#include "decode/decode_priv.h"

/* Ids of a file, any 64-bit numbers but 0, to ids of the model. */
struct dec_ids {
	VEC(uint32_t) dense;     /* by id: id of the model, 0: none */
	struct intern *sparse;   /* larger ids; NULL: none yet */
	VEC(uint32_t) sparse_to; /* by id in .sparse */
};

/* The messages of one kind. */
struct dec_part {
	size_t first, end; /* bytes: from the tag of the first to the end of the last */
	size_t n;
};

struct dec_pprof {
	struct dec_input *in;
	struct prof_model *m;
	struct dec_part samples, mappings, locations, functions;
	VEC(uint32_t) strings; /* by index in the file: string of the model */
	struct dec_ids mapping_ids, location_ids, function_ids;
	uint64_t n_types;              /* in the file */
	uint64_t no_mapping;           /* locations whose mapping is missing */
	uint64_t outside;              /* locations outside of their mapping */
	VEC(uint32_t) locs;            /* of one sample */
	VEC(struct prof_line) lines;   /* of one location */
	int64_t values[PROF_TYPE_MAX]; /* of one sample */
	uint64_t n_values;
	struct prof_label labels[PROF_SAMPLE_LABELS_MAX]; /* of one sample */
	uint32_t n_labels;
};

/* Add a message to the model, which has all that it refers to. Return 0; -EINVAL, -E2BIG, -ENOMEM,
 * with the message. */
int dec_pprof_mapping(struct dec_pprof *p, struct cursor c);
int dec_pprof_function(struct dec_pprof *p, struct cursor c);
int dec_pprof_location(struct dec_pprof *p, struct cursor c);
int dec_pprof_sample(struct dec_pprof *p, struct cursor c);
/* Sets the has_* flags of a mapping as the file has them. */
int dec_pprof_mapping_flags(struct dec_pprof *p, struct cursor c);

/* Describes a failure to read at @c. Returns -EINVAL. */
int dec_pprof_bad(struct dec_pprof *p, const struct cursor *c, int code);
/* Reads the next field, and describes a failure. */
int dec_pprof_field(struct dec_pprof *p, struct cursor *c, struct dec_field *ret);
/* Fails if a field before @c has another wire type. */
int dec_pprof_wire(struct dec_pprof *p, const struct cursor *c, const struct dec_field *f,
                   enum dec_wire wire);
/* Finds the string of the model for a field before @c. */
int dec_pprof_string(struct dec_pprof *p, const struct cursor *c, const struct dec_field *f,
                     uint32_t *ret);
/* Sets ids for @n items; adds one: 0, -EEXIST, -EINVAL (id 0), -ENOMEM; finds one: 0 if there is
 * none; frees. */
void dec_ids_init(struct dec_ids *ids, size_t n);
int dec_ids_add(struct dec_ids *ids, uint64_t id, uint32_t to);
uint32_t dec_ids_find(const struct dec_ids *ids, uint64_t id);
void dec_ids_done(struct dec_ids *ids);

#endif
