/* SPDX-License-Identifier: Apache-2.0 */
/* Samples, and the identity that other records end in. */
#include "decode/dec_perf_priv.h"

/* Registers in the order of sample_regs_user: the instruction pointer. */
#if defined(__x86_64__)
#define REG_PC 8  /* PERF_REG_X86_IP */
#else             /* __aarch64__ */
#define REG_PC 32 /* PERF_REG_ARM64_PC */
#endif

static uint32_t attr_of(const struct dec_perf *p, uint64_t id)
{
	const uint32_t idx = p->ids ? intern_find(p->ids, &id, sizeof(id)) : INTERN_NONE;

	return idx == INTERN_NONE ? 0 : p->id_attrs.p[idx];
}

/* Returns the number of fields of 8 bytes before the one with the bit @upto. All precede it that
 * have one of the bits @order, which are in their order. */
static size_t words_before(uint64_t sample_type, const uint64_t *order, size_t n, uint64_t upto)
{
	size_t words = 0;

	for (size_t i = 0; i < n && order[i] != upto; i++)
		words += (sample_type & order[i]) != 0;
	return words;
}

static const uint64_t sample_order[] = {
        PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_IP,   PERF_SAMPLE_TID,
        PERF_SAMPLE_TIME,       PERF_SAMPLE_ADDR, PERF_SAMPLE_ID,
        PERF_SAMPLE_STREAM_ID,  PERF_SAMPLE_CPU,  PERF_SAMPLE_PERIOD,
};

/* Reads a field of a sample. Returns false if it has none, or is too short. */
static bool sample_word(uint64_t sample_type, struct cursor c, uint64_t field, uint64_t *ret)
{
	const size_t words =
	        words_before(sample_type, sample_order, ARRAY_SIZE(sample_order), field);

	return (sample_type & field) && cursor_skip(&c, 8 * words) == 0 && cursor_u64(&c, ret) == 0;
}

/* The event of a sample: its id is at the same place in those of all events. */
uint32_t dec_perf_sample_attr(const struct dec_perf *p, struct cursor c)
{
	const uint64_t type = p->attrs.p[0].sample_type;
	uint64_t id;

	if (p->attrs.n > 1 && (sample_word(type, c, PERF_SAMPLE_IDENTIFIER, &id) ||
	                       sample_word(type, c, PERF_SAMPLE_ID, &id)))
		return attr_of(p, id);
	return 0;
}

uint64_t dec_perf_sample_time(const struct dec_perf *p, struct cursor c)
{
	const uint64_t type = p->attrs.p[dec_perf_sample_attr(p, c)].sample_type;
	uint64_t t;

	return sample_word(type, c, PERF_SAMPLE_TIME, &t) ? t : 0;
}

uint64_t dec_perf_record_time(const struct dec_perf *p, struct cursor c)
{
	/* From the end. */
	static const uint64_t order[] = {
	        PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_CPU,  PERF_SAMPLE_STREAM_ID,
	        PERF_SAMPLE_ID,         PERF_SAMPLE_TIME,
	};
	const struct dec_perf_attr *a = &p->attrs.p[0];
	size_t words = 1 + words_before(a->sample_type, order, ARRAY_SIZE(order), PERF_SAMPLE_TIME);
	uint64_t t;

	if (!a->sample_id_all || !(a->sample_type & PERF_SAMPLE_TIME) ||
	    cursor_left(&c) < 8 * words)
		return 0;
	(void)cursor_skip(&c, cursor_left(&c) - 8 * words); /* that many are left */
	(void)cursor_u64(&c, &t);
	return t;
}

/* ---- what follows the period ----------------------------------------------------------------- */

static int skip_read(struct cursor *c, uint64_t format)
{
	const size_t times = 8 * (((format & PERF_FORMAT_TOTAL_TIME_ENABLED) != 0) +
	                          ((format & PERF_FORMAT_TOTAL_TIME_RUNNING) != 0));
	const size_t one =
	        8 * (1 + ((format & PERF_FORMAT_ID) != 0) + ((format & PERF_FORMAT_LOST) != 0));
	uint64_t n = 1;
	int r = 0;

	if (format & PERF_FORMAT_GROUP)
		r = cursor_u64(c, &n);
	if (r == 0)
		r = cursor_skip(c, times);
	if (r == 0)
		r = n > cursor_left(c) / one ? -ENODATA : cursor_skip(c, n * one);
	return r;
}

static int skip_branches(struct cursor *c, uint64_t branch_type)
{
	/* PERF_SAMPLE_BRANCH_COUNTERS of Linux 6.8: 8 bytes more for each. */
	const size_t one = branch_type & (1U << 19) ? 32 : 24;
	uint64_t n;
	int r = cursor_u64(c, &n);

	if (r == 0 && (branch_type & PERF_SAMPLE_BRANCH_HW_INDEX))
		r = cursor_skip(c, 8);
	if (r == 0)
		r = n > cursor_left(c) / one ? -ENODATA : cursor_skip(c, n * one);
	return r;
}

static int read_chain(struct cursor *c, struct dec_perf_sample *ret)
{
	uint64_t n;
	int r = cursor_u64(c, &n);

	if (r == 0)
		r = n > cursor_left(c) / 8 ? -ENODATA : cursor_sub(c, 8 * n, &ret->chain);
	return r;
}

/* The user registers, of which only the instruction pointer matters. */
static int read_user_ip(struct cursor *c, uint64_t mask, uint64_t *ret)
{
	uint64_t abi, ip;
	int r = cursor_u64(c, &abi);

	if (r < 0 || abi == PERF_SAMPLE_REGS_ABI_NONE || !(mask >> REG_PC & 1))
		return r;
	r = cursor_skip(c, 8 * (size_t)__builtin_popcountll(mask & ((1ULL << REG_PC) - 1)));
	if (r == 0)
		r = cursor_u64(c, &ip);
	if (r == 0)
		*ret = ip;
	return r;
}

static int read_rest(const struct dec_perf_attr *a, struct cursor *c, struct dec_perf_sample *ret)
{
	uint32_t raw;
	int r = 0;

	if (a->sample_type & PERF_SAMPLE_READ)
		r = skip_read(c, a->read_format);
	if (r == 0 && (a->sample_type & PERF_SAMPLE_CALLCHAIN))
		r = read_chain(c, ret);
	/* Only the registers are of use, and only without a user part of the stack. */
	if (!a->exclude_callchain_user || !(a->sample_type & PERF_SAMPLE_REGS_USER))
		return r;
	if (r == 0 && (a->sample_type & PERF_SAMPLE_RAW)) {
		r = cursor_u32(c, &raw);
		if (r == 0)
			r = cursor_skip(c, raw);
	}
	if (r == 0 && (a->sample_type & PERF_SAMPLE_BRANCH_STACK))
		r = skip_branches(c, a->branch_type);
	return r < 0 ? r : read_user_ip(c, a->regs_user, &ret->user_ip);
}

int dec_perf_sample(const struct dec_perf *p, uint16_t misc, struct cursor c,
                    struct dec_perf_sample *ret)
{
	const uint32_t attr = dec_perf_sample_attr(p, c);
	const struct dec_perf_attr *a = &p->attrs.p[attr];
	const size_t words =
	        words_before(a->sample_type, sample_order, ARRAY_SIZE(sample_order), 0);
	uint64_t v;

	*ret = (struct dec_perf_sample){
	        .attr = attr, .misc = misc, .period = a->period ? a->period : 1};
	if (sample_word(a->sample_type, c, PERF_SAMPLE_IP, &v))
		ret->ip = v;
	if (sample_word(a->sample_type, c, PERF_SAMPLE_TID, &v)) {
		ret->pid = (uint32_t)v;
		ret->tid = (uint32_t)(v >> 32);
	}
	ret->has_time = sample_word(a->sample_type, c, PERF_SAMPLE_TIME, &ret->time);
	if (sample_word(a->sample_type, c, PERF_SAMPLE_PERIOD, &v))
		ret->period = v;
	if (cursor_skip(&c, 8 * words) < 0)
		return -ENODATA;
	return read_rest(a, &c, ret);
}
