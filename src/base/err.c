/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/base.h"

void freep(void *p)
{
	void *mem;

	/* The variable may have any pointer type: copied as bytes, so that no alias rule breaks. */
	memcpy(&mem, p, sizeof(mem));
	free(mem);
	mem = NULL;
	memcpy(p, &mem, sizeof(mem));
}

void closep(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		(void)close(*fd); /* callers that must know whether data arrived close by hand */
	*fd = -EBADF;
	errno = saved;
}

static PRINTF_FMT(5, 0) void set(struct err *e, int code, enum err_cause cause, const char *object,
                                 const char *fmt, va_list ap)
{
	int saved = errno;
	struct err new = {.code = code, .cause = cause}; /* arguments may lie in *e */

	if (vsnprintf(new.msg, sizeof(new.msg), fmt, ap) < 0)
		new.msg[0] = '\0';
	/* May return -E2BIG: an object that is too long loses its end. */
	(void)str_copy(new.object, sizeof(new.object), object ? object : "");
	*e = new;
	errno = saved;
}

int err_set(struct err *e, int code, const char *fmt, ...)
{
	va_list ap;

	if (!e)
		return code;
	va_start(ap, fmt);
	set(e, code, ERR_NONE, NULL, fmt, ap);
	va_end(ap);
	return code;
}

int err_set_cause(struct err *e, int code, enum err_cause cause, const char *object,
                  const char *fmt, ...)
{
	va_list ap;

	if (!e)
		return code;
	va_start(ap, fmt);
	set(e, code, cause, object, fmt, ap);
	va_end(ap);
	return code;
}

int err_copy(struct err *to, const struct err *from)
{
	if (to)
		*to = *from;
	return from->code;
}

int err_prefix(struct err *e, const char *fmt, ...)
{
	int saved = errno;
	char msg[sizeof(e->msg)];
	size_t len;
	va_list ap;

	if (!e)
		return 0;
	va_start(ap, fmt);
	if (vsnprintf(msg, sizeof(msg), fmt, ap) < 0)
		msg[0] = '\0';
	va_end(ap);
	len = strlen(msg);
	/* Both may return -E2BIG: a message that is too long loses its end. */
	(void)str_copy(msg + len, sizeof(msg) - len, ": ");
	len = strlen(msg);
	(void)str_copy(msg + len, sizeof(msg) - len, e->msg);
	(void)str_copy(e->msg, sizeof(e->msg), msg);
	errno = saved;
	return e->code;
}

const char *err_symbol(int code)
{
	static _Thread_local char unknown[16];
	unsigned int num = code < 0 ? 0U - (unsigned int)code : (unsigned int)code;
	const char *name = num <= INT32_MAX ? strerrorname_np((int)num) : NULL;

	if (name)
		return name;
	(void)snprintf(unknown, sizeof(unknown), "E#%u", num);
	return unknown;
}

const char *err_name(int code)
{
	/* Two: a message may have two errors in it. */
	static _Thread_local char text[2][128];
	static _Thread_local unsigned int next;
	const char *symbol = err_symbol(code);
	const char *words = symbol[1] == '#' ? NULL : strerrordesc_np(code < 0 ? -code : code);
	char *ret = text[next++ % 2];

	if (!words)
		return symbol;
	(void)snprintf(ret, sizeof(text[0]), "%s (%s)", words, symbol); /* fits */
	/* "No such file", but "RFS specific error". */
	if (ret[0] >= 'A' && ret[0] <= 'Z' && ret[1] >= 'a' && ret[1] <= 'z')
		ret[0] = (char)(ret[0] - 'A' + 'a');
	return ret;
}
