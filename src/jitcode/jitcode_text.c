/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Function names as runtimes write them: V8, CPython, LuaJIT, the JVM and its agents, .NET. Any
 * other text is the name unchanged.
 */
#include "jitcode/jitcode_priv.h"

/* Removes digits at the end of text[0 … *len) and the ':' before them; false if there are none. */
static bool take_number(const char *text, size_t *len, uint32_t *ret)
{
	size_t at = *len;
	uint64_t v = 0, unit = 1;

	while (at > 0 && text[at - 1] >= '0' && text[at - 1] <= '9' && *len - at < 9) {
		v += unit * (uint64_t)(text[--at] - '0');
		unit *= 10;
	}
	if (at == *len || at < 2 || text[at - 1] != ':')
		return false;
	*len = at - 1;
	*ret = (uint32_t)v;
	return true;
}

/* Parses FILE:LINE:COLUMN or FILE:LINE. Returns the length of the file, 0 if it is neither. */
static size_t file_position(const char *text, size_t len, uint32_t *ret_line, uint32_t *ret_column)
{
	uint32_t last, before;

	if (!take_number(text, &len, &last))
		return 0;
	*ret_line = last;
	*ret_column = 0;
	if (take_number(text, &len, &before)) {
		*ret_line = before;
		*ret_column = last;
	}
	return len;
}

/* ---- V8 -------------------------------------------------------------------------------------- */

/* After these come the tier, the function and its location. The rest of V8's kinds (Builtin, Code,
 * Script, Stub, Handler, BytecodeHandler, RegExp) are shown as they are. */
static const char *const js_kinds[] = {
        "JS:", "LazyCompile:", "Function:", "Eval:", "InterpretedFunction:"};

/* Could a path or a URL begin here? */
static bool file_begins(const char *p, const char *end)
{
	static const char *const starts[] = {"/", "./", "../", "[eval", "<anonymous>", "native "};
	const char *q = p;

	for (size_t i = 0; i < ARRAY_SIZE(starts); i++)
		if (str_starts(p, starts[i]))
			return true;
	/* node:fs, file:///x.js, evalmachine.<anonymous>:1, webpack-internal:///x */
	while (q < end && ((*q >= 'a' && *q <= 'z') || (q > p && strchr("+-.0123456789", *q))))
		q++;
	return q - p > 1 && q < end && (*q == ':' || str_starts(p, "evalmachine."));
}

/* Names have blanks, "get size", and so have paths: the file begins at the first word that looks
 * like one, else at the last. */
static const char *js_file(const char *text, const char *end)
{
	const char *last = NULL;

	for (const char *p = text; p < end; p++) {
		if (*p != ' ')
			continue;
		if (file_begins(p + 1, end))
			return p + 1;
		last = p + 1;
	}
	return last;
}

static bool js_split(const char *text, struct sbuf *name, struct sbuf *file, uint32_t *line,
                     uint32_t *column)
{
	const char *p = NULL, *path = NULL;
	size_t len, n;

	for (size_t i = 0; i < ARRAY_SIZE(js_kinds) && !p; i++)
		if (str_starts(text, js_kinds[i]))
			p = text + strlen(js_kinds[i]);
	if (!p)
		return false;
	/* The tier: interpreter, baseline, two optimizers ("*'" is a variant of one). It stays in
	 * the linkage name: a function is one, however it was compiled. */
	if (str_starts(p, "o+") || str_starts(p, "o*"))
		p++;
	if (*p == '~' || *p == '^' || *p == '*' || *p == '+') {
		p++;
		if (*p == '\'' && (p[-1] == '*' || p[-1] == '+'))
			p++;
	}
	len = strlen(p);
	n = file_position(p, len, line, column);
	if (n)
		path = js_file(p, p + n);
	if (path) {
		(void)sbuf_add(file, path, (size_t)(p + n - path));
		len = (size_t)(path - 1 - p);
	} else {
		*line = *column = 0;
	}
	while (len && p[len - 1] == ' ')
		len--;
	if (len)
		(void)sbuf_add(name, p, len);
	else
		(void)sbuf_str(name, "(anonymous)");
	return true; /* failures stick in the buffers */
}

/* ---- CPython, LuaJIT ------------------------------------------------------------------------- */

/* py::QUALNAME:/FILE; modules of the interpreter itself have no file. */
static bool py_split(const char *text, struct sbuf *name, struct sbuf *file)
{
	const char *path = NULL;

	if (!str_starts(text, "py::"))
		return false;
	for (const char *p = text; (p = strstr(p, ":/")); p++)
		path = p;
	if (!path || path <= text + 4)
		return false;
	(void)sbuf_add(name, text, (size_t)(path - text));
	(void)sbuf_str(file, path + 1);
	return true;
}

/* TRACE_12::file.lua:34 */
static bool lua_split(const char *text, struct sbuf *name, struct sbuf *file, uint32_t *line)
{
	const char *path = strstr(text, "::");
	size_t n;

	if (!str_starts(text, "TRACE_") || !path)
		return false;
	n = strlen(path + 2);
	if (!take_number(path + 2, &n, line)) {
		*line = 0;
		return false;
	}
	(void)sbuf_add(name, text, (size_t)(path - text));
	(void)sbuf_add(file, path + 2, n);
	return true;
}

/* ---- JVM, .NET ------------------------------------------------------------------------------- */

/* Lpkg/Class;::method, as agents write it: pkg.Class::method */
static bool jvm_split(const char *text, struct sbuf *name)
{
	const char *end = strstr(text, ";::");

	if (text[0] != 'L' || !end || end == text + 1)
		return false;
	for (const char *p = text + 1; p < end; p++)
		if (*p == ' ' || *p == '(')
			return false;
	for (const char *p = text + 1; p < end; p++)
		(void)sbuf_char(name, *p == '/' ? '.' : *p);
	(void)sbuf_str(name, end + 1);
	return true;
}

/* RETURN TYPE [ASSEMBLY] Type::Method(ARGUMENTS)[TIER]: Type::Method(ARGUMENTS) */
static bool net_split(const char *text, struct sbuf *name)
{
	static const char *const tiers[] = {"[Tier0]",
	                                    "[Tier-0]",
	                                    "[Tier1]",
	                                    "[Tier-1]",
	                                    "[OptimizedTier1]",
	                                    "[OptimizedTier1OSR]",
	                                    "[Tier1-OSR]",
	                                    "[InstrumentedTier0]",
	                                    "[InstrumentedTier1]",
	                                    "[Instrumented]",
	                                    "[Optimized]",
	                                    "[MinOptimized]",
	                                    "[QuickJitted]",
	                                    "[PreJIT]",
	                                    "[ReadyToRun]",
	                                    "[Unknown]"};
	size_t len = strlen(text);
	const char *p, *args;

	for (size_t i = 0; i < ARRAY_SIZE(tiers); i++) {
		size_t n = strlen(tiers[i]);

		if (len > n && strcmp(text + len - n, tiers[i]) == 0) {
			len -= n;
			break;
		}
	}
	args = strchr(text, '(');
	if (!text[len] || !args || args >= text + len)
		return false;
	/* The assembly is the last bracket that ends before the method's type. */
	p = text;
	for (const char *q = text; q + 1 < args; q++)
		if (q[0] == ']' && q[1] == ' ')
			p = q + 2;
	if (p == text || !strstr(p, "::"))
		return false;
	(void)sbuf_add(name, p, (size_t)(text + len - p));
	return true;
}

int jitcode_name_split(const char *text, struct sbuf *ret_name, struct sbuf *ret_file,
                       uint32_t *ret_line, uint32_t *ret_column)
{
	sbuf_reset(ret_name);
	sbuf_reset(ret_file);
	*ret_line = *ret_column = 0;
	if (!js_split(text, ret_name, ret_file, ret_line, ret_column) &&
	    !py_split(text, ret_name, ret_file) && !lua_split(text, ret_name, ret_file, ret_line) &&
	    !jvm_split(text, ret_name) && !net_split(text, ret_name))
		(void)sbuf_str(ret_name, text);
	/* The text was bounded when it was read. */
	return ret_name->err ? ret_name->err : ret_file->err;
}
