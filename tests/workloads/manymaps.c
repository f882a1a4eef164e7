/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manymaps - one file mapped executable in very many places: pages of it, one by one and none
 * next to another, each with a little code that works. What runs a JIT with a file under it looks
 * like this.
 *
 *   --pages N   that many (default 2,600)
 *   --file F    made and mapped (default manymaps.bin); it is not removed
 */
#include <fcntl.h>
#include <sys/mman.h>

#include "workload.h"

/* Counts down and returns: a function of its own on every page. */
#if defined(__x86_64__)
static const uint8_t code[] = {
        0xb9, 0x40, 0x9c, 0x00, 0x00, /* mov $40000, %ecx */
        0xff, 0xc9,                   /* 1: dec %ecx */
        0x75, 0xfc,                   /* jnz 1b */
        0xc3,                         /* ret */
};
#elif defined(__aarch64__)
static const uint32_t code[] = {
        0x52938800, /* mov w0, #40000 */
        0x71000400, /* 1: subs w0, w0, #1 */
        0x54ffffe1, /* b.ne 1b */
        0xd65f03c0, /* ret */
};
#else
#error "no code for this machine"
#endif

typedef void (*page_fn)(void);

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

WL_FUNC static void manymaps_run(uint8_t *base, size_t n, size_t page)
{
	for (size_t i = 0; i < n; i++) {
		page_fn fn;
		void *at = base + 2 * i * page;

		memcpy(&fn, &at, sizeof(fn));
		fn();
	}
}

int main(int argc, char **argv)
{
	double seconds = 10, pages = 2600;
	const char *file = "manymaps.bin";
	const struct wl_opt opts[] = {
	        WL_OPT_SECONDS(seconds),
	        {.name = "pages", .num = &pages, .min = 1, .max = 30000},
	        {.name = "file", .text = &file},
	        WL_OPT_END,
	};
	size_t page = (size_t)sysconf(_SC_PAGESIZE), n;
	uint8_t *base;
	uint64_t end;
	int fd;

	wl_options(argc, argv, opts);
	n = (size_t)pages;
	fd = open(file, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
	if (fd < 0)
		fail(file);
	if (ftruncate(fd, (off_t)(n * page)) < 0)
		fail("ftruncate");
	for (size_t i = 0; i < n; i++)
		if (pwrite(fd, code, sizeof(code), (off_t)(i * page)) != (ssize_t)sizeof(code))
			fail("pwrite");
	base = mmap(NULL, 2 * n * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (base == MAP_FAILED)
		fail("mmap");
	for (size_t i = 0; i < n; i++)
		if (mmap(base + 2 * i * page, page, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED,
		         fd, (off_t)(i * page)) == MAP_FAILED)
			fail("mmap");
	wl_ready();
	end = wl_now_ns() + wl_seconds_ns(seconds);
	while (wl_now_ns() < end)
		manymaps_run(base, n, page);
	return 0;
}
