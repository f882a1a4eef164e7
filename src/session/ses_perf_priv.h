/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the output perf.data. Thread: control. */
#ifndef PA_SES_PERF_PRIV_H
#define PA_SES_PERF_PRIV_H

#include <sys/utsname.h>

#include "session/session_priv.h"

#define SES_PERF_ARGS_MAX 256

/* The machine, and the records that are no samples. */
struct ses_perf_facts {
	struct arena strings;
	struct utsname names;
	const char *args[SES_PERF_ARGS_MAX];
	struct enc_perf_facts facts;
	struct enc_perf_kernel kernel;
	VEC(struct enc_perf_record) side; /* modules first, with time 0 */
};
/* Fills a zeroed @f whose arena and vector are set. What cannot be read is left out. Returns 0,
 * -ENOMEM, -E2BIG. */
int ses_perf_facts_read(const struct ses *s, struct ses_perf_facts *f);

/* The samples of a capture as records, each after the names and mappings that it needs. */
struct ses_perf_records;
/* @event: by whether it is an off-CPU interval: index of its event; UINT32_MAX: leave these out.
 * Returns 0, -ENOMEM. */
int ses_perf_records_new(struct ses *s, const uint32_t event[2], struct ses_perf_records **ret);
struct ses_perf_records *ses_perf_records_free(struct ses_perf_records *p);
/* As struct enc_perf_data has them; @arg: struct ses_perf_records. */
int ses_perf_records_next(void *arg, struct enc_perf_record *ret);
void ses_perf_records_rewind(void *arg);

#endif
