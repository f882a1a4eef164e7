/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of the kernel's symbols: what is kept, when it is believed, and where its file may
 * be. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "ksyms/ksyms_priv.h"

static const char kallsyms[] = "ffffffff81000000 T _stext\n"
                               "ffffffff81000100 t do_it\n"
                               "ffffffff81000200 D data\n"
                               "ffffffff81001000 t after_data\n"
                               "ffffffffc0200000 t mod_fn\t[ext4]\n"
                               "ffffffffc0300000 t bpf_prog_12_x\t[bpf]\n"
                               "ffffffffc0301000 t ftrace_trampoline\t[__builtin__ftrace]\n"
                               "ffffffffc0400000 t last\t[xfs]\n";
static const char modules[] = "xfs 2000000 1 - Live 0xffffffffc0400000\n"
                              "ext4 1000000 7 mbcache,jbd2, Live 0xffffffffc0200000\n";
static const char boot_id[] = "0ddd69b3-3bff-475d-aa9b-e3d0e5d8fab4\n";

static char home[64], kallsyms_path[96], modules_path[96], boot_path[96], folder[96], file[128];
static struct ksyms_options options;

static void put(const char *path, const void *bytes, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(file_write_full(fd, bytes, len), 0);
	close(fd);
}

static void put_str(const char *path, const char *s)
{
	put(path, s, strlen(s));
}

static int setup(void **state)
{
	(void)state;
	(void)str_copy(home, sizeof(home), "/tmp/test-kcache-XXXXXX");
	if (!mkdtemp(home))
		return -1;
	(void)snprintf(kallsyms_path, sizeof(kallsyms_path), "%s/kallsyms", home);
	(void)snprintf(modules_path, sizeof(modules_path), "%s/modules", home);
	(void)snprintf(boot_path, sizeof(boot_path), "%s/boot_id", home);
	(void)snprintf(folder, sizeof(folder), "%s/perf-agent", home);
	(void)snprintf(file, sizeof(file), "%s/kallsyms.cache", folder);
	put_str(kallsyms_path, kallsyms);
	put_str(modules_path, modules);
	put_str(boot_path, boot_id);
	options = (struct ksyms_options){.kallsyms = kallsyms_path,
	                                 .modules = modules_path,
	                                 .boot_id = boot_path,
	                                 .cache_home = home,
	                                 .uid = geteuid()};
	return 0;
}

static int teardown(void **state)
{
	char command[128];

	(void)state;
	(void)snprintf(command, sizeof(command), "rm -rf %s", home);
	return system(command); /* its name is ours */
}

static enum ksyms_cache load(struct ksyms **ret)
{
	enum ksyms_cache how;
	struct err err = {0};

	*ret = NULL;
	if (ksyms_load_cached(&options, ret, &how, &err) < 0)
		fail_msg("%s", err.msg);
	return how;
}

/* Loads and throws away. */
static enum ksyms_cache how(void)
{
	struct ksyms *k;
	enum ksyms_cache r = load(&k);

	ksyms_free(k);
	return r;
}

static bool named(struct ksyms *k, uint64_t addr, const char *name)
{
	struct sym_batch b;
	const struct sym_frame *f;
	bool same;

	assert_int_equal(ksyms_resolve(k, &addr, 1, &b), 0);
	f = sym_batch_frames(&b, 0);
	same = f && name ? strcmp(f->name, name) == 0 : !f && !name;
	sym_batch_done(&b);
	return same;
}

static size_t read_back(uint8_t *buf, size_t size)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	ssize_t n = file_pread_full(fd, buf, size, 0);

	assert_true(n > 0);
	close(fd);
	return (size_t)n;
}

static size_t names_in_folder(void)
{
	char command[160];
	size_t n = 0;
	FILE *f;

	(void)snprintf(command, sizeof(command), "ls -A %s", folder);
	f = popen(command, "r");
	assert_non_null(f);
	for (int c; (c = fgetc(f)) != EOF;)
		n += c == '\n';
	pclose(f);
	return n;
}

static void test_what_was_kept_gives_the_same_names(void **state)
{
	struct ksyms *k;
	struct stat st;

	(void)state;
	assert_int_equal(how(), KSYMS_CACHE_WRITTEN);
	assert_int_equal(stat(folder, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(lstat(file, &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0600);
	assert_int_equal(names_in_folder(), 1);
	assert_int_equal(load(&k), KSYMS_CACHE_USED);
	assert_true(named(k, 0xffffffff81000000, "_stext"));
	assert_true(named(k, 0xffffffff810001ff, "do_it"));
	assert_true(named(k, 0xffffffff81000200, NULL));
	assert_true(named(k, 0xffffffff81001000, "after_data"));
	assert_true(named(k, 0xffffffffc0200000, "mod_fn [ext4]"));
	assert_true(named(k, 0xffffffffc0400001, "last [xfs]"));
	/* Code of modules is not cached, and does not extend the symbol before it. */
	assert_true(named(k, 0xffffffffc0300000, NULL));
	assert_true(named(k, 0xffffffffc0301000, NULL));
	assert_int_equal(ksyms_cnt(k), 5);
	ksyms_free(k);
}

static void test_another_state_of_the_kernel_is_read_anew(void **state)
{
	static const struct {
		char *path;
		const char *text;
		enum ksyms_cache want;
	} cases[] = {
	        {boot_path, "1ddd69b3-3bff-475d-aa9b-e3d0e5d8fab4\n", KSYMS_CACHE_WRITTEN},
	        {boot_path, "1ddd69b3-3bff-475d-aa9b-e3d0e5d8fab4\n", KSYMS_CACHE_USED},
	        {boot_path, "no boot id", KSYMS_CACHE_FAILED},
	        {boot_path, "1ddd69b3-3bff-475d-aa9b-e3d0e5d8fab4aa\n", KSYMS_CACHE_FAILED},
	        {boot_path, "", KSYMS_CACHE_FAILED},
	        {boot_path, "0ddd69b3-3bff-475d-aa9b-e3d0e5d8fab4\n", KSYMS_CACHE_WRITTEN},
	        /* in use more often: no matter */
	        {modules_path,
	         "xfs 2000000 9 - Live 0xffffffffc0400000\n"
	         "ext4 1000000 0 - Live 0xffffffffc0200000\n",
	         KSYMS_CACHE_USED},
	        /* one less, elsewhere, larger, another, none */
	        {modules_path, "ext4 1000000 0 - Live 0xffffffffc0200000\n", KSYMS_CACHE_WRITTEN},
	        {modules_path, "ext4 1000000 0 - Live 0xffffffffc0300000\n", KSYMS_CACHE_WRITTEN},
	        {modules_path, "ext4 1000001 0 - Live 0xffffffffc0300000\n", KSYMS_CACHE_WRITTEN},
	        {modules_path, "ext5 1000001 0 - Live 0xffffffffc0300000\n", KSYMS_CACHE_WRITTEN},
	        {modules_path, "ext5 1000001 0 - Loading 0xffffffffc0300000\n",
	         KSYMS_CACHE_WRITTEN},
	        {modules_path, "", KSYMS_CACHE_WRITTEN},
	        {modules_path, "", KSYMS_CACHE_USED},
	        {kallsyms_path, "ffffffff82000000 T _stext\n", KSYMS_CACHE_WRITTEN},
	        {kallsyms_path, "ffffffff82000000 T _stext\n", KSYMS_CACHE_USED},
	};

	(void)state;
	assert_int_equal(how(), KSYMS_CACHE_WRITTEN);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		put_str(cases[i].path, cases[i].text);
		if (how() != cases[i].want)
			fail_msg("case %zu: %s", i, cases[i].text);
	}
	unlink(modules_path); /* a kernel without modules */
	assert_int_equal(how(), KSYMS_CACHE_USED);
}

/* A process that may not see addresses does not get them from the cache. */
static void test_hidden_addresses_stay_hidden(void **state)
{
	struct ksyms *k = NULL;
	enum ksyms_cache r;

	(void)state;
	assert_int_equal(how(), KSYMS_CACHE_WRITTEN);
	put_str(kallsyms_path, "0000000000000000 T _stext\n");
	assert_int_equal(ksyms_load_cached(&options, &k, &r, NULL), -EPERM);
	assert_null(k);
}

/* Writes the file with one change, which must cost the file and nothing else. */
static void check_refused(const uint8_t *bytes, size_t len, const char *what)
{
	struct ksyms *k;

	put(file, bytes, len);
	if (load(&k) != KSYMS_CACHE_WRITTEN)
		fail_msg("%s was believed", what);
	assert_true(named(k, 0xffffffff810001ff, "do_it"));
	ksyms_free(k);
	assert_int_equal(how(), KSYMS_CACHE_USED);
}

static void test_every_damaged_byte_is_found(void **state)
{
	uint8_t good[1024], bad[1024];
	size_t n;

	(void)state;
	assert_int_equal(how(), KSYMS_CACHE_WRITTEN);
	n = read_back(good, sizeof(good));
	assert_true(n < sizeof(good));
	for (size_t i = 0; i < n; i++) {
		memcpy(bad, good, n);
		bad[i] ^= 0x41;
		check_refused(bad, n, "a damaged byte");
	}
	for (size_t i = 0; i < n; i += 7)
		check_refused(good, i, "a part");
	memcpy(bad, good, n);
	bad[n] = 0;
	check_refused(bad, n + 1, "more than there is");
}

/* A file whose hash is right: as somebody would forge it, or an error of ours would write it. */
struct entry {
	uint64_t addr;
	size_t name_len, module_len;
	const char *bytes;
};

static int parse_entries(const struct entry *e, size_t n, uint32_t cnt, uint32_t version)
{
	const struct ksyms_cache_key key = {.boot_id = {1}, .state = 2};
	struct ksyms *k = NULL;
	struct sbuf body, b;
	uint32_t head[2] = {0x4b414c53, version}, tail[2] = {cnt, 0};
	uint64_t sums[3];
	int r;

	sbuf_init(&body, 4096);
	sbuf_init(&b, 4096);
	for (size_t i = 0; i < n; i++) {
		const uint16_t lens[2] = {(uint16_t)e[i].name_len, (uint16_t)e[i].module_len};

		sbuf_add(&body, &e[i].addr, 8);
		sbuf_add(&body, lens, 4);
		sbuf_str(&body, e[i].bytes);
	}
	sums[0] = key.state;
	sums[1] = hash_bytes(body.p, body.len);
	sums[2] = body.len;
	sbuf_add(&b, head, 8);
	sbuf_add(&b, key.boot_id, 16);
	sbuf_add(&b, sums, 24);
	sbuf_add(&b, tail, 8);
	sbuf_add(&b, body.p, body.len);
	r = ksyms_cache_parse(b.p, b.len, &key, &k);
	assert_int_equal(r == 0, k != NULL);
	ksyms_free(k);
	sbuf_done(&body);
	sbuf_done(&b);
	return r;
}

static void test_entries_that_contradict_themselves(void **state)
{
	static const struct {
		struct entry e[3];
		uint32_t n, cnt, version;
		int want;
	} cases[] = {
	        {{{1, 1, 0, "f"}, {2, 0, 0, ""}, {3, 1, 3, "g\t[m]"}}, 3, 3, 1, 0},
	        {{{1, 1, 0, "f"}, {2, 0, 0, ""}, {3, 1, 3, "g\t[m]"}}, 3, 3, 2, -EINVAL},
	        {{{1, 1, 0, "f"}, {2, 1, 0, "g"}}, 2, 1, 1, -EINVAL}, /* something after them */
	        {{{1, 1, 0, "f"}, {2, 1, 0, "g"}}, 2, 3, 1, -EINVAL},
	        {{{1, 1, 0, "f"}, {2, 1, 0, "g"}}, 2, 0, 1, -EINVAL},
	        {{{1, 1, 0, "f"}, {2, 1, 0, "g"}}, 2, UINT32_MAX, 1, -EINVAL},
	        {{{1, 1, 0, "f"}, {2, 1, 0, "g"}},
	         2,
	         0x15555556,
	         1,
	         -EINVAL},                                            /* * 12 = 8 in 32 bits */
	        {{{2, 1, 0, "f"}, {1, 1, 0, "g"}}, 2, 2, 1, -EINVAL}, /* descending */
	        {{{2, 1, 0, "f"}, {2, 1, 0, "g"}}, 2, 2, 1, -EINVAL}, /* twice */
	        {{{0, 1, 0, "f"}}, 1, 1, 1, -EINVAL},
	        {{{UINT64_MAX, 1, 0, "f"}}, 1, 1, 1, -EINVAL},
	        {{{1, 2, 0, "f"}}, 1, 1, 1, -EINVAL}, /* past the end */
	        {{{1, 0xffff, 0, "f"}}, 1, 1, 1, -EINVAL},
	        {{{1, 0xffff, 0xffff, "f"}}, 1, 1, 1, -EINVAL},
	        {{{1, 0, 3, "\t[m]"}}, 1, 1, 1, -EINVAL}, /* a module without a name */
	        {{{1, 1, 3, "fx[m]"}}, 1, 1, 1, -EINVAL},
	        {{{1, 5, 0, "f\t[m]"}}, 1, 1, 1, -EINVAL},
	        {{{1, 2, 2, "f\t[m]"}}, 1, 1, 1, -EINVAL},
	        {{{1, 1, 3, "f\tmmm"}}, 1, 1, 1, -EINVAL},
	        {{{1, 3, 0, "f g"}}, 1, 1, 1, -EINVAL}, /* unprintable */
	        {{{1, 0, 0, ""}}, 1, 1, 1, -EINVAL},    /* no code at all */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int r = parse_entries(cases[i].e, cases[i].n, cases[i].cnt, cases[i].version);

		if (r != cases[i].want)
			fail_msg("case %zu: %d", i, r);
	}
}

static void test_links_are_not_followed(void **state)
{
	char elsewhere[96], target[128];
	struct stat st;

	(void)state;
	/* the file: replaced, what it led to is as it was */
	assert_int_equal(how(), KSYMS_CACHE_WRITTEN);
	(void)snprintf(target, sizeof(target), "%s/target", home);
	assert_int_equal(rename(file, target), 0);
	assert_int_equal(symlink(target, file), 0);
	assert_int_equal(how(), KSYMS_CACHE_WRITTEN);
	assert_int_equal(lstat(file, &st), 0);
	assert_true(S_ISREG(st.st_mode));
	/* a FIFO in its place must not hang us */
	assert_int_equal(unlink(file), 0);
	assert_int_equal(mkfifo(file, 0600), 0);
	assert_int_equal(how(), KSYMS_CACHE_WRITTEN);
	assert_int_equal(how(), KSYMS_CACHE_USED);
	/* the folder */
	(void)snprintf(elsewhere, sizeof(elsewhere), "%s/elsewhere", home);
	assert_int_equal(rename(folder, elsewhere), 0);
	assert_int_equal(symlink(elsewhere, folder), 0);
	assert_int_equal(how(), KSYMS_CACHE_REFUSED);
	/* a file in its place */
	assert_int_equal(unlink(folder), 0);
	put_str(folder, "");
	assert_int_equal(how(), KSYMS_CACHE_REFUSED);
	/* the folder above */
	(void)snprintf(elsewhere, sizeof(elsewhere), "%s/link", home);
	assert_int_equal(symlink(home, elsewhere), 0);
	options.cache_home = elsewhere;
	assert_int_equal(how(), KSYMS_CACHE_REFUSED);
}

static void test_others_can_neither_read_nor_place_it(void **state)
{
	(void)state;
	/* Folders of somebody else: we are not who the options say. */
	options.uid = geteuid() + 1;
	assert_int_equal(how(), KSYMS_CACHE_REFUSED);
	assert_int_equal(access(folder, F_OK), -1);
	options.uid = geteuid();
	for (mode_t bit = 1; bit <= 040; bit <<= 1) {
		assert_int_equal(mkdir(folder, 0700), 0);
		assert_int_equal(chmod(folder, 0700 | bit), 0);
		assert_int_equal(how(), KSYMS_CACHE_REFUSED);
		assert_int_equal(rmdir(folder), 0); /* nothing was written */
	}
	assert_int_equal(chmod(home, 0777), 0);
	assert_int_equal(how(), KSYMS_CACHE_REFUSED);
	assert_int_equal(chmod(home, 01777), 0);
	assert_int_equal(how(), KSYMS_CACHE_REFUSED);
	assert_int_equal(chmod(home, 0755), 0);
	assert_int_equal(how(), KSYMS_CACHE_WRITTEN);
	/* A file that others can read, or could have written, is not believed, and not kept so. */
	assert_int_equal(chmod(file, 0644), 0);
	assert_int_equal(how(), KSYMS_CACHE_WRITTEN);
	assert_int_equal(how(), KSYMS_CACHE_USED);
	if (geteuid() == 0) {
		assert_int_equal(chown(file, 12345, 12345), 0);
		assert_int_equal(how(), KSYMS_CACHE_WRITTEN);
		assert_int_equal(chown(folder, 12345, 12345), 0);
		assert_int_equal(how(), KSYMS_CACHE_REFUSED);
	}
}

static void test_folders_are_made_where_they_may_be(void **state)
{
	char cache[96], deep[128], there[160];
	struct stat st;

	(void)state;
	(void)snprintf(cache, sizeof(cache), "%s/.cache", home);
	(void)snprintf(deep, sizeof(deep), "%s/not/there", home);
	(void)snprintf(there, sizeof(there), "%s/perf-agent/kallsyms.cache", cache);
	options.cache_home = cache;
	assert_int_equal(how(), KSYMS_CACHE_WRITTEN);
	assert_int_equal(stat(cache, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(how(), KSYMS_CACHE_USED);
	assert_int_equal(access(there, F_OK), 0);
	options.cache_home = deep; /* its parent is not there */
	assert_int_equal(how(), KSYMS_CACHE_REFUSED);
	options.cache_home = "/perf-agent-no-such-folder"; /* not in the root */
	assert_int_equal(how(), KSYMS_CACHE_REFUSED);
	options.cache_home = NULL;
	assert_int_equal(how(), KSYMS_CACHE_OFF);
}

static void test_no_home_no_cache(void **state)
{
	static const struct {
		const char *xdg, *home, *want;
	} cases[] = {
	        {NULL, NULL, NULL},  {NULL, "", NULL},          {"", "rel", NULL},
	        {"rel", NULL, NULL}, {NULL, "/h", "/h/.cache"}, {"rel", "/h", "/h/.cache"},
	        {"/x", "/h", "/x"},  {"/x", NULL, "/x"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct sbuf b;
		int r;

		unsetenv("XDG_CACHE_HOME");
		unsetenv("HOME");
		if (cases[i].xdg)
			setenv("XDG_CACHE_HOME", cases[i].xdg, 1);
		if (cases[i].home)
			setenv("HOME", cases[i].home, 1);
		sbuf_init(&b, 256);
		r = ksyms_cache_home(&b);
		assert_int_equal(r, cases[i].want ? 0 : -ENOENT);
		if (cases[i].want)
			assert_string_equal(b.p, cases[i].want);
		sbuf_done(&b);
	}
}

/* ---- what comes and goes --------------------------------------------------------------------- */

static void add_record(struct ksyms_log *s, uint64_t start, uint32_t len, uint64_t time_ns,
                       bool bpf, const char *name)
{
	const struct ev_ksymbol k = {.start = start, .len = len, .bpf = bpf, .name = name};

	assert_int_equal(ksyms_log_add(s, &k, time_ns), 0);
}

static void test_records_name_what_the_table_does_not(void **state)
{
	static const char text[] = "ffffffff81000000 T core\n"
	                           "ffffffffc0100000 t bpf_prog_1_old\t[bpf]\n"
	                           "ffffffffc0102000 t bpf_prog_2_long\t[bpf]\n";
	static const struct {
		uint64_t addr;
		const char *name, *linkage;
	} want[] = {
	        {0xffffffff81000010, "core", "core"},
	        {0xffffffffc0100000, "bpf_prog_3_new [bpf]",
	         "bpf_prog_3_new"}, /* later than the table */
	        {0xffffffffc01000ff, "bpf_prog_3_new [bpf]", "bpf_prog_3_new"},
	        {0xffffffffc0100100, "bpf_prog_1_old [bpf]", "bpf_prog_1_old"}, /* all we know */
	        {0xffffffffc0101000, "bpf_prog_4_gone [bpf]",
	         "bpf_prog_4_gone"}, /* nearer than old */
	        {0xffffffffc0102000, "bpf_prog_2_long [bpf]",
	         "bpf_prog_2_long"}, /* before the table */
	        {0xffffffffc0300000, "ftrace_trampoline [__builtin__ftrace]", "ftrace_trampoline"},
	        {0xffffffffc0301000, "kprobe_insn_page [__builtin__kprobes]", "kprobe_insn_page"},
	        {0xffffffffc0302000, NULL, NULL}, /* after its end */
	};
	uint64_t addrs[ARRAY_SIZE(want)];
	struct ksyms *k = NULL;
	struct ksyms_log *s = NULL;
	struct sym_batch b;

	(void)state;
	assert_int_equal(ksyms_parse(text, sizeof(text) - 1, &k), 0);
	assert_int_equal(ksyms_log_new(&s), 0);
	add_record(s, 0xffffffffc0102000, 64, 5, true, "bpf_prog_0_before");
	add_record(s, 0xffffffffc0101000, 64, 6, true, "bpf_prog_4_gone");
	add_record(s, 0xffffffffc0100000, 0x100, 20, true, "bpf_prog_5_between");
	add_record(s, 0xffffffffc0100000, 0x100, 30, true, "bpf_prog_3_new");
	add_record(s, 0xffffffffc0300000, 4096, 31, false, "ftrace_trampoline");
	add_record(s, 0xffffffffc0301000, 4096, 31, false, "kprobe_insn_page");
	for (size_t i = 0; i < ARRAY_SIZE(want); i++)
		addrs[i] = want[i].addr;
	assert_int_equal(ksyms_resolve(k, addrs, ARRAY_SIZE(want), &b), 0);
	assert_int_equal(ksyms_log_resolve(s, 10, addrs, ARRAY_SIZE(want), &b), 0);
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		const struct sym_frame *f = sym_batch_frames(&b, i);

		if (!want[i].name != !f || (f && strcmp(f->name, want[i].name) != 0))
			fail_msg("%zu: %s", i, f ? f->name : "none");
		if (f)
			assert_string_equal(f->linkage, want[i].linkage);
		assert_int_equal(b.names[i].reason, f ? EV_REASON_NAMED : EV_REASON_NO_SYMBOL);
	}
	sym_batch_done(&b);
	/* Also without any table. */
	assert_int_equal(sym_none_resolve(EV_REASON_KALLSYMS_HIDDEN, NULL, ARRAY_SIZE(want), &b),
	                 0);
	assert_int_equal(ksyms_log_resolve(s, 0, addrs, ARRAY_SIZE(want), &b), 0);
	assert_string_equal(sym_batch_frames(&b, 5)->name, "bpf_prog_0_before [bpf]");
	assert_int_equal(b.names[0].reason, EV_REASON_KALLSYMS_HIDDEN);
	sym_batch_done(&b);
	ksyms_log_free(s);
	ksyms_free(k);
}

static void test_records_that_are_none(void **state)
{
	static const struct ev_ksymbol bad[] = {
	        {.start = 1, .len = 1, .name = ""},           {.start = 1, .len = 1, .name = "a b"},
	        {.start = 1, .len = 1, .name = "a\t[m]"},     {.start = 1, .len = 0, .name = "a"},
	        {.start = UINT64_MAX, .len = 1, .name = "a"},
	};
	struct ksyms_log *s = NULL;

	(void)state;
	assert_int_equal(ksyms_log_new(&s), 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(ksyms_log_add(s, &bad[i], 1), -EINVAL);
	/* They are bounded. */
	for (uint32_t i = 0; i < 256 * 1024; i++)
		add_record(s, 4096, 1, i, true, "again");
	assert_int_equal(ksyms_log_add(s, &(struct ev_ksymbol){.start = 1, .len = 1, .name = "a"},
	                               1),
	                 -E2BIG);
	ksyms_log_free(s);
	assert_null(ksyms_log_free(NULL));
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
	        TEST(test_what_was_kept_gives_the_same_names),
	        TEST(test_another_state_of_the_kernel_is_read_anew),
	        TEST(test_hidden_addresses_stay_hidden),
	        TEST(test_every_damaged_byte_is_found),
	        TEST(test_entries_that_contradict_themselves),
	        TEST(test_links_are_not_followed),
	        TEST(test_others_can_neither_read_nor_place_it),
	        TEST(test_folders_are_made_where_they_may_be),
	        TEST(test_no_home_no_cache),
	        cmocka_unit_test(test_records_name_what_the_table_does_not),
	        cmocka_unit_test(test_records_that_are_none),
	};

	umask(022);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
