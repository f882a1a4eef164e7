/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between the agent and the symbolizer process. */
#include <sys/socket.h>

#include "symbolize/sym_wire.h"

#define NO_STRING UINT32_MAX

struct wire_name {
	uint64_t start;
	uint32_t first, n, reason, pad;
};
_Static_assert(sizeof(struct wire_name) == 24, "sent as bytes");

/* Strings are offsets into those of the message. */
struct wire_frame {
	uint32_t name, linkage, file;
	uint32_t line, column, start_line;
};
_Static_assert(sizeof(struct wire_frame) == 24, "sent as bytes");

/* After the head of a result. */
struct wire_stats {
	struct sym_engine_stats stats;
	uint64_t cpu_ns;
};

/* Returns what is left of @m after its first @len bytes. */
static void skip_sent(struct msghdr *m, size_t len)
{
	while (m->msg_iovlen > 0 && len >= m->msg_iov->iov_len) {
		len -= m->msg_iov->iov_len;
		m->msg_iov++;
		m->msg_iovlen--;
	}
	if (m->msg_iovlen > 0) {
		m->msg_iov->iov_base = (char *)m->msg_iov->iov_base + len;
		m->msg_iov->iov_len -= len;
	}
}

static int send_all(int sock, struct msghdr *m)
{
	skip_sent(m, 0); /* empty pieces */
	while (m->msg_iovlen > 0) {
		ssize_t n = sendmsg(sock, m, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -EIO;
		m->msg_control = NULL; /* they went with the first bytes */
		m->msg_controllen = 0;
		skip_sent(m, (size_t)n);
	}
	return 0;
}

int sym_wire_recv(int sock, void *p, size_t len)
{
	char *at = p;

	while (len > 0) {
		ssize_t n = recv(sock, at, len, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -EIO;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

union control {
	char bytes[CMSG_SPACE(SYM_WIRE_FDS * sizeof(int))];
	struct cmsghdr align;
};

int sym_wire_send(int sock, const struct sym_wire_head *h, const int fds[SYM_WIRE_FDS],
                  const struct sym_wire_piece *pieces, size_t n_pieces)
{
	struct sym_wire_head head = *h;
	struct iovec iov[1 + SYM_WIRE_PIECES];
	union control c = {0};
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = 1 + n_pieces};
	int list[SYM_WIRE_FDS];
	size_t n_fds = 0;

	assert(n_pieces <= SYM_WIRE_PIECES);
	iov[0] = (struct iovec){&head, sizeof(head)};
	for (size_t i = 0; i < n_pieces; i++)
		iov[1 + i] = (struct iovec){(void *)(uintptr_t)pieces[i].p, pieces[i].len};

	head.fd_set = 0;
	for (uint32_t i = 0; i < SYM_WIRE_FDS; i++) {
		if (fds[i] < 0)
			continue;
		head.fd_set |= 1U << i;
		list[n_fds++] = fds[i];
	}
	if (n_fds > 0) {
		struct cmsghdr *cm = &c.align;

		m.msg_control = c.bytes;
		m.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(cm), list, n_fds * sizeof(int));
	}
	return send_all(sock, &m);
}

int sym_wire_send_head(int sock, const struct sym_wire_head *h, const int fds[SYM_WIRE_FDS])
{
	return sym_wire_send(sock, h, fds, NULL, 0);
}

/* Receives the descriptors of a message, however it is composed. Unexpected ones are closed. */
static size_t take_fds(struct msghdr *m, int list[SYM_WIRE_FDS])
{
	size_t n = 0;

	for (struct cmsghdr *cm = CMSG_FIRSTHDR(m); cm; cm = CMSG_NXTHDR(m, cm)) {
		size_t k = (cm->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (cm->cmsg_level != SOL_SOCKET || cm->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < k; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(cm) + i * sizeof(int), sizeof(fd));
			if (n < SYM_WIRE_FDS)
				list[n++] = fd;
			else
				(void)close(fd); /* read only */
		}
	}
	return n;
}

int sym_wire_recv_head(int sock, struct sym_wire_head *ret, int ret_fds[SYM_WIRE_FDS])
{
	struct iovec iov = {ret, sizeof(*ret)};
	union control c;
	struct msghdr m = {.msg_iov = &iov,
	                   .msg_iovlen = 1,
	                   .msg_control = c.bytes,
	                   .msg_controllen = sizeof(c.bytes)};
	int list[SYM_WIRE_FDS];
	size_t n_fds, k = 0;
	ssize_t n;
	int r;

	for (size_t i = 0; i < SYM_WIRE_FDS; i++)
		ret_fds[i] = -EBADF;
	do
		n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return -EIO;
	n_fds = take_fds(&m, list);
	r = sym_wire_recv(sock, (char *)ret + n, sizeof(*ret) - (size_t)n);
	for (uint32_t i = 0; r == 0 && i < SYM_WIRE_FDS && k < n_fds; i++) {
		if (ret->fd_set & (1U << i))
			ret_fds[i] = list[k++];
	}
	while (k < n_fds)
		(void)close(list[k++]); /* read only */
	return r;
}

/* ---- a batch --------------------------------------------------------------------------------- */

/* The strings of a batch, each once. Most frames share them, by address. */
struct pool {
	struct intern *keys; /* address -> index in at */
	VEC(uint32_t) at;
	struct sbuf text;
};

static void pool_done(struct pool *p)
{
	p->keys = intern_free(p->keys);
	vec_done(&p->at);
	sbuf_done(&p->text);
}

static int pool_add(struct pool *p, const char *s, uint32_t *ret)
{
	uint64_t key = (uintptr_t)s;
	uint32_t id;
	int r;

	*ret = NO_STRING;
	if (!s)
		return 0;
	id = intern_find(p->keys, &key, sizeof(key));
	if (id == INTERN_NONE) {
		uint32_t at = (uint32_t)p->text.len;

		r = vec_reserve(&p->at, 1);
		if (r == 0)
			r = sbuf_add(&p->text, s, strlen(s) + 1);
		if (r == 0)
			r = intern_add(p->keys, &key, sizeof(key), &id, NULL);
		if (r == 0)
			r = vec_push(&p->at, at);
		if (r < 0)
			return -ENOMEM;
	}
	*ret = p->at.p[id];
	return 0;
}

static int pack_frames(const struct sym_batch *b, struct pool *p, struct wire_frame *out)
{
	int r = 0;

	for (size_t i = 0; i < b->frames.n && r == 0; i++) {
		const struct sym_frame *f = &b->frames.p[i];

		out[i] = (struct wire_frame){
		        .line = f->line, .column = f->column, .start_line = f->start_line};
		r = pool_add(p, f->name, &out[i].name);
		if (r == 0)
			r = pool_add(p, f->linkage, &out[i].linkage);
		if (r == 0)
			r = pool_add(p, f->file, &out[i].file);
	}
	return r;
}

int sym_wire_send_batch(int sock, const struct sym_batch *b, const struct sym_engine_stats *stats,
                        uint64_t cpu_ns)
{
	static const int no_fds[SYM_WIRE_FDS] = {-EBADF, -EBADF, -EBADF};
	_cleanup_(pool_done) struct pool p = {.at.max = UINT32_MAX};
	_cleanup_free_ struct wire_frame *frames = NULL;
	_cleanup_free_ struct wire_name *names = NULL;
	struct wire_stats fig = {.cpu_ns = cpu_ns};
	struct sym_wire_head h = {.type = SYM_WIRE_RESULT, .n = b->n, .len = {b->frames.n, 0}};
	int r;

	sbuf_init(&p.text, UINT32_MAX / 2);
	frames = calloc(b->frames.n + 1, sizeof(*frames));
	names = calloc(b->n + 1, sizeof(*names));
	if (!frames || !names)
		return -ENOMEM;
	r = intern_new(UINT32_MAX - 1, SIZE_MAX / 2, &p.keys);
	if (r == 0)
		r = pack_frames(b, &p, frames);
	if (r < 0)
		return -ENOMEM;
	for (size_t i = 0; i < b->n; i++)
		names[i] = (struct wire_name){.start = b->names[i].start,
		                              .first = b->names[i].first,
		                              .n = b->names[i].n,
		                              .reason = (uint32_t)b->names[i].reason};
	memcpy(&fig.stats, stats, sizeof(fig.stats));
	h.len[1] = p.text.len;
	const struct sym_wire_piece pieces[] = {{&fig, sizeof(fig)},
	                                        {names, b->n * sizeof(*names)},
	                                        {frames, b->frames.n * sizeof(*frames)},
	                                        {p.text.p, p.text.len}};

	return sym_wire_send(sock, &h, no_fds, pieces, ARRAY_SIZE(pieces));
}

static bool unpack_string(const char *text, uint64_t len, uint32_t at, const char **ret)
{
	*ret = NULL;
	if (at == NO_STRING)
		return true;
	if (at >= len)
		return false;
	*ret = text + at; /* the last byte of all strings is 0 */
	return true;
}

static int unpack_frames(const struct wire_frame *in, uint64_t n, const char *text, uint64_t len,
                         struct sym_batch *b)
{
	int r = vec_reserve(&b->frames, n);

	for (uint64_t i = 0; i < n && r == 0; i++) {
		struct sym_frame f = {
		        .line = in[i].line, .column = in[i].column, .start_line = in[i].start_line};

		if (!unpack_string(text, len, in[i].name, &f.name) || !f.name ||
		    !unpack_string(text, len, in[i].linkage, &f.linkage) || !f.linkage ||
		    !unpack_string(text, len, in[i].file, &f.file))
			return -EIO;
		r = vec_push(&b->frames, f);
	}
	return r < 0 ? -ENOMEM : 0;
}

static int unpack_names(const struct wire_name *in, size_t n, struct sym_batch *b)
{
	for (size_t i = 0; i < n; i++) {
		const struct wire_name *w = &in[i];

		if (w->reason >= EV_REASON_CNT || (w->reason == EV_REASON_NAMED) != (w->n > 0) ||
		    w->n > SYM_FRAMES_MAX || w->n > b->frames.n || w->first > b->frames.n - w->n)
			return -EIO;
		b->names[i] = (struct sym_name){.start = w->start,
		                                .first = w->first,
		                                .n = w->n,
		                                .reason = (enum ev_reason)w->reason};
	}
	return 0;
}

int sym_wire_recv_batch(int sock, const struct sym_wire_head *h, size_t n, struct sym_batch *ret,
                        struct sym_engine_stats *ret_stats, uint64_t *ret_cpu_ns)
{
	_cleanup_(sym_batch_done) struct sym_batch b = {0};
	_cleanup_free_ struct wire_frame *frames = NULL;
	_cleanup_free_ struct wire_name *names = NULL;
	struct wire_stats fig;
	char *text;
	int r;

	if (h->result < 0)
		return h->result == -ENOMEM ? -ENOMEM : -EIO;
	if (h->n != n || h->len[0] > MIN_OF(SYM_WIRE_FRAMES_MAX, n * (SYM_FRAMES_MAX + 1)) ||
	    h->len[1] > SYM_STRINGS_MAX)
		return -EIO;
	frames = calloc(h->len[0] + 1, sizeof(*frames));
	names = calloc(n + 1, sizeof(*names));
	r = sym_batch_init(&b, n, EV_REASON_NO_SYMBOL);
	if (!frames || !names || r < 0)
		return -ENOMEM;
	text = arena_alloc(&b.strings, h->len[1]);
	if (!text)
		return -ENOMEM;
	r = sym_wire_recv(sock, &fig, sizeof(fig));
	if (r == 0)
		r = sym_wire_recv(sock, names, n * sizeof(*names));
	if (r == 0)
		r = sym_wire_recv(sock, frames, h->len[0] * sizeof(*frames));
	if (r == 0)
		r = sym_wire_recv(sock, text, h->len[1]);
	if (r == 0 && h->len[1] > 0 && text[h->len[1] - 1] != 0)
		r = -EIO;
	if (r == 0)
		r = unpack_frames(frames, h->len[0], text, h->len[1], &b);
	if (r == 0)
		r = unpack_names(names, n, &b);
	if (r < 0)
		return r;
	memcpy(ret_stats, &fig.stats, sizeof(*ret_stats));
	*ret_cpu_ns = fig.cpu_ns;
	*ret = b;
	b = (struct sym_batch){0};
	return 0;
}
