/* SPDX-License-Identifier: Apache-2.0 */
#include "image_symbols.h"

static void test_reads_64_bit(void **state)
{
	struct eb_map m;
	struct sbuf b;
	struct img_file *f = open_built(&basic, &b, &m);

	(void)state;
	assert_true(img_is_64(f));
	check_basic(f);
	img_file_free(f);
	sbuf_done(&b);
}

static void test_reads_32_bit(void **state)
{
	struct eb_opts o = basic;
	struct img_file *f;
	struct eb_map m;
	struct sbuf b;

	(void)state;
	o.is32 = true;
	o.machine = EM_386;
	f = open_built(&o, &b, &m);
	assert_false(img_is_64(f));
	check_basic(f);
	img_file_free(f);
	sbuf_done(&b);
}

static void test_reads_through_descriptor(void **state)
{
	struct img_file *f = NULL;
	struct eb_map m;
	struct sbuf b;
	int fd;

	(void)state;
	eb_build(&basic, &b, &m);
	fd = memfd_of(b.p, b.len);
	assert_int_equal(img_file_open(fd, &f, NULL), 0);
	check_basic(f);
	img_file_free(f);
	close(fd);
	sbuf_done(&b);
}

static void test_section_count_in_first_header(void **state)
{
	struct eb_opts o = basic;
	struct img_file *f;
	struct eb_map m;
	struct sbuf b;

	(void)state;
	o.ext_shnum = true;
	f = open_built(&o, &b, &m);
	check_basic(f);
	img_file_free(f);
	sbuf_done(&b);
}

static void test_without_section_headers(void **state)
{
	struct eb_opts o = basic;
	uint8_t id[IMG_BUILD_ID_MAX];
	struct img_file *f;
	struct listing l;
	struct eb_map m;
	struct sbuf b;
	size_t len;

	(void)state;
	o.no_shdrs = true;
	f = open_built(&o, &b, &m);
	assert_int_equal(list(f, &l), -ENOENT);
	assert_int_equal(img_build_id(f, id, &len), 0);
	assert_int_equal(len, 20);
	assert_int_equal(img_bad_items(f), 0);
	sbuf_done(&l.b);
	img_file_free(f);
	sbuf_done(&b);
}

static void test_without_symbols(void **state)
{
	struct eb_opts o = {.id_len = 16};
	struct img_file *f;
	struct listing l;
	struct eb_map m;
	struct sbuf b;

	(void)state;
	f = open_built(&o, &b, &m);
	assert_int_equal(list(f, &l), -ENOENT);
	sbuf_done(&l.b);
	img_file_free(f);
	sbuf_done(&b);
}

static void test_refuses_what_is_not_elf(void **state)
{
	struct img_file *f = NULL;
	struct err err = {0};
	struct eb_map m;
	int fds[2], fd;
	struct sbuf b;

	(void)state;
	eb_build(&basic, &b, &m);
	assert_int_equal(img_file_open_mem("", 0, &f, &err), -ENOEXEC);
	assert_int_equal(err.code, -ENOEXEC);
	assert_int_equal(img_file_open_mem("#!/bin/sh\nexit 0\n\n\n\n", 20, &f, NULL), -ENOEXEC);
	assert_int_equal(img_file_open_mem(b.p, 20, &f, NULL), -EINVAL);
	b.p[EI_DATA] = ELFDATA2MSB;
	assert_int_equal(img_file_open_mem(b.p, b.len, &f, NULL), -ENOEXEC);
	b.p[EI_DATA] = ELFDATA2LSB;
	b.p[EI_CLASS] = 9;
	assert_int_equal(img_file_open_mem(b.p, b.len, &f, NULL), -ENOEXEC);
	b.p[EI_CLASS] = ELFCLASS64;
	b.p[offsetof(Elf64_Ehdr, e_phentsize)] = 55;
	assert_int_equal(img_file_open_mem(b.p, b.len, &f, NULL), -EINVAL);

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(img_file_open(fds[0], &f, &err), -EINVAL);
	close(fds[0]);
	close(fds[1]);
	assert_int_equal(img_file_open(-1, &f, &err), -EBADF);
	fd = memfd_of(b.p, b.len);
	sbuf_reset(&b);
	sbuf_addf(&b, "/proc/self/fd/%d", fd);
	fds[0] = open(b.p, O_WRONLY | O_CLOEXEC); /* cannot be read */
	assert_true(fds[0] >= 0);
	assert_int_equal(img_file_open(fds[0], &f, &err), -EBADF);
	assert_null(f);
	close(fds[0]);
	close(fd);
	sbuf_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_reads_64_bit),
	        cmocka_unit_test(test_reads_32_bit),
	        cmocka_unit_test(test_reads_through_descriptor),
	        cmocka_unit_test(test_section_count_in_first_header),
	        cmocka_unit_test(test_without_section_headers),
	        cmocka_unit_test(test_without_symbols),
	        cmocka_unit_test(test_refuses_what_is_not_elf),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
