/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PA_DEC_PERF_NAMES_H
#define PA_DEC_PERF_NAMES_H

#include "decode/dec_perf_priv.h"
#include "image/image.h"
#include "ksyms/ksyms.h"
#include "proc/proc.h"
#include "symbolize/symbolize.h"

/* Opens a recorded file, if it is still the same. Returns NAMED with *ret_fd, else why not. */
enum ev_reason dec_perf_image_open(const struct dec_perf *p, const struct dec_perf_image *image,
                                   int *ret_fd);
/* Names kernel addresses. *ret_why: why none has a name, NULL otherwise. Returns 0, -ENOMEM. */
int dec_perf_kernel_names(const struct dec_perf *p, const uint64_t *addrs, size_t n,
                          struct sym_batch *ret, const char **ret_why);
/* Returns the build-id of the recorded kernel, NULL: not known. */
const struct dec_perf_build_id *dec_perf_kernel_id(const struct dec_perf *p);

#endif
