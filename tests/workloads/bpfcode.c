/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bpfcode [--alone] - kernel code that comes and goes: programs of BPF, each run for a while of CPU
 * time and dropped then: "pa_early" (100 ms: gone before anybody has asked for its name),
 * "pa_first" (500 ms), and "pa_second" (500 ms), which is loaded last. With --alone it loads
 * "pa_alone" only, says "ready PID", and runs it until it is ended.
 *
 * Ends with 77 where programs cannot be loaded or are not compiled.
 */
#include "workload.h"

#include <errno.h>
#include <linux/bpf.h>
#include <sys/syscall.h>

#define INSNS                                                                                      \
	3000 /* several pages of machine code; the early one has fewer, so that no other fits      \
	      * into its place */
#define EARLY    600
#define EARLY_NS 100000000ULL
#define REPEAT   20000
#define RUN_NS   500000000ULL

static int load(const char *name, int32_t factor, uint32_t cnt)
{
	static struct bpf_insn code[INSNS];
	union bpf_attr attr;
	size_t n = 0;
	int fd;

	code[n++] = (struct bpf_insn){.code = BPF_ALU64 | BPF_MOV | BPF_K, .imm = factor};
	while (n < cnt - 1)
		code[n++] = (struct bpf_insn){.code = BPF_ALU64 | BPF_MUL | BPF_K, .imm = factor};
	code[n++] = (struct bpf_insn){.code = BPF_JMP | BPF_EXIT};
	memset(&attr, 0, sizeof(attr));
	attr.prog_type = BPF_PROG_TYPE_SOCKET_FILTER;
	attr.insns = (uint64_t)(uintptr_t)code;
	attr.insn_cnt = cnt;
	attr.license = (uint64_t)(uintptr_t) "GPL";
	memcpy(attr.prog_name, name, strlen(name));
	fd = (int)syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));
	if (fd < 0) {
		fprintf(stderr, "bpfcode: BPF_PROG_LOAD: errno %d\n", errno);
		exit(77);
	}
	return fd;
}

static void run(int fd)
{
	static char packet[64];
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.test.prog_fd = (uint32_t)fd;
	attr.test.data_in = (uint64_t)(uintptr_t)packet;
	attr.test.data_size_in = sizeof(packet);
	attr.test.repeat = REPEAT;
	if (syscall(SYS_bpf, BPF_PROG_TEST_RUN, &attr, sizeof(attr)) < 0) {
		fprintf(stderr, "bpfcode: BPF_PROG_TEST_RUN: errno %d\n", errno);
		exit(77);
	}
}

static void run_for(int fd, uint64_t ns)
{
	uint64_t end = wl_clock_ns(CLOCK_THREAD_CPUTIME_ID) + ns;

	while (wl_clock_ns(CLOCK_THREAD_CPUTIME_ID) < end)
		run(fd);
}

int main(int argc, char **argv)
{
	int early, first, second;

	if (argc > 1 && strcmp(argv[1], "--alone") == 0) {
		first = load("pa_alone", 3, INSNS);
		printf("ready %d\n", (int)getpid());
		fflush(stdout);
		run_for(first, UINT64_MAX / 2);
		return 0;
	}
	early = load("pa_early", 3, EARLY);
	first = load("pa_first", 5, INSNS);
	run_for(early, EARLY_NS);
	close(early);
	run_for(first, RUN_NS);
	second = load("pa_second", 7, INSNS);
	close(first);
	run_for(second, RUN_NS);
	close(second);
	return 0;
}
