/* SPDX-License-Identifier: Apache-2.0 */
/* api_priv - shared by the files of the public interface. */
#ifndef PA_API_PRIV_H
#define PA_API_PRIV_H

#include "perfagent/perfagent.h"

#include "label/label.h"
#include "session/session.h"

struct pfa_session {
	struct ses *ses;
	bool stopping;             /* in pfa_stop: call-backs may read results only */
	struct api_metrics *shown; /* of the last capture; NULL: not built yet */
	struct {
		char *name; /* owned */
		int (*export_metrics)(void *arg, const struct pfa_metrics *m,
		                      struct pfa_error *err);
		void *arg;
	} exporters[PFA_EXPORTERS_MAX];
	uint32_t n_exporters;
};

/* Copies an error to the caller's struct, which may be NULL. Returns: @code. */
int api_give_error(struct pfa_error *to, const struct err *from, int code);
/* Copies a struct that begins with its size; members that the caller lacks are zero.
 * @least: bytes that every version has; @init: initializer that sets the size
 * Returns: 0; -EINVAL (the size is not set); -E2BIG (members that we lack are not zero). */
int api_take_struct(const void *in, size_t least, void *ret, size_t size, const char *what,
                    const char *init, struct err *err);
/* Calls all exporters. @r: the error of pfa_stop so far. Returns: the first failure. */
int api_export(struct pfa_session *s, int r, struct err *err);
/* Frees the public metrics of the last capture. */
void api_metrics_forget(struct pfa_session *s);
/* Frees the metrics and the exporters. */
void api_metrics_done(struct pfa_session *s);

#endif
