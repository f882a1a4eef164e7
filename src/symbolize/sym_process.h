/* SPDX-License-Identifier: Apache-2.0 */
/* symbolize, private: the symbolizer process, as the agent sees it. */
#ifndef PA_SYM_PROCESS_H
#define PA_SYM_PROCESS_H

#include "symbolize/sym_wire.h"

struct sym_process {
	int sock; /* -EBADF: no process */
	int pidfd;
	pid_t pid; /* in the agent's pid namespace */
};

/* Forks the process: 0, or the errno of the step that failed, also inside the new process. The
 * engine gets the options @o without their helper. */
int sym_process_start(const struct sym_engine_options *o, struct sym_process *ret);
/* Kills and reaps the process. */
void sym_process_stop(struct sym_process *c);
/* Returns whether the process lives. One that something else ended is reaped. */
bool sym_process_lives(struct sym_process *c);
/* Sends v[n], at most SYM_WIRE_REQUESTS_MAX; each is then received in turn. Returns 0, -EIO (the
 * process died or does not read, and is stopped), -ENOMEM (too large; only with @n 1). */
int sym_process_send(struct sym_process *c, const struct sym_request *v, size_t n);
/* Receives one answer; @helper opens the files that the process asks for. Returns as
 * sym_engine_resolve, or -EIO: the process died or did not answer in time, and is stopped. */
int sym_process_receive(struct sym_process *c, const struct sym_helper *helper,
                        const struct sym_request *a, struct sym_batch *ret,
                        struct sym_engine_stats *ret_stats, uint64_t *ret_cpu_ns);

#endif
