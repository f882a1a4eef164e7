/* SPDX-License-Identifier: Apache-2.0 */
/*
 * encode - the bytes of one output format, from a finished model or snapshot; and where the bytes
 * go. Encoders are pure functions of it. Thread: any.
 */
#ifndef PA_ENCODE_H
#define PA_ENCODE_H

#include "metrics/metrics.h"
#include "perfagent/perfagent.h"
#include "profile/profile.h"

/**
 * enc_pprof, enc_pprof_raw - a model as pprof, with gzip and without
 * @out: appended to; after a failure its length is as it was and the error sticks in it
 * Equal models give equal bytes. Strings that are not UTF-8 have their wrong bytes as "\xNN".
 * Returns: 0, -ENOMEM, -E2BIG (the cap of @out, or 1 GiB before compression), or the error that
 * stood in @out already.
 * Source: github.com/google/pprof, profile.proto.
 */
int enc_pprof(const struct prof_model *m, struct sbuf *out);
int enc_pprof_raw(const struct prof_model *m, struct sbuf *out);

/**
 * enc_metrics_text, enc_metrics_json - scheduler statistics and counters for people, and for
 * programs
 * @s:   in the order of met_snapshot_sort
 * @out: appended to; after a failure its length is as it was and the error sticks in it
 * Equal snapshots give equal bytes, in every locale. Names come from others: in text their control
 * bytes and what is not UTF-8 are '?', in JSON wrong bytes are "\xNN" as in pprof.
 * Returns: 0, -ENOMEM, -E2BIG (the cap of @out), or the error that stood in @out already.
 * Source: docs/metrics.md, docs/metrics.schema.json.
 */
int enc_metrics_text(const struct met_snapshot *s, struct sbuf *out);
int enc_metrics_json(const struct met_snapshot *s, struct sbuf *out);

/* An output that was checked before the capture and is written once, at its end. */
struct enc_output;
/**
 * enc_output_open - check that the output can be written, before anything is captured
 * @t: exactly one of path, fd (borrowed until commit or free, may be non-blocking) and write is set
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
int enc_output_open(const struct pfa_output *t, struct enc_output **ret, struct err *err);
/**
 * enc_output_commit - write all, put the file in place; on failure remove the temporary file
 * @data: @len bytes
 * The object is used up, but must still be freed. Waits where a descriptor is non-blocking. Raises
 * no SIGPIPE and no SIGXFSZ: they are blocked in this thread meanwhile.
 * Returns: 0; -EINVAL (a second commit), -EPIPE (the reader has gone), -EFBIG, -ENOSPC, what else
 * write, close, link and rename give; or what the call-back returned.
 */
int enc_output_commit(struct enc_output *o, const void *data, size_t len, struct err *err);
/**
 * enc_output_free, enc_output_freep - close; without a commit nothing of the file stays
 * A descriptor of the caller's is left open. NULL is accepted; free returns NULL.
 */
struct enc_output *enc_output_free(struct enc_output *o);
void enc_output_freep(struct enc_output **o);

#endif
