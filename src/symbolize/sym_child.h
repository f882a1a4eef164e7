/* SPDX-License-Identifier: Apache-2.0 */
/* symbolize, private: a process that decodes for us. */
#ifndef PA_SYM_CHILD_H
#define PA_SYM_CHILD_H

#include "symbolize/sym_wire.h"

struct sym_child {
	int sock; /* -EBADF: there is none */
	int pidfd;
	pid_t pid; /* in our pid namespace */
};

/* Forks it: 0, errno of what failed, in the child
 * too. The engine's options are @o but for the helper. */
int sym_child_start(const struct sym_engine_options *o, struct sym_child *ret);
/* Ends it, and reaps it. */
void sym_child_stop(struct sym_child *c);
/* Is it there? One that was ended from outside is stopped. */
bool sym_child_lives(struct sym_child *c);
/* Asks for v[n], at most SYM_WIRE_ASKS_MAX; then each is taken in turn. 0, -EIO (it has ended, or
 * does not read, and is stopped), -ENOMEM (too large; only with @n 1). */
int sym_child_ask(struct sym_child *c, const struct sym_ask *v, size_t n);
/* As sym_engine_resolve, by the child, with @helper for what it asks; -EIO: it has ended, or does
 * not answer, and is stopped. */
int sym_child_take(struct sym_child *c, const struct sym_helper *helper, const struct sym_ask *a,
                   struct sym_batch *ret, struct sym_engine_stats *ret_stats, uint64_t *ret_cpu_ns);

#endif
