/* SPDX-License-Identifier: Apache-2.0 */
/*
 * byhand - a stack of its own that ends with a return address that was put there by hand: to the
 * very start of a function without a caller. What is before that start has no rule.
 *
 * In the second half of the run the time goes on above a function of a library. Its table is not
 * there when the deferred sample meets it, while that of this program is: nothing that is found out
 * about the end of the stack in that moment may be kept, since it is not asked whether it is one.
 */
#include "shape.h"

#include <sys/mman.h>

#define STACK_BYTES (256 << 10)
/* More than what is copied of a stack, so that the kernel walks it as well. */
#define ABOVE_BYTES (64 << 10)

uint64_t plug_small(uint64_t (*fn)(uint64_t), uint64_t arg);

/* Calls @fn on the stack that ends at @top. */
void byhand_call(void (*fn)(void), void *top);
__attribute__((visibility("hidden"))) uint64_t byhand_saved_sp;
__asm__("	.text\n"
        "	.globl byhand_call\n"
        "	.hidden byhand_call\n"
        "	.type byhand_call, @function\n"
        "byhand_call:\n"
        "	.cfi_startproc\n"
        "	mov %rsp, byhand_saved_sp(%rip)\n"
        "	mov %rsi, %rsp\n"
        "	lea byhand_root(%rip), %rax\n"
        "	push %rax\n"
        "	jmp *%rdi\n"
        "	.cfi_endproc\n"
        "	.size byhand_call, . - byhand_call\n"
        "	.space 16, 0x90\n"
        "	.type byhand_root, @function\n"
        "byhand_root:\n"
        "	.cfi_startproc\n"
        "	.cfi_undefined rip\n"
        "	mov byhand_saved_sp(%rip), %rsp\n"
        "	ret\n"
        "	.cfi_endproc\n"
        "	.size byhand_root, . - byhand_root\n");

static uint64_t half_ns;
static char *stack;

WL_FUNC static void byhand_first(void)
{
	uint64_t now;

	do {
		now = wl_now_ns();
		if (now < half_ns)
			wl_sink += shape_spin(SHAPE_BATCHES);
		else
			wl_sink += plug_small(shape_spin, SHAPE_BATCHES);
	} while (now < shape_until_ns);
}
static void byhand_work(void)
{
	byhand_call(byhand_first, stack + STACK_BYTES - ABOVE_BYTES);
}
static void byhand_begin(void)
{
	uint64_t now = wl_now_ns();

	stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
	             MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (stack == MAP_FAILED)
		shape_die("mmap: %s", strerror(errno));
	/* No page of it is absent. */
	memset(stack, 1, STACK_BYTES);
	half_ns = now + (shape_until_ns - now) / 2;
}
static const char *const byhand_chains[] = {
        "shape_spin byhand_first",
        "shape_spin plug_small byhand_first",
        NULL,
};

static const struct shape shapes_byhand[] = {
        {.name = "byhand",
         .work = byhand_work,
         .begin = byhand_begin,
         .chains = byhand_chains,
         .below = ""},
        {.name = NULL},
};

int main(int argc, char **argv)
{
	const struct shape *const lists[] = {shapes_byhand, NULL};

	shape_run(shape_begin(argc, argv, lists));
	return 0;
}
