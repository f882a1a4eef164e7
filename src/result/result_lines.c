/* SPDX-License-Identifier: Apache-2.0 */
/* Quality lines. */
#include "result/result.h"

#include <stdio.h>

int result_line(struct result_lines *l, const char *fmt, ...)
{
	char *line = NULL;
	va_list ap;
	int n;

	if (l->error < 0)
		return l->error;
	l->v.max = RESULT_LINES_MAX;
	va_start(ap, fmt);
	n = vasprintf(&line, fmt, ap);
	va_end(ap);
	l->error = n < 0 ? -ENOMEM : vec_push(&l->v, line);
	if (n >= 0 && l->error < 0)
		free(line);
	return l->error;
}

void result_lines_done(struct result_lines *l)
{
	vec_each (line, &l->v)
		free(*line);
	vec_done(&l->v);
	l->error = 0;
}
