/* SPDX-License-Identifier: Apache-2.0 */
#include "encode/encode.h"
#include "source/source_priv.h"

/* Programs run in the order in which they are attached: those of scheduler statistics, which are
 * short, before the walks of off-CPU intervals, which are then no part of what they measure. */
const struct source *const src_all[SRC_CNT] = {&src_oncpu, &src_sched, &src_offcpu};

void src_product_done(struct src_product *p)
{
	result_done(&p->result);
	result_lines_done(&p->quality);
	p->metrics = met_snapshot_free(p->metrics);
	p->kind = (struct result_kind){0};
}

int src_encode_pprof(const struct src_product *p, const struct pfa_options *o, struct sbuf *b)
{
	(void)o;
	return enc_pprof(p->result.model, b);
}
