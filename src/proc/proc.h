/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proc - facts about live processes and this kernel, read from /proc and /sys.
 * Numbers are those of our pid namespace. Thread: any. No state.
 */
#ifndef PA_PROC_H
#define PA_PROC_H

#include "event/event.h"

/* Levels of pid namespaces that the kernel allows (MAX_PID_NS_LEVEL 32, and the first one). */
#define PROC_NSPID_MAX 33

/* ---- one process ---------------------------------------------------------------------------- */

struct proc_status {
	uint32_t tgid; /* thread group; != the number asked for when that is a thread */
	uint32_t ppid;
	uint32_t uid, euid;             /* real, effective */
	uint32_t nspid_cnt;             /* numbers in nspid[]: 1 = our namespace only */
	uint32_t nspid[PROC_NSPID_MAX]; /* NSpid: ours first, the innermost last */
	bool zombie;                    /* it has ended; of a process, its first thread has */
	bool asleep;                    /* state S or D */
	bool kthread;                   /* Kthread: 1 (or, on kernels without it, no memory map) */
	char name[64];                  /* comm, escapes undone, kthreads' longer names kept */
};
/**
 * proc_status_read - /proc/PID/status of a process or thread
 * Returns: 0, -ESRCH (no such task, or it is hidden from us), -EINVAL (unexpected contents),
 * -E2BIG (over 1 MiB), -ENOMEM, errno of open or read.
 */
int proc_status_read(uint32_t pid, struct proc_status *ret, struct err *err);
/**
 * proc_status_parse - its parser, for tests and fuzzing
 * Returns: 0, -EINVAL (a damaged number, or no Name, Tgid, Pid, PPid or Uid).
 */
int proc_status_parse(const char *text, size_t len, struct proc_status *ret);

/**
 * proc_start_ns - start of a process on CLOCK_BOOTTIME in ns
 * With the resolution of a clock tick (10 ms), rounded down; in a time namespace both this and the
 * clock are shifted against what BPF programs see.
 * Returns: 0, -ESRCH (no such task), -EINVAL (unexpected contents), errno.
 */
int proc_start_ns(uint32_t pid, uint64_t *ret);
/**
 * proc_thread_cpu_ns - CPU time of a thread in ns from schedstat: the workload's own clock
 * Returns: as proc_start_ns; -ESRCH also on a kernel without schedstat.
 */
int proc_thread_cpu_ns(uint32_t pid, uint32_t tid, uint64_t *ret);
/**
 * proc_comm - name of a thread (@tid = @pid for the process), without its newline
 * Returns: as proc_start_ns.
 */
int proc_comm(uint32_t pid, uint32_t tid, char ret[64]);
/**
 * proc_exe - target of /proc/PID/exe, without the kernel's " (deleted)"
 * @b: appended to
 * Returns: 0, -ESRCH (no such process), -ENOENT (a kernel thread), -ENAMETOOLONG, -E2BIG and
 * -ENOMEM of @b, errno of readlink.
 */
int proc_exe(uint32_t pid, struct sbuf *b);

/* A mapping; @m->path is borrowed until it returns. Non-zero stops and is handed on. */
typedef int (*proc_map_fn)(void *arg, const struct ev_mapping *m);
/**
 * proc_maps_read - the executable mappings of a process, in order of address
 * @ret_bad: lines that could not be parsed (counted, skipped); may be NULL
 * Returns: 0, -ESRCH, -EACCES or -EPERM (needs CAP_SYS_PTRACE), -ENOMEM, errno of open or read, or
 * what @fn returned.
 * Cost: one pass over /proc/PID/maps; 82 KiB of memory. A process without memory (kernel thread,
 * zombie) has no mappings: 0.
 */
int proc_maps_read(uint32_t pid, proc_map_fn fn, void *arg, uint64_t *ret_bad, struct err *err);
/**
 * proc_maps_parse_line - one line of /proc/PID/maps
 * @line: without its newline, @len bytes; executable mapping or not
 * @path_buf: receives the path, " (deleted)" removed and \012 turned back into a newline: it is the
 * only escape that the kernel writes there (it does not escape a backslash, so a name that has \012
 * in it cannot be distinguished from one with a newline; whoever opens it compares the inode)
 * @m: filled on success; path points into @path_buf
 * Returns: 0, -EINVAL (junk, or the path is longer than @path_size).
 */
int proc_maps_parse_line(const char *line, size_t len, char *path_buf, size_t path_size,
                         struct ev_mapping *m);
/**
 * proc_open_mapped - open the very file that a mapping shows
 * Tries /proc/PID/map_files/START-END (needs CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN), then
 * /proc/PID/root/PATH, and compares device and inode; the inode alone where file systems without a
 * block device of their own (btrfs, overlayfs) report another device to stat than to maps. What is
 * no regular file is looked at, but never opened. O_RDONLY|O_CLOEXEC|O_NONBLOCK.
 * Returns: descriptor >= 0, -ESTALE (another file is there now), -EACCES/-EPERM, -ENOENT, -EINVAL
 * (@m is no file mapping, or it is not a regular file), -E2BIG (path over 8 KiB), -EMFILE, -ENFILE,
 * -ENOMEM, what else open or stat give.
 */
int proc_open_mapped(uint32_t pid, const struct ev_mapping *m, struct err *err);
/* The same by a path under our own root, for a process that has gone: the device must be equal, but
 * on btrfs and overlayfs. */
int proc_open_path(const char *path, const struct ev_file_id *file);
/* Any regular file that is not empty: those of /proc, some of which lose what is read, are.
 * Returns: descriptor >= 0, -EINVAL (no such file), errno of open or stat. */
int proc_open_regular(const char *path);

/* One process or thread. Non-zero stops and is handed on. */
typedef int (*proc_pid_fn)(void *arg, uint32_t pid);
/**
 * proc_each, proc_each_thread - call @fn for every process, or every thread of one, in any order
 * Returns: 0, what @fn returned, errno of opening or reading the directory; proc_each_thread also
 * -ESRCH (no such process, or it went meanwhile).
 */
int proc_each(proc_pid_fn fn, void *arg, struct err *err);
int proc_each_thread(uint32_t pid, proc_pid_fn fn, void *arg);

/* ---- cgroups --------------------------------------------------------------------------------- */

/**
 * proc_cgroup2_mount - find the mount point of the first cgroup2 file system of /proc/self/mounts
 * @b: the path is appended, its escapes undone
 * Returns: 0, -ENOENT (it is not mounted), -E2BIG, -ENOMEM, errno of open or read.
 */
int proc_cgroup2_mount(struct sbuf *b);
/**
 * proc_cgroup2_mount_parse - its parser, for tests
 * Returns: 0, -ENOENT, -E2BIG or -ENOMEM of @b.
 */
int proc_cgroup2_mount_parse(const char *text, size_t len, struct sbuf *b);
/**
 * proc_cgroup_open - the folder of a cgroup v2
 * @path: absolute, or below the mount of cgroup2
 * Returns: descriptor >= 0; -ENOENT, -ENOTDIR (a file), -EINVAL (of cgroup v1, or no cgroup), errno
 * of open, -E2BIG, -ENOMEM. @err says where cgroups are.
 */
int proc_cgroup_open(const char *path, struct err *err);
/**
 * proc_cgroup_path - the cgroup v2 of a process, below the root of its hierarchy that we see:
 * "/a/b"
 * @b: appended to
 * Returns: 0, -ESRCH (no such process), -ENOENT (it has none, or the name is not well-formed),
 * -E2BIG, -ENOMEM, errno of open or read.
 */
int proc_cgroup_path(uint32_t pid, struct sbuf *b);
/**
 * proc_cgroup_path_parse - its parser, for tests: /proc/PID/cgroup
 * Returns: 0, -ENOENT, -E2BIG or -ENOMEM of @b.
 */
int proc_cgroup_path_parse(const char *text, size_t len, struct sbuf *b);

/* ---- CPUs and their core types --------------------------------------------------------------- */

#define PROC_CPUS_MAX       8192 /* NR_CPUS of the largest kernels of distributions */
#define PROC_CORE_TYPES_MAX 4    /* as ABI_CORE_TYPES_MAX */
#define PROC_CORE_TYPE_NONE UINT32_MAX
#define PROC_PMU_NAME_SIZE  64
#define PROC_PMU_TYPE_NONE  UINT32_MAX

/* CPUs whose hardware counters are alike. */
struct proc_core_type {
	char name[PROC_PMU_NAME_SIZE]; /* of their PMU: "cpu", "cpu_atom", "armv8_cortex_a53"; "":
	                                * there is none */
	uint32_t perf_type;            /* of its own events; PROC_PMU_TYPE_NONE: there is none */
	uint32_t online_cnt;           /* > 0 */
	uint64_t set[PROC_CPUS_MAX / 64]; /* bit n % 64 of set[n / 64]: CPU n; offline ones too,
	                                   * where the kernel tells */
};
struct proc_cpus {
	uint32_t n; /* online: cpu[n], ascending, core_type[n] in the same order */
	uint32_t *cpu;
	uint32_t *core_type;  /* index in types[], or PROC_CORE_TYPE_NONE */
	uint32_t offline_cnt; /* present and not online */
	uint32_t untyped_cnt; /* online with PROC_CORE_TYPE_NONE */
	uint32_t n_types;     /* > 0 */
	struct proc_core_type types[PROC_CORE_TYPES_MAX]; /* by their lowest CPU */
	VEC(char *) notes; /* a line each: what was ignored and why */
};
/**
 * proc_cpus_read - the machine's CPUs and their core types
 * @sysfs: mount point of sysfs: "/sys", for tests a tree that looks like it
 * A core type is a PMU with a list "cpus" (and no "cpumask", which those outside of cores have),
 * or "cpu", which has none and is that of all other CPUs. Where no PMU can be found all CPUs are of
 * one type without name: opening a counter tells then what there is. Contents that make no sense,
 * a CPU in two types and what is more than PROC_CORE_TYPES_MAX are left out, with a note.
 * Returns: 0, -EINVAL (no list of online CPUs), -E2BIG (a CPU from PROC_CPUS_MAX on), -ENOMEM,
 * errno of open or read.
 * Cost: three files, and one or two for each PMU of the machine.
 */
int proc_cpus_read(const char *sysfs, struct proc_cpus **ret, struct err *err);
/**
 * proc_cpus_free, proc_cpus_freep - NULL is accepted, free returns NULL
 */
struct proc_cpus *proc_cpus_free(struct proc_cpus *c);
void proc_cpus_freep(struct proc_cpus **c);

/* ---- this kernel, this process -------------------------------------------------------------- */

/**
 * proc_online_cpus - numbers of the CPUs that are online, ascending
 * @cpus: cpus[max]
 * Returns: how many (> 0), -E2BIG (more than @max), -EINVAL (junk or none), -ENOMEM, errno.
 */
int proc_online_cpus(uint32_t *cpus, uint32_t max, struct err *err);
/**
 * proc_cpu_list_parse - "0-3,8\n" to numbers
 * @cpus: cpus[max], written also on failure
 * Returns: how many, 0 for "", -EINVAL (junk, not ascending), -E2BIG (more than @max).
 */
int proc_cpu_list_parse(const char *s, uint32_t *cpus, uint32_t max);
/**
 * proc_sysctl - /proc/sys/<name> as a number: proc_sysctl("kernel/perf_event_paranoid", &v)
 * Returns: 0, -EINVAL (no number), -ERANGE, -E2BIG (over 256 bytes), -ENOMEM, errno.
 */
int proc_sysctl(const char *name, int64_t *ret);
/**
 * proc_idle_ns - how long CPUs were idle or waited for I/O since boot, in ns
 * @cpus: cpus[n], ascending
 * From /proc/stat, with the resolution of a clock tick (10 ms).
 * Returns: 0, -ENODATA (a CPU is missing there), -EINVAL (unexpected contents), -E2BIG (over
 * 4 MiB), -ENOMEM, errno.
 */
int proc_idle_ns(const uint32_t *cpus, uint32_t n, uint64_t *ret);
/**
 * proc_idle_parse - its parser, for tests: the sum in clock ticks
 * Returns: 0, -ENODATA, -EINVAL.
 */
int proc_idle_parse(const char *text, size_t len, const uint32_t *cpus, uint32_t n,
                    uint64_t *ret_ticks);
/**
 * proc_self_pidns - device and inode of our pid namespace
 * @ret_initial: whether it is the first one, by its inode, 0xEFFFFFFC
 * Returns: 0, errno of stat.
 */
int proc_self_pidns(uint64_t *ret_dev, uint64_t *ret_ino, bool *ret_initial);
/**
 * proc_kernel_build_id - build-id of the running kernel, from /sys/kernel/notes
 * @ret: its first *ret_len bytes are written, 1 … 20
 * Returns: as proc_notes_build_id; -E2BIG (over 1 MiB), -ENOMEM, errno.
 */
int proc_kernel_build_id(uint8_t ret[EV_BUILD_ID_MAX], size_t *ret_len);
/**
 * proc_notes_build_id - the first well-formed GNU build-id (1 … 20 bytes) among ELF notes
 * @notes: @len bytes, with padding to 4
 * Returns: 0, -ENOENT (none), -EINVAL (only damaged ones, or a note reaches past the end).
 */
int proc_notes_build_id(const void *notes, size_t len, uint8_t ret[EV_BUILD_ID_MAX],
                        size_t *ret_len);
/**
 * proc_lockdown - the kernel's lockdown: "none", "integrity", "confidentiality"
 * "" where /sys/kernel/security/lockdown cannot be read.
 */
void proc_lockdown(char ret[32]);
/**
 * proc_other_root - the root directory of a process that sees other files than we do: in a mount
 * namespace of its own, or with another root directory
 * Returns: a descriptor (O_PATH) to look names up from, the caller's; -EBADF where the process sees
 * what we see, has gone or may not be looked at.
 */
int proc_other_root(uint32_t pid);
/**
 * proc_path_inside - a path that we see, as the process sees it: without what leads to its root
 * @path: absolute
 * Returns: @path or a part of it, where its root directory is not ours (chroot).
 */
const char *proc_path_inside(uint32_t pid, const char *path);

#endif
