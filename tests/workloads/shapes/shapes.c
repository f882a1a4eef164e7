/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shapes - one program with the shapes that need nothing but a C library: frames.c, signals.c,
 * tasks.c and, on x86-64, asm.c. It is built by several compilers, statically and dynamically.
 */
#include "shape.h"

int main(int argc, char **argv)
{
	const struct shape *const lists[] = {
		shapes_frames,
		shapes_signals,
		shapes_tasks,
#if defined(__x86_64__)
		shapes_asm,
#endif
		NULL,
	};

	shape_run(shape_begin(argc, argv, lists));
	return 0;
}
