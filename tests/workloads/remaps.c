/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remaps - three parts of code, a page each, which take the same CPU time: the one that has had least
 * runs next; --how split: the page of the middle one is given another protection, so that the file's
 * mapping falls apart; --how twice: the program's code is mapped a second time, and runs there.
 */
#include "workload.h"

#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096
/* They touch nothing but their registers, so they run at any address. */
#define PART(name)                                                                                 \
	WL_FUNC __attribute__((aligned(PAGE))) static uint64_t name(uint64_t n, uint64_t x)        \
	{                                                                                          \
		for (uint64_t i = 0; i < n; i++)                                                   \
			x = wl_mix(x + i);                                                         \
		return x;                                                                          \
	}
PART(part_a)
PART(part_b)
PART(part_c)
WL_FUNC __attribute__((aligned(PAGE))) static void parts_end(void)
{
}

typedef uint64_t (*part_fn)(uint64_t n, uint64_t x);

/* All parts mapped once more; returns how far away. */
static ptrdiff_t map_again(void)
{
	unsigned long start, end, pgoff;
	char line[512];
	ptrdiff_t ret = 0;
	FILE *f = fopen("/proc/self/maps", "re");
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	while (f && fd >= 0 && fgets(line, sizeof(line), f)) {
		char *p;
		void *again;

		start = strtoul(line, &p, 16);
		end = strtoul(p + 1, &p, 16);
		pgoff = strtoul(p + 6, NULL, 16);
		if ((uintptr_t)part_a < start || (uintptr_t)part_a >= end)
			continue;
		again = mmap(NULL, end - start, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd,
		             (off_t)pgoff);
		if (again != MAP_FAILED)
			ret = (ptrdiff_t)((uintptr_t)again - start);
	}
	if (f)
		fclose(f);
	if (!ret) {
		perror("remaps: mmap");
		exit(1);
	}
	return ret;
}

static part_fn moved(part_fn fn, ptrdiff_t by)
{
	return (part_fn)((uintptr_t)fn + (uintptr_t)by);
}

int main(int argc, char **argv)
{
	double seconds = 10;
	const char *how = "split";
	const struct wl_opt opts[] = {
	        WL_OPT_SECONDS(seconds),
	        {.name = "how", .text = &how},
	        WL_OPT_END,
	};
	uint64_t spent_ns[3] = {0}, until_ns, now_ns, x = 1;
	part_fn parts[] = {part_a, part_b, part_c};
	ptrdiff_t by = 0;

	wl_options(argc, argv, opts);
	if (!strcmp(how, "twice"))
		by = map_again();
	else if (mprotect((void *)(uintptr_t)part_b, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC)) {
		perror("remaps: mprotect");
		return 1;
	}
	wl_ready();
	parts[1] = moved(part_b, by);
	parts[2] = moved(part_c, by);
	until_ns = wl_now_ns() + wl_seconds_ns(seconds);
	now_ns = wl_thread_cpu_ns();
	do {
		const uint64_t began_ns = now_ns;
		size_t least = spent_ns[0] <= spent_ns[1] ? 0 : 1;

		if (spent_ns[2] < spent_ns[least])
			least = 2;
		/* Rounds of one length could be in step with the ticks. */
		x = parts[least](20000 + wl_mix(x) % 200000, x);
		now_ns = wl_thread_cpu_ns();
		spent_ns[least] += now_ns - began_ns;
	} while (wl_now_ns() < until_ns);
	parts_end();
	return x == 0;
}
