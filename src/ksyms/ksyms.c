/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's symbols from /proc/kallsyms: some 120,000 lines "address type name[\t[module]]". The
 * kernel needs 50 ms to print them, so the file is read once, in one pass over bounded chunks.
 */
#include <fcntl.h>

#include <unistd.h>

#include "ksyms/ksyms_priv.h"

#define READ_BYTES    (64 * 1024)
#define SYMBOL_EXTENT (1024 * 1024)
/* bound of ksyms_symbol.name: the blob's cap leaves the two upper bits free */
#define RANK_SHIFT 30
#define NAME_MASK  ((1U << RANK_SHIFT) - 1)
_Static_assert(KSYMS_BLOB_MAX <= NAME_MASK, "offsets of names are 30 bits");

void ksyms_parser_init(struct ksyms_parser *p)
{
	*p = (struct ksyms_parser){.syms = VEC_INIT(KSYMS_MAX)};
	sbuf_init(&p->blob, KSYMS_BLOB_MAX);
}

void ksyms_parser_done(struct ksyms_parser *p)
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
 * Adds a name to the blob. "__pfx_f" precedes each "f" in kernels with call padding, which is half
 * of all symbols. A name that ends the one before it is stored as its tail.
 */
static int add_name(struct ksyms_parser *p, const uint8_t *name, size_t len, size_t *ret)
{
	int r;

	if (len <= p->prev_len && len > 0 &&
	    memcmp(p->blob.p + p->prev_name + p->prev_len - len, name, len) == 0) {
		*ret = p->prev_name + p->prev_len - len;
		return 0;
	}
	if (p->blob.len + len + 1 > KSYMS_BLOB_MAX)
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

bool ksyms_name_ok(const uint8_t *name, size_t len)
{
	const uint8_t *tab = memchr(name, '\t', len);
	size_t rest = tab ? len - (size_t)(tab - name) : 0;

	if (len == 0 || len > KSYMS_NAME_MAX || tab == name)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (name[i] <= ' ' && name + i != tab)
			return false;
	}
	return !tab || (rest > 3 && tab[1] == '[' && tab[rest - 1] == ']');
}

int ksyms_add(struct ksyms_parser *p, uint64_t addr, uint32_t rank, const uint8_t *name, size_t len)
{
	size_t at = 0;
	int r = rank == KSYMS_NO_CODE ? 0 : add_name(p, name, len, &at);

	if (r < 0)
		return r;
	if (p->syms.n > 0 && p->syms.p[p->syms.n - 1].addr > addr)
		p->unsorted = true;
	return vec_push(&p->syms, (struct ksyms_symbol){.addr = addr,
	                                                .name = (uint32_t)at | rank << RANK_SHIFT});
}

/* Names that linker scripts give to the end of the kernel's own code. */
static bool ends_text(const uint8_t *name, size_t len)
{
	static const char *const ends[] = {"_etext", "_einittext", "__inittext_end", "__init_end",
	                                   "_end"};

	if (len > sizeof("__inittext_end") - 1)
		return false; /* most */
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (len == strlen(ends[i]) && memcmp(name, ends[i], len) == 0)
			return true;
	return false;
}

/* Parses one line. Returns 0, also for lines that are skipped, or damaged and counted; -ENOMEM. */
static int parse_line(struct ksyms_parser *p, const uint8_t *line, size_t len)
{
	uint64_t addr = 0;
	uint32_t rank;
	size_t i = 0;
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
	case 'A': /* a number: no address, or an absolute symbol */
	case 'a':
		return 0;
	default: /* data: the code before it has ended */
		rank = KSYMS_NO_CODE;
		break;
	}
	i += 3;
	if (addr == UINT64_MAX || !ksyms_name_ok(line + i, len - i)) {
		p->bad_lines++; /* no symbol can follow that address */
		return 0;
	}
	if (addr == 0) {
		p->hidden += rank != KSYMS_NO_CODE;
		return 0;
	}
	if (ends_text(line + i, len - i))
		rank = KSYMS_NO_CODE;
	r = ksyms_add(p, addr, rank, line + i, len - i);
	if (r == -E2BIG) {
		p->bad_lines++;
		return 0;
	}
	return r;
}

/* Parses the lines of @buf; unless @last, only complete ones. */
static int parse_lines(struct ksyms_parser *p, const uint8_t *buf, size_t len, bool last,
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

static int parse_fd(struct ksyms_parser *p, int fd, const char *path, struct err *err)
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
		if (have == READ_BYTES) { /* one line without an end */
			if (!p->skipping)
				p->bad_lines++;
			p->skipping = true;
			have = 0;
		}
	}
}

static int ksym_cmp(const void *pa, const void *pb)
{
	const struct ksyms_symbol *a = pa, *b = pb;

	return (a->addr > b->addr) - (a->addr < b->addr);
}

/* Orders symbols at one address: global, weak, local, data, then as sym_name_cmp. */
static bool better(const char *blob, const struct ksyms_symbol *a, const struct ksyms_symbol *b)
{
	uint32_t rank_a = a->name >> RANK_SHIFT, rank_b = b->name >> RANK_SHIFT;

	if (rank_a != rank_b || rank_a == KSYMS_NO_CODE)
		return rank_a < rank_b;
	return sym_name_cmp(blob + (a->name & NAME_MASK), blob + (b->name & NAME_MASK)) < 0;
}

static bool no_code(const struct ksyms_symbol *s)
{
	return s->name >> RANK_SHIFT == KSYMS_NO_CODE;
}

/* Keeps one symbol an address, and of data only what ends code. */
static size_t drop_aliases(struct ksyms_symbol *syms, size_t n, const char *blob)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		if (kept > 0 && syms[kept - 1].addr == syms[i].addr) {
			if (better(blob, &syms[i], &syms[kept - 1]))
				syms[kept - 1] = syms[i];
		} else if (!no_code(&syms[i]) || (kept > 0 && !no_code(&syms[kept - 1]))) {
			syms[kept++] = syms[i];
		}
	}
	return kept;
}

int ksyms_finish(struct ksyms_parser *p, struct ksyms **ret)
{
	_cleanup_(ksyms_freep) struct ksyms *k = NULL;
	char *smaller;
	size_t n;

	if (p->unsorted) /* modules and BPF programs are listed in the order of their loading */
		qsort(p->syms.p, p->syms.n, sizeof(*p->syms.p), ksym_cmp);
	n = drop_aliases(p->syms.p, p->syms.n, p->blob.p);
	if (n == 0) /* the table does not begin with data */
		return p->hidden > 0 ? -EPERM : -ENODATA;

	k = calloc(1, sizeof(*k));
	if (!k)
		return -ENOMEM;
	k->addrs = malloc(n * sizeof(*k->addrs));
	k->names = malloc(n * sizeof(*k->names));
	if (!k->addrs || !k->names)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		k->addrs[i] = p->syms.p[i].addr;
		k->names[i] =
		        no_code(&p->syms.p[i]) ? KSYMS_NO_NAME : p->syms.p[i].name & NAME_MASK;
		k->cnt += !no_code(&p->syms.p[i]);
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

int ksyms_load(const char *path, struct ksyms **ret, struct err *err)
{
	_cleanup_(ksyms_parser_done) struct ksyms_parser p;
	_cleanup_close_ int fd = -EBADF;
	int r;

	ksyms_parser_init(&p);
	if (!path)
		path = "/proc/kallsyms";
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, -errno, "open %s: %s", path, err_name(errno));
	r = parse_fd(&p, fd, path, err);
	if (r < 0)
		return r == -ENOMEM ? err_set(err, r, "no memory for %s", path) : r;
	r = ksyms_finish(&p, ret);
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

int ksyms_parse(const char *text, size_t len, struct ksyms **ret)
{
	_cleanup_(ksyms_parser_done) struct ksyms_parser p;
	size_t used;
	int r;

	ksyms_parser_init(&p);
	r = parse_lines(&p, (const uint8_t *)text, len, true, &used);
	if (r < 0)
		return r;
	return ksyms_finish(&p, ret);
}

struct ksyms *ksyms_free(struct ksyms *k)
{
	if (!k)
		return NULL;
	free(k->addrs);
	free(k->names);
	free(k->blob);
	free(k);
	return NULL;
}

void ksyms_freep(struct ksyms **k)
{
	*k = ksyms_free(*k);
}

const char *ksyms_module(const char *name)
{
	const char *tab = strchr(name, '\t');

	return tab ? tab + 1 : NULL;
}

/* Returns the end of symbol @i, which has a name: the next symbol, except for the last one of a
 * module. Between modules is nothing, or code without a symbol; the kernel allocates their memory
 * by pages. Sizes of /proc/modules would not help: since Linux 6.4 they count data that is
 * elsewhere. BPF programs share pages, so that those of one kind are adjacent. */
static uint64_t symbol_end(const struct ksyms *k, size_t i)
{
	const char *module = ksyms_module(k->blob + k->names[i]), *other = NULL;
	uint64_t start = k->addrs[i], page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t end = start > UINT64_MAX - SYMBOL_EXTENT ? UINT64_MAX : start + SYMBOL_EXTENT;
	bool code = false;

	if (i + 1 < k->n) {
		end = MIN_OF(end, k->addrs[i + 1]);
		code = k->names[i + 1] != KSYMS_NO_NAME;
		if (code)
			other = ksyms_module(k->blob + k->names[i + 1]);
		if (!module && (!code || !other))
			return end; /* the kernel's own code ends at its data at the latest */
	}
	if (module && (strcmp(module, "[bpf]") == 0 || (other && strcmp(module, other) == 0)))
		return end;
	return MIN_OF(end,
	              (start | (page - 1)) == UINT64_MAX ? UINT64_MAX : (start | (page - 1)) + 1);
}

/* Returns how many symbols start at or before @addr. */
static size_t upper_bound(const struct ksyms *k, uint64_t addr)
{
	return bisect_first(i, 0, k->n, k->addrs[i] > addr);
}

static int kernel_text(const struct ksyms *k, size_t i, struct sym_batch *out, struct sbuf *linkage,
                       struct sbuf *scratch, uint32_t *ret)
{
	const char *raw = k->blob + k->names[i];
	const char *tab = strchr(raw, '\t');
	char suffix[KSYMS_NAME_MAX + 2] = "";

	if (!tab)
		return sym_batch_symbol(out, raw, "", scratch, ret);
	suffix[0] = ' ';
	(void)str_copy(suffix + 1, sizeof(suffix) - 1, tab + 1); /* bounded by name_ok */
	sbuf_reset(linkage);
	if (sbuf_add(linkage, raw, (size_t)(tab - raw)) < 0)
		return linkage->err;
	return sym_batch_symbol(out, linkage->p, suffix, scratch, ret);
}

int ksyms_resolve(const struct ksyms *k, const uint64_t *addrs, size_t n, struct sym_batch *ret)
{
	_cleanup_(sym_batch_done) struct sym_batch out = {0};
	_cleanup_(sbuf_done) struct sbuf scratch;
	_cleanup_(sbuf_done) struct sbuf linkage;
	uint32_t frame = 0;
	size_t prev = SIZE_MAX;
	int r, text_r = 0;

	sbuf_init(&scratch, SYM_DEMANGLED_MAX + KSYMS_NAME_MAX + 2);
	sbuf_init(&linkage, KSYMS_NAME_MAX + 1);
	r = sym_batch_init(&out, n, EV_REASON_NO_SYMBOL);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		size_t at = upper_bound(k, addrs[i]);

		if (at == 0 || k->names[at - 1] == KSYMS_NO_NAME ||
		    addrs[i] >= symbol_end(k, at - 1))
			continue;
		at--;
		if (at != prev)
			text_r = kernel_text(k, at, &out, &linkage, &scratch, &frame);
		if (text_r == -ENOMEM)
			return text_r;
		prev = at;
		out.names[i] = (struct sym_name){
		        .reason = text_r < 0 ? EV_REASON_NO_MEMORY : EV_REASON_NAMED,
		        .first = frame,
		        .n = text_r < 0 ? 0 : 1,
		        .start = k->addrs[at],
		};
	}
	*ret = out;
	out = (struct sym_batch){0};
	return 0;
}

size_t ksyms_cnt(const struct ksyms *k)
{
	return k->cnt;
}

uint64_t ksyms_bad_lines(const struct ksyms *k)
{
	return k->bad_lines;
}

size_t ksyms_bytes(const struct ksyms *k)
{
	return sizeof(*k) + k->n * (sizeof(*k->addrs) + sizeof(*k->names)) + k->blob_len;
}

int ksyms_range(const struct ksyms *k, uint64_t *ret_start, uint64_t *ret_end)
{
	if (k->n == 0)
		return -ENOENT;
	*ret_start = k->addrs[0]; /* code: data was dropped before it */
	*ret_end =
	        k->names[k->n - 1] == KSYMS_NO_NAME ? k->addrs[k->n - 1] : symbol_end(k, k->n - 1);
	return 0;
}
