/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Confines a process that decodes untrusted files. It gives up descriptors, capabilities, ways to
 * gain any, and all system calls except those for memory, for reading the files that it was given,
 * and for its socket. It may not grow past its budget. docs/security.md says how far that protects.
 */
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "symbolize/sym_wire.h"

#if defined(__x86_64__)
#define AUDIT_ARCH_OURS AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define AUDIT_ARCH_OURS AUDIT_ARCH_AARCH64
#endif

/* Only sanitizers map more than this. No limit would fit their shadow memory. */
#define ADDRESS_SPACE_MAX ((uint64_t)1 << 42)
/* Descriptors: three for each kept image, those of the batch, split units. */
#define FDS_MAX 8192
/* Most bytes of /proc/self/maps: 60,000 mappings, as many as a process may have. */
#define MAPS_BYTES_MAX ((size_t)16 << 20)

static int drop_capabilities(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};

	return syscall(SYS_capset, &head, none) < 0 ? -errno : 0;
}

static int limit(int what, uint64_t value)
{
	struct rlimit rl = {.rlim_cur = value, .rlim_max = value}, now;

	if (getrlimit((__rlimit_resource_t)what, &now) < 0)
		return -errno;
	rl.rlim_cur = rl.rlim_max = (rlim_t)MIN_OF(value, (uint64_t)now.rlim_max);
	return setrlimit((__rlimit_resource_t)what, &rl) < 0 ? -errno : 0;
}

static int limit_memory(size_t bytes)
{
	_cleanup_(sbuf_done) struct sbuf b;
	uint64_t pages, now;
	char *end;
	int r;

	sbuf_init(&b, 4096);
	r = file_read_all(AT_FDCWD, "/proc/self/statm", &b, NULL);
	if (r < 0)
		return r;
	end = b.p + strcspn(b.p, " ");
	*end = 0;
	r = parse_u64(b.p, 10, &pages);
	now = pages * (uint64_t)sysconf(_SC_PAGESIZE);
	if (r < 0 || now > ADDRESS_SPACE_MAX)
		return r;
	return limit(RLIMIT_AS, now + bytes);
}

static int limit_resources(size_t bytes)
{
	const struct {
		int what;
		uint64_t value;
	} limits[] = {
	        {RLIMIT_NOFILE, FDS_MAX}, {RLIMIT_FSIZE, 0},   {RLIMIT_CORE, 0},
	        {RLIMIT_NPROC, 0},        {RLIMIT_MEMLOCK, 0}, {RLIMIT_MSGQUEUE, 0},
	};
	int r = limit_memory(bytes);

	for (size_t i = 0; i < ARRAY_SIZE(limits) && r == 0; i++)
		r = limit(limits[i].what, limits[i].value);
	return r;
}

/* Unmaps memory that the agent shares with the kernel or with others: tables of the BPF programs,
 * rings. Private mappings are copies of this process. */
static int drop_shared_memory(void)
{
	_cleanup_(sbuf_done) struct sbuf b;
	char *line, *next;
	int r;

	sbuf_init(&b, MAPS_BYTES_MAX);
	r = file_read_all(AT_FDCWD, "/proc/self/maps", &b, NULL);
	for (line = b.p; r == 0 && line && *line; line = next) {
		uint64_t start, end;
		char *dash = strchr(line, '-'), *blank = strchr(line, ' ');

		next = strchr(line, '\n');
		next = next ? next + 1 : line + strlen(line);
		if (!dash || !blank || dash > blank || blank + 4 >= next)
			return -EINVAL;
		if (blank[4] != 's')
			continue;
		*dash = *blank = 0;
		if (parse_u64(line, 16, &start) < 0 || parse_u64(dash + 1, 16, &end) < 0)
			return -EINVAL;
		/* no code or data of this process is in it */
		if (munmap((void *)(uintptr_t)start, end - start) < 0)
			r = -errno;
	}
	return r;
}

/* Moves the socket to 0 and /dev/null to 1 and 2, and closes all other descriptors. */
static int keep_socket(int sock)
{
	/* Above 0, 1 and 2, which may be free. */
	int from = fcntl(sock, F_DUPFD_CLOEXEC, 3);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int to = null < 0 ? null : fcntl(null, F_DUPFD_CLOEXEC, 3);

	if (from < 0 || to < 0 || dup2(from, 0) < 0 || dup2(to, 1) < 0 || dup2(to, 2) < 0)
		return -errno;
	/* since Linux 5.9; 5.10 is the oldest supported */
	return syscall(SYS_close_range, 3U, ~0U, 0U) < 0 ? -errno : 0;
}

#ifdef AUDIT_ARCH_OURS
#define LOAD(field)                                                                                \
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, field))
#define ALLOW       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define REFUSE      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)
#define ALLOW_NR(x) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (x), 0, 1), ALLOW
/* fcntl may only duplicate: F_SETOWN and F_SETSIG would have the kernel send signals. */
#define ALLOW_DUP_NR(x)                                                                            \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (x), 0, 4), LOAD(args[1]),                             \
	        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_DUPFD_CLOEXEC, 1, 0), REFUSE, ALLOW
/* Executable memory is refused. @arg is the index of the protection. */
#define ALLOW_DATA_NR(x, arg)                                                                      \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (x), 0, 4), LOAD(args[arg]),                           \
	        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1), REFUSE, ALLOW

static int filter_system_calls(void)
{
	static struct sock_filter code[] = {
	        LOAD(arch),
	        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_OURS, 1, 0),
	        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	        LOAD(nr),
	        /* the given files, and the socket */
	        ALLOW_NR(__NR_pread64),
	        ALLOW_NR(__NR_read),
	        ALLOW_NR(__NR_recvmsg),
	        ALLOW_NR(__NR_sendmsg),
	        ALLOW_NR(__NR_recvfrom),
	        ALLOW_NR(__NR_sendto),
	        ALLOW_NR(__NR_close),
	        ALLOW_NR(__NR_fstat),
	        ALLOW_NR(__NR_newfstatat), /* glibc's fstat */
	        ALLOW_DUP_NR(__NR_fcntl),
	        ALLOW_NR(__NR_lseek),
	        /* memory */
	        ALLOW_DATA_NR(__NR_mmap, 2),
	        ALLOW_DATA_NR(__NR_mprotect, 2),
	        ALLOW_NR(__NR_munmap),
	        ALLOW_NR(__NR_mremap),
	        ALLOW_NR(__NR_madvise),
	        ALLOW_NR(__NR_brk),
	        /* other calls of a C library */
	        ALLOW_NR(__NR_futex),
	        ALLOW_NR(__NR_clock_gettime),
	        ALLOW_NR(__NR_setitimer),
	        ALLOW_NR(__NR_getpid),
	        ALLOW_NR(__NR_gettid),
	        ALLOW_NR(__NR_getrandom),
	        ALLOW_NR(__NR_rt_sigreturn),
	        ALLOW_NR(__NR_rt_sigprocmask),
	        ALLOW_NR(__NR_restart_syscall),
	        ALLOW_NR(__NR_exit),
	        ALLOW_NR(__NR_exit_group),
	        REFUSE,
	};
	struct sock_fprog prog = {.len = ARRAY_SIZE(code), .filter = code};

	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0) < 0 ? -errno : 0;
}
#else
static int filter_system_calls(void)
{
	return -ENOSYS;
}
#endif

uint32_t sym_confine_fds(void)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) < 0)
		return 0;
	return (uint32_t)MIN_OF(rl.rlim_max, (rlim_t)FDS_MAX);
}

int sym_confine(int sock, size_t bytes)
{
	int r = drop_shared_memory();

	if (r == 0)
		r = limit_resources(bytes);
	if (r == 0)
		r = keep_socket(sock);
	if (r == 0 && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		r = -errno;
	if (r == 0)
		r = drop_capabilities();
	if (r == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		r = -errno;
	return r < 0 ? r : filter_system_calls();
}
