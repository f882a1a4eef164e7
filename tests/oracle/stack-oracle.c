// SPDX-License-Identifier: Apache-2.0
/*
 * stack-oracle PID MS COPIES: samples a running process with a copy of registers and stack
 * alongside
 * each walk, stops the process, and unwinds every copy with elfutils' libdwfl. Its frames are
 * compared with those of the walk in the kernel ("bpf") and of the walk in user space over the same
 * copy ("host"); the two walks with each other ("both").
 *
 * One JSON object for each, then "# " lines with a few examples of each cause. Exit status: 0; 1 a
 * difference has no explanation; 2 no comparison was made. The process is ended.
 *
 * Explained is what comes after a frame
 *   no_cfi     whose code has no call-frame information that libdw finds: heuristics on both sides
 *   jit        in memory without a file: libdwfl does not walk it
 *   depth      the walk's limit of frames
 *   no_code    that libdwfl puts where no code is mapped, and ours ends instead: while an exception
 *              lands, libgcc has overwritten the saved registers that its call-frame information
 *              points to
 * and copy_end: libdwfl asked for memory outside of the copy, so only what is before is
 * compared.
 */
#include "../live/stack_capture.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>

#define THEIRS_MAX   1024
#define EXAMPLES_MAX 3 /* of each cause */

#ifdef ABI_ARM64
#define N_REGS 32
#else
#define N_REGS 16
#endif

enum cause { SAME, PREFIX, NO_CFI, JIT, DEPTH, NO_CODE, UNEXPLAINED, CAUSES };
static const char *const cause_name[CAUSES] = {"same",  "prefix",  "no_cfi",     "jit",
                                               "depth", "no_code", "unexplained"};

struct side {
	const char *name;
	uint64_t stacks, frames, by[CAUSES];
	uint64_t longest;
	uint32_t examples[CAUSES];
};

/* Frames by libdwfl of one copy. */
struct theirs {
	uint64_t pc[THEIRS_MAX];
	uint32_t n;
	uint32_t sure; /* pc[0 … sure) come from memory that was there */
	bool copy_end; /* it ended, or went on, with memory that was not */
	char msg[128];
};

struct oracle {
	struct cap *cap;
	uint32_t pid;
	Dwfl *dwfl;
	const struct cap_copy *copy; /* that is being unwound */
	struct theirs theirs;
	int mem_fd;
	bool host_end; /* the host's walk read outside of the copy */
	VEC(struct ev_mapping) maps;
};

/* ---- memory and places ----------------------------------------------------------------------- */

static bool copy_word(const struct cap_copy *k, uint64_t addr, uint64_t *ret)
{
	if (addr < k->addr || k->len < 8 || addr - k->addr > k->len - 8)
		return false;
	memcpy(ret, k->bytes + (addr - k->addr), 8);
	return true;
}

static int on_map(void *arg, const struct ev_mapping *m)
{
	struct oracle *o = arg;
	struct ev_mapping k = *m;

	k.path = strdup(m->path);
	return k.path ? vec_push(&o->maps, k) : -ENOMEM;
}

static const struct ev_mapping *map_of(const struct oracle *o, uint64_t addr)
{
	for (size_t i = 0; i < o->maps.n; i++)
		if (addr >= o->maps.p[i].start && addr < o->maps.p[i].end)
			return &o->maps.p[i];
	return NULL;
}

/* Is a frame of ours at this address? A return address may be the first byte after its mapping. */
static bool same_place(const struct oracle *o, const struct ev_frame *f, uint64_t pc)
{
	const struct ev_mapping *m = map_of(o, f->exact ? pc : pc - 1);
	const struct trk_image *img;

	if (f->space != EV_SPACE_IMAGE)
		return f->addr == (pc & ABI_FRAME_ADDR_MASK);
	img = trk_image(o->cap->trk, f->image);
	if (!m || !img || f->addr != pc - m->start + m->pgoff)
		return false;
	if (m->kind == EV_MAP_VDSO)
		return img->kind == EV_MAP_VDSO;
	return img->file.ino == m->file.ino && img->file.dev_major == m->file.dev_major &&
	       img->file.dev_minor == m->file.dev_minor;
}

/* ---- libdwfl --------------------------------------------------------------------------------- */

static pid_t next_thread(Dwfl *dwfl, void *arg, void **thread_arg)
{
	struct oracle *o = arg;

	(void)dwfl;
	if (*thread_arg)
		return 0;
	*thread_arg = o;
	return (pid_t)o->copy->tid;
}

static bool get_thread(Dwfl *dwfl, pid_t tid, void *arg, void **thread_arg)
{
	(void)dwfl;
	(void)tid;
	*thread_arg = arg;
	return true;
}

static bool read_word(Dwfl *dwfl, Dwarf_Addr addr, Dwarf_Word *ret, void *arg)
{
	struct oracle *o = arg;
	uint64_t v;

	(void)dwfl;
	if (!copy_word(o->copy, addr, &v)) {
		if (!o->theirs.copy_end)
			o->theirs.sure = o->theirs.n;
		o->theirs.copy_end = true;
		return false;
	}
	*ret = v;
	return true;
}

static bool initial_registers(Dwfl_Thread *thread, void *arg)
{
	struct oracle *o = arg;
	Dwarf_Word regs[N_REGS + 1];

	for (uint32_t i = 0; i < N_REGS; i++)
		regs[i] = o->copy->reg[i];
#ifdef ABI_ARM64
	dwfl_thread_state_register_pc(thread, o->copy->pc);
	return dwfl_thread_state_registers(thread, 0, N_REGS, regs);
#else
	regs[N_REGS] = o->copy->pc; /* number 16: the return address */
	return dwfl_thread_state_registers(thread, 0, N_REGS + 1, regs);
#endif
}

static const Dwfl_Thread_Callbacks thread_callbacks = {
        .next_thread = next_thread,
        .get_thread = get_thread,
        .memory_read = read_word,
        .set_initial_registers = initial_registers,
};

static int on_frame(Dwfl_Frame *frame, void *arg)
{
	struct oracle *o = arg;
	Dwarf_Addr pc;

	if (o->theirs.n == THEIRS_MAX || !dwfl_frame_pc(frame, &pc, NULL))
		return DWARF_CB_ABORT;
	o->theirs.pc[o->theirs.n++] = pc;
	return DWARF_CB_OK;
}

static int no_debuginfo(Dwfl_Module *mod, void **user, const char *name, Dwarf_Addr base,
                        const char *file, const char *link, GElf_Word crc, char **ret)
{
	(void)mod, (void)user, (void)name, (void)base, (void)file, (void)link, (void)crc, (void)ret;
	return -1;
}

static void unwind(struct oracle *o, const struct cap_copy *k)
{
	int r;

	memset(&o->theirs, 0, sizeof(o->theirs));
	o->copy = k;
	r = dwfl_getthread_frames(o->dwfl, (pid_t)k->tid, on_frame, o);
	(void)snprintf(o->theirs.msg, sizeof(o->theirs.msg), "%s",
	               r < 0 ? dwfl_errmsg(-1) : "ended");
	if (!o->theirs.copy_end)
		o->theirs.sure = o->theirs.n;
}

/* Does libdw find call-frame information for the code of a frame? */
static bool has_cfi(const struct oracle *o, uint64_t pc)
{
	Dwfl_Module *mod = dwfl_addrmodule(o->dwfl, pc);
	Dwarf_Addr bias = 0;

	for (int eh = 1; mod && eh >= 0; eh--) {
		Dwarf_CFI *cfi =
		        eh ? dwfl_module_eh_cfi(mod, &bias) : dwfl_module_dwarf_cfi(mod, &bias);
		Dwarf_Frame *f;

		if (cfi && dwarf_cfi_addrframe(cfi, pc - bias, &f) == 0) {
			free(f);
			return true;
		}
	}
	return false;
}

/* ---- comparison ------------------------------------------------------------------------------ */

struct ours {
	const struct ev_frame *frames;
	uint32_t n;
	int walk;
	uint8_t flags;
	bool copy_end; /* it ended with memory outside of the copy */
};

/* Why what comes after frame @at may differ. */
static enum cause explain(const struct oracle *o, const struct ours *w, uint32_t at)
{
	const struct theirs *t = &o->theirs;

	if (w->n == ABI_MAX_USER_FRAMES && w->walk == ABI_WALK_DEPTH && at + 1 == w->n)
		return DEPTH;
	if (w->n == at + 1 && t->sure >= at + 2 && w->walk != ABI_WALK_ROOT &&
	    !map_of(o, t->pc[at + 1]))
		return NO_CODE;
	for (uint32_t i = 0; i <= at && i < t->n && i < w->n; i++) {
		uint64_t pc = w->frames[i].exact ? t->pc[i] : t->pc[i] - 1;
		const struct ev_mapping *m = map_of(o, pc);

		if (m && m->kind == EV_MAP_ANON)
			return JIT;
		if (!has_cfi(o, pc))
			return NO_CFI;
	}
	return UNEXPLAINED;
}

static enum cause judge(const struct oracle *o, const struct ours *w, uint32_t *ret_at)
{
	const struct theirs *t = &o->theirs;
	uint32_t n = MIN_OF(w->n, t->sure), same = 0;

	while (same < n && same_place(o, &w->frames[same], t->pc[same]))
		same++;
	*ret_at = same;
	if (same < n || same == 0)
		return same ? explain(o, w, same - 1) : UNEXPLAINED;
	if (w->n == t->sure && !t->copy_end && !w->copy_end)
		return SAME;
	/* The shorter one must have been cut by the end of the copy. */
	if (w->n >= t->sure && t->copy_end)
		return PREFIX;
	if (w->n <= t->sure && w->copy_end && t->copy_end)
		return PREFIX;
	return explain(o, w, same - 1);
}

static void print_frame(const struct oracle *o, uint64_t pc)
{
	const struct ev_mapping *m = map_of(o, pc);
	const char *name = m ? strrchr(m->path, '/') : NULL;

	printf("%s+0x%llx",
	       name ? name + 1
	       : m  ? m->path
	            : "?",
	       (unsigned long long)(m ? pc - m->start + m->pgoff : pc));
}

static void example(const struct oracle *o, struct side *s, enum cause c, const struct ours *w,
                    uint32_t at)
{
	const struct theirs *t = &o->theirs;
	uint32_t from = at > 3 ? at - 3 : 0;

	if (s->examples[c]++ >= EXAMPLES_MAX)
		return;
	printf("# %s %s: equal %u, ours %u (%s%s), libdwfl %u of %u (%s)\n", s->name, cause_name[c],
	       at, w->n, ev_walk_name((enum ev_walk)w->walk), w->copy_end ? ", end of copy" : "",
	       t->sure, t->n, t->msg);
	for (uint32_t i = from; i < at + 2; i++) {
		printf("#   %u: ", i);
		if (i < t->n)
			print_frame(o, t->pc[i]);
		else
			printf("-");
		if (i < w->n && i >= at)
			printf(" | ours: image %u %s+0x%llx%s", w->frames[i].image,
			       w->frames[i].space == EV_SPACE_IMAGE &&
			                       trk_image(o->cap->trk, w->frames[i].image)
			               ? trk_image(o->cap->trk, w->frames[i].image)->path
			               : "",
			       (unsigned long long)w->frames[i].addr,
			       w->frames[i].exact ? " exact" : "");
		printf("\n");
	}
}

static void compare(const struct oracle *o, struct side *s, const struct ours *w)
{
	uint32_t at = 0;
	enum cause c = judge(o, w, &at);

	s->stacks++;
	s->frames += at;
	s->by[c]++;
	s->longest = MAX_OF(s->longest, at);
	if (c != SAME && c != PREFIX)
		example(o, s, c, w, at);
}

/* ---- the host's walk ------------------------------------------------------------------------- */

static int host_place(void *arg, uint64_t addr, uint32_t *ret_image, uint64_t *ret_off)
{
	const struct oracle *o = arg;
	const struct ev_proc_id id = {.pid = o->pid};
	struct trk_location p;

	if (trk_resolve(o->cap->trk, &id, addr, &p) < 0)
		return -ENOENT;
	*ret_image = p.anon || !p.image ? 0 : p.image->id;
	*ret_off = p.off;
	return 0;
}

static int host_read(void *arg, uint64_t *ret, uint64_t addr)
{
	struct oracle *o = arg;

	if (copy_word(o->copy, addr, ret))
		return 0;
	o->host_end = true;
	return -EFAULT;
}

static int host_read_code(void *arg, uint64_t *ret, uint64_t addr)
{
	const struct oracle *o = arg;

	return file_pread_full(o->mem_fd, ret, 8, addr) == 8 ? 0 : -EFAULT;
}

static void host_walk(struct oracle *o, const struct cap_copy *k, struct ev_frame *frames,
                      struct ours *ret)
{
	const struct uw_target t = {.resolve = host_place,
	                            .read = host_read,
	                            .read_code = host_read_code,
	                            .in_syscall = k->in_syscall,
	                            .arg = o};
	static struct uw_walk w;

	o->copy = k;
	o->host_end = false;
	uw_walk(o->cap->store, o->cap->rules, &t, k->pc, k->reg, true, &w);
	for (uint32_t i = 0; i < w.n; i++) {
		uint64_t v = w.frames[i];

		frames[i] = (struct ev_frame){.exact = (v & ABI_FRAME_EXACT) != 0};
		frames[i].space = (uint8_t)(v >> ABI_FRAME_SPACE_SHIFT);
		if (frames[i].space == EV_SPACE_IMAGE) {
			frames[i].image = (uint32_t)(v >> ABI_FRAME_IMAGE_SHIFT) & ABI_IMAGE_MAX;
			frames[i].addr = v & ABI_FRAME_OFF_MASK;
		} else {
			frames[i].addr = v & ABI_FRAME_ADDR_MASK;
		}
	}
	*ret = (struct ours){.frames = frames,
	                     .n = w.n,
	                     .walk = w.walk,
	                     .flags = w.flags,
	                     .copy_end = o->host_end};
}

/* The two walks of ours, frame by frame as far as the copy reached: NULL, or what differs. */
static const char *walks_differ(const struct ours *bpf, const struct ours *host, uint32_t *ret_at)
{
	uint32_t n = MIN_OF(bpf->n, host->n);

	for (uint32_t i = 0; i < n; i++) {
		const struct ev_frame *a = &bpf->frames[i], *b = &host->frames[i];

		*ret_at = i;
		/* A mapping that became known between the two is no difference. */
		if (a->space == EV_SPACE_RAW || b->space == EV_SPACE_RAW)
			continue;
		if (a->addr != b->addr || a->image != b->image || a->space != b->space)
			return "place";
		if (a->exact != b->exact)
			return "exact";
	}
	*ret_at = n;
	if (host->n > bpf->n || (!host->copy_end && host->n != bpf->n))
		return "length";
	if (!host->copy_end && host->walk != bpf->walk)
		return "outcome";
	return !host->copy_end && host->flags != bpf->flags ? "flags" : NULL;
}

static void compare_walks(const struct oracle *o, struct side *s, const struct ours *bpf,
                          const struct ours *host)
{
	uint32_t at = 0;
	const char *what = walks_differ(bpf, host, &at);

	s->stacks++;
	s->frames += at;
	s->longest = MAX_OF(s->longest, at);
	s->by[what ? UNEXPLAINED : host->copy_end ? PREFIX : SAME]++;
	if (what && s->examples[UNEXPLAINED] < EXAMPLES_MAX) {
		printf("# %s differ at frame %u in %s: %u frames, %s, flags %u, exact %d; host %u, "
		       "%s, "
		       "%u, %d\n",
		       s->name, at, what, bpf->n, ev_walk_name((enum ev_walk)bpf->walk), bpf->flags,
		       at < bpf->n ? bpf->frames[at].exact : -1, host->n,
		       ev_walk_name((enum ev_walk)host->walk), host->flags,
		       at < host->n ? host->frames[at].exact : -1);
		example(o, s, UNEXPLAINED, host, at);
	}
}

/* ---- main ------------------------------------------------------------------------------------ */

static void report(const struct side *s)
{
	printf("{\"walk\":\"%s\",\"stacks\":%llu,\"frames\":%llu,\"longest\":%llu", s->name,
	       (unsigned long long)s->stacks, (unsigned long long)s->frames,
	       (unsigned long long)s->longest);
	for (int i = 0; i < CAUSES; i++)
		printf(",\"%s\":%llu", cause_name[i], (unsigned long long)s->by[i]);
	printf("}\n");
}

static int open_dwfl(struct oracle *o)
{
	static const Dwfl_Callbacks callbacks = {
	        .find_elf = dwfl_linux_proc_find_elf,
	        .find_debuginfo = no_debuginfo,
	};
	struct err err = {0};
	char path[64];
	int r = proc_maps_read(o->pid, on_map, o, NULL, &err);

	if (r < 0) {
		fprintf(stderr, "stack-oracle: %s\n", err.msg);
		return r;
	}
	(void)snprintf(path, sizeof(path), "/proc/%u/mem", o->pid);
	o->mem_fd = open(path, O_RDONLY | O_CLOEXEC);
	o->dwfl = dwfl_begin(&callbacks);
	if (o->mem_fd < 0 || !o->dwfl || dwfl_linux_proc_report(o->dwfl, (pid_t)o->pid) != 0 ||
	    dwfl_report_end(o->dwfl, NULL, NULL) != 0 ||
	    !dwfl_attach_state(o->dwfl, NULL, (pid_t)o->pid, &thread_callbacks, o)) {
		fprintf(stderr, "stack-oracle: libdwfl: %s\n", dwfl_errmsg(-1));
		return -EIO;
	}
	return 0;
}

static int compare_all(struct oracle *o)
{
	static struct ev_frame frames[ABI_MAX_USER_FRAMES];
	struct side bpf = {.name = "bpf"}, host = {.name = "host"}, both = {.name = "both"};
	uint64_t no_stack = 0;

	for (size_t i = 0; i < o->cap->copies.n; i++) {
		const struct cap_copy *k = &o->cap->copies.p[i];
		const struct cap_stack *st = cap_stack(o->cap, k->hash);
		struct ours a = {0}, b;

		if (!st || k->len == 0) {
			no_stack++;
			continue;
		}
		a = (struct ours){
		        .frames = st->frames, .n = st->n, .walk = st->walk, .flags = st->flags};
		unwind(o, k);
		compare(o, &bpf, &a);
		host_walk(o, k, frames, &b);
		compare(o, &host, &b);
		compare_walks(o, &both, &a, &b);
	}
	report(&bpf);
	report(&host);
	report(&both);
	printf("# %zu copies, %llu without a stack or memory; %u images, %u without a table\n",
	       o->cap->copies.n, (unsigned long long)no_stack, o->cap->tables, o->cap->no_table);
	if (bpf.stacks == 0)
		return 2;
	return bpf.by[UNEXPLAINED] || host.by[UNEXPLAINED] || both.by[UNEXPLAINED] ? 1 : 0;
}

int main(int argc, char **argv)
{
	struct oracle o = {.mem_fd = -EBADF};
	struct cap_options co = {.rate_hz = 997, .walk_flags = ABI_WALK_DEFER_ALL};
	struct err err = {0};
	uint64_t pid, ms, copies;
	int status = 2, r;

	if (argc != 4 || parse_u64(argv[1], 10, &pid) < 0 || parse_u64(argv[2], 10, &ms) < 0 ||
	    parse_u64(argv[3], 10, &copies) < 0) {
		fprintf(stderr, "usage: stack-oracle PID MS COPIES\n");
		return 2;
	}
	o.maps.max = 1 << 20;
	o.pid = co.pid = (uint32_t)pid;
	co.max_copies = (uint32_t)copies;
	r = cap_start(&co, &o.cap, &err);
	if (r == 0)
		r = cap_run(o.cap, (uint32_t)ms);
	/* The target's mappings must stay as they are until all is compared. */
	if (r == 0 && kill((pid_t)pid, SIGSTOP) < 0)
		r = -errno;
	if (r == 0)
		r = cap_finish(o.cap);
	if (r == 0)
		r = open_dwfl(&o);
	if (r == 0)
		status = compare_all(&o);
	else
		fprintf(stderr, "stack-oracle: %s: %s\n", err_name(r), err.msg);
	(void)kill((pid_t)pid, SIGKILL); /* it may have ended */
	if (o.dwfl)
		dwfl_end(o.dwfl);
	closep(&o.mem_fd);
	for (size_t i = 0; i < o.maps.n; i++)
		free((void *)(uintptr_t)o.maps.p[i].path);
	vec_done(&o.maps);
	cap_free(o.cap);
	return status;
}
