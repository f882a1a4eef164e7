/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encoded numbers and pointers of call-frame information.
 * Source: LSB 5.0, "DWARF Exception Header Encoding".
 */
#include "unwind/uw_cfi_priv.h"

int cfi_number(struct cursor *c, uint8_t enc, uint8_t addr_size, uint64_t *ret)
{
	uint8_t u8[8] = {0};
	size_t n = addr_size;
	int64_t s = 0;
	int r;

	switch (enc & CFI_PE_FORMAT) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_signed:
		break;
	case DW_EH_PE_uleb128:
		return cursor_uleb(c, ret);
	case DW_EH_PE_sleb128:
		r = cursor_sleb(c, &s);
		if (r == 0)
			*ret = (uint64_t)s;
		return r;
	case DW_EH_PE_udata2:
	case DW_EH_PE_sdata2:
		n = 2;
		break;
	case DW_EH_PE_udata4:
	case DW_EH_PE_sdata4:
		n = 4;
		break;
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		n = 8;
		break;
	default:
		return -EINVAL;
	}
	r = cursor_bytes(c, u8, n);
	if (r < 0)
		return r;
	memcpy(ret, u8, sizeof(*ret)); /* little-endian hosts only */
	if ((enc & DW_EH_PE_signed) && n < 8 && (u8[n - 1] & 0x80))
		*ret |= UINT64_MAX << (8 * n);
	return 0;
}

int cfi_pointer(struct img_file *f, const struct uw_area *a, struct cursor *c, uint8_t enc,
                uint8_t addr_size, uint64_t *ret)
{
	uint64_t at = a->vaddr + (uint64_t)(c->p - a->p), v = 0;
	uint8_t target[8] = {0};
	int r;

	if (enc == DW_EH_PE_omit)
		return -EINVAL;
	if ((enc & CFI_PE_BASE) == DW_EH_PE_aligned) {
		r = cursor_skip(c, (size_t)((addr_size - at % addr_size) % addr_size));
		if (r < 0)
			return r;
		enc = DW_EH_PE_absptr;
	}
	r = cfi_number(c, enc, addr_size, &v);
	if (r < 0)
		return r;
	switch (enc & CFI_PE_BASE) {
	case DW_EH_PE_absptr:
	/* Text and data of a whole file have one base, its first address. */
	case DW_EH_PE_textrel:
	case DW_EH_PE_datarel:
		break;
	case DW_EH_PE_pcrel:
		v += at;
		break;
	default: /* relative to a function, where there is none */
		return -EINVAL;
	}
	if (addr_size == 4)
		v &= UINT32_MAX;
	if ((enc & DW_EH_PE_indirect) && f) {
		r = img_read_vaddr(f, v, target, addr_size);
		if (r < 0)
			return r;
		memcpy(&v, target, sizeof(v));
	}
	*ret = v;
	return 0;
}
