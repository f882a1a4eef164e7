/* SPDX-License-Identifier: Apache-2.0 */
/* The owner of code: the one rule for all tables of functions. */
#include "profile/profile.h"

static bool starts_with_one(const char *s, const char *const *prefixes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (str_starts(s, prefixes[i]))
			return true;
	return false;
}

/* Libraries that work, and block, on behalf of every program: their caller counts. */
static bool is_system(const char *path)
{
	static const char *const names[] = {
	        "libc.so",       "libc-2.",   "libc.musl",    "ld-linux",   "ld-musl",
	        "ld-2.",         "ld64.so",   "ld.so",        "libpthread", "librt.so",
	        "librt-2.",      "libm.so",   "libdl.so",     "libdl-2.",   "libgcc_s.so",
	        "libstdc++.so.", "libc++.so", "libc++abi.so", "[vdso]",
	};

	return starts_with_one(str_base_name(path), names, ARRAY_SIZE(names));
}

/* Programs and libraries that run the code of others. */
static bool is_runtime_file(const char *path)
{
	static const char *const names[] = {
	        "libjvm.so", "libcoreclr.so", "libclrjit.so", "libpython",
	        "python3",   "libnode.so",    "libruby",      "ruby",
	        "libperl",   "perl",          "libluajit",    "luajit",
	        "libmono",   "php",           "libphp",       "libjli.so",
	};
	const char *base = str_base_name(path);

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		size_t len = strlen(names[i]);

		/* "perl5.36" and "libperl.so", but not "perlin". */
		if (str_starts(base, names[i]) && !(base[len] >= 'a' && base[len] <= 'z'))
			return true;
	}
	return strcmp(base, "node") == 0;
}

/* The same by name alone: below main, and below threads. */
static bool is_start(const char *name)
{
	static const char *const names[] = {
	        "_start",       "__clone",  "clone",          "clone3",
	        "start_thread", "JavaMain", "ThreadJavaMain",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

/* Code that a JVM makes for itself, as its map of names has it. */
static bool is_jvm_stub(const char *path, const char *name)
{
	static const char *const prefixes[] = {"Interpreter",  "interpreter", "call_stub",
	                                       "StubRoutines", "vtable stub", "itable stub"};

	/* "StubRoutines (1)"; names of methods have dots or colons. */
	return strcmp(path, "[jit]") == 0 &&
	       starts_with_one(name, prefixes, ARRAY_SIZE(prefixes)) && !strpbrk(name, ".:;");
}

/* Functions that are compiled into programs and are not theirs. */
static bool is_wrapper(const char *name)
{
	static const char *const prefixes[] = {
	        "std::",         "void std::", "bool std::", "__gnu_cxx::", "__gthread_",
	        "core::",        "alloc::",    "<std::",     "<core::",     "<alloc::",
	        "__rust_",       "runtime.",   "runtime/",   "internal/",   "sync.",
	        "syscall.",      "time.Sleep", "pthread_",   "__pthread_",  "sem_wait",
	        "sem_timedwait", "__futex_",   "__syscall",  "PyThread_",   "_PyEval_",
	        "__libc_",       "_dl_",
	};

	return starts_with_one(name, prefixes, ARRAY_SIZE(prefixes));
}

enum prof_owner prof_owner(const char *path, const char *name)
{
	if (strcmp(path, "[kernel]") == 0)
		return PROF_KERNEL;
	if (!*path || is_system(path))
		return PROF_SYSTEM;
	return is_wrapper(name) || is_start(name) || is_jvm_stub(path, name) ||
	                       is_runtime_file(path)
	               ? PROF_RUNTIME
	               : PROF_OWN;
}

bool prof_is_evaluator(const char *name)
{
	static const char *const prefixes[] = {"_PyEval_", "Builtins_InterpreterEntryTrampoline"};

	return starts_with_one(name, prefixes, ARRAY_SIZE(prefixes));
}
