/* SPDX-License-Identifier: Apache-2.0 */
/*
 * encode - the bytes of one output format, from a finished model; and where the bytes go.
 * Encoders are pure functions of the model. Thread: any.
 */
#ifndef PA_ENCODE_H
#define PA_ENCODE_H

#include "profile/profile.h"

/* A gzipped pprof (github.com/google/pprof, profile.proto) appended to @out. 0, -ENOMEM, -E2BIG. */
int enc_pprof(const struct prof_model *m, struct sbuf *out);
/* The same without gzip. */
int enc_pprof_raw(const struct prof_model *m, struct sbuf *out);

/* Where an output goes. Exactly one of path, fd > 0 and write is set. */
typedef int (*enc_write_fn)(void *arg, const void *data, size_t len);
struct enc_target {
	const char *path;
	int fd;
	enc_write_fn write;
	void *arg;
};

/* An output that was checked before the capture and is written once, at its end. */
struct enc_output;
/**
 * enc_output_open - check that the output can be written, before anything is captured
 * A path: its directory must be there and writable; a temporary file is created beside it (mode 0666 & ~umask)
 * and renamed over it by commit, so there is never a partial file. A path that exists and is not a regular file
 * (/dev/full, a FIFO, a terminal) is opened and written directly.
 */
int enc_output_open(const struct enc_target *t, struct enc_output **ret, struct err *err);
/* Writes all, syncs names by rename; on failure removes the temporary file. The object is used up but must be freed. */
int enc_output_commit(struct enc_output *o, const void *data, size_t len, struct err *err);
/* Without commit: removes the temporary file. */
struct enc_output *enc_output_free(struct enc_output *o);
void enc_output_freep(struct enc_output **o);

#endif
