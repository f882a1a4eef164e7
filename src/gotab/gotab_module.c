/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moduledata: the runtime's record of the linker's layout. It begins with a pointer to the table
 * and pointers into it, by which it is found without symbols. It has the start of the text, and the
 * address that offsets of trees count from.
 *
 * In position-independent files its pointers are relocated. Linkers then leave in the file the
 * values for load address 0, or zeros with relocations.
 */
#include "gotab/gotab_priv.h"

#define SEARCH_BYTES  (64ULL << 20) /* of data, and of relocations */
#define TRIES_MAX     256           /* pointers to the table that are checked */
#define CHUNK_BYTES   GOTAB_CODE_BYTES
#define DYNAMIC_BYTES 65536
#define PHDRS_BYTES   65536

/* Its words, from 1.18 on. GOFUNC: 1.20 added two words before it. */
#define WORD_TABLE      0
#define WORD_NAMES      1
#define WORD_CUTAB      4
#define WORD_FILETAB    7
#define WORD_PCTAB      10
#define WORD_FUNCS      13
#define WORD_FIRST      20
#define WORD_LAST       21
#define WORD_TEXT       22
#define WORD_GOFUNC_118 38
#define WORD_GOFUNC_120 40
#define WORDS           41

static bool in_segment(const struct gotab *t, uint64_t vaddr, bool exec)
{
	const struct img_segment *segs;
	const size_t n = img_segments(t->f, &segs);

	for (size_t i = 0; i < n; i++)
		if ((segs[i].exec || !exec) && vaddr >= segs[i].vaddr &&
		    vaddr - segs[i].vaddr < segs[i].file_size)
			return true;
	return false;
}

/* Checks whether this is moduledata, and reads it. */
static bool read_module(struct gotab *t, const uint64_t w[WORDS])
{
	const uint64_t gofunc = w[t->version >= GOTAB_120 ? WORD_GOFUNC_120 : WORD_GOFUNC_118];
	uint64_t first, last, unused;

	if (w[WORD_TABLE] != t->vaddr || w[WORD_NAMES] != t->vaddr + t->names ||
	    w[WORD_CUTAB] != t->vaddr + t->cutab || w[WORD_FILETAB] != t->vaddr + t->filetab ||
	    w[WORD_PCTAB] != t->vaddr + t->pctab || w[WORD_FUNCS] != t->vaddr + t->funcs)
		return false;
	if (gotab_entry(t, 0, &first, &unused) < 0 || gotab_entry(t, t->n, &last, &unused) < 0 ||
	    w[WORD_FIRST] != w[WORD_TEXT] + first || w[WORD_LAST] != w[WORD_TEXT] + last ||
	    !in_segment(t, w[WORD_TEXT], true))
		return false;
	t->text = w[WORD_TEXT];
	if (in_segment(t, gofunc, false))
		t->gofunc = gofunc;
	return true;
}

/* ---- in the file as it is -------------------------------------------------------------------- */

static bool module_at(struct gotab *t, uint64_t vaddr)
{
	uint64_t w[WORDS];

	return img_read_vaddr(t->f, vaddr, w, sizeof(w)) == 0 && read_module(t, w);
}

static bool search_segment(struct gotab *t, const struct img_segment *s, uint64_t size,
                           unsigned int *tries)
{
	t->code_len = 0;
	for (uint64_t at = 0; at < size; at += CHUNK_BYTES) {
		const size_t len = (size_t)MIN_OF(size - at, (uint64_t)CHUNK_BYTES);

		if (img_read_vaddr(t->f, s->vaddr + at, t->code, len) < 0)
			return false;
		for (size_t i = (size_t)((0 - s->vaddr) & 7); i + 8 <= len; i += 8) {
			uint64_t v;

			memcpy(&v, t->code + i, sizeof(v));
			if (v != t->vaddr)
				continue;
			if (*tries == 0)
				return false;
			(*tries)--;
			if (module_at(t, s->vaddr + at + i))
				return true;
		}
	}
	return false;
}

static bool search_data(struct gotab *t)
{
	const struct img_segment *segs;
	const size_t n = img_segments(t->f, &segs);
	uint64_t left = SEARCH_BYTES, size;
	unsigned int tries = TRIES_MAX;

	for (size_t i = 0; i < n && tries; i++) {
		if (!segs[i].write || segs[i].exec)
			continue;
		size = MIN_OF(segs[i].file_size, left);
		left -= size;
		if (search_segment(t, &segs[i], size, &tries))
			return true;
	}
	return false;
}

/* ---- in the relocations ---------------------------------------------------------------------- */

/* Finds DT_RELA: its address and size. */
static bool find_rela(struct gotab *t, uint64_t *ret_vaddr, uint64_t *ret_size)
{
	Elf64_Ehdr e;
	Elf64_Phdr p;
	Elf64_Dyn d;
	uint64_t vaddr = 0, size = 0;

	if (!gotab_read_off(t, 0, &e, sizeof(e)) || e.e_phentsize != sizeof(p))
		return false;
	for (uint64_t i = 0; i < MIN_OF((uint64_t)e.e_phnum, PHDRS_BYTES / sizeof(p)); i++) {
		if (e.e_phoff > UINT64_MAX - PHDRS_BYTES ||
		    !gotab_read_off(t, e.e_phoff + i * sizeof(p), &p, sizeof(p)))
			return false;
		if (p.p_type != PT_DYNAMIC)
			continue;
		for (uint64_t k = 0; k < MIN_OF(p.p_filesz, (uint64_t)DYNAMIC_BYTES);
		     k += sizeof(d)) {
			if (img_read_vaddr(t->f, p.p_vaddr + k, &d, sizeof(d)) < 0 ||
			    d.d_tag == DT_NULL)
				break;
			if (d.d_tag == DT_RELA)
				vaddr = d.d_un.d_ptr;
			else if (d.d_tag == DT_RELASZ)
				size = d.d_un.d_val;
		}
		break;
	}
	*ret_vaddr = vaddr;
	*ret_size = MIN_OF(size, (uint64_t)SEARCH_BYTES);
	return vaddr && size;
}

#define PLACES_MAX 4 /* pointers to the table: moduledata has one, and few other objects do */
struct relocated {
	uint64_t at[PLACES_MAX];
	uint64_t w[PLACES_MAX][WORDS];
	size_t n;
	uint32_t type; /* type of a relocation that adds the load address */
};

/* The first pass finds addresses, the second reads the words there. */
static void see_rela(const struct gotab *t, const Elf64_Rela *r, bool words, struct relocated *m)
{
	if (ELF64_R_TYPE(r->r_info) != m->type)
		return;
	if (!words) {
		if ((uint64_t)r->r_addend == t->vaddr && m->n < PLACES_MAX)
			m->at[m->n++] = r->r_offset;
		return;
	}
	for (size_t i = 0; i < m->n; i++) {
		const uint64_t off = r->r_offset - m->at[i];

		if (r->r_offset >= m->at[i] && off < sizeof(m->w[i]) && off % 8 == 0)
			m->w[i][off / 8] = (uint64_t)r->r_addend;
	}
}

static bool search_rela(struct gotab *t)
{
	struct relocated m = {.type = t->arm64 ? R_AARCH64_RELATIVE : R_X86_64_RELATIVE};
	const size_t chunk = CHUNK_BYTES / sizeof(Elf64_Rela) * sizeof(Elf64_Rela);
	uint64_t vaddr, size;

	if (!find_rela(t, &vaddr, &size))
		return false;
	t->code_len = 0;
	for (int words = 0; words < 2; words++) {
		for (uint64_t at = 0; at < size; at += chunk) {
			const size_t len = (size_t)MIN_OF(size - at, (uint64_t)chunk);
			struct cursor c = cursor_of(t->code, len);
			Elf64_Rela r;

			if (img_read_vaddr(t->f, vaddr + at, t->code, len) < 0)
				return false;
			while (cursor_bytes(&c, &r, sizeof(r)) == 0)
				see_rela(t, &r, words, &m);
		}
		if (m.n == 0)
			return false;
	}
	for (size_t i = 0; i < m.n; i++)
		if (read_module(t, m.w[i]))
			return true;
	return false;
}

bool gotab_module_find(struct gotab *t)
{
	if (t->vaddr == 0)
		return false;
	return search_data(t) || search_rela(t);
}
