/* SPDX-License-Identifier: Apache-2.0 */
/* cli_output.c - the destinations of the products of a capture */
#include "cli_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	/* Names in one minute for one process name: more than the runs that can start in a minute.
	 */
	NAMES_MAX = 10000,
	LINKS_MAX = 40, /* as the kernel follows */
};

static const struct {
	const char *name, *option;
} products[CLI_PRODUCT_CNT] = {
        [CLI_PROFILE] = {"profile", "--profile-output"},
        [CLI_OFFCPU] = {"off-CPU profile", "--offcpu-output"},
        [CLI_METRICS] = {"metrics", "--pmu-output"},
        [CLI_FLAME] = {"flame graph", "--flamegraph-output"},
        [CLI_FOLDED] = {"folded stacks", "--folded-output"},
        [CLI_PERF] = {"perf.data file", "--perf-data-output"},
        [CLI_QUALITY] = {"quality", "--quality-output"},
};

const char *cli_product_name(enum cli_product p)
{
	return products[p].name;
}

const char *cli_product_option(enum cli_product p)
{
	return products[p].option;
}

static const char *suffix_of(enum cli_product p, const struct cli_options *o)
{
	switch (p) {
	case CLI_PROFILE:
		return "-on-cpu.pb.gz";
	case CLI_OFFCPU:
		return "-off-cpu.pb.gz";
	case CLI_METRICS:
		return o->pmu_format == PFA_FORMAT_JSON ? "-pmu.json" : "-pmu.txt";
	case CLI_FLAME:
		return "-flame.html";
	case CLI_FOLDED:
		return "-folded.txt";
	case CLI_PERF:
		return "-perf.data";
	case CLI_QUALITY:
		return "-quality.json";
	case CLI_PRODUCT_CNT:
		break;
	}
	return "";
}

static bool name_is_free(const char *name)
{
	struct stat st;

	return lstat(name, &st) < 0 && errno == ENOENT;
}

/* Selects the next number, from @from on, with which the names of all these outputs are free. */
static int next_names(struct cli_outputs *outs, const bool these[CLI_PRODUCT_CNT],
                      unsigned int from)
{
	for (unsigned int n = from; n < NAMES_MAX; n++) {
		bool all_free = true;

		for (int i = 0; i < CLI_PRODUCT_CNT; i++) {
			struct cli_output *out = &outs->of[i];
			int rc;

			if (!these[i])
				continue;
			rc = cli_output_name(out->comm, &out->when, n, out->suffix, out->name,
			                     sizeof(out->name));
			if (rc < 0)
				return rc;
			all_free = all_free && name_is_free(out->name);
		}
		if (all_free) {
			outs->number = n;
			return 0;
		}
	}
	return -EEXIST;
}

/*
 * A made-up name must not replace a file, even if another perf-agent chose the same free name in
 * this minute. The library replaces the file that it is given. It therefore gets a hidden name,
 * unique to this run; the complete file is renamed to the free name.
 */
static int make_name(struct cli_output *out, enum cli_product p, const struct timespec *now)
{
	if (faccessat(AT_FDCWD, ".", W_OK | X_OK, AT_EACCESS) < 0) {
		cli_say("cannot create a file in the current directory: %s; choose a path with %s",
		        cli_error(errno), cli_product_option(p));
		return CLI_FAILED;
	}
	if (!localtime_r(&now->tv_sec, &out->when)) {
		cli_say("cannot read the clock: %s", cli_error(errno));
		return CLI_FAILED;
	}
	out->made = true;
	(void)snprintf(out->hidden, sizeof(out->hidden), ".perf-agent-%d-%" PRIx64 "%s",
	               (int)getpid(), (uint64_t)now->tv_sec * 1000000000 + (uint64_t)now->tv_nsec,
	               out->suffix); /* 64 bytes are enough */
	return CLI_DONE;
}

/* Gives all made-up names one number. */
static int number_names(struct cli_outputs *outs)
{
	bool these[CLI_PRODUCT_CNT] = {false};
	int first = CLI_PRODUCT_CNT, rc;

	for (int i = CLI_PRODUCT_CNT - 1; i >= 0; i--) {
		these[i] = outs->of[i].made;
		first = these[i] ? i : first;
	}
	if (first == CLI_PRODUCT_CNT)
		return CLI_DONE;
	rc = next_names(outs, these, 1);
	if (rc == 0)
		return CLI_DONE;
	cli_say("no free name for the %s: %s; choose a path with %s",
	        cli_product_name((enum cli_product)first), cli_error(-rc),
	        cli_product_option((enum cli_product)first));
	return CLI_FAILED;
}

/* Renames without replacing a file. Returns 0, -EEXIST, or another errno. */
static int rename_new(const char *from, const char *to)
{
	int rc;

	if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
		return 0;
	rc = -errno;
	/* Some file systems cannot (NFS): check, then rename. */
	if (rc != -EINVAL)
		return rc;
	if (!name_is_free(to))
		return -EEXIST;
	return rename(from, to) < 0 ? -errno : 0;
}

/* Renames these outputs; those that fail get their error. Returns the number of a name that is in use, or
 * CLI_PRODUCT_CNT. */
static int rename_all(struct cli_outputs *outs, const bool these[CLI_PRODUCT_CNT],
                      int error[CLI_PRODUCT_CNT])
{
	for (int i = 0; i < CLI_PRODUCT_CNT; i++) {
		error[i] = these[i] ? rename_new(outs->of[i].hidden, outs->of[i].name) : 0;
		if (error[i] == -EEXIST)
			return i;
	}
	return CLI_PRODUCT_CNT;
}

void cli_outputs_publish(struct cli_outputs *outs, const bool written[CLI_PRODUCT_CNT],
                         int error[CLI_PRODUCT_CNT])
{
	bool these[CLI_PRODUCT_CNT];
	int taken, rc = 0;

	for (int i = 0; i < CLI_PRODUCT_CNT; i++) {
		these[i] = written[i] && outs->of[i].made;
		error[i] = 0;
	}
	for (;;) {
		taken = rename_all(outs, these, error);
		if (taken == CLI_PRODUCT_CNT)
			return;
		/* Another program took the name: all of them get the next number. */
		for (int i = 0; i < taken; i++)
			if (these[i] && error[i] == 0)
				error[i] = rename_new(outs->of[i].name, outs->of[i].hidden);
		rc = next_names(outs, these, outs->number + 1);
		if (rc < 0)
			break;
	}
	for (int i = 0; i < CLI_PRODUCT_CNT; i++)
		error[i] = these[i] ? rc : 0;
}

/*
 * A profile has standard output for itself: the output of a command goes to standard error.
 * Metrics are text after the output of the command, and may go to a terminal.
 */
static int use_stdout(struct cli_output *out, enum cli_product p)
{
	bool alone = p != CLI_METRICS;
	int flags;

	if (alone && isatty(STDOUT_FILENO)) {
		cli_say("%s: standard output is a terminal; redirect it", cli_product_option(p));
		return CLI_USAGE;
	}
	flags = fcntl(STDOUT_FILENO, F_GETFL);
	if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY) {
		cli_say("%s: standard output is not open for writing", cli_product_option(p));
		return CLI_FAILED;
	}
	out->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (out->fd < 0 || (alone && dup2(STDERR_FILENO, STDOUT_FILENO) < 0)) {
		cli_say("cannot duplicate standard output: %s", cli_error(errno));
		return CLI_FAILED;
	}
	return CLI_DONE;
}

/* Records the file that is at the path, or that standard output is, now. */
static void record_file(struct cli_output *out)
{
	struct stat st;

	if ((out->fd >= 0 ? fstat(out->fd, &st) : stat(out->path, &st)) < 0)
		return; /* no file; or the library reports why it cannot be written */
	out->special = !S_ISREG(st.st_mode);
	out->dev = st.st_dev;
	out->ino = st.st_ino;
}

/* Whether the path is a name of an open descriptor, of a regular file. */
static bool is_descriptor(const struct cli_output *out)
{
	static const char *const names[] = {"/dev/stderr", "/dev/stdin", "/dev/fd/",
	                                    "/proc/self/fd/"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(out->path, names[i], strlen(names[i])))
			return out->ino && !out->special;
	return false;
}

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Follows symbolic links that lead to no file yet. */
static void follow_links(const char *path, char ret[PATH_MAX])
{
	char target[PATH_MAX], whole[PATH_MAX];

	(void)snprintf(ret, PATH_MAX, "%s", path); /* one that is cut cannot be opened either */
	for (int i = 0; i < LINKS_MAX; i++) {
		ssize_t n = readlink(ret, target, sizeof(target) - 1);
		int len;

		if (n <= 0)
			return;
		target[n] = '\0';
		len = snprintf(whole, sizeof(whole), "%.*s%s",
		               target[0] == '/' ? 0 : (int)(base_of(ret) - ret), ret, target);
		if (len >= (int)sizeof(whole))
			return;
		memcpy(ret, whole, (size_t)len + 1);
	}
}

/* Whether two outputs are the same regular file; it may not exist yet. */
static bool same_file(const struct cli_output *a, const struct cli_output *b)
{
	char path_a[PATH_MAX], path_b[PATH_MAX], dir[PATH_MAX];
	struct stat dir_a, dir_b;

	if (a->special || b->special)
		return false;
	if (a->ino || b->ino)
		return a->ino == b->ino && a->dev == b->dev;
	follow_links(a->path, path_a);
	follow_links(b->path, path_b);
	if (strcmp(base_of(path_a), base_of(path_b)) != 0)
		return false;
	(void)snprintf(dir, sizeof(dir), "%.*s.", (int)(base_of(path_a) - path_a), path_a);
	if (stat(dir, &dir_a) < 0)
		return false; /* the directory does not exist */
	(void)snprintf(dir, sizeof(dir), "%.*s.", (int)(base_of(path_b) - path_b), path_b);
	return stat(dir, &dir_b) == 0 && dir_a.st_ino == dir_b.st_ino &&
	       dir_a.st_dev == dir_b.st_dev;
}

static int check_different(const struct cli_outputs *outs)
{
	for (int i = 0; i < CLI_PRODUCT_CNT; i++) {
		for (int k = 0; k < i; k++) {
			const struct cli_output *a = &outs->of[k], *b = &outs->of[i];

			if (a->wanted && b->wanted && a->path && b->path && same_file(a, b)) {
				cli_say("%s and %s: both are %s; give each a file of its own",
				        cli_product_option((enum cli_product)k),
				        cli_product_option((enum cli_product)i),
				        b->fd >= 0 ? a->path : b->path);
				return CLI_USAGE;
			}
		}
	}
	return CLI_DONE;
}

int cli_outputs_open(struct cli_outputs *outs, const struct cli_options *o, const char *comm)
{
	struct timespec now;
	int rc = CLI_DONE;

	for (int i = 0; i < CLI_PRODUCT_CNT; i++)
		outs->of[i] = (struct cli_output){.wanted = o->on[i] && !o->extra.no_file[i],
		                                  .fd = -EBADF,
		                                  .path = o->output[i],
		                                  .comm = comm,
		                                  .suffix = suffix_of((enum cli_product)i, o)};
	(void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail with this clock */
	for (int i = 0; i < CLI_PRODUCT_CNT && rc == CLI_DONE; i++) {
		struct cli_output *out = &outs->of[i];

		if (!out->wanted)
			continue;
		if (!out->path)
			rc = make_name(out, (enum cli_product)i, &now);
		else if (!strcmp(out->path, "-"))
			rc = use_stdout(out, (enum cli_product)i);
		if (rc == CLI_DONE && out->path)
			record_file(out);
		if (rc == CLI_DONE && out->fd < 0 && out->path && is_descriptor(out)) {
			cli_say("%s %s: this would replace the file that is open there; give the "
			        "path of the file, or - for standard output",
			        cli_product_option((enum cli_product)i), out->path);
			rc = CLI_USAGE;
		}
	}
	if (rc == CLI_DONE)
		rc = number_names(outs);
	return rc == CLI_DONE ? check_different(outs) : rc;
}

const char *cli_output_target(const struct cli_output *out)
{
	return out->fd >= 0 ? NULL : out->made ? out->hidden : out->path;
}

const char *cli_output_path(const struct cli_output *out)
{
	return out->fd >= 0 ? "standard output" : out->made ? out->name : out->path;
}

const struct cli_output *cli_outputs_find(const struct cli_outputs *outs, const char *object)
{
	for (int i = 0; i < CLI_PRODUCT_CNT; i++) {
		const struct cli_output *out = &outs->of[i];
		char name[sizeof(out->hidden)];

		if (out->fd >= 0)
			(void)snprintf(name, sizeof(name), "descriptor %d", out->fd); /* fits */
		else
			(void)snprintf(name, sizeof(name), "%s", out->hidden);
		if (*name && !strcmp(name, object))
			return out;
	}
	return NULL;
}

void cli_outputs_remove(const struct cli_outputs *outs)
{
	for (int i = 0; i < CLI_PRODUCT_CNT; i++)
		if (outs->of[i].made)
			(void)unlink(outs->of[i].hidden); /* usually there is none */
}

void cli_outputs_done(struct cli_outputs *outs)
{
	for (int i = 0; i < CLI_PRODUCT_CNT; i++) {
		if (outs->of[i].fd >= 0)
			close(outs->of[i].fd);
		outs->of[i].fd = -EBADF;
	}
}
