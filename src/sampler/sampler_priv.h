/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PA_SAMPLER_PRIV_H
#define PA_SAMPLER_PRIV_H

#include "sampler/sampler.h"

struct ev_count smp_count_of(const struct abi_count_key *k, const struct abi_count *v);
/* The kernel side's counters as the last smp_walker_drain read them. */
const struct abi_counters *smp_walker_counters(const struct smp_walker *w);
const struct load_sizes *smp_walker_sizes(const struct smp_walker *w);
int smp_walker_drain_threads(struct smp_walker *w, const struct smp_sink *sink); /* as _drain */

#endif
