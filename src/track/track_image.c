// SPDX-License-Identifier: Apache-2.0
/*
 * Files that processes map, each opened once. While a descriptor is kept the inode cannot be given
 * to another file, so (device, inode) is enough to know it again.
 */
#include "track/track_priv.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

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

static bool same_inode(const struct stat *st, const struct ev_file_id *f)
{
	if (st->st_ino != f->ino)
		return false;
	if (major(st->st_dev) == f->dev_major && minor(st->st_dev) == f->dev_minor)
		return true;
	/* File systems without a block device (btrfs, overlayfs) have numbers of major 0 and may
	 * tell stat another one than maps. */
	return major(st->st_dev) == 0 && f->dev_major == 0;
}

/* By path under our own root, for processes that have gone: descriptor or negative errno. The file
 * is looked at before it is opened: opening a device or a FIFO may do things. */
static int open_path(const char *path, const struct ev_file_id *f)
{
	_cleanup_close_ int fd = -EBADF;
	char self[32];
	struct stat st;
	int r;

	fd = open(path, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || !same_inode(&st, f))
		return -ESTALE;
	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", fd); /* 32 hold any int */
	r = open(self, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	return r < 0 ? -errno : r;
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

static void open_image(struct trk *t, struct trk_img *g, uint32_t pid, const struct ev_mapping *m)
{
	_cleanup_(img_file_freep) struct img_file *f = NULL;
	_cleanup_close_ int fd = -EBADF;
	struct stat st;
	int r, s;

	g->tries++;
	fd = proc_open_mapped(pid, m, NULL);
	if (fd < 0) {
		r = fd;
		fd = open_path(m->path, &m->file);
		if (fd < 0) {
			s = fd;
			/* The process is gone: what became of the path says more. */
			if (r == -ESRCH || r == -ENOENT)
				r = s;
			g->pub.reason = reason_of(r);
			return;
		}
	}
	r = img_file_open(fd, &f, NULL);
	if (r < 0) {
		g->pub.reason = r == -ENOEXEC  ? EV_REASON_NOT_ELF
		                : r == -ENOMEM ? EV_REASON_NO_MEMORY
		                               : EV_REASON_BAD_ELF;
		return;
	}
	read_build_id(t, &g->pub, f);
	g->pub.reason = EV_REASON_NAMED;
	if (t->fds_open < t->fds_max) {
		g->pub.fd = TAKE_FD(fd);
		t->fds_open++;
		return;
	}
	if (fstat(fd, &st) < 0) {
		g->pub.reason = EV_REASON_NO_FILE;
		return;
	}
	g->shut = true;
	g->mtime = st.st_mtim;
	g->size_bytes = (uint64_t)st.st_size;
	g->st_dev = st.st_dev;
}

int trk_image_fd(const struct trk *t, uint32_t id, bool *ret_close)
{
	_cleanup_close_ int fd = -EBADF;
	const struct trk_img *g;
	struct stat st;

	if (id == 0 || id > t->img.n)
		return -EINVAL;
	g = t->img.p[id - 1];
	if (!g->shut) {
		if (g->pub.fd < 0)
			return -ENOENT;
		*ret_close = false;
		return g->pub.fd;
	}
	fd = open(g->pub.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_ino != g->pub.file.ino || st.st_dev != g->st_dev ||
	    (uint64_t)st.st_size != g->size_bytes || st.st_mtim.tv_sec != g->mtime.tv_sec ||
	    st.st_mtim.tv_nsec != g->mtime.tv_nsec)
		return -ESTALE;
	*ret_close = true;
	return TAKE_FD(fd);
}

/* ---- vDSO ----------------------------------------------------------------------------------- */

static int find_vdso(void *arg, const struct ev_mapping *m)
{
	struct ev_mapping *ret = arg;

	if (m->kind != EV_MAP_VDSO)
		return 0;
	*ret = *m;
	ret->path = NULL; /* not ours */
	return 1;
}

/* The kernel gives every 64-bit process the same bytes; ours can be read without asking anyone. */
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

static void fill_vdso(struct trk *t, struct trk_img *g, uint64_t size)
{
	_cleanup_(img_file_freep) struct img_file *f = NULL;

	copy_vdso(t);
	g->pub.reason = EV_REASON_NO_FILE;
	/* 32-bit processes have another one, of another size. */
	if (!t->vdso || size != t->vdso_len ||
	    img_file_open_mem(t->vdso, t->vdso_len, &f, NULL) < 0)
		return;
	g->pub.mem = t->vdso;
	g->pub.mem_len = t->vdso_len;
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

uint32_t trk_img_get(struct trk *t, uint32_t pid, const struct ev_mapping *m)
{
	struct trk_img_key key = {.kind = m->kind};
	struct trk_img *g;
	bool known;

	if (m->kind == EV_MAP_FILE)
		key.file = m->file;
	else if (m->kind == EV_MAP_VDSO)
		key.size = m->end - m->start;
	g = img_find(t, &key, m->path);
	known = g;
	if (!g) {
		g = img_new(t, &key, m->path);
		if (!g) {
			t->stats.dropped_images++;
			return 0;
		}
		if (m->kind == EV_MAP_VDSO)
			fill_vdso(t, g, key.size);
	}
	if (m->kind != EV_MAP_FILE || g->pub.fd >= 0 || g->shut || g->tries >= TRK_OPEN_TRIES_MAX ||
	    g->pub.reason == EV_REASON_NOT_ELF || g->pub.reason == EV_REASON_BAD_ELF)
		return g->pub.id;
	/* New, or another process may be able to show what the first could not. */
	if (known && g->pub.reason == EV_REASON_NOT_PERMITTED)
		t->stats.images_denied--;
	open_image(t, g, pid, m);
	if (g->pub.reason == EV_REASON_NOT_PERMITTED)
		t->stats.images_denied++;
	if (!known && g->pub.reason != EV_REASON_NAMED && g->pub.reason != EV_REASON_NOT_ELF &&
	    g->pub.reason != EV_REASON_BAD_ELF)
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
		if (g->seg[i].pgoff == m->pgoff &&
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

size_t trk_image_cnt(const struct trk *t)
{
	return t->img.n;
}

const struct trk_image *trk_image(const struct trk *t, uint32_t id)
{
	return id > 0 && id <= t->img.n ? &t->img.p[id - 1]->pub : NULL;
}
