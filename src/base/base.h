/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base - memory, errors, containers, bytes, time. Depends on libc and xxhash only.
 * Nothing here logs, exits or keeps global state. Thread: any, objects belong to one thread
 * unless their comment says otherwise.
 */
#ifndef PA_BASE_H
#define PA_BASE_H

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/columns.h"
#include "base/utf8.h"
#include "base/imap.h"

#define ARRAY_SIZE(a)    (sizeof(a) / sizeof((a)[0]))
#define PRINTF_FMT(f, a) __attribute__((format(printf, f, a)))
#define MIN_OF(a, b)     ((a) < (b) ? (a) : (b))
#define MAX_OF(a, b)     ((a) > (b) ? (a) : (b))

#define NSEC_PER_SEC  1000000000ULL
#define NSEC_PER_MSEC 1000000ULL

/* ---- cleanup and ownership ------------------------------------------------------------------ */

#define _cleanup_(fn)   __attribute__((cleanup(fn)))
#define _cleanup_free_  _cleanup_(freep)
#define _cleanup_close_ _cleanup_(closep)

/**
 * TAKE_PTR, TAKE_FD - move a pointer or descriptor out of a variable
 * Leaves NULL or -EBADF in it, which the cleanup attribute does not free or close.
 */
#define TAKE_PTR(p)                                                                                \
	({                                                                                         \
		__typeof__(p) _take = (p);                                                         \
		(p) = NULL;                                                                        \
		_take;                                                                             \
	})
#define TAKE_FD(fd)                                                                                \
	({                                                                                         \
		int _take = (fd);                                                                  \
		(fd) = -EBADF;                                                                     \
		_take;                                                                             \
	})

/**
 * freep, closep - free or close the value of a variable, leave NULL or -EBADF in it
 * @p:  points to a pointer variable of any type
 * @fd: closed if *fd >= 0; errno is kept
 * For the cleanup attribute, like every x_freep, which leaves NULL as well.
 */
void freep(void *p);
void closep(int *fd);

/* ---- errors --------------------------------------------------------------------------------- */

/* The reason of a failure, where a caller decides on it. The object of a failure depends on it.
 * Reaches the public header (enum pfa_cause): append-only. */
enum err_cause {
	ERR_NONE = 0,       /* not known, or no caller decides on it */
	ERR_CAPABILITY = 1, /* the capabilities that are missing: "CAP_BPF, CAP_PERFMON" */
	ERR_USER_NS = 2,    /* capabilities of a user namespace do not count; no object */
	ERR_SECCOMP = 3,    /* a seccomp filter or a security module refuses; the system call */
	ERR_LOCKDOWN = 4,   /* kernel lockdown: its mode */
	ERR_SYSCTL = 5,     /* the sysctl that refuses: "kernel.perf_event_paranoid" */
	ERR_MEMLOCK = 6,    /* RLIMIT_MEMLOCK is too low; no object */
	ERR_NO_BTF = 7,     /* the kernel has no BTF, or it is not readable: its file */
	ERR_OUTPUT = 8,     /* an output cannot be written: its path, or "descriptor 3" */
	ERR_LEFT_OUT = 9,   /* a mode was left out, and a note says why: its title */
};

/* The function that knows a failure best describes it, once: the call, the object, the symbol of
 * the error (not its locale text) and the remedy. Callers pass NULL when they do not care. The
 * message is for people: control flow reads code, cause and object only. */
struct err {
	int code; /* negative errno, 0 = none */
	enum err_cause cause;
	char object[64]; /* "": none; a longer one loses its end */
	char msg[512];
};

/**
 * err_set - describe a failure of no particular cause
 * @e:    may be NULL; a message that does not fit loses its end
 * @code: negative errno
 * @fmt:  e->msg may be among its arguments
 * Returns: @code, so that `return err_set(err, -EINVAL, …)` reads well. Keeps errno.
 */
int err_set(struct err *e, int code, const char *fmt, ...) PRINTF_FMT(3, 4);
/**
 * err_set_cause - describe a failure whose cause is known
 * @object: see enum err_cause; NULL: none
 * @fmt:    e->msg and e->object may be among its arguments
 * Returns: @code. Keeps errno.
 */
int err_set_cause(struct err *e, int code, enum err_cause cause, const char *object,
                  const char *fmt, ...) PRINTF_FMT(5, 6);
/**
 * err_copy - hand on a failure as it was described
 * @to: may be NULL
 * Returns: the code of @from. Keeps errno.
 */
int err_copy(struct err *to, const struct err *from);
/**
 * err_prefix - put "<prefix>: " before the message that is there; cause and object stay
 * @e: may be NULL
 * Returns: e's code, 0 if @e is NULL. Keeps errno.
 */
int err_prefix(struct err *e, const char *fmt, ...) PRINTF_FMT(2, 3);
/**
 * err_symbol - symbol of an errno, positive or negative: "EPERM"
 * Returns: a static string; for an unknown one "E#999", valid until this thread's next unknown one.
 */
const char *err_symbol(int code);
/**
 * err_name - an errno in words with its symbol, for messages: "permission denied (EACCES)"
 * Returns: a string that is valid until this thread's next call but one; the symbol alone if the
 * errno is unknown. The words do not depend on the locale.
 */
const char *err_name(int code);

/* ---- sizes ---------------------------------------------------------------------------------- */

/**
 * size_mul, size_add - a * b and a + b in *ret
 * Returns: false when the result does not fit; *ret is then the result modulo 2^64.
 */
static inline bool size_mul(size_t a, size_t b, size_t *ret)
{
	return !__builtin_mul_overflow(a, b, ret);
}

static inline bool size_add(size_t a, size_t b, size_t *ret)
{
	return !__builtin_add_overflow(a, b, ret);
}

/* ---- strings -------------------------------------------------------------------------------- */

/**
 * str_copy - copy with a bound, always terminated (if @dst_size > 0)
 * @dst_size: bytes of @dst, with the NUL
 * Returns: 0, -E2BIG if truncated.
 */
int str_copy(char *dst, size_t dst_size, const char *src);
/**
 * parse_u64 - a whole string as an unsigned number
 * @base: 10 or 16 (16 accepts an optional 0x)
 * Returns: 0, -EINVAL (empty, sign, blank or junk), -ERANGE (overflow). @ret untouched on failure.
 */
int parse_u64(const char *s, int base, uint64_t *ret);
/**
 * parse_i64_range - a whole string as a decimal number in [min, max]; a leading '-' is allowed
 * Returns: 0, -EINVAL, -ERANGE (outside, or overflow), as parse_u64.
 */
int parse_i64_range(const char *s, int64_t min, int64_t max, int64_t *ret);
/**
 * str_base_name - returns the part of a path after the last slash, or all of it; borrowed from
 * @path
 */
const char *str_base_name(const char *path);
/**
 * str_starts - returns whether @s begins with @prefix
 */
bool str_starts(const char *s, const char *prefix);

/* A growing string or byte buffer with a cap. The first failure stays in .err (-ENOMEM, -E2BIG),
 * and later additions do nothing: one check at the end is enough. */
struct sbuf {
	char *p; /* p[len] is always 0 once anything was added; NULL while empty */
	size_t len, cap, max;
	int err;
};
/**
 * sbuf_init, sbuf_done, sbuf_reset - begin, free, empty a buffer
 * @max_bytes: cap of .len; done keeps it, reset keeps the memory too; both clear .err
 * Allocates: no.
 */
void sbuf_init(struct sbuf *b, size_t max_bytes);
void sbuf_done(struct sbuf *b);
void sbuf_reset(struct sbuf *b);
/**
 * sbuf_add, sbuf_str, sbuf_char, sbuf_addf - append bytes, a string, a byte, formatted text
 * @data: @len bytes, outside of @b: it may move
 * All or nothing is added.
 * Returns: 0, -E2BIG (over the cap), -ENOMEM, or the earlier error of .err.
 */
int sbuf_add(struct sbuf *b, const void *data, size_t len);
int sbuf_str(struct sbuf *b, const char *s);
int sbuf_char(struct sbuf *b, char c);
int sbuf_addf(struct sbuf *b, const char *fmt, ...) PRINTF_FMT(2, 3);
/**
 * sbuf_reserve - make room for @len bytes and a NUL
 * Returns: where to write them, valid until the next addition; NULL with .err set: -E2BIG, -ENOMEM.
 * .len is not advanced: who adds to it also sets p[len] = 0.
 */
void *sbuf_reserve(struct sbuf *b, size_t len);
/**
 * sbuf_take - move the string out ("" if empty), for free(); the buffer is empty then
 * Returns: NULL if .err is set, or without memory for "".
 */
char *sbuf_take(struct sbuf *b);

/* ---- files ---------------------------------------------------------------------------------- */

/**
 * file_read_all - read a whole (small or /proc) file
 * @dirfd: AT_FDCWD or a directory
 * @b:     appended to; its cap bounds the read: -E2BIG with .err set past it
 * Returns: 0, negative errno; bytes read before a failure stay in @b. Reads in chunks until end
 * of file, so sizes of 0 in /proc do not matter. Does not wait for the writer of a FIFO.
 */
int file_read_all(int dirfd, const char *path, struct sbuf *b, struct err *err);
/**
 * file_read_fd - read a whole file from the current position of a descriptor
 * Returns: 0, -E2BIG, -ENOMEM, errno of read; bytes read before a failure stay in @b.
 */
int file_read_fd(int fd, struct sbuf *b);
/**
 * file_pread_full - pread until @len bytes or end of file; retries EINTR
 * Returns: bytes read, less than @len only at the end of the file; -EINVAL (past 2^63), errno of
 * pread.
 */
ssize_t file_pread_full(int fd, void *buf, size_t len, uint64_t off);
/**
 * file_write_full - write all bytes; retries EINTR
 * @fd: blocking
 * Returns: 0, -EIO (write wrote nothing), errno of write; a part may be written then.
 */
int file_write_full(int fd, const void *buf, size_t len);

/* ---- typed vector --------------------------------------------------------------------------- */

/* VEC(struct x) v = VEC_INIT(max_items); elements v.p[0 … v.n). */
#define VEC(type)                                                                                  \
	struct {                                                                                   \
		type *p;                                                                           \
		size_t n, cap, max;                                                                \
	}
#define VEC_INIT(max_items)                                                                        \
	{                                                                                          \
		.p = NULL, .n = 0, .cap = 0, .max = (max_items)                                    \
	}
/**
 * vec_push, vec_reserve - append an element; make room for @k more without adding them
 * Elements may move.
 * Returns: 0, -E2BIG (over the cap), -ENOMEM.
 */
#define vec_push(v, ...)                                                                           \
	({                                                                                         \
		int _r = vec_grow_(&(v)->p, &(v)->cap, (v)->n, 1, (v)->max, sizeof(*(v)->p));      \
		if (_r == 0)                                                                       \
			(v)->p[(v)->n++] = (__VA_ARGS__);                                          \
		_r;                                                                                \
	})
#define vec_reserve(v, k) vec_grow_(&(v)->p, &(v)->cap, (v)->n, (k), (v)->max, sizeof(*(v)->p))
/**
 * vec_done, vec_each - free; a for loop over all, which may change elements but not add any
 */
#define vec_done(v)                                                                                \
	do {                                                                                       \
		free((v)->p);                                                                      \
		(v)->p = NULL;                                                                     \
		(v)->n = (v)->cap = 0;                                                             \
	} while (0)
/* NULL + 0 is undefined: the length is checked first. The sum has a type without the const of a
 * read-only vector. */
#define vec_each(it, v)                                                                            \
	for (__typeof__((v)->p + 0) it = (v)->p; (v)->n && it != (v)->p + (v)->n; it++)
/**
 * vec_grow_ - makes room; the function of vec_push and vec_reserve
 * @pp:  points to the pointer to the elements, whatever its type
 * @cap: room now, in elements; @n in use, @more wanted, @max at most, of @item_size bytes each
 * Doubles the room, so that pushing is O(1).
 * Returns: 0, -E2BIG (over @max), -ENOMEM.
 */
int vec_grow_(void *pp, size_t *cap, size_t n, size_t more, size_t max, size_t item_size);

/* ---- arena ---------------------------------------------------------------------------------- */

/* Bump allocator, freed whole. Memory is zeroed and 8-byte aligned. The cap bounds used_bytes: all
 * memory of chunks, with their headers and unused ends. */
struct arena_chunk;
struct arena {
	struct arena_chunk *head;
	size_t used_bytes, max_bytes;
};
/**
 * arena_init, arena_done - begin with a cap; free all, and keep the cap
 */
void arena_init(struct arena *a, size_t max_bytes);
void arena_done(struct arena *a);
/**
 * arena_alloc, arena_strndup - allocate @len bytes; copy at most @len bytes of a string, with a NUL
 * Returns: memory that does not move until arena_done, distinct even for 0 bytes; NULL at the
 * cap or without memory.
 */
void *arena_alloc(struct arena *a, size_t len);
char *arena_strndup(struct arena *a, const char *s, size_t len);

/**
 * hash_bytes - returns a 64-bit hash of @len bytes (XXH3), the same on every machine and in every
 * version
 */
uint64_t hash_bytes(const void *p, size_t len);

/* ---- interner ------------------------------------------------------------------------------- */

/* Bytes to dense ids, in order of insertion, from 0. Open addressing over XXH3; keys are copied
 * into the interner's own storage and do not move until intern_free. */
struct intern;
#define INTERN_NONE UINT32_MAX
/**
 * intern_new - make an empty interner
 * @max_items, @max_bytes: caps; bytes as intern_bytes counts them, without the handle
 * Returns: 0, -ENOMEM.
 */
int intern_new(uint32_t max_items, size_t max_bytes, struct intern **ret);
/**
 * intern_free, intern_freep - NULL is accepted; free returns NULL
 */
struct intern *intern_free(struct intern *in);
/**
 * intern_add - find the id of a key, add it if it is new
 * @key:     @len bytes, copied
 * @ret_new: may be NULL
 * Returns: 0, -E2BIG (at a cap), -ENOMEM. Cost: O(@len), amortized.
 */
int intern_add(struct intern *in, const void *key, size_t len, uint32_t *ret_id, bool *ret_new);
/**
 * intern_find - returns the id of a key, INTERN_NONE if it was never added
 */
uint32_t intern_find(const struct intern *in, const void *key, size_t len);
/**
 * intern_get - returns the key of an id, 8-byte aligned and followed by a NUL byte
 * @id:      < intern_count, else an assert fails
 * @ret_len: may be NULL; bytes without that NUL
 * Borrowed until intern_free.
 */
const void *intern_get(const struct intern *in, uint32_t id, size_t *ret_len);
/**
 * intern_count, intern_bytes - return the number of keys; the memory in use
 */
uint32_t intern_count(const struct intern *in);
size_t intern_bytes(const struct intern *in);
void intern_freep(struct intern **in);

/* ---- sorted arrays -------------------------------------------------------------------------- */

/**
 * bisect_first - lowest index of [@from, @to) for which a condition holds, by bisection
 * @i:    name of the index in @cond, a size_t
 * @cond: expression; false for the indices below the result, true from it on
 * Value: size_t; @to if the condition holds for none. "Last item at or before x" is
 * bisect_first(i, 0, n, v[i] > x) - 1. Cost: O(log n) evaluations of @cond, inlined.
 */
#define bisect_first(i, from, to, cond)                                                            \
	({                                                                                         \
		size_t _first = (from), _end = (to);                                               \
		while (_first < _end) {                                                            \
			const size_t i = _first + (_end - _first) / 2;                             \
			if (cond)                                                                  \
				_end = i;                                                          \
			else                                                                       \
				_first = i + 1;                                                    \
		}                                                                                  \
		_first;                                                                            \
	})
/**
 * u64_cmp - for qsort and bsearch over uint64_t
 */
int u64_cmp(const void *a, const void *b);

/* ---- untrusted bytes ------------------------------------------------------------------------ */

/* The bytes left to read: [p, end). Every reader below returns 0, or -ENODATA when the bytes end
 * first; cursor and @ret are unchanged then. Allocates: no. */
struct cursor {
	const uint8_t *p, *end;
};
/**
 * cursor_of, cursor_left - make a cursor over borrowed bytes; count the bytes left to read
 */
static inline struct cursor cursor_of(const void *p, size_t len)
{
	/* NULL with 0 bytes is an empty cursor; NULL + 0 would be undefined. */
	return (struct cursor){.p = p, .end = len ? (const uint8_t *)p + len : p};
}
static inline size_t cursor_left(const struct cursor *c)
{
	return (size_t)(c->end - c->p);
}
/**
 * cursor_u8 … cursor_u64, cursor_uleb, cursor_sleb - read a number, little-endian or LEB128
 * Returns: 0, -ENODATA; *leb also -ERANGE (does not fit 64 bits).
 * Source: LEB128, DWARF 5 §7.6; padded ones of any length are accepted.
 */
int cursor_u8(struct cursor *c, uint8_t *ret);
int cursor_u16(struct cursor *c, uint16_t *ret);
int cursor_u32(struct cursor *c, uint32_t *ret);
int cursor_u64(struct cursor *c, uint64_t *ret);
int cursor_uleb(struct cursor *c, uint64_t *ret);
int cursor_sleb(struct cursor *c, int64_t *ret);
/**
 * cursor_skip, cursor_bytes, cursor_sub - skip, copy, or make a cursor over the next @n bytes
 * @dst: gets a copy of them
 * @ret: a cursor over them
 * Returns: 0, -ENODATA (fewer are left).
 */
int cursor_skip(struct cursor *c, size_t n);
int cursor_bytes(struct cursor *c, void *dst, size_t n);
int cursor_sub(struct cursor *c, size_t n, struct cursor *ret);
/**
 * cursor_str - read a NUL-terminated string, borrowed from the bytes
 * Returns: 0, -ENODATA (no NUL is left).
 */
int cursor_str(struct cursor *c, const char **ret);
/**
 * cursor_line - read a line without its '\n' (the last may lack it), borrowed from the bytes
 * @ret: *ret_len bytes, not NUL-terminated
 * Returns: 0, -ENODATA (no byte is left).
 */
int cursor_line(struct cursor *c, const char **ret, size_t *ret_len);

/* ---- time ----------------------------------------------------------------------------------- */

/**
 * now_ns, now_realtime_ns, now_boottime_ns - return the time of a clock, in ns
 */
uint64_t now_ns(void);          /* CLOCK_MONOTONIC */
uint64_t now_realtime_ns(void); /* CLOCK_REALTIME */
uint64_t now_boottime_ns(void); /* CLOCK_BOOTTIME */
/**
 * now_and_realtime_ns - read two clocks at one moment
 * @real_ns: CLOCK_REALTIME, ns
 * Returns: CLOCK_MONOTONIC, ns. Cost: below 1 us, more if the thread is preempted.
 */
uint64_t now_and_realtime_ns(uint64_t *real_ns);

/* ---- capabilities --------------------------------------------------------------------------- */

/* Returns whether the calling thread has an effective capability, by number (CAP_*). */
bool cap_effective(int cap);
/* Returns whether this is the initial user namespace, the only one whose capabilities count for
 * bpf(2) and perf_event_open(2). By /proc/self/uid_map; true if that cannot be read. */
bool cap_ns_initial(void);
/* Its parser: returns whether a map is that of the initial namespace, all numbers to themselves. */
bool cap_uid_map_is_initial(const char *text, size_t len);
/**
 * cap_explain - describe a refusal of bpf(2) or perf_event_open(2) that missing privileges explain
 * @e:    may be NULL; else gets ERR_USER_NS or ERR_CAPABILITY; untouched if privileges suffice
 * @code: negative errno
 * @what: the call and its error, "bpf(BPF_PROG_LOAD): EPERM"; e->msg is accepted
 * Returns: true if a user namespace or a missing CAP_BPF or CAP_PERFMON explains it.
 */
bool cap_explain(struct err *e, int code, const char *what);

/* ---- queue ---------------------------------------------------------------------------------- */

/* Bounded queue of fixed-size items between threads; the only way data crosses threads.
 * Thread: any, several producers and consumers. Its mutex guards all of it and is a leaf. */
struct queue;
/**
 * queue_new - make an empty queue of @max_items of @item_size bytes
 * Returns: 0, -EINVAL (a size of 0), -ENOMEM, errno of pthread_mutex_init or pthread_cond_init.
 * Allocates: all memory of the queue.
 */
int queue_new(size_t item_size, size_t max_items, struct queue **ret);
/**
 * queue_free, queue_freep - NULL is accepted; free returns NULL; no thread may be in a call
 */
struct queue *queue_free(struct queue *q);
/**
 * queue_push - copy an item in; never waits for room
 * Returns: 0, -EAGAIN (full; counted, see queue_drops), -EPIPE (closed).
 */
int queue_push(struct queue *q, const void *item);
/**
 * queue_pop - copy the oldest item out; waits until there is one
 * @timeout_ns: 0: do not wait, UINT64_MAX: wait for ever
 * Returns: 0, -ETIMEDOUT, -EPIPE (closed and empty).
 */
int queue_pop(struct queue *q, void *ret_item, uint64_t timeout_ns);
/**
 * queue_close - refuse new items and wake all waiting threads; queued items can still be popped
 */
void queue_close(struct queue *q);
/**
 * queue_drops, queue_len - return how many items were refused because it was full; how many are in
 * it
 */
uint64_t queue_drops(struct queue *q);
size_t queue_len(struct queue *q);
void queue_freep(struct queue **q);

/* ---- threads -------------------------------------------------------------------------------- */

/* A thread of ours. All zero: none. Thread: its owner starts and joins it; any reads its time. */
struct thread {
	pthread_mutex_t lock; /* guards made; a leaf */
	pthread_t id;
	bool has_lock;           /* set by the first start */
	bool made;               /* started, and not yet joined */
	_Atomic uint64_t cpu_ns; /* CPU time when it ended, or when the join began; 0: not yet */
	void (*fn)(void *arg);
	void *arg;
};
/**
 * thread_start - run @fn in a new thread with all signals blocked
 * @name: shown by ps; at most 15 bytes
 * Returns: 0, -EBUSY (it runs), errno of pthread_create or pthread_mutex_init.
 */
int thread_start(struct thread *t, void (*fn)(void *arg), void *arg, const char *name);
/**
 * thread_join - wait until it has ended; does nothing if there is none
 */
void thread_join(struct thread *t);
/**
 * thread_done - release the resources of thread_start; the thread must have been joined
 */
void thread_done(struct thread *t);
/**
 * thread_cpu_ns, thread_own_cpu_ns - return the CPU time of a thread, up to now or its end; of the
 * caller
 */
uint64_t thread_cpu_ns(struct thread *t);
uint64_t thread_own_cpu_ns(void);

/**
 * cond_init_monotonic - a condition whose timed waits are by CLOCK_MONOTONIC
 * Returns: 0, negative errno of pthread_cond_init and the like.
 */
int cond_init_monotonic(pthread_cond_t *cond);

/* Threads that run jobs in the order of pool_push. */
struct pool;
#define POOL_THREADS_MAX 16
struct pool_job {
	void (*run)(void *owner, void *item); /* in a thread of the pool */
	void *owner, *item;
};
struct pool_options {
	const char *name;   /* of the threads */
	uint32_t n_threads; /* at most POOL_THREADS_MAX; 0: callers of pool_pop run the jobs */
	size_t max_jobs;
	void (*begin)(void *arg, uint32_t i); /* first in thread number @i; may be NULL */
	void *arg;
};
/**
 * pool_new - start the threads
 * Returns: 0, -EINVAL, -ENOMEM, errno of pthread_create.
 */
int pool_new(const struct pool_options *o, struct pool **ret);
/**
 * pool_push - queue a job; never waits
 * Returns: 0, -EAGAIN (full), -EPIPE (closed). Thread: any.
 */
int pool_push(struct pool *p, const struct pool_job *job);
/**
 * pool_pop - remove the oldest queued job, for the caller to run
 * @timeout_ns: as of queue_pop
 * Returns: 0, -ETIMEDOUT, -EPIPE (closed, and none queued). Thread: any.
 */
int pool_pop(struct pool *p, struct pool_job *ret, uint64_t timeout_ns);
/**
 * pool_close - refuse new jobs; queued ones still run
 */
void pool_close(struct pool *p);
/**
 * pool_free - pool_close, run the queued jobs, release; NULL is accepted
 * Returns: NULL.
 */
struct pool *pool_free(struct pool *p);
/**
 * pool_cpu_ns, pool_size - return the CPU time of all its threads up to now; the number of jobs
 * that run at a time, at least 1. Thread: any.
 */
uint64_t pool_cpu_ns(struct pool *p);
uint32_t pool_size(const struct pool *p);

#endif
