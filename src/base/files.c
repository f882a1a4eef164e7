/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <limits.h>

#include "base/base.h"

#define READ_CHUNK_BYTES 4096 /* seq_file returns this much at once */

/* At the cap one byte more tells a file that just fits from one that does not. */
static int expect_eof(int fd, struct sbuf *b)
{
	ssize_t n;
	char c;

	do
		n = read(fd, &c, 1);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if (n > 0)
		b->err = -E2BIG;
	return b->err;
}

int file_read_fd(int fd, struct sbuf *b)
{
	if (b->err)
		return b->err;
	for (;;) {
		size_t room = MIN_OF(b->max - b->len, (size_t)READ_CHUNK_BYTES);
		char *p = sbuf_reserve(b, room);
		ssize_t n;

		if (!p)
			return b->err;
		if (room == 0)
			return expect_eof(fd, b);
		/* The buffer doubles: fill all of it, so that large files need few calls. */
		room = MIN_OF(b->cap - b->len - 1, b->max - b->len);
		n = read(fd, p, room);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return 0;
		b->len += (size_t)n;
		b->p[b->len] = '\0';
	}
}

int file_read_all(int dirfd, const char *path, struct sbuf *b, struct err *err)
{
	_cleanup_close_ int fd = -EBADF;
	int r;

	/* O_NONBLOCK: a target may replace a file by a FIFO, which must not block its reader. */
	fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0) {
		r = -errno;
		return err_set(err, r, "open %s: %s", path, err_name(r));
	}
	r = file_read_fd(fd, b);
	if (r == -E2BIG)
		return err_set(err, r, "%s: longer than the limit of %zu bytes", path, b->max);
	if (r < 0)
		return err_set(err, r, "read %s: %s", path, err_name(r));
	return 0;
}

ssize_t file_pread_full(int fd, void *buf, size_t len, uint64_t off)
{
	size_t done = 0;

	if (len > SSIZE_MAX || off > (uint64_t)INT64_MAX - len)
		return -EINVAL;
	while (done < len) {
		ssize_t n = pread(fd, (uint8_t *)buf + done, len - done, (off_t)(off + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

int file_write_full(int fd, const void *buf, size_t len)
{
	const uint8_t *p = buf;

	while (len > 0) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -EIO; /* no progress and no reason: do not spin */
		p += n;
		len -= (size_t)n;
	}
	return 0;
}
