/* SPDX-License-Identifier: Apache-2.0 */
/* References of debug files: common files of dwz, packages and files of split units. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "debug_tree.h"

/* ---- dwz ---- */

static void find_alt(struct outcome *out, const struct sym_find_options *o, const char *debug_rel,
                     const char *path)
{
	struct img_file *f = NULL;
	int fd = openat(AT_FDCWD, at(debug_rel), O_RDONLY | O_CLOEXEC), found = -EBADF;

	memset(out, 0, sizeof(*out));
	assert_true(fd >= 0);
	assert_int_equal(img_file_open(fd, &f, NULL), 0);
	out->r = sym_find_alt(o, &out->stats, f, path, root_fd, &found);
	if (out->r == 1)
		assert_int_equal(fstat(found, &out->st), 0);
	closep(&found);
	img_file_free(f);
	close(fd);
}

static void test_a_common_file_is_found_where_the_debug_file_says(void **state)
{
	static const struct {
		const char *alt, *place;
	} cases[] = {
	        {"/usr/lib/debug/.dwz/x.debug", "debug/.dwz/x.debug"},
	        {"/usr/lib/debug/.dwz/deb/x.debug", "debug/.dwz/deb/x.debug"},
	        {"/usr/lib/debug/.dwz/deb/x.debug", "debug" BY_ID},
	        {"/usr/lib/debug/.dwz/deb/x.debug", "root/usr/lib/debug/.dwz/deb/x.debug"},
	        {"/opt/x.debug", "root/opt/x.debug"},
	        {"/opt/x.debug", "root/usr/lib/debug" BY_ID},
	        {"/opt/x.debug", "root/usr/lib/debug/.dwz/x.debug"},
	        {"x.debug", "root/usr/lib/debug/usr/bin/x.debug"},
	        {"../../.dwz/x.debug", "root/usr/lib/debug/.dwz/x.debug"},
	        {"../../../../../../../../opt/x.debug", "root/opt/x.debug"},
	};
	struct outcome out;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		put_elf("root/usr/lib/debug/usr/bin/y.debug", &(struct kind){.alt = cases[i].alt});
		put_elf(cases[i].place, &with_id);
		find_alt(&out, &in_debug, "root/usr/lib/debug/usr/bin/y.debug",
		         "/usr/lib/debug/usr/bin/y.debug");
		expect_file(&out, 1, cases[i].place);
		expect_counts(&out.stats, 1, 0, 0, 0, 0, 0, 0);
		assert_int_equal(unlink(at(cases[i].place)), 0);
	}
}

/* Found by a link in .build-id, it says where the other is from where it really is. */
static void test_a_common_file_is_looked_for_from_where_links_lead(void **state)
{
	struct outcome out;
	char path[PATH_MAX];

	(void)state;
	put_elf("debug/usr/bin/y/y.debug", &(struct kind){.alt = "../../../other/x.debug"});
	put_link("debug/.build-id/12/34.debug", "../../usr/bin/y/y.debug");
	put_elf("debug/other/x.debug", &with_id);
	snprintf(path, sizeof(path), "%s", at("debug/.build-id/12/34.debug"));
	find_alt(&out, &in_debug, "debug/.build-id/12/34.debug", path);
	expect_file(&out, 1, "debug/other/x.debug");
}

static void test_a_common_file_of_another_build_is_refused(void **state)
{
	struct outcome out;

	(void)state;
	put_elf("root/y.debug", &(struct kind){.alt = "x.debug"});
	put_elf("root/x.debug", &other_id);
	find_alt(&out, &nowhere, "root/y.debug", "/y.debug");
	assert_int_equal(out.r, 0);
	expect_counts(&out.stats, 1, 0, 1, 0, 0, 0, 0);
	put_elf("root/x.debug", &without_id);
	find_alt(&out, &nowhere, "root/y.debug", "/y.debug");
	assert_int_equal(out.r, 0);
	expect_counts(&out.stats, 1, 0, 1, 0, 0, 0, 0);
	put_elf("root/x.debug", &(struct kind){.id = id_a, .id_len = 20, .section = ".symtab"});
	find_alt(&out, &nowhere, "root/y.debug", "/y.debug");
	assert_int_equal(out.r, 0);
	expect_counts(&out.stats, 1, 0, 0, 0, 0, 1, 0);
	/* Its own common file. */
	put_elf("root/y.debug", &(struct kind){.alt = "y.debug", .id = id_a, .id_len = 20});
	find_alt(&out, &nowhere, "root/y.debug", "/y.debug");
	assert_int_equal(out.r, 0);
	assert_int_equal(out.stats.itself, 1);
	put_elf("root/y.debug", &without_id);
	find_alt(&out, &nowhere, "root/y.debug", "/y.debug");
	assert_int_equal(out.r, 0);
	expect_counts(&out.stats, 0, 0, 0, 0, 0, 0, 0);
}

/* ---- split units ---- */

static void test_a_package_of_split_units_is_found_by_its_name(void **state)
{
	static const struct kind dwp = {.section = ".debug_cu_index"};
	static const struct {
		const char *path, *place;
	} cases[] = {
	        {"/usr/bin/x", "debug/usr/bin/x.dwp"},
	        {"/usr/bin/x", "debug/x.dwp"},
	        {"/usr/bin/x", "debug/x.debug.dwp"},
	        {"/usr/bin/x", "root/usr/bin/x.dwp"},
	        {"/usr/bin/x", "root/bin/x.dwp"},
	        {"/usr/bin/x", "root/usr/bin/x.debug.dwp"},
	        {"/usr/bin/x", "root/usr/lib/debug/usr/bin/x.debug.dwp"},
	        {"/opt/x.debug", "root/opt/x.dwp"},
	        {"/opt/x.debug", "root/opt/x.debug.dwp"},
	        {"/opt/.debug", "root/opt/.debug.dwp"},
	};
	struct sym_find_stats stats = {0};
	struct stat st;
	int fd = -EBADF;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		put_elf(cases[i].place, &dwp);
		assert_int_equal(sym_find_dwp(&in_debug, &stats, cases[i].path, root_fd, &fd), 1);
		assert_int_equal(fstat(fd, &st), 0);
		assert_true(is_file(&st, cases[i].place));
		closep(&fd);
		put_elf(cases[i].place, &with_id); /* of the name, and no package */
		assert_int_equal(sym_find_dwp(&in_debug, &stats, cases[i].path, root_fd, &fd), 0);
		assert_int_equal(stats.bad, i + 1);
		assert_int_equal(unlink(at(cases[i].place)), 0);
	}
	assert_int_equal(sym_find_dwp(&in_debug, &stats, "", root_fd, &fd), 0);
	assert_int_equal(sym_find_dwp(&in_debug, &stats, "/", root_fd, &fd), 0);
	assert_int_equal(mkfifo(at("root/f.dwp"), 0644), 0);
	assert_int_equal(sym_find_dwp(&in_debug, &stats, "/f", root_fd, &fd), 0);
	assert_int_equal(stats.not_regular, 1);
	assert_int_equal(fd, -EBADF);
}

static void test_the_file_of_a_split_unit_is_found_by_its_name(void **state)
{
	static const struct kind dwo = {.section = ".debug_info.dwo"};
	static const struct {
		const char *dir, *name, *place;
	} cases[] = {
	        {"/build", "a.dwo", "root/build/a.dwo"},
	        {"/build", "sub/a.dwo", "root/build/sub/a.dwo"},
	        {"/build", "../a.dwo", "root/a.dwo"},
	        {"/build", "/other/a.dwo", "root/other/a.dwo"},
	        {"", "/other/a.dwo", "root/other/a.dwo"},
	        {"/build", "sub/a.dwo", "debug/build/sub/a.dwo"},
	        {"/build", "sub/a.dwo", "debug/sub/a.dwo"},
	        {"/build", "sub/a.dwo", "debug/a.dwo"},
	        {".", "sub/a.dwo", "debug/sub/a.dwo"},
	        {"/build", "../../a.dwo", "debug/a.dwo"},
	        {"", "/other/a.dwo", "debug/other/a.dwo"},
	};
	struct sym_find_stats stats = {0};
	struct stat st;
	int fd = -EBADF;

	(void)state;
	parents("root/build/x");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		put_elf(cases[i].place, &dwo);
		assert_int_equal(sym_find_dwo(&in_debug, &stats, cases[i].dir, cases[i].name,
		                              root_fd, &fd),
		                 1);
		assert_int_equal(fstat(fd, &st), 0);
		assert_true(is_file(&st, cases[i].place));
		closep(&fd);
		assert_int_equal(unlink(at(cases[i].place)), 0);
	}
	put_elf("outside.dwo", &dwo); /* alongside the folder of ours, and alongside the root */
	assert_int_equal(sym_find_dwo(&in_debug, &stats, "/b", "../outside.dwo", root_fd, &fd), 0);
	assert_int_equal(sym_find_dwo(&in_debug, &stats, "..", "outside.dwo", root_fd, &fd), 0);
	assert_int_equal(sym_find_dwo(&in_debug, &stats, "", "", root_fd, &fd), 0);
	assert_int_equal(sym_find_dwo(&in_debug, &stats, "/build", "x/", root_fd, &fd), 0);
}

int main(void)
{
#define TEST(name_) cmocka_unit_test_setup_teardown(test_##name_, tree_setup, tree_teardown)
	const struct CMUnitTest tests[] = {
	        TEST(a_common_file_is_found_where_the_debug_file_says),
	        TEST(a_common_file_is_looked_for_from_where_links_lead),
	        TEST(a_common_file_of_another_build_is_refused),
	        TEST(a_package_of_split_units_is_found_by_its_name),
	        TEST(the_file_of_a_split_unit_is_found_by_its_name),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("sym-find-parts", tests, NULL, NULL);
}
