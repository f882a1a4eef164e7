/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symbolize, private: what goes between the agent and its child. One request at a time:
 *
 *   agent -> child   RESOLVE, with the image's descriptor: addresses, path, bytes of an image
 *                    without a file; several at once, of which the child reads all before it
 *                    begins, so that it need not be woken for each
 *   child -> agent   any number of PARTS and DWO (directory, name), each answered by OPENED with
 *                    up to three descriptors
 *   child -> agent   RESULT for each RESOLVE in turn: names, frames, strings, figures
 *
 * Both are the same program; the agent still checks all that it is told.
 */
#ifndef PA_SYM_WIRE_H
#define PA_SYM_WIRE_H

#include "symbolize/sym_engine.h"

enum sym_wire_type {
	SYM_WIRE_RESOLVE = 1,
	SYM_WIRE_PARTS,
	SYM_WIRE_DWO,
	SYM_WIRE_OPENED,
	SYM_WIRE_RESULT,
};
#define SYM_WIRE_FDS 3

struct sym_wire_head {
	uint32_t type;   /* enum sym_wire_type */
	int32_t result;  /* negative errno, or as the call it stands for returns; RESOLVE: how many
	                  * follow at once */
	uint32_t id;     /* RESOLVE: of the image */
	uint32_t fd_set; /* bit by descriptor that comes with it */
	uint64_t n;      /* RESOLVE, RESULT: addresses */
	uint64_t len[2]; /* RESOLVE: of the path, of the image's bytes; DWO: of directory and name;
	                  * RESULT: frames, bytes of strings */
};
_Static_assert(sizeof(struct sym_wire_head) == 40, "sent as bytes");

/* Limits of what one message carries; more is no message. */
#define SYM_WIRE_ADDRS_MAX  ((uint64_t)1 << 24)
#define SYM_WIRE_ASKS_MAX   32
#define SYM_WIRE_PATH_MAX   ((uint64_t)64 * 1024)
#define SYM_WIRE_MEM_MAX    ((uint64_t)16 << 20)
#define SYM_WIRE_FRAMES_MAX ((uint64_t)1 << 26)

struct sym_wire_piece {
	const void *p;
	size_t len;
};
#define SYM_WIRE_PIECES 4 /* behind one head */
/* Sends a head with its descriptors, and what is behind it: 0, -EIO (the other side is gone, or too
 * slow). All at once: the other side wakes once for it. */
int sym_wire_send(int sock, const struct sym_wire_head *h, const int fds[SYM_WIRE_FDS],
                  const struct sym_wire_piece *pieces, size_t n_pieces);
int sym_wire_send_head(int sock, const struct sym_wire_head *h, const int fds[SYM_WIRE_FDS]);
/* Receives as many: 0, -EIO. Descriptors that the head does not name are -EBADF. */
int sym_wire_recv(int sock, void *p, size_t len);
int sym_wire_recv_head(int sock, struct sym_wire_head *ret, int ret_fds[SYM_WIRE_FDS]);

/* A batch, after a head with its numbers: 0, -EIO, -ENOMEM. */
int sym_wire_send_batch(int sock, const struct sym_batch *b, const struct sym_engine_stats *stats,
                        uint64_t cpu_ns);
/* @n: addresses that were asked for. 0, -EIO (also: it contradicts itself), -ENOMEM, or what the
 * child says of the batch as a whole. */
int sym_wire_recv_batch(int sock, const struct sym_wire_head *h, size_t n, struct sym_batch *ret,
                        struct sym_engine_stats *ret_stats, uint64_t *ret_cpu_ns);

/* Gives up all that the calling process could do but to compute and to talk over @sock, which
 * becomes descriptor 0; the only one but 1 and 2, which lead nowhere. @bytes: it may grow by so
 * much. 0, -errno of the first step that failed. */
int sym_confine(int sock, size_t bytes);
uint32_t sym_confine_fds(void); /* how many descriptors it leaves; asked before */

#endif
