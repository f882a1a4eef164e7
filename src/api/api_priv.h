/* SPDX-License-Identifier: Apache-2.0 */
/* api_priv - what the files of the public face share. */
#ifndef PA_API_PRIV_H
#define PA_API_PRIV_H

#include "perfagent/perfagent.h"

#include "label/label.h"
#include "session/session.h"

struct pfa_session {
	struct ses *ses;
	bool stopping;             /* in pfa_stop: call-backs may ask, and no more */
	struct api_metrics *shown; /* of the last capture; NULL: nobody asked yet */
	struct {
		char *name; /* owned */
		int (*export_metrics)(void *arg, const struct pfa_metrics *m,
		                      struct pfa_error *err);
		void *arg;
	} exporters[PFA_EXPORTERS_MAX];
	uint32_t n_exporters;
};

/* Hands an error on to the caller, who may not want it. Returns: @code. */
int api_give_error(struct pfa_error *to, const struct err *from, int code);
/* Takes what the caller knows of a struct that begins with its size; the rest is zero.
 * @least: bytes that every version has; @init: what sets the size
 * Returns: 0; -EINVAL (the size is not set); -E2BIG: it knows more than we do, and uses it. */
int api_take_struct(const void *in, size_t least, void *ret, size_t size, const char *what,
                    const char *init, struct err *err);
/* Calls all exporters. @r: what went wrong before. Returns: the first failure. */
int api_export(struct pfa_session *s, int r, struct err *err);
/* The view of the last capture is gone. */
void api_metrics_forget(struct pfa_session *s);
/* Frees what is registered. */
void api_metrics_done(struct pfa_session *s);

#endif
