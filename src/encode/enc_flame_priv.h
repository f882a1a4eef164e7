/* SPDX-License-Identifier: Apache-2.0 */
/* enc_flame_priv - the stacks of a model as a tree of frames, for the two flame graphs. */
#ifndef PA_ENC_FLAME_PRIV_H
#define PA_ENC_FLAME_PRIV_H

#include "encode/encode_priv.h"

#define FLAME_NODES_MAX 16777216U
#define FLAME_BYTES_MAX ((size_t)1 << 30) /* of each table, and of the data before compression */

/* The kind of a frame, which gives its colour. The numbers are in files: append only. */
enum flame_kind {
	FLAME_NATIVE = 0,
	FLAME_CPP = 1,
	FLAME_RUST = 2,
	FLAME_GO = 3,
	FLAME_JIT = 4,
	FLAME_KERNEL = 5,
	FLAME_INLINED = 6,   /* of whatever language */
	FLAME_UNNAMED = 7,   /* an address */
	FLAME_MARK = 8,      /* "[truncated]" and the like: no code */
	FLAME_HEURISTIC = 9, /* user code without an unwind rule: its caller may be wrong */
	FLAME_KIND_CNT = 10,
};

/* One function, in one file, as it is shown. Addresses in it are one frame. */
struct flame_frame {
	int64_t line;                          /* where it begins in file; 0 unknown */
	uint32_t name, file, module, build_id; /* strings */
	uint8_t kind, reason;                  /* enum flame_kind, enum ev_reason */
	uint8_t pad[6];                        /* 0: frames are hashed as bytes */
};
_Static_assert(sizeof(struct flame_frame) == 32, "hashed as bytes");

#define FLAME_ROOT 0 /* the node above all stacks; it has no frame */

struct flame_node {
	uint32_t parent; /* < its own number */
	uint32_t frame;  /* index in frames; UINT32_MAX: the root's */
};

struct flame_tree {
	const struct prof_model *m;
	struct intern *strings;         /* borrowed; trees of one file share them */
	VEC(struct flame_frame) frames; /* ascending by name, then by the other members */
	VEC(struct flame_node) nodes;   /* in preorder, siblings ascending by frame */
	VEC(uint32_t) sample_node;      /* by sample of the model */
};

/**
 * flame_string - id of a text, added if it is new
 * Bytes that are not UTF-8 become "\xNN", control bytes '?'.
 * Returns: 0, -E2BIG, -ENOMEM.
 */
int flame_string(struct intern *strings, const char *s, uint32_t *ret);
/**
 * flame_tree_new - the tree of all stacks of a model
 * @m, @strings: borrowed until the tree is freed
 * Returns: 0, -E2BIG, -ENOMEM. Cost: O(frames of all samples).
 */
int flame_tree_new(const struct prof_model *m, struct intern *strings, struct flame_tree **ret);
/**
 * flame_tree_merge - the stacks of two trees that share their strings
 * Frames are the same if their names are; their details are those of @after. sample_node has the
 * samples of @before, then those of @after.
 * @ret: borrows the model of @after
 * Returns: 0, -E2BIG, -ENOMEM.
 */
int flame_tree_merge(const struct flame_tree *before, const struct flame_tree *after,
                     struct flame_tree **ret);
/**
 * flame_tree_free, flame_tree_freep - NULL is accepted; free returns NULL
 */
struct flame_tree *flame_tree_free(struct flame_tree *t);
void flame_tree_freep(struct flame_tree **t);
/**
 * flame_value - one value of a sample; negative ones count as 0
 */
static inline uint64_t flame_value(const struct prof_sample *s, uint32_t type_idx)
{
	return s->value[type_idx] > 0 ? (uint64_t)s->value[type_idx] : 0;
}
/* A column of numbers of a page. The first failure sticks in it. */
struct flame_column {
	VEC(uint64_t) values;
	int err;
};
/**
 * flame_column_init, flame_column_done, flame_column_add - an empty one; free; append a number
 */
void flame_column_init(struct flame_column *c);
void flame_column_done(struct flame_column *c);
void flame_column_add(struct flame_column *c, uint64_t v);
/**
 * flame_column_put - append the column to the data of a page, and empty it
 * @to: failures stick in it
 */
void flame_column_put(struct flame_column *c, struct sbuf *to);
/*
 * A column of numbers that repeat within groups. Each is the place among those that were met in its
 * group so far, from 1, or 0 and the number itself in a second column.
 */
struct flame_places {
	struct intern *pairs; /* group, number; each uint64_t */
	VEC(uint32_t) place;  /* by id of pairs */
	uint32_t *met;        /* by group: how many numbers */
	struct flame_column places, fresh;
};
/**
 * flame_places_init - no numbers
 * @n_groups: numbers of groups are less; at least 1
 * Returns: 0, -ENOMEM. It is for flame_places_done in either case.
 */
int flame_places_init(struct flame_places *p, size_t n_groups);
void flame_places_done(struct flame_places *p);
/**
 * flame_places_add, flame_places_put - append a number; append both columns to the data
 * @fresh: the number as the second column has it, if it is new in its group
 * Returns: 0, -E2BIG, -ENOMEM.
 */
int flame_places_add(struct flame_places *p, uint32_t group, uint64_t v, uint64_t fresh);
void flame_places_put(struct flame_places *p, struct sbuf *to);
/**
 * flame_put_times - the time line of a profile
 * @order: samples of the model in the order in which the page has them
 * @to:    appended to; failures stick in it
 * Returns: 0, -EINVAL (a sample that does not exist), -ENOMEM, -E2BIG.
 */
int flame_put_times(const struct enc_flame_profile *p, const uint32_t *order, struct sbuf *to);
/**
 * flame_zigzag - numbers that may be negative, as protobuf's sint64
 */
static inline uint64_t flame_zigzag(int64_t v)
{
	return (uint64_t)v << 1 ^ (v < 0 ? UINT64_MAX : 0);
}
/**
 * flame_title - "On-CPU" or "Off-CPU", by the model's types
 */
const char *flame_title(const struct prof_model *m);
/* A node of two merged trees: values per second, or in percent of the total. */
struct flame_change {
	double value[2]; /* before, after; with all below it */
	double variance; /* of their difference, if each event of a sample is worth the same */
};
/* More and less than nothing: steps by share of the larger value. */
#define FLAME_STEPS 3
struct flame_changes {
	struct flame_change *node; /* node[n], malloc'ed */
	size_t n;
	bool shares;     /* in percent: a capture has no duration, or no period of its samples */
	double vanished; /* value before of stacks that end where nothing is after */
};
/**
 * flame_same_types - whether the values of two models can be compared
 */
bool flame_same_types(const struct prof_model *a, const struct prof_model *b);
/**
 * flame_changes_new - values of the nodes of a merged tree
 * Returns: 0, -ENOMEM. *ret is for flame_changes_done.
 */
int flame_changes_new(const struct enc_flame_diff *d, const struct flame_tree *merged,
                      uint32_t type_idx, struct flame_changes *ret);
void flame_changes_done(struct flame_changes *c);
/**
 * flame_change_step - -3 (less by 60 % of the larger value, or gone) to 3 (more, or new); 0: less
 * than 10 %, or less than two standard deviations
 */
int flame_change_step(const struct flame_change *c);
/**
 * flame_change_text - "+32 %", "-8 %", "new", "gone"; in every locale
 */
#define FLAME_CHANGE_MAX 32
const char *flame_change_text(const struct flame_change *c, char ret[static FLAME_CHANGE_MAX]);
/**
 * flame_kind_name - "kernel"
 */
const char *flame_kind_name(enum flame_kind k);

/* The page without its data: page.html of src/encode/flame with the style and the scripts in it. */
extern const unsigned char enc_flame_page_head[], enc_flame_page_tail[];
extern const size_t enc_flame_page_head_len, enc_flame_page_tail_len;

#endif
