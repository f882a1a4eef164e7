/* SPDX-License-Identifier: Apache-2.0 */
#include "perfevent/pev_priv.h"

#include <stddef.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

/* A record gets its time before it is in its ring: 1 ms covers interrupts in between. The steal of
 * a hypervisor is longer: then two records may be handed on in the wrong order. */
#define HOLD_NS NSEC_PER_MSEC
/* 16 MiB: 100,000 MMAP2 records, more than all rings of a large machine hold. */
#define SORT_MAX_BYTES (16 * 1024 * 1024)
/* 16 MiB a CPU; a typo must not lock all memory. */
#define PAGES_MAX 4096
/* The reader is woken each time that this much was written to a ring, or a quarter of one that is
 * smaller: an exec makes about ten records, 1 to 1.5 KiB, so it wakes for a dozen of them and never
 * for one record, and three quarters are left for what comes until it runs. */
#define WAKE_BYTES (16 * 1024)
/* An event that was enabled for this much shorter than it should have been, and this part of the
 * time, by which its clock may differ from ours, has stopped. */
#define STOPPED_NS    (10 * NSEC_PER_MSEC)
#define STOPPED_DRIFT 500
/* Rings checked for a hang-up in one call. */
#define POLL_BATCH 16

struct sb_ring {
	int fd;
	uint32_t cpu;
	struct perf_event_mmap_page *page;
	const uint8_t *data; /* data[size_bytes], a power of two */
	uint64_t size_bytes;
	uint64_t reported_lost; /* sum of the LOST records */
	uint64_t enabled_ns;    /* since when it is enabled */
};

/* As read_format has it. */
struct sb_read {
	uint64_t value, enabled_ns;
	uint64_t lost; /* Linux 6.0 */
};

struct pev_sideband {
	struct pev_sort sort;
	struct pev_sideband_stats stats;
	uint64_t unreported; /* records lost and not yet passed on by EV_PROC_LOST */
	size_t read_bytes;   /* of struct sb_read: what this kernel returns */
	int epoll_fd;        /* of all rings */
	uint32_t n;
	struct sb_ring rings[];
};

/* One call of pev_sideband_read. */
struct sb_pass {
	struct pev_sideband *s;
	uint64_t until_ns;
	pev_record_fn fn;
	void *arg;
	int handed_on;
};

/* ---- opening -------------------------------------------------------------------------------- */

static struct perf_event_attr sideband_attr(void)
{
	struct perf_event_attr attr = {0};

	attr.type = PERF_TYPE_SOFTWARE;
	attr.config = PERF_COUNT_SW_DUMMY;
	attr.size = sizeof(attr);
	attr.sample_type = PEV_SAMPLE_TYPE;
	attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_LOST;
	attr.disabled = 1;
	attr.mmap = 1; /* executable mappings; mmap_data would add the others */
	attr.mmap2 = 1;
	attr.comm = 1;
	attr.comm_exec = 1;
	attr.task = 1;
	attr.ksymbol = 1; /* Linux 5.0 */
	attr.sample_id_all = 1;
	attr.use_clockid = 1;
	attr.clockid = CLOCK_MONOTONIC;
	attr.watermark = 1; /* wakeup_watermark: when the ring's size is known */
	return attr;
}

static size_t ring_map_bytes(const struct sb_ring *r)
{
	return (size_t)r->size_bytes + (size_t)sysconf(_SC_PAGESIZE);
}

static int map_failed(struct err *err, int code, uint32_t cpu)
{
	struct rlimit lim = {0};

	if (code != -EPERM)
		return err_set(err, code, "map side-band ring of cpu %u: %s", cpu, err_name(code));
	(void)getrlimit(RLIMIT_MEMLOCK, &lim); /* cannot fail for a valid resource */
	return err_set(
	        err, code,
	        "map side-band ring of cpu %u: EPERM: over kernel.perf_event_mlock_kb and "
	        "RLIMIT_MEMLOCK (%llu bytes); needs CAP_IPC_LOCK, or raise it with ulimit -l",
	        cpu, (unsigned long long)lim.rlim_cur);
}

static int map_ring(struct sb_ring *r, uint32_t pages)
{
	size_t page_size = (size_t)sysconf(_SC_PAGESIZE);
	size_t size = (size_t)pages * page_size; /* pages ≤ PAGES_MAX: fits */
	void *p = mmap(NULL, size + page_size, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	r->page = p;
	r->data = (const uint8_t *)p + page_size;
	r->size_bytes = size;
	return 0;
}

static int open_event(struct perf_event_attr *attr, uint32_t cpu, uint32_t pages)
{
	uint64_t size = (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
	int fd;

	attr->wakeup_watermark = (uint32_t)MIN_OF(size / 4, WAKE_BYTES);
	fd = pev_open(attr, cpu);
	if (fd == -EINVAL && attr->read_format & PERF_FORMAT_LOST) { /* before Linux 6.0 */
		attr->read_format = PERF_FORMAT_TOTAL_TIME_ENABLED;
		fd = pev_open(attr, cpu);
	}
	return fd;
}

/* Opens an event and maps its ring, smaller if it must be; *pages is what was possible. */
static int open_ring(struct pev_sideband *s, struct perf_event_attr *attr, uint32_t cpu,
                     uint32_t *pages, struct err *err)
{
	struct sb_ring *r = &s->rings[s->n];
	struct epoll_event ev = {.events = EPOLLIN, .data.u32 = s->n};
	int e, fd = open_event(attr, cpu, *pages);

	if (pev_is_offline(fd))
		return 0;
	if (fd < 0)
		return pev_open_failed(err, fd, attr, cpu);
	r->fd = fd;
	r->cpu = cpu;
	s->n++;
	while ((e = map_ring(r, *pages)) == -EPERM && *pages > 1) {
		*pages /= 2;
		closep(&r->fd); /* the mark is given when it is opened */
		r->fd = open_event(attr, cpu, *pages);
		if (r->fd < 0)
			return pev_open_failed(err, r->fd, attr, cpu);
	}
	if (e < 0)
		return map_failed(err, e, cpu);
	if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, r->fd, &ev) < 0)
		return err_set(err, -errno, "epoll_ctl of side-band ring of cpu %u: %s", cpu,
		               err_name(errno));
	return 0;
}

int pev_sideband_open(const uint32_t *cpus, uint32_t n, uint32_t pages, struct pev_sideband **ret,
                      struct err *err)
{
	_cleanup_(pev_sideband_freep) struct pev_sideband *s = NULL;
	struct perf_event_attr attr = sideband_attr();
	int r;

	if (n == 0 || n > PEV_CPUS_MAX || pages == 0 || pages > PAGES_MAX ||
	    (pages & (pages - 1)) != 0)
		return err_set(err, -EINVAL, "side-band rings of %u pages on %u CPUs: EINVAL",
		               pages, n);
	s = calloc(1, sizeof(*s) + n * sizeof(s->rings[0])); /* n ≤ PEV_CPUS_MAX: fits */
	if (!s)
		return err_set(err, -ENOMEM, "side-band rings: ENOMEM");
	pev_sort_init(&s->sort, SORT_MAX_BYTES);
	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (s->epoll_fd < 0)
		return err_set(err, -errno, "epoll_create1: %s", err_name(errno));
	for (uint32_t i = 0; i < n; i++) {
		r = open_ring(s, &attr, cpus[i], &pages, err);
		if (r < 0)
			return r;
	}
	if (s->n == 0)
		return err_set(err, -ENODEV, "side-band rings: ENODEV: none of %u CPUs is online",
		               n);
	s->read_bytes = attr.read_format & PERF_FORMAT_LOST ? sizeof(struct sb_read)
	                                                    : offsetof(struct sb_read, lost);
	for (uint32_t i = 0; i < s->n; i++) {
		if (ioctl(s->rings[i].fd, PERF_EVENT_IOC_ENABLE, 0) < 0)
			return err_set(err, -errno, "enable side-band of cpu %u: %s",
			               s->rings[i].cpu, err_name(errno));
		s->rings[i].enabled_ns = now_ns();
	}
	*ret = TAKE_PTR(s);
	return 0;
}

struct pev_sideband *pev_sideband_free(struct pev_sideband *s)
{
	if (!s)
		return NULL;
	for (uint32_t i = 0; i < s->n; i++) {
		if (s->rings[i].page)
			(void)munmap(s->rings[i].page,
			             ring_map_bytes(&s->rings[i])); /* ours: cannot fail */
		closep(&s->rings[i].fd);
	}
	closep(&s->epoll_fd);
	pev_sort_done(&s->sort);
	free(s);
	return NULL;
}

void pev_sideband_freep(struct pev_sideband **s)
{
	*s = pev_sideband_free(*s);
}

int pev_sideband_poll_fd(const struct pev_sideband *s)
{
	return s->epoll_fd;
}

const struct pev_sideband_stats *pev_sideband_stats(const struct pev_sideband *s)
{
	return &s->stats;
}

/* ---- handing on ----------------------------------------------------------------------------- */

static void hand_on_lost(struct sb_pass *p, uint64_t lost)
{
	struct ev_proc e = {.type = EV_PROC_LOST, .lost = lost, .map.path = ""};

	e.time_ns = MIN_OF(p->until_ns, now_ns());
	p->fn(p->arg, &e);
	p->handed_on++;
}

/* Everything up to @until_ns, the oldest first. Returns how many records left the buffer. */
static size_t hand_on(struct sb_pass *p, uint64_t until_ns)
{
	struct pev_sideband *s = p->s;
	struct pev_sorted rec;
	uint8_t *bytes;
	size_t n = 0;

	for (; pev_sort_pop(&s->sort, until_ns, &rec, &bytes); n++) {
		struct ev_proc e;

		if (pev_record_parse(bytes, rec.len, &e) != 1) {
			s->stats.malformed++;
			continue;
		}
		if (e.type == EV_PROC_LOST) {
			s->stats.lost += e.lost;
			s->rings[rec.ring].reported_lost += e.lost;
		} else {
			s->stats.records++;
		}
		p->fn(p->arg, &e);
		p->handed_on++;
	}
	pev_sort_compact(&s->sort);
	return n;
}

/* ---- reading -------------------------------------------------------------------------------- */

/* @len ≤ size_bytes bytes from position @pos, which may wrap around. */
static void ring_copy(const struct sb_ring *r, uint64_t pos, void *dst, size_t len)
{
	size_t off = (size_t)(pos & (r->size_bytes - 1));
	size_t first = MIN_OF(len, (size_t)r->size_bytes - off);

	memcpy(dst, r->data + off, first);
	memcpy((uint8_t *)dst + first, r->data, len - first);
}

static uint64_t ring_u64(const struct sb_ring *r, uint64_t pos)
{
	uint64_t v;

	ring_copy(r, pos, &v, sizeof(v));
	return v;
}

/* Into the sorting buffer; one that is full is emptied, order or not. */
static void keep_record(struct sb_pass *p, uint32_t ring, uint64_t pos, uint32_t len)
{
	struct pev_sideband *s = p->s;
	const struct sb_ring *r = &s->rings[ring];
	/* The last field of the trailer. */
	uint64_t time_ns = ring_u64(r, pos + len - sizeof(uint64_t));
	uint8_t *dst;

	if (pev_sort_add(&s->sort, time_ns, ring, len, &dst) < 0) {
		(void)hand_on(p, p->until_ns); /* how many does not matter: these are due */
		if (pev_sort_add(&s->sort, time_ns, ring, len, &dst) < 0) {
			s->stats.early += hand_on(p, UINT64_MAX);
			if (pev_sort_add(&s->sort, time_ns, ring, len, &dst) < 0) {
				s->stats.lost++; /* without any memory */
				s->unreported++;
				return;
			}
		}
	}
	ring_copy(r, pos, dst, len);
}

static void take_record(struct sb_pass *p, uint32_t ring, uint64_t pos,
                        const struct perf_event_header *h)
{
	struct pev_sideband_stats *st = &p->s->stats;

	if (h->size < sizeof(*h) + sizeof(struct pev_trailer)) {
		st->malformed++;
		return;
	}
	switch (h->type) {
	case PERF_RECORD_MMAP2:
	case PERF_RECORD_COMM:
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
	case PERF_RECORD_KSYMBOL:
	case PERF_RECORD_LOST:
		keep_record(p, ring, pos, h->size);
		return;
	case PERF_RECORD_LOST_SAMPLES: /* u64 lost: says nothing of processes, so only counted */
		if (h->size < sizeof(*h) + sizeof(uint64_t) + sizeof(struct pev_trailer))
			st->malformed++;
		else
			st->lost += ring_u64(&p->s->rings[ring], pos + sizeof(*h));
		return;
	case PERF_RECORD_THROTTLE:
	case PERF_RECORD_UNTHROTTLE:
		st->throttled++;
		return;
	default: /* not an enum of ours: kernels add types */
		return;
	}
}

/* Reads the records that are in the ring now; later ones are for the next call. */
static void drain_ring(struct sb_pass *p, uint32_t ring)
{
	struct sb_ring *r = &p->s->rings[ring];
	uint64_t head = __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = r->page->data_tail; /* written by us only */

	while (tail != head) {
		uint64_t left = head - tail;
		struct perf_event_header h = {0};

		if (left >= sizeof(h) && left <= r->size_bytes)
			ring_copy(r, tail, &h, sizeof(h));
		if (h.size < sizeof(h) || h.size % 8 != 0 || h.size > left) {
			/* The start of the next record is not known. */
			p->s->stats.malformed++;
			p->s->unreported++;
			tail = head;
			break;
		}
		take_record(p, ring, tail, &h);
		tail += h.size;
	}
	/* Release: the kernel must not overwrite what was not copied yet. */
	__atomic_store_n(&r->page->data_tail, tail, __ATOMIC_RELEASE);
}

/* Reads the losses of a ring since its last LOST record, which is written only before another
 * record. Also finds whether its CPU went offline: the event is stopped from then on, also when the
 * CPU is back. */
static void read_event(struct pev_sideband *s, struct sb_ring *r)
{
	uint64_t elapsed_ns = now_ns() - r->enabled_ns;
	struct sb_read v = {0};

	if (read(r->fd, &v, s->read_bytes) != (ssize_t)s->read_bytes)
		return;
	if (v.lost > r->reported_lost) {
		s->stats.lost += v.lost - r->reported_lost;
		s->unreported += v.lost - r->reported_lost;
		r->reported_lost = v.lost;
	}
	if (v.enabled_ns < elapsed_ns &&
	    elapsed_ns - v.enabled_ns > STOPPED_NS + elapsed_ns / STOPPED_DRIFT)
		s->stats.stopped_cpus++;
}

/* The event of a CPU that goes offline may hang up, which would stay readable for ever. What else
 * is ready is read now: that is what wakes were for. */
static void forget_hung_up(const struct pev_sideband *s)
{
	struct epoll_event ev[POLL_BATCH];
	int n = epoll_wait(s->epoll_fd, ev, POLL_BATCH, 0); /* interrupted: the next call */

	for (int i = 0; i < n; i++)
		if (ev[i].events & (EPOLLHUP | EPOLLERR))
			(void)epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, s->rings[ev[i].data.u32].fd,
			                NULL); /* it is in there: cannot fail */
}

int pev_sideband_read(struct pev_sideband *s, bool final, pev_record_fn fn, void *arg)
{
	struct sb_pass p = {.s = s, .fn = fn, .arg = arg};

	/* Before the rings: a wake that comes meanwhile is for the next call. */
	forget_hung_up(s);
	p.until_ns = final ? UINT64_MAX : now_ns() - HOLD_NS;
	for (uint32_t i = 0; i < s->n; i++)
		drain_ring(&p, i);
	(void)hand_on(&p, p.until_ns); /* counted in p */
	s->stats.stopped_cpus = 0;
	for (uint32_t i = 0; final && i < s->n; i++)
		read_event(s, &s->rings[i]);
	if (s->unreported > 0)
		hand_on_lost(&p, s->unreported);
	s->unreported = 0;
	s->stats.watermark_ns = p.until_ns;
	return p.handed_on;
}
