/* SPDX-License-Identifier: Apache-2.0 */
/* proc_priv - what the files of proc share. */
#ifndef PA_PROC_PRIV_H
#define PA_PROC_PRIV_H

#include "proc/proc.h"

#define PROC_PATH_SIZE 64           /* longest "/proc/PID/task/TID/schedstat" has 44 bytes */
#define PROC_DELETED   " (deleted)" /* d_path appends it to the names of unlinked files */

/* A number that ends where @c ends or before one of @delims; the delimiter is skipped.
 * 0, -EINVAL, -ERANGE. @c is undefined on failure. */
int proc_field_u64(struct cursor *c, const char *delims, int base, uint64_t *ret);

/* "/proc/PID/<name>" */
void proc_path(char path[PROC_PATH_SIZE], uint32_t pid, const char *name);
/* "/proc/PID/task/TID/<name>" */
void proc_task_path(char path[PROC_PATH_SIZE], uint32_t pid, uint32_t tid, const char *name);

/**
 * proc_read_task_file - the whole of a file of a task
 * Returns: as file_read_all, with -ESRCH for tasks that are gone (ENOENT where /proc is mounted).
 */
int proc_read_task_file(const char *path, struct sbuf *b, struct err *err);
/* Returns the meaning of @e (positive), with which the open of a file below /proc/PID failed:
 * -ESRCH for ENOENT. */
int proc_task_errno(int e);

/* proc_maps_read from a descriptor of /proc/@pid/maps, or of a file that looks like one. */
int proc_maps_read_fd(int fd, uint32_t pid, proc_map_fn fn, void *arg, uint64_t *ret_bad,
                      struct err *err);

/**
 * proc_cpu_list_read - a file with a list of CPUs
 * @dirfd: AT_FDCWD or a directory
 * @cpus:  cpus[max], written also on failure; no number is @number_end or more
 * Returns: how many, 0 for an empty list, -EINVAL (junk, not ascending, or cut off), -E2BIG (more
 * than @max, or a number from @number_end on), -ENOMEM, errno of open or read.
 */
int proc_cpu_list_read(int dirfd, const char *path, uint32_t *cpus, uint32_t max,
                       uint32_t number_end, struct err *err);

struct stat;
/**
 * proc_same_file - does stat's answer mean the file of a mapping?
 * @fs_type: f_type in statfs of the file system that answered
 * @by_process: it was reached through /proc/PID/map_files or /proc/PID/root, so that the path is
 * evidence as well; a path under our own root may lie on quite another file system
 *
 * The inode must be equal, and so must the device, but for file systems that give stat another one
 * than the kernel has in mappings:
 *   overlayfs   stat: a device without major number; mappings: that of the file below it, or its
 *               own (newer kernels)
 *   btrfs       stat: that of the subvolume, mappings: that of the file system; both of major 0
 *   others      with @by_process, where both have major 0 (bcachefs, stacked file systems). Not
 *               without: two tmpfs have the same inode numbers for different files
 */
bool proc_same_file(const struct stat *st, uint64_t fs_type, bool by_process,
                    const struct ev_file_id *file);

/* Is <@path> + " (deleted)", seen from the root of process @pid, this file? Then the mark is no
 * mark but the end of its name. */
bool proc_deleted_is_name(uint32_t pid, const char *path, const struct ev_file_id *file);

#endif
