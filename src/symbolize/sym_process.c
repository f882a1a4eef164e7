/* SPDX-License-Identifier: Apache-2.0 */
/* The symbolizer process: how it is started, what it runs, how requests reach it. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#include "symbolize/sym_process.h"

/* CPU time for one batch. libLLVM with all its debug information takes 2 s. */
#define BATCH_CPU_S 30
/* The agent waits so long for the next message. A starved machine needs that much. */
#define ANSWER_S 60
/* The agent waits so long for a whole batch, with the files that it asks for. */
#define BATCH_S 180
/* Most messages of one batch: each makes the agent open a file. */
#define REQUESTS_MAX 16384
/* Memory that the process needs besides the budget: a batch, its answer, stacks, the C library. */
#define MEMORY_BASE ((size_t)256 << 20)
/* Share of the allowed descriptors that images may hold. Each may have split units besides. */
#define FDS_SHARE 8

static const int no_fds[SYM_WIRE_FDS] = {-EBADF, -EBADF, -EBADF};

/* ---- in the process -------------------------------------------------------------------------- */

struct serving {
	int sock;
	struct sym_engine_stats stats;
};

static int ask(struct serving *sv, struct sym_wire_head *h, int fds[SYM_WIRE_FDS], const char *a,
               const char *b)
{
	const struct sym_wire_piece pieces[] = {{a, h->len[0]}, {b, h->len[1]}};
	int r = sym_wire_send(sv->sock, h, no_fds, pieces, ARRAY_SIZE(pieces));

	if (r == 0)
		r = sym_wire_recv_head(sv->sock, h, fds);
	if (r == 0 && h->type != SYM_WIRE_OPENED)
		r = -EIO;
	return r < 0 ? -EPIPE : h->result;
}

static int ask_parts(void *arg, const struct sym_source *src, struct sym_parts *ret)
{
	struct sym_wire_head h = {.type = SYM_WIRE_PARTS};
	int fds[SYM_WIRE_FDS], r;

	(void)src; /* the agent knows which image it sent */
	r = ask(arg, &h, fds, NULL, NULL);
	if (r == 0)
		*ret = (struct sym_parts){fds[0], fds[1], fds[2]};
	return r;
}

static int ask_dwo(void *arg, const struct sym_source *src, const char *dir, const char *name,
                   int *ret_fd)
{
	struct sym_wire_head h = {.type = SYM_WIRE_DWO, .len = {strlen(dir), strlen(name)}};
	int fds[SYM_WIRE_FDS], r;

	(void)src;
	if (h.len[0] > SYM_WIRE_PATH_MAX || h.len[1] > SYM_WIRE_PATH_MAX)
		return 0;
	r = ask(arg, &h, fds, dir, name);
	if (r <= 0)
		return r;
	*ret_fd = fds[0];
	return fds[0] >= 0;
}

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts) < 0)
		return 0;
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

/* One batch to resolve. */
struct request {
	uint64_t *offs; /* offs[n] */
	size_t n, mem_len;
	char *path;
	void *mem;
	uint32_t id;
	int fds[SYM_WIRE_FDS];
};

static void request_done(struct request *q)
{
	free(q->offs);
	free(q->path);
	free(q->mem);
	for (size_t i = 0; i < SYM_WIRE_FDS; i++)
		closep(&q->fds[i]);
}

/* Returns a negative errno if the agent closed the socket, or sent what is no request. */
static int read_request(int sock, const struct sym_wire_head *h, struct request *q)
{
	int r;

	if (h->type != SYM_WIRE_RESOLVE || h->n > SYM_WIRE_ADDRS_MAX ||
	    h->len[0] > SYM_WIRE_PATH_MAX || h->len[1] > SYM_WIRE_MEM_MAX)
		return -EIO;
	q->id = h->id;
	q->n = h->n;
	q->mem_len = h->len[1];
	q->offs = calloc(h->n + 1, sizeof(*q->offs));
	q->path = calloc(1, h->len[0] + 1);
	q->mem = h->len[1] ? malloc(h->len[1]) : NULL;
	if (!q->offs || !q->path || (h->len[1] && !q->mem))
		return -ENOMEM;
	r = sym_wire_recv(sock, q->offs, h->n * sizeof(*q->offs));
	if (r == 0)
		r = sym_wire_recv(sock, q->path, h->len[0]);
	if (r == 0)
		r = sym_wire_recv(sock, q->mem, h->len[1]);
	return r;
}

/* Resolves one batch. Returns a negative errno as read_request does. */
static int serve(struct serving *sv, struct sym_engine *e, const struct request *q)
{
	const struct itimerval limit = {.it_value.tv_sec = BATCH_CPU_S};
	const struct sym_source src = {.id = q->id,
	                               .fd = q->fds[0],
	                               .mem = q->mem,
	                               .mem_len = q->mem_len,
	                               .path = q->path,
	                               .root_fd = -EBADF};
	_cleanup_(sym_batch_done) struct sym_batch b = {0};
	struct sym_wire_head failed = {.type = SYM_WIRE_RESULT};
	int r;

	/* The signal ends the process: nothing else stops a computation without end. */
	if (setitimer(ITIMER_PROF, &limit, NULL) < 0)
		return -errno;
	r = sym_engine_resolve(e, &src, q->offs, q->n, &b);
	if (r == -EPIPE)
		return r;
	if (r == 0)
		r = sym_wire_send_batch(sv->sock, &b, &sv->stats, cpu_ns());
	if (r != -ENOMEM)
		return r;
	failed.result = r;
	return sym_wire_send_head(sv->sock, &failed, no_fds);
}

/* Reads all requests that were sent at once, then answers them. Returns as read_request does. */
static int serve_all(struct serving *sv, struct sym_engine *e,
                     struct request q[SYM_WIRE_REQUESTS_MAX])
{
	struct sym_wire_head h;
	size_t n = 0, more;
	int r;

	do {
		r = sym_wire_recv_head(sv->sock, &h, q[n].fds);
		if (r == 0 && (h.result < 0 || (size_t)h.result >= SYM_WIRE_REQUESTS_MAX - n))
			r = -EIO;
		more = r == 0 ? (size_t)h.result : 0;
		if (r == 0)
			r = read_request(sv->sock, &h, &q[n]);
		n++;
	} while (r == 0 && more > 0);
	for (size_t i = 0; i < n; i++) {
		if (r == 0)
			r = serve(sv, e, &q[i]);
		request_done(&q[i]);
		memset(&q[i], 0, sizeof(q[i]));
	}
	return r;
}

/* The parent ends this process, not the terminal: signals of the process group are ignored. */
static void own_signals(void)
{
	static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGTSTP};
	struct sigaction sa = {.sa_handler = SIG_DFL};
	sigset_t none;

	for (int i = 1; i < NSIG; i++)
		(void)sigaction(i, &sa, NULL); /* fails for KILL, STOP and the C library's own */
	sa.sa_handler = SIG_IGN;
	for (size_t i = 0; i < ARRAY_SIZE(ignored); i++)
		(void)sigaction(ignored[i], &sa, NULL); /* as above */
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL); /* cannot fail */
}

static _Noreturn void process_main(const struct sym_engine_options *o, int sock)
{
	struct sym_engine_options own = *o;
	struct serving sv = {.sock = 0};
	struct sym_engine *e = NULL;
	struct sym_wire_head h = {.type = SYM_WIRE_OPENED};
	struct request q[SYM_WIRE_REQUESTS_MAX] = {0};
	int r;

	own_signals();
	(void)prctl(PR_SET_NAME, "pa-symbols", 0, 0, 0); /* shown by ps */
	if (own.max_fds == 0)
		own.max_fds = sym_confine_fds() / FDS_SHARE;
	h.result = sym_confine(sock, own.budget_bytes + MEMORY_BASE);
	own.stats = &sv.stats;
	own.helper = (struct sym_helper){.parts = ask_parts, .dwo = ask_dwo, .arg = &sv};
	if (h.result == 0)
		h.result = sym_engine_new(&own, &e);
	r = sym_wire_send_head(h.result == 0 ? 0 : sock, &h, no_fds);
	while (r == 0 && h.result == 0)
		r = serve_all(&sv, e, q);
	/* No output of the parent is flushed, and no exit handler of it is called. */
	_exit(0);
}

/* ---- in the agent ---------------------------------------------------------------------------- */

int sym_process_start(const struct sym_engine_options *o, struct sym_process *ret)
{
	const struct timeval wait = {.tv_sec = ANSWER_S};
	struct sym_wire_head h = {0};
	struct sym_process c = {.pidfd = -EBADF};
	int pair[2], fds[SYM_WIRE_FDS], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	c.pid = fork();
	if (c.pid == 0)
		process_main(o, pair[1]);
	r = c.pid < 0 ? -errno : 0;
	(void)close(pair[1]); /* the symbolizer process has it */
	c.sock = pair[0];
	if (r == 0)
		c.pidfd = (int)syscall(SYS_pidfd_open, c.pid, 0U);
	if (r == 0 &&
	    (c.pidfd < 0 || setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) < 0 ||
	     setsockopt(pair[0], SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)) < 0))
		r = -errno;
	if (r == 0)
		r = sym_wire_recv_head(pair[0], &h, fds);
	if (r == 0)
		r = h.result < 0 ? h.result : h.type != SYM_WIRE_OPENED ? -EIO : 0;
	if (r < 0) {
		sym_process_stop(&c);
		return r;
	}
	*ret = c;
	return 0;
}

void sym_process_stop(struct sym_process *c)
{
	siginfo_t info;

	/* Killed, not asked: a process that an untrusted file has taken over may never read its
	 * socket. */
	if (c->pidfd >= 0)
		(void)syscall(SYS_pidfd_send_signal, c->pidfd, SIGKILL, NULL,
		              0U);                         /* it may have ended */
	else if (c->pid > 0 && kill(c->pid, SIGKILL) == 0) /* just forked, so not reaped yet */
		(void)waitpid(c->pid, NULL, 0);
	closep(&c->sock);
	/* By its descriptor if there is one: the caller's program may have reaped the process, and
	 * its pid may have been reused. */
	while (c->pidfd >= 0 && waitid(P_PIDFD, (id_t)c->pidfd, &info, WEXITED) < 0 &&
	       errno == EINTR)
		;
	closep(&c->pidfd);
	c->pid = 0;
}

bool sym_process_lives(struct sym_process *c)
{
	struct pollfd p = {.fd = c->sock, .events = POLLIN};

	if (c->sock >= 0 && poll(&p, 1, 0) == 0)
		return true; /* it sends only answers */
	sym_process_stop(c);
	return false;
}

static int answer_parts(struct sym_process *c, const struct sym_helper *helper,
                        const struct sym_source *src)
{
	struct sym_wire_head h = {.type = SYM_WIRE_OPENED};
	struct sym_parts parts = {-EBADF, -EBADF, -EBADF};
	int r;

	h.result = helper->parts(helper->arg, src, &parts);
	r = sym_wire_send_head(
	        c->sock, &h, (const int[SYM_WIRE_FDS]){parts.debug_fd, parts.alt_fd, parts.dwp_fd});
	sym_parts_close(&parts);
	return r;
}

static int answer_dwo(struct sym_process *c, const struct sym_helper *helper,
                      const struct sym_source *src, const struct sym_wire_head *asked)
{
	struct sym_wire_head h = {.type = SYM_WIRE_OPENED};
	_cleanup_close_ int fd = -EBADF;
	_cleanup_free_ char *dir = NULL, *name = NULL;
	int r;

	if (asked->len[0] > SYM_WIRE_PATH_MAX || asked->len[1] > SYM_WIRE_PATH_MAX)
		return -EIO;
	dir = calloc(1, asked->len[0] + 1);
	name = calloc(1, asked->len[1] + 1);
	if (!dir || !name)
		return -ENOMEM;
	r = sym_wire_recv(c->sock, dir, asked->len[0]);
	if (r == 0)
		r = sym_wire_recv(c->sock, name, asked->len[1]);
	if (r < 0)
		return r;
	h.result = helper->dwo(helper->arg, src, dir, name, &fd);
	return sym_wire_send_head(c->sock, &h, (const int[SYM_WIRE_FDS]){fd, -EBADF, -EBADF});
}

static int send_request(struct sym_process *c, const struct sym_request *a, size_t more)
{
	const struct sym_source *src = &a->src;
	const struct sym_wire_head h = {
	        .type = SYM_WIRE_RESOLVE,
	        .result = (int32_t)more,
	        .id = src->id,
	        .n = a->n,
	        .len = {MIN_OF(strlen(src->path), SYM_WIRE_PATH_MAX), src->mem ? src->mem_len : 0},
	};
	const struct sym_wire_piece pieces[] = {
	        {a->offs, a->n * sizeof(*a->offs)}, {src->path, h.len[0]}, {src->mem, h.len[1]}};
	const int fds[SYM_WIRE_FDS] = {src->mem ? -EBADF : src->fd, -EBADF, -EBADF};

	return sym_wire_send(c->sock, &h, fds, pieces, ARRAY_SIZE(pieces));
}

int sym_process_send(struct sym_process *c, const struct sym_request *v, size_t n)
{
	int r = 0;

	for (size_t i = 0; i < n; i++)
		if (v[i].n > SYM_WIRE_ADDRS_MAX ||
		    (v[i].src.mem && v[i].src.mem_len > SYM_WIRE_MEM_MAX))
			return -ENOMEM;
	for (size_t i = 0; i < n && r == 0; i++)
		r = send_request(c, &v[i], n - 1 - i);
	if (r < 0)
		sym_process_stop(c);
	return r;
}

int sym_process_receive(struct sym_process *c, const struct sym_helper *helper,
                        const struct sym_request *a, struct sym_batch *ret,
                        struct sym_engine_stats *ret_stats, uint64_t *ret_cpu_ns)
{
	const uint64_t end_ns = now_ns() + BATCH_S * NSEC_PER_SEC;
	struct sym_wire_head h;
	int fds[SYM_WIRE_FDS], r = 0;
	uint32_t asked = 0;

	while (r == 0) {
		r = sym_wire_recv_head(c->sock, &h, fds);
		for (size_t i = 0; i < SYM_WIRE_FDS; i++)
			closep(&fds[i]); /* it has no descriptors to send */
		if (r < 0 || ++asked > REQUESTS_MAX || now_ns() > end_ns)
			break;
		if (h.type == SYM_WIRE_PARTS) {
			r = answer_parts(c, helper, &a->src);
		} else if (h.type == SYM_WIRE_DWO) {
			r = answer_dwo(c, helper, &a->src, &h);
		} else if (h.type == SYM_WIRE_RESULT) {
			r = sym_wire_recv_batch(c->sock, &h, a->n, ret, ret_stats, ret_cpu_ns);
			if (r == 0 || h.result == -ENOMEM)
				return r;
		} else {
			r = -EIO;
		}
	}
	sym_process_stop(c);
	return r == -ENOMEM ? r : -EIO;
}
