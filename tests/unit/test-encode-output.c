/* SPDX-License-Identifier: Apache-2.0 */
#include "encode_files.h"

#define NOBODY 65534

static void assert_file(const char *path, const char *want)
{
	struct sbuf b;

	sbuf_init(&b, 1 << 20);
	assert_int_equal(file_read_all(AT_FDCWD, path, &b, NULL), 0);
	assert_int_equal(b.len, strlen(want));
	if (b.len)
		assert_memory_equal(b.p, want, b.len);
	sbuf_done(&b);
}

static void make_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(file_write_full(fd, text, strlen(text)), 0);
	close(fd);
}

#define CANNOT 77

static bool drop_root(void)
{
	return geteuid() != 0 ||
	       (setgroups(0, NULL) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
	        setresuid(NOBODY, NOBODY, NOBODY) == 0);
}

static void file_appears_at_commit_only(unsigned int temporary_ones)
{
	const char *path = at("out");
	mode_t mask = umask(027);
	struct enc_output *o;
	struct stat st;

	assert_int_equal(open_path(path, &o, NULL), 0);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(entries(tmp), temporary_ones);
	assert_int_equal(enc_output_commit(o, "data", 4, NULL), 0);
	umask(mask);
	assert_file(path, "data");
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(entries(tmp), 1);
	assert_int_equal(enc_output_commit(o, "more", 4, NULL), -EINVAL);
	assert_null(enc_output_free(o));
	assert_null(enc_output_free(NULL));
	assert_file(path, "data");

	/* And over what is there, also with nothing at all. */
	assert_int_equal(open_path(path, &o, NULL), 0);
	assert_file(path, "data");
	assert_int_equal(enc_output_commit(o, NULL, 0, NULL), 0);
	enc_output_free(o);
	assert_file(path, "");
	assert_int_equal(entries(tmp), 1);
}

static void test_file_appears_at_commit_only(void **state)
{
	(void)state;
	file_appears_at_commit_only(0);
}

static void test_file_appears_at_commit_only_without_unnamed_files(void **state)
{
	(void)state;
	no_unnamed_files = true;
	file_appears_at_commit_only(1);
	no_unnamed_files = false;
}

/* Mode, owner and group of what is written over a file that has them. */
static void replace_file(mode_t mode, uid_t uid, gid_t gid, struct stat *ret)
{
	struct enc_output *o;

	(void)unlink(at("old")); /* not there the first time */
	make_file(at("old"), "old");
	assert_int_equal(chown(at("old"), uid, gid), 0);
	assert_int_equal(chmod(at("old"), mode), 0);
	assert_int_equal(open_path(at("old"), &o, NULL), 0);
	assert_int_equal(enc_output_commit(o, "new", 3, NULL), 0);
	enc_output_free(o);
	assert_int_equal(entries(tmp), 1);
	assert_int_equal(stat(at("old"), ret), 0);
	assert_int_equal(ret->st_size, 3);
}

static void test_replaced_file_hands_its_access_on(void **state)
{
	static const mode_t modes[] = {0600, 0444, 0777, 0640};
	struct stat st;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(modes) * 2; i++) {
		no_unnamed_files = i % 2;
		replace_file(modes[i / 2], geteuid(), getegid(), &st);
		assert_int_equal(st.st_mode & 07777, modes[i / 2]);
		if (geteuid() == 0) {
			replace_file(modes[i / 2], NOBODY, NOBODY - 1, &st);
			assert_int_equal(st.st_mode & 07777, modes[i / 2]);
			assert_int_equal(st.st_uid, NOBODY);
			assert_int_equal(st.st_gid, NOBODY - 1);
		}
	}
	no_unnamed_files = false;
	replace_file(04755, geteuid(), getegid(), &st);
	assert_int_equal(st.st_mode & 07777, 0755);
}

/* In a child: writes over root's file, without the right to give files away. */
static int replace_stranger(void)
{
	struct enc_output *o = NULL;
	struct stat st;

	if (geteuid() != 0)
		return CANNOT;
	make_file(at("old"), "old");
	CHECK(chmod(at("old"), 0664) == 0 && chown(tmp, NOBODY, NOBODY) == 0 && drop_root());
	CHECK(open_path(at("old"), &o, NULL) == 0);
	CHECK(enc_output_commit(o, "new", 3, NULL) == 0);
	enc_output_free(o);
	CHECK(stat(at("old"), &st) == 0 && st.st_uid == NOBODY && st.st_gid == NOBODY);
	/* Root's group could write; ours gets no more than everybody had. */
	CHECK((st.st_mode & 07777) == 0644);
	return 0;
}

static void test_access_that_cannot_be_handed_on(void **state)
{
	int r = in_child(replace_stranger);

	(void)state;
	if (r != CANNOT)
		assert_int_equal(r, 0);
}

static void test_free_without_commit_leaves_nothing(void **state)
{
	_cleanup_(enc_output_freep) struct enc_output *o = NULL;

	(void)state;
	make_file(at("old"), "old");
	assert_int_equal(open_path(at("new"), &o, NULL), 0);
	o = enc_output_free(o);
	assert_int_equal(open_path(at("old"), &o, NULL), 0);
	o = enc_output_free(o);
	assert_int_equal(entries(tmp), 1);
	assert_file(at("old"), "old");
}

static void test_relative_path_survives_chdir(void **state)
{
	char cwd[PATH_MAX];
	struct enc_output *o;

	(void)state;
	assert_non_null(getcwd(cwd, sizeof(cwd)));
	assert_int_equal(chdir(tmp), 0);
	assert_int_equal(open_path("rel", &o, NULL), 0);
	assert_int_equal(chdir("/"), 0);
	assert_int_equal(enc_output_commit(o, "x", 1, NULL), 0);
	enc_output_free(o);
	assert_int_equal(chdir(cwd), 0);
	assert_file(at("rel"), "x");
}

static void test_symbolic_link_stays(void **state)
{
	struct enc_output *o;
	struct stat st;

	(void)state;
	assert_int_equal(mkdir(at("d"), 0755), 0);
	make_file(at("d/real"), "old");
	assert_int_equal(symlink("d/real", at("link")), 0);
	assert_int_equal(symlink("link", at("link2")), 0);
	assert_int_equal(open_path(at("link2"), &o, NULL), 0);
	assert_int_equal(enc_output_commit(o, "new", 3, NULL), 0);
	enc_output_free(o);
	assert_int_equal(lstat(at("link"), &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_file(at("d/real"), "new");
	assert_int_equal(entries(tmp), 3);
	assert_int_equal(entries(at("d")), 1);

	assert_int_equal(symlink("nowhere", at("dangling")), 0);
	assert_refused(at("dangling"), -ENOENT,
	               "the symbolic link names nowhere, which does not exist (ENOENT); create it "
	               "with: touch ");
	assert_int_equal(symlink("loop", at("loop")), 0);
	assert_refused(at("loop"), -ELOOP, "ELOOP");
}

static void test_link_of_a_stranger_in_a_sticky_directory(void **state)
{
	struct sbuf b;

	(void)state;
	sbuf_init(&b, 16);
	assert_int_equal(file_read_all(AT_FDCWD, "/proc/sys/fs/protected_symlinks", &b, NULL), 0);
	if (geteuid() != 0 || b.p[0] != '1') {
		print_message("# not tested: needs root and fs.protected_symlinks=1\n");
		sbuf_done(&b);
		return;
	}
	sbuf_done(&b);
	make_file(at("precious"), "old");
	assert_int_equal(symlink("precious", at("trap")), 0);
	assert_int_equal(lchown(at("trap"), NOBODY, NOBODY), 0);
	assert_int_equal(chmod(tmp, 01777), 0);
	assert_refused(at("trap"), -EACCES, "symbolic link");
	assert_file(at("precious"), "old");
}

static void test_bad_paths_are_refused_before_the_capture(void **state)
{
	char name[NAME_MAX + 2], want[PATH_MAX + 32];
	struct enc_output *o;

	(void)state;
	make_file(at("file"), "");
	assert_refused("", -EINVAL, "empty");
	assert_refused(tmp, -EISDIR, "directory");
	assert_refused(at("."), -EISDIR, "directory");
	assert_refused(at("new/"), -EISDIR, "directory");
	(void)snprintf(want, sizeof(want), "mkdir -p %s/no/such", tmp);
	assert_refused(at("no/such/file"), -ENOENT, want);
	assert_refused(at("file/x"), -ENOTDIR, "ENOTDIR");

	memset(name, 'n', sizeof(name));
	name[NAME_MAX + 1] = '\0';
	assert_refused(at(name), -ENAMETOOLONG, "ENAMETOOLONG");
	name[NAME_MAX] = '\0';
	assert_int_equal(open_path(at(name), &o, NULL), 0);
	assert_int_equal(enc_output_commit(o, "y", 1, NULL), 0);
	enc_output_free(o);
	assert_file(at(name), "y");
}

static void test_proc_takes_no_files(void **state)
{
	struct enc_output *o = NULL;
	struct err err = {0};

	(void)state;
	assert_true(open_path("/proc/cpu.pb.gz", &o, &err) < 0); /* ENOENT or EACCES by kernel */
	assert_null(o);
	assert_non_null(strstr(err.msg, "the file system of /proc takes no new files (ENOENT)"));
	assert_non_null(strstr(err.msg, " (E"));
}

static int unwritable_directory(void)
{
	struct enc_output *o = NULL;
	struct err err = {0};

	if (!drop_root())
		return CANNOT;
	CHECK(open_path(at("closed/x"), &o, &err) == -EACCES);
	CHECK(strstr(err.msg, "closed: permission denied (EACCES)"));
	CHECK(open_path(at("secret/x"), &o, &err) == -EACCES);
	CHECK(!o);
	return 0;
}

static void test_directory_without_permission(void **state)
{
	(void)state;
	assert_int_equal(mkdir(at("closed"), 0555), 0);
	assert_int_equal(mkdir(at("secret"), 0), 0);
	assert_int_equal(in_child(unwritable_directory), 0);
	assert_int_equal(chmod(at("secret"), 0755), 0);
	assert_int_equal(entries(at("closed")), 0);
}

static int others_file_in_sticky(void)
{
	struct enc_output *o = NULL;
	struct err err = {0};

	if (geteuid() != 0 || !drop_root())
		return CANNOT;
	CHECK(open_path(at("sticky/roots"), &o, &err) == -EPERM);
	CHECK(strstr(err.msg, "sticky"));
	CHECK(open_path(at("sticky/mine"), &o, &err) == 0);
	CHECK(enc_output_commit(o, "1", 1, NULL) == 0);
	enc_output_free(o);
	CHECK(open_path(at("sticky/mine"), &o, &err) == 0);
	CHECK(enc_output_commit(o, "2", 1, NULL) == 0);
	enc_output_free(o);
	return 0;
}

static void test_file_of_another_user_in_a_sticky_directory(void **state)
{
	struct enc_output *o;
	int r;

	(void)state;
	assert_int_equal(mkdir(at("sticky"), 0755), 0);
	assert_int_equal(chmod(at("sticky"), 01777), 0);
	make_file(at("sticky/roots"), "old");
	r = in_child(others_file_in_sticky);
	if (r == CANNOT) {
		print_message("# not tested: needs root\n");
		return;
	}
	assert_int_equal(r, 0);
	assert_int_equal(entries(at("sticky")), 2);
	/* Root may, though neither the file nor the directory is its own. */
	assert_int_equal(chown(at("sticky"), 1, 1), 0);
	assert_int_equal(open_path(at("sticky/mine"), &o, NULL), 0);
	assert_int_equal(enc_output_commit(o, "3", 1, NULL), 0);
	enc_output_free(o);
	assert_file(at("sticky/mine"), "3");
}

static int odd_file_systems(void)
{
	static char big[100000];
	struct enc_output *o = NULL;
	struct err err = {0};

	if (unshare(CLONE_NEWNS) < 0)
		return CANNOT;
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", at("mnt"), "tmpfs", 0, "size=16k") < 0)
		return CANNOT;
	CHECK(open_path(at("mnt/x"), &o, &err) == 0);
	CHECK(enc_output_commit(o, big, sizeof(big), &err) == -ENOSPC);
	CHECK(strstr(err.msg, "mnt/x: no space left on device (ENOSPC)"));
	enc_output_free(o);
	CHECK(entries(at("mnt")) == 0);
	CHECK(mount("none", at("mnt"), "tmpfs", MS_REMOUNT | MS_RDONLY, NULL) == 0);
	CHECK(open_path(at("mnt/x"), &o, &err) == -EROFS);
	CHECK(strstr(err.msg, "read-only file system"));
	return 0;
}

static void test_full_and_read_only_file_systems(void **state)
{
	int r;

	(void)state;
	assert_int_equal(mkdir(at("mnt"), 0755), 0);
	r = in_child(odd_file_systems);
	if (r == CANNOT)
		print_message("# not tested: a mount namespace of its own is refused\n");
	else
		assert_int_equal(r, 0);
}

static void test_parts_become_one_file(void **state)
{
	struct enc_output *o;

	(void)state;
	assert_int_equal(open_path(at("parts"), &o, NULL), 0);
	assert_int_equal(enc_output_append(o, "one ", 4, NULL), 0);
	assert_int_equal(enc_output_append(o, "two ", 4, NULL), 0);
	assert_int_equal(access(at("parts"), F_OK), -1);
	assert_int_equal(enc_output_commit(o, "three", 5, NULL), 0);
	assert_int_equal(enc_output_append(o, "four", 4, NULL), -EINVAL);
	enc_output_free(o);
	assert_file(at("parts"), "one two three");
	assert_int_equal(entries(tmp), 1);
}

struct parts {
	unsigned int calls;
	size_t bytes;
};

static int count_parts(void *arg, const void *data, size_t len)
{
	struct parts *p = arg;

	(void)data;
	p->calls++;
	p->bytes += len;
	return 0;
}

static void test_call_back_gets_parts_and_no_empty_rest(void **state)
{
	struct parts parts = {0};
	const struct pfa_output to = {.write = count_parts, .write_arg = &parts};
	struct enc_output *o;

	(void)state;
	assert_int_equal(enc_output_open(&to, &o, NULL), 0);
	assert_int_equal(enc_output_append(o, "one", 3, NULL), 0);
	assert_int_equal(enc_output_commit(o, NULL, 0, NULL), 0);
	enc_output_free(o);
	assert_int_equal(parts.calls, 1);
	assert_int_equal(parts.bytes, 3);
}

static int limited_file_size_of_parts(void)
{
	static char big[3000];
	struct rlimit lim = {4096, 4096};
	struct enc_output *o = NULL;
	struct err err = {0};

	CHECK(open_path(at("x"), &o, &err) == 0);
	CHECK(setrlimit(RLIMIT_FSIZE, &lim) == 0);
	CHECK(enc_output_append(o, big, sizeof(big), &err) == 0);
	CHECK(enc_output_append(o, big, sizeof(big), &err) == -EFBIG);
	CHECK(err.cause == ERR_OUTPUT);
	CHECK(enc_output_append(o, big, 1, &err) == -EFBIG);
	CHECK(enc_output_commit(o, NULL, 0, &err) == -EFBIG);
	CHECK(entries(tmp) == 0);
	enc_output_free(o);
	return 0;
}

static void test_failed_part_leaves_no_file(void **state)
{
	(void)state;
	assert_int_equal(in_child(limited_file_size_of_parts), 0);
	assert_int_equal(entries(tmp), 0);
}

static int limited_file_size(void)
{
	static char big[10000];
	struct rlimit lim = {4096, 4096};
	struct enc_output *o = NULL;
	struct err err = {0};

	/* SIGXFSZ keeps its default: the child would die of it. */
	CHECK(open_path(at("x"), &o, &err) == 0);
	CHECK(setrlimit(RLIMIT_FSIZE, &lim) == 0);
	CHECK(enc_output_commit(o, big, sizeof(big), &err) == -EFBIG);
	CHECK(strstr(err.msg, "EFBIG"));
	CHECK(entries(tmp) == 0); /* gone before free */
	enc_output_free(o);
	return 0;
}

static void test_short_write_leaves_no_file(void **state)
{
	(void)state;
	assert_int_equal(in_child(limited_file_size), 0);
	assert_int_equal(entries(tmp), 0);
}

static void test_name_taken_by_a_directory_meanwhile(void **state)
{
	struct enc_output *o;
	struct err err = {0};

	(void)state;
	assert_int_equal(open_path(at("x"), &o, NULL), 0);
	assert_int_equal(mkdir(at("x"), 0755), 0);
	assert_int_equal(enc_output_commit(o, "x", 1, &err), -EISDIR);
	assert_non_null(strstr(err.msg, "rename"));
	assert_int_equal(entries(tmp), 1);
	enc_output_free(o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        IN_DIR(test_file_appears_at_commit_only),
	        IN_DIR(test_file_appears_at_commit_only_without_unnamed_files),
	        IN_DIR(test_replaced_file_hands_its_access_on),
	        IN_DIR(test_access_that_cannot_be_handed_on),
	        IN_DIR(test_free_without_commit_leaves_nothing),
	        IN_DIR(test_relative_path_survives_chdir),
	        IN_DIR(test_symbolic_link_stays),
	        IN_DIR(test_link_of_a_stranger_in_a_sticky_directory),
	        IN_DIR(test_bad_paths_are_refused_before_the_capture),
	        cmocka_unit_test(test_proc_takes_no_files),
	        IN_DIR(test_directory_without_permission),
	        IN_DIR(test_file_of_another_user_in_a_sticky_directory),
	        IN_DIR(test_full_and_read_only_file_systems),
	        IN_DIR(test_parts_become_one_file),
	        cmocka_unit_test(test_call_back_gets_parts_and_no_empty_rest),
	        IN_DIR(test_failed_part_leaves_no_file),
	        IN_DIR(test_short_write_leaves_no_file),
	        IN_DIR(test_name_taken_by_a_directory_meanwhile),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
