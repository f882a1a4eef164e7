/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dlopen - code that comes and goes: host_work, then rounds of dlopen, plug_work, dlclose.
 *
 * The library is libplug.so alongside this program, or --plug PATH; --round-ms is the CPU time of one
 * plug_work.
 */
#include "workload.h"

#include <dlfcn.h>
#include <limits.h>

typedef void (*plug_fn)(uint64_t ns);

WL_FUNC static void host_work(uint64_t ns)
{
	uint64_t end = wl_thread_cpu_ns() + ns;

	do {
		wl_batch();
	} while (wl_thread_cpu_ns() < end);
}

WL_FUNC static void plug_round(const char *path, uint64_t ns)
{
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	plug_fn work;
	void *sym;

	if (!lib) {
		fprintf(stderr, "dlopen: %s\n", dlerror());
		exit(1);
	}
	sym = dlsym(lib, "plug_work");
	if (!sym) {
		fprintf(stderr, "dlopen: %s\n", dlerror());
		exit(1);
	}
	memcpy(&work, &sym, sizeof(work)); /* ISO C has no cast from object to function pointer */
	work(ns);
	if (dlclose(lib)) {
		fprintf(stderr, "dlopen: %s\n", dlerror());
		exit(1);
	}
}

int main(int argc, char **argv)
{
	double seconds = 10, round_ms = 200;
	const char *plug = NULL;
	const struct wl_opt opts[] = {
	        WL_OPT_SECONDS(seconds),
	        {.name = "round-ms", .num = &round_ms, .min = 1, .max = 60000},
	        {.name = "plug", .text = &plug},
	        WL_OPT_END,
	};
	char path[PATH_MAX + 16];
	uint64_t until_ns, rounds = 0, ns;

	wl_options(argc, argv, opts);
	if (!plug) {
		ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);

		if (n < 0) {
			perror("dlopen: readlink /proc/self/exe");
			return 1;
		}
		path[n] = '\0';
		snprintf(strrchr(path, '/'), 16, "/libplug.so");
		plug = path;
	}
	ns = (uint64_t)(round_ms * (double)WL_NSEC_PER_MSEC);
	wl_ready();
	until_ns = wl_now_ns() + wl_seconds_ns(seconds);
	do {
		host_work(ns / 2);
		plug_round(plug, ns);
		rounds++;
	} while (wl_now_ns() < until_ns);
	printf("{\"rounds\":%llu,\"cpu_ns\":%llu}\n", (unsigned long long)rounds,
	       (unsigned long long)wl_thread_cpu_ns());
	return 0;
}
