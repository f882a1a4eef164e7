/* SPDX-License-Identifier: Apache-2.0 */
/* libplug - the library that dlopen opens: one function that spends CPU time. */
#include "workload.h"

__attribute__((visibility("default"))) void plug_work(uint64_t ns);

WL_FUNC static void plug_inner(uint64_t ns)
{
	uint64_t end = wl_thread_cpu_ns() + ns;

	do {
		wl_batch();
	} while (wl_thread_cpu_ns() < end);
}

void plug_work(uint64_t ns)
{
	plug_inner(ns);
}
