/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake-perf - a kernel for the tests of perfevent: perf_event_open gives memory files, which can be
 * mapped like rings and written by the test. One test program includes it once; link with --wrap of
 * syscall, ioctl, mmap64, calloc and realloc.
 */
#ifndef PA_FAKE_PERF_H
#define PA_FAKE_PERF_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "perfevent/pev_priv.h"

#define FAKE_CPUS 8

long __real_syscall(long nr, ...);
int __real_ioctl(int fd, unsigned long request, ...);
void *__real_mmap64(void *addr, size_t len, int prot, int flags, int fd, off_t off);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
long __wrap_syscall(long nr, ...);
int __wrap_ioctl(int fd, unsigned long request, ...);
int __wrap_epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev);
bool __wrap_cap_ns_initial(void);
void *__wrap_mmap64(void *addr, size_t len, int prot, int flags, int fd, off_t off);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);

static struct fake {
	bool on;
	int open_errno[FAKE_CPUS]; /* by CPU; a task's event is CPU 0 */
	/* errno for an event, 0: open it; the CPU may be any then */
	int (*refuse)(const struct perf_event_attr *attr, int cpu);
	bool refuse_read_format; /* EINVAL when attr.read_format has PERF_FORMAT_LOST */
	uint64_t caps;           /* effective */
	bool user_ns;            /* not the first one */
	size_t map_max;          /* larger maps: EPERM */
	int map_errno;           /* every map */
	int enable_fail_at;      /* the nth ENABLE from 1: EIO */
	int disable_errno, epoll_errno;
	bool no_memory;
	/* what was asked for */
	unsigned int opened, enabled, disabled, maps, allocs, polled;
	struct perf_event_attr attr;
	int pid, cpu;
	unsigned long open_flags;
	/* rings by CPU */
	int fd[FAKE_CPUS];
	uint64_t head[FAKE_CPUS];
	struct perf_event_mmap_page *page[FAKE_CPUS];
	size_t size[FAKE_CPUS]; /* of the data */
} fake;

static int fake_setup(void **state)
{
	(void)state;
	fake = (struct fake){0};
	fake.on = true;
	fake.map_max = SIZE_MAX;
	return 0;
}

static int fake_teardown(void **state)
{
	(void)state;
	fake.on = false;
	return 0;
}

static long fake_open(const struct perf_event_attr *attr, int pid, int cpu, unsigned long flags)
{
	int at = cpu < 0 ? 0 : cpu;
	int error, fd;

	assert_true(at < FAKE_CPUS || fake.refuse);
	fake.attr = *attr;
	fake.pid = pid;
	fake.cpu = cpu;
	fake.open_flags = flags;
	error = fake.refuse ? fake.refuse(attr, cpu) : fake.open_errno[at];
	if (!error && fake.refuse_read_format && (attr->read_format & PERF_FORMAT_LOST))
		error = EINVAL;
	if (error) {
		errno = error;
		return -1;
	}
	fake.opened++;
	fd = memfd_create("event", MFD_CLOEXEC);
	assert_true(fd >= 0);
	if (at < FAKE_CPUS)
		fake.fd[at] = fd;
	return fd;
}

long __wrap_syscall(long nr, ...)
{
	long a[6];
	va_list ap;

	va_start(ap, nr);
	for (size_t i = 0; i < ARRAY_SIZE(a); i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (fake.on && nr == SYS_perf_event_open)
		return fake_open((const void *)a[0], (int)a[1], (int)a[2],
		                 (unsigned long)(int)a[4]);
	if (fake.on && nr == SYS_capget) {
		struct __user_cap_data_struct *data = (void *)a[1];

		data[0].effective = (uint32_t)fake.caps;
		data[1].effective = (uint32_t)(fake.caps >> 32);
		return 0;
	}
	return __real_syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int __wrap_ioctl(int fd, unsigned long request, ...)
{
	if (request == PERF_EVENT_IOC_ENABLE) {
		fake.enabled++;
		if ((int)fake.enabled != fake.enable_fail_at)
			return 0;
		errno = EIO;
		return -1;
	}
	assert_int_equal(request, PERF_EVENT_IOC_DISABLE);
	assert_true(fd >= 0);
	fake.disabled++;
	errno = fake.disable_errno;
	return fake.disable_errno ? -1 : 0;
}

bool __wrap_cap_ns_initial(void)
{
	return !fake.user_ns;
}

/* Memory files cannot be polled. */
int __wrap_epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev)
{
	assert_true(fake.on && epfd >= 0 && fd >= 0);
	assert_int_equal(op, EPOLL_CTL_ADD);
	assert_int_equal(ev->events, EPOLLIN);
	fake.polled++;
	errno = fake.epoll_errno;
	return fake.epoll_errno ? -1 : 0;
}

void *__wrap_mmap64(void *addr, size_t len, int prot, int flags, int fd, off_t off)
{
	if (!fake.on || fd < 0)
		return __real_mmap64(addr, len, prot, flags, fd, off);
	fake.maps++;
	if (len > fake.map_max || fake.map_errno) {
		errno = fake.map_errno ? fake.map_errno : EPERM;
		return MAP_FAILED;
	}
	assert_int_equal(prot, PROT_READ | PROT_WRITE);
	assert_int_equal(flags, MAP_SHARED);
	assert_int_equal(ftruncate(fd, (off_t)len), 0);
	addr = __real_mmap64(addr, len, prot, flags, fd, off);
	for (size_t i = 0; i < FAKE_CPUS; i++) {
		if (fake.fd[i] == fd) {
			fake.page[i] = addr;
			fake.size[i] = len - (size_t)sysconf(_SC_PAGESIZE);
		}
	}
	return addr;
}

void *__wrap_calloc(size_t n, size_t size)
{
	if (fake.on) {
		fake.allocs++;
		if (fake.no_memory)
			return NULL;
	}
	return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
	if (fake.on) {
		fake.allocs++;
		if (fake.no_memory)
			return NULL;
	}
	return __real_realloc(p, size);
}

static inline unsigned int open_fds(void)
{
	unsigned int n = 0;
	DIR *d = opendir("/proc/self/fd");

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

#endif
