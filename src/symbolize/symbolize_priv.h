/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PA_SYMBOLIZE_PRIV_H
#define PA_SYMBOLIZE_PRIV_H

#include "symbolize/symbolize.h"

#define SYM_ELF_FILES_MAX 3

/* sym_elf_resolve over the symbols of an image and of files with what was stripped off it: the best
 * symbol of all is taken. files[0] is the image, whose offsets @offs are; 1 ... SYM_ELF_FILES_MAX.
 */
int sym_elf_resolve_all(struct img_file *const *files, size_t n_files, const uint64_t *offs,
                        size_t n, struct sym_batch *ret);

/* A frame as DWARF or Go's table tell it; strings live during the call. */
struct sym_line_frame {
	const char *name, *linkage; /* may be NULL */
	const char *file;           /* may be NULL */
	uint64_t start; /* of the function, as sym_name.start; used where no symbol is */
	uint32_t line, column, start_line;
	bool name_wins; /* over that of the symbol table */
};

/* Frames with lines on their way into a batch that has its symbols already. */
struct sym_lines {
	struct sym_batch *b;
	struct intern *name_keys, *file_keys;
	VEC(struct sym_frame) names; /* by id of name_keys: name and linkage */
	VEC(const char *) files;     /* by id of file_keys */
	struct sbuf scratch;
	bool open, given_up; /* of the address whose frames come now */
	uint32_t first;
	uint64_t start;
};
int sym_lines_init(struct sym_lines *l, struct sym_batch *b); /* 0, -ENOMEM */
void sym_lines_done(struct sym_lines *l);
/* The frames of an address that did not come to their last one are forgotten. */
void sym_lines_drop(struct sym_lines *l);
/* Next frame of names[i], innermost first; with @last they take the place of what stood there.
 * What no longer finds room leaves the address as it was. 0, -ENOMEM. */
int sym_lines_add(struct sym_lines *l, size_t i, const struct sym_line_frame *f, bool last);

#endif
