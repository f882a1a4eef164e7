/* SPDX-License-Identifier: Apache-2.0 */
/*
 * target - the processes, threads and filters of the options, which a capture samples. Checks them,
 * hands them to the kernel side, and watches for their end.
 *
 * Thread: control; while a capture runs the drain thread calls tgt_reap, which alone changes left
 * and fds.
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
	uint32_t pid;                /* the first of the options, or the command's; 0: none */
	char comm[64];               /* its name when the capture began; "": not known */
	uint32_t *pids;              /* pids[n], ascending */
	int *fds;                    /* fds[n]: pidfds; -EBADF: it has ended, or ended_fd has it */
	uint32_t n;
	uint32_t left;  /* processes that have not ended; n > 1: the drain thread's */
	int epoll_fd;   /* n > 1: readable when one of them ends */
	int ended_fd;   /* pidfd; of several an eventfd; -EBADF: all processes are the target */
	uint32_t *tids; /* tids[n_tids], ascending */
	uint32_t n_tids;
	VEC(int) cgroups; /* directories, until tgt_load */
};

/**
 * tgt_check - check the options of the target; opens nothing
 * Returns: 0, -EINVAL (the message names the option), -ENOMEM.
 */
int tgt_check(const struct pfa_options *o, struct err *err);
/**
 * tgt_init, tgt_done - begin without processes; close and free all that tgt_open opened
 * @o: must live longer
 */
void tgt_init(struct target *t, const struct pfa_options *o);
void tgt_done(struct target *t);
/**
 * tgt_open - open the processes and cgroups that the options name
 * Releases the processes of an earlier capture first.
 * Returns: 0, -ESRCH (one does not exist or has ended), -EINVAL (a thread's number, a kernel
 * thread, a thread of another process, a directory that is no cgroup), -ENOENT and -ENOTDIR (a
 * cgroup), -EMFILE, -ENOMEM, errno of pidfd_open or of reading /proc.
 */
int tgt_open(struct target *t, struct err *err);
/**
 * tgt_command - make this child process the target
 * Returns: 0, errno of pidfd_open.
 */
int tgt_command(struct target *t, uint32_t pid, struct err *err);
bool tgt_has(const struct target *t, uint32_t pid);
bool tgt_all(const struct target *t);     /* every process of the machine */
bool tgt_tree(const struct target *t);    /* does the kernel side need a table of processes? */
bool tgt_follows(const struct target *t); /* are the children of its processes followed? */
/**
 * tgt_procs - the processes, for load_follow and the tracker; borrowed
 */
struct load_procs tgt_procs(const struct target *t);
/**
 * tgt_config, tgt_load - configure target and filters before the programs are loaded; fill their
 * tables after that
 * @tally: gets a note for a name that is longer than the kernel keeps
 * Returns: 0, errors of load_filter_tids, _comms and _cgroups.
 */
void tgt_config(const struct target *t, struct abi_config *cfg, struct load_sizes *sizes);
int tgt_load(struct target *t, struct load_oncpu *l, struct tally *tally, struct err *err);
/**
 * tgt_watch - make ended_fd readable once all have ended; before the drain thread starts
 * tgt_reap  - count the processes that have ended, when epoll_fd is readable
 * Returns: 0, errno of eventfd, epoll_create1 or epoll_ctl.
 */
int tgt_watch(struct target *t, struct err *err);
void tgt_reap(struct target *t);
bool tgt_ended(const struct target *t); /* have all of them ended? */
/**
 * tgt_asleep_cnt - how many threads of a process sleep; with --tid only of the threads given
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
 * tgt_each_filter - hand on each filter of the options: "filter_comm" and a name, and so on
 * Returns: 0, or the first value other than 0 that @fn returned.
 */
int tgt_each_filter(const struct target *t,
                    int (*fn)(void *arg, const char *key, const char *value), void *arg);

#endif
