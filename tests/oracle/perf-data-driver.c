/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: perf-data-driver CAPTURE OUT.data OUT.jsonl [ARGUMENT …]
 *
 * Writes a capture made of tables as perf.data, and what readers must find in it as text: one JSON
 * array a line, strings as hexadecimal digits of their bytes (test-perf-data-oracle.py has the
 * fields). The text comes from the tables, never from what the encoder made.
 * CAPTURE: basic; lost; hostile; empty; many TIMES (basic, so many times);
 * packed TIMES (as many, compressed);
 * file PATH BUILD_ID START LEN PGOFF ADDRESS:SAMPLES … (of one file that is mapped at START).
 * Other user addresses are those of the functions below, in this program's own file.
 */
#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "encode/encode.h"

#define MUST(call)                                                                                 \
	do {                                                                                       \
		int must_ = (call);                                                                \
		if (must_ < 0) {                                                                   \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,              \
			        err_name(must_));                                                  \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* Never called: symbols with room for addresses inside of them. */
#define CODE(name)                                                                                 \
	void name(void);                                                                           \
	__attribute__((noinline, used, visibility("default"))) void name(void)                     \
	{                                                                                          \
		static volatile int x;                                                             \
		x = x * 3 + __LINE__;                                                              \
		x = x * 5 + __LINE__;                                                              \
		x = x * 7 + __LINE__;                                                              \
	}
CODE(driver_outer)
CODE(driver_middle)
CODE(driver_leaf_a)
CODE(driver_leaf_b)

#define IN(f)     ((uint64_t)(uintptr_t)(f) + 4) /* an address inside of a function */
#define KERNEL    0xffffffff81000000ULL
#define KERNEL_IN (KERNEL + 0x1000) /* symbols of a kallsyms that the test makes */
#define BPF_CODE  0xffffffffc0001000ULL

static FILE *text;

static void put_hex(const char *s)
{
	fputc('"', text);
	for (; *s; s++)
		fprintf(text, "%02x", (unsigned char)*s);
	fputc('"', text);
}

/* ---- this program ---------------------------------------------------------------------------- */

static struct enc_perf_map self; /* the mapping of its code */
static char self_path[4096];

static void find_build_id(const struct dl_phdr_info *info, const ElfW(Phdr) * p)
{
	const char *at = (const char *)(info->dlpi_addr + p->p_vaddr);
	const char *end = at + p->p_memsz;

	while (end - at >= (ptrdiff_t)sizeof(ElfW(Nhdr))) {
		ElfW(Nhdr) n;
		const char *desc;

		memcpy(&n, at, sizeof(n));
		desc = at + sizeof(n) + (n.n_namesz + 3) / 4 * 4;
		if (n.n_type == NT_GNU_BUILD_ID && n.n_descsz <= sizeof(self.build_id)) {
			memcpy(self.build_id, desc, n.n_descsz);
			self.build_id_len = (uint8_t)n.n_descsz;
		}
		at = desc + (n.n_descsz + 3) / 4 * 4;
	}
}

static int find_self(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	(void)arg;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_NOTE)
			find_build_id(info, p);
		if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
			continue;
		self.start = (info->dlpi_addr + p->p_vaddr) & ~4095ULL;
		self.pgoff = p->p_offset & ~4095ULL;
		self.len = ((p->p_offset - self.pgoff) + p->p_memsz + 4095) & ~4095ULL;
	}
	return 1; /* the first object is the program */
}

static void open_self(void)
{
	struct stat st;

	if (!realpath("/proc/self/exe", self_path) || stat(self_path, &st) < 0)
		exit(1);
	self.dev_major = major(st.st_dev);
	self.dev_minor = minor(st.st_dev);
	self.ino = st.st_ino;
	self.prot = PROT_READ | PROT_EXEC;
	self.flags = MAP_PRIVATE;
	self.path = self_path;
	(void)dl_iterate_phdr(find_self, NULL);
}

/* ---- a capture ------------------------------------------------------------------------------- */

struct capture {
	struct enc_perf_record side[64], samples[512];
	const char *comm[512]; /* of samples[] */
	size_t n_side, n_samples, next;
	uint64_t many; /* repetitions of samples[], each 1 us later */
	uint64_t turn;
};

static struct enc_perf_record *side(struct capture *c, enum enc_perf_type type, uint64_t time_ns,
                                    uint32_t pid, uint32_t tid)
{
	struct enc_perf_record *r = &c->side[c->n_side++];

	assert(c->n_side <= ARRAY_SIZE(c->side));
	*r = (struct enc_perf_record){.type = type, .time_ns = time_ns, .pid = pid, .tid = tid};
	return r;
}

static void comm(struct capture *c, uint64_t time_ns, uint32_t pid, uint32_t tid, const char *name,
                 bool exec)
{
	struct enc_perf_record *r = side(c, ENC_PERF_COMM, time_ns, pid, tid);

	r->comm.name = name;
	r->comm.exec = exec;
}

static void map(struct capture *c, uint64_t time_ns, uint32_t pid, const struct enc_perf_map *m,
                bool with_id)
{
	struct enc_perf_record *r = side(c, ENC_PERF_MMAP, time_ns, pid, pid);

	r->map = *m;
	if (!with_id)
		r->map.build_id_len = 0;
}

static void fork_of(struct capture *c, uint64_t time_ns, uint32_t pid, uint32_t tid, uint32_t ppid,
                    uint32_t ptid)
{
	struct enc_perf_record *r = side(c, ENC_PERF_FORK, time_ns, pid, tid);

	r->parent.ppid = ppid;
	r->parent.ptid = ptid;
}

static const uint64_t user_a[] = {IN(driver_leaf_a), IN(driver_middle), IN(driver_outer)};
static const uint64_t user_b[] = {IN(driver_leaf_b), IN(driver_outer)};
static const uint64_t kernel_a[] = {KERNEL_IN + 0x10, KERNEL_IN + 0x1010};
static const uint64_t kernel_bpf[] = {BPF_CODE + 8, KERNEL_IN + 0x1010};

struct stack {
	const uint64_t *p;
	uint32_t n;
};
#define STACK(a) ((struct stack){(a), ARRAY_SIZE(a)})
#define NO_STACK ((struct stack){NULL, 0})

static struct enc_perf_record *sample(struct capture *c, uint64_t time_ns, uint32_t pid,
                                      uint32_t tid, const char *name, struct stack kernel,
                                      struct stack user)
{
	struct enc_perf_record *r = &c->samples[c->n_samples];

	assert(c->n_samples < ARRAY_SIZE(c->samples));
	c->comm[c->n_samples++] = name;
	*r = (struct enc_perf_record){
	        .type = ENC_PERF_SAMPLE, .time_ns = time_ns, .pid = pid, .tid = tid};
	r->sample.cpu = (uint32_t)(c->n_samples % 3);
	r->sample.period = 10101010;
	r->sample.kernel = kernel.p;
	r->sample.n_kernel = kernel.n;
	r->sample.user = user.p;
	r->sample.n_user = user.n;
	return r;
}

static void off(struct enc_perf_record *r, uint64_t period)
{
	r->sample.event = 1;
	r->sample.period = period;
}

#define T0 1000000000000ULL

static void make_basic(struct capture *c)
{
	struct enc_perf_record *r;

	comm(c, 0, 1000, 1000, "server", false);
	comm(c, 0, 1000, 1001, "worker one", false);
	map(c, 0, 1000, &self, true);
	r = side(c, ENC_PERF_KSYMBOL, 0, 0, 0);
	r->ksymbol.start = BPF_CODE;
	r->ksymbol.len = 0x100;
	r->ksymbol.bpf = true;
	r->ksymbol.name = "bpf_prog_0011223344556677_probe";
	sample(c, T0 + 1000, 1000, 1000, "server", NO_STACK, STACK(user_a));
	sample(c, T0 + 2000, 1000, 1001, "worker one", STACK(kernel_a), STACK(user_b));
	off(sample(c, T0 + 3000, 1000, 1001, "worker one", STACK(kernel_a), STACK(user_a)),
	    123456789012ULL);
	/* A child that executes this program, ends, and whose number is used again. */
	fork_of(c, T0 + 4000, 2000, 2000, 1000, 1000);
	sample(c, T0 + 4500, 2000, 2000, "server", NO_STACK, STACK(user_b));
	comm(c, T0 + 5000, 2000, 2000, "child", true);
	map(c, T0 + 5100, 2000, &self, false);
	sample(c, T0 + 6000, 2000, 2000, "child", STACK(kernel_bpf), STACK(user_a));
	r = side(c, ENC_PERF_EXIT, T0 + 7000, 2000, 2000);
	r->parent.ppid = r->parent.ptid = 2000;
	fork_of(c, T0 + 8000, 2000, 2000, 1, 1);
	comm(c, T0 + 8100, 2000, 2000, "again", true);
	map(c, T0 + 8200, 2000, &self, true);
	off(sample(c, T0 + 9000, 2000, 2000, "again", NO_STACK, STACK(user_b)), 7);
	/* A thread that is renamed, a thread of the kernel, and one without any stack. */
	comm(c, T0 + 9100, 1000, 1001, "renamed", false);
	sample(c, T0 + 9200, 1000, 1001, "renamed", STACK(kernel_a), NO_STACK);
	comm(c, T0 + 9300, 7, 7, "kworker/1:2", false);
	sample(c, T0 + 9400, 7, 7, "kworker/1:2", STACK(kernel_a), NO_STACK);
	r = sample(c, T0 + 9500, 7, 7, "kworker/1:2", NO_STACK, NO_STACK);
	r->sample.in_kernel = true;
	fork_of(c, T0 + 9600, 1000, 1002, 1000, 1000);
	sample(c, T0 + 9700, 1000, 1002, "server", NO_STACK, STACK(user_a));
}

/* At the time of the last sample, and later. */
static void make_lost(struct capture *c)
{
	make_basic(c);
	side(c, ENC_PERF_LOST_SAMPLES, T0 + 9700, 0, 0)->lost = 3;
	side(c, ENC_PERF_LOST, T0 + 9800, 0, 0)->lost = 5;
}

static uint64_t number(const char *s, int base)
{
	uint64_t v;

	MUST(parse_u64(s, base, &v));
	return v;
}

/* Samples without callers. */
static void make_file(struct capture *c, char **argv)
{
	static uint64_t addresses[32];
	size_t n = 0;

	(void)str_copy(self_path, sizeof(self_path), *argv++);
	self.build_id_len = (uint8_t)(strlen(*argv) / 2);
	for (size_t i = 0; i < self.build_id_len && i < sizeof(self.build_id); i++) {
		const char digits[] = {(*argv)[2 * i], (*argv)[2 * i + 1], '\0'};

		self.build_id[i] = (uint8_t)number(digits, 16);
	}
	self.start = number(*++argv, 10);
	self.len = number(*++argv, 10);
	self.pgoff = number(*++argv, 10);
	comm(c, 0, 1000, 1000, "file", true);
	map(c, 0, 1000, &self, true);
	while (*++argv && n < ARRAY_SIZE(addresses)) {
		char *count = strchr(*argv, ':');

		*count++ = '\0';
		addresses[n] = number(*argv, 10);
		for (uint64_t i = number(count, 10); i > 0; i--)
			sample(c, T0 + c->n_samples, 1000, 1000, "file", NO_STACK,
			       (struct stack){&addresses[n], 1});
		n++;
	}
}

static void make_hostile(struct capture *c)
{
	static const char *const names[] = {
	        "a\nb",
	        "\x1b[31mred",
	        "<script>x</s>",
	        "caf\xc3\xa9 \xc3",
	        "a;b\"c'd\\",
	        "",
	        "0123456789abcdefXY",
	        "01234567890123\xc3\xa9",
	        "\302\2331mx",
	        " lead\ttab",
	};
	static const char *const shown[] = {
	        "a?b", "?[31mred",        "<script>x</s>",  "caf\xc3\xa9 ?", "a;b\"c'd\\",
	        "",    "0123456789abcde", "01234567890123", "?1mx",          " lead?tab",
	};
	static char deep[6000];
	struct enc_perf_map m = self;

	memset(deep, 'd', sizeof(deep) - 1);
	deep[0] = '/';
	m.path = deep;
	m.start = 0x10000;
	m.len = 0x1000;
	m.pgoff = 0;
	m.build_id_len = 0;
	for (uint32_t i = 0; i < ARRAY_SIZE(names); i++) {
		comm(c, 0, 100 + i, 100 + i, names[i], false);
		map(c, 0, 100 + i, &self, true);
		map(c, 0, 100 + i, &m, true);
		m.path = "/tmp/evil\n\x1b[2J<b>'\";.so";
		sample(c, T0 + i, 100 + i, 100 + i, shown[i], NO_STACK, STACK(user_a));
	}
}

/* ---- writing --------------------------------------------------------------------------------- */

static void rewind_samples(void *arg)
{
	struct capture *c = arg;

	c->next = 0;
	c->turn = 0;
}

static int next_sample(void *arg, struct enc_perf_record *ret)
{
	struct capture *c = arg;

	if (c->next == c->n_samples) {
		if (++c->turn >= c->many)
			return 0;
		c->next = 0;
	}
	*ret = c->samples[c->next++];
	ret->time_ns += c->turn * 1000000;
	return 1;
}

static int to_file(void *arg, const void *data, size_t len)
{
	return fwrite(data, 1, len, arg) == len ? 0 : -EIO;
}

static void put_addresses(const uint64_t *p, uint32_t n)
{
	fputc('[', text);
	for (uint32_t i = 0; i < n; i++)
		fprintf(text, "%s%" PRIu64, i ? "," : "", p[i]);
	fputc(']', text);
}

static void describe(const struct enc_perf_data *d, const struct capture *c)
{
	for (size_t i = 0; i < c->n_samples; i++) {
		const struct enc_perf_record *r = &c->samples[i];

		fputs("[\"sample\",", text);
		put_hex(d->events[r->sample.event].name);
		fputc(',', text);
		put_hex(c->comm[i]);
		fprintf(text, ",%u,%u,%u,%" PRIu64 ",%" PRIu64 ",", r->pid, r->tid, r->sample.cpu,
		        r->time_ns, r->sample.period);
		put_addresses(r->sample.kernel, r->sample.n_kernel);
		fputc(',', text);
		put_addresses(r->sample.user, r->sample.n_user);
		fputs("]\n", text);
	}
	fputs("[\"self\",", text);
	put_hex(self_path);
	fprintf(text, ",\"");
	for (uint32_t i = 0; i < self.build_id_len; i++)
		fprintf(text, "%02x", self.build_id[i]);
	fprintf(text, "\",%" PRIu64 ",%" PRIu64 "]\n", self.start, self.pgoff);
	fprintf(text, "[\"code\",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]\n",
	        IN(driver_outer), IN(driver_middle), IN(driver_leaf_a), IN(driver_leaf_b));
}

int main(int argc, char **argv)
{
	static const char *const cmdline[] = {"perf-agent", "--perf-data-output", "x y.data"};
	static const struct enc_perf_event events[] = {
	        {.name = "cpu-clock",
	         .type = PERF_TYPE_SOFTWARE,
	         .config = PERF_COUNT_SW_CPU_CLOCK,
	         .sample_freq = 99},
	        {.name = "offcpu-time",
	         .type = PERF_TYPE_SOFTWARE,
	         .config = PERF_COUNT_SW_BPF_OUTPUT,
	         .sample_period = 1},
	};
	static struct capture c;
	struct enc_perf_build_id ids[] = {
	        {.kernel = true, .pid = UINT32_MAX, .len = 20, .path = "[kernel.kallsyms]"},
	        {.pid = UINT32_MAX, .path = self_path},
	};
	struct enc_perf_data d = {
	        .events = events,
	        .n_events = ARRAY_SIZE(events),
	        .build_ids = ids,
	        .n_build_ids = ARRAY_SIZE(ids),
	        .facts = {.hostname = "test-host",
	                  .os_release = "6.1.0-test",
	                  .arch = "x86_64",
	                  .version = "perf-agent test",
	                  .cpu_desc = "A Processor, of 3 GHz",
	                  .cpu_id = "GenuineTest,6,85,7",
	                  .cpus_online = 3,
	                  .cpus_avail = 4,
	                  .total_mem_kib = 16384,
	                  .cmdline = cmdline,
	                  .n_cmdline = ARRAY_SIZE(cmdline),
	                  .has_clock = true,
	                  .realtime_ns = 1700000000000000000ULL,
	                  .monotonic_ns = T0},
	        .kernel = {.start = KERNEL,
	                   .end = KERNEL + 0x1000000,
	                   .ref = KERNEL,
	                   .ref_name = "_text"},
	        .next = next_sample,
	        .rewind = rewind_samples,
	        .arg = &c,
	};
	struct err err = {0};
	FILE *out;

	if (argc < 4)
		return 2;
	open_self();
	memset(ids[0].id, 0xab, sizeof(ids[0].id));
	d.zstd_level = strcmp(argv[1], "packed") == 0;
	if (strcmp(argv[1], "basic") == 0 || strcmp(argv[1], "many") == 0 || d.zstd_level)
		make_basic(&c);
	else if (strcmp(argv[1], "lost") == 0)
		make_lost(&c);
	else if (strcmp(argv[1], "hostile") == 0)
		make_hostile(&c);
	else if (strcmp(argv[1], "file") == 0 && argc > 9)
		make_file(&c, argv + 4);
	else if (strcmp(argv[1], "empty") != 0)
		return 2;
	if (strcmp(argv[1], "many") == 0 || d.zstd_level)
		c.many = number(argv[4], 10);
	memcpy(ids[1].id, self.build_id, self.build_id_len);
	ids[1].len = self.build_id_len;
	d.side = c.side;
	d.n_side = c.n_side;
	out = fopen(argv[2], "we");
	text = fopen(argv[3], "we");
	if (!out || !text)
		return 1;
	if (enc_perf_data(&d, to_file, out, &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	describe(&d, &c);
	return fclose(out) == 0 && fclose(text) == 0 ? 0 : 1;
}
