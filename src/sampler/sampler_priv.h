/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PA_SAMPLER_PRIV_H
#define PA_SAMPLER_PRIV_H

#include "sampler/sampler.h"

/* Returns a count without its off-CPU members. */
struct ev_count smp_count_of(const struct abi_count_key *k, const struct abi_count *v);
/* Returns the kernel side's counters of the last smp_walker_drain. */
const struct abi_counters *smp_walker_counters(const struct smp_walker *w);
/* Whether samples and intervals come one by one. */
bool smp_walker_streams(const struct smp_walker *w);
const struct load_sizes *smp_walker_sizes(const struct smp_walker *w);

#endif
