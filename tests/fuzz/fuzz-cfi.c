/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call-frame information that is untrusted: functions lie in code, their rows are in order and in bounds,
 * and there are no more of them than bytes. The first byte chooses .debug_frame.
 */
#include "../unit/elf_builder.h"
#include "../unit/fake_rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct img_file *file;
	static struct sbuf file_bytes;
	struct recorder rec;
	struct uw_area a = {.vaddr = 0x500000};
	int r;

	if (!file) {
		const struct eb_opts o = {0};
		struct eb_map m;

		eb_build(&o, &file_bytes, &m);
		if (img_file_open_mem(file_bytes.p, file_bytes.len, &file, NULL) < 0)
			abort();
	}
	if (size < 1)
		return 0;
	a.debug_frame = data[0] & 1;
	a.p = data + 1;
	a.len = size - 1;
	rec_init(&rec);
	r = uw_cfi_read(file, &a, &rec.sink);
	assert(r == 0 || r == -E2BIG); /* the fake tables are bounded, too */
	/* A CIE's expressions may be read for each of its functions. */
	assert(rec.rows.n <= size && rec.funcs.n <= size);
	assert(rec.stats.entries == rec.funcs.n);
	vec_each (f, &rec.funcs) {
		assert(f->start >= EB_TEXT_VADDR && f->n > 0);
		assert(f->end <= EB_TEXT_VADDR + EB_TEXT_SIZE);
	}
	vec_each (row, &rec.rows) {
		const struct uw_rule *rule = rec_rule(&rec, row->code);

		if (!rule)
			continue;
		assert(rule->kind == ABI_RULE_FRAME && rule->cfa_kind <= ABI_CFA_PLT);
		assert(rule->cfa_reg < ABI_REGS);
		for (size_t i = 0; i <= ABI_REGS; i++) {
			const struct uw_col *c = &rule->col[i];

			assert(c->kind <= ABI_COL_EXPR);
			if (c->kind == ABI_COL_REG)
				assert(c->val >= 0 && c->val < ABI_REGS);
			if (c->kind == ABI_COL_AT_EXPR || c->kind == ABI_COL_EXPR)
				assert((size_t)c->val < rec.rules.ops.n);
		}
	}
	rec_done(&rec);
	return 0;
}
