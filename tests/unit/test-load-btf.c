/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-load-btf: the cut of a kernel's BTF that is made up.
 * test-load-btf OBJECT ...: each BPF object's cut of the running kernel's BTF, member by member
 * against libbpf's reading of the whole.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include <bpf/libbpf.h>

#include "loader/load_btf.h"

#define KERNEL_BTF "/sys/kernel/btf/vmlinux"

static int file_of(const void *p, size_t len)
{
	int fd = memfd_create("test-load-btf", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(file_write_full(fd, p, len), 0);
	return fd;
}

static int file_of_btf(const struct btf *btf)
{
	uint32_t len;
	const void *p = btf__raw_data(btf, &len);

	assert_non_null(p);
	return file_of(p, len);
}

static int find(const struct btf *btf, const char *name, uint32_t kind)
{
	return btf__find_by_name_kind(btf, name, kind);
}

static struct btf *parsed(const struct sbuf *b)
{
	struct btf *btf = btf__new(b->p, (uint32_t)b->len);

	assert_int_equal(libbpf_get_error(btf), 0);
	return btf;
}

/* ---- a kernel of our own --------------------------------------------------------------------- */

/*
 * typedef unsigned int u32;           struct other { long unread; struct deep d; };
 * struct deep { u32 a; u32 skipped; }; struct task { u32 unread; struct deep in; struct other *to;
 * struct { u32 hidden; } (anonymous); u32 flags : 3; u32 list[4]; };
 * enum which { WANTED = 3, UNWANTED = 4 };
 */
struct kernel {
	struct btf *btf;
	int u32, deep, other, to, anonymous, task, list, tracepoint, function, variable;
};

static void kernel_init(struct kernel *k)
{
	int r = 0;

	k->btf = btf__new_empty();
	assert_non_null(k->btf);
	k->u32 = btf__add_typedef(k->btf, "u32", btf__add_int(k->btf, "unsigned int", 4, 0));
	k->deep = btf__add_struct(k->btf, "deep", 8);
	r |= btf__add_field(k->btf, "a", k->u32, 0, 0);
	r |= btf__add_field(k->btf, "skipped", k->u32, 32, 0);
	k->other = btf__add_struct(k->btf, "other", 16);
	r |= btf__add_field(k->btf, "unread", k->u32, 0, 0);
	k->to = btf__add_ptr(k->btf, k->other);
	k->anonymous = btf__add_union(k->btf, NULL, 4);
	r |= btf__add_field(k->btf, "hidden", k->u32, 0, 0);
	k->list = btf__add_array(k->btf, k->u32, k->u32, 4);
	k->task = btf__add_struct(k->btf, "task", 64);
	r |= btf__add_field(k->btf, "unread", k->u32, 0, 0);
	r |= btf__add_field(k->btf, "in", k->deep, 32, 0);
	r |= btf__add_field(k->btf, "to", k->to, 128, 0);
	r |= btf__add_field(k->btf, NULL, k->anonymous, 192, 0);
	r |= btf__add_field(k->btf, "flags", k->u32, 224, 3);
	r |= btf__add_field(k->btf, "list", k->list, 256, 0);
	r |= btf__add_enum(k->btf, "which", 4) < 0;
	r |= btf__add_enum_value(k->btf, "WANTED", 3);
	r |= btf__add_enum_value(k->btf, "UNWANTED", 4);
	k->tracepoint = btf__add_typedef(k->btf, "btf_trace_switch", k->to);
	k->function = btf__add_func(k->btf, "mapped", BTF_FUNC_STATIC,
	                            btf__add_func_proto(k->btf, k->u32));
	k->variable = btf__add_var(k->btf, "count", BTF_VAR_STATIC, k->u32);
	assert_int_equal(r, 0);
	assert_true(k->variable > 0 && k->function > 0 && k->tracepoint > 0);
}

/* Types that an object says that it reads: struct task___flavour { in.a, to, hidden, flags, list
 * }. */
static struct btf *local_of_test(void)
{
	struct btf *btf = btf__new_empty();
	int n = btf__add_int(btf, "int", 4, 0), deep, r = 0;

	deep = btf__add_struct(btf, "deep", 4);
	r |= btf__add_field(btf, "a", n, 0, 0);
	r |= btf__add_struct(btf, "task___view", 24) < 0;
	r |= btf__add_field(btf, "in", deep, 0, 0);
	r |= btf__add_field(btf, "to", n, 32, 0);
	r |= btf__add_field(btf, "hidden", n, 64, 0);
	r |= btf__add_field(btf, "flags", n, 96, 0);
	r |= btf__add_field(btf, "list", n, 128, 0);
	r |= btf__add_enum(btf, "which", 4) < 0;
	r |= btf__add_enum_value(btf, "WANTED", 0);
	r |= btf__add_struct(btf, "of_ours", 0) < 0;
	assert_int_equal(r, 0);
	return btf;
}

static const char *member_name(const struct btf *btf, const struct btf_type *t, uint32_t i)
{
	return btf__str_by_offset(btf, btf_members(t)[i].name_off);
}

static void test_only_named_types_and_members_are_kept(void **state)
{
	struct load_btf_id ids[] = {{"btf_trace_switch", BTF_KIND_TYPEDEF, 9},
	                            {"mapped", BTF_KIND_FUNC, 9},
	                            {"count", BTF_KIND_VAR, 9},
	                            {"mapped", BTF_KIND_VAR, 9}};
	struct btf *local = local_of_test(), *cut;
	const struct btf_type *t;
	struct kernel k;
	struct sbuf b;
	int fd, id;

	(void)state;
	kernel_init(&k);
	fd = file_of_btf(k.btf);
	sbuf_init(&b, 1 << 20);
	assert_int_equal(load_btf_cut(fd, local, ids, ARRAY_SIZE(ids), &b), 0);
	assert_int_equal(ids[0].id, k.tracepoint);
	assert_int_equal(ids[1].id, k.function);
	assert_int_equal(ids[2].id, k.variable);
	assert_int_equal(ids[3].id, 0);

	cut = parsed(&b);
	id = find(cut, "task", BTF_KIND_STRUCT);
	assert_true(id > 0);
	t = btf__type_by_id(cut, (uint32_t)id);
	assert_int_equal(t->size, 64);
	assert_int_equal(btf_vlen(t), 5);
	assert_string_equal(member_name(cut, t, 0), "in");
	assert_int_equal(btf_member_bit_offset(t, 0), 32);
	assert_string_equal(member_name(cut, t, 1), "to");
	assert_string_equal(member_name(cut, t, 2), "");
	assert_string_equal(member_name(cut, t, 3), "flags");
	assert_int_equal(btf_member_bitfield_size(t, 3), 3);
	assert_int_equal(btf_member_bit_offset(t, 3), 224);
	assert_string_equal(member_name(cut, t, 4), "list");
	assert_int_equal(btf__resolve_size(cut, btf_members(t)[4].type), 16);
	assert_int_equal(btf__resolve_size(cut, btf_members(t)[2].type), 4);
	/* A pointer leads nowhere. */
	assert_int_equal(btf__type_by_id(cut, btf_members(t)[1].type)->type, 0);
	assert_true(find(cut, "other", BTF_KIND_STRUCT) < 0);
	assert_true(find(cut, "of_ours", BTF_KIND_STRUCT) < 0);
	t = btf__type_by_id(cut, (uint32_t)find(cut, "deep", BTF_KIND_STRUCT));
	assert_int_equal(btf_vlen(t), 1);
	t = btf__type_by_id(cut, (uint32_t)find(cut, "which", BTF_KIND_ENUM));
	assert_int_equal(btf_vlen(t), 1);
	assert_int_equal(btf_enum(t)[0].val, 3);

	(void)close(fd);
	btf__free(cut);
	btf__free(local);
	btf__free(k.btf);
	sbuf_done(&b);
}

/* ---- damage ---------------------------------------------------------------------------------- */

/* Every byte of a small kernel's BTF changed, and every length of it: an error, or a cut that
 * libbpf takes, or refuses as it does the whole. */
static void test_damaged_bytes_are_refused_or_make_a_sound_cut(void **state)
{
	struct btf *local = local_of_test();
	uint32_t len, refused = 0, kept = 0;
	const uint8_t *from;
	struct kernel k;

	(void)state;
	kernel_init(&k);
	from = btf__raw_data(k.btf, &len);
	for (uint32_t i = 0; i < 2 * len; i++) {
		_cleanup_free_ uint8_t *bytes = malloc(len);
		struct load_btf_id id = {"mapped", BTF_KIND_FUNC, 0};
		struct sbuf b;
		int fd, r;

		memcpy(bytes, from, len);
		bytes[i % len] ^= 0xa5;
		fd = file_of(bytes, i < len ? len : i % len);
		sbuf_init(&b, 1 << 20);
		r = load_btf_cut(fd, local, &id, 1, &b);
		if (r < 0) {
			assert_true(r == -EINVAL || r == -EOPNOTSUPP || r == -E2BIG);
			refused++;
		} else {
			struct btf *cut = btf__new(b.p, (uint32_t)b.len);

			kept++;
			assert_true(id.id < btf__type_cnt(k.btf) + len);
			if (libbpf_get_error(cut) == 0)
				btf__free(cut);
		}
		(void)close(fd);
		sbuf_done(&b);
	}
	/* A file that is cut short is never taken for a whole one. */
	assert_true(refused >= len);
	assert_true(kept > 0);
	btf__free(local);
	btf__free(k.btf);
}

static void test_kinds_from_the_future_are_refused(void **state)
{
	struct btf *local = local_of_test();
	struct load_btf_id id = {"mapped", BTF_KIND_FUNC, 0};
	uint32_t len, info = 31U << 24;
	_cleanup_free_ uint8_t *bytes = NULL;
	const void *from;
	struct kernel k;
	struct sbuf b;
	int fd;

	(void)state;
	kernel_init(&k);
	from = btf__raw_data(k.btf, &len);
	bytes = malloc(len);
	memcpy(bytes, from, len);
	memcpy(bytes + sizeof(struct btf_header) + 4, &info, sizeof(info));
	fd = file_of(bytes, len);
	sbuf_init(&b, 1 << 20);
	assert_int_equal(load_btf_cut(fd, local, &id, 1, &b), -EOPNOTSUPP);
	(void)close(fd);
	sbuf_done(&b);
	btf__free(local);
	btf__free(k.btf);
}

/* ---- the running kernel ---------------------------------------------------------------------- */

static char **objects;
static int n_objects;

/* Bit offset of a member, also of one in anonymous members, or -1. */
static int64_t offset_of(const struct btf *btf, const struct btf_type *t, const char *name)
{
	for (uint32_t i = 0; i < btf_vlen(t); i++) {
		const struct btf_member *m = &btf_members(t)[i];
		const char *own = btf__str_by_offset(btf, m->name_off);
		int64_t at = btf_member_bit_offset(t, i), in;

		if (strcmp(own, name) == 0)
			return at;
		if (*own)
			continue;
		in = offset_of(btf, btf__type_by_id(btf, m->type), name);
		if (in >= 0)
			return at + in;
	}
	return -1;
}

static uint32_t compare_type(const struct btf *local, const struct btf_type *t,
                             const struct btf *whole, const struct btf *cut)
{
	char name[128];
	const char *flavour;
	uint32_t seen = 0;
	int in_whole, in_cut;

	assert_int_equal(str_copy(name, sizeof(name), btf__str_by_offset(local, t->name_off)), 0);
	flavour = strstr(name, "___");
	if (flavour)
		name[flavour - name] = 0;
	in_whole = find(whole, name, btf_kind(t));
	in_cut = find(cut, name, btf_kind(t));
	if (in_whole < 0) {
		assert_true(in_cut < 0);
		return 0;
	}
	assert_true(in_cut > 0);
	assert_int_equal(btf__type_by_id(whole, (uint32_t)in_whole)->size,
	                 btf__type_by_id(cut, (uint32_t)in_cut)->size);
	for (uint32_t i = 0; i < btf_vlen(t) && btf_is_composite(t); i++) {
		const char *member = member_name(local, t, i);
		int64_t want = offset_of(whole, btf__type_by_id(whole, (uint32_t)in_whole), member);

		if (offset_of(cut, btf__type_by_id(cut, (uint32_t)in_cut), member) != want)
			fail_msg("%s.%s is not at bit %ld", name, member, (long)want);
		seen += want >= 0;
	}
	return seen;
}

static void test_cuts_of_the_running_kernel_agree_with_the_whole(void **state)
{
	struct btf *whole;
	int fd = open(KERNEL_BTF, O_RDONLY | O_CLOEXEC);

	(void)state;
	assert_true(fd >= 0);
	whole = btf__parse(KERNEL_BTF, NULL);
	assert_int_equal(libbpf_get_error(whole), 0);
	for (int i = 0; i < n_objects; i++) {
		struct load_btf_id ids[] = {{"btf_trace_sched_switch", BTF_KIND_TYPEDEF, 0},
		                            {"bpf_iter_task", BTF_KIND_FUNC, 0},
		                            {"perf_event_mmap", BTF_KIND_FUNC, 0}};
		struct btf *local = btf__parse(objects[i], NULL), *cut;
		uint32_t members = 0;
		struct sbuf b;

		assert_int_equal(libbpf_get_error(local), 0);
		sbuf_init(&b, 1 << 20);
		assert_int_equal(load_btf_cut(fd, local, ids, ARRAY_SIZE(ids), &b), 0);
		assert_true(b.len < 100000);
		cut = parsed(&b);
		for (size_t k = 0; k < ARRAY_SIZE(ids); k++) {
			int id = find(whole, ids[k].name, ids[k].kind);

			assert_int_equal(ids[k].id, id > 0 ? id : 0);
		}
		for (uint32_t t = 1; t < btf__type_cnt(local); t++) {
			const struct btf_type *type = btf__type_by_id(local, t);

			if ((btf_is_composite(type) || btf_is_enum(type)) && type->name_off)
				members += compare_type(local, type, whole, cut);
		}
		assert_true(members > 20);
		print_message("# %s: %u members, %zu bytes\n", str_base_name(objects[i]), members,
		              b.len);
		btf__free(cut);
		btf__free(local);
		sbuf_done(&b);
	}
	btf__free(whole);
	(void)close(fd);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_only_named_types_and_members_are_kept),
	        cmocka_unit_test(test_damaged_bytes_are_refused_or_make_a_sound_cut),
	        cmocka_unit_test(test_kinds_from_the_future_are_refused),
	};
	const struct CMUnitTest running[] = {
	        cmocka_unit_test(test_cuts_of_the_running_kernel_agree_with_the_whole),
	};

	objects = argv + 1;
	n_objects = argc - 1;
	libbpf_set_print(NULL);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	if (!n_objects)
		return cmocka_run_group_tests(tests, NULL, NULL);
	if (access(KERNEL_BTF, R_OK) < 0) {
		printf("1..0 # SKIP no " KERNEL_BTF "\n");
		return 0;
	}
	return cmocka_run_group_tests(running, NULL, NULL);
}
