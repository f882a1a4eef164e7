/* SPDX-License-Identifier: Apache-2.0 */
/* test-result - counts and tables of what addresses mean, to a profile. */
#include "result/result.h"

#include <setjmp.h>
#include <stdio.h>

#include <cmocka.h>

#define PID  77
#define PAGE 4096ULL

/* ---- tables ---------------------------------------------------------------------------------- */

/* Three files, each mapped once, at 0x10000 * id; names of every 0x100 bytes. */
static const struct trk_image images[] = {
        {.id = 1, .path = "/usr/bin/prog", .build_id = {0xab, 0xcd}, .build_id_len = 2},
        {.id = 2, .path = "/lib/libx.so"},
        {.id = 3, .path = "/tmp/a\n\033[31mb"},
};
struct tables {
	uint32_t resolved; /* calls */
	enum ev_reason reason;
	bool unnamed; /* no address has a name */
	const struct met_label *labels;
	uint32_t n_labels, asked;
};

static const struct trk_image *image(void *arg, uint32_t id)
{
	(void)arg;
	return id >= 1 && id <= ARRAY_SIZE(images) ? &images[id - 1] : NULL;
}

static void resolve(void *arg, const struct ev_proc_id *proc, const struct ev_frame *raw,
                    struct ev_frame *ret)
{
	uint32_t id = (uint32_t)(raw->addr / 0x10000);

	assert_int_equal(proc->pid, PID);
	((struct tables *)arg)->resolved++;
	*ret = *raw;
	if (id < 1 || id > ARRAY_SIZE(images))
		return;
	ret->space = EV_SPACE_IMAGE;
	ret->image = id;
	ret->addr = raw->addr % 0x10000;
}

static int mapping(void *arg, const struct ev_proc_id *proc, uint32_t id, uint64_t off,
                   struct trk_location *ret)
{
	(void)arg;
	(void)proc;
	if (off == TRK_OFF_ANY)
		off = 0;
	*ret = (struct trk_location){.image = image(NULL, id),
	                             .off = off,
	                             .map_start = 0x10000ULL * id,
	                             .map_end = 0x10000ULL * (id + 1)};
	return id <= ARRAY_SIZE(images) && off < 0x10000 ? 0 : -ENOENT;
}

static uint32_t main_image(void *arg, uint32_t pid)
{
	(void)arg;
	return pid == PID ? 2 : 0;
}

static enum ev_reason proc_reason(void *arg, const struct ev_proc_id *proc)
{
	(void)proc;
	return ((const struct tables *)arg)->reason;
}

static struct sym_named name(void *arg, uint32_t id, uint64_t addr)
{
	static char text[3][16][8];
	static struct sym_frame frames[3][16];
	uint32_t k = (uint32_t)(addr / 0x100) % 16;

	if (((const struct tables *)arg)->unnamed)
		return (struct sym_named){.reason = EV_REASON_NO_SYMBOL, .start = addr};
	(void)snprintf(text[id][k], sizeof(text[id][k]), "f%u_%u", id, k);
	frames[id][k] = (struct sym_frame){.name = text[id][k], .linkage = text[id][k]};
	return (struct sym_named){
	        .frames = &frames[id][k], .n = 1, .reason = EV_REASON_NAMED, .start = addr};
}

static bool gap(void *arg, const struct ev_stack *st, uint32_t i, const struct ev_frame *placed,
                bool any, struct result_uncovered *ret)
{
	(void)arg;
	(void)st;
	if (i > 1 || any)
		return false;
	*ret = (struct result_uncovered){.image = placed->image, .bare = true};
	return true;
}

static int labels(void *arg, const struct ev_count *c, const char *comm,
                  const struct met_label **ret, uint32_t *ret_n)
{
	struct tables *t = arg;

	(void)comm;
	t->asked++;
	assert_int_equal(c->proc.pid, PID);
	*ret = t->labels;
	*ret_n = t->n_labels;
	return 0;
}

/* ---- a capture ------------------------------------------------------------------------------- */

struct fixture {
	struct prof_agg *agg;
	struct tables tables;
	struct result_source src;
	struct result_kind kind;
	struct result result;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	assert_int_equal(prof_agg_new(NULL, &f->agg), 0);
	f->src = (struct result_source){.n_images = ARRAY_SIZE(images),
	                                .image = image,
	                                .resolve = resolve,
	                                .mapping = mapping,
	                                .main_image = main_image,
	                                .proc_reason = proc_reason,
	                                .name = name,
	                                .uncovered = gap,
	                                .arg = &f->tables};
	f->kind = (struct result_kind){
	        .target_pid = PID, .period = 10, .begin_realtime_ns = 1000, .duration_ns = 500};
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	result_done(&f->result);
	prof_agg_free(f->agg);
	free(f);
	return 0;
}

static void add_stack(struct fixture *f, struct ev_stack st, const struct ev_frame *frames,
                      uint32_t n)
{
	st.frames = frames;
	st.n = n;
	assert_int_equal(prof_agg_add_stack(f->agg, &st, NULL), 0);
}

static struct ev_count a_count(uint32_t tid, uint64_t ustack, uint64_t weight)
{
	return (struct ev_count){.proc = {.pid = PID, .start_ns = 5},
	                         .tid = tid,
	                         .ustack = ustack,
	                         .samples = 1,
	                         .weight = weight};
}

static void add_count(struct fixture *f, struct ev_count c)
{
	assert_int_equal(prof_agg_add_count(f->agg, &c), 0);
}

static void build(struct fixture *f)
{
	result_done(&f->result);
	assert_int_equal(result_build(f->agg, &f->kind, &f->src, NULL, 0, &f->result), 0);
}

/* Names of a sample's frames, leaf first, with blanks between them. */
static const char *stack_of(const struct fixture *f, size_t i)
{
	static char text[256];
	const struct prof_model *m = f->result.model;
	const struct prof_sample *s = &m->samples.p[i];
	size_t len = 0;

	text[0] = '\0';
	for (uint32_t k = 0; k < s->loc_cnt; k++) {
		const struct prof_location *loc =
		        &m->locations.p[m->loc_ids.p[s->loc_first + k] - 1];
		const struct prof_line *line = &m->lines.p[loc->line_first];

		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", k ? " " : "",
		                        prof_model_str(m, m->functions.p[line->function - 1].name));
	}
	return text;
}

static const struct ev_frame in_prog = {.addr = 0x110,
                                        .image = 1,
                                        .space = EV_SPACE_IMAGE,
                                        .exact = 1},
                             in_lib = {.addr = 0x310, .image = 2, .space = EV_SPACE_IMAGE},
                             in_kernel = {.addr = 0x210, .space = EV_SPACE_KERNEL};

static void test_kernel_frames_come_before_user_frames(void **state)
{
	struct fixture *f = *state;
	const struct ev_frame user[] = {in_prog, in_lib};
	struct ev_count c = a_count(1, 8, 10);

	add_stack(f, (struct ev_stack){.hash = 8, .walk = EV_WALK_ROOT}, user, 2);
	add_stack(f, (struct ev_stack){.hash = 9, .walk = EV_WALK_ROOT, .kernel = true}, &in_kernel,
	          1);
	c.kstack = 9;
	add_count(f, c);
	build(f);
	assert_int_equal(f->result.kept, 1);
	assert_int_equal(f->result.weight, 10);
	assert_string_equal(stack_of(f, 0), "f0_2 f1_1 f2_3");
	assert_int_equal(f->result.quality.walk[EV_WALK_ROOT], 10);
	assert_true(f->result.quality.user_frames == 20 && f->result.quality.user_named == 20);
	assert_true(f->result.quality.kernel_frames == 10);
	assert_int_equal(f->tables.resolved, 0); /* no frame was raw */
}

static const char *name_of_process(void *arg, const struct ev_proc_id *proc)
{
	(void)arg;
	return proc->pid == PID ? "server" : "";
}

/* A process whose main thread was never sampled has its own name, not that of a thread. */
static void test_processes_are_not_named_after_their_threads(void **state)
{
	struct fixture *f = *state;
	const struct ev_thread worker = {
	        .proc = {.pid = PID, .start_ns = 5}, .tid = 1, .comm = "worker"};
	struct pfa_hot_function row;

	add_stack(f, (struct ev_stack){.hash = 8, .walk = EV_WALK_ROOT}, &in_prog, 1);
	assert_int_equal(prof_agg_add_thread(f->agg, &worker), 0);
	add_count(f, a_count(1, 8, 10));
	build(f);
	assert_int_equal(result_functions(&f->result, NULL, true, &row, 1), 1);
	assert_string_equal(row.process, "worker");
	f->src.comm = name_of_process;
	build(f);
	assert_int_equal(result_functions(&f->result, NULL, true, &row, 1), 1);
	assert_string_equal(row.process, "server");
}

static void test_a_running_capture_can_be_built_again_and_again(void **state)
{
	struct fixture *f = *state;

	add_stack(f, (struct ev_stack){.hash = 8, .walk = EV_WALK_ROOT}, &in_prog, 1);
	for (uint32_t tid = 1; tid <= 3; tid++) {
		add_count(f, a_count(tid, 8, 10));
		build(f);
		assert_int_equal(f->result.kept, tid);
		assert_int_equal(f->result.model->samples.n, tid);
		assert_int_equal(f->result.model->locations.n, 1);
	}
	assert_int_equal(prof_agg_count_cnt(f->agg), 3);
}

static void test_raw_frames_are_resolved_for_their_process(void **state)
{
	struct fixture *f = *state;
	const struct ev_frame raw[] = {{.addr = 0x10110, .space = EV_SPACE_RAW, .exact = 1},
	                               {.addr = 0x20310, .space = EV_SPACE_RAW},
	                               {.addr = 0x90000, .space = EV_SPACE_RAW}};

	add_stack(f, (struct ev_stack){.hash = 8, .walk = EV_WALK_ROOT}, raw, 3);
	add_count(f, a_count(1, 8, 10));
	build(f);
	/* The last is no code of a process whose mappings are known: the walk went astray. */
	assert_string_equal(stack_of(f, 0), "f1_1 f2_3");
	assert_int_equal(f->result.quality.walk[EV_WALK_IMPLAUSIBLE], 10);
	f->tables.reason = EV_REASON_NOT_PERMITTED;
	build(f);
	assert_string_equal(stack_of(f, 0), "f1_1 f2_3 0x8ffff");
	assert_int_equal(f->result.quality.walk[EV_WALK_ROOT], 10);
	assert_int_equal(f->result.quality.reason_frames[EV_REASON_NOT_PERMITTED], 1);
}

static void test_unnamed_frames_show_their_file_and_reason(void **state)
{
	struct fixture *f = *state;

	f->tables.unnamed = true;
	add_stack(f, (struct ev_stack){.hash = 8, .walk = EV_WALK_ROOT}, &in_prog, 1);
	add_count(f, a_count(1, 8, 10));
	build(f);
	assert_string_equal(stack_of(f, 0), "0x110 [prog]");
	assert_int_equal(f->result.quality.reason_frames[EV_REASON_NO_SYMBOL], 1);
	assert_true(f->result.quality.user_named == 0);
	/* Its innermost user frame has no name. */
	assert_true(f->result.quality.n_unnamed > 0);
	assert_int_equal(f->result.quality.unnamed[0], 10);
	f->tables.unnamed = false;
	build(f);
	assert_int_equal(f->result.quality.n_unnamed, 0);
}

static void test_control_bytes_of_paths_are_no_part_of_a_profile(void **state)
{
	struct fixture *f = *state;
	const struct ev_frame frame = {
	        .addr = 0x110, .image = 3, .space = EV_SPACE_IMAGE, .exact = 1};
	const struct prof_model *m;

	f->tables.unnamed = true;
	add_stack(f, (struct ev_stack){.hash = 8, .walk = EV_WALK_ROOT}, &frame, 1);
	add_count(f, a_count(1, 8, 10));
	build(f);
	m = f->result.model;
	assert_string_equal(stack_of(f, 0), "0x110 [a??[31mb]");
	assert_string_equal(prof_model_str(m, m->mappings.p[m->locations.p[0].mapping - 1].path),
	                    "/tmp/a??[31mb");
}

static void test_lost_and_missing_stacks_are_said(void **state)
{
	struct fixture *f = *state;
	struct ev_count kthread = a_count(3, 0, 30);

	add_count(f, a_count(1, 4711, 10));
	add_count(f, a_count(2, 0, 20));
	kthread.kthread = true;
	add_count(f, kthread);
	build(f);
	assert_string_equal(stack_of(f, 0), "[stack lost]");
	assert_string_equal(stack_of(f, 1), "[no stack]");
	assert_string_equal(stack_of(f, 2), "[kernel thread]");
	assert_int_equal(f->result.lost_stacks, 1);
	assert_int_equal(f->result.quality.stack_lost, 10);
	assert_int_equal(f->result.quality.user_weight, 10); /* the lost one was a user stack */
	assert_int_equal(f->result.quality.weight, 60);
}

static void test_kinds_take_their_own_counts(void **state)
{
	struct fixture *f = *state;
	struct ev_count off = a_count(2, 8, 2000);

	add_stack(f, (struct ev_stack){.hash = 8, .walk = EV_WALK_ROOT}, &in_prog, 1);
	add_count(f, a_count(1, 8, 10));
	off.offcpu = EV_OFFCPU_INTERRUPTIBLE;
	off.samples = 3;
	off.longest_ns = 900;
	off.runq_ns = 7;
	add_count(f, off);
	build(f);
	assert_int_equal(f->result.kept, 1);
	assert_int_equal(f->result.weight, 10);
	assert_int_equal(f->result.model->period, 10);
	f->kind.offcpu = true;
	build(f);
	assert_int_equal(f->result.kept, 3);
	assert_int_equal(f->result.weight, 2000);
	assert_int_equal(f->result.model->period, 1);
	assert_int_equal(f->result.model->samples.p[0].label_cnt,
	                 5); /* pid tid state longest runqueue */
	assert_int_equal(f->result.model->time_realtime_ns, 1000);
	assert_int_equal(f->result.model->duration_ns, 500);
}

static void test_a_period_that_the_kernel_chose_is_the_mean(void **state)
{
	struct fixture *f = *state;

	add_stack(f, (struct ev_stack){.hash = 8, .walk = EV_WALK_ROOT}, &in_prog, 1);
	add_count(f, a_count(1, 8, 100));
	add_count(f, a_count(2, 8, 300));
	f->kind.freq = true;
	build(f);
	assert_int_equal(f->result.model->period, 200);
}

static void test_weights_are_scaled_to_the_measured_time(void **state)
{
	struct fixture *f = *state;
	struct result_cpu_time *t = NULL;
	const struct smp_cpu_time v = {
	        .proc = {.pid = PID, .start_ns = 5}, .tid = 1, .ran_ns = 500, .seen = 100};

	assert_int_equal(result_cpu_time_new(0, &t), 0);
	assert_int_equal(result_cpu_time_add(t, &v), 0);
	add_count(f, a_count(1, 0, 100));
	assert_int_equal(result_build(f->agg, &f->kind, &f->src, t, 0, &f->result), 0);
	assert_int_equal(f->result.weight, 500);
	assert_int_equal(f->result.quality.weight, 500);
	result_cpu_time_free(t);
}

static void test_the_target_s_executable_is_the_first_mapping(void **state)
{
	struct fixture *f = *state;

	add_stack(f, (struct ev_stack){.hash = 8, .walk = EV_WALK_ROOT}, &in_prog, 1);
	add_count(f, a_count(1, 8, 10));
	build(f);
	/* Image 2, though it was not sampled. */
	assert_int_equal(f->result.model->mappings.n, 2);
	assert_string_equal(prof_model_str(f->result.model, f->result.model->mappings.p[0].path),
	                    "/lib/libx.so");
}

static void test_labels_of_processes_are_on_their_samples(void **state)
{
	static char key[] = "team", value[] = "red";
	static const struct met_label team = {key, value};
	struct fixture *f = *state;
	const struct prof_label *l;

	f->src.labels = labels;
	f->tables.labels = &team;
	f->tables.n_labels = 1;
	add_count(f, a_count(1, 0, 10));
	add_count(f, a_count(2, 0, 10));
	build(f);
	assert_int_equal(f->tables.asked, 2);
	assert_int_equal(f->result.model->samples.p[1].label_cnt, 3);
	l = &f->result.model->labels.p[f->result.model->samples.p[1].label_first + 2];
	assert_string_equal(prof_model_str(f->result.model, l->key), "team");
	assert_string_equal(prof_model_str(f->result.model, l->str), "red");
}

static void test_heuristic_stacks_count_for_the_files_of_their_gaps(void **state)
{
	struct fixture *f = *state;
	const struct ev_frame user[] = {in_prog, in_lib, in_lib};

	add_stack(f,
	          (struct ev_stack){.hash = 8, .walk = EV_WALK_ROOT, .flags = EV_STACK_HEURISTIC},
	          user, 3);
	add_stack(f, (struct ev_stack){.hash = 9, .walk = EV_WALK_ROOT}, user, 3);
	add_count(f, a_count(1, 8, 10));
	add_count(f, a_count(2, 8, 5));
	add_count(f, a_count(3, 9, 100));
	build(f);
	assert_int_equal(f->result.quality.heuristic, 15);
	assert_int_equal(f->result.quality.heuristic_in[2 * 1 + 1], 15); /* image 1, bare */
	assert_int_equal(f->result.quality.heuristic_in[2 * 2 + 1], 0);
	/* Its location is marked, in all stacks. */
	vec_each (s, &f->result.model->samples)
		for (uint32_t i = 0; i < s->loc_cnt; i++) {
			uint32_t loc = f->result.model->loc_ids.p[s->loc_first + i];

			assert_int_equal(f->result.model->locations.p[loc - 1].uncovered, i == 0);
		}
}

static void test_nothing_fits_after_a_failure(void **state)
{
	struct fixture *f = *state;

	add_count(f, a_count(1, 0, 10));
	add_count(f, a_count(2, 0, 20));
	assert_int_equal(result_build(f->agg, &f->kind, &f->src, NULL, -ENOMEM, &f->result),
	                 -ENOMEM);
	assert_int_equal(f->result.dropped, 2);
	assert_int_equal(f->result.kept, 0);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
	        T(test_kernel_frames_come_before_user_frames),
	        T(test_processes_are_not_named_after_their_threads),
	        T(test_a_running_capture_can_be_built_again_and_again),
	        T(test_raw_frames_are_resolved_for_their_process),
	        T(test_unnamed_frames_show_their_file_and_reason),
	        T(test_control_bytes_of_paths_are_no_part_of_a_profile),
	        T(test_lost_and_missing_stacks_are_said),
	        T(test_kinds_take_their_own_counts),
	        T(test_a_period_that_the_kernel_chose_is_the_mean),
	        T(test_weights_are_scaled_to_the_measured_time),
	        T(test_the_target_s_executable_is_the_first_mapping),
	        T(test_labels_of_processes_are_on_their_samples),
	        T(test_heuristic_stacks_count_for_the_files_of_their_gaps),
	        T(test_nothing_fits_after_a_failure),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
