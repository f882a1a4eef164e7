/* SPDX-License-Identifier: Apache-2.0 */
/* cli_options.c - reads the words of the command line; cli_table.c has the options */
#include "cli_priv.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* State of the parser. */
struct parse {
	struct cli_options *o;
	size_t n_tags, n_debug_dirs, n_comms, n_cgroups;
	uint64_t given; /* a bit for each enum cli_opt that differs from its default */
	char *message;  /* CLI_MESSAGE_MAX bytes */
	uint32_t max_rate_hz;
};

/* @name: @len bytes at the end of @word */
static int refuse_unknown(struct parse *p, const char *word, const char *name, size_t len)
{
	const char *command = cli_option_command(name, len), *meant;
	int word_len = (int)(name + len - word);

	if (command)
		return cli_refuse(p->message,
		                  "%.*s is an option of perf-agent %s, not of a capture", word_len,
		                  word, command);
	meant = cli_suggest_option(NULL, name, len);
	if (meant)
		return cli_refuse(p->message, "unknown option %.*s; did you mean --%s?", word_len,
		                  word, meant);
	return cli_refuse(p->message, "unknown option %.*s; perf-agent --help lists all options",
	                  word_len, word);
}

static int read_number(struct parse *p, const char *option, const char *value, uint64_t max,
                       uint32_t *ret)
{
	uint64_t n;

	if (cli_parse_u64(value, &n) < 0 || n < 1 || n > max)
		return cli_refuse(p->message, "--%s: '%s' is not a number from 1 to %llu", option,
		                  value, (unsigned long long)max);
	*ret = (uint32_t)n;
	return 0;
}

/* cli_options_check compares with the limit of the kernel, since the last value counts. */
static int read_rate(struct parse *p, const char *value)
{
	uint64_t n;

	if (cli_parse_u64(value, &n) < 0 || n < 1 || n > UINT32_MAX)
		return cli_refuse(p->message, "--sample-rate: '%s' is not a number from 1 to %u%s",
		                  value, p->max_rate_hz ? p->max_rate_hz : UINT32_MAX,
		                  p->max_rate_hz ? ", the sysctl kernel.perf_event_max_sample_rate"
		                                 : "");
	p->o->sample_rate_hz = (uint32_t)n;
	return 0;
}

/* Adds a copy of @len bytes. */
static int add_name(struct cli_names *list, const char *name, size_t len)
{
	char **v = reallocarray(list->v, list->n + 2, sizeof(*v));

	if (!v)
		return -ENOMEM;
	list->v = v;
	v[list->n] = strndup(name, len);
	if (!v[list->n])
		return -ENOMEM;
	v[++list->n] = NULL;
	return 0;
}

/* Whether @len bytes can only be meant as a number. */
static bool is_number(const char *s, size_t len)
{
	if (len && (*s == '-' || *s == '+'))
		return true;
	return strspn(s, "0123456789") >= len;
}

/* Reads numbers with commas between them. @names: gets words that are no numbers; NULL: refused */
static int read_numbers(struct parse *p, const char *option, const char *value,
                        struct cli_numbers *list, struct cli_names *names)
{
	const char *item = value;
	char one[64];
	int rc = 0;

	for (;;) {
		size_t len = strcspn(item, ",");
		uint32_t number = 0; /* gcc 12 does not see that cli_refuse() is negative */

		(void)snprintf(one, sizeof(one), "%.*s",
		               (int)(len < sizeof(one) ? len : sizeof(one)),
		               item); /* what is cut is not a number either */
		if (!len)
			return cli_refuse(p->message, "--%s: '%.64s' has an empty entry", option,
			                  value);
		if (names && !is_number(item, len)) {
			rc = add_name(names, item, len);
		} else {
			rc = read_number(p, option, one, CLI_PID_MAX, &number);
			if (rc == 0)
				rc = cli_numbers_add(list, (int32_t)number);
		}
		if (rc == -E2BIG)
			rc = cli_refuse(p->message, "--%s: more than %d numbers", option,
			                PFA_PIDS_MAX);
		if (rc < 0 || !item[len])
			return rc;
		item += len + 1;
	}
}

static int read_filter(struct parse *p, const char *option, const char *value, const char **list,
                       size_t *n)
{
	if (!*value)
		return cli_refuse(p->message, "--%s: the value is empty", option);
	if (strlen(value) >= PATH_MAX)
		return cli_refuse(p->message, "--%s: '%.40s...' is longer than %d bytes", option,
		                  value, PATH_MAX - 1);
	if (*n == PFA_FILTERS_MAX)
		return cli_refuse(p->message, "--%s: more than %d values", option, PFA_FILTERS_MAX);
	list[(*n)++] = value;
	return 0;
}

/* @least_ns: 0; 1 if the duration must not be 0 */
static int read_duration(struct parse *p, const char *option, const char *value, int64_t least_ns,
                         uint64_t *ret_ns)
{
	int64_t ns;
	int rc;

	rc = cli_parse_duration(value, &ns);
	if (rc == -ERANGE)
		return cli_refuse(p->message, "--%s: '%s' is longer than 292 years", option, value);
	if (rc < 0)
		return cli_refuse(p->message,
		                  "--%s: '%s' is not a duration such as 10s, 300ms or 1m30s",
		                  option, value);
	if (ns < least_ns)
		return cli_refuse(p->message, "--%s: '%s' is %s", option, value,
		                  least_ns ? "not above 0" : "below 0");
	*ret_ns = (uint64_t)ns;
	return 0;
}

/* Reads states with commas between them. */
static int read_states(struct parse *p, const char *value)
{
	static const struct {
		const char *name;
		uint32_t bit;
	} states[] = {
	        {"interruptible", PFA_STATE_INTERRUPTIBLE},
	        {"uninterruptible", PFA_STATE_UNINTERRUPTIBLE},
	        {"iowait", PFA_STATE_IOWAIT},
	        {"stopped", PFA_STATE_STOPPED},
	        {"preempted", PFA_STATE_PREEMPTED},
	        {"idle", PFA_STATE_IDLE},
	};
	const char *word = value;
	uint32_t bits = 0;

	for (;;) {
		int len = (int)strcspn(word, ",");
		uint32_t bit = 0;

		for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
			if (strlen(states[i].name) == (size_t)len &&
			    !memcmp(states[i].name, word, (size_t)len))
				bit = states[i].bit;
		if (!bit)
			return cli_refuse(p->message,
			                  "--offcpu-states: '%.*s' is none of interruptible, "
			                  "uninterruptible, iowait, stopped, preempted and idle",
			                  len, word);
		bits |= bit;
		if (!word[len])
			break;
		word += len + 1;
	}
	p->o->offcpu_states = bits;
	return 0;
}

static int read_format(struct parse *p, const char *value)
{
	if (!strcmp(value, "text"))
		p->o->pmu_format = PFA_FORMAT_TEXT;
	else if (!strcmp(value, "json"))
		p->o->pmu_format = PFA_FORMAT_JSON;
	else
		return cli_refuse(p->message, "--pmu-format: '%s' is neither text nor json", value);
	return 0;
}

/* A second file would take the place of the first one, which is then missing. */
static int read_path(struct parse *p, const char *option, const char *value, const char **ret)
{
	if (!*value)
		return cli_refuse(p->message, "%s: the path is empty", option);
	if (*ret && strcmp(*ret, value) != 0)
		return cli_refuse(p->message, "%s is given twice, with '%s' and with '%s'", option,
		                  *ret, value);
	*ret = value;
	return 0;
}

static int read_common_output(struct parse *p, const char *value)
{
	return read_path(p, "--output", value, &p->o->extra.common);
}

static int read_output(struct parse *p, enum cli_product product, const char *value)
{
	return read_path(p, cli_product_option(product), value, &p->o->output[product]);
}

static int read_compress(struct parse *p, const char *value)
{
	if (strcmp(value, "none") != 0 && strcmp(value, "zstd") != 0)
		return cli_refuse(p->message, "--perf-data-compress: '%s' is neither none nor zstd",
		                  value);
	p->o->extra.perf_compress = strcmp(value, "zstd") == 0; /* level 1, as perf record -z */
	return 0;
}

static int read_root(struct parse *p, const char *value)
{
	static const char *const roots[] = {
	        [PFA_ROOT_NONE] = "none",
	        [PFA_ROOT_PROCESS] = "process",
	        [PFA_ROOT_THREAD] = "thread",
	};

	for (uint32_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++) {
		if (!strcmp(value, roots[i])) {
			p->o->extra.folded_root = i;
			return 0;
		}
	}
	return cli_refuse(p->message, "--folded-root: '%s' is none of none, process and thread",
	                  value);
}

static int read_event(struct parse *p, const char *value)
{
	static const struct {
		const char *name;
		enum pfa_event event;
	} events[] = {
	        {"cpu-clock", PFA_EVENT_CPU_CLOCK},
	        {"cycles", PFA_EVENT_CYCLES},
	        {"auto", PFA_EVENT_AUTO},
	};

	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
		if (!strcmp(value, events[i].name)) {
			p->o->event = events[i].event;
			return 0;
		}
	}
	return cli_refuse(p->message, "--event: '%s' is none of cpu-clock, cycles and auto", value);
}

static int read_unwind(struct parse *p, const char *value)
{
	static const struct {
		const char *name;
		enum pfa_unwind unwind;
	} modes[] = {
	        {"auto", PFA_UNWIND_AUTO},
	        {"dwarf", PFA_UNWIND_DWARF},
	        {"fp", PFA_UNWIND_FP},
	};

	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (!strcmp(value, modes[i].name)) {
			p->o->unwind = modes[i].unwind;
			return 0;
		}
	}
	return cli_refuse(p->message, "--unwind: '%s' is none of auto, dwarf and fp", value);
}

/* Reads a size from 1M to @max_g gigabytes. */
static int read_budget(struct parse *p, const char *option, const char *value, uint64_t max_g,
                       uint64_t *ret)
{
	uint64_t bytes;

	if (cli_parse_size(value, &bytes) < 0 || bytes < 1ull << 20 || bytes > max_g << 30)
		return cli_refuse(p->message,
		                  "--%s: '%s' is not a size from 1M to %lluG; a size is a number, "
		                  "in bytes or followed by K, M or G",
		                  option, value, (unsigned long long)max_g);
	*ret = bytes;
	return 0;
}

static int read_debug_dir(struct parse *p, const char *value)
{
	if (!*value)
		return cli_refuse(p->message, "--debug-dir: the path is empty");
	if (p->n_debug_dirs == CLI_DEBUG_DIRS_MAX)
		return cli_refuse(p->message, "--debug-dir: more than %d directories",
		                  CLI_DEBUG_DIRS_MAX);
	p->o->debug_dirs[p->n_debug_dirs++] = value;
	return 0;
}

static int read_tag(struct parse *p, const char *value)
{
	const char *equals = strchr(value, '=');

	if (!equals || equals == value)
		return cli_refuse(p->message, "--tag: '%s' is not of the form key=value", value);
	for (const char *c = value; *c; c++) {
		/* A comment of the profile is one line. */
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			return cli_refuse(p->message, "--tag: '%s' contains a control character",
			                  value);
	}
	p->o->tags[p->n_tags++] = value;
	return 0;
}

/* Returns: 0, -EINVAL, or the action to take at once. */
static int apply(struct parse *p, const struct cli_option_row *row, const char *value, bool yes)
{
	struct cli_options *o = p->o;

	if (!value)
		value = ""; /* of a boolean */
	switch (row->id) {
	case OPT_PROFILE:
		o->on[CLI_PROFILE] = yes;
		return 0;
	case OPT_OFFCPU:
		o->on[CLI_OFFCPU] = yes;
		return 0;
	case OPT_PMU:
	case OPT_SCHED:
		o->on[CLI_METRICS] = yes;
		return 0;
	case OPT_PID:
		return read_numbers(p, row->name, value, &o->pids, &o->pid_names);
	case OPT_FOLLOW_CHILDREN:
		o->follow_children = yes;
		return 0;
	case OPT_KEEP_COMMAND:
		o->keep_command = yes;
		return 0;
	case OPT_TID:
		return read_numbers(p, row->name, value, &o->tids, NULL);
	case OPT_COMM:
		return read_filter(p, row->name, value, o->comms, &p->n_comms);
	case OPT_CGROUP:
		return read_filter(p, row->name, value, o->cgroups, &p->n_cgroups);
	case OPT_ALL:
		o->all = yes;
		return 0;
	case OPT_DURATION:
		return read_duration(p, row->name, value, 1, &o->duration_ns);
	case OPT_OFFCPU_STATES:
		return read_states(p, value);
	case OPT_OFFCPU_MIN:
		return read_duration(p, row->name, value, 0, &o->offcpu_min_ns);
	case OPT_OFFCPU_MAX:
		return read_duration(p, row->name, value, 1, &o->offcpu_max_ns);
	case OPT_OFFCPU_WAKERS:
		o->offcpu_wakers = yes;
		return 0;
	case OPT_PER_PID:
		o->per_pid = yes;
		return 0;
	case OPT_SAMPLE_RATE:
		return read_rate(p, value);
	case OPT_EVENT:
		return read_event(p, value);
	case OPT_UNWIND:
		return read_unwind(p, value);
	case OPT_TABLE_BUDGET:
		return read_budget(p, "table-budget", value, 1, &o->table_budget_bytes);
	case OPT_LINES:
		o->lines = yes;
		return 0;
	case OPT_DEBUG_DIR:
		return read_debug_dir(p, value);
	case OPT_SYMBOL_BUDGET:
		return read_budget(p, "symbol-budget", value, 16, &o->symbol_budget_bytes);
	case OPT_KERNEL_STACKS:
		o->kernel_stacks = yes;
		return 0;
	case OPT_OUTPUT:
		return read_common_output(p, value);
	case OPT_PROFILE_OUTPUT:
		return read_output(p, CLI_PROFILE, value);
	case OPT_OFFCPU_OUTPUT:
		return read_output(p, CLI_OFFCPU, value);
	case OPT_PMU_OUTPUT:
		return read_output(p, CLI_METRICS, value);
	case OPT_PMU_FORMAT:
		return read_format(p, value);
	case OPT_FLAMEGRAPH_OUTPUT:
		o->on[CLI_FLAME] = true;
		return read_output(p, CLI_FLAME, value);
	case OPT_TIMELINE:
		o->extra.timeline = yes;
		return 0;
	case OPT_FOLDED_OUTPUT:
		o->on[CLI_FOLDED] = true;
		return read_output(p, CLI_FOLDED, value);
	case OPT_PERF_DATA_OUTPUT:
		o->on[CLI_PERF] = true;
		return read_output(p, CLI_PERF, value);
	case OPT_PERF_DATA_COMPRESS:
		return read_compress(p, value);
	case OPT_FOLDED_ROOT:
		return read_root(p, value);
	case OPT_QUALITY_OUTPUT:
		o->on[CLI_QUALITY] = true;
		return read_output(p, CLI_QUALITY, value);
	case OPT_TAG:
		return read_tag(p, value);
	case OPT_KERNEL_THREADS:
		o->show.kernel_threads = yes;
		return 0;
	case OPT_QUIET:
		o->show.quiet = yes;
		return 0;
	case OPT_VERBOSE:
		o->show.verbose = yes;
		return 0;
	case OPT_HELP:
		return yes ? CLI_ACTION_HELP : 0;
	case OPT_VERSION:
		return yes ? CLI_ACTION_VERSION : 0;
	case OPT_TEST_RING_BYTES:
		return read_number(p, row->name, value, UINT32_MAX, &o->sizes.ring_bytes);
	case OPT_TEST_COUNT_ENTRIES:
		return read_number(p, row->name, value, UINT32_MAX, &o->sizes.count_entries);
	case OPT_TEST_RANGE_ENTRIES:
		return read_number(p, row->name, value, UINT32_MAX, &o->sizes.range_entries);
	case OPT_TEST_OFFCPU_THREADS:
		return read_number(p, row->name, value, UINT32_MAX, &o->sizes.offcpu_threads);
	case OPT_CNT:
		break;
	}
	return -EINVAL; /* no such id */
}

/* Returns the option of a letter that a number follows at once, as in -F99; NULL: none. */
static const struct cli_option_row *find_letter(const char *word, const char *name)
{
	const struct cli_option_row *row = cli_option_find(name, 1);

	if (word[1] == '-' || name[0] == '\0' || name[1] < '0' || name[1] > '9')
		return NULL;
	return row && row->kind != CLI_BOOL ? row : NULL;
}

/* @word begins with '-' and is not "--"; @next is the argument after it, or NULL. Sets *@used to
 * the number of arguments that were read. */
static int read_option(struct parse *p, const char *word, const char *next, int *used)
{
	const char *name = word + (word[1] == '-' ? 2 : 1);
	const char *equals = strchr(name, '=');
	const char *value = equals ? equals + 1 : NULL;
	size_t len = equals ? (size_t)(equals - name) : strlen(name);
	const struct cli_option_row *row = cli_option_find(name, len);
	bool yes = true, by_default;

	*used = 1;
	if (!row) {
		row = find_letter(word, name);
		if (!row)
			return refuse_unknown(p, word, name, len);
		value = name + 1;
	}
	if (row->kind == CLI_BOOL) {
		if (value && cli_parse_bool(value, &yes) < 0)
			return cli_refuse(p->message, "--%s: '%s' is neither yes nor no", row->name,
			                  value);
		by_default = row->id == OPT_LINES || row->id == OPT_KERNEL_STACKS;
		p->given &= ~(1ull << row->id);
		p->given |= (uint64_t)(yes != by_default) << row->id;
		return apply(p, row, NULL, yes);
	}
	p->given |= 1ull << row->id;
	if (!value) {
		if (!next || !strcmp(next, "--"))
			return cli_refuse(p->message, "--%s needs a value", row->name);
		value = next;
		*used = 2;
	}
	return apply(p, row, value, true);
}

static int refuse_word(struct parse *p, const char *word, const char *before)
{
	const struct cli_option_row *row = cli_option_find(word, strlen(word));
	const char *option = row && strlen(word) > 1 ? row->name : NULL, *command = NULL;
	bool ignored;

	if (before && before[0] == '-' && cli_parse_bool(word, &ignored) == 0)
		return cli_refuse(p->message, "unexpected argument '%s'; write %s=%s", word, before,
		                  word);
	/* The first word may be meant as a command. Short ones are more often programs. */
	if (!before)
		command = cli_suggest_command(word);
	if (!before && !option && strlen(word) >= 5)
		option = cli_suggest_option(NULL, word, strlen(word));
	if (option)
		return cli_refuse(p->message, "unexpected argument '%s'; did you mean --%s?", word,
		                  option);
	if (command)
		return cli_refuse(p->message,
		                  "unexpected argument '%s'; did you mean perf-agent %s?", word,
		                  command);
	return cli_refuse(p->message,
	                  "unexpected argument '%s'; put the command to profile after --", word);
}

static int read_words(struct parse *p, int argc, char *const *argv)
{
	int used, rc;

	for (int i = 1; i < argc; i += used) {
		if (!strcmp(argv[i], "--")) {
			if (!argv[i + 1] || !*argv[i + 1])
				return cli_refuse(p->message, "no command after --");
			p->o->command = &argv[i + 1];
			break;
		}
		if (argv[i][0] != '-' || !argv[i][1])
			return refuse_word(p, argv[i], i > 1 ? argv[i - 1] : NULL);
		rc = read_option(p, argv[i], argv[i + 1], &used);
		if (rc)
			return rc;
	}
	return cli_options_check(p->o, p->given, p->max_rate_hz, p->message);
}

int cli_options_parse(int argc, char *const *argv, uint32_t max_rate_hz, struct cli_options *ret,
                      char message[CLI_MESSAGE_MAX])
{
	struct cli_options o = {
	        .kernel_stacks = true,
	        .lines = true,
	        .sample_rate_hz = CLI_RATE_DEFAULT_HZ,
	        .event = PFA_EVENT_CPU_CLOCK,
	        .unwind = PFA_UNWIND_AUTO,
	};
	struct parse p = {.o = &o, .max_rate_hz = max_rate_hz, .message = message};
	size_t words = (size_t)(argc > 0 ? argc : 0) + 1;
	int rc = -ENOMEM;

	/* Each argument adds one entry at most; one more for the NULL. */
	o.tags = calloc(words, sizeof(*o.tags));
	o.debug_dirs = calloc(words, sizeof(*o.debug_dirs));
	o.comms = calloc(words, sizeof(*o.comms));
	o.cgroups = calloc(words, sizeof(*o.cgroups));
	if (o.tags && o.debug_dirs && o.comms && o.cgroups)
		rc = read_words(&p, argc, argv);
	if (rc < 0) {
		cli_options_done(&o);
		return rc;
	}
	*ret = o;
	return rc;
}

void cli_options_done(struct cli_options *o)
{
	for (size_t i = 0; i < o->pid_names.n; i++)
		free(o->pid_names.v[i]);
	free(o->pid_names.v);
	o->pid_names = (struct cli_names){NULL, 0};
	free(o->tags);
	free(o->debug_dirs);
	free(o->comms);
	free(o->cgroups);
	free(o->pids.v);
	free(o->tids.v);
	o->tags = o->debug_dirs = o->comms = o->cgroups = NULL;
	o->pids = o->tids = (struct cli_numbers){NULL, 0};
}
