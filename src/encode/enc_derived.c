/* SPDX-License-Identifier: Apache-2.0 */
/* enc_derived - derived values and decimal numbers, shared by both outputs of the metrics. */
#include <inttypes.h>
#include <stdio.h>

#include "encode/encode_priv.h"

#define DECIMAL_MAX 1e15 /* a thousand times that still fits 64 bits */

const struct enc_derived enc_derived_ratios[ENC_DERIVED_CNT] = {
        {"ipc", "IPC (Instr/Cycle)", MET_COUNTER_INSTRUCTIONS, MET_COUNTER_CYCLES, 1, ""},
        {"cache_misses_per_1000_instructions", "Cache Misses/1K Instr", MET_COUNTER_CACHE_MISSES,
         MET_COUNTER_INSTRUCTIONS, 1000, ""},
        {"branch_miss_pct", "Branch-miss rate", MET_COUNTER_BRANCH_MISSES, MET_COUNTER_BRANCHES,
         100, " %"},
};

const char *enc_thousandths(uint64_t v, char ret[static ENC_DECIMAL_MAX])
{
	(void)snprintf(ret, ENC_DECIMAL_MAX, "%" PRIu64 ".%03u", v / 1000,
	               (unsigned int)(v % 1000));
	return ret;
}

const char *enc_decimal(double v, char ret[static ENC_DECIMAL_MAX])
{
	return enc_thousandths((uint64_t)(MIN_OF(v, DECIMAL_MAX) * 1000 + 0.5), ret);
}
