/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seccomp-run - runs a program under a filter that refuses one system call.
 *
 * usage: seccomp-run bpf|bpf-tracepoint|perf_event_open EPERM|ENOSYS|EACCES PROGRAM [ARGUMENT …]
 * Ends with 125 when the filter cannot be installed, else as the program does.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		unsigned int number, command; /* command 0: all of them */
	} calls[] = {{"bpf", SYS_bpf, 0},
	             {"bpf-tracepoint", SYS_bpf, BPF_RAW_TRACEPOINT_OPEN},
	             {"perf_event_open", SYS_perf_event_open, 0}},
	  errors[] = {{"EPERM", EPERM, 0}, {"ENOSYS", ENOSYS, 0}, {"EACCES", EACCES, 0}};
	unsigned int call = 0, command = 0, error = 0;

	for (size_t i = 0; argc > 3 && i < sizeof(calls) / sizeof(calls[0]); i++)
		if (strcmp(argv[1], calls[i].name) == 0) {
			call = calls[i].number;
			command = calls[i].command;
		}
	for (size_t i = 0; argc > 3 && i < sizeof(errors) / sizeof(errors[0]); i++)
		if (strcmp(argv[2], errors[i].name) == 0)
			error = errors[i].number;
	if (!call || !error) {
		fprintf(stderr,
		        "usage: seccomp-run bpf|bpf-tracepoint|perf_event_open EPERM|ENOSYS|EACCES "
		        "PROGRAM [ARGUMENT ...]\n");
		return 125;
	}
	/* The caller is of this machine's native kind: no look at seccomp_data.arch is needed. */
	struct sock_filter filter[] = {
	        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 3),
	        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)), /* low */
	        BPF_JUMP((uint16_t)(BPF_JMP | (command ? BPF_JEQ : BPF_JGE) | BPF_K), command, 0,
	                 1),
	        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
	        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = sizeof(filter) / sizeof(filter[0]), .filter = filter};

	/* Without no_new_privs, which would take file capabilities away, root may install it too.
	 */
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0 &&
	    (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	     prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)) {
		perror("seccomp");
		return 125;
	}
	execv(argv[3], argv + 3);
	perror(argv[3]);
	return 125;
}
