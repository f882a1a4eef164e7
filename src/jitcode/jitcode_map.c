/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of a perf-map: "START SIZE NAME", hexadecimal, the name up to the end of the line.
 * Source: Linux, tools/perf/Documentation/jit-interface.txt.
 */
#include "jitcode/jitcode_priv.h"

static bool next_is(const struct cursor *c, char ch)
{
	return cursor_left(c) && *c->p == (uint8_t)ch;
}

static void skip_blanks(struct cursor *c)
{
	while (next_is(c, ' '))
		(void)cursor_skip(c, 1); /* cannot fail: a byte is left */
}

/* Reads a number and the blank after it. */
static int hex(struct cursor *c, uint64_t *ret)
{
	uint64_t v = 0;
	int digits = 0;
	uint8_t ch;

	skip_blanks(c);
	if (cursor_left(c) > 2 && c->p[0] == '0' && (c->p[1] | 0x20) == 'x')
		(void)cursor_skip(c, 2); /* they are there */
	while (cursor_u8(c, &ch) == 0 && ch != ' ') {
		uint8_t lower = ch | 0x20;

		if (ch >= '0' && ch <= '9')
			v = v << 4 | (uint64_t)(ch - '0');
		else if (lower >= 'a' && lower <= 'f')
			v = v << 4 | (uint64_t)(lower - 'a' + 10);
		else
			return -EINVAL;
		if (++digits > 16)
			return -EINVAL;
	}
	*ret = v;
	return digits ? 0 : -EINVAL;
}

/* Whether the code there already has this name, or one from a jitdump. */
static bool known(const struct jitcode *j, uint64_t start, uint64_t size, const struct cursor *name)
{
	const struct jitcode_piece *p = jitcode_now(j, start);
	size_t len = cursor_left(name);
	const struct jitcode_fn *c;
	const char *text;

	if (!p || p->start != start || p->end != start + size || p->origin != start)
		return false;
	c = &j->codes.p[p->code];
	text = &j->names.p[c->name];
	return c->timed || (strlen(text) == len && memcmp(text, name->p, len) == 0);
}

/* Reads one line. Returns: 1 (it replaced other code), 0, -EINVAL (damaged), -ENOMEM. */
static int read_line(struct jitcode *j, const uint8_t *text, size_t len, uint64_t time_ns)
{
	struct cursor c = cursor_of(text, len);
	struct jitcode_fn code = {0};
	uint64_t start, size;
	int r;

	if (hex(&c, &start) < 0 || hex(&c, &size) < 0 || !jitcode_range_ok(start, size))
		return -EINVAL;
	skip_blanks(&c);
	while (cursor_left(&c) && (c.end[-1] == ' ' || c.end[-1] == '\r'))
		c.end--;
	if (cursor_left(&c) == 0 || cursor_left(&c) > JITCODE_NAME_MAX ||
	    memchr(c.p, 0, cursor_left(&c)))
		return -EINVAL;
	if (known(j, start, size, &c))
		return 0;
	if (!jitcode_has_room(j, cursor_left(&c) + 1 + JITCODE_ENTRY_BYTES)) {
		jitcode_lose(j, start, size);
		return 0;
	}
	r = jitcode_name_add(j, (const char *)c.p, cursor_left(&c), &code.name);
	return r < 0 ? r : jitcode_put(j, start, size, time_ns, &code);
}

/* Reads the lines in window[0 … n). Returns the sum of read_line; *ret_used: bytes of the lines. */
static int read_lines(struct jitcode *j, size_t n, bool last, uint64_t time_ns, size_t *ret_used)
{
	size_t at = 0;
	int reused = 0;

	while (at < n) {
		const uint8_t *text = j->window + at, *end = memchr(text, '\n', n - at);
		size_t len = end ? (size_t)(end - text) : n - at;
		bool too_long = !end && n - at == JITCODE_WINDOW_BYTES;
		int r = 0;

		if (!end && !too_long && !last && !j->map_skip)
			break; /* not finished yet */
		if (!j->map_skip)
			r = too_long ? -EINVAL : len ? read_line(j, text, len, time_ns) : 0;
		if (r == -ENOMEM)
			return r;
		if (r < 0)
			j->stats.bad++;
		else
			reused += r;
		j->map_skip = !end && (too_long || j->map_skip);
		at += len + (end != NULL);
	}
	*ret_used = at;
	return reused;
}

int jitcode_read_map(struct jitcode *j, int fd, uint64_t now_ns, bool final)
{
	uint64_t size, left = final ? JITCODE_READ_FINAL_BYTES : JITCODE_READ_BYTES;
	bool anew;
	int reused = 0, r = jitcode_file_check(&j->map, fd, &size, &anew);

	if (r < 0)
		return r;
	if (anew)
		j->map_skip = false;
	if (!j->window)
		j->window = malloc(JITCODE_WINDOW_BYTES);
	if (!j->window)
		return -ENOMEM;
	j->more_map = true;
	while (left && j->map.off < JITCODE_FILE_BYTES_MAX) {
		uint64_t off = j->map.off;
		size_t want = (size_t)MIN_OF(left, (uint64_t)JITCODE_WINDOW_BYTES), used = 0;
		ssize_t n = file_pread_full(fd, j->window, want, off);

		if (n < 0)
			r = (int)n;
		else
			r = read_lines(j, (size_t)n, final && (size_t)n < want,
			               j->map_begun ? now_ns : 0, &used);
		if (r < 0)
			break;
		reused += r;
		jitcode_file_advance(&j->map, off + used, j->window, off);
		left -= MIN_OF((uint64_t)used, left);
		if ((size_t)n < want) {
			j->more_map = false;
			j->map_begun = true; /* later lines are new code */
			break;
		}
		if (used == 0)
			break; /* the line is longer than what may still be read in this call */
	}
	free(j->window);
	j->window = NULL;
	j->more_map = j->more_map && r >= 0 && j->map.off < JITCODE_FILE_BYTES_MAX;
	return r < 0 ? r : reused;
}
