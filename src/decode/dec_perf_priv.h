/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Source: tools/perf/Documentation/perf.data-file-format.txt; perf_event_open(2);
 * include/uapi/linux/perf_event.h; tools/lib/perf/include/perf/event.h.
 */
#ifndef PA_DEC_PERF_PRIV_H
#define PA_DEC_PERF_PRIV_H

#include <linux/perf_event.h>

#include "decode/decode_priv.h"

#define DEC_PERF_FILES_MAX 4194304 /* and names of threads */
#define DEC_PERF_NAME_MAX  256     /* of an event, a thread; PATH_MAX of a file is 4096 */

/* Numbers of samples, and the sum of their periods. */
struct dec_perf_sum {
	int64_t samples, weight;
};

/* An event of the file. */
struct dec_perf_attr {
	uint32_t type;
	uint64_t config, sample_type, read_format, branch_type, regs_user;
	uint64_t period; /* 0: not fixed (perf record -F) */
	bool sample_id_all, exclude_callchain_user;
	struct dec_perf_sum sum;      /* of all its samples */
	char name[DEC_PERF_NAME_MAX]; /* "": not known */
	bool has_samples;
	uint32_t model; /* its number, if it has samples */
};

/* A record that must be read in the order of time. */
#define DEC_PERF_MISC_BUILD_ID_SIZE (1 << 15) /* perf's own: the size is after the build-id */
struct dec_perf_ref {
	uint64_t time;
	uint64_t at; /* byte of the file, or DEC_PERF_UNPACKED + byte of the decompressed records */
};
#define DEC_PERF_UNPACKED ((uint64_t)1 << 63)

/* Facts from the header; "" or 0: the file does not say. */
struct dec_perf_facts {
	char host[DEC_PERF_NAME_MAX], release[DEC_PERF_NAME_MAX], version[DEC_PERF_NAME_MAX];
	char command[1024];
	uint64_t wall_ns, clock_ns; /* one moment by two clocks */
	uint64_t first_ns, last_ns; /* of samples with a time */
	uint64_t kernel_ref;        /* address of the kernel's first symbol when it was recorded */
};

struct dec_perf_counts {
	uint64_t lost, throttled;
	uint64_t hardware_trace; /* records */
	uint64_t user_cut;       /* samples whose user stack is one frame */
	uint64_t no_maps;        /* forks whose mappings were not copied */
};

struct dec_perf_build_id {
	uint8_t len;
	uint8_t id[EV_BUILD_ID_MAX];
};

/* A mapped file. */
struct dec_perf_image {
	uint32_t path;                     /* in .texts */
	struct ev_file_id file;            /* ino is 0 if it is not known */
	struct dec_perf_build_id build_id; /* len is 0 if it is not known */
};
/* A part of an image where the first process that mapped it had it. */
struct dec_perf_range {
	uint64_t start, len, pgoff;
	uint32_t image; /* index */
};

/* A mapping of a process, in an imap. */
struct dec_perf_map {
	uint64_t start, end;
	uint64_t delta; /* file offset of an address less the address, modulo 2^64 */
	uint32_t range; /* index + 1; 0: memory without a file */
	uint32_t pad;
};

struct dec_perf_proc {
	struct imap maps;
	size_t copied; /* bytes of .maps when a fork copied them */
};

/* A frame: hashed as bytes. */
enum dec_perf_space {
	DEC_PERF_RAW = 0, /* absolute, in no known mapping */
	DEC_PERF_KERNEL = 1,
	DEC_PERF_ANON = 2, /* absolute, in memory without a file */
	DEC_PERF_FILE = 3, /* offset in the file of ranges[range] */
};
struct dec_perf_frame {
	uint64_t addr; /* for look-up: of a return address, the byte before it */
	uint32_t space, range;
};

/* The key of equal samples: hashed as bytes. */
struct dec_perf_key {
	uint32_t attr, pid, tid, comm, stack;
};

struct dec_perf {
	struct dec_input *in;
	bool pipe;
	VEC(struct dec_perf_attr) attrs;
	struct intern *ids;     /* uint64_t */
	VEC(uint32_t) id_attrs; /* by id of .ids */
	struct dec_perf_facts facts;
	struct sbuf unpacked; /* records that were compressed */
	void *zstd;           /* ZSTD_DStream */
	VEC(struct dec_perf_ref) refs;
	bool unordered; /* refs are not in the order of time */
	struct dec_perf_counts cnt;

	struct intern *texts; /* paths and names of threads; 0 is "" */
	struct intern *build_id_paths;
	VEC(struct dec_perf_build_id) build_ids; /* by id of build_id_paths */
	struct intern *image_keys;
	VEC(struct dec_perf_image) images;
	struct intern *range_keys;
	VEC(struct dec_perf_range) ranges;
	struct intern *pids;             /* uint32_t */
	VEC(struct dec_perf_proc) procs; /* by id of .pids */
	size_t maps_copied;              /* sum of .copied */
	struct intern *tids;             /* uint32_t */
	VEC(uint32_t) comms;             /* by id of .tids: text */

	struct intern *frames;         /* dec_perf_frame */
	VEC(uint32_t) frame_models;    /* by id of .frames: bit i: models[i] has it */
	struct intern *stacks;         /* ids of frames, leaf first */
	struct intern *keys;           /* dec_perf_key */
	VEC(struct dec_perf_sum) sums; /* by id of .keys */
	VEC(uint32_t) stack;           /* of one sample */
};

/* A sample, as far as it is used. */
struct dec_perf_sample {
	uint32_t attr;
	uint32_t pid, tid;
	uint64_t ip, time, period;
	uint64_t user_ip; /* 0: not known */
	uint16_t misc;
	bool has_time, has_stack;
	struct cursor chain; /* of u64 */
};

/* Reads header and features, and lists the records, in the order of time. Returns 0; an error, with
 * its message. */
int dec_perf_scan(struct dec_perf *p);

/* Describes out of memory, or the limit that was met, at a byte or DEC_NO_BYTE. Returns @code. */
int dec_perf_err(const struct dec_perf *p, int code, uint64_t at);

/* Add an event, one of its ids, a feature. @at: its byte. Return as dec_perf_scan. */
int dec_perf_add_attr(struct dec_perf *p, struct cursor attr, uint64_t at);
int dec_perf_add_id(struct dec_perf *p, uint64_t id, uint32_t attr);
int dec_perf_feature(struct dec_perf *p, uint32_t num, struct cursor c, uint64_t at);
/* Adds the build-id of a file. Returns 0, -ENODATA (truncated), -E2BIG, -ENOMEM. */
int dec_perf_add_build_id(struct dec_perf *p, struct cursor c, uint16_t misc);

/* Reads a sample, after its header. Returns 0, -ENODATA (truncated). */
int dec_perf_sample(const struct dec_perf *p, uint16_t misc, struct cursor c,
                    struct dec_perf_sample *ret);
/* Return the time of a record, after its header; 0: it has none. */
uint64_t dec_perf_sample_time(const struct dec_perf *p, struct cursor c);
/* Returns the event of a sample, by its index. */
uint32_t dec_perf_sample_attr(const struct dec_perf *p, struct cursor c);
uint64_t dec_perf_record_time(const struct dec_perf *p, struct cursor c);

/* Applies a record of a process, after its header. Returns 0; -ENODATA (truncated), -E2BIG, -ENOMEM. */
int dec_perf_apply(struct dec_perf *p, const struct perf_event_header *h, struct cursor c);
/* Finds the frame of a user address; @exact: no return address. */
struct dec_perf_frame dec_perf_user_frame(const struct dec_perf *p, uint32_t pid, uint64_t addr,
                                          bool exact);
/* Returns the name of a thread, in .texts. 0: not known. */
uint32_t dec_perf_comm(const struct dec_perf *p, uint32_t tid);
void dec_perf_proc_done(struct dec_perf *p);

/* Gives names to frames, and makes the models. Returns as dec_perf_scan. */
int dec_perf_models(struct dec_perf *p);

#endif
