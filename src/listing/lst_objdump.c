/* SPDX-License-Identifier: Apache-2.0 */
/* Runs objdump: without a shell, with fixed arguments, on an open file. */
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "listing/lst_priv.h"

#define CPU_S            60
#define MEMORY_BYTES     ((uint64_t)4 << 30)
#define OUTPUT_BYTES_MAX ((uint64_t)64 << 20)
#define MESSAGE_BYTES    256
#define FILE_FD          3

/* All that the new process needs, made before the fork: memory cannot be allocated after it. */
struct job {
	char program[PATH_MAX];
	char start[48], end[48];
	int file, out, messages, null; /* descriptors above FILE_FD */
	pid_t parent;
};

/* Finds objdump in PATH. Relative folders are skipped: what is in them depends on where one is. */
static int find_program(char ret[PATH_MAX])
{
	const char *path = getenv("PATH");

	for (const char *p = path ? path : "/usr/bin:/bin"; *p; p += *p == ':') {
		const size_t len = strcspn(p, ":");
		int n = snprintf(ret, PATH_MAX, "%.*s/objdump", (int)MIN_OF(len, (size_t)PATH_MAX),
		                 p);

		if (*p == '/' && n > 0 && n < PATH_MAX && access(ret, X_OK) == 0)
			return 0;
		p += len;
	}
	return -ENOENT;
}

static void set_limit(int what, uint64_t value)
{
	const struct rlimit limit = {.rlim_cur = value, .rlim_max = value};

	(void)setrlimit((__rlimit_resource_t)what, &limit); /* one that is lower already stays */
}

static _Noreturn void process_main(struct job *j)
{
	static char name[] = "objdump", code[] = "--disassemble", zeroes[] = "--disassemble-zeroes",
	            bytes[] = "--no-show-raw-insn", names[] = "--demangle", wide[] = "--wide",
	            file[] = "/proc/self/fd/3", locale[] = "LC_ALL=C";
	char *const argv[] = {name, code, zeroes, bytes, names, wide, j->start, j->end, file, NULL};
	char *const env[] = {locale, NULL};
	sigset_t none;

	_Static_assert(FILE_FD == 3, "its name");
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != j->parent)
		_exit(127);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	if (dup2(j->null, STDIN_FILENO) < 0 || dup2(j->out, STDOUT_FILENO) < 0 ||
	    dup2(j->messages, STDERR_FILENO) < 0 || dup2(j->file, FILE_FD) < 0)
		_exit(127);
	(void)syscall(SYS_close_range, FILE_FD + 1U, ~0U, 0U); /* Linux 5.9; ours close at exec */
	set_limit(RLIMIT_CPU, CPU_S);
	set_limit(RLIMIT_AS, MEMORY_BYTES);
	set_limit(RLIMIT_FSIZE, OUTPUT_BYTES_MAX);
	set_limit(RLIMIT_CORE, 0);
	(void)execve(j->program, argv, env);
	_exit(127);
}

/* Moves a descriptor above those that the new process has. */
static int move_up(int *fd)
{
	const int up = *fd < 0 ? -1 : fcntl(*fd, F_DUPFD_CLOEXEC, FILE_FD + 1);
	const int r = up < 0 ? -errno : 0;

	closep(fd);
	*fd = up;
	return r;
}

static int run(struct job *j, int *ret_status)
{
	const pid_t pid = fork();
	pid_t r;

	if (pid == 0)
		process_main(j);
	if (pid < 0)
		return -errno;
	*ret_status = 0;
	do
		r = waitpid(pid, ret_status, 0);
	while (r < 0 && errno == EINTR); /* ECHILD: SIGCHLD is ignored, and it has ended */
	return 0;
}

/* Describes a failure by the first line of the program's messages. */
static int refuse(int status, int messages, struct err *err)
{
	char text[MESSAGE_BYTES] = "";
	const ssize_t n = file_pread_full(messages, text, sizeof(text) - 1, 0);

	text[n > 0 ? strcspn(text, "\n") : 0] = 0;
	if (*text)
		return err_set(err, -EIO, "%s", text);
	if (WIFSIGNALED(status))
		return err_set(err, -EIO, "objdump was ended by signal %d%s", WTERMSIG(status),
		               WTERMSIG(status) == SIGXCPU   ? ": it took more than a minute"
		               : WTERMSIG(status) == SIGXFSZ ? ": it printed more than 64 MiB"
		                                             : "");
	return err_set(err, -EIO, "objdump failed with exit status %d", WEXITSTATUS(status));
}

int lst_objdump(int fd, uint64_t start, uint64_t end, struct sbuf *out, struct err *err)
{
	_cleanup_close_ int file = fcntl(fd, F_DUPFD_CLOEXEC, FILE_FD + 1);
	_cleanup_close_ int printed = memfd_create("objdump-output", MFD_CLOEXEC),
	                    messages = memfd_create("objdump-messages", MFD_CLOEXEC),
	                    null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct job j = {.parent = getpid()};
	int r = file < 0 ? -errno : 0, status = 0;

	if (find_program(j.program) < 0)
		return err_set(err, -ENOENT,
		               "no disassembly: objdump is not in PATH; install the package "
		               "binutils");
	if (r == 0)
		r = move_up(&printed);
	if (r == 0)
		r = move_up(&messages);
	if (r == 0)
		r = move_up(&null);
	(void)snprintf(j.start, sizeof(j.start), "--start-address=0x%" PRIx64, start);
	(void)snprintf(j.end, sizeof(j.end), "--stop-address=0x%" PRIx64, end);
	j.file = file;
	j.out = printed;
	j.messages = messages;
	j.null = null;
	if (r == 0)
		r = run(&j, &status);
	if (r < 0)
		return err_set(err, r, "cannot start objdump: %s", err_name(r));
	if (status != 0)
		return refuse(status, messages, err);
	if (lseek(printed, 0, SEEK_SET) < 0)
		return err_set(err, -errno, "cannot read the output of objdump: %s",
		               err_name(errno));
	return file_read_fd(printed, out);
}
