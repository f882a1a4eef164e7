/* SPDX-License-Identifier: Apache-2.0 */
/* Records of the rings and entries of the tables, checked. Pure. */
#include "sampler/sampler_priv.h"

#define X(id, val, name)                                                                           \
	_Static_assert((int)ABI_OFFCPU_##id == (int)EV_OFFCPU_##id, "one numbering");
EV_OFFCPUS(X)
#undef X
#define X(id, val, name, help)                                                                     \
	_Static_assert((int)ABI_WALK_##id == (int)EV_WALK_##id, "one numbering");
EV_WALKS(X)
#undef X
_Static_assert(ABI_COMM_LEN == EV_COMM_LEN, "one length");
_Static_assert(ABI_STACK_HEURISTIC == EV_STACK_HEURISTIC && ABI_STACK_JIT == EV_STACK_JIT,
               "one numbering");
_Static_assert(ABI_REGS <= EV_DEFERRED_REGS, "room for the registers");
_Static_assert(ABI_DEFERRED_STEP == EV_DEFERRED_STEP &&
                       ABI_DEFERRED_BYTES / ABI_DEFERRED_STEP <= 32,
               "holes");

int smp_frame_decode(uint64_t v, struct ev_frame *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->exact = (v & ABI_FRAME_EXACT) != 0;
	switch (v >> ABI_FRAME_SPACE_SHIFT) {
	case ABI_SPACE_IMAGE:
		ret->space = EV_SPACE_IMAGE;
		ret->image = (uint32_t)(v >> ABI_FRAME_IMAGE_SHIFT) & ABI_IMAGE_MAX;
		ret->addr = v & ABI_FRAME_OFF_MASK;
		return 0;
	case ABI_SPACE_ANON:
		ret->space = EV_SPACE_ANON;
		ret->addr = v & ABI_FRAME_ADDR_MASK;
		return 0;
	case ABI_SPACE_RAW:
		ret->space = EV_SPACE_RAW;
		ret->addr = v & ABI_FRAME_ADDR_MASK;
		return 0;
	default:
		return -EINVAL;
	}
}

struct ev_count smp_count_of(const struct abi_count_key *k, const struct abi_count *v)
{
	return (struct ev_count){
	        .proc = {.pid = k->tgid, .exec_id = k->exec_id, .start_ns = k->start_ns},
	        .tid = k->tid,
	        .foreign_ns = (k->flags & ABI_KEY_FOREIGN_NS) != 0,
	        .kthread = (k->flags & ABI_KEY_KTHREAD) != 0,
	        .ustack = k->ustack,
	        .kstack = k->kstack,
	        .cgroup_id = k->cgroup_id,
	        .samples = v->samples,
	        .weight = v->weight,
	};
}

static int waker_parse(struct cursor *c, const struct abi_stack *h, struct ev_waker *ret)
{
	struct abi_waker w;

	if (h->hash == 0 || h->n != ABI_WAKER_WORDS || cursor_bytes(c, &w, sizeof(w)) < 0)
		return -EINVAL;
	*ret = (struct ev_waker){
	        .hash = h->hash,
	        .proc = {.pid = w.tgid, .exec_id = w.exec_id, .start_ns = w.start_ns},
	        .tid = w.flags & ABI_WAKER_IRQ ? 0 : w.tid,
	        .foreign_ns = (w.flags & ABI_KEY_FOREIGN_NS) != 0,
	        .kthread = (w.flags & ABI_KEY_KTHREAD) != 0,
	        .ustack = w.ustack,
	        .kstack = w.kstack,
	};
	memcpy(ret->comm, w.comm, sizeof(ret->comm));
	ret->comm[sizeof(ret->comm) - 1] = 0;
	return 2;
}

static int stream_parse(struct cursor *c, const struct abi_stack *h, struct ev_count *ret)
{
	struct abi_stream s = {.head = *h};
	struct abi_count n = {.samples = 1};
	uint32_t state;

	if (h->hash == 0 || h->n != ABI_STREAM_WORDS ||
	    cursor_bytes(c, (uint8_t *)&s + sizeof(s.head), sizeof(s) - sizeof(s.head)) < 0)
		return -EINVAL;
	state = (s.key.flags & ABI_KEY_STATE_MASK) >> ABI_KEY_STATE_SHIFT;
	if (state >= EV_OFFCPU_CNT || s.time_ns == 0 || s.cpu > INT32_MAX)
		return -EINVAL;
	n.weight = s.weight;
	*ret = smp_count_of(&s.key, &n);
	ret->time_ns = s.time_ns;
	ret->cpu = s.cpu;
	if (state == EV_OFFCPU_NONE)
		return 3;
	ret->offcpu = (uint8_t)state;
	ret->epoch = (uint16_t)(s.key.flags >> ABI_KEY_EPOCH_SHIFT);
	ret->waker = s.waker;
	ret->longest_ns = s.weight;
	ret->runq_ns = s.runq_ns;
	return 3;
}

int smp_record_parse(const void *rec, size_t len, struct ev_frame *frames, struct ev_stack *ret,
                     struct ev_count *ret_count, struct ev_waker *ret_waker)
{
	struct cursor c = cursor_of(rec, len), peek = c;
	struct abi_stack_sample first = {0};
	struct abi_stack h;
	uint64_t hash;

	if (cursor_u64(&peek, &hash) < 0)
		return -EINVAL;
	if (hash == 0 && cursor_bytes(&c, &first, sizeof(first)) < 0)
		return -EINVAL;
	if (cursor_bytes(&c, &h, sizeof(h)) < 0)
		return -EINVAL;
	if (hash && h.kind == ABI_STACK_WAKER)
		return waker_parse(&c, &h, ret_waker);
	if (hash && h.kind == ABI_STACK_STREAM)
		return stream_parse(&c, &h, ret_count);
	if (hash == 0 && (first.key.ustack != h.hash || h.kind != ABI_STACK_USER))
		return -EINVAL;
	if (h.hash == 0 || h.walk >= EV_WALK_KERNEL_CNT || cursor_left(&c) / 8 < h.n)
		return -EINVAL;
	if (h.flags & ~(ABI_STACK_HEURISTIC | ABI_STACK_JIT))
		return -EINVAL;
	if (h.kind == ABI_STACK_USER ? h.n > ABI_MAX_USER_FRAMES
	                             : h.kind != ABI_STACK_KERNEL || h.n > ABI_MAX_KERNEL_FRAMES)
		return -EINVAL;
	for (uint32_t i = 0; i < h.n; i++) {
		struct ev_frame *f = &frames[i];
		uint64_t v = 0;

		(void)cursor_u64(&c, &v); /* the length was checked above */
		if (h.kind == ABI_STACK_KERNEL) {
			memset(f, 0, sizeof(*f));
			f->space = EV_SPACE_KERNEL;
			f->exact = i == 0;
			f->addr = v;
			continue;
		}
		if (smp_frame_decode(v, f) < 0)
			return -EINVAL;
	}
	ret->hash = h.hash;
	ret->kernel = h.kind == ABI_STACK_KERNEL;
	ret->walk = h.walk;
	ret->flags = h.flags;
	ret->n = h.n;
	ret->frames = frames;
	if (hash)
		return 0;
	*ret_count = smp_count_of(&first.key, &first.count);
	return 1;
}

int smp_deferred_parse(const void *rec, size_t len, struct ev_deferred *ret)
{
	struct cursor c = cursor_of(rec, len);
	struct abi_deferred h;

	if (cursor_bytes(&c, &h, sizeof(h)) < 0)
		return -EINVAL;
	if (h.len > ABI_DEFERRED_BYTES || h.len > cursor_left(&c) || h.image > ABI_IMAGE_MAX)
		return -EINVAL;
	memset(ret, 0, sizeof(*ret));
	ret->count = smp_count_of(&h.key, &h.count);
	if (h.cpu) {
		ret->count.time_ns = h.time_ns;
		ret->count.cpu = h.cpu - 1;
	}
	ret->in_syscall = (h.key.flags & ABI_KEY_IN_SYSCALL) != 0;
	ret->time_ns = h.time_ns;
	ret->pc = h.pc;
	memcpy(ret->reg, h.reg, sizeof(h.reg));
	ret->heuristic = h.heuristic;
	ret->placeholder = h.placeholder;
	ret->addr = h.addr;
	ret->len = h.len;
	ret->holes = h.holes;
	ret->image = h.image;
	ret->kernel_tid = h.kernel_tid;
	ret->bytes = c.p;
	return 0;
}
