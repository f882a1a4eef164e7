/* SPDX-License-Identifier: Apache-2.0 */
/*
 * enc_perf_data - a stream of samples and process events as perf.data, the file of perf(1).
 * A pure function of its input; memory does not depend on the length of the stream. Thread: any.
 * Part of the module encode: others include encode/encode.h, which includes this.
 */
#ifndef PA_ENC_PERF_DATA_H
#define PA_ENC_PERF_DATA_H

#include "base/base.h"

/* An event of the capture: what a sample counts. */
struct enc_perf_event {
	const char *name;     /* as perf shows it: "cpu-clock", "cycles", "offcpu-time" */
	uint32_t type;        /* PERF_TYPE_* */
	uint64_t config;      /* PERF_COUNT_* of the type */
	uint64_t sample_freq; /* Hz; 0: sample_period is set */
	uint64_t sample_period;
	bool exclude_kernel, exclude_user;
};

/* A sample. The chain is kernel[], then user[], leaf first, return addresses as the stack has
 * them: perf subtracts what it wants to. Inlined frames are not in it. */
struct enc_perf_sample {
	uint32_t event;  /* index in events */
	uint32_t cpu;    /* a real one: perf 6.1 and 6.12 crash on others with -C */
	uint64_t period; /* of the event: ns of cpu-clock and of off-CPU time, else events */
	bool in_kernel;  /* without any address: it was in the kernel; else the leaf says it */
	uint32_t n_kernel, n_user;
	const uint64_t *kernel, *user;
};

/* A mapping. Its build-id is used if it has one (build_id_len > 0), else device and inode. */
struct enc_perf_map {
	bool kernel; /* of a module, with its path or "[ext4]"; only start, len and path count */
	uint64_t start, len, pgoff; /* bytes */
	uint32_t dev_major, dev_minor;
	uint64_t ino, ino_generation;
	uint32_t prot, flags; /* PROT_*, MAP_* */
	uint8_t build_id_len; /* at most 20; 0: none */
	uint8_t build_id[20];
	const char *path; /* of the file; "[vdso]", "//anon" and the like as the kernel has them */
};

enum enc_perf_type {
	ENC_PERF_SAMPLE = 1,
	ENC_PERF_COMM,
	ENC_PERF_MMAP, /* a mapping of a process */
	ENC_PERF_FORK, /* a thread or process begins */
	ENC_PERF_EXIT,
	ENC_PERF_LOST, /* process events that were lost up to this time */
	ENC_PERF_LOST_SAMPLES,
	ENC_PERF_KSYMBOL, /* code that the kernel makes while it runs comes or goes */
};

/* A record of the stream. What it points to is borrowed until the next call of next(). */
struct enc_perf_record {
	enum enc_perf_type type;
	uint32_t pid, tid; /* process, thread; of LOST, KSYMBOL and maps of the kernel: 0 */
	uint64_t time_ns;  /* CLOCK_MONOTONIC; 0: before everything, as perf's own first records */
	union {
		struct enc_perf_sample sample;
		struct enc_perf_comm {
			const char *name; /* loses what is over 15 bytes */
			bool exec;        /* the name change of an exec */
		} comm;
		struct enc_perf_map map;
		struct enc_perf_parent {
			uint32_t ppid, ptid;
		} parent;      /* FORK and EXIT */
		uint64_t lost; /* number */
		struct enc_perf_ksymbol {
			uint64_t start;
			uint32_t len;
			bool bpf, gone; /* as ev_ksymbol */
			const char *name;
		} ksymbol;
	};
};

/* A file with a build-id that samples are in: perf looks for its symbols by it. */
struct enc_perf_build_id {
	bool kernel;  /* "[kernel.kallsyms]", or a module: "[ext4]" */
	uint32_t pid; /* UINT32_MAX: of no process in particular */
	uint8_t len;  /* 1 to 20 */
	uint8_t id[20];
	const char *path;
};

/* Facts of the machine and the run. NULL or 0: not known, and not in the file. */
struct enc_perf_facts {
	const char *hostname, *os_release, *arch; /* uname: nodename, release, machine */
	const char *version;                      /* of the agent */
	const char *cpu_desc, *cpu_id;            /* "model name"; "GenuineIntel,6,85,7" */
	uint32_t cpus_online, cpus_avail;
	uint64_t total_mem_kib;
	const char *const *cmdline; /* cmdline[n_cmdline] */
	uint32_t n_cmdline;
	bool has_clock; /* the two times that follow are of one moment: wall clock of samples */
	uint64_t realtime_ns, monotonic_ns;
};

/* The kernel's own mapping. end 0: not known (addresses hidden), and not in the file. */
struct enc_perf_kernel {
	uint64_t start, end;  /* addresses of _text (or _stext) and of the end of its code */
	uint64_t ref;         /* address of the symbol ref_name, from which perf computes a shift */
	const char *ref_name; /* "_text", "_stext" */
};

struct enc_perf_data {
	const struct enc_perf_event *events; /* events[n_events], 1 to ENC_PERF_EVENTS_MAX */
	uint32_t n_events;
	const struct enc_perf_build_id *build_ids; /* build_ids[n_build_ids] */
	size_t n_build_ids;
	struct enc_perf_facts facts;
	struct enc_perf_kernel kernel;
	/* Samples and process events, both in ascending order of time (as a stable sort leaves them).
	 * Each is read twice: rewind(), next() until the end, rewind(), next() until the end. Both
	 * readings must give the same. Of equal times side[] comes first.
	 * next: returns 1 (*ret is filled), 0 at the end, negative errno, which ends the writing. */
	const struct enc_perf_record *side; /* side[n_side], without SAMPLE */
	size_t n_side;
	int (*next)(void *arg, struct enc_perf_record *ret); /* may give every type */
	void (*rewind)(void *arg);
	void *arg;
	int zstd_level; /* of compressed records, 1 to 22; 0: none, which more readers understand */
};
#define ENC_PERF_EVENTS_MAX 16
#define ENC_PERF_CHAIN_MAX  4096 /* addresses of a sample: a record is at most 64 KiB */

/* Gets the bytes in order, some 64 KiB at a time. Returns 0 or negative errno. */
typedef int (*enc_perf_write_fn)(void *arg, const void *data, size_t len);

/**
 * enc_perf_data - write a whole file
 * Equal input gives equal bytes. Names are untrusted: what utf8_is_control has and bytes that are not
 * UTF-8 become '?'. Paths keep all bytes, as those of perf record do: perf opens the files. What does not
 * fit is cut: names of threads at 15 bytes, others at 4095, chains at ENC_PERF_CHAIN_MAX.
 * Returns: 0; -EINVAL (an argument out of its range; not in order of time; the second reading was
 * not as the first; zstd_level); -ENOMEM; what next() or @write returned.
 * Cost: two passes over the stream. Allocates: 192 KiB.
 * Source: tools/perf/Documentation/perf.data-file-format.txt, linux/perf_event.h.
 */
int enc_perf_data(const struct enc_perf_data *d, enc_perf_write_fn write, void *arg,
                  struct err *err);

#endif
