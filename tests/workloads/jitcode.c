/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jitcode - a run time that tells the names of its code: the address of one loop belongs to another
 * function in each turn. Turns are of equal length, so that the shares of the functions are known.
 *
 * main → jit_run → jit_call → turn_0, turn_1, … at the same address.
 * --map: a line of /tmp/perf-PID.map at the beginning of each turn; --late: all lines at the end;
 * --dump FOLDER: records of FOLDER/jit-PID.dump, with lines; --memfd: code in a memfd, as .NET has
 * it; --fork: a child runs the code as well, and writes no file; --wait: turns sleep below their
 * function instead, 5 ms at a time.
 */
#include "workload.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

typedef void (*jit_fn)(uint64_t arg);

/* void f(uint64_t n) { do ; while (--n); }, assembled by hand, with the frame that a compiler would
 * set up. */
#if defined(__x86_64__)
#define JIT_MACHINE 62
static const uint8_t jit_code[] = {
        0x55,             /*    push %rbp      */
        0x48, 0x89, 0xe5, /*    mov %rsp, %rbp */
        0x48, 0xff, 0xcf, /* 1: dec %rdi       */
        0x75, 0xfb,       /*    jne 1b         */
        0x5d,             /*    pop %rbp       */
        0xc3,             /*    ret            */
};
/* void f(void (*g)(void)) { g(); }, by frame pointer too. */
static const uint8_t jit_wait_code[sizeof(jit_code)] = {
        0x55,             /* push %rbp      */
        0x48, 0x89, 0xe5, /* mov %rsp, %rbp */
        0xff, 0xd7,       /* call *%rdi     */
        0x5d,             /* pop %rbp       */
        0xc3,             /* ret            */
};
#elif defined(__aarch64__)
#define JIT_MACHINE 183
static const uint32_t jit_code[] = {
        0xa9bf7bfd, /*    stp x29, x30, [sp, #-16]! */
        0x910003fd, /*    mov x29, sp               */
        0xf1000400, /* 1: subs x0, x0, #1           */
        0x54ffffe1, /*    b.ne 1b                   */
        0xa8c17bfd, /*    ldp x29, x30, [sp], #16   */
        0xd65f03c0, /*    ret                       */
};
static const uint32_t jit_wait_code[sizeof(jit_code) / 4] = {
        0xa9bf7bfd, /* stp x29, x30, [sp, #-16]! */
        0x910003fd, /* mov x29, sp               */
        0xd63f0000, /* blr x0                    */
        0xa8c17bfd, /* ldp x29, x30, [sp], #16   */
        0xd65f03c0, /* ret                       */
};
#else
#error "jitcode: no code for this processor"
#endif

static FILE *map, *dump;

WL_FUNC static void jit_sleep(void)
{
	const struct timespec t = {.tv_nsec = 5000000};

	(void)nanosleep(&t, NULL);
	wl_sink++;
}

WL_FUNC static void jit_call(jit_fn fn, uint64_t arg)
{
	fn(arg);
	wl_sink++;
}

WL_FUNC static void jit_run(jit_fn fn, uint64_t arg, uint64_t until_ns)
{
	do {
		jit_call(fn, arg);
	} while (wl_now_ns() < until_ns);
}

static void *code_pages(bool memfd, bool waits, size_t len)
{
	int fd = -1;
	uint8_t *mem;

	if (memfd) {
		fd = memfd_create("doublemapper", MFD_CLOEXEC);
		if (fd < 0 || ftruncate(fd, (off_t)len) < 0) {
			perror("jitcode: memfd");
			exit(1);
		}
	}
	mem = mmap(NULL, len, PROT_READ | PROT_WRITE,
	           memfd ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
	if (mem == MAP_FAILED) {
		perror("jitcode: mmap");
		exit(1);
	}
	memcpy(mem, waits ? (const void *)jit_wait_code : jit_code, sizeof(jit_code));
	if (memfd)
		mem = mmap(NULL, len, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
	if (mem == MAP_FAILED || (!memfd && mprotect(mem, len, PROT_READ | PROT_EXEC) < 0)) {
		perror("jitcode: mmap to execute");
		exit(1);
	}
	__builtin___clear_cache((char *)mem, (char *)mem + sizeof(jit_code));
	return mem;
}

static void open_dump(const char *folder)
{
	const struct {
		uint32_t magic, version, size, machine, pad, pid;
		uint64_t time, flags;
	} head = {0x4a695444, 1, sizeof(head), JIT_MACHINE, 0, (uint32_t)getpid(), wl_now_ns(), 0};
	char path[512];

	snprintf(path, sizeof(path), "%s/jit-%d.dump", folder, (int)getpid());
	dump = fopen(path, "w+e");
	if (!dump || fwrite(&head, sizeof(head), 1, dump) != 1 || fflush(dump) ||
	    mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(dump), 0) == MAP_FAILED) {
		perror("jitcode: dump");
		exit(1);
	}
}

static void put(const void *data, size_t len)
{
	if (fwrite(data, 1, len, dump) != len)
		exit(1);
}

static void dump_turn(const void *mem, unsigned int turn)
{
	char name[32], file[32];
	const uint64_t addr = (uintptr_t)mem;
	struct {
		uint32_t id, size;
		uint64_t time;
	} rec = {2, 0, wl_now_ns()};
	struct {
		uint64_t addr, n, at;
		uint32_t line, discriminator;
	} lines = {addr, 1, addr, 100 + turn, 0};
	struct {
		uint32_t pid, tid;
		uint64_t vma, addr, size, idx;
	} load = {(uint32_t)getpid(), (uint32_t)getpid(), addr, addr, sizeof(jit_code), turn};

	snprintf(name, sizeof(name), "turn_%u", turn);
	snprintf(file, sizeof(file), "/src/turn_%u.x", turn);
	rec.size = (uint32_t)(sizeof(rec) + sizeof(lines) + strlen(file) + 1);
	put(&rec, sizeof(rec));
	put(&lines, sizeof(lines));
	put(file, strlen(file) + 1);
	rec.id = 0;
	rec.size = (uint32_t)(sizeof(rec) + sizeof(load) + strlen(name) + 1 + sizeof(jit_code));
	put(&rec, sizeof(rec));
	put(&load, sizeof(load));
	put(name, strlen(name) + 1);
	put(jit_code, sizeof(jit_code));
	fflush(dump);
}

static void map_turn(const void *mem, unsigned int turn)
{
	char path[64];

	if (!map) {
		snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
		map = fopen(path, "we");
		if (!map) {
			perror("jitcode: map");
			exit(1);
		}
	}
	fprintf(map, "%llx %zx turn_%u\n", (unsigned long long)(uintptr_t)mem, sizeof(jit_code),
	        turn);
	fflush(map);
}

int main(int argc, char **argv)
{
	double seconds = 10, turns = 2;
	const char *folder = NULL;
	bool with_map = false, late = false, memfd = false, forked = false, waits = false;
	pid_t child = -1;
	const struct wl_opt opts[] = {
	        WL_OPT_SECONDS(seconds),
	        {.name = "turns", .num = &turns, .min = 1, .max = 100000},
	        {.name = "map", .flag = &with_map},
	        {.name = "late", .flag = &late},
	        {.name = "memfd", .flag = &memfd},
	        {.name = "fork", .flag = &forked},
	        {.name = "wait", .flag = &waits},
	        {.name = "dump", .text = &folder},
	        WL_OPT_END,
	};
	uint64_t start_ns, arg = 2000000; /* about a millisecond */
	jit_fn fn;
	void *mem;

	wl_options(argc, argv, opts);
	mem = code_pages(memfd, waits, (size_t)sysconf(_SC_PAGESIZE));
	memcpy(&fn, &mem, sizeof(fn)); /* ISO C has no cast from object to function pointer */
	if (folder)
		open_dump(folder);
	if (waits)
		arg = (uint64_t)(uintptr_t)jit_sleep;
	wl_ready();
	start_ns = wl_now_ns();
	for (unsigned int i = 0; i < (unsigned int)turns; i++) {
		uint64_t cpu = wl_thread_cpu_ns();

		if (with_map)
			map_turn(mem, i);
		if (folder)
			dump_turn(mem, i);
		if (i == 0 && forked) {
			child = fork();
			with_map = with_map && child != 0;
		}
		jit_run(fn, arg, start_ns + wl_seconds_ns(seconds * (i + 1) / turns));
		if (turns <= 16 && child != 0)
			printf("{\"turn\":%u,\"cpu_ns\":%llu}\n", i,
			       (unsigned long long)(wl_thread_cpu_ns() - cpu));
		fflush(stdout);
	}
	if (child > 0)
		waitpid(child, NULL, 0);
	if (late && child != 0)
		map_turn(mem, 0);
	return 0;
}
