/* SPDX-License-Identifier: Apache-2.0 */
/* Debug files under the root of the process, and where the search meets failures. */
#include "sym_find_tree.h"

/* ---- the root of the process ---- */

static void test_links_cannot_leave_the_root_of_the_process(void **state)
{
	char outside[PATH_MAX];
	struct outcome out;

	(void)state;
	put_elf("root/x", &with_id);
	put_elf("outside.debug", &with_id);
	snprintf(outside, sizeof(outside), "%s", at("outside.debug"));
	put_link("root/usr/lib/debug" BY_ID, outside); /* absolute: it is looked for inside */
	find(&out, &nowhere, "root/x", "/x");
	assert_int_equal(out.r, SYM_FOUND_NONE);
	assert_int_equal(unlink(at("root/usr/lib/debug" BY_ID)), 0);
	put_link("root/usr/lib/debug" BY_ID, "../../../../../../../../../outside.debug");
	find(&out, &nowhere, "root/x", "/x");
	assert_int_equal(out.r, SYM_FOUND_NONE);
	expect_counts(&out.stats, 0, 0, 0, 0, 0, 0, 0);
	/* Both lead to what is inside, if it is. */
	put_elf("root/outside.debug", &with_id);
	find(&out, &nowhere, "root/x", "/x");
	expect_file(&out, SYM_FOUND_BUILD_ID, "root/outside.debug");
	assert_int_equal(unlink(at("root/usr/lib/debug" BY_ID)), 0);
	put_link("root/usr/lib/debug" BY_ID, "/outside.debug");
	find(&out, &nowhere, "root/x", "/x");
	expect_file(&out, SYM_FOUND_BUILD_ID, "root/outside.debug");
}

static void test_magic_links_are_not_followed(void **state)
{
	struct outcome out;
	char magic[64];
	int fd;

	(void)state;
	put_elf("root/x", &with_id);
	put_elf("outside.debug", &with_id);
	fd = __real_open64(at("outside.debug"), O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	snprintf(magic, sizeof(magic), "/proc/%d/fd/%d", getpid(), fd);
	put_link("debug" BY_ID, magic);
	find(&out, &in_debug, "root/x", "/x");
	assert_int_equal(out.r, SYM_FOUND_REFUSED);
	expect_counts(&out.stats, 0, 0, 0, 0, 1, 0, 0);
	close(fd);
}

static void test_paths_that_no_file_has_lead_nowhere(void **state)
{
	_cleanup_free_ char *deep = malloc(3 * PATH_MAX);
	struct outcome out;
	uint32_t crc;

	(void)state;
	assert_non_null(deep);
	for (size_t i = 0; i + 1 < 3 * PATH_MAX; i++)
		deep[i] = i % 100 == 0 ? '/' : 'a';
	deep[3 * PATH_MAX - 1] = 0;
	crc = put_elf("x.debug", &without_id);
	put_elf("root/x", &(struct kind){.link = "x.debug", .crc = crc});
	find(&out, &in_debug, "root/x", deep);
	assert_int_equal(out.r, SYM_FOUND_NONE);
	deep[PATH_MAX - 2] = 0; /* it fits, and nothing after it does */
	find(&out, &in_debug, "root/x", deep);
	assert_int_equal(out.r, SYM_FOUND_NONE);
	find(&out, &in_debug, "root/x", "/../x"); /* would be alongside the folder of ours */
	assert_int_equal(out.r, SYM_FOUND_NONE);
	find(&out, &in_debug, "root/x", "/a/..");
	assert_int_equal(out.r, SYM_FOUND_NONE);
	find(&out, &in_debug, "root/x", "");
	assert_int_equal(out.r, SYM_FOUND_NONE);
	find(&out, &in_debug, "root/x", "[vdso]");
	assert_int_equal(out.r, SYM_FOUND_NONE);
	expect_counts(&out.stats, 0, 0, 0, 0, 0, 0, 0);
	crc = put_elf("root/a..b/..c/d../x.debug", &without_id); /* names like any other */
	find(&out, &in_debug, "root/x", "/a..b/..c/d../x");
	assert_int_equal(out.r, SYM_FOUND_DEBUGLINK);
}

static void test_folders_that_are_not_there_are_passed_over(void **state)
{
	const char *const dirs[] = {"/nonexistent-folder", debug_dir};
	const struct sym_find_options o = {.dirs = dirs, .n_dirs = 2};
	struct outcome out;

	(void)state;
	put_elf("root/x", &with_id);
	put_elf("debug" BY_ID, &with_id);
	find(&out, &o, "root/x", "/x");
	assert_int_equal(out.r, SYM_FOUND_BUILD_ID);
	expect_counts(&out.stats, 1, 0, 0, 0, 0, 0, 0);
}

/* A sandbox may forbid openat2: what needs it to be safe is left alone. */
static void test_without_openat2_only_folders_of_ours_are_looked_in(void **state)
{
	static const int codes[] = {ENOSYS, EPERM};
	struct outcome out;

	(void)state;
	put_elf("root/x", &with_id);
	put_elf("root/usr/lib/debug" BY_ID, &with_id);
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		openat2_fails = codes[i];
		find(&out, &in_debug, "root/x", "/x");
		assert_int_equal(out.r, SYM_FOUND_REFUSED);
		expect_counts(&out.stats, 0, 0, 0, 0, 1, 0, 0);
	}
	put_elf("debug" BY_ID, &with_id);
	find(&out, &in_debug, "root/x", "/x");
	expect_file(&out, SYM_FOUND_BUILD_ID, "debug" BY_ID);
}

static void test_a_race_with_a_rename_is_tried_again_but_not_for_ever(void **state)
{
	struct outcome out;

	(void)state;
	put_elf("root/x", &with_id);
	put_elf("debug" BY_ID, &with_id);
	openat2_fails = EAGAIN;
	openat2_times = 3;
	find(&out, &in_debug, "root/x", "/x");
	assert_int_equal(out.r, SYM_FOUND_BUILD_ID);
	openat2_times = -1;
	find(&out, &in_debug, "root/x", "/x");
	assert_int_equal(out.r, SYM_FOUND_REFUSED);
}

static size_t open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	size_t n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void test_want_of_memory_is_reported_and_leaves_nothing_open(void **state)
{
	struct sym_find_stats stats = {0};
	struct img_file *f = NULL;
	char *path = NULL;
	int fd, found = -EBADF, r = -ENOMEM, alt = -EBADF;
	size_t before;

	(void)state;
	put_elf("root/bin/x",
	        &(struct kind){
	                .id = id_a, .id_len = 20, .link = "x.debug", .alt = "alt", .crc = CRC_ANY});
	put_elf("root/usr/bin/x.debug", &with_id);
	put_elf("root/bin/alt", &with_id);
	fd = __real_open64(at("root/bin/x"), O_RDONLY | O_CLOEXEC);
	before = open_fds();
	for (int left = 0; r == -ENOMEM; left++) {
		assert_true(left < 200);
		assert_int_equal(img_file_open(fd, &f, NULL), 0);
		memory_left = left;
		r = sym_find_debug(&in_debug, &stats, f, "/bin/x", root_fd, &found, &path);
		memory_left = -1;
		f = img_file_free(f);
		if (r == -ENOMEM)
			assert_int_equal(open_fds(), before);
	}
	assert_int_equal(r, SYM_FOUND_DEBUGLINK);
	free(path);
	close(found);
	r = -ENOMEM;
	for (int left = 0; r == -ENOMEM; left++) {
		assert_true(left < 200);
		assert_int_equal(img_file_open(fd, &f, NULL), 0);
		memory_left = left;
		r = sym_find_alt(&in_debug, &stats, f, "/bin/x", root_fd, &alt);
		memory_left = -1;
		f = img_file_free(f);
		if (r == -ENOMEM)
			assert_int_equal(open_fds(), before);
	}
	assert_int_equal(r, 1);
	close(alt);
	close(fd);
}

int main(void)
{
#define TEST(name_) cmocka_unit_test_setup_teardown(test_##name_, setup, tree_teardown)
	const struct CMUnitTest tests[] = {
	        TEST(links_cannot_leave_the_root_of_the_process),
	        TEST(magic_links_are_not_followed),
	        TEST(paths_that_no_file_has_lead_nowhere),
	        TEST(folders_that_are_not_there_are_passed_over),
	        TEST(without_openat2_only_folders_of_ours_are_looked_in),
	        TEST(a_race_with_a_rename_is_tried_again_but_not_for_ever),
	        TEST(want_of_memory_is_reported_and_leaves_nothing_open),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("sym-find-root", tests, NULL, NULL);
}
