/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PA_SAMPLER_PRIV_H
#define PA_SAMPLER_PRIV_H

#include "sampler/sampler.h"

struct ev_count smp_count_of(const struct abi_count_key *k, const struct abi_count *v);
/* The table of thread names, which the off-CPU programs fill too. */
uint32_t smp_thread_entries(const struct smp *s);
int smp_take_threads(struct smp *s, const struct smp_sink *sink); /* as smp_take */

#endif
