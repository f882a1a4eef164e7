/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the targets of readers of profiles: bytes as whatever they are taken for. */
#ifndef DECODE_ANY_H
#define DECODE_ANY_H

#include "decode/decode.h"

static inline void decode_any(const uint8_t *data, size_t size)
{
	const struct dec_options o = {.max_unpacked_bytes = 1 << 22, .no_names = true};
	struct dec_profile p = {0};
	struct err err = {0};
	int r = dec_profile(data, size, "input", &o, &p, &err);

	if (r < 0) {
		assert(err.code == r && err.msg[0]);
	} else {
		assert(p.n_models >= 1);
		for (uint32_t i = 0; i < p.n_models; i++)
			assert(p.models[i]->n_types >= 1);
	}
	dec_profile_done(&p);
}

#endif
