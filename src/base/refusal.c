/* SPDX-License-Identifier: Apache-2.0 */
/* A refusal of bpf(2) or perf_event_open(2) that missing privileges explain. */
#include <linux/capability.h>
#include <stdio.h>

#include "base/base.h"

/* The two capabilities without which no program is loaded; CAP_SYS_ADMIN has both. */
static void missing_caps(char *ret, size_t size)
{
	bool admin = cap_effective(CAP_SYS_ADMIN);
	bool bpf = admin || cap_effective(CAP_BPF), perfmon = admin || cap_effective(CAP_PERFMON);

	(void)snprintf(ret, size, "%s%s%s", bpf ? "" : "CAP_BPF", bpf || perfmon ? "" : ", ",
	               perfmon ? "" : "CAP_PERFMON"); /* fits */
}

bool cap_explain(struct err *e, int code, const char *what)
{
	char missing[32];

	if (!cap_ns_initial()) {
		(void)err_set_cause(e, code, ERR_USER_NS, NULL,
		                    "%.250s: a user namespace: its capabilities do not count for "
		                    "bpf(2) and perf_event_open(2): run it outside",
		                    what);
		return true;
	}
	missing_caps(missing, sizeof(missing));
	if (!missing[0])
		return false;
	(void)err_set_cause(e, code, ERR_CAPABILITY, missing,
	                    "%.250s: missing %s: run as root, or: setcap "
	                    "cap_bpf,cap_perfmon,cap_sys_ptrace,cap_syslog+ep perf-agent",
	                    what, missing);
	return true;
}
