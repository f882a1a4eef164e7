/* SPDX-License-Identifier: Apache-2.0 */
/* cli_suffix.c - the end of a file's name and the format of the file; pure */
#include "cli_priv.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

/* A row for each suffix; @products: those that have files of this kind, a bit each. */
static const struct {
	const char *end, *format;
	uint32_t products;
} suffixes[] = {
        {".pb.gz", "pprof", 1u << CLI_PROFILE | 1u << CLI_OFFCPU},
        {".html", "flame graph", 1u << CLI_FLAME},
        {".svg", "flame graph", 1u << CLI_FLAME},
        {".folded", "folded stacks", 1u << CLI_FOLDED},
        {".txt", "folded stacks, or the text of --pmu", 1u << CLI_FOLDED | 1u << CLI_METRICS},
        {".data", "perf.data", 1u << CLI_PERF},
        {".json", "JSON of --pmu", 1u << CLI_METRICS | 1u << CLI_QUALITY},
};
#define SUFFIX_CNT (sizeof(suffixes) / sizeof(suffixes[0]))

bool cli_suffix_is(const char *s, const char *end)
{
	size_t len = strlen(s), end_len = strlen(end);

	return len > end_len && !strcasecmp(s + len - end_len, end);
}

/* Returns the row of this path; SUFFIX_CNT: none. */
static size_t find(const char *path)
{
	size_t i = 0;

	while (i < SUFFIX_CNT && !cli_suffix_is(path, suffixes[i].end))
		i++;
	return i;
}

/* Whether the selected modes can have this product. */
static bool is_possible(const struct cli_options *o, enum cli_product p)
{
	return p < CLI_FLAME ? o->on[p] : o->on[CLI_PROFILE] || o->on[CLI_OFFCPU];
}

static int refuse_unknown(const char *path, char *message)
{
	char list[256] = "";

	for (size_t i = 0; i < SUFFIX_CNT; i++) {
		size_t len = strlen(list);

		(void)snprintf(list + len, sizeof(list) - len, "%s%s (%s)", i ? ", " : "",
		               suffixes[i].end, suffixes[i].format); /* fits */
	}
	return cli_refuse(message, "--output: the end of '%.128s' selects no format; use %s", path,
	                  list);
}

static const char *mode_of(enum cli_product p)
{
	return p == CLI_METRICS ? "--pmu" : p == CLI_OFFCPU ? "--offcpu" : "--profile";
}

/* @products: those that the path can be of. Sets *@ret to the only one that the modes have. */
static int select_one(const struct cli_options *o, uint32_t products, enum cli_product *ret,
                      char *message)
{
	enum cli_product first = CLI_PRODUCT_CNT, any = CLI_PRODUCT_CNT;

	for (int i = 0; i < CLI_PRODUCT_CNT; i++) {
		const enum cli_product p = (enum cli_product)i;

		if (!(products >> i & 1))
			continue;
		any = any == CLI_PRODUCT_CNT ? p : any;
		if (!is_possible(o, p))
			continue;
		if (first != CLI_PRODUCT_CNT)
			return cli_refuse(message,
			                  "--output: '%s' could be %s or %s; give these instead",
			                  o->extra.common, cli_product_option(first),
			                  cli_product_option(p));
		first = p;
	}
	if (first == CLI_PRODUCT_CNT)
		return cli_refuse(message, "--output: '%s' is the name of an output of %s%s",
		                  o->extra.common, mode_of(any),
		                  any == CLI_METRICS ? "" : " or --offcpu");
	*ret = first;
	return 0;
}

int cli_suffix_select(struct cli_options *o, uint64_t given, char message[CLI_MESSAGE_MAX])
{
	const char *path = o->extra.common;
	const uint32_t own = 1u << CLI_PROFILE | 1u << CLI_OFFCPU | 1u << CLI_METRICS;
	enum cli_product p = CLI_PROFILE; /* gcc 12 does not see that cli_refuse() is negative */
	bool named = strcmp(path, "-") != 0 && strcmp(path, "auto") != 0;
	size_t row = find(path);
	int rc;

	if (named && row == SUFFIX_CNT)
		return refuse_unknown(path, message);
	rc = select_one(o, named ? suffixes[row].products & ~(1u << CLI_QUALITY) : own, &p,
	                message);
	if (rc < 0)
		return rc;
	if (o->output[p])
		return cli_refuse(message, "--output and %s: both name the %s; give one of them",
		                  cli_product_option(p), cli_product_name(p));
	if (p == CLI_METRICS && !(given >> OPT_PMU_FORMAT & 1) && cli_suffix_is(path, ".json"))
		o->pmu_format = PFA_FORMAT_JSON;
	for (int i = 0; i < CLI_METRICS; i++)
		o->extra.no_file[i] = o->on[i] && p >= CLI_FLAME && !o->output[i];
	o->on[p] = true;
	o->output[p] = path;
	return 0;
}

int cli_suffix_check(const struct cli_options *o, enum cli_product p, char message[CLI_MESSAGE_MAX])
{
	const char *path = o->output[p];
	const bool json = o->pmu_format == PFA_FORMAT_JSON;
	size_t row = path ? find(path) : SUFFIX_CNT;
	enum cli_product other = CLI_PROFILE;

	if (row == SUFFIX_CNT)
		return 0;
	if (p == CLI_METRICS && json != cli_suffix_is(path, ".json") &&
	    suffixes[row].products >> p & 1)
		return cli_refuse(message, "--pmu-output: '%s' does not fit --pmu-format %s", path,
		                  json ? "json" : "text");
	if (suffixes[row].products >> p & 1)
		return 0;
	while (!(suffixes[row].products >> other & 1))
		other = (enum cli_product)(other + 1);
	return cli_refuse(message, "%s: '%s' is the name of another format; %s writes %s files",
	                  cli_product_option(p), path, cli_product_option(other),
	                  suffixes[row].end);
}
