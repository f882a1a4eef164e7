/* SPDX-License-Identifier: Apache-2.0 */
#include "source/source.h"

/* The table of modes. Programs run in the order in which they are attached. The short ones of
 * scheduler statistics come before the off-CPU walks, so that they do not measure these. */
const struct source *const src_all[SRC_CNT] = {
        [SRC_ONCPU] = &src_oncpu,
        [SRC_SCHED] = &src_sched,
        [SRC_OFFCPU] = &src_offcpu,
};
