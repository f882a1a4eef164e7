/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dwarf, private: names of functions, and frames on their way to the caller.
 *
 * Units are read in file order, but their names may be anywhere in other sections. A large
 * compressed section is cheap to read in file order only (dw_is_slow). Frames that need such a
 * section wait until many names are wanted, which are then read in file order.
 */
#ifndef PA_DW_NAMES_H
#define PA_DW_NAMES_H

#include "dwarf/dwarf_priv.h"

/* A string in dw_names.text, or one that is still to be read. */
struct dw_text {
	const char *s;
	uint32_t held; /* 1 + index in dw_names.texts; 0: the string is s */
};

/* Names and line of a function. */
struct dw_name {
	struct dw_text name, linkage;
	uint32_t decl_line;
	uint32_t rest; /* 1 + index in dw_names.names, whose values complete this one; 0: none */
	struct dw_src *src; /* not NULL: an element of dw_names.names, still to be read at @off */
	uint64_t off;
};

struct dw_held_text {
	struct dw_sec *sec;
	uint64_t off;
	const char *s; /* NULL: not read yet, or no room for it */
	uint32_t no;   /* its index, to restore the order after sorting */
};

struct dw_held_frame {
	uint32_t i; /* index in addrs */
	struct dw_name n;
	struct dw_frame f;
	bool last;
};

/* State of one dw_resolve. */
struct dw_names {
	struct dw_file *d;
	dw_frame_fn fn;
	void *arg;
	size_t names_bytes; /* charged to the budget */
	bool taken;
	struct intern *keys;
	VEC(struct dw_name) names;      /* by id of keys */
	VEC(struct dw_name) node_names; /* of the current unit, by dw_node.name - 1 */
	struct arena text;              /* strings and paths, until dw_names_make_room */
	struct sbuf buf, buf2;
	/* frames that wait for their names */
	bool hold;
	VEC(struct dw_held_text) texts;
	VEC(struct dw_held_frame) held;
};

/* Starts without a name: 0, -E2BIG, -ENOMEM. dw_names_done is due in each case. */
int dw_names_init(struct dw_names *w, struct dw_file *d, dw_frame_fn fn, void *arg);
void dw_names_done(struct dw_names *w);
/* Names the function or inlined call of a node of the unit @cu: 0, -ENOMEM, errno. */
int dw_names_of(struct dw_names *w, const struct dw_cu *cu, struct dw_node *node,
                struct dw_name *ret);
/* Passes a frame on, now or later; f->file is in w->text. 0, -E2BIG (no room to let it wait),
 * -ENOMEM, what the caller's function returned. */
int dw_names_give(struct dw_names *w, uint32_t i, struct dw_frame *f, const struct dw_name *n,
                  bool last);
/* Passes on the frames that wait. */
int dw_names_release(struct dw_names *w);
/* Returns whether the next unit's names may find no room. */
bool dw_names_full(const struct dw_names *w);
/* Passes on the frames that wait, then drops all names, those of nodes too, and w->text. */
int dw_names_make_room(struct dw_names *w);

#endif
