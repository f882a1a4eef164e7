/* SPDX-License-Identifier: Apache-2.0 */
/* Describes the unwind table of one file, as text. No capture, no kernel. */
#include "unwind/unwind.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#define WORDS_MAX_BYTES ((uint64_t)1 << 30) /* of one file; a capture's budget does not apply */

/* The word space in our own memory. */
struct words {
	uint32_t *segment[ABI_SEGMENTS_MAX];
};

struct info {
	struct img_file *f;
	struct uw_rules *rules;
	struct uw_table *table;
	struct uw_build_stats st;
	uint64_t kernel_bytes;
};

static void info_done(struct info *i)
{
	i->table = uw_table_free(i->table);
	i->rules = uw_rules_free(i->rules);
	i->f = img_file_free(i->f);
}

static int open_file(const char *path, int *ret, struct err *err)
{
	_cleanup_close_ int fd = -EBADF;
	struct stat st;

	/* O_NONBLOCK: the open of a FIFO without a writer blocks. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return err_set(err, -errno, "%s: cannot be opened (%s)", path, err_name(errno));
	if (fstat(fd, &st) < 0)
		return err_set(err, -errno, "%s: cannot be read (%s)", path, err_name(errno));
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, "%s: %s, not a file; give a program or library", path,
		               S_ISDIR(st.st_mode)    ? "a directory"
		               : S_ISFIFO(st.st_mode) ? "a FIFO"
		               : S_ISSOCK(st.st_mode) ? "a socket"
		                                      : "a device");
	*ret = TAKE_FD(fd);
	return 0;
}

static int open_elf(const char *path, int fd, struct info *i, struct err *err)
{
	int r = img_file_open(fd, &i->f, NULL);

	if (r == -ENOEXEC)
		return err_set(err, r,
		               "%s: not a little-endian ELF file; give a program or library", path);
	if (r == -EINVAL)
		return err_set(err, r, "%s: inconsistent ELF header; the file may be truncated",
		               path);
	if (r < 0)
		return err_set(err, r, "%s: cannot be read (%s)", path, err_name(r));
	if (img_type(i->f) == ET_REL)
		return err_set(
		        err, -EINVAL,
		        "%s: an object file, whose code has no addresses; give the program or "
		        "library that it is linked into",
		        path);
	if (img_type(i->f) == ET_CORE)
		return err_set(err, -EINVAL, "%s: a core file; give the program or library", path);
	if (!img_is_64(i->f))
		return err_set(err, -ENOTSUP,
		               "%s: 32-bit code has no unwind tables; give a 64-bit file", path);
	return 0;
}

static int build(const char *path, struct info *i, struct err *err)
{
	struct err why = {0};
	int r = uw_rules_new(NULL, &i->rules);

	if (r == 0)
		r = uw_table_build(i->f, i->rules, NULL, &i->table, &i->st, &why);
	if (r == -ENOENT)
		return err_set(
		        err, r,
		        "%s: no call-frame information (.eh_frame, .debug_frame or "
		        ".gopclntab) in this file; its code is unwound by frame pointers and "
		        "heuristics. Compile it with -fasynchronous-unwind-tables. If it is a "
		        "file of debug information, or truncated, give the whole file",
		        path);
	if (r == -ENOTSUP)
		return err_set(
		        err, r,
		        "%s: built for another processor (ELF machine %u); use the perf-agent "
		        "of that processor",
		        path, img_machine(i->f));
	if (r < 0)
		return err_set(err, r, "%s: call-frame information cannot be read: %s", path,
		               why.msg[0] ? why.msg : err_name(r));
	return 0;
}

static int make_segment(void *arg, uint32_t i, uint32_t **ret)
{
	struct words *w = arg;

	if (!w->segment[i])
		w->segment[i] = calloc(ABI_SEGMENT_WORDS, sizeof(uint32_t));
	if (!w->segment[i])
		return -ENOMEM;
	*ret = w->segment[i];
	return 0;
}

/* Installs the table, since its size depends on the packing. */
static int measure(struct info *i)
{
	struct words *w = calloc(1, sizeof(*w));
	struct abi_image images[2] = {{0}};
	struct uw_backing backing = {.images = images,
	                             .n_images = ARRAY_SIZE(images),
	                             .max_segments = ABI_SEGMENTS_MAX,
	                             .segment = make_segment,
	                             .arg = w};
	struct uw_store_stats st = {0};
	struct uw_store *store = NULL;
	int r = w ? uw_store_new(&backing, WORDS_MAX_BYTES, &store) : -ENOMEM;

	if (r == 0)
		r = uw_store_install(store, 1, i->table);
	if (r == 0) {
		uw_store_stats(store, &st);
		i->kernel_bytes = st.bytes;
	}
	uw_store_free(store);
	for (uint32_t k = 0; w && k < ABI_SEGMENTS_MAX; k++)
		free(w->segment[k]);
	free(w);
	return r;
}

/* Counts the rules of the table, each once. */
static uint32_t distinct_rules(const struct uw_table *t)
{
	_cleanup_free_ uint8_t *seen = calloc(UINT16_MAX + 1, 1);
	uint32_t n = 0;

	for (uint32_t i = 0; seen && i < t->n_rows; i++) {
		uint16_t code = t->rows[i].code;

		if (code >= ABI_CODE_FIRST && !seen[code]) {
			seen[code] = 1;
			n++;
		}
	}
	return n;
}

struct say {
	uw_line_fn line;
	void *arg;
	int failed; /* the first failure to make a line */
};

static void say(struct say *to, const char *fmt, ...) PRINTF_FMT(2, 3);
static void say(struct say *to, const char *fmt, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0) {
		text = NULL;
		to->failed = -ENOMEM;
		return;
	}
	to->line(to->arg, text);
}

static void say_table(struct say *to, const struct info *i)
{
	const struct uw_build_stats *st = &i->st;

	say(to, "sources:%s%s%s", st->eh_frame ? " eh_frame" : "",
	    st->debug_frame ? " debug_frame" : "", st->gopclntab ? " gopclntab" : "");
	say(to, "functions: %llu", (unsigned long long)st->entries);
	say(to, "bad_functions: %llu", (unsigned long long)st->bad_entries);
	say(to, "overlapping_functions: %llu", (unsigned long long)st->overlaps);
	say(to, "rows: %u", i->table->n_rows);
	say(to, "rules: %u", distinct_rules(i->table));
	say(to, "interned_rules: %llu", (unsigned long long)st->rules);
	say(to, "unsupported_bytes: %llu", (unsigned long long)st->unsupported);
	say(to, "kernel_bytes: %llu", (unsigned long long)i->kernel_bytes);
}

static int say_rule(struct say *to, const char *path, const struct info *i, uint64_t pc,
                    struct err *err)
{
	struct uw_rule rule = {0};
	struct sbuf b;
	uint64_t off;
	uint16_t code;
	int r = img_vaddr_to_off(i->f, pc, &off);

	if (r < 0)
		return err_set(err, -ENOENT,
		               "%s: 0x%llx is outside its code; give a virtual address of the "
		               "file, as nm and readelf print them",
		               path, (unsigned long long)pc);
	code = uw_table_find(i->table, off);
	sbuf_init(&b, 4096);
	if (code == ABI_CODE_NONE)
		r = sbuf_str(&b, "none: no call-frame information covers it");
	else if (code == ABI_CODE_BAD)
		r = sbuf_str(&b, "bad: its call-frame information is damaged or unknown");
	else if (code == ABI_CODE_ROOT)
		r = sbuf_str(&b, "root: the outermost frame");
	else
		r = uw_rules_expand(i->rules, code, &rule);
	if (r == 0 && code >= ABI_CODE_FIRST)
		r = uw_rule_print(i->rules, &rule, &b);
	if (r == 0)
		say(to, "pc: 0x%llx", (unsigned long long)pc);
	if (r == 0)
		say(to, "offset: 0x%llx", (unsigned long long)off);
	if (r == 0)
		say(to, "rule: %s", b.p);
	sbuf_done(&b);
	return r < 0 ? err_set(err, r, "%s: the rule at 0x%llx: %s", path, (unsigned long long)pc,
	                       err_name(r))
	             : 0;
}

int uw_info(const char *path, const uint64_t *pc, uw_line_fn line, void *arg, struct err *err)
{
	_cleanup_(info_done) struct info i = {0};
	struct say to = {.line = line, .arg = arg};
	_cleanup_close_ int fd = -EBADF;
	int r = open_file(path, &fd, err);

	if (r == 0)
		r = open_elf(path, fd, &i, err);
	if (r == 0)
		r = build(path, &i, err);
	if (r < 0)
		return r;
	if (pc) {
		r = say_rule(&to, path, &i, *pc, err);
	} else {
		r = measure(&i);
		if (r < 0)
			return err_set(err, r, "%s: packing its table: %s", path, err_name(r));
		say_table(&to, &i);
	}
	if (r == 0 && to.failed)
		r = err_set(err, to.failed, "out of memory");
	return r;
}
