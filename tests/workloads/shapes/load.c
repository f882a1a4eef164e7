/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load - a library (--file) that comes and goes.
 *
 * reload: it is closed and loaded again every 40 ms, never at the address where it was just before.
 * twice: it is mapped at two places at the same time, and called in turn at both.
 */
#include "shape.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>

#define LOAD_ROUND_NS   (40 * WL_NSEC_PER_MSEC)
#define LOAD_HELD_BYTES (256 << 10)

typedef uint64_t (*plug_fn)(uint64_t (*fn)(uint64_t), uint64_t arg);

static plug_fn entry_of(void *handle)
{
	void *sym = handle ? dlsym(handle, "plug_outer") : NULL;
	plug_fn fn;

	if (!sym)
		shape_die("%s: %s", shape_file ? shape_file : "--file", dlerror());
	memcpy(&fn, &sym, sizeof(fn)); /* ISO C has no such cast */
	return fn;
}

WL_FUNC static uint64_t load_call(plug_fn fn)
{
	return fn(shape_spin, SHAPE_BATCHES) + 1;
}

static void reload_work(void)
{
	static void *held = MAP_FAILED;
	void *handle = dlopen(shape_file, RTLD_NOW | RTLD_LOCAL), *base, *next;
	uint64_t until_ns = wl_now_ns() + LOAD_ROUND_NS;
	plug_fn fn = entry_of(handle);
	struct link_map *map;

	do {
		wl_sink += load_call(fn);
	} while (wl_now_ns() < until_ns);
	if (dlinfo(handle, RTLD_DI_LINKMAP, &map) < 0)
		shape_die("%s", dlerror());
	base = (void *)map->l_addr;
	dlclose(handle);
	/* Something else is there for the next round. */
	next = mmap(base, LOAD_HELD_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (held != MAP_FAILED)
		munmap(held, LOAD_HELD_BYTES);
	held = next;
}

static plug_fn twice_fn[2];

static void twice_begin(void)
{
	twice_fn[0] = entry_of(dlmopen(LM_ID_BASE, shape_file, RTLD_NOW));
	twice_fn[1] = entry_of(dlmopen(LM_ID_NEWLM, shape_file, RTLD_NOW));
	if (twice_fn[0] == twice_fn[1])
		shape_die("%s: loaded once only", shape_file);
	snprintf(shape_more, sizeof(shape_more), ", \"twice\": [\"%#llx\", \"%#llx\"]",
	         (unsigned long long)(uintptr_t)twice_fn[0],
	         (unsigned long long)(uintptr_t)twice_fn[1]);
}
static void twice_work(void)
{
	wl_sink += load_call(twice_fn[0]);
	wl_sink += load_call(twice_fn[1]);
}

static const char *const reload_chains[] = {
        "shape_spin plug_inner plug_outer load_call reload_work", NULL};
static const char *const twice_chains[] = {"shape_spin plug_inner plug_outer load_call twice_work",
                                           NULL};
static const struct shape shapes_load[] = {
        {.name = "reload", .work = reload_work, .chains = reload_chains},
        {.name = "twice", .work = twice_work, .begin = twice_begin, .chains = twice_chains},
        {.name = NULL},
};

int main(int argc, char **argv)
{
	const struct shape *const lists[] = {shapes_load, NULL};

	shape_run(shape_begin(argc, argv, lists));
	return 0;
}
