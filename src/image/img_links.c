/* SPDX-License-Identifier: Apache-2.0 */
/* Links of a file to its debug information. */
#include <sys/stat.h>
#include <zlib.h>

#include "image/image_priv.h"

#define CRC_BLOCK_BYTES (256 * 1024)
#define CRC_FILE_MAX    (8ULL << 30) /* the largest debug files, of browsers, have some 4 GiB */

/* Reads the beginning of a section, at most @max bytes, and adds a NUL: 0 with memory of the
 * caller's, -ENOENT, -EINVAL (counted), -ENOMEM, errno of pread. */
static int read_section(struct img_file *f, const char *name, size_t max, char **ret,
                        size_t *ret_len)
{
	_cleanup_free_ char *p = NULL;
	struct img_area a;
	size_t len;
	int r;

	r = img_section_find(f, name, &a);
	if (r < 0)
		return r;
	len = (size_t)MIN_OF(a.file_size, (uint64_t)max);
	p = malloc(len + 1);
	if (!p)
		return -ENOMEM;
	r = img_area_read(f, &a, 0, p, len);
	if (r == -ENODATA) /* the file has shrunk */
		r = -EINVAL;
	if (r == -EINVAL)
		f->bad++;
	if (r < 0)
		return r;
	p[len] = 0;
	*ret = TAKE_PTR(p);
	*ret_len = len;
	return 0;
}

int img_debuglink(struct img_file *f, struct img_debuglink *ret)
{
	_cleanup_free_ char *p = NULL;
	struct cursor c;
	const char *name;
	uint32_t crc;
	size_t len, name_len;
	int r;

	/* Name, NUL, up to three bytes to a multiple of four, checksum. */
	r = read_section(f, ".gnu_debuglink", IMG_LINK_MAX + 8, &p, &len);
	if (r < 0)
		return r;
	c = cursor_of(p, len);
	r = cursor_str(&c, &name);
	if (r < 0)
		goto bad;
	name_len = strlen(name);
	if (name_len == 0 || name_len >= sizeof(ret->name) || strchr(name, '/') ||
	    strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		goto bad;
	if (cursor_skip(&c, (4 - (name_len + 1) % 4) % 4) < 0 || cursor_u32(&c, &crc) < 0)
		goto bad;
	memcpy(ret->name, name, name_len + 1);
	ret->crc = crc;
	return 0;
bad:
	f->bad++;
	return -EINVAL;
}

int img_altlink(struct img_file *f, struct img_altlink *ret)
{
	_cleanup_free_ char *p = NULL;
	struct cursor c;
	const char *path;
	size_t len, path_len, id_len;
	int r;

	r = read_section(f, ".gnu_debugaltlink", sizeof(ret->path) + IMG_BUILD_ID_MAX + 1, &p,
	                 &len);
	if (r < 0)
		return r;
	c = cursor_of(p, len);
	r = cursor_str(&c, &path);
	path_len = r < 0 ? 0 : strlen(path);
	id_len = cursor_left(&c);
	if (path_len == 0 || path_len >= sizeof(ret->path) || id_len == 0 ||
	    id_len > IMG_BUILD_ID_MAX) {
		f->bad++;
		return -EINVAL;
	}
	memcpy(ret->path, path, path_len + 1);
	memcpy(ret->build_id, c.p, id_len);
	ret->build_id_len = id_len;
	return 0;
}

int img_file_crc(int fd, uint32_t *ret)
{
	_cleanup_free_ uint8_t *block = NULL;
	uLong crc = crc32(0, NULL, 0);
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size > (off_t)CRC_FILE_MAX)
		return -E2BIG; /* before it is read, and again below: it may grow */
	block = malloc(CRC_BLOCK_BYTES);
	if (!block)
		return -ENOMEM;
	for (uint64_t off = 0; off <= CRC_FILE_MAX;) {
		ssize_t n = file_pread_full(fd, block, CRC_BLOCK_BYTES, off);

		if (n < 0)
			return (int)n;
		crc = crc32(crc, block, (uInt)n);
		if (n < CRC_BLOCK_BYTES) {
			*ret = (uint32_t)crc;
			return 0;
		}
		off += (uint64_t)n;
	}
	return -E2BIG;
}
