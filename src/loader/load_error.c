/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reason of a failed call into libbpf, in one line. libbpf prints through one process-wide
 * call-back. It is ours only while one of our calls runs: the embedding program's own use of libbpf
 * prints as before.
 */
#include "loader/load_priv.h"

#include <linux/capability.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define VMLINUX_BTF "/sys/kernel/btf/vmlinux"

/* The part of libbpf's output that is kept: enough for the last lines of the verifier. */
#define LOG_MAX_BYTES  65536
#define LOG_TAIL_BYTES 4096 /* of each message */

static __thread struct sbuf *current_log;

static struct {
	pthread_mutex_t lock;     /* guards the two below; leaf */
	unsigned int users;       /* our calls that run now, in all sessions */
	libbpf_print_fn_t before; /* the embedding program's; put back by the last */
} print = {.lock = PTHREAD_MUTEX_INITIALIZER};

static PRINTF_FMT(2, 0) int collect(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	libbpf_print_fn_t before;
	char *text = NULL;
	int n;

	if (!current_log) {
		/* Another thread uses libbpf by itself. */
		pthread_mutex_lock(&print.lock);
		before = print.before;
		pthread_mutex_unlock(&print.lock);
		return before ? before(level, fmt, ap) : 0;
	}
	if (level != LIBBPF_WARN)
		return 0; /* information is no reason */
	n = vasprintf(&text, fmt, ap);
	if (n >
	    0) /* a full log keeps its beginning; of a verifier's log the end says what is wrong */
		(void)sbuf_str(current_log, text + (n > LOG_TAIL_BYTES ? n - LOG_TAIL_BYTES : 0));
	if (n >= 0)
		free(text);
	return n;
}

void load_log_begin(struct load_log *log)
{
	sbuf_init(&log->text, LOG_MAX_BYTES);
	current_log = &log->text;
	pthread_mutex_lock(&print.lock);
	if (print.users++ == 0)
		print.before = libbpf_set_print(collect);
	pthread_mutex_unlock(&print.lock);
}

void load_log_end(struct load_log *log)
{
	pthread_mutex_lock(&print.lock);
	if (--print.users == 0) {
		(void)libbpf_set_print(print.before);
		print.before = NULL;
	}
	pthread_mutex_unlock(&print.lock);
	current_log = NULL;
	sbuf_done(&log->text);
}

/* Finds the line of libbpf's output that says most: the last before its summary "failed to load
 * object". */
static void telling_line(const struct sbuf *b, char *ret, size_t size)
{
	static const char *const noise[] = {"failed to load object",
	                                    "failed to load BPF skeleton",
	                                    "-- END PROG",
	                                    "-- BEGIN PROG",
	                                    "processed ",
	                                    "failed to load: ",
	                                    "extern (var ksym)", /* why it is not: before it */
	                                    "bpf_object__probe_loading"};
	struct cursor c = cursor_of(b->p, b->len);
	const char *line;
	size_t len;

	ret[0] = 0;
	while (cursor_line(&c, &line, &len) == 0) {
		bool skip = len == 0;

		for (size_t i = 0; i < ARRAY_SIZE(noise) && !skip; i++)
			skip = memmem(line, len, noise[i], strlen(noise[i])) != NULL;
		if (skip)
			continue;
		if (len > 8 && memcmp(line, "libbpf: ", 8) == 0) {
			line += 8;
			len -= 8;
		}
		len = MIN_OF(len, size - 1);
		memcpy(ret, line, len);
		ret[len] = 0;
	}
}

/* Returns true if EPERM may mean that the maps are larger than RLIMIT_MEMLOCK. Kernels up to 5.10
 * count them against it; bpf_ktime_get_coarse_ns came with the change. libbpf raises the limit by
 * itself where CAP_SYS_RESOURCE lets it. */
static bool over_memlock(rlim_t *ret_limit)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_MEMLOCK, &lim) < 0 || lim.rlim_cur == RLIM_INFINITY ||
	    !cap_effective(CAP_BPF) ||
	    libbpf_probe_bpf_helper(BPF_PROG_TYPE_SOCKET_FILTER, BPF_FUNC_ktime_get_coarse_ns,
	                            NULL) == 1)
		return false;
	*ret_limit = lim.rlim_cur;
	return true;
}

int load_explain(const struct load_log *log, int code, const char *what, struct err *err)
{
	char text[160], line[200];
	rlim_t limit;

	if (access(VMLINUX_BTF, R_OK) < 0)
		return err_set_cause(err, code, ERR_NO_BTF, VMLINUX_BTF,
		                     "%s: %s: no kernel BTF: " VMLINUX_BTF ": %s; needs a kernel "
		                     "built with CONFIG_DEBUG_INFO_BTF=y",
		                     what, err_name(code), err_name(errno));
	(void)snprintf(text, sizeof(text), "%s: %s", what, err_name(code)); /* fits */
	if ((code == -EPERM || code == -EACCES) && cap_explain(err, code, text))
		return code;
	if (code == -EPERM && over_memlock(&limit))
		return err_set_cause(
		        err, code, ERR_MEMLOCK, NULL,
		        "%s: RLIMIT_MEMLOCK is %llu bytes and this kernel counts BPF maps against "
		        "it; raise it with ulimit -l, or add CAP_SYS_RESOURCE",
		        text, (unsigned long long)limit);
	telling_line(&log->text, line, sizeof(line));
	if (line[0])
		return err_set(err, code, "%s (%s)", text, line);
	return err_set(err, code, "%s", text);
}
