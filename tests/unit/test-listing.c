/* SPDX-License-Identifier: Apache-2.0 */
/* Source files, symbols and instructions of this very program, and files that are refused. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>

#include "image/image.h"
#include "listing/listing.h"

#define ALL_BYTES 4096

/* A function whose instructions are asked for. */
__attribute__((noinline)) static uint64_t subject(uint64_t n)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < n; i++)
		sum = (sum ^ i) * 2654435761U;
	return sum;
}

/* A symbol inside another one. */
void outer_symbol(void);
void inner_symbol(void);
__asm__(".pushsection .text\n"
        ".globl outer_symbol, inner_symbol\n"
        ".type outer_symbol, %function\n"
        ".type inner_symbol, %function\n"
        "outer_symbol: nop\n"
        "inner_symbol: nop\n"
        ".size inner_symbol, . - inner_symbol\n"
        "nop\n"
        ".size outer_symbol, . - outer_symbol\n"
        ".popsection\n");

static char folder[] = "/tmp/test-listing-XXXXXX";

static const char *in(const char *name)
{
	static char path[ALL_BYTES];

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static void put(const char *name, const char *text)
{
	FILE *f = fopen(in(name), "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static int setup(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(folder));
	assert_int_equal(mkdir(in("top"), 0700), 0);
	assert_int_equal(mkdir(in("top/src"), 0700), 0);
	put("top/src/a.c", "one\ntwo\n");
	put("top/a.c", "another\n");
	put("empty", "");
	assert_int_equal(mkfifo(in("fifo"), 0600), 0);
	put("large", "x");
	assert_int_equal(truncate(in("large"), (64 << 20) + 1), 0);
	return 0;
}

static int teardown(void **state)
{
	static const char *const names[] = {"top/src/a.c", "top/a.c", "empty", "fifo", "large"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_int_equal(unlink(in(names[i])), 0);
	assert_int_equal(rmdir(in("top/src")), 0);
	assert_int_equal(rmdir(in("top")), 0);
	assert_int_equal(rmdir(folder), 0);
	return 0;
}

/* ---- source ---------------------------------------------------------------------------------- */

/* Asserts the result for a path, and the text or part of the message. */
static void source_is(const char *dir, const char *path, int r, const char *text)
{
	const char *const dirs[] = {"/nonexistent", dir};
	_cleanup_(lst_freep) struct lst *l = NULL;
	struct ev_source s = {0};
	struct err err = {0};

	assert_int_equal(
	        lst_new(&(struct lst_options){.source_dirs = dirs, .n_source_dirs = dir ? 2 : 0},
	                &l),
	        0);
	assert_int_equal(lst_source(l, path, &s, &err), r);
	if (r == 0) {
		assert_int_equal(s.len, strlen(text));
		assert_memory_equal(s.text, text, s.len);
		assert_true(s.changed_realtime_ns > 0);
	} else if (!strstr(err.msg, text)) {
		fail_msg("no %s in %s", text, err.msg);
	}
}

static void test_source_files_are_found_by_the_end_of_their_path(void **state)
{
	_cleanup_free_ char *whole = strdup(in("top/src/a.c"));
	_cleanup_free_ char *top = strdup(in("top"));

	(void)state;
	source_is(NULL, whole, 0, "one\ntwo\n");
	source_is(top, "/build/x/src/a.c", 0, "one\ntwo\n");
	source_is(top, "src/a.c", 0, "one\ntwo\n");
	source_is(top, "//src//a.c", 0, "one\ntwo\n");
	source_is(top, "/build/other/a.c", 0, "another\n"); /* the name alone */
	source_is(top, "/build/../src/a.c", 0, "one\ntwo\n");
	source_is(in("top/src"), "../a.c", 0, "one\ntwo\n"); /* never above the directory */
}

static void test_source_files_that_are_refused(void **state)
{
	_cleanup_free_ char *top = strdup(in("top"));

	(void)state;
	source_is(NULL, in("no.c"), -ENOENT,
	          "no.c: no such file or directory (ENOENT); give the folder");
	source_is(top, "b.c", -ENOENT, "give another folder that has it: --source-dir DIR");
	source_is(NULL, in("fifo"), -EINVAL, "fifo is not a regular file"); /* and does not wait */
	source_is(NULL, "/dev/zero", -EINVAL, "/dev/zero is not a regular file");
	source_is(NULL, folder, -EINVAL, "is not a regular file");
	source_is(NULL, in("empty"), -EINVAL, "or is empty");
	source_is(NULL, in("large"), -EFBIG, "is larger than 64 MiB");
	source_is(top, "", -ENOENT, "--source-dir");
}

static void test_paths_of_any_length_end(void **state)
{
	_cleanup_free_ char *slashes = malloc(100001), *deep = malloc(100001);

	(void)state;
	if (!slashes || !deep) {
		fail_msg("no memory");
		return; /* clang-tidy */
	}
	memset(slashes, '/', 100000);
	slashes[100000] = 0;
	for (size_t i = 0; i < 100000; i++)
		deep[i] = i % 2 ? '/' : 'a';
	deep[100000] = 0;
	source_is(folder, slashes, -ENAMETOOLONG, "cannot read /");
	source_is(folder, deep, -ENAMETOOLONG, "cannot read a/a");
}

/* ---- code ------------------------------------------------------------------------------------ */

/* File offset of an address of this program, and its build-id in hex. */
static uint64_t offset_of(const void *p, char hex[2 * IMG_BUILD_ID_MAX + 1])
{
	_cleanup_(sbuf_done) struct sbuf maps;
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	_cleanup_close_ int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	uint8_t id[IMG_BUILD_ID_MAX];
	struct cursor c;
	const char *line;
	size_t len;

	hex[0] = 0;
	assert_int_equal(img_file_open(fd, &f, NULL), 0);
	if (img_build_id(f, id, &len) == 0)
		for (size_t i = 0; i < len; i++)
			(void)snprintf(hex + 2 * i, 3, "%02x", id[i]);
	sbuf_init(&maps, 1 << 20);
	assert_int_equal(file_read_all(AT_FDCWD, "/proc/self/maps", &maps, NULL), 0);
	c = cursor_of(maps.p, maps.len);
	while (cursor_line(&c, &line, &len) == 0) {
		char *at;
		const uint64_t start = strtoull(line, &at, 16), end = strtoull(at + 1, &at, 16);
		const uint64_t off = strtoull(at + 6, NULL, 16);

		if ((uint64_t)(uintptr_t)p >= start && (uint64_t)(uintptr_t)p < end)
			return (uint64_t)(uintptr_t)p - start + off;
	}
	fail_msg("no mapping");
	return 0;
}

/* Pointers to functions and to data differ in ISO C. */
static const void *address_of(void (*fn)(void))
{
	const void *p;

	memcpy(&p, &fn, sizeof(p));
	return p;
}

static const void *address_of_subject(void)
{
	return address_of((void (*)(void))subject);
}

static void test_the_symbol_that_begins_last_is_taken(void **state)
{
	_cleanup_(lst_freep) struct lst *l = NULL;
	char hex[2 * IMG_BUILD_ID_MAX + 1];
	const uint64_t outer = offset_of(address_of(outer_symbol), hex),
	               inner = offset_of(address_of(inner_symbol), hex), len = inner - outer;
	const uint64_t offs[] = {outer, inner, inner + len};
	struct ev_site sites[3] = {0};

	(void)state;
	assert_int_equal(lst_new(&(struct lst_options){0}, &l), 0);
	assert_int_equal(lst_sites(l, "/proc/self/exe", "", offs, 3, sites, NULL), 0);
	assert_string_equal(sites[0].symbol, "outer_symbol");
	assert_string_equal(sites[1].symbol, "inner_symbol");
	assert_true(sites[1].start == sites[1].addr && sites[1].end == sites[2].addr);
	assert_string_equal(sites[2].symbol, "outer_symbol");
	assert_true(sites[2].start == sites[0].addr && sites[2].end == sites[2].addr + len);
}

static void test_sites_have_symbols_and_instructions(void **state)
{
	_cleanup_(lst_freep) struct lst *l = NULL;
	char hex[2 * IMG_BUILD_ID_MAX + 1];
	const uint64_t off = offset_of(address_of_subject(), hex);
	const uint64_t offs[] = {off, off + 1, (uint64_t)1 << 40};
	const struct ev_instruction *code = NULL;
	struct ev_site sites[3] = {0};
	struct err err = {0};
	size_t n = 0;
	int r;

	(void)state;
	assert_true(subject(3) != 0);
	assert_int_equal(lst_new(&(struct lst_options){0}, &l), 0);
	assert_int_equal(lst_sites(l, "/proc/self/exe", hex, offs, 3, sites, &err), 0);
	assert_string_equal(sites[0].symbol, "subject");
	assert_true(sites[0].start == sites[0].addr && sites[0].end > sites[0].start + 4);
	assert_true(sites[1].addr == sites[0].addr + 1 && sites[1].end == sites[0].end);
	assert_true(!sites[2].addr && !sites[2].end && !sites[2].symbol);
	r = lst_instructions(l, sites[0].start, sites[0].end, &code, &n, &err);
	if (r == -ENOENT) {
		print_message("# no objdump\n");
		return;
	}
	assert_int_equal(r, 0);
	assert_true(n > 4);
	assert_int_equal(code[0].addr, sites[0].start);
	for (size_t i = 1; i < n; i++)
		assert_true(code[i].addr > code[i - 1].addr && code[i].addr < sites[0].end);
	assert_true(code[0].text[0] > ' ');
	/* The environment cannot have another program run. */
	assert_int_equal(setenv("PATH", "relative:", 1), 0);
	assert_int_equal(lst_instructions(l, sites[0].start, sites[0].end, &code, &n, &err),
	                 -ENOENT);
	assert_non_null(strstr(err.msg, "install the package binutils"));
	assert_int_equal(setenv("PATH", "/usr/bin:/bin", 1), 0);
	assert_int_equal(lst_instructions(l, 1, (1 << 20) + 2, &code, &n, &err), -E2BIG);
	assert_int_equal(lst_instructions(l, 16, 32, &code, &n, &err), -EIO);
	assert_non_null(strstr(err.msg, "objdump"));
}

static void code_is_refused(const char *path, const char *build_id, int r, const char *text)
{
	_cleanup_(lst_freep) struct lst *l = NULL;
	const uint64_t off = 0;
	struct ev_site site;
	struct err err = {0};

	assert_int_equal(lst_new(&(struct lst_options){0}, &l), 0);
	assert_int_equal(lst_sites(l, path, build_id, &off, 1, &site, &err), r);
	if (!strstr(err.msg, text))
		fail_msg("no %s in %s", text, err.msg);
}

static void test_code_that_is_refused(void **state)
{
	char hex[2 * IMG_BUILD_ID_MAX + 1], text[256];

	(void)state;
	(void)offset_of(address_of_subject(), hex);
	(void)snprintf(text, sizeof(text), "is another build: it has build-id %s, the profile abcd",
	               *hex ? hex : "none");
	code_is_refused("/proc/self/exe", "abcd", -ESTALE, text);
	code_is_refused(in("top/a.c"), "", -ENOEXEC, "is not an ELF file");
	code_is_refused(in("fifo"), "", -EINVAL, "is not a regular file");
	code_is_refused(in("no"), "", -ENOENT, "run the report where the profile was recorded");
	code_is_refused("[kernel]", "", -EINVAL, "kernel code is not disassembled");
	code_is_refused("[kernel.kallsyms]_text", "", -EINVAL, "kernel code is not disassembled");
	code_is_refused("[vdso]", "", -EINVAL, "[vdso] is not a file");
	code_is_refused("", "", -EINVAL, "is not a file");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_source_files_are_found_by_the_end_of_their_path),
	        cmocka_unit_test(test_source_files_that_are_refused),
	        cmocka_unit_test(test_paths_of_any_length_end),
	        cmocka_unit_test(test_sites_have_symbols_and_instructions),
	        cmocka_unit_test(test_the_symbol_that_begins_last_is_taken),
	        cmocka_unit_test(test_code_that_is_refused),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, setup, teardown);
}
