/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CIEs and FDEs of .eh_frame and .debug_frame.
 * Source: DWARF 5 §6.4.1; LSB 5.0 "Exception Frames"; versions 1, 3 and 4 of CIEs.
 */
#include "unwind/uw_cfi_priv.h"

struct reader {
	struct img_file *f;
	const struct uw_area *a;
	struct uw_sink *sink;
	struct uw_build_stats *stats, own_stats;
	const struct img_segment *segs, *last_seg; /* last_seg held the function before, or NULL */
	size_t n_segs;
	struct cfi_cie cies[CFI_CIES];
	uint64_t cie_bytes; /* of instructions run for CIEs */
	struct cfi_machine m;
};

/* One entry of an area, up to its id. */
struct entry {
	struct cursor body; /* after the id */
	uint64_t cie;       /* of an FDE: offset of its CIE in the area */
	bool is_cie, is64;
	bool ended;   /* the terminator */
	bool damaged; /* too short to be either */
};

/* ---- entries --------------------------------------------------------------------------------- */

/* Reads the entry at *c and moves *c after it: 0, -ENODATA (it reaches past the end), -EINVAL. */
static int read_entry(const struct uw_area *a, struct cursor *c, struct entry *ret)
{
	uint64_t len, id = 0, id_off;
	uint32_t len32;
	int r;

	*ret = (struct entry){.body = {NULL, NULL}};
	r = cursor_u32(c, &len32);
	if (r < 0)
		return r;
	len = len32;
	if (len32 == DWARF3_LENGTH_64_BIT) {
		ret->is64 = true;
		r = cursor_u64(c, &len);
		if (r < 0)
			return r;
	} else if (len32 >= DWARF3_LENGTH_MIN_ESCAPE_CODE) {
		return -EINVAL;
	}
	if (len == 0) {
		ret->ended = true;
		return 0;
	}
	if (len > cursor_left(c))
		return -ENODATA;
	r = cursor_sub(c, (size_t)len, &ret->body);
	if (r < 0)
		return r;
	/* Damage from here on costs only this entry: *c is after it. */
	id_off = (uint64_t)(ret->body.p - a->p);
	if (a->debug_frame && ret->is64) {
		r = cursor_u64(&ret->body, &id);
		ret->is_cie = id == DW_CIE_ID_64;
		ret->cie = id;
	} else {
		r = cursor_u32(&ret->body, &len32);
		id = r < 0 ? 0 : len32;
		ret->is_cie = id == (a->debug_frame ? DW_CIE_ID_32 : 0);
		ret->cie = a->debug_frame ? id : id_off - id;
	}
	ret->damaged = r < 0;
	return 0;
}

/* ---- CIEs ------------------------------------------------------------------------------------ */

/* Reads the letters of an augmentation; the data of "z" is in *c. */
static int read_augmentation(struct reader *rd, struct cfi_cie *cie, const char *aug,
                             struct cursor *c)
{
	struct cursor data;
	uint8_t enc = 0;
	uint64_t v;
	int r = 0;

	if (strcmp(aug, "eh") == 0 || *aug == '\0')
		return 0;
	if (*aug != 'z')
		return -ENOTSUP; /* the start of the instructions is unknown */
	r = cursor_uleb(c, &v);
	if (r < 0)
		return r;
	if (v > cursor_left(c))
		return -ENODATA;
	r = cursor_sub(c, (size_t)v, &data);
	cie->sized = true;
	for (aug++; r == 0 && *aug; aug++) {
		switch (*aug) {
		case 'R':
			r = cursor_u8(&data, &cie->fde_enc);
			break;
		case 'L':
			r = cursor_u8(&data, &enc);
			break;
		case 'P':
			r = cursor_u8(&data, &enc);
			if (r == 0) /* only its length matters */
				r = cfi_pointer(NULL, rd->a, &data, enc, cie->addr_size, &v);
			break;
		case 'S':
			cie->signal = true;
			break;
		case 'B': /* arm64: which key signs return addresses */
		case 'G': /* arm64: stacks are tagged */
			break;
		default:
			/* Instructions do not depend on it; a later 'R' would. */
			return strchr(aug, 'R') ? -ENOTSUP : 0;
		}
	}
	return r;
}

static int read_cie_head(struct reader *rd, struct cfi_cie *cie, struct cursor *c)
{
	uint8_t version, seg_size, u8;
	const char *aug;
	uint64_t u;
	int r;

	if (cursor_u8(c, &version) < 0 || cursor_str(c, &aug) < 0)
		return -ENODATA;
	if (version != 1 && version != 3 && version != 4)
		return -ENOTSUP;
	if (strcmp(aug, "eh") == 0 && cursor_u64(c, &u) < 0) /* a pointer of old compilers */
		return -ENODATA;
	if (version == 4) {
		if (cursor_u8(c, &cie->addr_size) < 0 || cursor_u8(c, &seg_size) < 0)
			return -ENODATA;
		if ((cie->addr_size != 8 && cie->addr_size != 4) || seg_size != 0)
			return -ENOTSUP;
	}
	r = cursor_uleb(c, &cie->code_align);
	if (r == 0)
		r = cursor_sleb(c, &cie->data_align);
	if (r < 0)
		return r;
	if (version == 1) {
		r = cursor_u8(c, &u8);
		cie->ra_col = r < 0 ? 0 : u8;
	} else {
		r = cursor_uleb(c, &cie->ra_col);
	}
	return r < 0 ? r : read_augmentation(rd, cie, aug, c);
}

static void read_cie(struct reader *rd, struct cfi_cie *cie, uint64_t off)
{
	struct cursor c = cursor_of(rd->a->p, rd->a->len), body;
	struct entry e;
	bool cut;

	cie->off = off;
	cie->err = -EINVAL;
	cie->insn_err = 0;
	cie->fde_enc = DW_EH_PE_absptr;
	cie->addr_size = 8;
	cie->sized = cie->signal = false;
	cie->ra_col = 0;
	if (off >= rd->a->len || cursor_skip(&c, (size_t)off) < 0 ||
	    read_entry(rd->a, &c, &e) < 0 || e.ended || e.damaged || !e.is_cie)
		return;
	body = e.body;
	cut = cursor_left(&e.body) > CFI_CIE_MAX;
	if (cut && cursor_sub(&e.body, CFI_CIE_MAX, &body) < 0)
		return;
	cie->err = read_cie_head(rd, cie, &body);
	if (cie->err < 0)
		return;
	if (cut) {
		cie->insn_err = -E2BIG;
		return;
	}
	/* Bounds a hostile file, whose functions evict each other's CIEs from the cache. */
	rd->cie_bytes += cursor_left(&body);
	if (rd->cie_bytes > CFI_CIE_RERUNS * (uint64_t)rd->a->len + CFI_CIE_RERUN_BYTES) {
		cie->insn_err = -E2BIG;
		return;
	}
	rd->m.bad_bytes = 0;
	cie->insn_err = cfi_run_cie(&rd->m, cie, body);
	rd->stats->unsupported += rd->m.bad_bytes;
}

static const struct cfi_cie *get_cie(struct reader *rd, uint64_t off)
{
	struct cfi_cie *cie = &rd->cies[(off ^ (off >> 6)) / 4 & (CFI_CIES - 1)];

	if (cie->off != off)
		read_cie(rd, cie, off);
	return cie;
}

/* ---- FDEs ------------------------------------------------------------------------------------ */

/* Returns true if there is code at @start, and the bytes up to the end of its segment. */
static bool in_code(struct reader *rd, uint64_t start, uint64_t *ret_left)
{
	const struct img_segment *s = rd->last_seg;

	if (!s || start < s->vaddr || start - s->vaddr >= s->mem_size) {
		s = NULL;
		for (size_t i = 0; i < rd->n_segs && !s; i++)
			if (rd->segs[i].exec && start >= rd->segs[i].vaddr &&
			    start - rd->segs[i].vaddr < rd->segs[i].mem_size)
				s = &rd->segs[i];
	}
	if (!s)
		return false;
	rd->last_seg = s;
	*ret_left = s->mem_size - (start - s->vaddr);
	return true;
}

/* Gives a function whose rules cannot be read. */
static int give_bad(struct reader *rd, uint64_t start, uint64_t end)
{
	struct uw_sink *s = rd->sink;
	int r;

	rd->stats->bad_entries++;
	rd->stats->entries++;
	r = s->function(s->arg, start, end);
	return r < 0 ? r : s->row(s->arg, start, ABI_CODE_BAD);
}

static int give_rows(struct reader *rd, uint64_t start, uint64_t end)
{
	struct uw_sink *s = rd->sink;
	int r;

	rd->stats->entries++;
	if (rd->m.refused)
		rd->stats->bad_entries++;
	r = s->function(s->arg, start, end);
	vec_each (row, &rd->m.rows) {
		if (r < 0)
			break;
		r = s->row(s->arg, row->at, row->code);
	}
	return r;
}

/* Reads one FDE: 0, also if it is damaged, or the error that ends the reading. */
static int read_fde(struct reader *rd, struct entry *e)
{
	const struct cfi_cie *cie = get_cie(rd, e->cie);
	uint64_t start = 0, size = 0, left, aug;
	struct cursor c = e->body;
	int r = cie->err;

	if (r == 0)
		r = cfi_pointer(rd->f, rd->a, &c, cie->fde_enc, cie->addr_size, &start);
	if (r == 0)
		r = cfi_number(&c, cie->fde_enc, cie->addr_size, &size);
	if (r < 0) {
		rd->stats->bad_entries++;
		return 0;
	}
	/* An FDE of code that the linker dropped: its start is 0, or an addend to 0. */
	if (start == 0 || !in_code(rd, start, &left))
		return 0;
	if (size == 0)
		return 0;
	if (size > left) {
		rd->stats->bad_entries++;
		return 0;
	}
	r = cie->insn_err;
	if (r == 0 && cie->sized) {
		r = cursor_uleb(&c, &aug);
		if (r == 0)
			r = aug > cursor_left(&c) ? -ENODATA : cursor_skip(&c, (size_t)aug);
	}
	if (r == 0) {
		rd->m.bad_bytes = 0;
		r = cfi_run_fde(&rd->m, cie, c, start, start + size);
		rd->stats->unsupported += rd->m.bad_bytes;
	}
	if (r == -ENOMEM)
		return r;
	return r < 0 ? give_bad(rd, start, start + size) : give_rows(rd, start, start + size);
}

static int read_area(struct reader *rd)
{
	struct cursor c = cursor_of(rd->a->p, rd->a->len);
	struct entry e;
	int r = 0;

	while (r == 0 && cursor_left(&c) > 0) {
		/* Zeros at the end of a section, less than a length. */
		if (cursor_left(&c) < 4)
			break;
		if (read_entry(rd->a, &c, &e) < 0) {
			rd->stats->bad_entries++; /* and the next one cannot be found */
			break;
		}
		if (e.ended && rd->a->debug_frame)
			continue; /* padding */
		if (e.ended)
			break;
		if (e.damaged)
			rd->stats->bad_entries++;
		else if (!e.is_cie)
			r = read_fde(rd, &e);
	}
	return r;
}

int uw_cfi_read(struct img_file *f, const struct uw_area *a, struct uw_sink *sink)
{
	struct reader *rd = calloc(1, sizeof(*rd));
	int r;

	if (!rd)
		return -ENOMEM;
	rd->f = f;
	rd->a = a;
	rd->sink = sink;
	rd->stats = sink->stats ? sink->stats : &rd->own_stats;
	rd->n_segs = img_segments(f, &rd->segs);
	for (size_t i = 0; i < CFI_CIES; i++)
		rd->cies[i].off = UINT64_MAX;
	rd->m.f = f;
	rd->m.area = a;
	rd->m.sink = sink;
	r = read_area(rd);
	vec_done(&rd->m.rows);
	free(rd);
	return r;
}
