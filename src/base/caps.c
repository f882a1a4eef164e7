/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/syscall.h>

#include "base/base.h"

#define UID_MAP_MAX_BYTES 65536 /* the kernel accepts 340 lines of three numbers */

bool cap_effective(int cap)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};

	if (cap < 0 || (size_t)cap >= 32 * ARRAY_SIZE(data))
		return false;
	if (syscall(SYS_capget, &head, data) < 0)
		return false;
	return (data[CAP_TO_INDEX(cap)].effective & CAP_TO_MASK(cap)) != 0;
}

static bool is_number(struct cursor *c, uint64_t want)
{
	uint64_t v = 0;
	uint8_t b;

	while (cursor_left(c) > 0 && *c->p == ' ')
		(void)cursor_skip(c, 1); /* there is one */
	if (cursor_u8(c, &b) < 0 || b < '0' || b > '9')
		return false;
	for (v = b - '0'; cursor_left(c) > 0 && *c->p >= '0' && *c->p <= '9' && v <= UINT32_MAX;)
		if (cursor_u8(c, &b) == 0)
			v = v * 10 + (b - '0');
	return v == want;
}

bool cap_uid_map_is_initial(const char *text, size_t len)
{
	struct cursor c = cursor_of(text, len);

	return is_number(&c, 0) && is_number(&c, 0) && is_number(&c, UINT32_MAX) &&
	       cursor_left(&c) == 1 && *c.p == '\n';
}

bool cap_ns_initial(void)
{
	_cleanup_(sbuf_done) struct sbuf b;

	sbuf_init(&b, UID_MAP_MAX_BYTES);
	if (file_read_all(AT_FDCWD, "/proc/self/uid_map", &b, NULL) < 0)
		return true; /* a kernel without user namespaces, or no /proc: nothing to blame */
	return cap_uid_map_is_initial(b.p ? b.p : "", b.len);
}
