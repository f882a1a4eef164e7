/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Demangling with libiberty, through its callbacks, which need no memory of their own. Mangled
 * names refer back to their parts, so a short hostile one can print for ever. The callbacks cannot
 * stop that except by longjmp. The C++ demangler holds nothing but stack. The Rust one holds memory
 * while it passes on an identifier that it decoded from punycode, the only text that is not ASCII.
 * So the callback waits for the next piece then.
 */
#include <setjmp.h>

#include <libiberty/demangle.h>
#undef ARRAY_SIZE /* libiberty.h has one too */

#include "symbolize/symbolize_priv.h"

struct output {
	struct sbuf *b;
	size_t max_len; /* value of b->len */
	bool over;
	jmp_buf enough;
};

static bool is_ascii(const char *p, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if ((unsigned char)p[i] >= 0x80)
			return false;
	}
	return true;
}

static void take_piece(const char *p, size_t len, void *arg)
{
	struct output *o = arg;

	if (!o->over && (len > o->max_len - o->b->len || sbuf_add(o->b, p, len) < 0))
		o->over = true;
	if (o->over && is_ascii(p, len))
		longjmp(o->enough, 1);
}

static bool demangle(const char *name, struct output *o)
{
	const size_t before = o->b->len;

	if (setjmp(o->enough) != 0)
		return false;
	/* Rust's old mangling is also valid C++ with a hash at its end, so Rust is tried first. */
	if (rust_demangle_callback(name, 0, take_piece, o) && !o->over)
		return true;
	if (o->over)
		return false;
	o->b->len = before; /* text that it printed before it gave up */
	return cplus_demangle_v3_callback(name, DMGL_PARAMS | DMGL_ANSI, take_piece, o) && !o->over;
}

/* gfortran's "__module_MOD_procedure" as "module::procedure". Names are in lower case, so that no
 * module's name contains "_MOD_". */
static int demangle_fortran(const char *name, struct sbuf *b)
{
	const char *mod = strstr(name, "_MOD_");

	if (!str_starts(name, "__") || !mod || mod == name + 1 || !mod[5])
		return -ENOENT;
	(void)sbuf_add(b, name + 2, (size_t)(mod - name - 2));
	(void)sbuf_str(b, "::");
	return sbuf_str(b, mod + 5);
}

int sym_demangle(const char *name, struct sbuf *b)
{
	const size_t before = b->len;
	struct output o = {.b = b, .max_len = before + SYM_DEMANGLED_MAX};

	if (str_starts(name, "__") && strstr(name, "_MOD_"))
		return b->err ? b->err : demangle_fortran(name, b);
	if (!str_starts(name, "_Z") && !str_starts(name, "_R") && !str_starts(name, "_GLOBAL_"))
		return -ENOENT;
	if (strnlen(name, SYM_MANGLED_MAX + 1) > SYM_MANGLED_MAX)
		return -ENOENT;
	if (b->err)
		return b->err;
	if (demangle(name, &o) && b->len > before)
		return 0;
	if (b->err)
		return b->err;
	if (b->p) {
		b->len = before;
		b->p[before] = 0;
	}
	return -ENOENT;
}
