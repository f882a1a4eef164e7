/* SPDX-License-Identifier: Apache-2.0 */
/* Facts of the machine for a perf.data file: names, CPUs, the kernel's code and its modules.
 * Thread: control. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "session/ses_perf_priv.h"

#define SMALL_FILE_MAX ((size_t)1 << 20)

/* Copies a line's value after its colon: "model name\t: Intel". Returns NULL without memory. */
static char *value_of(struct arena *a, const char *line, size_t len)
{
	const char *colon = memchr(line, ':', len);
	size_t skip = colon ? (size_t)(colon - line) + 1 : len;

	while (skip < len && line[skip] == ' ')
		skip++;
	return arena_strndup(a, line + skip, len - skip);
}

/* Fills in description and identity of the CPU as /proc/cpuinfo has them; on some machines it has
 * none. */
static void read_cpu(struct ses_perf_facts *f)
{
	static const char *const keys[] = {"vendor_id", "cpu family", "model\t", "stepping"};
	const char *part[ARRAY_SIZE(keys)] = {NULL};
	_cleanup_(sbuf_done) struct sbuf b;
	struct cursor c;
	const char *line;
	size_t len;
	char id[128];

	sbuf_init(&b, 16 * SMALL_FILE_MAX);
	if (file_read_all(AT_FDCWD, "/proc/cpuinfo", &b, NULL) < 0)
		return;
	c = cursor_of(b.p, b.len);
	while (cursor_line(&c, &line, &len) == 0 && len > 0) { /* of the first CPU */
		if (len > 10 && memcmp(line, "model name", 10) == 0)
			f->facts.cpu_desc = value_of(&f->strings, line, len);
		for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
			if (len > strlen(keys[i]) && memcmp(line, keys[i], strlen(keys[i])) == 0)
				part[i] = value_of(&f->strings, line, len);
	}
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (!part[i])
			return;
	(void)snprintf(id, sizeof(id), "%s,%s,%s,%s", part[0], part[1], part[2], part[3]);
	f->facts.cpu_id = arena_strndup(&f->strings, id, sizeof(id) - 1);
}

/* Fills in our own arguments. */
static void read_command(struct ses_perf_facts *f)
{
	_cleanup_(sbuf_done) struct sbuf b;
	char *text;

	sbuf_init(&b, SMALL_FILE_MAX);
	if (file_read_all(AT_FDCWD, "/proc/self/cmdline", &b, NULL) < 0 || b.len == 0)
		return;
	text = arena_alloc(&f->strings, b.len + 1);
	if (!text)
		return;
	memcpy(text, b.p, b.len);
	text[b.len] = '\0';
	for (size_t at = 0; at < b.len && f->facts.n_cmdline < SES_PERF_ARGS_MAX;
	     at += strlen(text + at) + 1)
		f->args[f->facts.n_cmdline++] = text + at;
	f->facts.cmdline = f->args;
}

/* ---- the kernel ------------------------------------------------------------------------------ */

/* "ffffffff81000000 T _text" */
static bool parse_symbol(char *line, uint64_t *ret, const char **ret_name)
{
	char *blank = strchr(line, ' '), *name, *end;

	if (!blank || !blank[1] || blank[2] != ' ')
		return false;
	*blank = '\0';
	name = blank + 3;
	end = name + strcspn(name, "\t\n");
	*end = '\0';
	*ret_name = name;
	return parse_u64(line, 16, ret) == 0 && *ret != 0;
}

/* Reads the bounds of the kernel's own code. They stay 0 where its addresses are hidden. */
static void read_kernel(struct ses_perf_facts *f)
{
	FILE *file = fopen("/proc/kallsyms", "re");
	uint64_t addr, end = 0;
	const char *name;
	char line[512];

	if (!file)
		return;
	while (end == 0 && fgets(line, sizeof(line), file)) {
		if (!parse_symbol(line, &addr, &name))
			continue;
		if (!f->kernel.start && (!strcmp(name, "_text") || !strcmp(name, "_stext"))) {
			f->kernel.start = f->kernel.ref = addr;
			f->kernel.ref_name = strcmp(name, "_text") ? "_stext" : "_text";
		}
		if (!strcmp(name, "_etext"))
			end = addr;
	}
	(void)fclose(file); /* only read from */
	if (f->kernel.start && end > f->kernel.start)
		f->kernel.end = end;
	else
		f->kernel = (struct enc_perf_kernel){0};
}

/* Adds the maps of modules: "ext4 1110016 1 - Live 0xffffffffc05c9000". */
static int read_modules(struct ses_perf_facts *f)
{
	_cleanup_(sbuf_done) struct sbuf b;
	struct cursor c;
	const char *line;
	size_t len;
	int r = 0;

	sbuf_init(&b, 16 * SMALL_FILE_MAX);
	if (file_read_all(AT_FDCWD, "/proc/modules", &b, NULL) < 0)
		return 0; /* a kernel without modules */
	c = cursor_of(b.p, b.len);
	while (r == 0 && cursor_line(&c, &line, &len) == 0) {
		struct enc_perf_record rec = {.type = ENC_PERF_MMAP};
		_cleanup_free_ char *text = strndup(line, len);
		char *size = text ? strchr(text, ' ') : NULL, *end, *at;
		char name[80];

		if (!text)
			return -ENOMEM;
		at = strstr(text, " 0x");
		end = size ? strchr(size + 1, ' ') : NULL;
		if (!at || !end || at < end)
			continue;
		*size = *end = '\0';
		at[3 + strspn(at + 3, "0123456789abcdef")] = '\0';
		if (parse_u64(size + 1, 10, &rec.map.len) < 0 ||
		    parse_u64(at + 3, 16, &rec.map.start) < 0 || !rec.map.start || !rec.map.len)
			continue; /* its address is hidden */
		(void)snprintf(name, sizeof(name), "[%.64s]", text);
		rec.map.kernel = true;
		rec.map.path = arena_strndup(&f->strings, name, sizeof(name) - 1);
		r = rec.map.path ? vec_push(&f->side, rec) : -ENOMEM;
	}
	return r;
}

int ses_perf_facts_read(const struct ses *s, struct ses_perf_facts *f)
{
	struct enc_perf_facts *e = &f->facts;
	struct sysinfo mem;

	if (uname(&f->names) == 0) {
		e->hostname = f->names.nodename;
		e->os_release = f->names.release;
		e->arch = f->names.machine;
	}
	e->version = "perf-agent " PERF_AGENT_VERSION; /* dec_perf_model.c knows it by this */
	e->cpus_online = s->env.n_cpus;
	e->cpus_avail = (uint32_t)MAX_OF(sysconf(_SC_NPROCESSORS_CONF), (long)s->env.n_cpus);
	if (sysinfo(&mem) == 0)
		e->total_mem_kib = (uint64_t)mem.totalram * mem.mem_unit / 1024;
	e->has_clock = true;
	e->realtime_ns = s->env.start_realtime_ns;
	e->monotonic_ns = s->env.start_ns;
	read_cpu(f);
	read_command(f);
	read_kernel(f);
	return f->kernel.end ? read_modules(f) : 0;
}
