/* SPDX-License-Identifier: Apache-2.0 */
/* cli_suggest.c - what an unknown word of the command line was probably meant to be; pure */
#include "cli_priv.h"

#include <string.h>

enum {
	NAME_BYTES_MAX = 32, /* of an option that can be suggested */
	PART_BYTES_MIN = 4,  /* of a word that is part of a name: "rate" */
};

/* Returns the number of letters to insert, remove, replace or swap with their neighbour, to make one
 * of the other; UINT_MAX if one of them is too long. */
static unsigned int distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
	/* rows[i % 3][k]: distance of the first i letters of a to the first k of b */
	unsigned int rows[3][NAME_BYTES_MAX + 1];

	if (a_len > NAME_BYTES_MAX || b_len > NAME_BYTES_MAX)
		return UINT_MAX;
	for (size_t i = 0; i <= a_len; i++) {
		unsigned int *row = rows[i % 3], *above = rows[(i + 2) % 3];

		row[0] = (unsigned int)i;
		for (size_t k = 1; k <= b_len; k++) {
			unsigned int best = row[k - 1] + 1;

			if (i == 0) {
				row[k] = best;
				continue;
			}
			if (above[k] + 1 < best)
				best = above[k] + 1;
			if (above[k - 1] + (a[i - 1] != b[k - 1]) < best)
				best = above[k - 1] + (a[i - 1] != b[k - 1]);
			if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1] &&
			    rows[(i + 1) % 3][k - 2] + 1 < best)
				best = rows[(i + 1) % 3][k - 2] + 1;
			row[k] = best;
		}
	}
	return rows[a_len % 3][b_len];
}

/* Returns name @i, NULL past the last. */
typedef const char *(*name_fn)(const char *command, size_t i);

/* Returns the name with the least distance, up to a third of the word, and 2. */
static const char *nearest(name_fn name, const char *command, const char *word, size_t len)
{
	unsigned int least = len < 6 ? 1 : 2;
	const char *best = NULL;

	for (size_t i = 0; name(command, i); i++) {
		unsigned int d = distance(word, len, name(command, i), strlen(name(command, i)));

		if (d < least || (d == least && !best)) {
			least = d;
			best = name(command, i);
		}
	}
	return best;
}

/* Returns the first name that begins with the word, else the only one that contains it. */
static const char *containing(name_fn name, const char *command, const char *word, size_t len)
{
	const char *part = NULL;
	size_t parts = 0;

	for (size_t i = 0; name(command, i); i++) {
		if (len > 1 && !strncmp(name(command, i), word, len))
			return name(command, i);
		if (len >= PART_BYTES_MIN &&
		    memmem(name(command, i), strlen(name(command, i)), word, len)) {
			part = name(command, i);
			parts++;
		}
	}
	return parts == 1 ? part : NULL;
}

/* Words of other profilers. */
static const struct {
	const char *word, *option;
} others[] = {
        {"all-cpus", "all"},    {"call-graph", "unwind"},
        {"filename", "output"}, {"frequency", "sample-rate"},
        {"record", "profile"},  {"seconds", "duration"},
        {"stat", "pmu"},        {"time", "duration"},
};

const char *cli_suggest_option(const char *command, const char *word, size_t len)
{
	const char *found = len > 1 ? nearest(cli_option_shown, command, word, len) : NULL;

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]) && !found && !command; i++)
		if (strlen(others[i].word) == len && !memcmp(others[i].word, word, len))
			found = others[i].option;
	return found ? found : containing(cli_option_shown, command, word, len);
}

const char *cli_suggest_command(const char *word)
{
	return strlen(word) > 1 ? nearest(cli_command_shown, NULL, word, strlen(word)) : NULL;
}
