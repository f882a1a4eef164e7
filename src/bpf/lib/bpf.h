/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Includes of every program: the kernel's UAPI, the helpers, and the wire. */
#ifndef PA_BPF_BPF_H
#define PA_BPF_BPF_H

#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>
#include <linux/errno.h>
#include <linux/ptrace.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "bpf/abi/abi.h"

/* Section of a program that attaches by BTF id: "tp_btf/NAME", "iter/NAME", "fexit/NAME". libbpf
 * reads the kernel's whole BTF for its own sections; the loader's handler of these
 * (src/loader/load_object.c) reads it once, in part. */
#define PA_SEC(section) SEC("pa." section)

#endif
