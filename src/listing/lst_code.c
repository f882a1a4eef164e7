/* SPDX-License-Identifier: Apache-2.0 */
/* Opens programs and libraries, if they are the profiled build, and reads their disassembly. */
#include "listing/lst_priv.h"

#include <limits.h>
#include <stdio.h>
#include <strings.h>

#include "proc/proc.h"
#include "symbolize/symbolize.h"

#define SYMBOL_BYTES_MAX    ((size_t)64 << 20)
#define OUTPUT_BYTES_MAX    ((size_t)64 << 20)
#define CODE_BYTES_MAX      ((uint64_t)1 << 20)
#define MINIDEBUG_BYTES_MAX ((size_t)64 << 20)

int lst_new(const struct lst_options *o, struct lst **ret)
{
	struct lst *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->o = *o;
	l->fd = -EBADF;
	sbuf_init(&l->source_path, 2 * PATH_MAX);
	sbuf_init(&l->output, OUTPUT_BYTES_MAX);
	arena_init(&l->symbols, SYMBOL_BYTES_MAX);
	l->instructions.max = CODE_BYTES_MAX; /* one a byte */
	*ret = l;
	return 0;
}

struct lst *lst_free(struct lst *l)
{
	if (!l)
		return NULL;
	closep(&l->fd);
	sbuf_done(&l->source);
	sbuf_done(&l->source_path);
	sbuf_done(&l->output);
	arena_done(&l->symbols);
	vec_done(&l->instructions);
	free(l);
	return NULL;
}

void lst_freep(struct lst **l)
{
	*l = lst_free(*l);
}

/* ---- the file -------------------------------------------------------------------------------- */

static int open_file(const char *path, struct err *err)
{
	int fd;

	if (str_starts(path, "[kernel") || str_starts(path, "[guest.kernel"))
		return err_set(err, -EINVAL,
		               "kernel code is not disassembled here; use perf annotate");
	if (!*path || *path == '[')
		return err_set(err, -EINVAL, "%s is not a file",
		               *path ? path : "memory without a name");
	fd = proc_open_regular(path);
	if (fd == -ENOENT)
		return err_set(err, fd,
		               "cannot read %.300s: %s; run the report where the profile was "
		               "recorded, or copy the file here",
		               path, err_name(fd));
	if (fd == -EINVAL)
		return err_set(err, fd, "%.300s is not a regular file, or is empty", path);
	return fd < 0 ? err_set(err, fd, "cannot read %.300s: %s", path, err_name(fd)) : fd;
}

static int check_build(struct img_file *f, const char *path, const char *want, struct err *err)
{
	char hex[2 * IMG_BUILD_ID_MAX + 1] = "";
	uint8_t id[IMG_BUILD_ID_MAX];
	size_t len = 0;
	int r = *want ? img_build_id(f, id, &len) : 0;

	if (r < 0 && r != -ENOENT)
		return r == -ENOMEM ? r
		                    : err_set(err, r, "cannot read %.300s: %s", path, err_name(r));
	for (size_t i = 0; i < len; i++)
		(void)snprintf(hex + 2 * i, 3, "%02x", id[i]);
	if (strcasecmp(hex, want) == 0)
		return 0;
	return err_set(err, -ESTALE,
	               "%.200s is another build: it has build-id %s, the profile %.64s", path,
	               *hex ? hex : "none", want);
}

/* Finds symbols in the debug file of the image, and in its .gnu_debugdata. */
static int find_elsewhere(struct lst *l, struct img_file *img, const char *path,
                          struct ev_site *sites, size_t n)
{
	const struct sym_find_options o = {.dirs = l->o.debug_dirs, .n_dirs = l->o.n_debug_dirs};
	_cleanup_(img_file_freep) struct img_file *debug = NULL, *mini = NULL;
	_cleanup_close_ int fd = -EBADF;
	_cleanup_free_ char *found = NULL;
	_cleanup_free_ uint8_t *bytes = NULL;
	struct sym_find_stats stats = {0};
	size_t len = 0;
	int r = sym_find_debug(&o, &stats, img, path, -EBADF, &fd, &found);

	if (r > 0 && fd >= 0)
		r = img_file_open(fd, &debug, NULL);
	if (debug)
		r = lst_find_symbols(debug, sites, n, &l->symbols);
	if (r != -ENOMEM)
		r = img_minidebug(img, MINIDEBUG_BYTES_MAX, &bytes, &len);
	if (r == 0)
		r = img_file_open_mem(bytes, len, &mini, NULL);
	if (r == 0)
		r = lst_find_symbols(mini, sites, n, &l->symbols);
	return r == -ENOMEM ? r : 0; /* without them there are fewer symbols */
}

int lst_sites(struct lst *l, const char *path, const char *build_id, const uint64_t *offs, size_t n,
              struct ev_site *ret, struct err *err)
{
	_cleanup_(img_file_freep) struct img_file *img = NULL;
	_cleanup_close_ int fd = open_file(path, err);
	bool all = true;
	int r;

	if (fd < 0)
		return fd;
	r = img_file_open(fd, &img, err);
	if (r < 0)
		return r == -ENOEXEC ? err_set(err, r, "%.300s is not an ELF file", path) : r;
	r = check_build(img, path, build_id, err);
	if (r < 0)
		return r;
	arena_done(&l->symbols);
	for (size_t i = 0; i < n; i++) {
		ret[i] = (struct ev_site){0};
		(void)img_off_to_vaddr(img, offs[i], &ret[i].addr); /* 0: in no segment */
	}
	r = lst_find_symbols(img, ret, n, &l->symbols);
	for (size_t i = 0; i < n; i++)
		all = all && ret[i].end;
	if (r == 0 && !all)
		r = find_elsewhere(l, img, path, ret, n);
	if (r < 0)
		return r;
	closep(&l->fd);
	l->fd = TAKE_FD(fd);
	return 0;
}

/* ---- its instructions ------------------------------------------------------------------------ */

/* Reads "  401136:\tpush   %rbp". Returns false for all other lines. */
static bool read_line(char *line, struct ev_instruction *ret)
{
	char *colon, *text;

	while (*line == ' ')
		line++;
	colon = strchr(line, ':');
	if (!colon || colon[1] != '\t')
		return false;
	*colon = 0;
	text = colon + 2;
	for (char *end = text + strlen(text); end > text && (end[-1] == ' ' || end[-1] == '\t');)
		*--end = 0;
	if (parse_u64(line, 16, &ret->addr) < 0)
		return false;
	ret->text = text;
	return true;
}

int lst_instructions(struct lst *l, uint64_t start, uint64_t end, const struct ev_instruction **ret,
                     size_t *ret_n, struct err *err)
{
	char *line, *next;
	int r;

	if (end <= start || end - start > CODE_BYTES_MAX)
		return err_set(err, -E2BIG, "the symbol has more than 1 MiB of code");
	sbuf_reset(&l->output);
	l->instructions.n = 0;
	r = lst_objdump(l->fd, start, end, &l->output, err);
	for (line = l->output.p; line && r == 0; line = next) {
		struct ev_instruction one;

		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		if (!read_line(line, &one) || one.addr < start || one.addr >= end)
			continue;
		if (!l->instructions.n || l->instructions.p[l->instructions.n - 1].addr < one.addr)
			r = vec_push(&l->instructions, one);
	}
	if (r < 0)
		return r;
	if (!l->instructions.n)
		return err_set(err, -EIO, "objdump printed no instructions");
	*ret = l->instructions.p;
	*ret_n = l->instructions.n;
	return 0;
}
