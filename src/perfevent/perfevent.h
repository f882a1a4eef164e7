/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perfevent - perf_event_open(2) sets and the records of its rings. No BPF here: who attaches a
 * program takes the descriptors (after a link is made the link owns the descriptor).
 */
#ifndef PA_PERFEVENT_H
#define PA_PERFEVENT_H

#include "event/event.h"

#define PEV_CPUS_MAX 4096

/* Which event samples. */
struct pev_spec {
	uint32_t type;   /* PERF_TYPE_* */
	uint64_t config; /* PERF_COUNT_* */
	uint64_t period; /* events between samples (ns for cpu-clock) when !freq, else Hz */
	bool freq;
};
/**
 * pev_spec_name - "software/cpu-clock", "hardware/cpu-cycles"; static
 * "hardware/other" and the like where we know no name.
 */
const char *pev_spec_name(const struct pev_spec *s);
/**
 * pev_spec_cpu_clock - cpu-clock with the fixed period 1e9 / @rate_hz ns; @rate_hz > 0
 */
struct pev_spec pev_spec_cpu_clock(uint32_t rate_hz);

/**
 * pev_probe_cycles - can this machine sample hardware cycles?
 * Opens (disabled, frequency mode, every process, CPU @cpu) and closes one event.
 * Returns: 1 with the spec in @ret and 0 in *ret_errno; 0 when there are none (EOPNOTSUPP, ENOENT,
 * ENODEV, EINVAL, EACCES) with the errno, positive, in *ret_errno and its reason in @err; any other
 * errno negative.
 * @ret_errno may be NULL.
 */
int pev_probe_cycles(uint32_t cpu, uint32_t rate_hz, struct pev_spec *ret, int *ret_errno,
                     struct err *err);

/* Events of one kind, one per CPU; all opened disabled. */
struct pev_set {
	uint32_t n;
	struct pev_one {
		int fd;
		uint32_t cpu;
	} * e;
	uint32_t skipped_cpus; /* offline meanwhile: ENODEV, ESRCH */
};

/**
 * pev_open_cpus - one disabled event per CPU for every process
 * @cpus: cpus[n], 1 to PEV_CPUS_MAX
 * @ret:  for pev_set_close
 * CPUs that answer ESRCH or ENODEV (offline) are skipped; any other failure closes all. The message
 * names the CPU, the errno, perf_event_paranoid and the missing capability.
 * Returns: 0, -EINVAL (@n), -ENODEV (none could be opened), -ENOMEM, errno of perf_event_open.
 */
int pev_open_cpus(const struct pev_spec *s, const uint32_t *cpus, uint32_t n, struct pev_set *ret,
                  struct err *err);
/**
 * pev_set_enable - begin to sample; a failure disables those that were enabled
 * Returns: 0, errno of the ioctl.
 */
int pev_set_enable(struct pev_set *s, struct err *err);
/**
 * pev_set_disable, pev_set_close - end sampling; close all, after which the set is empty
 * Both go on after an error. Returns: 0, the first errno.
 */
int pev_set_disable(struct pev_set *s);
/**
 * pev_set_read - sums over the set
 * @ret_count:      of the event's own count: ns for cpu-clock, else events
 * @ret_enabled_ns: of the time that each was enabled
 * Returns: 0, -EIO (an event is in an error state), errno of read.
 */
int pev_set_read(const struct pev_set *s, uint64_t *ret_count, uint64_t *ret_enabled_ns);
int pev_set_close(struct pev_set *s);

/* ---- side-band ------------------------------------------------------------------------------ */

/* Rings of MMAP2 (executable mappings), COMM, FORK and EXIT records of every process, one per CPU.
 * Thread: one (D). */
struct pev_sideband;

/* Record passed on; ev->map.path is borrowed until the call-back returns. */
typedef void (*pev_record_fn)(void *arg, const struct ev_proc *ev);

struct pev_sideband_stats {
	uint64_t records;   /* handed on, without EV_PROC_LOST */
	uint64_t lost;      /* records that the kernel could not write, as it tells */
	uint64_t malformed; /* skipped; a ring whose framing is damaged is skipped to its end */
	uint64_t throttled; /* THROTTLE and UNTHROTTLE records */
	uint64_t early; /* handed on before the 1 ms were over, because the sorting buffer was full
	                 */
};

/**
 * pev_sideband_open - open, map and enable a ring on each CPU; the events run from here on
 * @cpus:  cpus[n], 1 to PEV_CPUS_MAX; those that are offline are skipped
 * @pages: data pages of each ring, a power of two (halved on -EPERM from mlock limits, down to 1)
 * Returns: 0, -EINVAL (@n or @pages), -ENODEV (none could be opened), -ENOMEM, -EPERM (refused, or
 * over the mlock limits with one page), what else perf_event_open, mmap or the ioctl give.
 */
int pev_sideband_open(const uint32_t *cpus, uint32_t n, uint32_t pages, struct pev_sideband **ret,
                      struct err *err);
/**
 * pev_sideband_read - drain all rings and hand on the records in order of time
 * Records younger than 1 ms before the call's start wait for the next call, so that another CPU's
 * older record cannot come after them; @final hands on everything. Within one CPU and time the
 * order of the ring is kept. Records that the kernel lost come as EV_PROC_LOST at the time when it
 * said so; what it has not said yet comes with @final (Linux 6.0 and newer).
 * Returns: number handed on. Allocates: no, after warm-up (the sorting buffer grows, up to 16 MiB).
 */
int pev_sideband_read(struct pev_sideband *s, bool final, pev_record_fn fn, void *arg);
/* Readable when a ring passed its fill mark (16 KiB written, or a quarter of a smaller ring) since
 * the last pev_sideband_read, which reads all: less than that waits for the reader's own clock. The
 * descriptor is the object's. */
int pev_sideband_poll_fd(const struct pev_sideband *s);
/**
 * pev_sideband_stats - figures up to now; borrowed until pev_sideband_free
 */
const struct pev_sideband_stats *pev_sideband_stats(const struct pev_sideband *s);
/**
 * pev_sideband_free, pev_sideband_freep - unmap and close; NULL is accepted, free returns NULL
 */
struct pev_sideband *pev_sideband_free(struct pev_sideband *s);
void pev_sideband_freep(struct pev_sideband **s);

/**
 * pev_record_parse - one record of a ring whose events use sample_id_all with TID and TIME
 * @rec: the record with its header, @len bytes
 * @ret: filled when 1 is returned; map.path points into @rec, where " (deleted)" is cut off the
 * name, so that a record can be parsed once
 * Returns: 1 known record, 0 a type we do not use, -EINVAL malformed. No other effect; fuzzed.
 */
int pev_record_parse(void *rec, size_t len, struct ev_proc *ret);

#endif
