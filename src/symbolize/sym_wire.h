/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symbolize, private: messages between the agent and the symbolizer process.
 *
 *   agent -> process   RESOLVE, with the image's descriptor: addresses, path, bytes of an image
 *                      without a file. Several may be sent at once: the process reads them all
 *                      before it begins, so that one wake-up is enough.
 *   process -> agent   any number of PARTS and DWO (directory, name), each answered by OPENED with
 *                      up to three descriptors
 *   process -> agent   RESULT for each RESOLVE in turn: names, frames, strings, statistics
 *
 * Both run the same program; the agent still checks everything that the process sends.
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
	uint32_t type; /* enum sym_wire_type */
	/* Negative errno, or the return value of the call that is answered. RESOLVE: how many
	 * more requests follow at once. */
	int32_t result;
	uint32_t id;     /* RESOLVE: of the image */
	uint32_t fd_set; /* one bit for each descriptor that comes with it */
	uint64_t n;      /* RESOLVE, RESULT: addresses */
	/* RESOLVE: bytes of the path, bytes of the image. DWO: of directory and name. RESULT:
	 * frames, bytes of strings. */
	uint64_t len[2];
};
_Static_assert(sizeof(struct sym_wire_head) == 40, "sent as bytes");

/* Limits of one message. A larger one is refused. */
#define SYM_WIRE_ADDRS_MAX    ((uint64_t)1 << 24)
#define SYM_WIRE_REQUESTS_MAX 32
#define SYM_WIRE_PATH_MAX     ((uint64_t)64 * 1024)
#define SYM_WIRE_MEM_MAX      ((uint64_t)16 << 20)
#define SYM_WIRE_FRAMES_MAX   ((uint64_t)1 << 26)

struct sym_wire_piece {
	const void *p;
	size_t len;
};
#define SYM_WIRE_PIECES 4 /* after one head */
/* Sends a head with its descriptors, and the pieces after it, at once: the receiver wakes once.
 * Returns 0, -EIO (the other side is gone, or too slow). */
int sym_wire_send(int sock, const struct sym_wire_head *h, const int fds[SYM_WIRE_FDS],
                  const struct sym_wire_piece *pieces, size_t n_pieces);
int sym_wire_send_head(int sock, const struct sym_wire_head *h, const int fds[SYM_WIRE_FDS]);
/* Receive as many bytes: 0, -EIO. Descriptors that the head does not announce are -EBADF. */
int sym_wire_recv(int sock, void *p, size_t len);
int sym_wire_recv_head(int sock, struct sym_wire_head *ret, int ret_fds[SYM_WIRE_FDS]);

/* Sends a batch and a head with its numbers: 0, -EIO, -ENOMEM. */
int sym_wire_send_batch(int sock, const struct sym_batch *b, const struct sym_engine_stats *stats,
                        uint64_t cpu_ns);
/* Receives a batch after its head. @n: addresses that were requested. Returns 0, -EIO (also: the
 * message contradicts itself), -ENOMEM, or the process's own result for the batch. */
int sym_wire_recv_batch(int sock, const struct sym_wire_head *h, size_t n, struct sym_batch *ret,
                        struct sym_engine_stats *ret_stats, uint64_t *ret_cpu_ns);

/* Gives up everything except computing and talking over @sock, which becomes descriptor 0.
 * Descriptors 1 and 2 lead to /dev/null; all others are closed. Memory may grow by @bytes. Returns
 * 0, or -errno of the first step that failed. */
int sym_confine(int sock, size_t bytes);
/* Returns how many descriptors sym_confine leaves. Called before it. */
uint32_t sym_confine_fds(void);

#endif
