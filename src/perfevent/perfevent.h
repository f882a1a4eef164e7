/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perfevent - perf_event_open(2) sets and the records of its rings. No BPF here: who attaches a
 * program takes the descriptors (after a link is made the link owns the descriptor).
 */
#ifndef PA_PERFEVENT_H
#define PA_PERFEVENT_H

#include "event/event.h"

#define PEV_CPUS_MAX 4096

/* An event that samples. */
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
 * pev_spec_cpu_clock - cpu-clock with the period 1e9 / @rate_hz ns, see pev_cpu_period; @rate_hz >
 * 0
 */
struct pev_spec pev_spec_cpu_clock(uint32_t rate_hz);
/**
 * pev_cpu_period - period of a fixed-period clock on the @i-th CPU
 * @i: index in the list of CPUs
 * Each CPU gets a period of its own, within 2.5 % of s->period; the first gets s->period. With
 * equal periods the ticks of all CPUs come in lockstep: a tick stalls a client for some
 * microseconds, its server on another CPU runs out of work, and is idle when its own tick comes.
 * redis-server lost up to 75 % of its time that way. Different periods let every pair of CPUs pass
 * through all phases. A sample weighs the period of its CPU (sample_period), so totals stay
 * unbiased.
 * Returns: ns; s->period for other events, and below 10 us, the shortest period of the
 * kernel.
 */
uint64_t pev_cpu_period(const struct pev_spec *s, uint32_t i);

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
 * pev_open_cpus - one disabled event per CPU for every process, with the period of pev_cpu_period
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
 * Both go on after an error.
 * Returns: 0, the first errno.
 */
int pev_set_disable(struct pev_set *s);
int pev_set_close(struct pev_set *s);

/* ---- counters -------------------------------------------------------------------------------- */

#define PEV_COUNTERS_MAX         16
#define PEV_COUNTER_CPUS_MAX     8192 /* as PROC_CPUS_MAX */
#define PEV_COUNTER_NO_CORE_TYPE UINT32_MAX

/* An event that is counted. Events of PERF_TYPE_HARDWARE and PERF_TYPE_HW_CACHE are those of the
 * core type. */
struct pev_counter_spec {
	const char *name; /* borrowed until pev_counters_close */
	uint32_t type;    /* PERF_TYPE_*, or the number of a PMU */
	uint64_t config;  /* of hardware events: < 2^32 */
};
/* cycles, instructions, cache-references, cache-misses, branches, branch-misses */
#define PEV_HARDWARE_CNT 6
extern const struct pev_counter_spec pev_counters_hardware[PEV_HARDWARE_CNT];
/* page-faults, cpu-migrations, context-switches, cpu-clock: on every machine */
#define PEV_SOFTWARE_CNT 4
extern const struct pev_counter_spec pev_counters_software[PEV_SOFTWARE_CNT];

/* CPUs to count on, borrowed for pev_counters_open. */
struct pev_counter_cpus {
	const uint32_t *cpu; /* cpu[n], ascending, 1 to PEV_COUNTER_CPUS_MAX */
	/* core_type[n]: below n_types, or PEV_COUNTER_NO_CORE_TYPE: no hardware counter there */
	const uint32_t *core_type;
	uint32_t n;
	/* types[n_types], at least one. With several, hardware events name their PMU. */
	const struct pev_core_type {
		const char *name;   /* "cpu_atom", for messages; unused for the only one */
		uint32_t perf_type; /* of its PMU */
	} * types;
	uint32_t n_types;
};

/* A counter on the CPUs of one core type. */
struct pev_counter_state {
	int error;       /* open on none of them: why, negative errno; 0: open, or there are none */
	int some_error;  /* open on some of them: why it is not on the others (the first) */
	uint32_t opened; /* CPUs */
	uint32_t failed; /* CPUs where it could not be opened, without those that are offline */
	char *why;       /* message of error or some_error; NULL if there is none */
};
/* Events that count, one for each counter and CPU. */
struct pev_counters {
	uint32_t n_counters, n_types, n_cpus;
	uint32_t offline_cpus; /* of n_cpus: offline meanwhile, without any counter */
	uint32_t opened;       /* descriptors */
	uint32_t *cpu;         /* cpu[n_cpus] */
	int *fd;               /* [counter * n_cpus + index of CPU]; negative errno: not open */
	/* [counter * (n_types + 1) + core type]; the last of each is of CPUs without a type */
	struct pev_counter_state *state;
};
struct pev_count {
	uint64_t value;      /* events */
	uint64_t enabled_ns; /* time enabled */
	uint64_t running_ns; /* time on a hardware counter */
};

/**
 * pev_counters_open - open what can be opened, all disabled, for every process
 * @specs: specs[n_specs], 1 to PEV_COUNTERS_MAX
 * @ret:   for pev_counters_close; says what is not open and why
 * That a counter is missing, even all of them, is no failure of this call: see pev_counter_state.
 * When the limit of descriptors or the memory ends (EMFILE, ENFILE, ENOMEM) the counter that met it
 * is closed on all CPUs, with those after it, because a part of its sum would be a wrong sum; those
 * before it stay open.
 * Returns: 0, -EINVAL (an argument out of its range), -ENOMEM.
 * Cost: a system call for each counter and CPU.
 */
int pev_counters_open(const struct pev_counter_spec *specs, uint32_t n_specs,
                      const struct pev_counter_cpus *on, struct pev_counters *ret, struct err *err);
/**
 * pev_counters_state - whether a counter is open on the CPUs of a core type
 * @counter:   index in specs
 * @core_type: PEV_COUNTER_NO_CORE_TYPE for the CPUs without one
 * Borrowed until pev_counters_close.
 */
const struct pev_counter_state *pev_counters_state(const struct pev_counters *s, uint32_t counter,
                                                   uint32_t core_type);
/**
 * pev_counters_fd - descriptor of a counter on a CPU, borrowed until pev_counters_close
 * Returns: it, negative errno that opening it gave; -ESRCH (@cpu was not asked for).
 * Cost: O(log n_cpus).
 */
int pev_counters_fd(const struct pev_counters *s, uint32_t counter, uint32_t cpu);
/**
 * pev_counters_enable - begin to count; a failure disables those that were enabled
 * Returns: 0, errno of the ioctl.
 */
int pev_counters_enable(struct pev_counters *s, struct err *err);
/**
 * pev_counters_disable, pev_counters_close - end counting; close all, after which the set is empty
 * Both go on after an error.
 * Returns: 0, the first errno.
 */
int pev_counters_disable(struct pev_counters *s);
int pev_counters_close(struct pev_counters *s);
/**
 * pev_counters_read - read the count of a CPU since the counter was enabled
 * Returns: 0, what pev_counters_fd returns, -EIO (the event is in an error state), errno of read.
 */
int pev_counters_read(const struct pev_counters *s, uint32_t counter, uint32_t cpu,
                      struct pev_count *ret);

/* ---- side-band ------------------------------------------------------------------------------ */

/* Rings of MMAP2 (executable mappings), COMM, FORK and EXIT records of every process, and KSYMBOL
 * records (code that the kernel makes while it runs), one per CPU.
 * Thread: one (D). */
struct pev_sideband;

/* Record passed on; ev->map.path and ev->ksym.name are borrowed until the call-back returns. */
typedef void (*pev_record_fn)(void *arg, const struct ev_proc *ev);

struct pev_sideband_stats {
	uint64_t records;      /* handed on, without EV_PROC_LOST */
	uint64_t lost;         /* records that the kernel reports as lost */
	uint64_t malformed;    /* skipped; a ring whose framing is damaged is skipped to its end */
	uint64_t throttled;    /* THROTTLE and UNTHROTTLE records */
	uint32_t stopped_cpus; /* CPUs whose event stopped when they went offline; set with
	                        * @final */
	uint64_t watermark_ns; /* all records up to this time that were not lost were handed on */
	uint64_t early;        /* handed on before 1 ms had passed: the sorting buffer was full */
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
 * pev_sideband_stats - statistics up to now; borrowed until pev_sideband_free
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
 * @ret: filled when 1 is returned; map.path and ksym.name point into @rec, where " (deleted)" is
 * cut off the name, so that a record can be parsed once
 * Returns: 1 known record, 0 a type we do not use, -EINVAL malformed. No other effect; fuzzed.
 */
int pev_record_parse(void *rec, size_t len, struct ev_proc *ret);

#endif
