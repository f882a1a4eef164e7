/* SPDX-License-Identifier: Apache-2.0 */
/*
 * waits - threads whose waits are known by construction, and that time them themselves.
 *
 * usage: waits KIND [--seconds S] ...; KIND is one of the table at the end. Each kind starts named
 * threads; a thread runs BODY → chain_0 → … → chain_9 → wait_KIND, and wait_KIND is where it
 * waits: one function for each kind of wait, without frame pointers as the rest of the program.
 * The main thread takes orders in waits_orders:
 *   SIGUSR2  print what the threads measured up to now, one JSON object on one line
 *   SIGUSR1  "go": what it means depends on the kind (release a stuck thread, begin)
 *   SIGTERM  print as for SIGUSR2 and end; so does the end of --seconds
 *
 * {"now_ns":N,"realtime_ns":N,"slept":N,"ran_on":N,"threads":[{"name":"sleeper","tid":T,"start_ns":N,"cpu_ns":N,"turns":N,"waits":N,
 *   "wait_ns":N,"since_ns":N,"log_full":false,"log":[[begin_ns,end_ns],…]},…]}
 * slept and ran_on are the kernel's counts of switches of all threads: voluntary ones, and others.
 * All times are of CLOCK_MONOTONIC, realtime_ns is now_ns by CLOCK_REALTIME; cpu_ns is the thread's
 * CPU clock. waits and wait_ns are of waits that ended, since_ns is the begin of one that has not
 * (or 0): read just around the call, so that it holds the time until the thread runs again too. The
 * log has the newest LOG_CAP of them.
 */
#include "workload.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/timerfd.h>

#define THREADS_MAX  512
#define LOG_CAP      65536 /* 1 MiB a thread, touched as it is used: 11 minutes of waits of 10 ms */
#define CHAIN_FRAMES 10    /* without the one that asks for more */

struct wait_time {
	uint64_t begin_ns, end_ns;
};

struct thread {
	char name[16];
	void (*body)(struct thread *t); /* does not return, or ends the thread */
	void (*site)(struct thread *t);
	int cpu;     /* to be pinned to; -1: not */
	int fd;      /* to wait on, or to read from */
	int peer_fd; /* to write to */
	struct thread *peer;
	/* Futex; semaphores and conditions where they are what is measured. */
	_Atomic uint32_t word;
	sem_t turn;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	void *buf;

	pthread_t id;
	atomic_int tid;
	uint64_t start_ns;

	/* Written by the thread, read by main under the sequence. */
	atomic_uint seq;
	_Atomic uint64_t waits, wait_ns, since_ns, turns;
	struct wait_time *log;
};

static struct thread threads[THREADS_MAX];
static int thread_cnt;
static sem_t started, go;
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;

static double opt_seconds = 60, opt_ms = 10, opt_threads = 8, opt_busy = 2, opt_cpu = -1;
static double opt_count = 100000, opt_peer_cpu = -1, opt_bytes = 65536, opt_frames = CHAIN_FRAMES;
static const char *opt_file;
static bool opt_futex;

__attribute__((noreturn)) static void die(const char *what)
{
	fprintf(stderr, "waits: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* ---- measuring ------------------------------------------------------------------------------ */

static inline __attribute__((always_inline)) void wait_begin(struct thread *t)
{
	t->since_ns = wl_now_ns();
}

static inline __attribute__((always_inline)) void wait_end(struct thread *t)
{
	uint64_t end_ns = wl_now_ns();
	uint64_t n = t->waits;

	t->seq++;
	if (t->log)
		t->log[n % LOG_CAP] = (struct wait_time){t->since_ns, end_ns};
	t->wait_ns += end_ns - t->since_ns;
	t->waits = n + 1;
	t->since_ns = 0;
	t->seq++;
}

static uint64_t thread_cpu_ns(struct thread *t)
{
	clockid_t clock;

	return pthread_getcpuclockid(t->id, &clock) ? 0 : wl_clock_ns(clock);
}

static void print_log(const struct thread *t, uint64_t waits)
{
	uint64_t first = waits > LOG_CAP ? waits - LOG_CAP : 0;

	for (uint64_t i = first; i < waits; i++)
		printf("%s[%llu,%llu]", i > first ? "," : "",
		       (unsigned long long)t->log[i % LOG_CAP].begin_ns,
		       (unsigned long long)t->log[i % LOG_CAP].end_ns);
}

static void print_threads(void)
{
	struct rusage ru = {0};

	(void)getrusage(RUSAGE_SELF, &ru);
	printf("{\"now_ns\":%llu,\"realtime_ns\":%llu,\"slept\":%ld,\"ran_on\":%ld,\"threads\":[",
	       (unsigned long long)wl_now_ns(), (unsigned long long)wl_clock_ns(CLOCK_REALTIME),
	       ru.ru_nvcsw, ru.ru_nivcsw);
	for (int i = 0; i < thread_cnt; i++) {
		struct thread *t = &threads[i];
		uint64_t waits, wait_ns, since_ns, turns;
		unsigned seq;

		do {
			seq = t->seq;
			waits = t->waits;
			wait_ns = t->wait_ns;
			since_ns = t->since_ns;
			turns = t->turns;
		} while (seq != t->seq || seq & 1);
		printf("%s{\"name\":\"%s\",\"tid\":%d,\"start_ns\":%llu,\"cpu_ns\":%llu,"
		       "\"turns\":%llu,\"waits\":%llu,\"wait_ns\":%llu,\"since_ns\":%llu,"
		       "\"log_full\":%s,\"log\":[",
		       i ? "," : "", t->name, t->tid, (unsigned long long)t->start_ns,
		       (unsigned long long)thread_cpu_ns(t), (unsigned long long)turns,
		       (unsigned long long)waits, (unsigned long long)wait_ns,
		       (unsigned long long)since_ns, waits > LOG_CAP ? "true" : "false");
		if (t->log)
			print_log(t, waits);
		printf("]}");
	}
	printf("]}\n");
	fflush(stdout);
}

/* ---- the way to the wait -------------------------------------------------------------------- */

/* Frames of different sizes, none of which is the last call of its caller. */
#define CHAIN(n, next)                                                                             \
	WL_FUNC static void chain_##n(struct thread *t)                                            \
	{                                                                                          \
		volatile uint64_t room[2 * (n) + 1];                                               \
                                                                                                   \
		room[n] = (uintptr_t)t;                                                            \
		next(t);                                                                           \
		wl_sink += room[n];                                                                \
	}
#define CHAIN_END(t) (t)->site(t)
CHAIN(9, CHAIN_END)
CHAIN(8, chain_9)
CHAIN(7, chain_8)
CHAIN(6, chain_7)
CHAIN(5, chain_6)
CHAIN(4, chain_5)
CHAIN(3, chain_4)
CHAIN(2, chain_3)
CHAIN(1, chain_2)
CHAIN(0, chain_1)

/* --frames of them lie above the wait. */
WL_FUNC static void chain_deep(struct thread *t, unsigned more)
{
	static void (*const from[CHAIN_FRAMES])(struct thread *) = {
	        chain_9, chain_8, chain_7, chain_6, chain_5,
	        chain_4, chain_3, chain_2, chain_1, chain_0,
	};
	volatile uint64_t room[3];

	room[0] = (uintptr_t)t;
	if (more > CHAIN_FRAMES)
		chain_deep(t, more - 1);
	else
		from[more - 1](t);
	wl_sink += room[0];
}

/* For bodies that do nothing else. */
WL_FUNC static void repeat(struct thread *t)
{
	if ((unsigned)opt_frames == CHAIN_FRAMES)
		for (;;)
			chain_0(t);
	for (;;)
		chain_deep(t, (unsigned)opt_frames - 1);
}

WL_FUNC static void *thread_main(void *arg)
{
	struct thread *t = arg;
	cpu_set_t set;

	pthread_setname_np(pthread_self(), t->name);
	if (t->cpu >= 0) {
		CPU_ZERO(&set);
		CPU_SET(t->cpu, &set);
		if (pthread_setaffinity_np(pthread_self(), sizeof(set), &set) != 0) {
			fprintf(stderr, "waits: cannot be pinned to CPU %d\n", t->cpu);
			exit(1);
		}
	}
	t->tid = wl_gettid();
	t->start_ns = wl_now_ns();
	sem_post(&started);
	t->body(t);
	return NULL;
}

/* A thread that is yet to be started. */
static struct thread *add(const char *name, void (*body)(struct thread *),
                          void (*site)(struct thread *))
{
	struct thread *t;

	if (thread_cnt == THREADS_MAX) {
		fprintf(stderr, "waits: more than %d threads\n", THREADS_MAX);
		exit(1);
	}
	t = &threads[thread_cnt++];
	snprintf(t->name, sizeof(t->name), "%s", name);
	t->body = body;
	t->site = site;
	t->cpu = -1;
	t->fd = t->peer_fd = -1;
	sem_init(&t->turn, 0, 0);
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->cond, NULL);
	t->log = calloc(LOG_CAP, sizeof(*t->log));
	if (!t->log)
		die("calloc");
	return t;
}

static long futex(_Atomic uint32_t *word, int op, uint32_t value)
{
	return syscall(SYS_futex, word, op, value, NULL, NULL, 0);
}

/* A pause that is not what is measured. */
WL_FUNC static void pace(double ms)
{
	uint64_t ns = (uint64_t)(ms * (double)WL_NSEC_PER_MSEC);
	struct timespec ts = {(time_t)(ns / WL_NSEC_PER_SEC), (long)(ns % WL_NSEC_PER_SEC)};

	nanosleep(&ts, NULL);
}

/* ---- waits ---------------------------------------------------------------------------------- */

WL_FUNC static void wait_sleep(struct thread *t)
{
	wait_begin(t);
	pace(opt_ms);
	wait_end(t);
}

WL_FUNC static void wait_pipe(struct thread *t)
{
	char byte;

	wait_begin(t);
	if (read(t->fd, &byte, 1) != 1)
		die("read of a pipe");
	wait_end(t);
}

WL_FUNC static void feed_pipe(struct thread *t)
{
	if (write(t->fd, "x", 1) != 1)
		die("write to a pipe");
	t->turns++;
}

WL_FUNC static void feeder(struct thread *t)
{
	for (;;) {
		pace(opt_ms);
		chain_0(t);
	}
}

WL_FUNC static void wait_futex(struct thread *t)
{
	uint32_t seen = t->word;

	wait_begin(t);
	while (t->word == seen)
		futex(&t->word, FUTEX_WAIT_PRIVATE, seen);
	wait_end(t);
}

WL_FUNC static void feed_futex(struct thread *t)
{
	t->peer->word++;
	futex(&t->peer->word, FUTEX_WAKE_PRIVATE, 1);
	t->turns++;
}

WL_FUNC static void wait_epoll(struct thread *t)
{
	struct epoll_event event;
	uint64_t ticks;
	int n;

	wait_begin(t);
	n = epoll_wait(t->fd, &event, 1, -1);
	wait_end(t);
	if (n != 1 || read(event.data.fd, &ticks, sizeof(ticks)) != sizeof(ticks))
		die("epoll_wait");
	t->turns += ticks;
}

WL_FUNC static void wait_odirect(struct thread *t)
{
	size_t bytes = (size_t)opt_bytes;
	struct stat st;
	ssize_t n;

	if (fstat(t->fd, &st) < 0)
		die("fstat");
	wl_sink = wl_mix(wl_sink | 1);
	wait_begin(t);
	n = pread(t->fd, t->buf, bytes, (off_t)(wl_sink % ((uint64_t)st.st_size / bytes) * bytes));
	wait_end(t);
	if (n != (ssize_t)bytes)
		die("pread with O_DIRECT");
}

/* The mutex goes from one to the other: the waiter asks for it only when it is held. */
WL_FUNC static void wait_mutex(struct thread *t)
{
	wait_begin(t);
	pthread_mutex_lock(&shared_lock);
	wait_end(t);
	pthread_mutex_unlock(&shared_lock);
}

WL_FUNC static void mutex_waiter(struct thread *t)
{
	for (;;) {
		while (sem_wait(&t->turn) != 0)
			;
		chain_0(t);
		sem_post(&t->peer->turn);
	}
}

WL_FUNC static void release_mutex(struct thread *t)
{
	pthread_mutex_unlock(&shared_lock);
	t->turns++;
}

WL_FUNC static void mutex_holder(struct thread *t)
{
	for (;;) {
		pthread_mutex_lock(&shared_lock);
		sem_post(&t->peer->turn);
		pace(opt_ms);
		chain_0(t);
		while (sem_wait(&t->turn) != 0)
			;
	}
}

WL_FUNC static void wait_stuck(struct thread *t)
{
	char byte;

	wait_begin(t);
	if (read(t->fd, &byte, 1) != 1)
		die("read of a pipe");
	wait_end(t);
}

/* "go" lets it out of its wait, and into the next one. */
WL_FUNC static void stuck_releaser(struct thread *t)
{
	for (;;) {
		while (sem_wait(&go) != 0)
			;
		feed_pipe(t);
	}
}

WL_FUNC static void spin(struct thread *t)
{
	for (int i = 0; i < 100; i++)
		wl_batch();
	t->turns++;
}

WL_FUNC static void yield(struct thread *t)
{
	for (int i = 0; i < 100; i++)
		sched_yield();
	t->turns += 100;
}

WL_FUNC static void wait_pingpong(struct thread *t)
{
	char byte;

	if (read(t->fd, &byte, 1) != 1 || write(t->peer_fd, &byte, 1) != 1)
		die("ping-pong over pipes");
	t->turns++;
}

WL_FUNC static void wait_pingpong_futex(struct thread *t)
{
	while (!t->word)
		futex(&t->word, FUTEX_WAIT_PRIVATE, 0);
	t->word = 0;
	t->peer->word = 1;
	futex(&t->peer->word, FUTEX_WAKE_PRIVATE, 1);
	t->turns++;
}

/* Without sched_yield: many sleepers that also yield starve the kernel's own threads, and RCU's
 * grace periods take as long as the storm [tried: 6.18, 60 threads, one yield in 16 turns]. */
WL_FUNC static void wait_storm(struct thread *t)
{
	const struct timespec ts = {0, 100000};

	nanosleep(&ts, NULL);
	t->turns++;
}

WL_FUNC static void wait_work(struct thread *t)
{
	pthread_mutex_lock(&t->lock);
	wait_begin(t);
	while (!t->word)
		pthread_cond_wait(&t->cond, &t->lock);
	wait_end(t);
	t->word = 0;
	pthread_mutex_unlock(&t->lock);
	for (int i = 0; i < 5; i++)
		wl_batch();
	t->turns++;
}

/* Work goes to the first --busy workers only, as in a pool that takes the worker that waits the
 * shortest. */
WL_FUNC static void pool_feeder(struct thread *t)
{
	for (unsigned i = 0;; i++) {
		struct thread *worker = &threads[i % (unsigned)opt_busy];

		pace(opt_ms);
		pthread_mutex_lock(&worker->lock);
		worker->word = 1;
		pthread_mutex_unlock(&worker->lock);
		pthread_cond_signal(&worker->cond); /* no second wait, for the lock */
		t->turns++;
	}
}

#define SHORT_AT_ONCE 8

/* Long enough to leave the CPU. */
WL_FUNC static void *short_thread(void *arg)
{
	const struct timespec ts = {0, 200000};
	char name[16];

	(void)snprintf(name, sizeof(name), "short-%d", (int)gettid());
	prctl(PR_SET_NAME, name);
	nanosleep(&ts, NULL);
	return arg;
}

static void set_name(struct thread *t, const char *name)
{
	if ((errno = pthread_setname_np(t->id, name)) != 0)
		die("pthread_setname_np");
}

WL_FUNC static void run_for(double ms)
{
	uint64_t until_ns = wl_now_ns() + (uint64_t)(ms * (double)WL_NSEC_PER_MSEC);

	while (wl_now_ns() < until_ns)
		wl_batch();
}

/* The log has when it was "one": it runs --ms and sleeps --ms then, and twice as long as "two". */
WL_FUNC static void renames_itself(struct thread *t)
{
	set_name(t, "one");
	wait_begin(t);
	run_for(opt_ms);
	pace(opt_ms);
	wait_end(t);
	set_name(t, "two");
	run_for(2 * opt_ms);
	pace(2 * opt_ms);
}

WL_FUNC static void is_renamed(struct thread *t)
{
	run_for(0.5);
	pace(0.5);
	t->turns++;
}

/* The log has when its peer was "one". */
WL_FUNC static void renames_another(struct thread *t)
{
	pace(20 * opt_ms);
	set_name(t->peer, "one");
	wait_begin(t);
	pace(10 * opt_ms);
	wait_end(t);
	set_name(t->peer, "two");
}

/* Threads that have no room in the table: there are too many. */
WL_FUNC static void maker(struct thread *t)
{
	prctl(PR_SET_TIMERSLACK, 1L, 0, 0, 0); /* the threads inherit it */
	while (sem_wait(&go) != 0)
		;
	for (long i = 0; i < (long)opt_count; i += SHORT_AT_ONCE) {
		pthread_t id[SHORT_AT_ONCE];

		for (int k = 0; k < SHORT_AT_ONCE; k++)
			if ((errno = pthread_create(&id[k], NULL, short_thread, NULL)) != 0)
				die("pthread_create");
		for (int k = 0; k < SHORT_AT_ONCE; k++)
			pthread_join(id[k], NULL);
		t->turns += SHORT_AT_ONCE;
	}
	printf("{\"done\":%llu}\n", (unsigned long long)t->turns);
	fflush(stdout);
	for (;;)
		pause();
}

/* ---- kinds ---------------------------------------------------------------------------------- */

static void make_pipe(int *ret_read, int *ret_write)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		die("pipe");
	*ret_read = fds[0];
	*ret_write = fds[1];
}

static void set_up_sleep(void)
{
	add("sleeper", repeat, wait_sleep);
}

static void set_up_pipe(void)
{
	struct thread *reader = add("reader", repeat, wait_pipe);
	struct thread *writer = add("writer", feeder, feed_pipe);

	make_pipe(&reader->fd, &writer->fd);
}

static void set_up_feed(void)
{
	struct thread *writer = add("writer", feeder, feed_pipe);

	writer->fd = open(opt_file ? opt_file : "", O_WRONLY | O_CLOEXEC);
	if (writer->fd < 0)
		die("--file");
}

static void set_up_futex(void)
{
	struct thread *waiter = add("waiter", repeat, wait_futex);
	struct thread *poster = add("poster", feeder, feed_futex);

	poster->peer = waiter;
}

static void set_up_epoll(void)
{
	struct thread *t = add("poller", repeat, wait_epoll);
	uint64_t ns = (uint64_t)(opt_ms * (double)WL_NSEC_PER_MSEC);
	struct itimerspec when = {
	        .it_interval = {(time_t)(ns / WL_NSEC_PER_SEC), (long)(ns % WL_NSEC_PER_SEC)}};
	struct epoll_event event = {.events = EPOLLIN};

	when.it_value = when.it_interval;
	t->fd = epoll_create1(EPOLL_CLOEXEC);
	event.data.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	if (t->fd < 0 || event.data.fd < 0 || timerfd_settime(event.data.fd, 0, &when, NULL) < 0 ||
	    epoll_ctl(t->fd, EPOLL_CTL_ADD, event.data.fd, &event) < 0)
		die("epoll");
}

/* --file is read: at least a few times --bytes long. Ends with 77 where the file system has no
 * O_DIRECT. */
static void set_up_odirect(void)
{
	struct thread *t = add("direct", repeat, wait_odirect);

	t->fd = open(opt_file ? opt_file : "", O_RDONLY | O_DIRECT | O_CLOEXEC);
	if (t->fd < 0 && errno == EINVAL)
		exit(77);
	if (t->fd < 0 || posix_memalign(&t->buf, 4096, (size_t)opt_bytes) != 0)
		die("--file");
	if (pread(t->fd, t->buf, (size_t)opt_bytes, 0) != (ssize_t)opt_bytes)
		exit(77);
}

static void set_up_mutex(void)
{
	struct thread *holder = add("holder", mutex_holder, release_mutex);
	struct thread *waiter = add("waiter", mutex_waiter, wait_mutex);

	holder->peer = waiter;
	waiter->peer = holder;
}

static void set_up_stuck(void)
{
	struct thread *t = add("stuck", repeat, wait_stuck);

	make_pipe(&t->fd, &add("releaser", stuck_releaser, NULL)->fd);
}

static void set_up_spinners(void)
{
	for (int i = 0; i < (int)opt_threads; i++)
		add("", repeat, spin)->cpu = (int)opt_cpu;
}

static void set_up_yielders(void)
{
	for (int i = 0; i < (int)opt_threads; i++)
		add("", repeat, yield)->cpu = (int)opt_cpu;
}

static void set_up_pingpong(void)
{
	struct thread *ping = add("ping", repeat, opt_futex ? wait_pingpong_futex : wait_pingpong);
	struct thread *pong = add("pong", repeat, ping->site);

	ping->peer = pong;
	pong->peer = ping;
	ping->cpu = (int)opt_cpu;
	pong->cpu = (int)opt_peer_cpu;
	ping->word = 1;
	make_pipe(&ping->fd, &pong->peer_fd);
	make_pipe(&pong->fd, &ping->peer_fd);
	if (write(pong->peer_fd, "x", 1) != 1)
		die("write to a pipe");
}

static void set_up_storm(void)
{
	for (int i = 0; i < (int)opt_threads; i++)
		add("", repeat, wait_storm);
}

static void set_up_rename(void)
{
	struct thread *renamed;

	add("itself", repeat, renames_itself);
	renamed = add("renamed", repeat, is_renamed);
	add("renamer", repeat, renames_another)->peer = renamed;
}

static void set_up_short(void)
{
	add("maker", maker, NULL);
}

static void set_up_pool(void)
{
	for (int i = 0; i < (int)opt_threads; i++)
		add("", repeat, wait_work);
	add("feeder", pool_feeder, NULL);
}

static const struct kind {
	const char *name;
	void (*set_up)(void);
} kinds[] = {
        {"sleep", set_up_sleep},       /* sleeper: nanosleep of --ms */
        {"pipe", set_up_pipe},         /* reader, fed each --ms by writer */
        {"futex", set_up_futex},       /* waiter, woken each --ms by poster */
        {"epoll", set_up_epoll},       /* poller of a timer of --ms */
        {"odirect", set_up_odirect},   /* direct: reads of --bytes of --file */
        {"mutex", set_up_mutex},       /* waiter for what holder holds --ms */
        {"stuck", set_up_stuck},       /* stuck, until "go", and again; releaser */
        {"spin", set_up_spinners},     /* --threads spinners, pinned to --cpu */
        {"yield", set_up_yielders},    /* --threads of sched_yield, pinned to --cpu */
        {"pingpong", set_up_pingpong}, /* ping on --cpu, pong on --peer-cpu; --futex */
        {"storm", set_up_storm},       /* --threads of short sleeps */
        {"short", set_up_short},       /* maker: --count threads one by one, after "go" */
        {"pool", set_up_pool},         /* --threads workers, --busy of them get work each --ms */
        {"feed", set_up_feed},         /* writer alone: a byte into --file each --ms */
        {"rename", set_up_rename},     /* itself, and renamed by renamer: "one" or "two" */
};

WL_FUNC static void waits_orders(const sigset_t *set, uint64_t until_ns)
{
	for (;;) {
		uint64_t now_ns = wl_now_ns();
		uint64_t left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
		struct timespec ts = {(time_t)(left_ns / WL_NSEC_PER_SEC),
		                      (long)(left_ns % WL_NSEC_PER_SEC)};
		int sig = sigtimedwait(set, NULL, &ts);

		if (sig < 0 && errno == EINTR) /* stopped and continued */
			continue;
		if (sig == SIGUSR1) {
			sem_post(&go);
			continue;
		}
		print_threads();
		if (sig != SIGUSR2)
			return;
	}
}

int main(int argc, char **argv)
{
	const struct wl_opt opts[] = {
	        WL_OPT_SECONDS(opt_seconds),
	        {.name = "ms", .num = &opt_ms, .min = 0.001, .max = 100000},
	        {.name = "threads", .num = &opt_threads, .min = 1, .max = THREADS_MAX - 1},
	        {.name = "busy", .num = &opt_busy, .min = 1, .max = THREADS_MAX - 1},
	        {.name = "cpu", .num = &opt_cpu, .min = 0, .max = CPU_SETSIZE - 1},
	        {.name = "peer-cpu", .num = &opt_peer_cpu, .min = 0, .max = CPU_SETSIZE - 1},
	        {.name = "count", .num = &opt_count, .min = 1, .max = 1e9},
	        {.name = "bytes", .num = &opt_bytes, .min = 4096, .max = 1 << 24},
	        {.name = "file", .text = &opt_file},
	        {.name = "futex", .flag = &opt_futex},
	        {.name = "frames", .num = &opt_frames, .min = 2, .max = 120},
	        WL_OPT_END,
	};
	const struct kind *kind = kinds;
	const struct kind *end = kinds + sizeof(kinds) / sizeof(kinds[0]);
	sigset_t set;

	while (kind < end && (argc < 2 || strcmp(kind->name, argv[1]) != 0))
		kind++;
	if (kind == end)
		wl_usage("waits KIND", opts);
	wl_options(argc - 1, argv + 1, opts);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, NULL); /* in all threads: main takes them */
	sem_init(&started, 0, 0);
	sem_init(&go, 0, 0);
	kind->set_up();
	for (int i = 0; i < thread_cnt; i++) {
		struct thread *t = &threads[i];

		if (!t->name[0])
			snprintf(t->name, sizeof(t->name), "%.9s-%d", kind->name, i);
		if ((errno = pthread_create(&t->id, NULL, thread_main, t)) != 0)
			die("pthread_create");
	}
	for (int i = 0; i < thread_cnt; i++)
		while (sem_wait(&started) != 0)
			;
	wl_ready();
	waits_orders(&set, wl_now_ns() + wl_seconds_ns(opt_seconds));
	fflush(stdout);
	_exit(0); /* the threads wait for ever */
}
