/* SPDX-License-Identifier: Apache-2.0 */
/*
 * target - what a capture samples: processes, threads and filters as the options give them,
 * checked, handed to the kernel side, and watched for their end.
 *
 * Thread: C; while a capture runs D calls tgt_reap, which alone changes left and fds.
 */
#ifndef PA_TARGET_H
#define PA_TARGET_H

#include "base/base.h"
#include "bpf/abi/abi.h"
#include "loader/loader.h"
#include "perfagent/perfagent.h"
#include "tally/tally.h"

/* Storage of the caller's, between tgt_init and tgt_done. */
struct target {
	const struct pfa_options *o; /* borrowed */
	uint32_t pid;                /* the first that was given, or the command's; 0: none */
	char comm[64];               /* its name when the capture began; "": not known */
	uint32_t *pids;              /* pids[n], ascending */
	int *fds;                    /* fds[n]: pidfds; -EBADF: it has ended, or ended_fd has it */
	uint32_t n;
	uint32_t left;  /* those that have not ended; n > 1: D's */
	int epoll_fd;   /* n > 1: readable when one of them ends */
	int ended_fd;   /* pidfd; of several an eventfd; -EBADF: all processes are the target */
	uint32_t *tids; /* tids[n_tids], ascending */
	uint32_t n_tids;
	VEC(int) cgroups; /* directories, until tgt_load */
};

/**
 * tgt_check - are these options possible? Opens nothing.
 * Returns: 0, -EINVAL (the message names the option), -ENOMEM.
 */
int tgt_check(const struct pfa_options *o, struct err *err);
/**
 * tgt_init, tgt_done - without processes; release what tgt_open opened
 * @o: must live longer
 */
void tgt_init(struct target *t, const struct pfa_options *o);
void tgt_done(struct target *t);
/**
 * tgt_open - open the processes and cgroups that the options name
 * Releases what an earlier capture left.
 * Returns: 0, -ESRCH (one does not exist or has ended), -EINVAL (a thread's number, a kernel
 * thread, a thread of another process, a directory that is no cgroup), -ENOENT and -ENOTDIR (a
 * cgroup), -EMFILE, -ENOMEM, errno of pidfd_open or of reading /proc.
 */
int tgt_open(struct target *t, struct err *err);
/**
 * tgt_command - the target is this child, of which the capture is
 * Returns: 0, errno of pidfd_open.
 */
int tgt_command(struct target *t, uint32_t pid, struct err *err);
bool tgt_has(const struct target *t, uint32_t pid);
bool tgt_all(const struct target *t);     /* every process of the machine */
bool tgt_tree(const struct target *t);    /* does the kernel side need a table of processes? */
bool tgt_follows(const struct target *t); /* what its processes fork, too */
/**
 * tgt_procs - the processes, for load_follow and the tracker; borrowed
 */
struct load_procs tgt_procs(const struct target *t);
/**
 * tgt_config, tgt_load - say what to sample, before the programs are loaded; fill their tables
 * @tally: gets a note for a name that is longer than the kernel keeps
 * Returns: 0, what load_filter_tids, _comms and _cgroups give.
 */
void tgt_config(const struct target *t, struct abi_config *cfg, struct load_sizes *sizes);
int tgt_load(struct target *t, struct load_oncpu *l, struct tally *tally, struct err *err);
/**
 * tgt_watch - from now on ended_fd is readable once all have ended; before D starts
 * tgt_reap  - look which have ended, when epoll_fd is readable
 * Returns: 0, errno of eventfd, epoll_create1 or epoll_ctl.
 */
int tgt_watch(struct target *t, struct err *err);
void tgt_reap(struct target *t);
bool tgt_ended(const struct target *t); /* all of them */
/**
 * tgt_asleep_cnt - how many threads of a process sleep, of those that are asked for
 * Cost: two files of /proc a thread.
 */
uint64_t tgt_asleep_cnt(const struct target *t, uint32_t pid);
/**
 * tgt_text, tgt_numbers_text - append "pid 12 (nginx)"; "12, 13 and 7 more"
 * Returns: 0, -ENOMEM, -E2BIG.
 */
int tgt_text(const struct target *t, struct sbuf *b);
int tgt_numbers_text(const uint32_t *v, uint32_t n, struct sbuf *b);
bool tgt_filtered(const struct target *t); /* by --tid, --comm or --cgroup */
/**
 * tgt_each_filter - "filter_comm" and a name, and so on: each filter that is asked for
 * Returns: 0, or the first value other than 0 that @fn returned.
 */
int tgt_each_filter(const struct target *t,
                    int (*fn)(void *arg, const char *key, const char *value), void *arg);

#endif
