/* SPDX-License-Identifier: Apache-2.0 */
/* Processes whose JIT code may need names. Thread: tracker, then control at the end. */
#include "jit/jit_priv.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>

/* Start times of /proc are rounded down to a tick of 10 ms. */
#define START_SLACK_NS (20 * NSEC_PER_MSEC)

void jit_proc_done(struct jit_proc *p)
{
	p->code = jitcode_free(p->code);
	closep(&p->dump_fd);
	p->addrs = intern_free(p->addrs);
	vec_done(&p->codes);
}

/* Adds a user to a directory. Returns index + 1. */
static uint32_t dir_use(struct jit *j, struct jit_dir *d)
{
	d->users++;
	return (uint32_t)(d - j->dirs.p) + 1;
}

/* Releases the directory of a process. */
static void dir_unuse(struct jit *j, struct jit_proc *p)
{
	struct jit_dir *d = p->dir ? &j->dirs.p[p->dir - 1] : NULL;

	if (d && --d->users == 0)
		closep(&d->fd);
	p->dir = 0;
}

/* Opens the /tmp of a process. Returns index + 1, for dir_unuse(); 0: none. */
static uint32_t dir_open(struct jit *j, uint32_t pid)
{
	const struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
	                             .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	_cleanup_close_ int root = -EBADF, fd = -EBADF;
	struct jit_dir *unused = NULL;
	char path[32];
	struct stat st;

	(void)snprintf(path, sizeof(path), "/proc/%u/root", pid);
	root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root >= 0)
		/* Keep the directory, not the root: mounts of a mount namespace vanish with its
		 * last process, and /tmp may be one of them. */
		fd = (int)syscall(SYS_openat2, root, "tmp", &how, sizeof(how));
	if (fd < 0 || fstat(fd, &st) < 0)
		return 0;
	vec_each (d, &j->dirs) {
		if (d->fd < 0)
			unused = d;
		else if (d->dev == st.st_dev && d->ino == st.st_ino)
			return dir_use(j, d);
	}
	if (!unused && vec_push(&j->dirs, (struct jit_dir){.fd = -EBADF}) == 0)
		unused = &j->dirs.p[j->dirs.n - 1];
	if (!unused) {
		tally_count(j->o.tally, TALLY_JIT_PROCS_OVER, 1);
		return 0;
	}
	*unused = (struct jit_dir){.dev = st.st_dev, .ino = st.st_ino, .fd = TAKE_FD(fd)};
	return dir_use(j, unused);
}

/* Returns a process to drop: one without names that was never sampled, or has ended. Containers
 * begin with programs in a memfd. NULL: none. */
static struct jit_proc *evict(struct jit *j)
{
	uint64_t now = now_ns(), start;

	if (now < j->evict_ns)
		return NULL;
	vec_each (p, &j->procs) {
		uint32_t slot = (uint32_t)(p - j->procs.p) + 1;

		if (jitcode_stats(p->code)->entries ||
		    (p->exact && proc_start_ns(p->id.pid, &start) == 0))
			continue;
		if (!p->complete)
			jit_read_proc(j, p, now,
			              true); /* it may have written its file at its end */
		if (jitcode_stats(p->code)->entries)
			continue;
		vec_each (f, &j->found)
			if (*f == slot)
				*f = 0;
		return p;
	}
	j->evict_ns = now + NSEC_PER_SEC; /* the search costs a system call for each process */
	return NULL;
}

struct jit_proc *jit_add_proc(struct jit *j, const struct ev_proc_id *id, bool exact)
{
	struct jit_proc p = {.id = *id, .exact = exact, .dump_fd = -EBADF};
	struct jit_proc *slot = NULL;
	struct proc_status st;
	bool full;

	if (proc_start_ns(id->pid, &p.start_ns) < 0 || proc_status_read(id->pid, &st, NULL) < 0)
		return NULL;
	/* Another process may have its pid by now. Ticks are of 10 ms. */
	if (exact && (id->start_ns < p.start_ns || id->start_ns - p.start_ns > START_SLACK_NS))
		return NULL;
	p.euid = st.euid;
	p.nspid = st.nspid_cnt ? st.nspid[st.nspid_cnt - 1] : id->pid;
	p.codes.max = JIT_ADDRS_MAX;
	full = j->procs.n - j->n_complete >= JIT_PROCS_MAX || j->procs.n == JIT_PROCS_ALL;
	if (full)
		slot = evict(j);
	if (full && !slot) {
		tally_count(j->o.tally, TALLY_JIT_PROCS_OVER, 1);
		return NULL;
	}
	p.dir = dir_open(j, id->pid);
	p.ppid = st.ppid;
	if (jitcode_new(JIT_BYTES, &p.code) < 0 ||
	    intern_new(JIT_ADDRS_MAX, SIZE_MAX / 2, &p.addrs) < 0 ||
	    (!slot && vec_push(&j->procs, p) < 0)) {
		dir_unuse(j, &p);
		jit_proc_done(&p);
		tally_count(j->o.tally, TALLY_JIT_PROCS_OVER, 1);
		return NULL;
	}
	if (slot) {
		j->n_dumps -= slot->dump_fd >= 0;
		j->bytes -= slot->bytes;
		j->n_complete -= slot->complete;
		dir_unuse(j, slot);
		jit_proc_done(slot);
		*slot = p;
	} else {
		slot = &j->procs.p[j->procs.n - 1];
	}
	jit_find_dump(j, slot);
	return slot;
}

/* Returns the process that was known by its pid alone and is @id. NULL: none. */
static struct jit_proc *adopt(struct jit *j, const struct ev_proc_id *id)
{
	vec_each (p, &j->procs) {
		if (p->exact || p->id.pid != id->pid || id->start_ns < p->start_ns ||
		    id->start_ns - p->start_ns > START_SLACK_NS)
			continue;
		p->id = *id;
		p->exact = true;
		return p;
	}
	return NULL;
}

static struct jit_proc *proc_of(struct jit *j, const struct ev_proc_id *id)
{
	uint32_t i = intern_find(j->ids, id, sizeof(*id));

	return i != INTERN_NONE && j->found.p[i] ? &j->procs.p[j->found.p[i] - 1] : NULL;
}

struct jit_proc *jit_get_proc(struct jit *j, const struct ev_proc_id *id)
{
	struct jit_proc *p;
	uint32_t i;

	if (intern_find(j->ids, id, sizeof(*id)) != INTERN_NONE)
		return proc_of(j, id);
	p = adopt(j, id);
	if (!p)
		p = jit_add_proc(j, id, true);
	if (vec_reserve(&j->found, 1) < 0 || intern_add(j->ids, id, sizeof(*id), &i, NULL) < 0)
		return NULL; /* tried again, at the latest at the end */
	(void)vec_push(&j->found, p ? (uint32_t)(p - j->procs.p) + 1 : 0); /* has its room */
	return p;
}

void jit_complete_gone(struct jit *j, struct jit_proc *p, uint64_t now)
{

	if (kill((pid_t)p->id.pid, 0) == 0 || errno != ESRCH)
		return;
	jit_read_proc(j, p, now, true); /* it may have written its file at its end */
	if (jitcode_more(p->code))
		return;
	j->n_dumps -= p->dump_fd >= 0;
	closep(&p->dump_fd);
	p->dump_due = false;
	dir_unuse(j, p);
	p->addrs = intern_free(p->addrs);
	vec_done(&p->codes);
	p->complete = true;
	j->n_complete++;
}
