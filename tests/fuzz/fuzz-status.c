/* SPDX-License-Identifier: Apache-2.0 */
/* /proc/PID/status and lists of CPUs. */
#include "proc/proc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct proc_status s;
	uint32_t cpus[64];
	char *text;
	int n;

	if (proc_status_parse((const char *)data, size, &s) == 0) {
		assert(s.nspid_cnt >= 1 && s.nspid_cnt <= PROC_NSPID_MAX);
		assert(strnlen(s.name, sizeof(s.name)) < sizeof(s.name));
	}
	text = malloc(size + 1);
	if (!text)
		return 0;
	if (size > 0)
		memcpy(text, data, size);
	text[size] = '\0';
	n = proc_cpu_list_parse(text, cpus, ARRAY_SIZE(cpus));
	assert(n <= (int)ARRAY_SIZE(cpus));
	for (int i = 1; i < n; i++)
		assert(cpus[i - 1] < cpus[i]);
	free(text);
	return 0;
}
