/* SPDX-License-Identifier: Apache-2.0 */
/* Separate debug files: which candidates are taken, which are refused and why. */
#include "sym_find_tree.h"

/* ---- by build-id ---- */

static void test_a_build_id_leads_to_a_folder_of_ours_first(void **state)
{
	struct outcome out;
	char want[PATH_MAX];

	(void)state;
	put_elf("root/usr/bin/x", &with_id);
	put_elf("root/usr/lib/debug" BY_ID, &with_id);
	put_elf("debug" BY_ID, &with_id);
	find(&out, &in_debug, "root/usr/bin/x", "/usr/bin/x");
	expect_file(&out, SYM_FOUND_BUILD_ID, "debug" BY_ID);
	snprintf(want, sizeof(want), "%s" BY_ID, debug_dir);
	assert_string_equal(out.path, want);
	expect_counts(&out.stats, 1, 0, 0, 0, 0, 0, 0);
	find(&out, &nowhere, "root/usr/bin/x", "/usr/bin/x");
	expect_file(&out, SYM_FOUND_BUILD_ID, "root/usr/lib/debug" BY_ID);
	assert_string_equal(out.path, "/usr/lib/debug" BY_ID);
	assert_int_equal(crcs_read, 0);
}

static void test_another_build_id_is_refused_of_whatever_length(void **state)
{
	const struct kind kinds[] = {
	        other_id,
	        {.id = id_a, .id_len = 16}, /* a prefix of it */
	        {.id = id_a, .id_len = 1},
	        without_id,
	};
	struct outcome out;

	(void)state;
	put_elf("root/x", &with_id);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		put_elf("root/usr/lib/debug" BY_ID, &kinds[i]);
		find(&out, &nowhere, "root/x", "/x");
		assert_int_equal(out.r, SYM_FOUND_REFUSED);
		expect_counts(&out.stats, 1, 0, 1, 0, 0, 0, 0);
	}
	/* The image has the shorter one. */
	put_elf("root/x", &(struct kind){.id = id_a, .id_len = 4});
	put_elf("root/usr/lib/debug/.build-id/ab/cdef04.debug", &with_id);
	find(&out, &nowhere, "root/x", "/x");
	assert_int_equal(out.r, SYM_FOUND_REFUSED);
	expect_counts(&out.stats, 1, 0, 1, 0, 0, 0, 0);
	put_elf("root/usr/lib/debug/.build-id/ab/cdef04.debug",
	        &(struct kind){.id = id_a, .id_len = 4});
	find(&out, &nowhere, "root/x", "/x");
	assert_int_equal(out.r, SYM_FOUND_BUILD_ID);
}

static void test_an_image_that_says_nothing_has_no_debug_file(void **state)
{
	struct outcome out;

	(void)state;
	put_elf("root/x", &without_id);
	put_elf("root/x.debug", &without_id);
	find(&out, &in_debug, "root/x", "/x");
	assert_int_equal(out.r, SYM_FOUND_NONE);
	put_elf("root/x", &with_id);
	find(&out, &in_debug, "root/x", "/x");
	assert_int_equal(out.r, SYM_FOUND_NONE);
	put_elf("root/x", &(struct kind){.id = id_a, .id_len = 1}); /* a folder, and no name */
	put_elf("root/usr/lib/debug/.build-id/ab/.debug", &(struct kind){.id = id_a, .id_len = 1});
	find(&out, &in_debug, "root/x", "/x");
	assert_int_equal(out.r, SYM_FOUND_NONE);
	expect_counts(&out.stats, 0, 0, 0, 0, 0, 0, 0);
}

static void test_an_image_in_memory_is_found_by_its_build_id(void **state)
{
	struct sym_find_stats stats = {0};
	struct img_file *f = NULL;
	char *path = NULL;
	int fd = -EBADF;
	struct sbuf b;

	(void)state;
	make(&with_id, &b);
	put_elf("debug" BY_ID, &with_id);
	assert_int_equal(img_file_open_mem(b.p, b.len, &f, NULL), 0);
	assert_int_equal(sym_find_debug(&in_debug, &stats, f, "", -EBADF, &fd, &path),
	                 SYM_FOUND_BUILD_ID);
	free(path);
	close(fd);
	img_file_free(f);
	sbuf_done(&b);
}

/* ---- by debuglink ---- */

static void test_a_debuglink_is_looked_for_in_all_its_places(void **state)
{
	static const char *const places[] = {
	        "debug/usr/bin/x.debug",
	        "debug/bin/x.debug",
	        "debug/x.debug",
	        "root/usr/bin/x.debug",
	        "root/usr/bin/.debug/x.debug",
	        "root/usr/lib/debug/usr/bin/x.debug",
	        "root/bin/x.debug",
	        "root/bin/.debug/x.debug",
	        "root/usr/lib/debug/bin/x.debug",
	        "root/usr/lib/debug/x.debug",
	};
	struct outcome out;

	(void)state;
	for (int usr = 0; usr < 2; usr++) { /* what the kernel shows of a system either way */
		for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
			uint32_t crc = put_elf(places[i], &without_id);

			put_elf("image", &(struct kind){.link = "x.debug", .crc = crc});
			find(&out, &in_debug, "image", usr ? "/usr/bin/x" : "/bin/x");
			expect_file(&out, SYM_FOUND_DEBUGLINK, places[i]);
			expect_counts(&out.stats, 1, 0, 0, 0, 0, 0, 0);
			assert_int_equal(unlink(at(places[i])), 0);
		}
	}
	put_elf("root/usr/opt/x.debug", &without_id); /* not one of the merged folders */
	find(&out, &in_debug, "image", "/opt/x");
	assert_int_equal(out.r, SYM_FOUND_NONE);
	put_elf("root/usr/library/x.debug", &without_id);
	find(&out, &in_debug, "image", "/library/x");
	assert_int_equal(out.r, SYM_FOUND_NONE);
}

static void test_our_own_root_is_looked_in_after_that_of_the_process(void **state)
{
	struct outcome out;
	char path[PATH_MAX];
	uint32_t crc;

	(void)state;
	crc = put_elf("alongside/x.debug", &without_id);
	put_elf("alongside/x", &(struct kind){.link = "x.debug", .crc = crc});
	snprintf(path, sizeof(path), "%s", at("alongside/x"));
	find(&out, &nowhere, "alongside/x", path);
	expect_file(&out, SYM_FOUND_DEBUGLINK, "alongside/x.debug");
	closep(&root_fd);
	find(&out, &nowhere, "alongside/x", path);
	expect_file(&out, SYM_FOUND_DEBUGLINK, "alongside/x.debug");
	/* A process with our own root: it is not looked through twice. */
	root_fd = __real_open64("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	put("alongside/x.debug", "text", 4);
	parents("alongside/.debug/x");
	assert_int_equal(mkfifo(at("alongside/.debug/x.debug"), 0644), 0);
	find(&out, &nowhere, "alongside/x", path);
	assert_int_equal(out.r, SYM_FOUND_REFUSED);
	expect_counts(&out.stats, 1, 0, 0, 1, 0, 1, 0);
}

static void test_equal_build_ids_decide_and_no_checksum_is_read(void **state)
{
	struct outcome out;
	uint32_t crc;

	(void)state;
	put_elf("root/x.debug", &with_id);
	put_elf("root/x",
	        &(struct kind){.id = id_a, .id_len = 20, .link = "x.debug", .crc = CRC_ANY});
	find(&out, &nowhere, "root/x", "/x");
	expect_file(&out, SYM_FOUND_DEBUGLINK, "root/x.debug");
	crc = put_elf("root/x.debug", &other_id); /* the checksum is right */
	put_elf("root/x", &(struct kind){.id = id_a, .id_len = 20, .link = "x.debug", .crc = crc});
	find(&out, &nowhere, "root/x", "/x");
	assert_int_equal(out.r, SYM_FOUND_REFUSED);
	expect_counts(&out.stats, 1, 0, 1, 0, 0, 0, 0);
	assert_int_equal(crcs_read, 0);
}

static void test_the_checksum_decides_where_one_has_no_build_id(void **state)
{
	static const struct kind *const debugs[] = {&without_id, &with_id, &without_id};
	struct outcome out;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(debugs); i++) {
		uint32_t crc = put_elf("root/x.debug", debugs[i]);
		struct kind image = {.link = "x.debug", .crc = crc};

		if (i == 2) {
			image.id = id_a;
			image.id_len = 20;
		}
		put_elf("root/x", &image);
		find(&out, &nowhere, "root/x", "/x");
		expect_file(&out, SYM_FOUND_DEBUGLINK, "root/x.debug");
		image.crc ^= 1;
		put_elf("root/x", &image);
		find(&out, &nowhere, "root/x", "/x");
		assert_int_equal(out.r, SYM_FOUND_REFUSED);
		expect_counts(&out.stats, 1, 1, 0, 0, 0, 0, 0);
	}
	assert_int_equal(crcs_read, 6);
}

static void test_a_refused_file_does_not_hide_the_next(void **state)
{
	struct outcome out;
	uint32_t crc;

	(void)state;
	crc = put_elf("root/usr/lib/debug/opt/x.debug", &without_id);
	put_elf("root/opt/x",
	        &(struct kind){.id = id_a, .id_len = 20, .link = "x.debug", .crc = crc});
	put_elf("debug" BY_ID, &other_id);                                    /* another build */
	put("debug/opt/x.debug", "", 0);                                      /* no ELF file */
	put_elf("root/opt/x.debug", &(struct kind){.text = "another build"}); /* checksum */
	put_elf("root/opt/.debug/x.debug", &(struct kind){.section = ""});    /* useless */
	find(&out, &in_debug, "root/opt/x", "/opt/x");
	expect_file(&out, SYM_FOUND_DEBUGLINK, "root/usr/lib/debug/opt/x.debug");
	expect_counts(&out.stats, 5, 1, 1, 0, 0, 2, 0);
}

static void test_a_file_with_symbols_alone_is_of_use(void **state)
{
	struct outcome out;

	(void)state;
	put_elf("root/x", &with_id);
	put_elf("debug" BY_ID, &(struct kind){.id = id_a, .id_len = 20, .section = ".symtab"});
	find(&out, &in_debug, "root/x", "/x");
	assert_int_equal(out.r, SYM_FOUND_BUILD_ID);
	put_elf("debug" BY_ID, &(struct kind){.id = id_a, .id_len = 20, .text = ""});
	find(&out, &in_debug, "root/x", "/x");
	assert_int_equal(out.r, SYM_FOUND_REFUSED);
	expect_counts(&out.stats, 1, 0, 0, 0, 0, 1, 0);
}

/* ---- what is no file ---- */

static void test_what_is_no_regular_file_is_never_opened(void **state)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	struct outcome out;
	int sock;

	(void)state;
	put_elf("root/x", &(struct kind){.link = "x.debug", .crc = CRC_ANY});
	assert_int_equal(mkdir(at("debug/x.debug"), 0755), 0);
	assert_int_equal(mkfifo(at("root/x.debug"), 0644), 0);
	parents("root/.debug/x");
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", at("root/.debug/x.debug"));
	sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(sock >= 0);
	assert_int_equal(bind(sock, (struct sockaddr *)&addr, sizeof(addr)), 0);
	close(sock);
	find(&out, &in_debug, "root/x", "/x");
	assert_int_equal(out.r, SYM_FOUND_REFUSED);
	expect_counts(&out.stats, 0, 0, 0, 3, 0, 0, 0);
	/* A device, by a link in a folder of ours: nodes need a privilege. */
	assert_int_equal(rmdir(at("debug/x.debug")), 0);
	assert_int_equal(unlink(at("root/x.debug")), 0);
	assert_int_equal(unlink(at("root/.debug/x.debug")), 0);
	put_link("debug/x.debug", "/dev/null");
	find(&out, &in_debug, "root/x", "/x");
	assert_int_equal(out.r, SYM_FOUND_REFUSED);
	expect_counts(&out.stats, 0, 0, 0, 1, 0, 0, 0);
}

static void test_a_debuglink_to_the_image_itself_is_refused(void **state)
{
	struct outcome out;

	(void)state;
	put_elf("root/x", &(struct kind){.id = id_a, .id_len = 20, .link = "x", .crc = CRC_ANY});
	find(&out, &nowhere, "root/x", "/x");
	assert_int_equal(out.r, SYM_FOUND_REFUSED);
	expect_counts(&out.stats, 1, 0, 0, 0, 0, 0, 1);
	/* By other names of it: a link, and a second entry in the build-id's folder. */
	parents("root/.debug/x");
	put_link("root/.debug/x", "../x");
	parents("debug" BY_ID);
	assert_int_equal(link(at("root/x"), at("debug" BY_ID)), 0);
	find(&out, &in_debug, "root/x", "/x");
	assert_int_equal(out.r, SYM_FOUND_REFUSED);
	assert_int_equal(out.stats.itself, 2); /* as build-id, and as link however often */
	assert_int_equal(out.stats.wrong_build_id + out.stats.bad, 0);
}

static void test_a_file_with_two_names_is_looked_at_once(void **state)
{
	struct outcome out;

	(void)state;
	put_elf("root/x", &(struct kind){.link = "x.debug", .crc = CRC_ANY});
	put_elf("root/x.debug", &without_id);
	put_link("root/.debug/x.debug", "../x.debug");
	put_link("root/usr/lib/debug/x.debug", "/x.debug");
	find(&out, &nowhere, "root/x", "/x");
	assert_int_equal(out.r, SYM_FOUND_REFUSED);
	assert_int_equal(out.stats.wrong_crc, 1);
	assert_int_equal(crcs_read, 1);
}

static void test_files_that_are_damaged_or_of_another_machine_are_refused(void **state)
{
	struct outcome out;
	struct sbuf b;

	(void)state;
	put_elf("root/x", &with_id);
	put("debug" BY_ID, "#!/bin/sh\n", 10);
	find(&out, &in_debug, "root/x", "/x");
	expect_counts(&out.stats, 1, 0, 0, 0, 0, 1, 0);
	make(&with_id, &b);
	for (size_t cut = 0; cut < b.len; cut += 7) {
		put("debug" BY_ID, b.p, cut);
		find(&out, &in_debug, "root/x", "/x");
		assert_int_equal(out.r, SYM_FOUND_REFUSED);
		expect_counts(&out.stats, 1, 0, 0, 0, 0, 1, 0);
	}
	sbuf_done(&b);
	put_elf("debug" BY_ID, &(struct kind){.id = id_a, .id_len = 20, .is32 = true});
	find(&out, &in_debug, "root/x", "/x");
	assert_int_equal(out.r, SYM_FOUND_REFUSED);
	expect_counts(&out.stats, 1, 0, 0, 0, 0, 1, 0);
}

static void test_a_loop_of_links_cannot_be_read(void **state)
{
	struct outcome out;

	(void)state;
	put_elf("root/x", &with_id);
	put_link("debug" BY_ID, HEX_REST ".debug");
	find(&out, &in_debug, "root/x", "/x");
	assert_int_equal(out.r, SYM_FOUND_REFUSED);
	expect_counts(&out.stats, 0, 0, 0, 0, 1, 0, 0);
}

static void test_a_file_too_large_for_its_checksum_is_not_read(void **state)
{
	struct outcome out;

	(void)state;
	put_elf("root/x", &(struct kind){.link = "x.debug", .crc = CRC_ANY});
	put_elf("root/x.debug", &without_id);
	assert_int_equal(truncate(at("root/x.debug"), 3LL << 30), 0);
	find(&out, &nowhere, "root/x", "/x");
	assert_int_equal(out.r, SYM_FOUND_REFUSED);
	expect_counts(&out.stats, 1, 0, 0, 0, 1, 0, 0);
	assert_int_equal(crcs_read, 0);
}

int main(void)
{
#define TEST(name_) cmocka_unit_test_setup_teardown(test_##name_, setup, tree_teardown)
	const struct CMUnitTest tests[] = {
	        TEST(a_build_id_leads_to_a_folder_of_ours_first),
	        TEST(another_build_id_is_refused_of_whatever_length),
	        TEST(an_image_that_says_nothing_has_no_debug_file),
	        TEST(an_image_in_memory_is_found_by_its_build_id),
	        TEST(a_debuglink_is_looked_for_in_all_its_places),
	        TEST(our_own_root_is_looked_in_after_that_of_the_process),
	        TEST(equal_build_ids_decide_and_no_checksum_is_read),
	        TEST(the_checksum_decides_where_one_has_no_build_id),
	        TEST(a_refused_file_does_not_hide_the_next),
	        TEST(a_file_with_symbols_alone_is_of_use),
	        TEST(what_is_no_regular_file_is_never_opened),
	        TEST(a_debuglink_to_the_image_itself_is_refused),
	        TEST(a_file_with_two_names_is_looked_at_once),
	        TEST(files_that_are_damaged_or_of_another_machine_are_refused),
	        TEST(a_loop_of_links_cannot_be_read),
	        TEST(a_file_too_large_for_its_checksum_is_not_read),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("sym-find", tests, NULL, NULL);
}
