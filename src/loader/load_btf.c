/* SPDX-License-Identifier: Apache-2.0 */
#include "loader/load_btf.h"

#include <string.h>

#define TYPES_MAX   (64U << 20) /* bytes; kernels have 3 to 6 MB */
#define STRINGS_MAX (64U << 20)
#define NAME_MAX_   255 /* longer names are in no object of ours */
#define WINDOW      65536U
/* A type has at most 65,535 members of 12 bytes. */
#define TYPE_WINDOW (1U << 20)
#define WANTED_MAX  16384U

#define NOT_KEPT UINT32_MAX

#define FILTER_BITS 16384U

/* Uses of a name that the caller wants. */
enum {
	WANT_NAME = 0, /* a member, a value, or an id */
	WANT_TYPE = 1  /* types of that name are in the cut, too */
};

/* A wanted name: where the kernel's BTF has it. */
struct found {
	uint32_t off; /* in its section of strings */
	uint32_t name;
};

struct cut {
	int fd;
	uint64_t types_at, strings_at; /* in the file */
	uint32_t types_len, strings_len;
	struct sbuf types; /* those that a member can have */
	VEC(uint32_t) at;  /* at[id]: offset in types, or NOT_KEPT */
	uint32_t *new_ids; /* new_ids[at.n]: in the cut; 0: not in it */

	struct intern *names; /* wanted */
	uint8_t *wants;       /* wants[names] */
	size_t longest;
	uint64_t filter[FILTER_BITS / 64]; /* bit of filter_bit: perhaps wanted */
	uint32_t *name_offs;     /* name_offs[names]: in the cut's strings; 0: not in it yet */
	VEC(struct found) found; /* ascending by off */

	VEC(uint32_t) queue; /* ids in the order of the cut, so that new id i is queue.p[i - 1] */
	struct sbuf out, strings;
};

static void cut_done(struct cut *c)
{
	sbuf_done(&c->types);
	vec_done(&c->at);
	free(c->new_ids);
	free(c->wants);
	free(c->name_offs);
	c->names = intern_free(c->names);
	vec_done(&c->found);
	vec_done(&c->queue);
	sbuf_done(&c->out);
	sbuf_done(&c->strings);
}

/* ---- wanted names ---------------------------------------------------------------------------- */

/* Length of a name without its "___flavour", by which an object has several views of one type. */
static size_t essential_len(const char *name)
{
	const char *flavour = strstr(name + (*name != 0), "___");

	return flavour ? (size_t)(flavour - name) : strlen(name);
}

/* The kernel has 100,000 names: a filter excludes most of them without a hash. */
static uint32_t filter_bit(const char *name, size_t len)
{
	return ((uint32_t)(uint8_t)name[0] + (uint32_t)(uint8_t)name[len / 2] * 61 +
	        (uint32_t)(uint8_t)name[len - 1] * 509 + (uint32_t)len * 4093) %
	       FILTER_BITS;
}

static int want(struct cut *c, const char *name, size_t len, uint8_t what)
{
	uint32_t id;
	bool is_new;
	int r;

	if (!len || len > NAME_MAX_)
		return 0;
	r = intern_add(c->names, name, len, &id, &is_new);
	if (r < 0)
		return r;
	if (is_new)
		c->wants[id] = WANT_NAME;
	c->wants[id] |= what;
	c->longest = MAX_OF(c->longest, len);
	c->filter[filter_bit(name, len) / 64] |= 1ULL << filter_bit(name, len) % 64;
	return 0;
}

static int want_members(struct cut *c, const struct btf *local, const struct btf_type *t)
{
	int r = 0;

	for (uint32_t i = 0; i < btf_vlen(t) && r == 0; i++) {
		uint32_t off;

		if (btf_is_composite(t))
			off = btf_members(t)[i].name_off;
		else if (btf_is_enum(t))
			off = btf_enum(t)[i].name_off;
		else
			off = btf_enum64(t)[i].name_off;
		r = want(c, btf__str_by_offset(local, off), strlen(btf__str_by_offset(local, off)),
		         WANT_NAME);
	}
	return r;
}

static int want_all(struct cut *c, const struct btf *local, const struct load_btf_id *ids,
                    size_t n_ids)
{
	int r = intern_new(WANTED_MAX, 4U << 20, &c->names);

	c->wants = calloc(WANTED_MAX, 1);
	if (r < 0 || !c->wants)
		return -ENOMEM;
	for (uint32_t i = 1; i < btf__type_cnt(local) && r == 0; i++) {
		const struct btf_type *t = btf__type_by_id(local, i);
		const char *name = btf__str_by_offset(local, t->name_off);

		if (!btf_is_composite(t) && !btf_is_enum(t) && !btf_is_enum64(t))
			continue;
		r = want(c, name, essential_len(name), WANT_TYPE);
		if (r == 0)
			r = want_members(c, local, t);
	}
	for (size_t i = 0; i < n_ids && r == 0; i++)
		r = want(c, ids[i].name, strlen(ids[i].name), WANT_NAME);
	return r;
}

/* ---- reading --------------------------------------------------------------------------------- */

static int read_at(int fd, void *buf, size_t len, uint64_t off)
{
	ssize_t n = file_pread_full(fd, buf, len, off);

	if (n < 0)
		return (int)n;
	return (size_t)n == len ? 0 : -EINVAL;
}

static int read_header(struct cut *c)
{
	struct btf_header h;
	int r = read_at(c->fd, &h, sizeof(h), 0);

	if (r < 0)
		return r;
	if (h.magic != BTF_MAGIC || h.version != BTF_VERSION || h.hdr_len < sizeof(h) ||
	    h.type_len > TYPES_MAX || h.str_len > STRINGS_MAX || h.type_off % 4)
		return -EINVAL;
	c->types_at = (uint64_t)h.hdr_len + h.type_off;
	c->strings_at = (uint64_t)h.hdr_len + h.str_off;
	c->types_len = h.type_len;
	c->strings_len = h.str_len;
	return 0;
}

static uint32_t wanted_name(const struct cut *c, const char *name, size_t len)
{
	uint32_t bit;

	if (!len || len > c->longest)
		return INTERN_NONE;
	bit = filter_bit(name, len);
	return c->filter[bit / 64] >> bit % 64 & 1 ? intern_find(c->names, name, len) : INTERN_NONE;
}

/* Looks up the names that end in w[n], whose first byte is @base of the section. Returns: bytes
 * that were used up, or negative errno. */
static ssize_t find_in_window(struct cut *c, const char *w, size_t n, uint32_t base)
{
	size_t pos = 0;

	for (;;) {
		const char *end = memchr(w + pos, 0, n - pos);
		size_t len = end ? (size_t)(end - (w + pos)) : 0;
		uint32_t name;
		int r = 0;

		if (!end)
			return (ssize_t)pos;
		name = wanted_name(c, w + pos, len);
		if (name != INTERN_NONE)
			r = vec_push(&c->found, (struct found){base + (uint32_t)pos, name});
		if (r < 0)
			return r;
		pos += len + 1;
		if (pos == n)
			return (ssize_t)n;
	}
}

/* Finds the offsets of the wanted names in the section of strings. */
static int find_names(struct cut *c)
{
	_cleanup_free_ char *w = malloc(WINDOW);
	uint32_t base = 0;
	size_t kept = 0;

	if (!w)
		return -ENOMEM;
	while (base + kept < c->strings_len) {
		size_t more = MIN_OF(WINDOW - kept, c->strings_len - base - kept);
		ssize_t used;
		int r = read_at(c->fd, w + kept, more, c->strings_at + base + kept);

		if (r < 0)
			return r;
		used = find_in_window(c, w, kept + more, base);
		if (used < 0)
			return (int)used;
		if (used == 0 && kept + more == WINDOW)
			return -EINVAL; /* no name is that long */
		kept = kept + more - (size_t)used;
		memmove(w, w + used, kept);
		base += (uint32_t)used;
	}
	return kept ? -EINVAL : 0; /* the last name has no end */
}

static uint32_t name_at(const struct cut *c, uint32_t off)
{
	const size_t k = bisect_first(i, 0, c->found.n, c->found.p[i].off >= off);

	return k < c->found.n && c->found.p[k].off == off ? c->found.p[k].name : INTERN_NONE;
}

/* Returns the bytes that follow struct btf_type: 0 and more, or -EOPNOTSUPP. */
static int64_t tail_bytes(const struct btf_type *t)
{
	uint32_t n = btf_vlen(t);

	switch (btf_kind(t)) {
	case BTF_KIND_PTR:
	case BTF_KIND_FWD:
	case BTF_KIND_TYPEDEF:
	case BTF_KIND_VOLATILE:
	case BTF_KIND_CONST:
	case BTF_KIND_RESTRICT:
	case BTF_KIND_FUNC:
	case BTF_KIND_FLOAT:
	case BTF_KIND_TYPE_TAG:
		return 0;
	case BTF_KIND_INT:
	case BTF_KIND_VAR:
	case BTF_KIND_DECL_TAG:
		return 4;
	case BTF_KIND_ARRAY:
		return sizeof(struct btf_array);
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
	case BTF_KIND_DATASEC:
	case BTF_KIND_ENUM64:
		return (int64_t)n * (int64_t)sizeof(struct btf_member);
	case BTF_KIND_ENUM:
	case BTF_KIND_FUNC_PROTO:
		return (int64_t)n * (int64_t)sizeof(struct btf_enum);
	default:
		return -EOPNOTSUPP;
	}
}

static const struct btf_type *type_at(const struct cut *c, uint32_t id)
{
	return (const struct btf_type *)(const void *)(c->types.p + c->at.p[id]);
}

static bool is_member_kind(const struct btf_type *t)
{
	return btf_is_composite(t) || btf_is_enum(t) || btf_is_enum64(t) || btf_is_array(t) ||
	       btf_is_int(t) || btf_is_typedef(t) || btf_is_mod(t) || btf_is_ptr(t) ||
	       btf_is_fwd(t) || btf_is_float(t);
}

static void note_id(const struct cut *c, const struct btf_type *t, uint32_t id,
                    struct load_btf_id *ids, size_t n_ids)
{
	for (size_t i = 0; i < n_ids; i++) {
		uint32_t name;

		if (ids[i].id || btf_kind(t) != ids[i].kind)
			continue;
		name = name_at(c, t->name_off);
		if (name == INTERN_NONE)
			return;
		if (strcmp(intern_get(c->names, name, NULL), ids[i].name) == 0)
			ids[i].id = id;
	}
}

/* Keeps what is needed of a window of types. Returns: bytes used up, or negative errno. */
static ssize_t keep_types(struct cut *c, const uint8_t *w, size_t n, struct load_btf_id *ids,
                          size_t n_ids)
{
	size_t pos = 0;

	while (n - pos >= sizeof(struct btf_type)) {
		const struct btf_type *t = (const struct btf_type *)(const void *)(w + pos);
		int64_t tail = tail_bytes(t);
		size_t size = sizeof(*t) + (size_t)tail;
		uint32_t at = NOT_KEPT;
		int r = 0;

		if (tail < 0)
			return tail;
		if (n - pos < size)
			break;
		note_id(c, t, (uint32_t)c->at.n, ids, n_ids);
		if (is_member_kind(t)) {
			at = (uint32_t)c->types.len;
			r = sbuf_add(&c->types, t, size);
		}
		if (r == 0)
			r = vec_push(&c->at, at);
		if (r < 0)
			return r;
		pos += size;
	}
	return (ssize_t)pos;
}

static int read_types(struct cut *c, struct load_btf_id *ids, size_t n_ids)
{
	_cleanup_free_ uint8_t *w = malloc(TYPE_WINDOW);
	uint32_t base = 0;
	size_t kept = 0;
	int r = vec_push(&c->at, NOT_KEPT); /* 0 is void */

	if (!w || r < 0)
		return -ENOMEM;
	while (base + kept < c->types_len) {
		size_t more = MIN_OF(TYPE_WINDOW - kept, c->types_len - base - kept);
		ssize_t used;

		r = read_at(c->fd, w + kept, more, c->types_at + base + kept);
		if (r < 0)
			return r;
		used = keep_types(c, w, kept + more, ids, n_ids);
		if (used < 0)
			return (int)used;
		if (used == 0)
			return -EINVAL; /* larger than any type, or cut off */
		kept = kept + more - (size_t)used;
		memmove(w, w + used, kept);
		base += (uint32_t)used;
	}
	if (kept)
		return -EINVAL; /* the last type is cut off */
	c->new_ids = calloc(c->at.n, sizeof(*c->new_ids));
	c->name_offs = calloc(intern_count(c->names) + 1, sizeof(*c->name_offs));
	return c->new_ids && c->name_offs ? 0 : -ENOMEM;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Type @id in the numbers of the cut, queued to be written if it is new; 0: void. */
static int add_type(struct cut *c, uint32_t id, uint32_t *ret)
{
	int r = 0;

	if (id >= c->at.n || (id && c->at.p[id] == NOT_KEPT))
		return -EINVAL;
	if (id && !c->new_ids[id]) {
		r = vec_push(&c->queue, id);
		c->new_ids[id] = (uint32_t)c->queue.n;
	}
	*ret = c->new_ids[id];
	return r;
}

/* Returns the offset of a kernel's name in the strings of the cut; 0 if it is not wanted. */
static uint32_t add_name(struct cut *c, uint32_t off)
{
	uint32_t name = off ? name_at(c, off) : INTERN_NONE;
	size_t len;
	const char *s;

	if (name == INTERN_NONE)
		return 0;
	if (!c->name_offs[name]) {
		s = intern_get(c->names, name, &len);
		c->name_offs[name] = (uint32_t)c->strings.len;
		(void)sbuf_add(&c->strings, s, len + 1); /* .err is looked at in the end */
	}
	return c->name_offs[name];
}

/* Writes the entries that follow struct btf_type; *vlen: number of those written. */
static int write_members(struct cut *c, const struct btf_type *t, uint32_t *vlen)
{
	int r = 0;

	*vlen = 0;
	for (uint32_t i = 0; i < btf_vlen(t) && r == 0; i++) {
		struct btf_member m = btf_members(t)[i];
		bool anonymous = !m.name_off;

		m.name_off = add_name(c, m.name_off);
		if (!m.name_off && !anonymous)
			continue;
		r = add_type(c, m.type, &m.type);
		if (r == 0)
			r = sbuf_add(&c->out, &m, sizeof(m));
		++*vlen;
	}
	return r;
}

static int write_values(struct cut *c, const struct btf_type *t, uint32_t *vlen)
{
	size_t size = btf_is_enum64(t) ? sizeof(struct btf_enum64) : sizeof(struct btf_enum);
	const uint8_t *from = (const uint8_t *)(t + 1);

	*vlen = 0;
	for (uint32_t i = 0; i < btf_vlen(t); i++, from += size) {
		struct btf_enum64 v = {0}; /* both begin with the name */

		memcpy(&v, from, size);
		v.name_off = add_name(c, v.name_off);
		if (!v.name_off)
			continue;
		++*vlen;
		if (sbuf_add(&c->out, &v, size) < 0)
			return c->out.err;
	}
	return 0;
}

static int write_array(struct cut *c, const struct btf_type *t)
{
	struct btf_array a = *btf_array(t);
	int r = add_type(c, a.type, &a.type);

	if (r == 0)
		r = add_type(c, a.index_type, &a.index_type);
	return r < 0 ? r : sbuf_add(&c->out, &a, sizeof(a));
}

static int write_type(struct cut *c, uint32_t id)
{
	const struct btf_type *t = type_at(c, id);
	struct btf_type head = *t;
	size_t head_at = c->out.len;
	uint32_t vlen = 0;
	int r = 0;

	head.name_off = add_name(c, head.name_off);
	if (sbuf_add(&c->out, &head, sizeof(head)) < 0)
		return c->out.err;
	if (btf_is_composite(t)) {
		r = write_members(c, t, &vlen);
		head.info = (t->info & ~0xffffU) | vlen;
	} else if (btf_is_enum(t) || btf_is_enum64(t)) {
		r = write_values(c, t, &vlen);
		head.info = (t->info & ~0xffffU) | vlen;
	} else if (btf_is_array(t)) {
		r = write_array(c, t);
	} else if (btf_is_int(t)) {
		r = sbuf_add(&c->out, t + 1, 4);
	} else if (btf_is_typedef(t) || btf_is_mod(t)) {
		r = add_type(c, t->type, &head.type);
	} else if (btf_is_ptr(t)) {
		head.type = 0;
	}
	if (r < 0)
		return r;
	memcpy(c->out.p + head_at, &head, sizeof(head));
	return 0;
}

/* Queues the types that are wanted by name. */
static int find_types(struct cut *c)
{
	for (uint32_t id = 1; id < c->at.n; id++) {
		const struct btf_type *t;
		uint32_t name, new_id;
		int r;

		if (c->at.p[id] == NOT_KEPT)
			continue;
		t = type_at(c, id);
		if (!t->name_off || !(btf_is_composite(t) || btf_is_enum(t) || btf_is_enum64(t)))
			continue;
		name = name_at(c, t->name_off);
		if (name == INTERN_NONE || !(c->wants[name] & WANT_TYPE))
			continue;
		r = add_type(c, id, &new_id);
		if (r < 0)
			return r;
	}
	return 0;
}

static int write_all(struct cut *c, struct sbuf *ret)
{
	struct btf_header h = {.magic = BTF_MAGIC, .version = BTF_VERSION, .hdr_len = sizeof(h)};
	int r = sbuf_char(&c->strings, 0);

	for (size_t i = 0; i < c->queue.n && r == 0; i++)
		r = write_type(c, c->queue.p[i]);
	if (r == 0)
		r = c->strings.err;
	if (r < 0)
		return r;
	h.type_len = h.str_off = (uint32_t)c->out.len;
	h.str_len = (uint32_t)c->strings.len;
	(void)sbuf_add(ret, &h, sizeof(h));
	(void)sbuf_add(ret, c->out.p, c->out.len);
	return sbuf_add(ret, c->strings.p, c->strings.len);
}

int load_btf_cut(int fd, const struct btf *local, struct load_btf_id *ids, size_t n_ids,
                 struct sbuf *ret)
{
	_cleanup_(cut_done) struct cut c = {.fd = fd};
	int r;

	c.found.max = c.queue.max = 1U << 20;
	c.at.max = TYPES_MAX / sizeof(struct btf_type);
	sbuf_init(&c.types, TYPES_MAX);
	sbuf_init(&c.out, 8U << 20);
	sbuf_init(&c.strings, 1U << 20);
	for (size_t i = 0; i < n_ids; i++)
		ids[i].id = 0;
	r = read_header(&c);
	if (r == 0)
		r = want_all(&c, local, ids, n_ids);
	if (r == 0)
		r = find_names(&c);
	if (r == 0)
		r = read_types(&c, ids, n_ids);
	if (r == 0)
		r = find_types(&c);
	return r < 0 ? r : write_all(&c, ret);
}
