/* SPDX-License-Identifier: Apache-2.0 */
/* fortran - the loop of matmul.f90. */
#include "shape.h"

void fortran_loop(int n);

static void fortran_work(void)
{
	fortran_loop(180);
	wl_sink++;
}
static const char *const fortran_chains[] = {"fortran_loop fortran_work", NULL};
static const struct shape shapes_fortran[] = {
        {.name = "matmul", .work = fortran_work, .chains = fortran_chains},
        {.name = NULL},
};

int main(int argc, char **argv)
{
	const struct shape *const lists[] = {shapes_fortran, NULL};

	shape_run(shape_begin(argc, argv, lists));
	return 0;
}
