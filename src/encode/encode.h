/* SPDX-License-Identifier: Apache-2.0 */
/*
 * encode - the bytes of one output format, from a finished model; and where the bytes go.
 * Encoders are pure functions of the model. Thread: any.
 */
#ifndef PA_ENCODE_H
#define PA_ENCODE_H

#include "profile/profile.h"

/* A gzipped pprof (github.com/google/pprof, profile.proto) appended to @out. 0, -ENOMEM, -E2BIG
 * (the cap of @out, or 1 GiB before compression); a failure also sticks in @out. Equal models give
 * equal bytes. Strings that are not UTF-8 have their wrong bytes as "\xNN". */
int enc_pprof(const struct prof_model *m, struct sbuf *out);
/* The same without gzip. */
int enc_pprof_raw(const struct prof_model *m, struct sbuf *out);

/* Where an output goes. Exactly one of path, fd > 0 and write is set. */
typedef int (*enc_write_fn)(void *arg, const void *data, size_t len);
struct enc_target {
	const char *path;
	int fd; /* open for writing, borrowed until commit or free; may be non-blocking */
	enc_write_fn write; /* called once, by commit; 0 or negative errno */
	void *arg;
};

/* An output that was checked before the capture and is written once, at its end. */
struct enc_output;
/**
 * enc_output_open - check that the output can be written, before anything is captured
 * A path: its directory must be there and writable; a temporary file is created in it (mode 0666 &
 * ~umask), without a name where the file system can, so that nothing stays when the process dies.
 * Commit puts it in place by link or rename, so there is never a partial file. A file that is
 * replaced hands its mode on, its group and owner where that is permitted; its other hard links
 * keep the old content. A symbolic link
 * stays, the file that it names is replaced. A path that exists and is not a regular file
 * (/dev/full, a FIFO, a terminal) is opened and written directly; block devices are refused.
 * Returns: 0; -EINVAL (not exactly one target, empty path, block device), -EISDIR, -ENOENT (the
 * directory, or what a link names), -ENOTDIR, -EACCES, -EROFS, -EPERM (another user's file in a
 * sticky directory), -ENXIO (a FIFO without reader, a socket), -EBADF (a descriptor that is not
 * open for writing), what else open gives; -ENOMEM.
 */
int enc_output_open(const struct enc_target *t, struct enc_output **ret, struct err *err);
/* Writes all, puts the file in place; on failure removes the temporary file. The object
 * is used up (a second commit is -EINVAL) but must be freed. Raises no SIGPIPE and no SIGXFSZ:
 * -EPIPE, -EFBIG. -ENOSPC, what else write, close and rename give; what the call-back returned. */
int enc_output_commit(struct enc_output *o, const void *data, size_t len, struct err *err);
/* Without commit: removes the temporary file. */
struct enc_output *enc_output_free(struct enc_output *o);
void enc_output_freep(struct enc_output **o);

#endif
