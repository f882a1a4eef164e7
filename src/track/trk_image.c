// SPDX-License-Identifier: Apache-2.0
/*
 * Mapped files, each opened once. While a descriptor is kept the inode cannot be given to another
 * file, so (device, inode) identifies the file. Exception: a file that is written anew in its place
 * (cp onto a program that does not run). Its old content is gone, and later mappings are another
 * image.
 */
#include "track/track_priv.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>

/* ---- opening -------------------------------------------------------------------------------- */

static enum ev_reason reason_of(int r)
{
	switch (r) {
	case -ESTALE:
		return EV_REASON_FILE_REPLACED;
	case -EACCES:
	case -EPERM:
		return EV_REASON_NOT_PERMITTED;
	case -ENOMEM:
	case -EMFILE:
	case -ENFILE:
		return EV_REASON_NO_MEMORY;
	default:
		return EV_REASON_NO_FILE;
	}
}

static void read_build_id(struct trk *t, struct trk_image *i, struct img_file *f)
{
	size_t len;
	int r = img_build_id(f, i->build_id, &len);

	if (r == 0)
		i->build_id_len = (uint8_t)len;
	if ((r < 0 && r != -ENOENT) || img_bad_items(f) > 0)
		t->stats.damaged_notes++;
}

/* ---- content -------------------------------------------------------------------------------- */

static void keep_content(struct trk_img *g, const struct stat *st)
{
	g->st_dev = st->st_dev;
	g->size_bytes = (uint64_t)st->st_size;
	g->mtime = st->st_mtim;
	g->ctime = st->st_ctim;
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/*
 * Does the file of @fd, of the same inode, still have the content that the image was opened
 * with? Writing changes size or mtime, but mtime can be set back (cp -p, rsync), and ctime changes
 * also when the file is unlinked, renamed or gets another mode: then the build-id tells. A file
 * without one is taken for unchanged.
 */
static bool has_same_content(const struct trk_img *g, int fd, const struct stat *st)
{
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	uint8_t id[EV_BUILD_ID_MAX];
	size_t len = 0;

	if ((uint64_t)st->st_size != g->size_bytes || !same_time(&st->st_mtim, &g->mtime))
		return false;
	if (same_time(&st->st_ctim, &g->ctime))
		return true;
	if (img_file_open(fd, &f, NULL) < 0)
		return false;
	if (img_build_id(f, id, &len) < 0)
		len = 0;
	return len == g->pub.build_id_len && memcmp(id, g->pub.build_id, len) == 0;
}

/* When the file was written, as CLOCK_MONOTONIC: 0 if before it began to run, or if it cannot be
 * known (a time to come was set by hand, or by another machine's clock). */
static uint64_t written_ns(const struct stat *st)
{
	uint64_t real, now = now_and_realtime_ns(&real), wrote, ago;

	if (st->st_mtim.tv_sec < 0)
		return 0;
	wrote = (uint64_t)st->st_mtim.tv_sec * NSEC_PER_SEC + (uint64_t)st->st_mtim.tv_nsec;
	if (wrote > real)
		return 0;
	ago = real - wrote;
	return ago < now ? now - ago : 0;
}

/* Sets the content of an image to replaced. Its descriptor stays open, since a reader may use it;
 * the next image of the file takes it. */
static void set_replaced(struct trk_img *g, const struct stat *st)
{
	g->replaced = true;
	g->written_ns = written_ns(st);
	g->pub.reason = EV_REASON_FILE_REPLACED;
}

/* The image takes @fd, its file. */
static void take_file(struct trk *t, struct trk_img *g, int fd_taken)
{
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	_cleanup_close_ int fd = fd_taken;
	struct stat st;
	int r;

	/* First, so that what is written from now on is seen as a change. */
	if (fstat(fd, &st) < 0) {
		g->pub.reason = EV_REASON_NO_FILE;
		return;
	}
	r = img_file_open(fd, &f, NULL);
	if (r < 0) {
		g->pub.reason = r == -ENOEXEC  ? EV_REASON_NOT_ELF
		                : r == -ENOMEM ? EV_REASON_NO_MEMORY
		                               : EV_REASON_BAD_ELF;
		return;
	}
	keep_content(g, &st);
	/* Events arrive late: the content that was mapped first may be overwritten by now. */
	if (written_ns(&st) > g->first_ns) {
		set_replaced(g, &st);
	} else {
		read_build_id(t, &g->pub, f);
		g->pub.reason = EV_REASON_NAMED;
	}
	if (t->fds_open < t->fds_max) {
		g->pub.fd = TAKE_FD(fd);
		t->fds_open++;
	} else {
		g->shut = true;
		t->stats.images_shut++;
	}
}

static void open_image(struct trk *t, struct trk_img *g, uint32_t pid, const struct ev_mapping *m)
{
	uint64_t wait_ns = TRK_OPEN_WAIT_NS;
	int fd, r;

	fd = proc_open_mapped(pid, m, NULL);
	if (fd < 0) {
		r = fd;
		fd = proc_open_path(m->path, &m->file);
		/* The process has ended: the error of the path says more. */
		if (fd < 0 && (r == -ESRCH || r == -ENOENT))
			r = fd;
		else if (fd < 0)
			wait_ns = MIN_OF(2 * g->wait_ns, TRK_OPEN_WAIT_MAX_NS);
	}
	if (fd >= 0) {
		take_file(t, g, fd);
		return;
	}
	g->pub.reason = reason_of(r);
	if (g->tries < TRK_OPEN_TRIES_FREE) {
		g->tries++;
		return;
	}
	g->wait_ns = MAX_OF(wait_ns, TRK_OPEN_WAIT_NS);
	g->next_try_ns = now_ns() + g->wait_ns;
}

/* By its path in the file system of a process that mapped it, else in ours; looked at before it is
 * opened: another namespace has chosen the path. */
static int open_again(const struct trk_img *g)
{
	_cleanup_(sbuf_done) struct sbuf b;
	int fd = -ENOENT;

	sbuf_init(&b, 16384);
	if (sbuf_addf(&b, "/proc/%u/root%s", g->pub.pid, g->pub.path) == 0)
		fd = proc_open_path(b.p, &g->pub.file);
	return fd >= 0 ? fd : proc_open_path(g->pub.path, &g->pub.file);
}

int trk_image_fd(const struct trk *t, uint32_t id, bool *ret_close)
{
	_cleanup_close_ int fd = -EBADF;
	const struct trk_img *g;
	struct stat st;

	if (id == 0 || id > t->img.n)
		return -EINVAL;
	g = t->img.p[id - 1];
	if (g->replaced)
		return -ESTALE;
	if (!g->shut) {
		if (g->pub.fd < 0)
			return -ENOENT;
		if (fstat(g->pub.fd, &st) < 0)
			return -errno;
		if (!has_same_content(g, g->pub.fd, &st))
			return -ESTALE;
		*ret_close = false;
		return g->pub.fd;
	}
	fd = open_again(g);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_ino != g->pub.file.ino || st.st_dev != g->st_dev ||
	    !has_same_content(g, fd, &st))
		return -ESTALE;
	*ret_close = true;
	return TAKE_FD(fd);
}

/* ---- vDSO ----------------------------------------------------------------------------------- */

#define VDSO_MAX_BYTES (64 * 1024) /* it has 4 to 8 KiB */

static int find_vdso(void *arg, const struct ev_mapping *m)
{
	struct ev_mapping *ret = arg;

	if (m->kind != EV_MAP_VDSO)
		return 0;
	*ret = *m;
	ret->path = NULL; /* not ours */
	return 1;
}

/* Copies our own vDSO: all 64-bit processes have the same bytes. */
static void copy_vdso(struct trk *t)
{
	struct ev_mapping m;

	if (t->vdso || proc_maps_read((uint32_t)getpid(), find_vdso, &m, NULL, NULL) != 1)
		return;
	t->vdso = malloc(m.end - m.start);
	if (!t->vdso)
		return;
	t->vdso_len = m.end - m.start;
	memcpy(t->vdso, (const void *)(uintptr_t)m.start, t->vdso_len);
}

/* 32-bit processes have another one, of the same size or not, below 4 GiB where 64-bit processes
 * have none. */
static bool is_narrow(const struct ev_mapping *m)
{
	return m->end <= 1ULL << 32;
}

/* Reads code; none if it could not be read. Which process it is that shows its bytes must not
 * matter for others: whoever changes them (in a copy of its own) has an image of its own, too. */
static void *read_narrow(uint32_t pid, const struct ev_mapping *m)
{
	size_t len = (size_t)(m->end - m->start);
	struct iovec to = {.iov_len = len},
	             from = {.iov_base = (void *)(uintptr_t)m->start, .iov_len = len};

	if (len > VDSO_MAX_BYTES)
		return NULL;
	to.iov_base = malloc(len);
	if (!to.iov_base)
		return NULL;
	if (process_vm_readv((pid_t)pid, &to, 1, &from, 1, 0) == (ssize_t)len)
		return to.iov_base;
	free(to.iov_base);
	return NULL;
}

/* @ret_mem: to be freed, NULL where there is nothing to read. */
static void vdso_key(const struct trk *t, uint32_t pid, const struct ev_mapping *m,
                     struct trk_img_key *key, void **ret_mem)
{
	struct trk_img *known;

	key->size = m->end - m->start;
	*ret_mem = NULL;
	if (!is_narrow(m))
		return;
	key->file.dev_minor = 32;
	*ret_mem = read_narrow(pid, m);
	if (!*ret_mem)
		return;
	key->file.ino = hash_bytes(*ret_mem, key->size) | 1;
	HASH_FIND(hh, t->images, key, sizeof(*key), known);
	/* A process may write to its own: what differs is kept a few times only. */
	if (!known && t->n_narrow >= TRK_NARROW_MAX) {
		key->file.ino = 0;
		freep(ret_mem);
	}
}

/* @mem: taken over; NULL: the 64-bit one. */
static void fill_vdso(struct trk *t, struct trk_img *g, void **mem)
{
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	const void *bytes = *mem;

	g->pub.reason = EV_REASON_NO_FILE;
	if (g->key.file.dev_minor == 0) {
		copy_vdso(t);
		bytes = g->key.size == t->vdso_len ? t->vdso : NULL;
	}
	if (!bytes || img_file_open_mem(bytes, g->key.size, &f, NULL) < 0)
		return;
	t->n_narrow += *mem != NULL;
	g->own_mem = TAKE_PTR(*mem);
	g->pub.mem = bytes;
	g->pub.mem_len = g->key.size;
	g->pub.reason = EV_REASON_NAMED;
	read_build_id(t, &g->pub, f);
}

/* ---- finding and making --------------------------------------------------------------------- */

static void img_free(struct trk_img *g)
{
	if (!g)
		return;
	if (g->pub.fd >= 0)
		close(g->pub.fd);
	free((void *)(uintptr_t)g->pub.path); /* ours; const for readers */
	free(g->seg);
	free(g->own_mem);
	free(g);
}

void trk_img_free_all(struct trk *t)
{
	HASH_CLEAR(hh, t->images);
	HASH_CLEAR(hh, t->others);
	vec_each (g, &t->img)
		img_free(*g);
	vec_done(&t->img);
	free(t->vdso);
}

static struct trk_img *img_find(const struct trk *t, const struct trk_img_key *key,
                                const char *path)
{
	struct trk_img *g;

	if (key->kind == EV_MAP_OTHER)
		HASH_FIND(hh, t->others, path, strlen(path), g);
	else
		HASH_FIND(hh, t->images, key, sizeof(*key), g);
	return g;
}

static struct trk_img *img_new(struct trk *t, const struct trk_img_key *key, const char *path)
{
	struct trk_img *g;
	char *copy;

	if (t->img.n >= t->o.max_images || vec_reserve(&t->img, 1) < 0)
		return NULL;
	g = calloc(1, sizeof(*g));
	copy = strdup(path);
	if (!g || !copy)
		goto fail;
	g->pub.path = copy;
	g->pub.fd = -EBADF;
	g->pub.kind = (uint8_t)key->kind;
	if (key->kind == EV_MAP_FILE)
		g->pub.file = key->file;
	g->pub.reason = EV_REASON_NO_FILE;
	g->key = *key;
	if (key->kind == EV_MAP_OTHER)
		HASH_ADD_KEYPTR(hh, t->others, copy, strlen(copy), g);
	else
		HASH_ADD(hh, t->images, key, sizeof(g->key), g);
	if (!g->hh.tbl)
		goto fail;
	t->img.p[t->img.n++] = g; /* reserved above */
	g->pub.id = (uint32_t)t->img.n;
	t->stats.images++;
	return g;
fail:
	free(copy);
	free(g);
	return NULL;
}

/* Checks whether the file was written anew since it was opened. */
static void check_content(struct trk_img *g)
{
	_cleanup_close_ int fd = -EBADF;
	uint64_t now = now_ns();
	struct stat st;

	if (now - g->checked_ns < TRK_CHECK_EVERY_NS)
		return;
	g->checked_ns = now;
	/* Over the cap of descriptors only the path is left, and only if it still leads there. */
	if (g->shut)
		fd = open(g->pub.path, O_PATH | O_CLOEXEC | O_NONBLOCK);
	if (fstat(g->shut ? fd : g->pub.fd, &st) < 0 || st.st_ino != g->pub.file.ino ||
	    (g->shut && st.st_dev != g->st_dev))
		return;
	/* Not opened for each change of its mode: without a descriptor ctime is not looked at. */
	if (g->shut)
		st.st_ctim = g->ctime;
	if (has_same_content(g, g->pub.fd, &st))
		keep_content(g, &st);
	else
		set_replaced(g, &st);
}

/* Makes the image of the new content of the file of @old, which keeps its id. NULL: over the limit.
 */
static struct trk_img *img_follow(struct trk *t, struct trk_img *old, const char *path,
                                  uint64_t mapped_ns)
{
	struct trk_img *g;

	HASH_DEL(t->images, old);
	g = img_new(t, &old->key, path);
	if (!g) {
		HASH_ADD(hh, t->images, key, sizeof(old->key), old);
		return NULL;
	}
	g->first_ns = mapped_ns;
	if (old->pub.fd >= 0) {
		t->fds_open--;
		take_file(t, g, TAKE_FD(old->pub.fd));
	}
	return g;
}

/* @vdso: its bytes, if they are not ours; taken over or left */
static struct trk_img *img_get(struct trk *t, const struct trk_img_key *key,
                               const struct ev_mapping *m, void **vdso, uint64_t mapped_ns)
{
	struct trk_img *g = img_find(t, key, m->path);

	if (!g) {
		g = img_new(t, key, m->path);
		if (g)
			g->first_ns = mapped_ns;
		if (g && m->kind == EV_MAP_VDSO)
			fill_vdso(t, g, vdso);
		return g;
	}
	if (m->kind == EV_MAP_FILE && g->pub.reason == EV_REASON_NAMED)
		check_content(g);
	return g->replaced && mapped_ns > g->written_ns ? img_follow(t, g, m->path, mapped_ns) : g;
}

uint32_t trk_img_get(struct trk *t, uint32_t pid, const struct ev_mapping *m, uint64_t mapped_ns)
{
	struct trk_img_key key = {.kind = m->kind};
	_cleanup_free_ void *vdso = NULL;
	struct trk_img *g;
	size_t known = t->img.n;

	if (m->kind == EV_MAP_FILE)
		key.file = m->file;
	else if (m->kind == EV_MAP_VDSO)
		vdso_key(t, pid, m, &key, &vdso);
	g = img_get(t, &key, m, &vdso, mapped_ns);
	if (!g) {
		t->stats.dropped_images++;
		return 0;
	}
	g->pub.pid = pid;
	if (m->kind != EV_MAP_FILE || g->pub.fd >= 0 || g->shut || g->replaced ||
	    g->pub.reason == EV_REASON_NOT_ELF || g->pub.reason == EV_REASON_BAD_ELF ||
	    (g->next_try_ns != 0 && now_ns() < g->next_try_ns))
		return g->pub.id;
	/* New, or another process may be able to show what the first could not. */
	if (g->pub.reason == EV_REASON_NOT_PERMITTED)
		t->stats.images_denied--;
	open_image(t, g, pid, m);
	/* Mappings made before it was overwritten keep this image, without names. */
	if (g->replaced && mapped_ns > g->written_ns) {
		g = img_follow(t, g, m->path, mapped_ns);
		if (!g) {
			t->stats.dropped_images++;
			return 0;
		}
	}
	if (g->pub.reason == EV_REASON_NOT_PERMITTED)
		t->stats.images_denied++;
	if (g->pub.id > known && g->pub.reason != EV_REASON_NAMED &&
	    g->pub.reason != EV_REASON_NOT_ELF && g->pub.reason != EV_REASON_BAD_ELF)
		t->stats.images_failed++;
	return g->pub.id;
}

void trk_img_note(struct trk *t, const struct trk_map *m)
{
	struct trk_img *g;
	struct trk_map *seg;

	if (m->image == 0)
		return;
	g = t->img.p[m->image - 1];
	for (uint32_t i = 0; i < g->n_seg; i++)
		if (trk_map_pgoff(&g->seg[i]) == trk_map_pgoff(m) &&
		    g->seg[i].end - g->seg[i].start == m->end - m->start)
			return;
	/* Grown by one: nearly every image has a single one. */
	seg = g->n_seg < TRK_SEGS_MAX ? realloc(g->seg, (g->n_seg + 1) * sizeof(*seg)) : NULL;
	if (!seg) {
		g->segs_full = true;
		return;
	}
	g->seg = seg;
	g->seg[g->n_seg++] = *m;
}

uint32_t trk_img_content(const struct trk *t, uint32_t id)
{
	const struct trk_img *g = id ? t->img.p[id - 1] : NULL;

	if (!g || g->replaced || (g->pub.fd < 0 && !g->shut))
		return 0;
	/* On some file systems (btrfs, overlays) stat returns another inode than the one that is
	 * mapped. */
	if (g->st_dev != makedev(g->pub.file.dev_major, g->pub.file.dev_minor))
		return 0;
	return abi_content(g->pub.file.ino, (uint64_t)g->mtime.tv_sec, (uint64_t)g->mtime.tv_nsec);
}

size_t trk_image_cnt(const struct trk *t)
{
	return t->img.n;
}

const struct trk_image *trk_image(const struct trk *t, uint32_t id)
{
	return id > 0 && id <= t->img.n ? &t->img.p[id - 1]->pub : NULL;
}
