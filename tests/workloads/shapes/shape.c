/* SPDX-License-Identifier: Apache-2.0 */
#include "shape.h"

#include <stdarg.h>

char shape_more[256];
uint64_t shape_until_ns;
const char *shape_file;

void shape_die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	_exit(1);
}

/* The words of a text, as members of a JSON array. */
static void print_words(const char *text, bool more)
{
	while (*text) {
		size_t n = strcspn(text, " ");

		printf("%s\"%.*s\"", more ? ", " : "", (int)n, text);
		more = true;
		text += n + (text[n] == ' ');
	}
}

static void publish(const struct shape *s)
{
	printf("{\"shape\": \"%s\", \"pid\": %d, \"chains\": [", s->name, (int)getpid());
	for (size_t i = 0; s->chains[i]; i++) {
		fputs(i ? ", [" : "[", stdout);
		print_words(s->chains[i], false);
		print_words(s->below ? s->below : "shape_run main", s->chains[i][0] != '\0');
		putchar(']');
	}
	printf("]%s}\n", shape_more);
	fflush(stdout);
}

WL_FUNC void shape_run(const struct shape *s)
{
	do {
		s->work();
	} while (wl_now_ns() < shape_until_ns);
}

const struct shape *shape_begin(int argc, char **argv, const struct shape *const *lists)
{
	double seconds = 10;
	const char *name = NULL;
	bool list = false;
	const struct wl_opt opts[] = {
	        WL_OPT_SECONDS(seconds),
	        {.name = "shape", .text = &name},
	        {.name = "file", .text = &shape_file},
	        {.name = "list", .flag = &list},
	        WL_OPT_END,
	};
	const struct shape *found = NULL;

	wl_options(argc, argv, opts);
	for (; *lists; lists++)
		for (const struct shape *s = *lists; s->name; s++) {
			if (list)
				puts(s->name);
			if (name && strcmp(s->name, name) == 0)
				found = s;
		}
	if (list)
		exit(0);
	if (!found)
		shape_die("%s: no shape of that name", argv[0]);
	shape_until_ns = wl_now_ns() + wl_seconds_ns(seconds);
	if (found->begin)
		found->begin();
	wl_ready();
	publish(found);
	return found;
}
