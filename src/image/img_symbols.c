/* SPDX-License-Identifier: Apache-2.0 */
/* Streams symbol tables, and reads the names of the few symbols that are wanted. */
#include "image/image_priv.h"

/* Machines whose assemblers mark code and data with symbols such as $x and $d. */
static bool has_mapping_symbols(const struct img_file *f)
{
	return f->machine == EM_ARM || f->machine == EM_AARCH64 || f->machine == EM_RISCV ||
	       f->machine == EM_CSKY;
}

/* Returns the latest possible end of a symbol without a size. */
static uint64_t symbol_limit(const struct img_file *f, uint64_t value, uint16_t shndx)
{
	const struct img_segment *seg;

	if (shndx < f->n_sections) {
		const struct img_section *s = &f->sections[shndx];

		if (value >= s->addr && value <= s->end)
			return s->end;
	}
	seg = img_exec_segment(f, value);
	return seg ? seg->vaddr + seg->mem_size : value;
}

static bool is_code(const struct img_file *f, const Elf64_Sym *s)
{
	switch (ELF64_ST_TYPE(s->st_info)) {
	case STT_FUNC:
	case STT_GNU_IFUNC:
		return s->st_shndx != SHN_UNDEF && s->st_shndx != SHN_COMMON;
	case STT_NOTYPE: /* labels of assembler code */
		if (s->st_shndx == SHN_UNDEF || s->st_shndx == SHN_ABS || s->st_shndx == SHN_COMMON)
			return false;
		if (s->st_shndx < f->n_sections)
			return f->sections[s->st_shndx].exec;
		return img_exec_segment(f, s->st_value) != NULL;
	default:
		return false;
	}
}

/* Reports one symbol: 1, 0 (not code, or damaged and counted), negative errno. */
static int one_symbol(struct img_file *f, uint8_t table, const Elf64_Sym *s, struct sbuf *name,
                      img_symbol_fn fn, void *arg)
{
	struct img_symbol sym;
	int r;

	if (s->st_name == 0 || !is_code(f, s))
		return 0;
	if (s->st_name >= f->tables[table].str_size || s->st_value > UINT64_MAX - s->st_size) {
		f->bad++;
		return 0;
	}
	sym = (struct img_symbol){
	        .value = s->st_value,
	        .size = s->st_size,
	        .limit = symbol_limit(f, s->st_value, s->st_shndx),
	        .name_off = s->st_name,
	        .bind = ELF64_ST_BIND(s->st_info),
	        .type = ELF64_ST_TYPE(s->st_info),
	        .table = table,
	};
	if (sym.type == STT_NOTYPE && sym.bind == STB_LOCAL && has_mapping_symbols(f)) {
		sbuf_reset(name);
		r = img_symbol_name(f, &sym, name);
		if (r == -ENODATA) {
			f->bad++;
			return 0;
		}
		if (r < 0)
			return r;
		if (name->len > 0 && name->p[0] == '$')
			return 0;
	}
	fn(arg, &sym);
	return 1;
}

static int next_symbol(const struct img_file *f, struct cursor *c, Elf64_Sym *ret)
{
	Elf32_Sym s;
	int r;

	if (f->is64)
		return cursor_bytes(c, ret, sizeof(*ret));
	r = cursor_bytes(c, &s, sizeof(s));
	if (r == 0)
		*ret = (Elf64_Sym){
		        .st_name = s.st_name,
		        .st_info = s.st_info,
		        .st_other = s.st_other,
		        .st_shndx = s.st_shndx,
		        .st_value = s.st_value,
		        .st_size = s.st_size,
		};
	return r;
}

static ssize_t one_table(struct img_file *f, uint8_t table, void *chunk, struct sbuf *name,
                         img_symbol_fn fn, void *arg)
{
	const struct img_table *t = &f->tables[table];
	const size_t sym_size = f->is64 ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym);
	const uint64_t per_chunk = IMG_CHUNK_BYTES / sym_size;
	ssize_t handed = 0;

	for (uint64_t done = 0; done < t->sym_cnt;) {
		size_t len = (size_t)MIN_OF(per_chunk, t->sym_cnt - done) * sym_size;
		struct cursor c = cursor_of(chunk, len);
		Elf64_Sym s;
		int r;

		r = img_read(f, t->sym_off + done * sym_size, chunk, len);
		if (r == -ENODATA) { /* the file has shrunk */
			f->bad++;
			break;
		}
		if (r < 0)
			return r;
		while (next_symbol(f, &c, &s) == 0) {
			r = one_symbol(f, table, &s, name, fn, arg);
			if (r < 0)
				return r;
			handed += r;
		}
		done += len / sym_size;
	}
	return handed;
}

ssize_t img_symbols(struct img_file *f, img_symbol_fn fn, void *arg)
{
	_cleanup_free_ void *chunk = NULL;
	_cleanup_(sbuf_done) struct sbuf name;
	ssize_t n, handed = 0;

	sbuf_init(&name, IMG_NAME_MAX + 1);
	if (!f->tables[0].present && !f->tables[1].present)
		return -ENOENT;
	chunk = malloc(IMG_CHUNK_BYTES);
	if (!chunk)
		return -ENOMEM;
	for (size_t i = 0; i < ARRAY_SIZE(f->tables); i++) {
		if (!f->tables[i].present)
			continue;
		n = one_table(f, (uint8_t)i, chunk, &name, fn, arg);
		if (n < 0)
			return n;
		handed += n;
	}
	return handed;
}

/*
 * Returns the bytes of a string table from @pos, to its end or as far as they are in memory. Names
 * in order get 64 KiB at a time, single ones little: most names are short.
 */
static int window_at(struct img_file *f, uint8_t table, uint64_t pos, const char **ret,
                     size_t *ret_len)
{
	const struct img_table *t = &f->tables[table];
	struct img_window *w = &f->windows[table];
	uint64_t left = t->str_off + t->str_size - pos;
	bool in_order;
	size_t len;
	int r;

	if (f->mem) {
		*ret = (const char *)f->mem + pos;
		*ret_len = (size_t)left;
		return 0;
	}
	if (!w->buf) {
		w->buf = malloc(IMG_CHUNK_BYTES);
		if (!w->buf)
			return -ENOMEM;
	}
	if (pos < w->off || pos - w->off >= w->len) {
		in_order = pos >= w->off && pos - w->off < w->len + IMG_CHUNK_BYTES;
		len = (size_t)MIN_OF(left, (uint64_t)(in_order ? IMG_CHUNK_BYTES : 512));
		w->len = 0;
		w->off = pos;
		r = img_read(f, pos, w->buf, len);
		if (r < 0)
			return r;
		w->len = len;
	}
	*ret = w->buf + (pos - w->off);
	*ret_len = (size_t)MIN_OF(left, (uint64_t)(w->len - (pos - w->off)));
	return 0;
}

int img_symbol_name(struct img_file *f, const struct img_symbol *sym, struct sbuf *b)
{
	const struct img_table *t;
	size_t before = b->len, total = 0;
	const char *p, *nul;
	uint64_t pos;
	size_t len;
	int r;

	if (sym->table >= ARRAY_SIZE(f->tables))
		return -ENODATA;
	t = &f->tables[sym->table];
	if (!t->present || sym->name_off >= t->str_size)
		return -ENODATA;
	pos = t->str_off + sym->name_off;
	for (;;) {
		if (pos >= t->str_off + t->str_size) {
			r = -ENODATA;
			break;
		}
		r = window_at(f, sym->table, pos, &p, &len);
		if (r < 0)
			break;
		len = MIN_OF(len, (size_t)IMG_NAME_MAX + 1 - total);
		nul = memchr(p, 0, len);
		if (nul)
			len = (size_t)(nul - p);
		if (!nul && total == IMG_NAME_MAX) { /* names of templates may be that long */
			f->bad++;
			break;
		}
		len = MIN_OF(len, (size_t)IMG_NAME_MAX - total);
		r = sbuf_add(b, p, len);
		if (r < 0 || nul)
			break;
		total += len;
		pos += len;
	}
	if (r < 0 && b->p && !b->err) { /* remove what was added */
		b->len = before;
		b->p[before] = 0;
	}
	return r;
}
