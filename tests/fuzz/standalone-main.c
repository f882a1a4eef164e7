/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target without a fuzzing engine: each file of a corpus once as it is, then a fixed
 * number of mutations of it. The mutations depend on the bytes of the corpus only, so that every
 * run, everywhere, feeds the same inputs.
 *
 *   fuzz-x DIR     replay and mutate
 *   fuzz-x FILE    one input, as it is (what an engine or FUZZ_SAVE left)
 *
 * FUZZ_MUTATIONS=N   mutations of each file (default 300)
 * FUZZ_SAVE=FILE     each input is written there before it is run: after a crash it is the culprit
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/base.h"

#define INPUT_MAX_BYTES   (1 << 20)
#define FILES_MAX         10000
#define INSERT_MAX_BYTES  64
#define MUTATIONS_DEFAULT 300

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	char *name;
	uint8_t *p;
	size_t len;
};

static const char *save_path;

/* ---- random numbers ------------------------------------------------------------------------- */

/* xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled".
 */
static uint64_t next_random(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * UINT64_C(0x2545f4914f6cdd1d);
}

/* 0 … n - 1, n > 0; the bias of the modulo does not matter here. */
static size_t pick(uint64_t *state, size_t n)
{
	return (size_t)((next_random(state) >> 11) % n);
}

static uint64_t seed_of(const struct input *in)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

	for (size_t i = 0; i < in->len; i++)
		h = (h ^ in->p[i]) * UINT64_C(0x100000001b3);
	return h ? h : 1; /* xorshift stays at 0 */
}

/* ---- mutation ------------------------------------------------------------------------------- */

/* Numbers that sit on the edges of lengths, offsets and signs. */
static const uint64_t edges[] = {
        0,          1,          0x7f,       0x80,      0xff,       0x7fff,         0x8000, 0xffff,
        0x7fffffff, 0x80000000, 0xffffffff, INT64_MAX, UINT64_MAX, UINT64_MAX - 1, 4096,   1 << 20,
};

/* Puts @n bytes at @at, moving what is after; does nothing at the limit. */
static void insert(struct input *m, size_t at, const uint8_t *src, size_t n)
{
	if (n > INPUT_MAX_BYTES - m->len)
		return;
	memmove(m->p + at + n, m->p + at, m->len - at);
	memcpy(m->p + at, src, n);
	m->len += n;
}

static void mutate_once(struct input *m, const struct input *other, uint64_t *rnd)
{
	uint8_t bytes[INSERT_MAX_BYTES];
	size_t at = pick(rnd, m->len + 1), n;
	uint64_t edge;

	switch (pick(rnd, 8)) {
	case 0: /* flip a bit */
		if (at < m->len)
			m->p[at] ^= (uint8_t)(1U << pick(rnd, 8));
		break;
	case 1: /* any byte */
		if (at < m->len)
			m->p[at] = (uint8_t)pick(rnd, 256);
		break;
	case 2: /* cut the end */
		m->len = at;
		break;
	case 3: /* take some bytes out */
		n = pick(rnd, MIN_OF(m->len - at, (size_t)INSERT_MAX_BYTES) + 1);
		memmove(m->p + at, m->p + at + n, m->len - at - n);
		m->len -= n;
		break;
	case 4: /* put random bytes in */
		n = pick(rnd, sizeof(bytes)) + 1;
		for (size_t i = 0; i < n; i++)
			bytes[i] = (uint8_t)pick(rnd, 256);
		insert(m, at, bytes, n);
		break;
	case 5: /* repeat a piece of the input elsewhere */
		n = pick(rnd, MIN_OF(m->len - at, sizeof(bytes)) + 1);
		memcpy(bytes, m->p + at, n);
		insert(m, pick(rnd, m->len + 1), bytes, n);
		break;
	case 6: /* an edge number of 1, 2, 4 or 8 bytes */
		edge = edges[pick(rnd, ARRAY_SIZE(edges))];
		n = MIN_OF((size_t)1 << pick(rnd, 4), m->len - at);
		memcpy(m->p + at, &edge, n);
		break;
	default: /* splice: this head, another file's tail */
		n = pick(rnd, other->len + 1);
		m->len = at;
		insert(m, at, other->p + other->len - n, n);
		break;
	}
}

/* ---- running -------------------------------------------------------------------------------- */

static int run_input(const uint8_t *p, size_t len)
{
	/* A copy of exactly this size, so that a sanitizer sees a read past the end. */
	_cleanup_free_ uint8_t *copy = malloc(len ? len : 1);

	if (!copy)
		return -ENOMEM;
	memcpy(copy, p, len);
	if (save_path) {
		_cleanup_close_ int fd =
		        open(save_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		int r = fd < 0 ? -errno : file_write_full(fd, copy, len);

		if (r < 0) {
			(void)fprintf(stderr, "write %s: %s\n", save_path, err_name(r));
			return r;
		}
	}
	(void)LLVMFuzzerTestOneInput(copy, len); /* its result is for corpus building only */
	return 0;
}

static int run_file(const struct input *in, const struct input *other, uint64_t mutations)
{
	uint64_t rnd = seed_of(in);
	struct input m = {.p = malloc(INPUT_MAX_BYTES)};
	int r;

	if (!m.p)
		return -ENOMEM;
	r = run_input(in->p, in->len);
	for (uint64_t i = 0; i < mutations && r == 0; i++) {
		memcpy(m.p, in->p, in->len);
		m.len = in->len;
		for (size_t k = pick(&rnd, 6) + 1; k > 0; k--)
			mutate_once(&m, other, &rnd);
		r = run_input(m.p, m.len);
	}
	free(m.p);
	return r;
}

/* ---- corpus --------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct input *)a)->name, ((const struct input *)b)->name);
}

static int load_input(int dirfd, const char *path, struct input *ret)
{
	struct err err = {0};
	struct sbuf b;
	int r;

	sbuf_init(&b, INPUT_MAX_BYTES);
	r = file_read_all(dirfd, path, &b, &err);
	if (r < 0) {
		sbuf_done(&b);
		(void)fprintf(stderr, "%s\n", err.msg);
		return r;
	}
	ret->len = b.len;
	ret->p = (uint8_t *)sbuf_take(&b);
	ret->name = strdup(path);
	if (ret->p && ret->name)
		return 0;
	freep(&ret->p);
	freep(&ret->name);
	return -ENOMEM;
}

typedef VEC(struct input) inputs_vec;

static int load_dir(DIR *dir, inputs_vec *inputs)
{
	struct dirent *d;
	struct stat st;
	struct input in;
	int r;

	while (errno = 0, (d = readdir(dir)) != NULL) {
		if (d->d_name[0] == '.')
			continue;
		if (fstatat(dirfd(dir), d->d_name, &st, 0) < 0)
			return -errno;
		if (!S_ISREG(st.st_mode))
			continue;
		r = vec_reserve(inputs, 1);
		if (r < 0)
			return r;
		r = load_input(dirfd(dir), d->d_name, &in);
		if (r < 0)
			return r;
		inputs->p[inputs->n++] = in;
	}
	if (errno)
		return -errno;
	/* Splices must not depend on the order of the directory. */
	if (inputs->n > 0)
		qsort(inputs->p, inputs->n, sizeof(*inputs->p), by_name);
	return 0;
}

static int run_dir(const char *path, DIR *dir, uint64_t mutations)
{
	inputs_vec inputs = VEC_INIT(FILES_MAX);
	int r = load_dir(dir, &inputs);

	if (r == 0 && inputs.n == 0) {
		(void)fprintf(stderr, "%s: no file to replay\n", path);
		r = -ENOENT;
	}
	for (size_t i = 0; i < inputs.n && r == 0; i++)
		r = run_file(&inputs.p[i], &inputs.p[(i + 1) % inputs.n], mutations);
	if (r == 0)
		(void)printf("%s: %zu files, %ju mutations of each\n", path, inputs.n,
		             (uintmax_t)mutations);
	vec_each (it, &inputs) {
		free(it->name);
		free(it->p);
	}
	vec_done(&inputs);
	return r;
}

int main(int argc, char **argv)
{
	const char *env = getenv("FUZZ_MUTATIONS");
	uint64_t mutations = MUTATIONS_DEFAULT;
	struct input in;
	DIR *dir;
	int r;

	save_path = getenv("FUZZ_SAVE");
	if (argc != 2 || (env && parse_u64(env, 10, &mutations) < 0)) {
		(void)fprintf(stderr, "usage: [FUZZ_MUTATIONS=N] [FUZZ_SAVE=FILE] %s DIR|FILE\n",
		              argv[0]);
		return 2;
	}
	dir = opendir(argv[1]);
	if (dir) {
		r = run_dir(argv[1], dir, mutations);
		(void)closedir(dir); /* only read */
	} else if (errno == ENOTDIR) {
		r = load_input(AT_FDCWD, argv[1], &in);
		if (r == 0) {
			r = run_input(in.p, in.len);
			free(in.name);
			free(in.p);
		}
	} else {
		r = -errno;
	}
	if (r < 0)
		(void)fprintf(stderr, "%s: %s\n", argv[1], err_name(r));
	return r < 0;
}
