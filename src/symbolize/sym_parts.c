/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the files that belong to an image. */
#include "symbolize/sym_engine.h"

bool sym_has_section(struct img_file *f, const char *name)
{
	struct img_area a;

	return img_section_find(f, name, &a) == 0;
}

bool sym_has_lines(struct img_file *f)
{
	return sym_has_section(f, ".debug_info") || sym_has_section(f, ".debug_line");
}

void sym_parts_close(struct sym_parts *p)
{
	closep(&p->debug_fd);
	closep(&p->alt_fd);
	closep(&p->dwp_fd);
}

/* Finds the files that belong to @f, the file with the debug information. */
static int find_more(const struct sym_find_options *o, struct sym_find_stats *stats,
                     const struct sym_source *src, struct img_file *f, const char *path,
                     struct sym_parts *p)
{
	struct img_area a;
	_cleanup_free_ struct img_altlink *link = malloc(sizeof(*link));
	int r = sym_find_alt(o, stats, f, path, src->root_fd, &p->alt_fd);

	if (!link)
		return -ENOMEM;
	/* Names, mostly of inlined calls, are missing without dwz's common file. */
	if (r == 0 && img_altlink(f, link) != -ENOENT)
		stats->unreadable++;

	/* Only split DWARF has this section. */
	if (r >= 0 && img_section_find(f, ".debug_addr", &a) == 0)
		r = sym_find_dwp(o, stats, src->path, src->root_fd, &p->dwp_fd);
	return r < 0 ? r : 0;
}

int sym_parts_find(const struct sym_find_options *o, struct sym_find_stats *stats,
                   const struct sym_source *src, struct sym_parts *ret)
{
	struct sym_parts p = {-EBADF, -EBADF, -EBADF};
	_cleanup_(img_file_freep) struct img_file *img = NULL, *debug = NULL;
	_cleanup_free_ char *path = NULL;
	int r = img_file_open(src->fd, &img, NULL);

	if (r == 0 && sym_has_lines(img)) {
		r = find_more(o, stats, src, img, src->path, &p);
	} else if (r == 0) {
		r = sym_find_debug(o, stats, img, src->path, src->root_fd, &p.debug_fd, &path);
		if (r > 0 && path)
			r = img_file_open(p.debug_fd, &debug, NULL);
		if (r == 0 && debug)
			r = find_more(o, stats, src, debug, path, &p);
	}
	if (r == -ENOMEM) {
		sym_parts_close(&p);
		return r;
	}
	*ret = p;
	return 0;
}
