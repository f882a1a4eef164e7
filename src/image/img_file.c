/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The headers of an ELF file, read without libelf: only three fixed-size structures are needed.
 * libelf would hold the whole section table of a hostile file.
 */
#include <sys/stat.h>

#include "image/image_priv.h"

/* ELF, program and section header widened to 64 bits, the fields that are used. */
struct head {
	uint64_t phoff, shoff;
	uint32_t phnum, phentsize, shnum, shentsize, shstrndx;
};

struct phdr {
	uint32_t type, flags;
	uint64_t off, vaddr, filesz, memsz, align;
};

int img_read(const struct img_file *f, uint64_t off, void *buf, size_t len)
{
	ssize_t n;

	if (off > f->size || f->size - off < len)
		return -ENODATA;
	if (len == 0)
		return 0;
	if (f->mem) {
		struct cursor c = cursor_of(f->mem, f->size);

		return cursor_skip(&c, off) < 0 ? -ENODATA : cursor_bytes(&c, buf, len);
	}
	n = file_pread_full(f->fd, buf, len, off);
	if (n < 0)
		return (int)n;
	return (size_t)n == len ? 0 : -ENODATA; /* the file has shrunk */
}

static int read_phdr(const struct img_file *f, uint64_t off, struct phdr *ret)
{
	int r;

	if (f->is64) {
		Elf64_Phdr p;

		r = img_read(f, off, &p, sizeof(p));
		if (r == 0)
			*ret = (struct phdr){p.p_type,   p.p_flags, p.p_offset, p.p_vaddr,
			                     p.p_filesz, p.p_memsz, p.p_align};
	} else {
		Elf32_Phdr p;

		r = img_read(f, off, &p, sizeof(p));
		if (r == 0)
			*ret = (struct phdr){p.p_type,   p.p_flags, p.p_offset, p.p_vaddr,
			                     p.p_filesz, p.p_memsz, p.p_align};
	}
	return r;
}

int img_read_shdr(const struct img_file *f, uint64_t off, struct img_shdr *ret)
{
	int r;

	if (f->is64) {
		Elf64_Shdr s;

		r = img_read(f, off, &s, sizeof(s));
		if (r == 0)
			*ret = (struct img_shdr){s.sh_name,   s.sh_type,  s.sh_link,
			                         s.sh_info,   s.sh_flags, s.sh_addr,
			                         s.sh_offset, s.sh_size,  s.sh_addralign,
			                         s.sh_entsize};
	} else {
		Elf32_Shdr s;

		r = img_read(f, off, &s, sizeof(s));
		if (r == 0)
			*ret = (struct img_shdr){s.sh_name,   s.sh_type,  s.sh_link,
			                         s.sh_info,   s.sh_flags, s.sh_addr,
			                         s.sh_offset, s.sh_size,  s.sh_addralign,
			                         s.sh_entsize};
	}
	return r;
}

static int read_ehdr(struct img_file *f, struct head *ret, struct err *err)
{
	unsigned char ident[EI_NIDENT];
	Elf64_Ehdr e64;
	Elf32_Ehdr e32;
	int r;

	r = img_read(f, 0, ident, sizeof(ident));
	if (r < 0 && r != -ENODATA)
		return err_set(err, r, "read of the ELF header: %s", err_name(r));
	if (r < 0 || memcmp(ident, ELFMAG, SELFMAG) != 0)
		return err_set(err, -ENOEXEC, "not an ELF file");
	if ((ident[EI_CLASS] != ELFCLASS64 && ident[EI_CLASS] != ELFCLASS32) ||
	    ident[EI_DATA] != ELFDATA2LSB)
		return err_set(err, -ENOEXEC, "not a little-endian ELF file of 32 or 64 bits");

	f->is64 = ident[EI_CLASS] == ELFCLASS64;
	if (f->is64) {
		r = img_read(f, 0, &e64, sizeof(e64));
		if (r == 0) {
			f->machine = e64.e_machine;
			f->type = e64.e_type;
			*ret = (struct head){e64.e_phoff,     e64.e_shoff, e64.e_phnum,
			                     e64.e_phentsize, e64.e_shnum, e64.e_shentsize,
			                     e64.e_shstrndx};
			f->entry = e64.e_entry;
		}
	} else {
		r = img_read(f, 0, &e32, sizeof(e32));
		if (r == 0) {
			f->machine = e32.e_machine;
			f->type = e32.e_type;
			*ret = (struct head){e32.e_phoff,     e32.e_shoff, e32.e_phnum,
			                     e32.e_phentsize, e32.e_shnum, e32.e_shentsize,
			                     e32.e_shstrndx};
			f->entry = e32.e_entry;
		}
	}
	if (r == -ENODATA)
		return err_set(err, -EINVAL, "the ELF header is cut off");
	if (r < 0)
		return err_set(err, r, "read of the ELF header: %s", err_name(r));
	return 0;
}

/* Numbers over 16 bits are in section header 0. Headers that cannot be used are counted, and
 * treated as absent. */
static int settle_counts(struct img_file *f, struct head *h)
{
	const size_t shdr_size = f->is64 ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr);
	struct img_shdr zero = {0};
	int r;

	if (h->shoff != 0) {
		if (h->shentsize != shdr_size) {
			f->bad++;
			h->shoff = 0;
		} else {
			r = img_read_shdr(f, h->shoff, &zero);
			if (r < 0 && r != -ENODATA)
				return r;
			if (r < 0) {
				f->bad++;
				h->shoff = 0;
			}
		}
	}
	if (h->shoff == 0) {
		h->shnum = 0;
		if (h->phnum == PN_XNUM) {
			f->bad++;
			h->phnum = 0;
		}
		return 0;
	}
	if (h->phnum == PN_XNUM)
		h->phnum = zero.info;
	if (h->shnum == 0)
		h->shnum = (uint32_t)MIN_OF(zero.size, UINT32_MAX);
	if (h->shstrndx == SHN_XINDEX)
		h->shstrndx = zero.link;
	return 0;
}

static void add_note_area(struct img_file *f, uint64_t off, uint64_t size, uint64_t align)
{
	if (size == 0)
		return;
	if (f->n_notes == IMG_NOTES_MAX) {
		f->bad++;
		return;
	}
	f->notes[f->n_notes++] = (struct img_note_area){off, size, align == 8 ? 8 : 4};
}

static int read_segments(struct img_file *f, const struct head *h, struct err *err)
{
	const size_t phdr_size = f->is64 ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr);
	uint32_t n = h->phnum;
	struct phdr p = {0};
	int r;

	if (n == 0)
		return 0;
	if (h->phentsize != phdr_size)
		return err_set(err, -EINVAL, "program headers of %u bytes", h->phentsize);
	if (n > IMG_SEGMENTS_MAX) {
		f->bad++;
		n = IMG_SEGMENTS_MAX;
	}
	if (h->phoff > f->size || (f->size - h->phoff) / phdr_size < n) {
		f->bad++;
		n = h->phoff > f->size ? 0 : (uint32_t)((f->size - h->phoff) / phdr_size);
	}
	f->segs = calloc((size_t)n + 1, sizeof(*f->segs));
	if (!f->segs)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		r = read_phdr(f, h->phoff + (uint64_t)i * phdr_size, &p);
		if (r == -ENODATA) {
			f->bad++;
			break;
		}
		if (r < 0)
			return err_set(err, r, "read of program headers: %s", err_name(r));
		if (p.type == PT_NOTE)
			add_note_area(f, p.off, p.filesz, p.align);
		if (p.type == PT_GNU_EH_FRAME && !f->eh_hdr.present)
			f->eh_hdr = (struct img_eh_hdr){true, p.off, p.vaddr, p.filesz};
		if (p.type != PT_LOAD)
			continue;
		if (p.off > UINT64_MAX - p.filesz || p.vaddr > UINT64_MAX - p.memsz ||
		    p.vaddr > UINT64_MAX - p.filesz) {
			f->bad++;
			continue;
		}
		f->segs[f->n_segs++] = (struct img_segment){
		        .off = p.off,
		        .vaddr = p.vaddr,
		        .file_size = p.filesz,
		        .mem_size = p.memsz,
		        .exec = p.flags & PF_X,
		        .write = p.flags & PF_W,
		};
	}
	return 0;
}

/* Adds a symbol table section and its string table. */
static int add_table(struct img_file *f, const struct head *h, struct img_table *t,
                     const struct img_shdr *s)
{
	const size_t sym_size = f->is64 ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym);
	const size_t shdr_size = f->is64 ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr);
	uint64_t size = s->size;
	struct img_shdr str = {0};
	int r;

	if (t->present || s->entsize != sym_size || s->link >= h->shnum || s->off > f->size) {
		f->bad++;
		return 0;
	}
	r = img_read_shdr(f, h->shoff + (uint64_t)s->link * shdr_size, &str);
	if (r == 0 && (str.type != SHT_STRTAB || str.off > f->size))
		r = -ENODATA;
	if (r == -ENODATA) {
		f->bad++;
		return 0;
	}
	if (r < 0)
		return r;
	if (size > f->size - s->off) {
		f->bad++;
		size = f->size - s->off;
	}
	if (str.size > f->size - str.off) {
		f->bad++;
		str.size = f->size - str.off;
	}
	t->sym_off = s->off;
	t->sym_cnt = size / sym_size;
	if (t->sym_cnt > IMG_SYMBOLS_MAX) {
		f->bad++;
		t->sym_cnt = IMG_SYMBOLS_MAX;
	}
	t->str_off = str.off;
	t->str_size = str.size;
	t->present = true;
	return 0;
}

static int read_sections(struct img_file *f, const struct head *h)
{
	const size_t shdr_size = f->is64 ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr);
	uint64_t room;
	uint32_t n = h->shnum;
	struct img_shdr s = {0};
	int r;

	if (h->shoff == 0 || n == 0)
		return 0;
	room = (f->size - h->shoff) / shdr_size; /* settle_counts read header 0 */
	if (n > room || n > IMG_SECTIONS_MAX) {
		f->bad++;
		n = (uint32_t)MIN_OF(room, (uint64_t)IMG_SECTIONS_MAX);
	}
	f->shoff = h->shoff;
	f->shstrndx = h->shstrndx;
	f->sections = calloc(n, sizeof(*f->sections));
	if (!f->sections)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		r = img_read_shdr(f, h->shoff + (uint64_t)i * shdr_size, &s);
		if (r == -ENODATA) {
			f->bad++;
			break;
		}
		if (r < 0)
			return r;
		f->n_sections = i + 1;
		if ((s.flags & SHF_ALLOC) && s.addr <= UINT64_MAX - s.size)
			f->sections[i] = (struct img_section){s.addr, s.addr + s.size,
			                                      s.flags & SHF_EXECINSTR};
		if (s.type == SHT_NOTE)
			add_note_area(f, s.off, s.size, s.align);
		if (s.type == SHT_SYMTAB || s.type == SHT_DYNSYM) {
			r = add_table(f, h, &f->tables[s.type == SHT_DYNSYM], &s);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

static int open_common(struct img_file *f, struct err *err)
{
	struct head h = {0};
	int r;

	r = read_ehdr(f, &h, err);
	if (r < 0)
		return r;
	r = settle_counts(f, &h);
	if (r < 0)
		return err_set(err, r, "read of section headers: %s", err_name(r));
	r = read_segments(f, &h, err);
	if (r < 0)
		return r;
	r = read_sections(f, &h);
	if (r < 0)
		return err_set(err, r, "read of section headers: %s", err_name(r));
	return 0;
}

static int img_new(int fd, const void *mem, uint64_t size, struct img_file **ret, struct err *err)
{
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	int r;

	f = calloc(1, sizeof(*f));
	if (!f)
		return err_set(err, -ENOMEM, "no memory for an ELF file");
	f->fd = fd;
	f->mem = mem;
	f->size = size;
	r = open_common(f, err);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(f);
	return 0;
}

int img_file_open(int fd, struct img_file **ret, struct err *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_set(err, -errno, "stat of an ELF file: %s", err_name(errno));
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, "not a regular file");
	return img_new(fd, NULL, st.st_size > 0 ? (uint64_t)st.st_size : 0, ret, err);
}

int img_file_open_mem(const void *p, size_t len, struct img_file **ret, struct err *err)
{
	return img_new(-EBADF, len > 0 ? p : "", len, ret, err);
}

struct img_file *img_file_free(struct img_file *f)
{
	if (!f)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(f->windows); i++)
		free(f->windows[i].buf);
	free(f->sections);
	free(f->sec_names);
	free(f->segs);
	free(f);
	return NULL;
}

void img_file_freep(struct img_file **f)
{
	*f = img_file_free(*f);
}

int img_file_fd(const struct img_file *f)
{
	return f->fd;
}

size_t img_segments(const struct img_file *f, const struct img_segment **ret)
{
	*ret = f->segs;
	return f->n_segs;
}

const struct img_segment *img_exec_segment(const struct img_file *f, uint64_t vaddr)
{
	for (size_t i = 0; i < f->n_segs; i++) {
		const struct img_segment *s = &f->segs[i];

		if (s->exec && vaddr >= s->vaddr && vaddr - s->vaddr < s->mem_size)
			return s;
	}
	return NULL;
}

int img_off_to_vaddr(const struct img_file *f, uint64_t off, uint64_t *ret)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	for (size_t i = 0; i < f->n_segs; i++) {
		const struct img_segment *s = &f->segs[i];

		if (s->exec && off >= s->off && off - s->off < s->file_size) {
			*ret = s->vaddr + (off - s->off);
			return 0;
		}
	}
	/* The kernel maps whole pages: code of a neighbour can run at the edges of a segment. */
	for (size_t i = 0; i < f->n_segs; i++) {
		const struct img_segment *s = &f->segs[i];
		uint64_t first = s->off - s->off % page;
		uint64_t end = s->off + s->file_size;

		if (!s->exec || s->file_size == 0 || end > UINT64_MAX - page)
			continue;
		end += (page - end % page) % page;
		if (off >= first && off < end) {
			*ret = s->vaddr + (off - s->off); /* modulo 2^64 below the start */
			return 0;
		}
	}
	return -ENOENT;
}

int img_vaddr_to_off(const struct img_file *f, uint64_t vaddr, uint64_t *ret)
{
	for (size_t i = 0; i < f->n_segs; i++) {
		const struct img_segment *s = &f->segs[i];

		if (s->exec && vaddr >= s->vaddr && vaddr - s->vaddr < s->file_size) {
			*ret = s->off + (vaddr - s->vaddr);
			return 0;
		}
	}
	return -ENOENT;
}

int img_read_vaddr(const struct img_file *f, uint64_t vaddr, void *buf, size_t len)
{
	for (size_t i = 0; i < f->n_segs; i++) {
		const struct img_segment *s = &f->segs[i];

		if (vaddr >= s->vaddr && vaddr - s->vaddr < s->file_size &&
		    s->file_size - (vaddr - s->vaddr) >= len)
			return img_read(f, s->off + (vaddr - s->vaddr), buf, len);
	}
	return -ENODATA;
}

uint16_t img_machine(const struct img_file *f)
{
	return f->machine;
}

uint16_t img_type(const struct img_file *f)
{
	return f->type;
}

uint64_t img_entry(const struct img_file *f)
{
	return f->entry;
}

bool img_is_64(const struct img_file *f)
{
	return f->is64;
}

uint64_t img_bad_items(const struct img_file *f)
{
	return f->bad;
}
