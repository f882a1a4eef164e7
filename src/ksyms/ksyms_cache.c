/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's symbols from a file of the agent's. Printing /proc/kallsyms costs the kernel 45 ms
 * of CPU and more; reading this file costs a fifth of that. CAP_SYSLOG guards the addresses, so the
 * file is private to its owner, and in a folder that no other user could have made.
 *
 * Little-endian: u32 magic, version; u8 boot id[16]; u64 state (hash of what else it depends on);
 * u64 hash and length of what follows the header; u32 count, 0. Then for each symbol, ascending:
 * u64 address; u16 length of its name and of its module; the name; with a module, a tab and
 * "[module]". Without a name: no code from here on.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ksyms/ksyms_priv.h"

#define FOLDER       "perf-agent"
#define FILE_NAME    "kallsyms.cache"
#define MAGIC        0x4b414c53u /* "KALS" read as a big-endian number */
#define VERSION      1
#define HEADER_BYTES 56
#define ENTRY_BYTES  12 /* without the name */
#define FILE_MAX     (128 * 1024 * 1024)
#define HEAD_BYTES   4096              /* bytes of kallsyms that are hashed */
#define MODULES_MAX  (4 * 1024 * 1024) /* bytes of /proc/modules: 20,000 modules */

/* ---- what it depends on ---------------------------------------------------------------------- */

static int hex_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

/* "0ddd69b3-3bff-475d-aa9b-e3d0e5d8fab4\n" */
static int parse_boot_id(const char *s, uint8_t ret[16])
{
	uint8_t id[16];
	size_t n = 0;

	while (n < 32) {
		int v;

		if (*s == '-') {
			s++;
			continue;
		}
		v = hex_of(*s++);
		if (v < 0)
			return -EINVAL;
		id[n / 2] = (uint8_t)(n % 2 ? id[n / 2] | v : v << 4);
		n++;
	}
	if (*s && *s != '\n')
		return -EINVAL;
	memcpy(ret, id, sizeof(id));
	return 0;
}

/* Appends names, sizes, states and addresses of modules to @b, without their use counts: "name size
 * users dependents, state 0xaddress". */
static int add_modules(const char *path, struct sbuf *b)
{
	struct sbuf text;
	struct cursor c;
	const char *line;
	size_t len;
	int r;

	sbuf_init(&text, MODULES_MAX);
	r = file_read_all(AT_FDCWD, path, &text, NULL);
	if (r == -ENOENT)
		r = 0; /* a kernel without modules */
	c = cursor_of(text.p, text.len);
	while (r == 0 && cursor_line(&c, &line, &len) >= 0) {
		size_t at = 0;

		for (int field = 0; field < 6 && at < len; field++) {
			const char *end = memchr(line + at, ' ', len - at);
			size_t n = end ? (size_t)(end - line) - at : len - at;

			if (field != 2 && field != 3) {
				(void)sbuf_add(b, line + at, n); /* sbuf keeps its error */
				(void)sbuf_char(b, ' ');
			}
			at += n + 1;
		}
		r = sbuf_char(b, '\n');
	}
	sbuf_done(&text);
	return r;
}

/* Appends the first lines of kallsyms: their addresses differ by boot, and are 0 without the
 * privilege. */
static int add_head(const char *path, struct sbuf *b)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char head[HEAD_BYTES];
	ssize_t n;

	if (fd < 0)
		return -errno;
	do
		n = read(fd, head, sizeof(head));
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : sbuf_add(b, head, (size_t)n);
}

int ksyms_state(const struct ksyms_options *o, uint64_t *ret)
{
	struct sbuf b;
	int r;

	sbuf_init(&b, MODULES_MAX + HEAD_BYTES);
	r = add_head(o->kallsyms ? o->kallsyms : "/proc/kallsyms", &b);
	if (r == 0)
		r = add_modules(o->modules ? o->modules : "/proc/modules", &b);
	if (r == 0)
		*ret = hash_bytes(b.p ? b.p : "", b.len);
	sbuf_done(&b);
	return r;
}

int ksyms_cache_key(const struct ksyms_options *o, struct ksyms_cache_key *ret)
{
	struct ksyms_cache_key key;
	struct sbuf b;
	int r;

	sbuf_init(&b, 256);
	r = file_read_all(AT_FDCWD, o->boot_id ? o->boot_id : "/proc/sys/kernel/random/boot_id", &b,
	                  NULL);
	if (r == 0)
		r = parse_boot_id(b.p ? b.p : "", key.boot_id);
	sbuf_done(&b);
	if (r == 0)
		r = ksyms_state(o, &key.state);
	if (r == 0)
		*ret = key;
	return r;
}

/* ---- reading --------------------------------------------------------------------------------- */

static int read_header(struct cursor *c, const struct ksyms_cache_key *key, uint32_t *ret_cnt)
{
	uint64_t state, hash, len;
	uint32_t magic, version, cnt, zero;
	uint8_t boot_id[16];

	if (cursor_u32(c, &magic) < 0 || cursor_u32(c, &version) < 0 || magic != MAGIC ||
	    version != VERSION)
		return -EINVAL;
	if (cursor_bytes(c, boot_id, sizeof(boot_id)) < 0 || cursor_u64(c, &state) < 0 ||
	    cursor_u64(c, &hash) < 0 || cursor_u64(c, &len) < 0 || cursor_u32(c, &cnt) < 0 ||
	    cursor_u32(c, &zero) < 0)
		return -EINVAL;
	if (memcmp(boot_id, key->boot_id, sizeof(boot_id)) != 0 || state != key->state)
		return -ESTALE;
	if (len != cursor_left(c) || cnt == 0 || cnt > KSYMS_MAX || zero != 0 ||
	    cnt > len / ENTRY_BYTES || hash != hash_bytes(c->p, (size_t)len))
		return -EINVAL;
	*ret_cnt = cnt;
	return 0;
}

static int read_entry(struct cursor *c, struct ksyms_parser *p)
{
	uint64_t prev = p->syms.n ? p->syms.p[p->syms.n - 1].addr : 0, addr;
	struct cursor text;
	uint16_t name_len, module_len;
	size_t len;
	int r;

	if (cursor_u64(c, &addr) < 0 || cursor_u16(c, &name_len) < 0 ||
	    cursor_u16(c, &module_len) < 0)
		return -EINVAL;
	len = (size_t)name_len + (module_len ? (size_t)module_len + 1 : 0);
	if (addr <= prev || addr == UINT64_MAX || cursor_sub(c, len, &text) < 0)
		return -EINVAL;
	if (name_len == 0)
		return len ? -EINVAL : ksyms_add(p, addr, KSYMS_NO_CODE, NULL, 0);
	if (!ksyms_name_ok(text.p, len) ||
	    memchr(text.p, '\t', len) != (module_len ? text.p + name_len : NULL))
		return -EINVAL;
	r = ksyms_add(p, addr, 0, text.p, len);
	return r == -E2BIG ? -EINVAL : r;
}

int ksyms_cache_parse(const void *bytes, size_t len, const struct ksyms_cache_key *key,
                      struct ksyms **ret)
{
	_cleanup_(ksyms_parser_done) struct ksyms_parser p;
	struct cursor c = cursor_of(bytes, len);
	uint32_t cnt;
	int r;

	ksyms_parser_init(&p);
	r = read_header(&c, key, &cnt);
	for (uint32_t i = 0; r == 0 && i < cnt; i++)
		r = read_entry(&c, &p);
	if (r < 0)
		return r;
	if (cursor_left(&c) > 0)
		return -EINVAL;
	r = ksyms_finish(&p, ret);
	return r == -ENODATA ? -EINVAL : r;
}

static bool is_private(const struct stat *st, uint32_t uid)
{
	return st->st_uid == uid && (st->st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

static int read_file(int folder, uint32_t uid, const struct ksyms_cache_key *key,
                     struct ksyms **ret)
{
	_cleanup_close_ int fd = -EBADF;
	_cleanup_free_ void *bytes = NULL;
	struct stat st;
	ssize_t n;

	fd = openat(folder, FILE_NAME, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || !is_private(&st, uid) || st.st_size < HEADER_BYTES ||
	    st.st_size > FILE_MAX)
		return -EINVAL;
	bytes = malloc((size_t)st.st_size);
	if (!bytes)
		return -ENOMEM;
	n = file_pread_full(fd, bytes, (size_t)st.st_size, 0);
	return n < 0 ? (int)n : ksyms_cache_parse(bytes, (size_t)n, key, ret);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Returns whether the kernel adds and removes such code at run time. */
static bool is_transient(const char *module)
{
	return module && (strcmp(module, "[bpf]") == 0 || str_starts(module, "[__builtin__"));
}

static void add_u16(struct sbuf *b, size_t v)
{
	const uint16_t le = (uint16_t)v; /* names are below 1024 bytes; the host is little-endian */

	(void)sbuf_add(b, &le, sizeof(le));
}

static void add_u32(struct sbuf *b, uint32_t v)
{
	(void)sbuf_add(b, &v, sizeof(v));
}

static void add_u64(struct sbuf *b, uint64_t v)
{
	(void)sbuf_add(b, &v, sizeof(v));
}

static uint32_t add_entries(const struct ksyms *k, struct sbuf *b)
{
	bool code = false; /* the previous entry */
	uint32_t cnt = 0;

	for (size_t i = 0; i < k->n; i++) {
		const char *name = k->names[i] == KSYMS_NO_NAME ? NULL : k->blob + k->names[i];
		const char *module = name ? ksyms_module(name) : NULL;
		size_t module_len = module ? strlen(module) : 0;
		size_t len = name ? strlen(name) : 0;

		if (is_transient(module))
			len = module_len = 0;
		if (len == 0 && !code)
			continue;
		add_u64(b, k->addrs[i]);
		add_u16(b, module_len ? len - module_len - 1 : len);
		add_u16(b, module_len);
		(void)sbuf_add(b, name, len);
		code = len > 0;
		cnt++;
	}
	return cnt;
}

int ksyms_cache_format(const struct ksyms *k, const struct ksyms_cache_key *key, struct sbuf *b)
{
	struct sbuf body;
	uint32_t cnt;

	sbuf_init(&body, FILE_MAX - HEADER_BYTES);
	cnt = add_entries(k, &body);
	add_u32(b, MAGIC);
	add_u32(b, VERSION);
	(void)sbuf_add(b, key->boot_id, sizeof(key->boot_id));
	add_u64(b, key->state);
	add_u64(b, body.err ? 0 : hash_bytes(body.p ? body.p : "", body.len));
	add_u64(b, body.len);
	add_u32(b, cnt);
	add_u32(b, 0);
	if (!body.err)
		(void)sbuf_add(b, body.p ? body.p : "", body.len);
	else
		b->err = body.err;
	sbuf_done(&body);
	return b->err;
}

static int write_file(int folder, const struct ksyms *k, const struct ksyms_cache_key *key)
{
	_cleanup_close_ int fd = -EBADF;
	char name[64];
	bool made = false;
	uint64_t number;
	struct sbuf b;
	int r;

	sbuf_init(&b, FILE_MAX);
	r = ksyms_cache_format(k, key, &b);
	if (r == 0 && getrandom(&number, sizeof(number), GRND_NONBLOCK) != sizeof(number))
		r = -EAGAIN;
	if (r == 0) {
		(void)snprintf(name, sizeof(name), FILE_NAME ".%016llx",
		               (unsigned long long)number);
		fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		            S_IRUSR | S_IWUSR);
		made = fd >= 0;
		r = made ? file_write_full(fd, b.p, b.len) : -errno;
	}
	sbuf_done(&b);
	if (fd >= 0 && close(TAKE_FD(fd)) < 0 && r == 0)
		r = -errno;
	if (r < 0 && made)
		(void)unlinkat(folder, name, 0); /* half written */
	if (r == 0 && renameat(folder, name, folder, FILE_NAME) < 0) {
		r = -errno;
		(void)unlinkat(folder, name, 0); /* the first error is returned */
	}
	return r;
}

/* ---- the folder ------------------------------------------------------------------------------ */

/* Opens a folder of @uid's in which no other user can make files. */
static int open_own(int dirfd, const char *path, uint32_t uid, mode_t forbidden)
{
	_cleanup_close_ int fd =
	        openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (st.st_uid != uid || (st.st_mode & forbidden))
		return -EPERM;
	return TAKE_FD(fd);
}

/* The same, and makes the folder if it does not exist. It makes none in another user's folder: with
 * sudo, HOME may be another user's. */
static int make_own(int dirfd, const char *path, uint32_t uid, mode_t forbidden)
{
	int fd = open_own(dirfd, path, uid, forbidden);

	if (fd != -ENOENT)
		return fd;
	if (mkdirat(dirfd, path, S_IRWXU) < 0 && errno != EEXIST)
		return -errno;
	return open_own(dirfd, path, uid, forbidden);
}

static int open_folder(const char *home, uint32_t uid)
{
	_cleanup_close_ int base = open_own(AT_FDCWD, home, uid, S_IWGRP | S_IWOTH);

	if (base == -ENOENT) {
		_cleanup_close_ int above = -EBADF;
		_cleanup_free_ char *parent = strdup(home);
		char *slash = parent ? strrchr(parent, '/') : NULL;

		if (!slash || slash == parent || !slash[1])
			return -ENOENT;
		*slash = '\0';
		above = open_own(AT_FDCWD, parent, uid, S_IWGRP | S_IWOTH);
		if (above < 0)
			return above;
		base = make_own(above, slash + 1, uid, S_IWGRP | S_IWOTH);
	}
	if (base < 0)
		return base;
	return make_own(base, FOLDER, uid, S_IRWXG | S_IRWXO);
}

int ksyms_cache_home(struct sbuf *b)
{
	const char *cache = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");

	/* A relative path is ignored: XDG base directories. */
	if (cache && cache[0] == '/')
		return sbuf_str(b, cache);
	if (home && home[0] == '/')
		return sbuf_addf(b, "%s/.cache", home);
	return -ENOENT;
}

int ksyms_load_cached(const struct ksyms_options *o, struct ksyms **ret,
                      enum ksyms_cache *ret_cache, struct err *err)
{
	_cleanup_close_ int folder = -EBADF;
	struct ksyms_cache_key key, now;
	int r, key_r = -ENOENT;

	*ret_cache = KSYMS_CACHE_OFF;
	if (o->cache_home) {
		folder = open_folder(o->cache_home, o->uid);
		*ret_cache = folder < 0 ? KSYMS_CACHE_REFUSED : KSYMS_CACHE_FAILED;
	}
	if (folder >= 0)
		key_r = ksyms_cache_key(o, &key);
	if (key_r == 0 && read_file(folder, o->uid, &key, ret) == 0) {
		*ret_cache = KSYMS_CACHE_USED;
		return 0;
	}
	r = ksyms_load(o->kallsyms, ret, err);
	if (r < 0)
		return r;
	/* The state may not have changed during reading. */
	if (key_r == 0 && ksyms_cache_key(o, &now) == 0 && now.state == key.state &&
	    write_file(folder, *ret, &key) == 0)
		*ret_cache = KSYMS_CACHE_WRITTEN;
	return 0;
}
