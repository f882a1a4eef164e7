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
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* Moves the pointer out of @p, leaving NULL, so that the cleanup attribute frees nothing. */
#define TAKE_PTR(p)                                                                                \
	({                                                                                         \
		__typeof__(p) _take = (p);                                                         \
		(p) = NULL;                                                                        \
		_take;                                                                             \
	})
/* The same for a descriptor; leaves -EBADF, the empty descriptor of this project. */
#define TAKE_FD(fd)                                                                                \
	({                                                                                         \
		int _take = (fd);                                                                  \
		(fd) = -EBADF;                                                                     \
		_take;                                                                             \
	})

void freep(void *p);  /* cleanup attribute: @p points to a pointer variable; leaves NULL */
void closep(int *fd); /* closes *fd if >= 0, keeps errno, leaves -EBADF */

/* ---- errors --------------------------------------------------------------------------------- */

/* Where a failure is known best it is described here, once: the call, the object, the symbol of
 * the error (not its locale text) and the remedy. Callers pass NULL when they do not care. */
struct err {
	int code; /* negative errno, 0 = none */
	char msg[512];
};

/**
 * err_set - describe a failure
 * @e:    may be NULL
 * @code: negative errno
 * Returns: @code, so that `return err_set(err, -EINVAL, …)` reads well. Keeps errno.
 */
int err_set(struct err *e, int code, const char *fmt, ...) PRINTF_FMT(3, 4);
/* Puts "<prefix>: " before the message that is there. Returns e's code (or 0). */
int err_prefix(struct err *e, const char *fmt, ...) PRINTF_FMT(2, 3);
/* Symbol of an errno, positive or negative: "EPERM"; "E#999" if unknown (static per thread). */
const char *err_name(int code);

/* ---- sizes ---------------------------------------------------------------------------------- */

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
 * Returns: 0, -E2BIG if truncated.
 */
int str_copy(char *dst, size_t dst_size, const char *src);
/**
 * parse_u64 - a whole string as an unsigned number
 * @base: 10 or 16 (16 accepts an optional 0x)
 * Returns: 0, -EINVAL (empty, sign, blank or junk), -ERANGE (overflow). @ret untouched on failure.
 */
int parse_u64(const char *s, int base, uint64_t *ret);
/* As parse_u64, base 10, with a range: -ERANGE outside [min, max]; a leading '-' is allowed. */
int parse_i64_range(const char *s, int64_t min, int64_t max, int64_t *ret);
bool str_starts(const char *s, const char *prefix);

/* A growing string or byte buffer with a cap. The first failure sticks in .err (-ENOMEM, -E2BIG)
 * and later additions do nothing, so that only the end needs a check. */
struct sbuf {
	char *p; /* p[len] is always 0 once anything was added; NULL while empty */
	size_t len, cap, max;
	int err;
};
void sbuf_init(struct sbuf *b, size_t max_bytes);
void sbuf_done(struct sbuf *b);
void sbuf_reset(struct sbuf *b); /* keeps the memory and the cap, clears .err */
int sbuf_add(struct sbuf *b, const void *data, size_t len);
int sbuf_str(struct sbuf *b, const char *s);
int sbuf_char(struct sbuf *b, char c);
int sbuf_addf(struct sbuf *b, const char *fmt, ...) PRINTF_FMT(2, 3);
/* Makes room for @len bytes and a NUL, returns where to write them (len is not advanced: who adds
 * to it also sets p[len] = 0), NULL on .err. */
void *sbuf_reserve(struct sbuf *b, size_t len);
char *sbuf_take(struct sbuf *b); /* moves the malloc'ed string out ("" if empty); NULL if .err */

/* ---- files ---------------------------------------------------------------------------------- */

/**
 * file_read_all - the whole of a (small or /proc) file
 * @dirfd: AT_FDCWD or a directory
 * @b:     appended to; its cap bounds the read: -E2BIG with .err set past it
 * Returns: 0, negative errno; what was read before a failure stays in @b. Reads in chunks until end
 * of file, so sizes of 0 in /proc do not matter. Does not wait for the writer of a FIFO.
 */
int file_read_all(int dirfd, const char *path, struct sbuf *b, struct err *err);
/* The same from a descriptor at its current position. */
int file_read_fd(int fd, struct sbuf *b);
/* pread until @len bytes or end of file; EINTR retried. Returns bytes read or negative errno. */
ssize_t file_pread_full(int fd, void *buf, size_t len, uint64_t off);
/* write until all is written; EINTR retried. Returns 0 or negative errno. */
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
/* Appends; 0, -E2BIG at the cap, -ENOMEM. */
#define vec_push(v, ...)                                                                           \
	({                                                                                         \
		int _r = vec_grow_(&(v)->p, &(v)->cap, (v)->n, 1, (v)->max, sizeof(*(v)->p));      \
		if (_r == 0)                                                                       \
			(v)->p[(v)->n++] = (__VA_ARGS__);                                          \
		_r;                                                                                \
	})
/* Makes room for @k more elements without adding them; 0, -E2BIG, -ENOMEM. */
#define vec_reserve(v, k) vec_grow_(&(v)->p, &(v)->cap, (v)->n, (k), (v)->max, sizeof(*(v)->p))
#define vec_done(v)                                                                                \
	do {                                                                                       \
		free((v)->p);                                                                      \
		(v)->p = NULL;                                                                     \
		(v)->n = (v)->cap = 0;                                                             \
	} while (0)
/* NULL + 0 is undefined: an empty vector is asked for its length first. */
#define vec_each(it, v) for (__typeof__((v)->p) it = (v)->p; (v)->n && it != (v)->p + (v)->n; it++)
int vec_grow_(void *pp, size_t *cap, size_t n, size_t more, size_t max, size_t item_size);

/* ---- arena ---------------------------------------------------------------------------------- */

/* Bump allocator, freed whole. Memory is zeroed and 8-byte aligned. The cap is on used_bytes, all
 * memory held: chunks with their headers and unused ends, not only what was handed out. */
struct arena_chunk;
struct arena {
	struct arena_chunk *head;
	size_t used_bytes, max_bytes;
};
void arena_init(struct arena *a, size_t max_bytes);
void arena_done(struct arena *a);
void *arena_alloc(struct arena *a, size_t len); /* NULL at the cap or without memory */
char *arena_strndup(struct arena *a, const char *s, size_t len);

/* ---- interner ------------------------------------------------------------------------------- */

/* Bytes to dense ids, in order of insertion, from 0. Open addressing over XXH3; keys are copied
 * into the interner's own storage and stay where they are until intern_done. */
struct intern;
#define INTERN_NONE UINT32_MAX
/* @max_items, @max_bytes: caps; the bytes are all that intern_bytes counts but the handle. Keys are
 * 8-byte aligned. */
int intern_new(uint32_t max_items, size_t max_bytes, struct intern **ret);
struct intern *intern_free(struct intern *in); /* NULL ok; returns NULL */
/* Id of the key, added if new (@ret_new may be NULL): 0, -E2BIG at a cap, -ENOMEM. */
int intern_add(struct intern *in, const void *key, size_t len, uint32_t *ret_id, bool *ret_new);
uint32_t intern_find(const struct intern *in, const void *key, size_t len); /* INTERN_NONE */
/* Borrowed until intern_free; followed by a NUL byte; @ret_len may be NULL. @id must be valid. */
const void *intern_get(const struct intern *in, uint32_t id, size_t *ret_len);
uint32_t intern_count(const struct intern *in);
size_t intern_bytes(const struct intern *in); /* memory held */
void intern_freep(struct intern **in);

/* ---- untrusted bytes ------------------------------------------------------------------------ */

/* Every reader returns 0, or -ENODATA when the bytes end first, leaving cursor and @ret as they
 * were; *leb: -ERANGE for values that do not fit 64 bits. Little-endian. */
struct cursor {
	const uint8_t *p, *end;
};
static inline struct cursor cursor_of(const void *p, size_t len)
{
	/* NULL with 0 bytes is an empty cursor; NULL + 0 would be undefined. */
	return (struct cursor){.p = p, .end = len ? (const uint8_t *)p + len : p};
}
static inline size_t cursor_left(const struct cursor *c)
{
	return (size_t)(c->end - c->p);
}
int cursor_u8(struct cursor *c, uint8_t *ret);
int cursor_u16(struct cursor *c, uint16_t *ret);
int cursor_u32(struct cursor *c, uint32_t *ret);
int cursor_u64(struct cursor *c, uint64_t *ret);
int cursor_uleb(struct cursor *c, uint64_t *ret);
int cursor_sleb(struct cursor *c, int64_t *ret);
int cursor_skip(struct cursor *c, size_t n);
int cursor_bytes(struct cursor *c, void *dst, size_t n);
/* A cursor over the next @n bytes, which are skipped. */
int cursor_sub(struct cursor *c, size_t n, struct cursor *ret);
/* A NUL-terminated string inside the bytes; borrowed. -ENODATA without a NUL. */
int cursor_str(struct cursor *c, const char **ret);
/* One line without its '\n' (the last may lack it); -ENODATA at the end. Not NUL-terminated. */
int cursor_line(struct cursor *c, const char **ret, size_t *ret_len);

/* ---- time ----------------------------------------------------------------------------------- */

uint64_t now_ns(void);          /* CLOCK_MONOTONIC */
uint64_t now_realtime_ns(void); /* CLOCK_REALTIME */
uint64_t now_boottime_ns(void); /* CLOCK_BOOTTIME */

/* ---- capabilities --------------------------------------------------------------------------- */

/* Effective capability of the calling thread by number (CAP_*). */
bool cap_effective(int cap);
/* Is this the first user namespace, the only one whose capabilities count for bpf(2) and
 * perf_event_open(2)? By /proc/self/uid_map; true if that cannot be read. */
bool cap_ns_initial(void);
/* Parser behind it: is this the first namespace's map, all numbers to themselves? */
bool cap_uid_map_is_initial(const char *text, size_t len);
/* What to do where they are missing: one text for all messages. */
#define CAP_GRANT                                                                                  \
	"run as root, or: setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_syslog+ep perf-agent"
#define CAP_NS_TEXT                                                                                \
	"a user namespace: its capabilities do not count for bpf(2) and perf_event_open(2): run "  \
	"it outside"

/* ---- queue ---------------------------------------------------------------------------------- */

/* Bounded queue of fixed-size items between threads; the only way data crosses threads.
 * Thread: any, several producers and consumers. Its mutex guards all of it and is a leaf. */
struct queue;
int queue_new(size_t item_size, size_t max_items, struct queue **ret);
struct queue *queue_free(struct queue *q);
/* Copies *item in. 0, -EAGAIN when full (counted, see queue_drops), -EPIPE once closed. */
int queue_push(struct queue *q, const void *item);
/* Waits until there is an item or the time is over (UINT64_MAX: for ever, 0: not at all).
 * 0, -ETIMEDOUT, -EPIPE when closed and empty. */
int queue_pop(struct queue *q, void *ret_item, uint64_t timeout_ns);
void queue_close(struct queue *q); /* wakes all; what is queued can still be popped */
uint64_t queue_drops(struct queue *q);
size_t queue_len(struct queue *q);
void queue_freep(struct queue **q);

#endif
