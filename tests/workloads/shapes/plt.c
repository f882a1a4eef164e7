/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plt - calls of tiny functions of a library, through the procedure linkage table.
 *
 * plt: the stubs are a good part of the time. plt-resolve (lazy binding only): before each call the
 * slot in the global offset table gets its first value back, so that the call goes through the
 * second half of the stub, the table's first entry and the dynamic linker.
 */
#include "shape.h"

#include <elf.h>
#include <link.h>

uint64_t plug_tiny(uint64_t x);
uint64_t plug_other(uint64_t x);

WL_FUNC static uint64_t plt_loop(uint64_t n)
{
	uint64_t x = n;

	for (uint64_t i = 0; i < n; i++)
		x = plug_other(plug_tiny(x));
	return x;
}
static void plt_work(void)
{
	wl_sink += plt_loop(100000);
}
static const char *const plt_chains[] = {"plug_tiny plt_loop plt_work",
                                         "plug_other plt_loop plt_work", NULL};

/* ---- resolved again and again ---------------------------------------------------------------- */

static volatile uint64_t *resolve_slot;
static uint64_t resolve_first;

/* The slot of plug_tiny, before anything has called it. */
static void resolve_begin(void)
{
	const ElfW(Rela) *rel = NULL;
	const ElfW(Sym) *sym = NULL;
	const char *str = NULL;
	size_t n = 0;

	for (const ElfW(Dyn) *d = _DYNAMIC; d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_JMPREL)
			rel = (const ElfW(Rela) *)d->d_un.d_ptr;
		else if (d->d_tag == DT_PLTRELSZ)
			n = d->d_un.d_val / sizeof(*rel);
		else if (d->d_tag == DT_SYMTAB)
			sym = (const ElfW(Sym) *)d->d_un.d_ptr;
		else if (d->d_tag == DT_STRTAB)
			str = (const char *)d->d_un.d_ptr;
	}
	if (!rel || !sym || !str)
		shape_die("no table of stubs");
	for (size_t i = 0; i < n; i++)
		if (strcmp(str + sym[ELF64_R_SYM(rel[i].r_info)].st_name, "plug_tiny") == 0)
			resolve_slot =
			        (volatile uint64_t *)(_r_debug.r_map->l_addr + rel[i].r_offset);
	if (!resolve_slot)
		shape_die("no stub of plug_tiny");
	resolve_first = *resolve_slot;
}
WL_FUNC static uint64_t resolve_loop(uint64_t n)
{
	uint64_t x = n;

	for (uint64_t i = 0; i < n; i++) {
		*resolve_slot = resolve_first;
		x = plug_tiny(x);
	}
	return x;
}
static void resolve_work(void)
{
	wl_sink += resolve_loop(3000);
}
static const char *const resolve_chains[] = {"plug_tiny resolve_loop resolve_work", NULL};

static const struct shape shapes_plt[] = {
        {.name = "plt", .work = plt_work, .chains = plt_chains},
        {.name = "plt-resolve",
         .work = resolve_work,
         .begin = resolve_begin,
         .chains = resolve_chains},
        {.name = NULL},
};

int main(int argc, char **argv)
{
	const struct shape *const lists[] = {shapes_plt, NULL};

	shape_run(shape_begin(argc, argv, lists));
	return 0;
}
