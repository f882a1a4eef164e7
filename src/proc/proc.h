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
	uint32_t uid;                   /* real */
	uint32_t nspid_cnt;             /* numbers in nspid[]: 1 = our namespace only */
	uint32_t nspid[PROC_NSPID_MAX]; /* NSpid: ours first, the innermost last */
	bool kthread;                   /* Kthread: 1 (or, on kernels without it, no memory map) */
	char name[64];                  /* comm, escapes undone, kthreads' longer names kept */
};
/* 0, -ESRCH (no such task), -EINVAL (unreadable contents), errno. */
int proc_status_read(uint32_t pid, struct proc_status *ret, struct err *err);
/* Parser behind it, for tests and fuzzing: 0, -EINVAL. */
int proc_status_parse(const char *text, size_t len, struct proc_status *ret);

/* The next four: 0, -ESRCH (no such task), -EINVAL (unreadable contents), errno. */
/* Start of the process on CLOCK_BOOTTIME in ns, with the resolution of a clock tick (10 ms),
 * rounded down; in a time namespace both this and the clock are shifted against what BPF programs
 * see. */
int proc_start_ns(uint32_t pid, uint64_t *ret);
/* CPU time of a thread in ns from schedstat: the workload's own clock. */
int proc_thread_cpu_ns(uint32_t pid, uint32_t tid, uint64_t *ret);
/* comm of a thread (@tid = @pid for the process), trailing newline removed. */
int proc_comm(uint32_t pid, uint32_t tid, char ret[64]);
/* Target of /proc/PID/exe into @b without " (deleted)". */
int proc_exe(uint32_t pid, struct sbuf *b); /* also -ENOENT: a kernel thread */

/* @m.path is borrowed until the call-back returns. Return non-zero to stop (handed on). */
typedef int (*proc_map_fn)(void *arg, const struct ev_mapping *m);
/**
 * proc_maps_read - the executable mappings of a process, in order of address
 * @ret_bad: lines that could not be parsed (counted, skipped); may be NULL
 * Returns: 0, -ESRCH, -EACCES (needs CAP_SYS_PTRACE), errno, or what @fn returned.
 * Cost: one pass over /proc/PID/maps; 82 KiB of memory. A process without memory (kernel thread,
 * zombie) has no mappings: 0.
 */
int proc_maps_read(uint32_t pid, proc_map_fn fn, void *arg, uint64_t *ret_bad, struct err *err);
/**
 * proc_maps_parse_line - one line of /proc/PID/maps
 * @line: without its newline, @len bytes; executable mapping or not
 * @path_buf: receives the path, " (deleted)" removed and \012 turned back into a newline: it is the
 * only escape that the kernel writes there (a backslash stands for itself, so a name that has \012
 * in it cannot be told from one with a newline; whoever opens it compares the inode)
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
 * no regular file is looked at, but never opened. O_RDONLY|O_CLOEXEC|O_NONBLOCK. Returns:
 * descriptor >= 0, -ESTALE (another file is there now), -EACCES/-EPERM, -ENOENT, -EINVAL (@m is no
 * file mapping, or it is no regular file), …
 */
int proc_open_mapped(uint32_t pid, const struct ev_mapping *m, struct err *err);
/* The same by a path under our own root, for a process that has gone: the device must be equal, but
 * on btrfs and overlayfs. */
int proc_open_path(const char *path, const struct ev_file_id *file);

/* Every process: calls @fn with the pid of each, ascending or not. Non-zero from @fn stops and is
 * handed on. proc_each_thread: -ESRCH when there is no such process. */
typedef int (*proc_pid_fn)(void *arg, uint32_t pid);
int proc_each(proc_pid_fn fn, void *arg, struct err *err);
int proc_each_thread(uint32_t pid, proc_pid_fn fn, void *arg);

/* ---- this kernel, this process -------------------------------------------------------------- */

/* Online CPUs, ascending, into cpus[max]; returns how many, or negative errno. */
int proc_online_cpus(uint32_t *cpus, uint32_t max, struct err *err);
/* "0-3,8\n" to numbers: how many, -EINVAL (junk, not ascending), -E2BIG (more than @max). */
int proc_cpu_list_parse(const char *s, uint32_t *cpus, uint32_t max);
/* /proc/sys/<name> as a number: proc_sysctl("kernel/perf_event_paranoid", &v). */
int proc_sysctl(const char *name, int64_t *ret);
/* Inode of /proc/self/ns/pid, and whether it is the first namespace (0xEFFFFFFC). */
int proc_self_pidns(uint64_t *ret_dev, uint64_t *ret_ino, bool *ret_initial);
const char *proc_cap_name(int cap); /* "CAP_PERFMON"; "CAP_?" for numbers without a name */
/* Build-id of the running kernel from /sys/kernel/notes: 0, -ENOENT (none), -EINVAL (only damaged
 * notes), errno. */
int proc_kernel_build_id(uint8_t ret[EV_BUILD_ID_MAX], size_t *ret_len);
/* The first well-formed GNU build-id (1 … 20 bytes) among ELF notes with padding to 4 bytes. */
int proc_notes_build_id(const void *notes, size_t len, uint8_t ret[EV_BUILD_ID_MAX],
                        size_t *ret_len);
/* /sys/kernel/security/lockdown: "none", "integrity", "confidentiality"; "" where there is none. */
void proc_lockdown(char ret[32]);

#endif
