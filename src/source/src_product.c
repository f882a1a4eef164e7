/* SPDX-License-Identifier: Apache-2.0 */
/* The results of a source, and the bytes of a profile. */
#include "encode/encode.h"
#include "source/source_priv.h"

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
