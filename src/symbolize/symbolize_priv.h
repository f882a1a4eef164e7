/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PA_SYMBOLIZE_PRIV_H
#define PA_SYMBOLIZE_PRIV_H

#include "symbolize/symbolize.h"

#define SYM_ELF_FILES_MAX 3

/* As sym_elf_resolve, over the symbols of an image and of the files that hold what was stripped off
 * it: the best symbol of all wins. files[0] is the image, to which @offs belong; n_files is 1 to
 * SYM_ELF_FILES_MAX. */
int sym_elf_resolve_all(struct img_file *const *files, size_t n_files, const uint64_t *offs,
                        size_t n, struct sym_batch *ret);

/* A frame from DWARF or Go's table. Strings live during the call. */
struct sym_line_frame {
	const char *name, *linkage; /* may be NULL */
	const char *file;           /* may be NULL */
	uint64_t start; /* of the function, as sym_name.start; used if there is no symbol */
	uint32_t line, column, start_line;
	bool name_wins; /* the name replaces that of the symbol table */
};

/* Adds frames with lines to a batch that has its symbols already. */
struct sym_lines {
	struct sym_batch *b;
	struct intern *name_keys, *file_keys;
	VEC(struct sym_frame) names; /* by id of name_keys: name and linkage */
	VEC(const char *) files;     /* by id of file_keys */
	struct sbuf scratch;
	bool open, given_up; /* of the address whose frames are being added */
	uint32_t first;
	uint64_t start;
};
int sym_lines_init(struct sym_lines *l, struct sym_batch *b); /* 0, -ENOMEM */
void sym_lines_done(struct sym_lines *l);
/* Drops the frames of an address whose last one has not come. */
void sym_lines_drop(struct sym_lines *l);
/* Adds the next frame of names[i], innermost first. With @last they replace the symbol's frame. An
 * address for whose frames there is no room stays as it was. 0, -ENOMEM. */
int sym_lines_add(struct sym_lines *l, size_t i, const struct sym_line_frame *f, bool last);

#endif
