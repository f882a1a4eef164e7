/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tables - loads that are hard on the tables of unwinding and of mappings.
 *
 * --file FILE[=HEX][:FILE[=HEX]…]: libraries with plug_outer; HEX is where it lies in the file, for
 * the shapes that map a file's code themselves.
 *
 * half:   half of the time in the program's own frames, half in those of the libraries in turn.
 * raw:    the same, with libraries that the dynamic linker would refuse.
 * many:   the code of the first file mapped SHAPE_COUNT times, and called in all places in turn.
 *         With SHAPE_LATE while the shape runs, else before it is published.
 * swap:   the code of the first file and that of the second one, over each other at one place.
 * remaps: as swap, in shorter rounds of a thread each, so that a profile tells the rounds apart.
 * turns:  as swap, many times a second: 40 ms of CPU time in the first file, 20 ms in the second
 * one. opens:  the same, by dlopen and dlclose of one thread while another one works: the dynamic
 * linker puts one where the other was. Each few turns one is held, so that places change too.
 * naps:   as swap, in turns of 250 ms; each side waits, by a system call of its own from the same
 *         instruction, called from the same place: only the file and the system call tell them
 * apart. mixed:  as turns, with JIT code in the place of the second file. reuse:  the first
 * file is loaded and unloaded, then JIT code is at its place. sleepers: SHAPE_COUNT
 * processes that sleep, and this one that works, from SIGUSR1 on below sleepers_late.
 */
#include "shape.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define FILES_MAX 64
#define PAGE      4096UL
/* One of the alternating codes runs so long; a test counts the rounds and what shows the other. */
#define ROUND_NS (500 * WL_NSEC_PER_MSEC)
/* Interval of remaps: no multiple of user space's intervals. */
#define SHORT_ROUND_NS (137 * WL_NSEC_PER_MSEC)

typedef uint64_t (*plug_fn)(uint64_t (*fn)(uint64_t), uint64_t arg);

/* A file's code as it is mapped: pages of it from @off on, with plug_outer after @at bytes. */
struct code {
	int fd;
	off_t off;
	size_t len, at;
};

static plug_fn fns[FILES_MAX];
static struct code codes[FILES_MAX];
static size_t n_files;

static plug_fn fn_at(void *at)
{
	plug_fn fn;

	memcpy(&fn, &at, sizeof(fn)); /* ISO C has no such cast */
	return fn;
}

static size_t env_number(const char *name)
{
	const char *text = getenv(name);

	return text ? (size_t)strtoull(text, NULL, 10) : 0;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* The executable segment that holds file offset @entry. */
static struct code code_of(const char *path, uint64_t entry)
{
	struct code c = {.fd = open(path, O_RDONLY | O_CLOEXEC)};
	Elf64_Ehdr head;
	Elf64_Phdr p;

	if (c.fd < 0 || pread(c.fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head))
		shape_die("%s: %s", path, strerror(errno));
	for (int i = 0; i < head.e_phnum; i++) {
		if (pread(c.fd, &p, sizeof(p), (off_t)(head.e_phoff + (uint64_t)i * sizeof(p))) !=
		    (ssize_t)sizeof(p))
			break;
		if (p.p_type != PT_LOAD || !(p.p_flags & PF_X) || entry < p.p_offset ||
		    entry >= p.p_offset + p.p_filesz)
			continue;
		c.off = (off_t)(p.p_offset & ~(PAGE - 1));
		c.len = (p.p_offset + p.p_filesz - (uint64_t)c.off + PAGE - 1) & ~(PAGE - 1);
		c.at = entry - (uint64_t)c.off;
		return c;
	}
	shape_die("%s: no code at %#llx", path, (unsigned long long)entry);
}

static void *map_code(const struct code *c, void *at)
{
	void *p = mmap(at, c->len, PROT_READ | PROT_EXEC, MAP_PRIVATE | (at ? MAP_FIXED : 0), c->fd,
	               c->off);

	if (p == MAP_FAILED)
		shape_die("mmap: %s", strerror(errno));
	return p;
}

static void each_file(void (*take)(const char *path, uint64_t entry))
{
	char *text = strdup(shape_file ? shape_file : ""), *save = NULL;

	for (char *path = text ? strtok_r(text, ":", &save) : NULL; path && n_files < FILES_MAX;
	     path = strtok_r(NULL, ":", &save)) {
		char *hex = strchr(path, '=');

		if (hex)
			*hex++ = '\0';
		take(path, hex ? strtoull(hex, NULL, 16) : 0);
		n_files++;
	}
	free(text);
	if (n_files == 0)
		shape_die("--file is missing");
}

/* ---- half, raw ------------------------------------------------------------------------------- */

static void take_library(const char *path, uint64_t entry)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL), *sym;

	(void)entry;
	sym = handle ? dlsym(handle, "plug_outer") : NULL;
	if (!sym)
		shape_die("%s: %s", path, dlerror());
	fns[n_files] = fn_at(sym);
}
static void half_begin(void)
{
	each_file(take_library);
}

static void take_code(const char *path, uint64_t entry)
{
	codes[n_files] = code_of(path, entry);
	fns[n_files] = fn_at((char *)map_code(&codes[n_files], NULL) + codes[n_files].at);
}
static void raw_begin(void)
{
	each_file(take_code);
}

WL_FUNC static uint64_t half_inner(uint64_t x)
{
	volatile uint64_t local[9];

	local[x % 9] = x;
	return shape_spin(SHAPE_BATCHES) + local[x % 9];
}
WL_FUNC static uint64_t half_own(uint64_t x)
{
	return half_inner(x) + 1;
}
WL_FUNC static uint64_t half_call(plug_fn fn)
{
	return fn(shape_spin, SHAPE_BATCHES) + 1;
}
WL_FUNC static void half_work(void)
{
	for (size_t i = 0; i < n_files; i++) {
		wl_sink += half_call(fns[i]);
		wl_sink += half_own(wl_sink);
	}
}

/* ---- many ------------------------------------------------------------------------------------ */

static char *many_base;
static size_t many_n, many_mapped, many_next;

static void many_map(size_t upto)
{
	const struct code *c = &codes[0];

	for (; many_mapped < upto && many_mapped < many_n; many_mapped++)
		map_code(c, many_base + many_mapped * c->len);
}
static void many_begin(void)
{
	raw_begin();
	many_n = env_number("SHAPE_COUNT");
	/* One area: each mapping takes a part of it. The same page again and again: neighbours are
	 * not joined. */
	many_base =
	        mmap(NULL, many_n * codes[0].len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (many_base == MAP_FAILED)
		shape_die("mmap: %s", strerror(errno));
	if (!getenv("SHAPE_LATE"))
		many_map(many_n);
}
WL_FUNC static uint64_t many_call(plug_fn fn)
{
	return fn(shape_spin, 5) + 1;
}
static void many_work(void)
{
	if (many_mapped < many_n)
		many_map(many_mapped + many_n / 50 + 1);
	/* A stride that meets all places soon. */
	for (int i = 0; i < 10; i++) {
		many_next = (many_next + 7919) % many_mapped;
		wl_sink += many_call(fn_at(many_base + many_next * codes[0].len + codes[0].at));
	}
}

/* ---- swap ------------------------------------------------------------------------------------ */

static void *swap_place;

static void swap_begin(void)
{
	each_file(take_code);
	if (n_files < 2 || codes[0].len > 16 * PAGE || codes[1].len > 16 * PAGE)
		shape_die("two small files");
	swap_place = mmap(NULL, 16 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (swap_place == MAP_FAILED)
		shape_die("mmap: %s", strerror(errno));
}
WL_FUNC static uint64_t swap_a(plug_fn fn)
{
	return fn(shape_spin, SHAPE_BATCHES) + 1;
}
WL_FUNC static uint64_t swap_b(plug_fn fn)
{
	return fn(shape_spin, SHAPE_BATCHES) + 2;
}
static void swap_work(void)
{
	uint64_t until_ns;

	map_code(&codes[0], swap_place);
	for (until_ns = wl_now_ns() + ROUND_NS; wl_now_ns() < until_ns;)
		wl_sink += swap_a(fn_at((char *)swap_place + codes[0].at));
	map_code(&codes[1], swap_place);
	for (until_ns = wl_now_ns() + ROUND_NS; wl_now_ns() < until_ns;)
		wl_sink += swap_b(fn_at((char *)swap_place + codes[1].at));
}

WL_FUNC static void *remaps_first(void *arg)
{
	const struct code *c = arg;
	const uint64_t until_ns = wl_now_ns() + SHORT_ROUND_NS;
	const plug_fn fn = fn_at((char *)swap_place + c->at);

	map_code(c, swap_place);
	while (wl_now_ns() < until_ns)
		wl_sink += c == &codes[0] ? swap_a(fn) : swap_b(fn);
	return NULL;
}
static void remaps_work(void)
{
	static size_t round;
	pthread_t t;
	int r = pthread_create(&t, NULL, remaps_first, &codes[round++ % 2]);

	if (r)
		shape_die("pthread_create: %s", strerror(r));
	pthread_join(t, NULL);
}

/* ---- naps ------------------------------------------------------------------------------------ */

static const struct timespec nap_length = {.tv_nsec = 500L * 1000};

WL_FUNC static uint64_t nap(uint64_t side)
{
	static const volatile long calls[] = {SYS_nanosleep, SYS_clock_nanosleep};
	const long length = (long)(uintptr_t)&nap_length;
	const volatile long firsts[] = {length, CLOCK_MONOTONIC};

	return (uint64_t)syscall(calls[side], firsts[side], 0L, length, 0L) + side;
}
WL_FUNC static uint64_t nap_call(plug_fn fn, uint64_t side)
{
	return fn(nap, side) + 1;
}
WL_FUNC static void naps_work(void)
{
	uint64_t until_ns;

	for (size_t side = 0; side < 2; side++) {
		map_code(&codes[side], swap_place);
		for (until_ns = wl_now_ns() + ROUND_NS / 2; wl_now_ns() < until_ns;)
			wl_sink += nap_call(fn_at((char *)swap_place + codes[side].at), side);
	}
	wl_sink++; /* no sibling call */
}

/* ---- reuse ----------------------------------------------------------------------------------- */

/* uint64_t f(fn, arg): a frame by frame pointer, as JIT compilers make them, which calls fn(arg).
 */
#if defined(__x86_64__)
static const uint8_t reuse_code[] = {
        0x55,             /* push %rbp */
        0x48, 0x89, 0xe5, /* mov %rsp, %rbp */
        0x48, 0x89, 0xf8, /* mov %rdi, %rax */
        0x48, 0x89, 0xf7, /* mov %rsi, %rdi */
        0xff, 0xd0,       /* call *%rax */
        0x5d,             /* pop %rbp */
        0xc3,             /* ret */
};
#else
static const uint32_t reuse_code[] = {
        0xa9bf7bfd, /* stp x29, x30, [sp, #-16]! */
        0x910003fd, /* mov x29, sp */
        0xaa0003e2, /* mov x2, x0 */
        0xaa0103e0, /* mov x0, x1 */
        0xd63f0040, /* blr x2 */
        0xa8c17bfd, /* ldp x29, x30, [sp], #16 */
        0xd65f03c0, /* ret */
};
#endif
#define REUSE_BYTES (64 * PAGE)

static void reuse_begin(void)
{
	each_file(take_code); /* is only opened; the place is another one each time */
}
WL_FUNC static uint64_t reuse_lib(plug_fn fn)
{
	return fn(shape_spin, SHAPE_BATCHES) + 1;
}
WL_FUNC static uint64_t reuse_jit(plug_fn fn)
{
	return fn(shape_spin, SHAPE_BATCHES) + 2;
}
static void reuse_work(void)
{
	const struct code *c = &codes[0];
	char *place = map_code(c, NULL);
	uint64_t until_ns;

	for (until_ns = wl_now_ns() + ROUND_NS; wl_now_ns() < until_ns;)
		wl_sink += reuse_lib(fn_at(place + c->at));
	munmap(place, c->len);
	/* Only mmap2 events of executable memory come: as JITs do it. */
	if (mmap(place, c->len, PROT_READ | PROT_WRITE | PROT_EXEC,
	         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		shape_die("mmap: %s", strerror(errno));
	memcpy(place + c->at, reuse_code, sizeof(reuse_code));
	__builtin___clear_cache(place, place + c->len);
	for (until_ns = wl_now_ns() + ROUND_NS; wl_now_ns() < until_ns;)
		wl_sink += reuse_jit(fn_at(place + c->at));
	munmap(place, c->len);
}

/* ---- turns, opens, mixed --------------------------------------------------------------------- */

/* CPU time of a turn of each of the two sides: what one turn takes too much its next one has less.
 */
static const uint64_t turn_ns[] = {40 * WL_NSEC_PER_MSEC, 20 * WL_NSEC_PER_MSEC};
static uint64_t goal_ns[2], spent_ns[2];

static uint64_t thread_ns(void)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts) < 0)
		shape_die("clock_gettime: %s", strerror(errno));
	return (uint64_t)ts.tv_sec * 1000 * WL_NSEC_PER_MSEC + (uint64_t)ts.tv_nsec;
}
WL_FUNC static void turn(int side, uint64_t (*call)(plug_fn fn), plug_fn fn)
{
	uint64_t begin_ns = thread_ns() - spent_ns[side];

	goal_ns[side] += turn_ns[side];
	while (spent_ns[side] < goal_ns[side]) {
		wl_sink += call(fn);
		spent_ns[side] = thread_ns() - begin_ns;
	}
}
WL_FUNC static void turns_work(void)
{
	map_code(&codes[0], swap_place);
	turn(0, swap_a, fn_at((char *)swap_place + codes[0].at));
	map_code(&codes[1], swap_place);
	turn(1, swap_b, fn_at((char *)swap_place + codes[1].at));
	wl_sink++; /* no sibling call */
}
WL_FUNC static void mixed_work(void)
{
	map_code(&codes[0], swap_place);
	turn(0, reuse_lib, fn_at((char *)swap_place + codes[0].at));
	if (mmap(swap_place, codes[0].len, PROT_READ | PROT_WRITE | PROT_EXEC,
	         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		shape_die("mmap: %s", strerror(errno));
	memcpy((char *)swap_place + codes[0].at, reuse_code, sizeof(reuse_code));
	__builtin___clear_cache((char *)swap_place, (char *)swap_place + codes[0].len);
	turn(1, reuse_jit, fn_at((char *)swap_place + codes[0].at));
	wl_sink++; /* no sibling call */
}

/* The thread that works waits for a library, the one that loads them for its turn to be over. */
static char *open_paths[2];
static plug_fn open_fn;
static int open_side;
static pthread_barrier_t open_ready, open_done;

static void take_path(const char *path, uint64_t entry)
{
	(void)entry;
	if (n_files < 2)
		open_paths[n_files] = strdup(path);
}
static void *opens_loader(void *arg)
{
	static const char *const names[] = {"plug_outer", "twin_outer"};
	void *held = NULL;

	(void)arg;
	for (unsigned int i = 0;; i++) {
		void *handle = dlopen(open_paths[i % 2], RTLD_NOW | RTLD_LOCAL);
		void *sym = handle ? dlsym(handle, names[i % 2]) : NULL;

		if (!sym)
			shape_die("%s: %s", open_paths[i % 2], dlerror());
		open_fn = fn_at(sym);
		open_side = (int)(i % 2);
		pthread_barrier_wait(&open_ready);
		pthread_barrier_wait(&open_done);
		/* One that is open already is only counted: it stays where it is for a turn more.
		 */
		if (held)
			dlclose(held);
		held = i % 8 == 6 ? dlopen(open_paths[i % 2], RTLD_NOW | RTLD_LOCAL) : NULL;
		dlclose(handle);
	}
	return NULL;
}
static void opens_begin(void)
{
	pthread_t t;
	int r;

	each_file(take_path);
	if (n_files < 2)
		shape_die("two files");
	r = pthread_barrier_init(&open_ready, NULL, 2);
	if (r == 0)
		r = pthread_barrier_init(&open_done, NULL, 2);
	if (r == 0)
		r = pthread_create(&t, NULL, opens_loader, NULL);
	if (r)
		shape_die("pthread: %s", strerror(r));
}
WL_FUNC static void opens_work(void)
{
	pthread_barrier_wait(&open_ready);
	if (open_side == 0)
		turn(0, swap_a, open_fn);
	else
		turn(1, swap_b, open_fn);
	pthread_barrier_wait(&open_done);
	wl_sink++; /* no sibling call */
}

/* ---- sleepers -------------------------------------------------------------------------------- */

static volatile sig_atomic_t is_late;

static void on_late(int sig)
{
	(void)sig;
	is_late = 1;
}
WL_FUNC static void sleepers_late(void)
{
	half_work();
	wl_sink++; /* no sibling call */
}
static void sleepers_work(void)
{
	if (is_late)
		sleepers_late();
	else
		half_work();
	wl_sink++;
}

static void sleepers_begin(void)
{
	size_t n = env_number("SHAPE_COUNT"), made = 0;
	pid_t parent = getpid();

	each_file(take_library);
	if (signal(SIGUSR1, on_late) == SIG_ERR)
		shape_die("signal: %s", strerror(errno));
	for (; made < n; made++) {
		pid_t pid = fork();

		if (pid < 0)
			break;
		if (pid == 0) {
			/* Each one ends with its parent. */
			if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
				_exit(1);
			for (;;)
				pause();
		}
	}
	snprintf(shape_more, sizeof(shape_more), ", \"sleepers\": %zu", made);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

static const char *const half_chains[] = {"shape_spin half_inner half_own half_work",
                                          "shape_spin plug_inner plug_outer half_call half_work",
                                          NULL};
static const char *const many_chains[] = {"shape_spin plug_inner plug_outer many_call many_work",
                                          NULL};
static const char *const swap_chains[] = {"shape_spin plug_inner plug_outer swap_a swap_work",
                                          "shape_spin twin_inner twin_outer swap_b swap_work",
                                          NULL};
static const char *const remaps_chains[] = {"shape_spin plug_inner plug_outer swap_a remaps_first",
                                            "shape_spin twin_inner twin_outer swap_b remaps_first",
                                            NULL};
static const char *const turns_chains[] = {
        "shape_spin plug_inner plug_outer swap_a turn turns_work",
        "shape_spin twin_inner twin_outer swap_b turn turns_work", NULL};
static const char *const opens_chains[] = {
        "shape_spin plug_inner plug_outer swap_a turn opens_work",
        "shape_spin twin_inner twin_outer swap_b turn opens_work", NULL};
static const char *const mixed_chains[] = {
        "shape_spin plug_inner plug_outer reuse_lib turn mixed_work",
        "shape_spin ? reuse_jit turn mixed_work", NULL};
static const char *const naps_chains[] = {"syscall nap plug_inner plug_outer nap_call naps_work",
                                          NULL};
static const char *const reuse_chains[] = {"shape_spin plug_inner plug_outer reuse_lib reuse_work",
                                           "shape_spin ? reuse_jit reuse_work", NULL};
static const char *const sleepers_chains[] = {
        "shape_spin half_inner half_own half_work sleepers_late sleepers_work",
        "shape_spin plug_inner plug_outer half_call half_work sleepers_late sleepers_work",
        "shape_spin half_inner half_own half_work sleepers_work",
        "shape_spin plug_inner plug_outer half_call half_work sleepers_work", NULL};
static const struct shape shapes_tables[] = {
        {.name = "half", .work = half_work, .begin = half_begin, .chains = half_chains},
        {.name = "raw", .work = half_work, .begin = raw_begin, .chains = half_chains},
        {.name = "many", .work = many_work, .begin = many_begin, .chains = many_chains},
        {.name = "swap", .work = swap_work, .begin = swap_begin, .chains = swap_chains},
        {.name = "remaps",
         .work = remaps_work,
         .begin = swap_begin,
         .chains = remaps_chains,
         .below = ""},
        {.name = "turns", .work = turns_work, .begin = swap_begin, .chains = turns_chains},
        {.name = "opens", .work = opens_work, .begin = opens_begin, .chains = opens_chains},
        {.name = "mixed", .work = mixed_work, .begin = swap_begin, .chains = mixed_chains},
        {.name = "naps", .work = naps_work, .begin = swap_begin, .chains = naps_chains},
        {.name = "reuse", .work = reuse_work, .begin = reuse_begin, .chains = reuse_chains},
        {.name = "sleepers",
         .work = sleepers_work,
         .begin = sleepers_begin,
         .chains = sleepers_chains},
        {.name = NULL},
};

int main(int argc, char **argv)
{
	const struct shape *const lists[] = {shapes_tables, NULL};

	shape_run(shape_begin(argc, argv, lists));
	return 0;
}
