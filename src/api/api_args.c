/* SPDX-License-Identifier: Apache-2.0 */
/* Structs that callers pass in, and errors that they get back. */
#include "api/api_priv.h"

_Static_assert(sizeof(((struct pfa_error *)0)->message) == sizeof(((struct err *)0)->msg) &&
                       sizeof(((struct pfa_error *)0)->object) == sizeof(((struct err *)0)->object),
               "copied as a whole");
_Static_assert((int)PFA_CAUSE_CAPABILITY == (int)ERR_CAPABILITY &&
                       (int)PFA_CAUSE_USER_NS == (int)ERR_USER_NS &&
                       (int)PFA_CAUSE_SECCOMP == (int)ERR_SECCOMP &&
                       (int)PFA_CAUSE_LOCKDOWN == (int)ERR_LOCKDOWN &&
                       (int)PFA_CAUSE_SYSCTL == (int)ERR_SYSCTL &&
                       (int)PFA_CAUSE_MEMLOCK == (int)ERR_MEMLOCK &&
                       (int)PFA_CAUSE_NO_BTF == (int)ERR_NO_BTF &&
                       (int)PFA_CAUSE_OUTPUT == (int)ERR_OUTPUT &&
                       (int)PFA_CAUSE_LEFT_OUT == (int)ERR_LEFT_OUT,
               "one numbering");

int api_give_error(struct pfa_error *to, const struct err *from, int code)
{
	if (to && code < 0) {
		to->code = code;
		to->cause = from->cause;
		(void)str_copy(to->object, sizeof(to->object), from->object); /* fits */
		(void)str_copy(to->message, sizeof(to->message),
		               from->msg[0] ? from->msg : err_name(code));
	}
	return code;
}

#define API_STRUCT_MAX 65536U

int api_take_struct(const void *in, size_t least, void *ret, size_t size, const char *what,
                    const char *init, struct err *err)
{
	const uint8_t *bytes = in;
	size_t theirs = 0;

	if (in)
		memcpy(&theirs, in, sizeof(theirs));
	if (!in || theirs < least)
		return err_set(err, -EINVAL, "%s: size is not set: use %s", what, init);
	/* No version will have such a structure: the size was never set. */
	if (theirs > API_STRUCT_MAX)
		return err_set(err, -E2BIG, "%s: size %zu: use %s", what, theirs, init);
	for (size_t i = size; i < theirs; i++)
		if (bytes[i])
			return err_set(err, -E2BIG,
			               "%s: made for a newer library than " PERF_AGENT_VERSION,
			               what);
	memset(ret, 0, size);
	memcpy(ret, in, MIN_OF(theirs, size));
	return 0;
}
