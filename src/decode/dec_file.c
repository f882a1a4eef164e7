/* SPDX-License-Identifier: Apache-2.0 */
/* Files, formats, compression, notes. */
#include "decode/decode_priv.h"

#include <fcntl.h>
#include <libdeflate.h>
#include <stdio.h>
#include <sys/stat.h>

/* Deflate makes at most 1,032 bytes of one. */
#define GZIP_RATIO_MAX   1032
#define GZIP_HEADER_SIZE 10

const char *dec_format_name(enum dec_format f)
{
	switch (f) {
	case DEC_FORMAT_NONE:
		break;
	case DEC_FOLDED:
		return "folded stacks";
	case DEC_PPROF:
		return "pprof";
	case DEC_PERF_DATA:
		return "perf.data";
	}
	return "unknown";
}

void dec_profile_done(struct dec_profile *p)
{
	for (uint32_t i = 0; i < p->n_models; i++)
		prof_model_free(p->models[i]);
	for (uint32_t i = 0; i < p->n_notes; i++)
		free(p->notes[i]);
	*p = (struct dec_profile){0};
}

/* ---- compression ----------------------------------------------------------------------------- */

static bool is_gzip(const uint8_t *p, size_t len)
{
	return len >= GZIP_HEADER_SIZE && p[0] == 0x1f && p[1] == 0x8b && p[2] == 8;
}

/* Appends one member of a gzip file to @out. The size in its trailer is that of the last
 * member, so it may be wrong for this one. */
static int gunzip_member(struct dec_input *in, struct libdeflate_decompressor *d, size_t at,
                         struct sbuf *out, size_t *ret_used)
{
	const uint8_t *p = in->data + at;
	const size_t len = in->len - at;
	size_t most, room, got;
	uint32_t size;

	memcpy(&size, in->data + in->len - sizeof(size), sizeof(size));
	if (!size_mul(len, GZIP_RATIO_MAX, &most))
		most = SIZE_MAX;
	most = MIN_OF(most, out->max - out->len);
	room = MIN_OF(MAX_OF((size_t)size, (size_t)4096), most);
	for (;;) {
		char *to = sbuf_reserve(out, room);
		enum libdeflate_result r;

		if (!to)
			return err_set(in->err, out->err, "%s: out of memory", in->name);
		r = libdeflate_gzip_decompress_ex(d, p, len, to, room, ret_used, &got);
		if (r == LIBDEFLATE_SUCCESS)
			break;
		if (r != LIBDEFLATE_INSUFFICIENT_SPACE)
			return err_set(in->err, -EINVAL,
			               "%s: the gzip data is damaged or truncated (from byte %zu)",
			               in->name, at);
		if (room == most)
			return err_set(in->err, -E2BIG,
			               "%s: more than %zu MiB after decompression%s", in->name,
			               out->max >> 20,
			               out->max < DEC_UNPACKED_BYTES_MAX
			                       ? ", far more than profiles have: decompress it "
			                         "first (gunzip) if you trust it"
			                       : "");
		room = room > most / 2 ? most : 2 * room;
	}
	out->len += got;
	out->p[out->len] = 0;
	return 0;
}

static int gunzip(struct dec_input *in, struct sbuf *out)
{
	struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
	size_t at = 0, used = 0;
	int r = d ? 0 : err_set(in->err, -ENOMEM, "%s: out of memory", in->name);

	while (r == 0 && is_gzip(in->data + at, in->len - at)) {
		r = gunzip_member(in, d, at, out, &used);
		if (r == 0)
			at += used;
	}
	libdeflate_free_decompressor(d);
	if (r == 0 && at < in->len)
		dec_note(in, "%zu bytes after the end of the gzip data were ignored", in->len - at);
	return r;
}

/* ---- formats --------------------------------------------------------------------------------- */

/* Files that people confuse with profiles. */
static const struct {
	const char *magic, *what;
} others[] = {
        {"\177ELF", "an ELF file"},
        {"PK\3\4", "a zip archive"},
        {"(\265/\375", "compressed with zstd: decompress it first"},
        {"\3757zXZ", "compressed with xz: decompress it first"},
        {"BZh", "compressed with bzip2: decompress it first"},
        {"<!DOCTYPE", "an HTML page"},
        {"<html", "an HTML page"},
        {"<?xml", "an XML or SVG file"},
        {"<svg", "an SVG picture"},
        {"{", "a JSON file"},
        {"go 1.", "a Go execution trace"},
        {"JiTD", "a jitdump"},
        {"DTiJ", "a jitdump"},
        {"PERFFILE", "a perf.data of before 2010"},
        {"2ELIFREP", "a perf.data of a big-endian machine"},
};

/* Control bytes are in every pprof: its first message is short, and has its length. */
static bool is_text(const uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len && i < 4096; i++) {
		if (p[i] < ' ' && p[i] != '\t' && p[i] != '\n' && p[i] != '\r' && p[i] != 0x1b)
			return false;
	}
	return true;
}

static bool is_magic(const struct dec_input *in, const char *magic)
{
	const size_t n = strlen(magic);

	return in->len >= n && memcmp(in->data, magic, n) == 0;
}

static int decode(struct dec_input *in)
{
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		if (is_magic(in, others[i].magic))
			return err_set(in->err, -EINVAL, "%s: no profile: it is %s", in->name,
			               others[i].what);
	}
	if (in->len == 0)
		return err_set(in->err, -EINVAL, "%s: the file is empty", in->name);
	if (is_magic(in, "PERFILE2")) {
		in->ret->format = DEC_PERF_DATA;
		return dec_perf(in);
	}
	if (is_text(in->data, in->len)) {
		in->ret->format = DEC_FOLDED;
		return dec_folded(in);
	}
	in->ret->format = DEC_PPROF;
	return dec_pprof(in);
}

/* Returns the bytes that @len bytes of gzip may have after decompression: a small file must not take much
 * memory before it is refused. */
static size_t unpacked_max(const struct dec_options *o, size_t len)
{
	const size_t most = o->max_unpacked_bytes ? o->max_unpacked_bytes : DEC_UNPACKED_BYTES_MAX;
	size_t by_ratio;

	if (!size_mul(len, DEC_RATIO_MAX, &by_ratio))
		return most;
	return MIN_OF(most, MAX_OF(by_ratio, DEC_BOMB_BYTES_MAX));
}

int dec_profile(const void *data, size_t len, const char *name, const struct dec_options *o,
                struct dec_profile *ret, struct err *err)
{
	static const struct dec_options defaults;
	struct dec_input in = {.data = data,
	                       .len = len,
	                       .name = name,
	                       .o = o ? o : &defaults,
	                       .ret = ret,
	                       .err = err};
	struct sbuf unpacked;
	int r = 0;

	sbuf_init(&unpacked, unpacked_max(in.o, len));
	if (is_gzip(data, len)) {
		r = gunzip(&in, &unpacked);
		in.data = (const uint8_t *)unpacked.p;
		in.len = unpacked.len;
		ret->gzip = true;
	}
	if (r == 0)
		r = decode(&in);
	sbuf_done(&unpacked);
	return r;
}

int dec_file(const char *path, const struct dec_options *o, struct dec_profile *ret,
             struct err *err)
{
	const bool is_stdin = strcmp(path, "-") == 0;
	const char *name = is_stdin ? "standard input" : path;
	_cleanup_close_ int fd = -EBADF;
	struct sbuf b;
	struct stat st;
	int r = 0;

	sbuf_init(&b, o && o->max_file_bytes ? o->max_file_bytes : DEC_FILE_BYTES_MAX);
	fd = is_stdin ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, -errno, "cannot read %s: %s", name, err_name(errno));
	if (fstat(fd, &st) < 0)
		r = -errno;
	/* Once, instead of doubling; a file that grows meanwhile is read all the same. */
	if (r == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size < b.max)
		(void)sbuf_reserve(&b, (size_t)st.st_size + 1);
	if (r == 0)
		r = b.err ? b.err : file_read_fd(fd, &b);
	if (r == -E2BIG)
		err_set(err, r, "%s: longer than %zu MiB", name, b.max >> 20);
	else if (r < 0)
		err_set(err, r, "cannot read %s: %s", name, err_name(r));
	else
		r = dec_profile(b.p, b.len, name, o, ret, err);
	sbuf_done(&b);
	return r;
}
