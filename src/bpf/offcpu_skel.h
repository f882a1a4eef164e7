/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The generated skeleton, with the warnings silenced that bpftool 7.1 does not avoid. */
#ifndef PA_OFFCPU_SKEL_H
#define PA_OFFCPU_SKEL_H

#include <stdbool.h>
#include "bpf/abi/abi.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wcast-qual"
#include "offcpu.skel.h"
#pragma GCC diagnostic pop

#endif
