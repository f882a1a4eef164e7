/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * step - one frame of a user stack: registers, a code and a way to read memory -> the caller's
 * registers, or why the walk ends. No helpers, no maps. The same text is compiled for BPF and for
 * the host: unit tests, property tests, fuzzers and the walk of deferred samples use it.
 *
 * A saved register is read lazily: the state keeps its address until a later rule needs the value.
 * A register that no rule names keeps its value.
 *
 * Before including, define
 *   UW_MEM                       type of the object through which memory is read
 *   UW_READ(mem, ret_u64, addr)  reads 8 bytes at addr into *ret_u64: 0, or non-zero on a fault
 *   UW_READ_CODE(mem, ret_u64, addr)  the same, of code
 *   UW_IS_CODE(mem, addr, sure)  non-zero if addr can be a return address: it is in executable
 *                                memory, after a call if its bytes can be read. sure: it is from a
 *                                frame record or a register, which suffices in JIT code
 *                                (interpreters return to code that is not after a call)
 *   UW_RULE(mem, i), UW_WIDE(mem, i), UW_OP(mem, i)
 *                                const struct abi_rule *, abi_wide *, abi_op *, or NULL
 *
 * and, where functions must be verified one by one (BPF), UW_SPLIT with the following, which call
 * back uw_step_frame, uw_step_wide, uw_wide_column, uw_expr and uw_expr_op
 *   UW_DO_FRAME(u, mem, id)
 *   UW_DO_WIDE(u, mem, i)
 *   UW_DO_COLUMN(u, mem, i, col)
 *   UW_DO_EXPR(u, mem, i)
 *   UW_DO_OP(u, mem)
 */
#ifndef PA_STEP_H
#define PA_STEP_H

#include "bpf/abi/abi.h"

#ifndef UW_SPLIT
#define UW_DO_OP(u, mem)             uw_expr_op(u, mem)
#define UW_DO_EXPR(u, mem, i)        uw_expr(u, mem, i)
#define UW_DO_COLUMN(u, mem, i, col) uw_wide_column(u, mem, i, col)
#define UW_DO_WIDE(u, mem, i)        uw_step_wide(u, mem, i)
#define UW_DO_FRAME(u, mem, id)      uw_step_frame(u, mem, id)
#endif

#include "step/step_state.h"
#include "step/step_expr.h"
#include "step/step_rule.h"
#include "step/step_heuristic.h"
#include "step/step_hash.h"

#endif
