/* SPDX-License-Identifier: Apache-2.0 */
/* Side-band records as events. */
#include "perf_records.h"

/* ---- records -------------------------------------------------------------------------------- */

#define TIME 0x1122334455667788ULL

struct mmap2_body {
	uint32_t pid, tid;
	uint64_t addr, len, pgoff;
	uint32_t maj, min;
	uint64_t ino, generation;
	uint32_t prot, flags;
};

/* A record of header, @body, @name padded to 8 bytes, and trailer. Returns its length. */
static size_t record(uint8_t *rec, uint32_t type, uint16_t misc, const void *body, size_t body_len,
                     const char *name)
{
	struct perf_event_header h = {.type = type, .misc = misc};
	struct pev_trailer t = {.pid = 5, .tid = 6, .time_ns = TIME};
	size_t name_len = name ? (strlen(name) / 8 + 1) * 8 : 0;

	h.size = (uint16_t)(sizeof(h) + body_len + name_len + sizeof(t));
	memset(rec, 0, h.size);
	memcpy(rec, &h, sizeof(h));
	memcpy(rec + sizeof(h), body, body_len);
	if (name)
		memcpy(rec + sizeof(h) + body_len, name, strlen(name));
	memcpy(rec + h.size - sizeof(t), &t, sizeof(t));
	return h.size;
}

static const struct mmap2_body map_body = {
        10, 11, 0x7f0000001000, 0x2000, 0x3000, 0xfe, 0x12, 12345, 1, PROT_READ | PROT_EXEC, 2};

static void test_mmap2_records(void **state)
{
	static const struct {
		const char *name, *path;
		uint32_t prot;
		int kind, exec, deleted;
	} cases[] = {
	        {"/usr/lib/x.so", "/usr/lib/x.so", PROT_EXEC, EV_MAP_FILE, 1, 0},
	        {"/usr/lib/x.so", "/usr/lib/x.so", PROT_READ, EV_MAP_FILE, 0, 0},
	        {"/1234567", "/1234567", PROT_EXEC, EV_MAP_FILE, 1, 0},
	        {"/x y (deleted)", "/x y", PROT_EXEC, EV_MAP_FILE, 1, 1},
	        {"/memfd:jit (deleted)", "/memfd:jit", PROT_EXEC, EV_MAP_FILE, 1, 1},
	        {"/dev/zero (deleted)", "/dev/zero", PROT_EXEC, EV_MAP_ANON, 1, 1},
	        {" (deleted)", " (deleted)", PROT_EXEC, EV_MAP_OTHER, 1, 0},
	        {"//anon", "//anon", PROT_EXEC, EV_MAP_ANON, 1, 0},
	        {"[vdso]", "[vdso]", PROT_EXEC, EV_MAP_VDSO, 1, 0},
	        {"", "", PROT_EXEC, EV_MAP_ANON, 1, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct mmap2_body b = map_body;
		uint8_t rec[256];
		struct ev_proc e;
		size_t len;

		b.prot = cases[i].prot;
		len = record(rec, PERF_RECORD_MMAP2, PERF_RECORD_MISC_USER, &b, sizeof(b),
		             cases[i].name);
		assert_int_equal(pev_record_parse(rec, len, &e), 1);
		assert_int_equal(e.type, EV_PROC_MMAP);
		assert_int_equal(e.pid, 10);
		assert_int_equal(e.tid, 11);
		assert_int_equal(e.time_ns, TIME);
		assert_int_equal(e.map.start, 0x7f0000001000);
		assert_int_equal(e.map.end, 0x7f0000003000);
		assert_int_equal(e.map.pgoff, 0x3000);
		assert_int_equal(e.map.file.dev_major, 0xfe);
		assert_int_equal(e.map.file.dev_minor, 0x12);
		assert_int_equal(e.map.file.ino, 12345);
		assert_string_equal(e.map.path, cases[i].path);
		assert_int_equal(e.map.kind, cases[i].kind);
		assert_int_equal(e.map.exec, cases[i].exec);
		assert_int_equal(e.map.deleted, cases[i].deleted);
	}
}

static void test_comm_records(void **state)
{
	const uint32_t ids[2] = {10, UINT32_MAX};
	uint8_t rec[128];
	struct ev_proc e;
	size_t len;

	(void)state;
	len = record(rec, PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC, ids, sizeof(ids), "a b");
	assert_int_equal(pev_record_parse(rec, len, &e), 1);
	assert_int_equal(e.type, EV_PROC_COMM);
	assert_int_equal(e.pid, 10);
	assert_int_equal(e.tid, UINT32_MAX);
	assert_int_equal(e.time_ns, TIME);
	assert_true(e.exec);
	assert_string_equal(e.comm, "a b");
	assert_string_equal(e.map.path, "");
	len = record(rec, PERF_RECORD_COMM, 0, ids, sizeof(ids), "0123456789abcdefgh");
	assert_int_equal(pev_record_parse(rec, len, &e), 1);
	assert_false(e.exec);
	assert_string_equal(e.comm, "0123456789abcde");
}

static void test_task_and_lost_records(void **state)
{
	const struct {
		uint32_t pid, ppid, tid, ptid;
		uint64_t time;
	} task = {1, 2, 3, 4, 5};
	const uint64_t lost[2] = {9, 1234};
	uint8_t rec[128];
	struct ev_proc e;
	size_t len;

	(void)state;
	len = record(rec, PERF_RECORD_FORK, 0, &task, sizeof(task), NULL);
	assert_int_equal(pev_record_parse(rec, len, &e), 1);
	assert_int_equal(e.type, EV_PROC_FORK);
	assert_int_equal(e.pid, 1);
	assert_int_equal(e.ppid, 2);
	assert_int_equal(e.tid, 3);
	assert_int_equal(e.ptid, 4);
	assert_int_equal(e.time_ns, TIME); /* the trailer's, by which they are sorted */
	len = record(rec, PERF_RECORD_EXIT, 0, &task, sizeof(task), NULL);
	assert_int_equal(pev_record_parse(rec, len, &e), 1);
	assert_int_equal(e.type, EV_PROC_EXIT);
	assert_int_equal(e.pid, 1);
	len = record(rec, PERF_RECORD_LOST, 0, lost, sizeof(lost), NULL);
	assert_int_equal(pev_record_parse(rec, len, &e), 1);
	assert_int_equal(e.type, EV_PROC_LOST);
	assert_int_equal(e.lost, 1234);
	assert_int_equal(e.time_ns, TIME);
	len = record(rec, PERF_RECORD_SAMPLE, 0, lost, sizeof(lost), NULL);
	e.lost = 77;
	assert_int_equal(pev_record_parse(rec, len, &e), 0);
	assert_int_equal(e.lost, 77);
}

struct ksymbol_body {
	uint64_t addr;
	uint32_t len;
	uint16_t type, flags;
};

static void test_ksymbol_records(void **state)
{
	const struct ksymbol_body bpf = {0xffffffffc0100040, 300, PERF_RECORD_KSYMBOL_TYPE_BPF, 0},
	                          ool = {0xffffffffc0200000, 4096, PERF_RECORD_KSYMBOL_TYPE_OOL,
	                                 PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER};
	uint8_t rec[128];
	struct ev_proc e;
	size_t len;

	(void)state;
	len = record(rec, PERF_RECORD_KSYMBOL, 0, &bpf, sizeof(bpf), "bpf_prog_12ab_x");
	assert_int_equal(pev_record_parse(rec, len, &e), 1);
	assert_int_equal(e.type, EV_PROC_KSYMBOL);
	assert_int_equal(e.time_ns, TIME);
	assert_int_equal(e.ksym.start, 0xffffffffc0100040);
	assert_int_equal(e.ksym.len, 300);
	assert_true(e.ksym.bpf);
	assert_false(e.ksym.gone);
	assert_string_equal(e.ksym.name, "bpf_prog_12ab_x");
	len = record(rec, PERF_RECORD_KSYMBOL, 0, &ool, sizeof(ool), "ftrace_trampoline");
	assert_int_equal(pev_record_parse(rec, len, &e), 1);
	assert_false(e.ksym.bpf);
	assert_true(e.ksym.gone);
	assert_string_equal(e.ksym.name, "ftrace_trampoline");
}

static void expect_malformed(uint8_t *rec, size_t len, const char *what)
{
	struct ev_proc e = {.lost = 77};

	if (pev_record_parse(rec, len, &e) != -EINVAL)
		fail_msg("taken: %s", what);
	assert_int_equal(e.lost, 77);
}

static void test_malformed_records(void **state)
{
	static const uint32_t types[] = {PERF_RECORD_MMAP2, PERF_RECORD_COMM, PERF_RECORD_FORK,
	                                 PERF_RECORD_EXIT,  PERF_RECORD_LOST, PERF_RECORD_KSYMBOL};
	struct ksymbol_body k = {UINT64_MAX - 64, 32, 1, 0};
	struct mmap2_body b = map_body;
	uint8_t rec[256], zeros[8] = {0};
	size_t len;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		len = record(rec, types[i], 0, zeros, sizeof(zeros), NULL);
		expect_malformed(rec, len, "no body");
		for (size_t cut = 0; cut < 32; cut++)
			expect_malformed(rec, cut, "cut");
	}
	len = record(rec, PERF_RECORD_MMAP2, 0, &b, sizeof(b), "/x");
	expect_malformed(rec, len - 8, "size and length differ");
	expect_malformed(rec, len + 8, "size and length differ");
	memset(rec + len - 24, 'x', 8);
	expect_malformed(rec, len, "name without end");
	len = record(rec, PERF_RECORD_MMAP2, PERF_RECORD_MISC_MMAP_BUILD_ID, &b, sizeof(b), "/x");
	expect_malformed(rec, len, "build-id in the place of the inode");
	b.len = 0;
	len = record(rec, PERF_RECORD_MMAP2, 0, &b, sizeof(b), "/x");
	expect_malformed(rec, len, "empty mapping");
	b.len = UINT64_MAX - b.addr + 1;
	len = record(rec, PERF_RECORD_MMAP2, 0, &b, sizeof(b), "/x");
	expect_malformed(rec, len, "mapping past the end of addresses");
	len = record(rec, PERF_RECORD_COMM, 0, "12345678abcdefgh", 16, NULL);
	expect_malformed(rec, len, "comm without end");
	len = record(rec, PERF_RECORD_KSYMBOL, 0, &k, sizeof(k), "");
	expect_malformed(rec, len, "code without a name");
	len = record(rec, PERF_RECORD_KSYMBOL, 0, &k, sizeof(k), "12345678");
	memset(rec + len - 24, 'x', 8);
	expect_malformed(rec, len, "name of code without end");
	k.len = 0;
	len = record(rec, PERF_RECORD_KSYMBOL, 0, &k, sizeof(k), "x");
	expect_malformed(rec, len, "empty code");
	k.len = 65;
	len = record(rec, PERF_RECORD_KSYMBOL, 0, &k, sizeof(k), "x");
	expect_malformed(rec, len, "code past the end of addresses");
	k = (struct ksymbol_body){0, 1, 1, 0};
	len = record(rec, PERF_RECORD_KSYMBOL, 0, &k, sizeof(k), "x");
	expect_malformed(rec, len, "code at 0");
}

static void test_distributions_want_more_than_perfmon(void **state)
{
	static const struct {
		const char *paranoid;
		uint64_t caps;
		bool wants_admin;
	} cases[] = {
	        {"-1\n", 1ULL << CAP_PERFMON, false},  {"2\n", 1ULL << CAP_PERFMON, false},
	        {"3\n", 1ULL << CAP_PERFMON, true},    {"4\n", 1ULL << CAP_PERFMON, true},
	        {"4\n", 1ULL << CAP_SYS_ADMIN, false}, {"", 1ULL << CAP_PERFMON, false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct pev_spec s = pev_spec_cpu_clock(99);
		struct err err = {0};
		struct pev_set set;

		fake.open_errno[3] = EACCES;
		fake.caps = cases[i].caps;
		paranoid = cases[i].paranoid;
		assert_int_equal(pev_open_cpus(&s, cpus, 4, &set, &err), -EACCES);
		paranoid = NULL;
		assert_int_equal(strstr(err.msg, "wants CAP_SYS_ADMIN") != NULL,
		                 cases[i].wants_admin);
		assert_int_equal(strstr(err.msg, "sysctl kernel.perf_event_paranoid=2") != NULL,
		                 cases[i].wants_admin);
		assert_int_equal(err.cause, cases[i].wants_admin ? ERR_SYSCTL : ERR_SECCOMP);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        FAKED(test_distributions_want_more_than_perfmon),
	        FAKED(test_mmap2_records),
	        FAKED(test_comm_records),
	        FAKED(test_task_and_lost_records),
	        FAKED(test_ksymbol_records),
	        FAKED(test_malformed_records),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
