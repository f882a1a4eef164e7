/* SPDX-License-Identifier: Apache-2.0 */
/* exceptions - those of throw.cc; the functions of the C++ library and of libgcc are above the
 * published ones. */
#include "shape.h"

void throw_catch(void);

static void throw_work(void)
{
	throw_catch();
	wl_sink++;
}
static const char *const throw_chains[] = {
        "throw_now throw_d throw_c throw_b throw_a throw_catch throw_work",
        NULL,
};
static const struct shape shapes_throw[] = {
        {.name = "throw", .work = throw_work, .chains = throw_chains},
        {.name = NULL},
};

int main(int argc, char **argv)
{
	const struct shape *const lists[] = {shapes_throw, NULL};

	shape_run(shape_begin(argc, argv, lists));
	return 0;
}
