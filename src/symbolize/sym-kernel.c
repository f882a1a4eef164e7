/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's symbols from /proc/kallsyms: some 120,000 lines "address type name[\t[module]]" that
 * the kernel takes 50 ms to print, so the file is read once, in one pass over bounded chunks.
 */
#include <fcntl.h>

#include "symbolize/symbolize_priv.h"

#define READ_BYTES    (64 * 1024)
#define NAME_MAX_LEN  1024 /* with module; KSYM_NAME_LEN is 512 and module names are below 64 */
#define SYMBOLS_MAX   (4 * 1024 * 1024)
#define BLOB_MAX      (64 * 1024 * 1024)
#define SYMBOL_EXTENT (1024 * 1024)
#define RANK_SHIFT    30 /* of ksym.name: BLOB_MAX leaves the two upper bits free */
#define NAME_MASK     ((1U << RANK_SHIFT) - 1)
_Static_assert(BLOB_MAX <= NAME_MASK, "offsets of names are 30 bits");

/* Split after sorting: 12 bytes a symbol, and look-ups touch addresses only. */
struct sym_kernel {
	uint64_t *addrs; /* addrs[n], ascending, unique */
	uint32_t *names; /* names[n]: offset in blob of "symbol" or "symbol\t[module]", with NUL */
	size_t n;
	char *blob; /* blob[blob_len] */
	size_t blob_len;
	uint64_t bad_lines;
};

struct ksym {
	uint64_t addr;
	uint32_t name; /* offset in the blob; above it the rank: 0 global, 1 weak, 2 local */
};

struct parser {
	VEC(struct ksym) syms;
	struct sbuf blob;
	size_t prev_name, prev_len; /* in blob: the name added last */
	uint64_t bad_lines;
	uint64_t hidden; /* text symbols at address 0 */
	bool unsorted;
	bool skipping; /* the rest of a line that was longer than the buffer */
};

static void parser_init(struct parser *p)
{
	*p = (struct parser){.syms = VEC_INIT(SYMBOLS_MAX)};
	sbuf_init(&p->blob, BLOB_MAX);
}

static void parser_done(struct parser *p)
{
	vec_done(&p->syms);
	sbuf_done(&p->blob);
}

static int hex_digit(uint8_t c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/*
 * Puts a name into the blob. "__pfx_f" stands before each "f" in kernels with call padding, which
 * is half of all symbols: a name that ends the one before it is stored as its tail.
 */
static int add_name(struct parser *p, const uint8_t *name, size_t len, size_t *ret)
{
	int r;

	if (len <= p->prev_len && len > 0 &&
	    memcmp(p->blob.p + p->prev_name + p->prev_len - len, name, len) == 0) {
		*ret = p->prev_name + p->prev_len - len;
		return 0;
	}
	if (p->blob.len + len + 1 > BLOB_MAX)
		return -E2BIG;
	p->prev_name = p->blob.len;
	p->prev_len = len;
	r = sbuf_add(&p->blob, name, len);
	if (r == 0)
		r = sbuf_char(&p->blob, 0);
	if (r < 0)
		return r;
	*ret = p->prev_name;
	return 0;
}

/* "symbol" or "symbol\t[module]", nothing unprintable. */
static bool name_ok(const uint8_t *name, size_t len)
{
	const uint8_t *tab = memchr(name, '\t', len);
	size_t rest = tab ? len - (size_t)(tab - name) : 0;

	if (len == 0 || len > NAME_MAX_LEN || tab == name)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (name[i] <= ' ' && name + i != tab)
			return false;
	}
	return !tab || (rest > 3 && tab[1] == '[' && tab[rest - 1] == ']');
}

/* 0 also for lines that are skipped, or damaged and counted; -ENOMEM. */
static int parse_line(struct parser *p, const uint8_t *line, size_t len)
{
	uint64_t addr = 0;
	uint32_t rank;
	size_t i = 0, name;
	int digit, r;

	while (i < len && (digit = hex_digit(line[i])) >= 0) {
		addr = addr << 4 | (uint64_t)digit;
		i++;
	}
	if (i == 0 || i > 16 || len - i < 4 || line[i] != ' ' || line[i + 2] != ' ') {
		p->bad_lines++;
		return 0;
	}
	switch (line[i + 1]) {
	case 'T':
		rank = 0;
		break;
	case 'W':
	case 'w':
		rank = 1;
		break;
	case 't':
		rank = 2;
		break;
	default:
		return 0; /* data */
	}
	i += 3;
	if (addr == UINT64_MAX || !name_ok(line + i, len - i)) { /* nothing can follow it */
		p->bad_lines++;
		return 0;
	}
	if (addr == 0) {
		p->hidden++;
		return 0;
	}
	r = add_name(p, line + i, len - i, &name);
	if (r == 0) {
		if (p->syms.n > 0 && p->syms.p[p->syms.n - 1].addr > addr)
			p->unsorted = true;
		r = vec_push(&p->syms, (struct ksym){.addr = addr,
		                                     .name = (uint32_t)name | rank << RANK_SHIFT});
	}
	if (r == -E2BIG) {
		p->bad_lines++;
		return 0;
	}
	return r;
}

/* Parses the lines of @buf; without @last, only those that end in it. */
static int parse_lines(struct parser *p, const uint8_t *buf, size_t len, bool last,
                       size_t *ret_used)
{
	size_t used = 0;
	int r;

	while (used < len) {
		const uint8_t *line = buf + used;
		const uint8_t *nl = memchr(line, '\n', len - used);
		size_t line_len = nl ? (size_t)(nl - line) : len - used;

		if (!nl && !last)
			break;
		if (p->skipping) {
			p->skipping = false;
		} else {
			r = parse_line(p, line, line_len);
			if (r < 0)
				return r;
		}
		used += line_len + (nl ? 1 : 0);
	}
	*ret_used = used;
	return 0;
}

static int parse_fd(struct parser *p, int fd, const char *path, struct err *err)
{
	_cleanup_free_ uint8_t *buf = NULL;
	size_t have = 0, used;
	ssize_t n;
	int r;

	buf = malloc(READ_BYTES);
	if (!buf)
		return -ENOMEM;
	for (;;) {
		n = read(fd, buf + have, READ_BYTES - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(err, -errno, "read %s: %s", path, err_name(errno));
		have += (size_t)n;
		r = parse_lines(p, buf, have, n == 0, &used);
		if (r < 0)
			return r;
		if (n == 0)
			return 0;
		have -= used;
		memmove(buf, buf + used, have);
		if (have == READ_BYTES) { /* one line and no end in sight */
			if (!p->skipping)
				p->bad_lines++;
			p->skipping = true;
			have = 0;
		}
	}
}

static int ksym_cmp(const void *pa, const void *pb)
{
	const struct ksym *a = pa, *b = pb;

	return (a->addr > b->addr) - (a->addr < b->addr);
}

/* Of symbols at one address: global over weak over local, then as sym_name_cmp. */
static bool better(const char *blob, const struct ksym *a, const struct ksym *b)
{
	uint32_t rank_a = a->name >> RANK_SHIFT, rank_b = b->name >> RANK_SHIFT;

	if (rank_a != rank_b)
		return rank_a < rank_b;
	return sym_name_cmp(blob + (a->name & NAME_MASK), blob + (b->name & NAME_MASK)) < 0;
}

static size_t drop_aliases(struct ksym *syms, size_t n, const char *blob)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		if (kept == 0 || syms[kept - 1].addr != syms[i].addr)
			syms[kept++] = syms[i];
		else if (better(blob, &syms[i], &syms[kept - 1]))
			syms[kept - 1] = syms[i];
	}
	return kept;
}

static int finish(struct parser *p, struct sym_kernel **ret)
{
	_cleanup_(sym_kernel_freep) struct sym_kernel *k = NULL;
	char *smaller;
	size_t n;

	if (p->syms.n == 0)
		return p->hidden > 0 ? -EPERM : -ENODATA;
	if (p->unsorted) /* modules and BPF programs come in the order of their loading */
		qsort(p->syms.p, p->syms.n, sizeof(*p->syms.p), ksym_cmp);
	n = drop_aliases(p->syms.p, p->syms.n, p->blob.p);

	k = calloc(1, sizeof(*k));
	if (!k)
		return -ENOMEM;
	k->addrs = malloc(n * sizeof(*k->addrs));
	k->names = malloc(n * sizeof(*k->names));
	if (!k->addrs || !k->names)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		k->addrs[i] = p->syms.p[i].addr;
		k->names[i] = p->syms.p[i].name & NAME_MASK;
	}
	k->n = n;
	k->bad_lines = p->bad_lines + p->hidden;
	k->blob_len = p->blob.len;
	k->blob = sbuf_take(&p->blob);
	if (!k->blob)
		return -ENOMEM;
	smaller = realloc(k->blob, k->blob_len);
	if (smaller)
		k->blob = smaller;
	*ret = TAKE_PTR(k);
	return 0;
}

int sym_kernel_load(const char *path, struct sym_kernel **ret, struct err *err)
{
	_cleanup_(parser_done) struct parser p;
	_cleanup_close_ int fd = -EBADF;
	int r;

	parser_init(&p);
	if (!path)
		path = "/proc/kallsyms";
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, -errno, "open %s: %s", path, err_name(errno));
	r = parse_fd(&p, fd, path, err);
	if (r < 0)
		return r == -ENOMEM ? err_set(err, r, "no memory for %s", path) : r;
	r = finish(&p, ret);
	if (r == -EPERM)
		return err_set(err, r,
		               "%s: all addresses are hidden: needs CAP_SYSLOG, or "
		               "kernel.kptr_restrict=0",
		               path);
	if (r == -ENODATA)
		return err_set(err, r, "%s: no symbols of code", path);
	if (r < 0)
		return err_set(err, r, "no memory for %s", path);
	return 0;
}

int sym_kernel_parse(const char *text, size_t len, struct sym_kernel **ret)
{
	_cleanup_(parser_done) struct parser p;
	size_t used;
	int r;

	parser_init(&p);
	r = parse_lines(&p, (const uint8_t *)text, len, true, &used);
	if (r < 0)
		return r;
	return finish(&p, ret);
}

struct sym_kernel *sym_kernel_free(struct sym_kernel *k)
{
	if (!k)
		return NULL;
	free(k->addrs);
	free(k->names);
	free(k->blob);
	free(k);
	return NULL;
}

void sym_kernel_freep(struct sym_kernel **k)
{
	*k = sym_kernel_free(*k);
}

/* Where symbol @i ends. */
static uint64_t symbol_end(const struct sym_kernel *k, size_t i)
{
	uint64_t start = k->addrs[i];
	uint64_t end = start > UINT64_MAX - SYMBOL_EXTENT ? UINT64_MAX : start + SYMBOL_EXTENT;

	return i + 1 < k->n ? MIN_OF(end, k->addrs[i + 1]) : end;
}

/* Number of symbols that start at or before @addr. */
static size_t upper_bound(const struct sym_kernel *k, uint64_t addr)
{
	size_t lo = 0, hi = k->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (k->addrs[mid] <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static int kernel_text(const struct sym_kernel *k, size_t i, struct sym_batch *out,
                       struct sbuf *linkage, struct sbuf *scratch, struct sym_text *ret)
{
	const char *raw = k->blob + k->names[i];
	const char *tab = strchr(raw, '\t');
	char suffix[NAME_MAX_LEN + 2] = "";

	if (!tab)
		return sym_batch_text(out, raw, "", scratch, ret);
	suffix[0] = ' ';
	(void)str_copy(suffix + 1, sizeof(suffix) - 1, tab + 1); /* name_ok bounded it */
	sbuf_reset(linkage);
	if (sbuf_add(linkage, raw, (size_t)(tab - raw)) < 0)
		return linkage->err;
	return sym_batch_text(out, linkage->p, suffix, scratch, ret);
}

int sym_kernel_resolve(const struct sym_kernel *k, const uint64_t *addrs, size_t n,
                       struct sym_batch *ret)
{
	_cleanup_(sym_batch_done) struct sym_batch out = {0};
	_cleanup_(sbuf_done) struct sbuf scratch;
	_cleanup_(sbuf_done) struct sbuf linkage;
	struct sym_text text = {0};
	size_t prev = SIZE_MAX;
	int r, text_r = 0;

	sbuf_init(&scratch, SYM_DEMANGLED_MAX + NAME_MAX_LEN + 2);
	sbuf_init(&linkage, NAME_MAX_LEN + 1);
	r = sym_batch_init(&out, n, EV_REASON_NO_SYMBOL);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		size_t at = upper_bound(k, addrs[i]);

		if (at == 0 || addrs[i] >= symbol_end(k, at - 1))
			continue;
		at--;
		if (at != prev)
			text_r = kernel_text(k, at, &out, &linkage, &scratch, &text);
		if (text_r == -ENOMEM)
			return text_r;
		prev = at;
		out.names[i] = (struct sym_name){
		        .reason = text_r < 0 ? EV_REASON_NO_MEMORY : EV_REASON_NAMED,
		        .name = text_r < 0 ? NULL : text.name,
		        .linkage = text_r < 0 ? NULL : text.linkage,
		        .start = k->addrs[at],
		};
	}
	*ret = out;
	out = (struct sym_batch){0};
	return 0;
}

size_t sym_kernel_cnt(const struct sym_kernel *k)
{
	return k->n;
}

uint64_t sym_kernel_bad_lines(const struct sym_kernel *k)
{
	return k->bad_lines;
}

size_t sym_kernel_bytes(const struct sym_kernel *k)
{
	return sizeof(*k) + k->n * (sizeof(*k->addrs) + sizeof(*k->names)) + k->blob_len;
}

int sym_kernel_range(const struct sym_kernel *k, uint64_t *ret_start, uint64_t *ret_end)
{
	if (k->n == 0)
		return -ENOENT;
	*ret_start = k->addrs[0];
	*ret_end = symbol_end(k, k->n - 1);
	return 0;
}
