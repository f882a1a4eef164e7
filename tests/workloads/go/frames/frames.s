// SPDX-License-Identifier: Apache-2.0
// A function without a body needs an assembly file alongside it.
