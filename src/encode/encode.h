/* SPDX-License-Identifier: Apache-2.0 */
/*
 * encode - output formats of a finished model or snapshot, and their destinations. Encoders are
 * pure functions. Thread: any.
 */
#ifndef PA_ENCODE_H
#define PA_ENCODE_H

#include "encode/enc_perf_data.h"
#include "metrics/metrics.h"
#include "perfagent/perfagent.h"
#include "profile/profile.h"

/**
 * enc_put_name - write an untrusted name as text: control characters, direction controls
 * (utf8_is_control) and bytes that are not UTF-8 become '?'
 * Returns: its columns on a terminal.
 */
size_t enc_put_name(struct sbuf *b, const char *name, size_t len);
/**
 * enc_put_json_string - write an untrusted name as a string of JSON
 * Bytes that are not UTF-8 become "\\xNN". What utf8_is_control has is escaped, since the output may
 * go to a terminal.
 */
void enc_put_json_string(struct sbuf *b, const char *str, size_t len);

/**
 * enc_pprof, enc_pprof_raw - a model as pprof, with gzip and without
 * @out: appended to; after a failure its length is as it was and the error sticks in it
 * Equal models give equal bytes. Bytes of strings that are not UTF-8 become "\xNN".
 * Returns: 0, -ENOMEM, -E2BIG (the cap of @out, or 1 GiB before compression), or the error that
 * @out had already.
 * Source: github.com/google/pprof, profile.proto.
 */
int enc_pprof(const struct prof_model *m, struct sbuf *out);
int enc_pprof_raw(const struct prof_model *m, struct sbuf *out);

/* Items before the outermost frame. */
enum enc_folded_root {
	ENC_FOLDED_NO_ROOT = 0,
	ENC_FOLDED_PROCESS = 1, /* "comm-PID", comm of the main thread */
	ENC_FOLDED_THREAD = 2,  /* "comm-PID/TID" */
};

struct enc_folded_options {
	enum enc_folded_root root;
	uint32_t type_idx; /* which of the values, < n_types */
	int64_t divisor;   /* of the values: 1,000 for microseconds of nanoseconds; 0: 1 */
};
/**
 * enc_folded - a model as folded stacks: one line a stack, root first, and its value
 * @out: appended to; after a failure its length is as it was and the error sticks in it
 * Inlined calls are frames. Kernel frames end in "_[k]", code without a name is "FILE+0xOFFSET".
 * Semicolons of names become colons, control bytes and what is not UTF-8 '?'. Lines are in the
 * order of their bytes; equal stacks are one line. Values are rounded, and at least 1.
 * Returns: 0, -ENOMEM, -E2BIG (the cap of @out, or 1 GiB), or the error that @out has already.
 * Source: stackcollapse-perf.pl and flamegraph.pl of github.com/brendangregg/FlameGraph.
 */
int enc_folded(const struct prof_model *m, const struct enc_folded_options *o, struct sbuf *out);

/* One event of a time line: an on-CPU sample or an off-CPU interval. */
struct enc_time_sample {
	uint64_t start_ns;    /* since the begin of the capture */
	uint64_t duration_ns; /* of an interval; 0: an on-CPU sample */
	uint32_t sample;      /* index in the model's samples */
};

/* A profile of a page. */
struct enc_flame_profile {
	const struct prof_model *model;
	const struct enc_time_sample *times; /* times[n_times], in any order; none: no time line */
	size_t n_times;
	uint64_t times_lost; /* events of the profile that are not in times */
};

/**
 * enc_flame_html - profiles as a page that shows them as flame graphs, with a switch between them
 * @profiles: profiles[n], n at least 1; with times the page has a time line, too
 * @out:      appended to; after a failure its length is as it was and the error sticks in it
 * The page needs no network. Equal profiles give equal bytes. Names cannot end the data: it is in
 * base 85. Begins of events are rounded down to a fiftieth of a column of the time line, of which a
 * long capture has up to 120. On-CPU events of one sample are worth the same.
 * Returns: 0, -EINVAL (an event of a sample that the model does not have), -ENOMEM, -E2BIG (the cap
 * of @out, 1 GiB before compression, or 16 M nodes), or the error that was in @out already.
 * docs/formats.md has the layout.
 */
int enc_flame_html(const struct enc_flame_profile *profiles, size_t n, struct sbuf *out);
/* Two profiles that are compared. Their types must be the same. */
struct enc_flame_diff {
	const struct prof_model *before, *after;
	const char *before_name, *after_name; /* as the user knows them: names of files */
};

/**
 * enc_flame_diff_html - a page with the differential flame graph of two profiles
 * @out: as above
 * Values are per second of each capture, so that longer captures can be compared. Numbers of
 * samples are brought to the rate (the period) of the later profile. If a duration is 0 they are
 * shares of the total. A function is the same in both if its name is.
 * Returns: as enc_flame_html; -EINVAL (the types differ; @out is as it was).
 */
int enc_flame_diff_html(const struct enc_flame_diff *d, struct sbuf *out);
/**
 * enc_flame_diff_svg - the same as a picture, whose widths are those of the later profile
 * @type_idx: which of the values, < n_types
 * The picture says how much has vanished.
 */
int enc_flame_diff_svg(const struct enc_flame_diff *d, uint32_t type_idx, struct sbuf *out);
/**
 * enc_flame_svg - a model as a picture of its flame graph
 * @type_idx: which of the values is the width, < n_types
 * @out:      as above
 * Frames narrower than a quarter of a pixel are left out; the picture says how much ends in them.
 * Equal models give equal bytes, in every locale.
 * Returns: as enc_flame_html.
 */
int enc_flame_svg(const struct prof_model *m, uint32_t type_idx, struct sbuf *out);

/**
 * enc_metrics_text, enc_metrics_json - scheduler statistics and counters as text and as JSON
 * @s:   in the order of met_snapshot_sort
 * @out: appended to; after a failure its length is as it was and the error sticks in it
 * Equal snapshots give equal bytes, in every locale. Names are untrusted: control characters and
 * bytes that are not UTF-8 become '?' in text, "\xNN" in JSON.
 * Returns: 0, -ENOMEM, -E2BIG (the cap of @out), or the error that @out had already.
 * Source: docs/metrics.md, docs/metrics.schema.json.
 */
int enc_metrics_text(const struct met_snapshot *s, struct sbuf *out);
int enc_metrics_json(const struct met_snapshot *s, struct sbuf *out);

/* An output that was checked before the capture and is written once, at its end. */
struct enc_output;
/**
 * enc_output_open - check that the output can be written, before anything is captured
 * @t: exactly one of path, fd (borrowed until commit or free, may be non-blocking) and write is set
 * A path: its directory must exist and be writable. A temporary file is created in it (mode 0666 &
 * ~umask), without a name if the file system can, so that nothing remains if the process dies.
 * Commit links or renames it, so there is never a partial file. A new file gets the mode of the
 * file that it replaces, and its group and owner if that is permitted. Other hard links keep the
 * old content. A symbolic link stays; the file that it names is replaced. A path that exists and is
 * not a regular file (/dev/full, a FIFO, a terminal) is opened and written directly. Block devices
 * are refused.
 * Returns: 0; -EINVAL (not exactly one target, empty path, block device), -EISDIR, -ENOENT (the
 * directory, or what a link names), -ENOTDIR, -EACCES, -EROFS, -EPERM (another user's file in a
 * sticky directory), -ENXIO (a FIFO without reader, a socket), -EBADF (a descriptor that is not
 * open for writing), other errors of open; -ENOMEM.
 */
int enc_output_open(const struct pfa_output *t, struct enc_output **ret, struct err *err);
/**
 * enc_output_commit - write everything and rename the file; on failure remove the temporary file
 * @data: @len bytes
 * The object cannot be used again, but must be freed. Waits if a descriptor is non-blocking. Raises
 * no SIGPIPE and no SIGXFSZ: both are blocked in this thread meanwhile.
 * Returns: 0; -EINVAL (a second commit), -EPIPE (the reader has closed it), -EFBIG, -ENOSPC, other
 * errors of write, close, link and rename; or what the call-back returned.
 */
int enc_output_commit(struct enc_output *o, const void *data, size_t len, struct err *err);
/**
 * enc_output_append - write a part, before the commit writes the rest and renames the file
 * @data: @len bytes
 * After a failure, of which the commit gives the same code, nothing more is written. Else as
 * enc_output_commit. The call-back of an output gets each part; the commit calls it only with a
 * rest that is not empty.
 * Returns: 0; as enc_output_commit.
 */
int enc_output_append(struct enc_output *o, const void *data, size_t len, struct err *err);
/**
 * enc_output_free, enc_output_freep - close; without a commit no file remains
 * A descriptor of the caller stays open. NULL is accepted; free returns NULL.
 */
struct enc_output *enc_output_free(struct enc_output *o);
void enc_output_freep(struct enc_output **o);

#endif
