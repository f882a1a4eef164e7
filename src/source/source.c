/* SPDX-License-Identifier: Apache-2.0 */
#include "source/source.h"

/* Programs run in the order in which they are attached: those of scheduler statistics, which are
 * short, before the walks of off-CPU intervals, which are then no part of what they measure. */
const struct source *const src_all[SRC_CNT] = {&src_oncpu, &src_sched, &src_offcpu};
