/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the perf-maps and jitdumps of processes. Thread: tracker, then control at the end. */
#include "jit/jit_priv.h"

#include <fcntl.h>
#include <stdio.h>

/* Readings of one file at the end, each of a bounded length. */
#define FINAL_READS 64

bool jit_is_dump(const char *path)
{
	const char *name = str_base_name(path);
	size_t len = strlen(name);

	return str_starts(name, "jit-") && len > 9 && strcmp(name + len - 5, ".dump") == 0;
}

static void refuse(struct jit *j, struct jit_proc *p, const char *name, const char *why)
{
	if (p->refused)
		return;
	p->refused = true;
	tally_count(j->o.tally, TALLY_JIT_REFUSED, 1);
	/* One note for all, which control writes. */
	if (!j->refusal[0])
		(void)snprintf(j->refusal, sizeof(j->refusal), "%s of process %u: %s", name,
		               p->id.pid, why);
}

/* Whether the process or root owns this file, and it has no other name. */
static bool owner_ok(struct jit *j, struct jit_proc *p, int fd, const char *name, struct stat *st)
{
	if (fstat(fd, st) < 0)
		return false;
	if (!S_ISREG(st->st_mode))
		refuse(j, p, name, "it is not a regular file");
	else if (st->st_uid != p->euid && st->st_uid != 0)
		refuse(j, p, name, "it belongs to another user than the process");
	else if (st->st_nlink > 1)
		refuse(j, p, name, "it has more than one name (hard links)");
	else
		return true;
	return false;
}

static void count_read(struct jit *j, struct jit_proc *p)
{
	if (!p->read)
		tally_count(j->o.tally, TALLY_JIT_MAPS, 1);
	p->read = true;
}

static void give_budget(struct jit *j, struct jit_proc *p)
{
	jitcode_limit(p->code, p->bytes + JIT_BYTES - MIN_OF(j->bytes, JIT_BYTES));
}

static void count_bytes(struct jit *j, struct jit_proc *p)
{
	size_t bytes = jitcode_bytes(p->code);

	j->bytes = j->bytes - p->bytes + bytes;
	p->bytes = bytes;
}

struct find_dump {
	struct jit *j;
	struct jit_proc *p;
};

static int on_mapping(void *arg, const struct ev_mapping *m)
{
	const struct find_dump *f = arg;
	int fd;

	if (!jit_is_dump(m->path) || f->j->n_dumps == f->j->max_dumps)
		return 0;
	fd = proc_open_mapped(f->p->id.pid, m, NULL);
	if (fd < 0)
		return 0; /* its functions get no names from there */
	if (f->p->dump_fd < 0)
		f->j->n_dumps++;
	closep(&f->p->dump_fd);
	f->p->dump_fd = fd; /* of several the last one */
	f->p->dump_size = 0;
	return 0;
}

void jit_find_dump(struct jit *j, struct jit_proc *p)
{
	struct find_dump f = {.j = j, .p = p};

	p->dump_due = false;
	(void)proc_maps_read(p->id.pid, on_mapping, &f, NULL, NULL); /* gone: it has none */
}

static void read_dump(struct jit *j, struct jit_proc *p, uint64_t now, bool final)
{
	struct stat st;

	if (p->dump_due)
		jit_find_dump(j, p);
	if (p->dump_fd < 0 || !owner_ok(j, p, p->dump_fd, "jitdump", &st) ||
	    (st.st_size == p->dump_size && !jitcode_more(p->code)))
		return;
	give_budget(j, p);
	for (int i = 0; i < (final ? FINAL_READS : 1); i++) {
		if (jitcode_read_dump(p->code, p->dump_fd, now) < 0)
			break; /* unreadable: no names from there */
		count_read(j, p);
		p->dump_size = jitcode_more(p->code) ? 0 : st.st_size;
		if (p->dump_size)
			break;
	}
	count_bytes(j, p);
}

static void read_map(struct jit *j, struct jit_proc *p, uint64_t now, bool final)
{
	_cleanup_close_ int fd = -EBADF;
	struct stat st;
	char name[32];

	if (!p->dir)
		return;
	(void)snprintf(name, sizeof(name), "perf-%u.map", p->nspid);
	if (fstatat(j->dirs.p[p->dir - 1].fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return; /* no perf-map, or none yet */
	if (!final && st.st_ino == p->map.ino && st.st_size == p->map.size &&
	    st.st_mtim.tv_sec == p->map.mtime.tv_sec && st.st_mtim.tv_nsec == p->map.mtime.tv_nsec)
		return;
	/* Only regular files are opened: opening a device or a FIFO can have effects. */
	if (S_ISREG(st.st_mode))
		fd = openat(j->dirs.p[p->dir - 1].fd, name,
		            O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0) {
		refuse(j, p, name,
		       S_ISLNK(st.st_mode)   ? "it is a symbolic link"
		       : S_ISREG(st.st_mode) ? "it may not be read"
		                             : "it is not a regular file");
		return;
	}
	if (!owner_ok(j, p, fd, name, &st))
		return;
	give_budget(j, p);
	if (jitcode_read_map(p->code, fd, now, final) >= 0) {
		count_read(j, p);
		p->map.ino = st.st_ino;
		p->map.size = jitcode_more(p->code) ? -1 : st.st_size;
		p->map.mtime = st.st_mtim;
	}
	count_bytes(j, p);
}

/* Whether the code at a sampled address was replaced. @possible: some code was replaced. */
static bool look_for_reuse(struct jit_proc *p, bool possible)
{
	bool reused = false;
	size_t len;

	for (uint32_t i = 0; i < p->codes.n; i++) {
		if (p->codes.p[i] && !possible)
			continue; /* no code was replaced */
		const uint64_t *addr = intern_get(p->addrs, i, &len);
		uint32_t code = jitcode_version(p->code, *addr);

		reused |= p->codes.p[i] && p->codes.p[i] != code;
		p->codes.p[i] = code;
	}
	return reused;
}

void jit_read_proc(struct jit *j, struct jit_proc *p, uint64_t now, bool final)
{
	const struct jitcode_stats *st = jitcode_stats(p->code);
	const struct jitcode_stats before = *st;

	/* The dump first: it has times, and its entries are not added again from the map. */
	read_dump(j, p, now, final);
	read_map(j, p, now, final);
	if (st->entries != before.entries && look_for_reuse(p, st->reused != before.reused)) {
		p->reused = true;
		atomic_store(&j->end_epoch, true);
	}
}
