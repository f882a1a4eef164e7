/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dwarf, private: what functions are called, and frames on their way out.
 *
 * Units come in the order of their bytes; names and what they are referred to from stand anywhere.
 * Where those sections can only be read on from where they were (dw_is_slow), frames are held back
 * until many names are wanted, which are then read in the order in which they stand.
 */
#ifndef PA_DW_NAMES_H
#define PA_DW_NAMES_H

#include "dwarf/dwarf_priv.h"

/* A string in dw_names.text, or one that is still to be read. */
struct dw_text {
	const char *s;
	uint32_t held; /* 1 + index in dw_names.texts; 0: s is all */
};

/* What a function is called. */
struct dw_name {
	struct dw_text name, linkage;
	uint32_t decl_line;
	uint32_t rest; /* 1 + index in dw_names.names: what is missing here stands there; 0: nowhere
	                */
	struct dw_src *src; /* not NULL: of dw_names.names, still to be read there at @off */
	uint64_t off;
};

struct dw_held_text {
	struct dw_sec *sec;
	uint64_t off;
	const char *s; /* NULL until it is read, and where it found no room */
	uint32_t no;   /* its index, for when they are sorted */
};

struct dw_held_frame {
	uint32_t i; /* of addrs */
	struct dw_name n;
	struct dw_frame f;
	bool last;
};

/* Of one dw_resolve. */
struct dw_names {
	struct dw_file *d;
	dw_frame_fn fn;
	void *arg;
	size_t names_bytes; /* taken from the budget */
	bool taken;
	struct intern *keys;
	VEC(struct dw_name) names;      /* by id of keys */
	VEC(struct dw_name) node_names; /* of the unit at work, by dw_node.name - 1 */
	struct arena text;              /* also for paths: until dw_names_forget */
	struct sbuf buf, buf2;
	/* frames that wait for their names */
	bool hold;
	VEC(struct dw_held_text) texts;
	VEC(struct dw_held_frame) held;
};

/* Nothing is known yet: 0, -E2BIG, -ENOMEM. dw_names_done after each. */
int dw_names_init(struct dw_names *w, struct dw_file *d, dw_frame_fn fn, void *arg);
void dw_names_done(struct dw_names *w);
/* What the function or call of a node of the unit @cu is called: 0, -ENOMEM, errno. */
int dw_names_of(struct dw_names *w, const struct dw_cu *cu, struct dw_node *node,
                struct dw_name *ret);
/* A frame, now or later; f->file is in w->text. 0, -E2BIG (of those that are held back), -ENOMEM,
 * what the caller's function returned. */
int dw_names_give(struct dw_names *w, uint32_t i, struct dw_frame *f, const struct dw_name *n,
                  bool last);
/* Frames that were held back go out. */
int dw_names_release(struct dw_names *w);
/* Whether what one unit more has may find no room. */
bool dw_names_full(const struct dw_names *w);
/* Releases, and forgets all names, those of nodes too, and all of w->text. */
int dw_names_make_room(struct dw_names *w);

#endif
