/* SPDX-License-Identifier: Apache-2.0 */
/* cli_quality_json.c - --quality-output: what the profiles can be trusted for, as JSON. The schema is
 * docs/quality.schema.json. */
#include "cli_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	QUALITY_VERSION = 1, /* grows when a member changes its meaning or ends */
	TEXT_MAX = 8192,     /* of a value: a path of a cgroup has 4,096 bytes */
};

static void put_text(FILE *to, const char *s)
{
	char text[TEXT_MAX];

	(void)snprintf(text, sizeof(text), "%s", s);
	cli_make_printable(text);
	(void)fputc('"', to);
	for (const char *p = text; *p; p++) {
		if (*p == '"' || *p == '\\')
			(void)fputc('\\', to);
		(void)fputc(*p, to);
	}
	(void)fputc('"', to);
}

/* Whether a value is a number as JSON writes it: "12", "0.25". */
static bool is_number(const char *s)
{
	size_t digits = strspn(s, "0123456789");
	const char *rest = s + digits;

	if (!digits || digits > 15 || (*s == '0' && digits > 1))
		return false;
	if (*rest == '.') {
		digits = strspn(++rest, "0123456789");
		rest += digits;
	}
	return digits && !*rest;
}

static bool is_list(const char *key, size_t len)
{
	return !strncmp(key, "filter_", 7) || (len > 3 && !strncmp(key + len - 3, "_in", 3));
}

/* The lines "key: value"; values of keys that may have several lines are lists. */
static void put_statistics(FILE *to, const struct pfa_session *s, uint32_t kind)
{
	const char *line, *open = "";
	size_t open_len = 0;

	(void)fputs(",\n      \"statistics\": {", to);
	for (size_t i = 0; (line = pfa_quality_of(s, kind, i)); i++) {
		size_t len = strcspn(line, ":");
		const char *value = line + len + strspn(line + len, ": ");

		if (open_len && open_len == len && !strncmp(open, line, len)) {
			(void)fputs(", ", to);
			put_text(to, value);
			continue;
		}
		(void)fprintf(to, "%s%s\n        \"%.*s\": ", open_len ? "]" : "", i ? "," : "",
		              (int)len, line); /* keys are plain */
		open = line;
		open_len = is_list(line, len) ? len : 0;
		if (open_len)
			(void)fputc('[', to);
		if (!open_len && is_number(value))
			(void)fputs(value, to);
		else
			put_text(to, value);
	}
	(void)fprintf(to, "%s\n      }", open_len ? "]" : "");
}

static void put_defects(FILE *to, const struct cli_quality *q)
{
	(void)fputs(",\n      \"defects\": [", to);
	for (size_t i = 0; i < q->n; i++) {
		const struct cli_defect *d = &q->defects[i];

		(void)fprintf(to, "%s\n        {\"id\": \"%s\", \"level\": \"%s\", \"text\": ",
		              i ? "," : "", d->id, cli_verdict_name(d->level));
		put_text(to, d->text);
		(void)fputs(", \"remedy\": ", to);
		put_text(to, d->remedy);
		(void)fputc('}', to);
	}
	(void)fprintf(to, "%s]", q->n ? "\n      " : "");
}

static int put_profile(FILE *to, const struct pfa_session *s, const struct cli_output *out,
                       uint32_t kind)
{
	struct cli_quality *q = NULL;
	int rc = cli_quality_new(s, kind, &q);

	if (rc < 0)
		return rc;
	(void)fprintf(to, "    {\n      \"kind\": \"%s\",\n      \"file\": ",
	              kind == PFA_KIND_OFFCPU ? "off-cpu" : "on-cpu");
	put_text(to, out->wanted ? cli_output_path(out) : "");
	(void)fprintf(to,
	              ",\n      \"verdict\": \"%s\",\n      \"kept\": %" PRIu64
	              ",\n      \"lost\": %" PRIu64 ",\n      \"overhead_cpu_pct\": %.2f",
	              cli_verdict_name(q->verdict), q->samples, q->lost, q->overhead_pct);
	put_defects(to, q);
	put_statistics(to, s, kind);
	(void)fputs("\n    }", to);
	free(q);
	return 0;
}

static int put_all(FILE *to, const struct pfa_session *s, const struct cli_outputs *outs)
{
	static const struct {
		enum cli_product product;
		uint32_t mode, kind;
	} profiles[] = {{CLI_PROFILE, PFA_MODE_PROFILE, PFA_KIND_ONCPU},
	                {CLI_OFFCPU, PFA_MODE_OFFCPU, PFA_KIND_OFFCPU}};
	const char *note, *comma = "";
	int rc = 0;

	(void)fprintf(to, "{\n  \"version\": %d,\n  \"perf_agent\": \"%s\",\n  \"profiles\": [\n",
	              QUALITY_VERSION, pfa_version());
	for (size_t i = 0; i < sizeof(profiles) / sizeof(profiles[0]) && rc == 0; i++) {
		if (!(pfa_modes_run(s) & profiles[i].mode))
			continue;
		(void)fputs(comma, to);
		rc = put_profile(to, s, &outs->of[profiles[i].product], profiles[i].kind);
		comma = ",\n";
	}
	(void)fputs("\n  ],\n  \"notes\": [", to);
	for (size_t i = 0; (note = pfa_note(s, i)); i++) {
		(void)fputs(i ? ",\n    " : "\n    ", to);
		put_text(to, note);
	}
	(void)fputs(pfa_note(s, 0) ? "\n  ]\n}\n" : "]\n}\n", to);
	return rc;
}

/* Writes it to an open descriptor, which is closed. */
static int write_to(int fd, const struct pfa_session *s, const struct cli_outputs *outs)
{
	FILE *to = fdopen(fd, "we");
	int rc;

	if (!to) {
		rc = -errno;
		close(fd);
		return rc;
	}
	rc = put_all(to, s, outs);
	errno = EIO;
	if (rc == 0 && (fflush(to) != 0 || ferror(to)))
		rc = -errno;
	errno = EIO;
	if (fclose(to) != 0 && rc == 0)
		rc = -errno;
	return rc;
}

int cli_quality_write(const struct pfa_session *s, const struct cli_outputs *outs)
{
	const struct cli_output *out = &outs->of[CLI_QUALITY];
	const char *path = cli_output_target(out);
	char name[PATH_MAX];
	mode_t mask = umask(0);
	int fd, rc;

	(void)umask(mask); /* there is one thread */
	if (out->fd >= 0)
		fd = dup(out->fd);
	else if (out->special)
		fd = open(path, O_WRONLY | O_CLOEXEC);
	else if ((size_t)snprintf(name, sizeof(name), "%s.XXXXXX", path) < sizeof(name))
		fd = mkostemp(name, O_CLOEXEC);
	else
		return -ENAMETOOLONG;
	if (fd < 0)
		return -errno;
	if (out->fd >= 0 || out->special)
		return write_to(fd, s, outs);
	rc = fchmod(fd, 0666 & ~mask) < 0 ? -errno : 0;
	if (rc == 0)
		rc = write_to(fd, s, outs);
	else
		close(fd);
	if (rc == 0 && rename(name, path) < 0)
		rc = -errno;
	if (rc < 0)
		(void)unlink(name);
	return rc;
}
