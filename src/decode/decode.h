/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode - files of profiles to models: pprof, folded stacks, perf.data. Bytes are untrusted:
 * whatever they are, memory is bounded by the limits below, and an error says what is wrong and
 * where.
 *
 * Thread: any; a profile belongs to one thread at a time.
 */
#ifndef PA_DECODE_H
#define PA_DECODE_H

#include "profile/profile.h"

#define DEC_MODELS_MAX     32 /* events of one perf.data */
#define DEC_NOTES_MAX      64 /* further ones are counted in the last */
#define DEC_FILE_BYTES_MAX ((size_t)4 << 30)
/* after decompression; perf-agent writes at most 1 GiB */
#define DEC_UNPACKED_BYTES_MAX ((size_t)2 << 30)
/* of a gzip file, or DEC_RATIO_MAX times its size if that is more */
#define DEC_BOMB_BYTES_MAX ((size_t)64 << 20)
#define DEC_RATIO_MAX      128

enum dec_format {
	DEC_FORMAT_NONE = 0,
	DEC_FOLDED = 1,
	DEC_PPROF = 2,
	DEC_PERF_DATA = 3,
};

/* All zero: the defaults. */
struct dec_options {
	size_t max_file_bytes,
	        max_unpacked_bytes; /* 0: DEC_FILE_BYTES_MAX, DEC_UNPACKED_BYTES_MAX */
	/* For perf.data, which has addresses without names. */
	bool no_names;                 /* opens no other file */
	const char *const *debug_dirs; /* debug_dirs[n_debug_dirs]: with debug files */
	size_t n_debug_dirs;
	const char *kallsyms; /* NULL: that of /proc */
	/* Type of the numbers of folded stacks, which do not have it: "samples" (a count), "cpu" or
	 * "offcpu" (microseconds, as perf-agent writes them). NULL, others: not known. */
	const char *folded_type;
};

struct dec_profile {
	enum dec_format format;
	bool gzip; /* the file was compressed */
	/* models[n_models], at least 1: one of a pprof or of folded stacks */
	struct prof_model *models[DEC_MODELS_MAX];
	uint32_t n_models;
	/* notes[n_notes]: lines for people about what the file lacks or what was left out */
	char *notes[DEC_NOTES_MAX];
	uint32_t n_notes;
	uint64_t notes_dropped; /* over DEC_NOTES_MAX, or for want of memory */
};

/**
 * dec_profile - read a profile from memory; its format is recognized by its bytes
 * @data: data[len], not kept
 * @name: shown in messages: the path of the file
 * @o:    NULL: the defaults
 * @ret:  zeroed by the caller; for dec_profile_done, also after a failure
 * Models keep the order of the file: samples, functions and so on have the ids that they have there,
 * if it has no duplicates. Control bytes of names become '?'.
 * Folded stacks: frames that end in "_[k]" are in a mapping "[kernel]", "_[j]" in "[jit]"; "_[i]"
 * are inlined calls of the frame before. The sample type is value/count, or as o->folded_type says
 * samples/count, cpu/nanoseconds or offcpu/nanoseconds.
 * perf.data: a model for each event that has samples, with samples/count and the event's periods:
 * cpu/nanoseconds for cpu-clock and task-clock, offcpu/nanoseconds for offcpu-time, else its
 * name/count. Addresses get names as in a capture, by a symbolizer process, from files of this
 * machine that are still the same, by build-id or inode; kernel addresses if kernel and boot are
 * the same. Notes say what has none, and why. Samples have the labels pid, tid and comm.
 * Returns: 0; -EINVAL (no profile, damaged or truncated; the message has the line or the byte),
 * -E2BIG (over a limit of @o or of the model), -ENOMEM.
 */
int dec_profile(const void *data, size_t len, const char *name, const struct dec_options *o,
                struct dec_profile *ret, struct err *err);
/**
 * dec_file - read a file and decode it
 * @path: "-": standard input
 * Returns: as dec_profile; -EISDIR, -E2BIG (longer than max_file_bytes), errno of open and read.
 * Allocates: the whole file while it is decoded.
 */
int dec_file(const char *path, const struct dec_options *o, struct dec_profile *ret,
             struct err *err);
/**
 * dec_profile_done - free models and notes; a zeroed one is accepted
 */
void dec_profile_done(struct dec_profile *p);
/**
 * dec_format_name - "pprof", "perf.data", "folded stacks"
 */
const char *dec_format_name(enum dec_format f);

#endif
