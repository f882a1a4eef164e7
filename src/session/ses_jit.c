/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of code that is generated at run time: the perf-maps and jitdumps of processes that were
 * sampled in such code, and the epochs of their counts.
 *
 * D sees which stacks have such frames and tells W of processes and addresses; W reads the files
 * and asks for the end of an epoch when a sampled address has got other code; D ends it by taking
 * the counts so far. C reads the files for the last time and looks names up: what was there when
 * the epoch of the count began.
 */
#include "session/session_priv.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define JIT_PROCS_MAX 1024 /* that live, or whose files were not read to their end */
#define JIT_PROCS_ALL 8192 /* with those of which only the names are kept */
/* Of RLIMIT_NOFILE: /tmp directories, one for each container, and jitdumps. Track has a half. */
#define JIT_DIRS_SHARE  8
#define JIT_DUMPS_SHARE 16
#define JIT_BYTES       ((size_t)32 << 20) /* of names and places of all processes */
#define JIT_ADDRS_MAX   65536              /* sampled addresses of a process that are watched */
#define JIT_PAIRS_MAX   262144             /* (process, stack) that W was told of */
#define JIT_STACKS_MAX  1048576
/* At most 32 processes are looked at in a drain interval, but for those that re-use addresses. */
#define JIT_READS_PER_INTERVAL 32
/* Each epoch has counts of its own: it lasts 1/1024 of the capture so far at least. */
#define JIT_EPOCH_SHARE 1024
#define JIT_PARENTS     4
#define JIT_ROUND_NS    (30 * NSEC_PER_MSEC)
#define JIT_FINISH_NS   (2 * NSEC_PER_SEC) /* of the last reading of all files */
/* Readings of one file at the end, each of a bounded length. */
#define JIT_FINAL_READS 64

/* A /tmp, shared by all processes that see it. */
struct jit_dir {
	dev_t dev;
	ino_t ino;
	int fd;         /* O_PATH; -EBADF: a free place */
	uint32_t users; /* processes */
};

struct jit_proc {
	struct ev_proc_id id;
	bool exact; /* id is that of a sample; else the pid is right and the rest not known */
	uint64_t start_ns; /* CLOCK_BOOTTIME, rounded down to a tick */
	uint32_t nspid, euid;
	uint32_t ppid;
	uint32_t parent; /* index + 1 of procs, whose code it had at its fork; 0: none known. At
	                  * the end */
	uint32_t dir;    /* index + 1 of dirs; 0: none */
	int dump_fd;
	bool dump_due; /* a jitdump was mapped */
	bool read, refused;
	bool complete; /* it has gone, and its names are all here: nothing else is kept of it */
	struct sym_jit *code;
	size_t bytes; /* of it, as far as they are counted */
	/* Of the map when it was read last. */
	ino_t map_ino;
	off_t map_size;
	struct timespec map_mtime;
	off_t dump_size;
	bool reused; /* a sampled address has had two owners: it will again */
	uint64_t due_ns;
	struct intern *addrs; /* sampled, without an end of the list: id is the index of codes */
	VEC(uint32_t) codes;  /* what lay there when it was looked at last, sym_jit_code() */
};

struct ses_jit {
	/* D, then C. */
	struct intern *stacks; /* hashes of stacks with such frames */
	struct intern *pairs;  /* struct pair */
	uint16_t epoch;
	VEC(uint64_t) epoch_ns; /* by epoch: when it began; [0] is that of the capture */

	_Atomic bool end_epoch; /* W -> D */

	/* W, then C. */
	VEC(struct jit_proc) procs;
	size_t n_complete;   /* of them */
	struct intern *ids;  /* struct ev_proc_id -> index of found */
	VEC(uint32_t) found; /* index + 1 of procs; 0: it had gone already */
	VEC(struct jit_dir) dirs;
	uint32_t n_dumps, max_dumps;
	uint64_t evict_ns; /* not looked for room again before */
	size_t bytes;
	uint32_t n_images;      /* of track that were looked at */
	size_t next;            /* of procs, the first one of the next round */
	char refusal[160];      /* why the first file was not read; "" if all were */
	struct sym_frame frame; /* of the last ses_jit_name() */
};

static void read_proc(struct ses *s, struct jit_proc *p, uint64_t now, bool final);

struct pair {
	struct ev_proc_id proc;
	uint64_t ustack;
};
_Static_assert(sizeof(struct pair) == 24, "hashed as bytes");

static void proc_done(struct jit_proc *p)
{
	p->code = sym_jit_free(p->code);
	closep(&p->dump_fd);
	p->addrs = intern_free(p->addrs);
	vec_done(&p->codes);
}

int ses_jit_new(struct ses *s)
{
	struct ses_jit *j = calloc(1, sizeof(*j));
	struct rlimit lim;
	int r;

	s->jit = j; /* freed with the session, also half-built */
	if (!j)
		return -ENOMEM;
	j->procs.max = JIT_PROCS_ALL;
	if (getrlimit(RLIMIT_NOFILE, &lim) < 0)
		lim.rlim_cur = 1024; /* cannot fail for a valid resource */
	j->dirs.max = MIN_OF(lim.rlim_cur / JIT_DIRS_SHARE, (rlim_t)JIT_PROCS_MAX);
	j->max_dumps = (uint32_t)MIN_OF(lim.rlim_cur / JIT_DUMPS_SHARE, (rlim_t)JIT_PROCS_MAX);
	j->found.max = j->epoch_ns.max = UINT32_MAX;
	r = intern_new(JIT_STACKS_MAX, SIZE_MAX / 2, &j->stacks);
	if (r == 0)
		r = intern_new(JIT_PAIRS_MAX, SIZE_MAX / 2, &j->pairs);
	if (r == 0)
		r = intern_new(2 * JIT_PROCS_ALL, SIZE_MAX / 2, &j->ids);
	if (r == 0)
		r = vec_push(&j->epoch_ns, 0);
	return r;
}

void ses_jit_free(struct ses *s)
{
	struct ses_jit *j = s->jit;

	s->jit = NULL;
	if (!j)
		return;
	vec_each (p, &j->procs)
		proc_done(p);
	vec_each (d, &j->dirs)
		closep(&d->fd);
	vec_done(&j->procs);
	vec_done(&j->dirs);
	vec_done(&j->found);
	vec_done(&j->epoch_ns);
	intern_free(j->stacks);
	intern_free(j->pairs);
	intern_free(j->ids);
	free(j);
}

/* ---- D --------------------------------------------------------------------------------------- */

void ses_jit_stack(struct ses *s, const struct ev_stack *st)
{
	uint32_t id;

	for (uint32_t i = 0; i < st->n; i++) {
		if (st->frames[i].space != EV_SPACE_ANON)
			continue;
		/* One that finds no room is named by what was there first. */
		(void)intern_add(s->jit->stacks, &st->hash, sizeof(st->hash), &id, NULL);
		return;
	}
}

/* Tells W where a process was sampled: false if it found no room. */
static bool tell(struct ses *s, const struct ev_proc_id *proc, const struct ev_stack *st)
{
	struct ses_item item = {.type = SES_ITEM_JIT, .jit = {.proc = *proc}};

	for (uint32_t i = 0; i < st->n; i++) {
		const struct ev_frame *f = &st->frames[i];

		if (f->space != EV_SPACE_ANON)
			continue;
		item.jit.addrs[item.n++] = f->exact ? f->addr : f->addr - 1;
		if (item.n < SES_JIT_ADDRS)
			continue;
		if (queue_push(s->q_w, &item) < 0)
			return false;
		item.n = 0;
	}
	return !item.n || queue_push(s->q_w, &item) == 0;
}

void ses_jit_count(struct ses *s, struct ev_count *c)
{
	struct ses_jit *j = s->jit;
	struct pair pair = {.proc = c->proc, .ustack = c->ustack};
	const struct ev_stack *st;
	uint32_t id;

	if (!c->ustack || intern_count(j->stacks) == 0 ||
	    intern_find(j->stacks, &c->ustack, sizeof(c->ustack)) == INTERN_NONE) {
		/* A wait keeps its own while its stack is still to come. */
		if (!c->off || !c->ustack || prof_agg_stack(s->agg, c->ustack))
			c->epoch = 0;
		return;
	}
	if (!c->off)
		c->epoch = j->epoch;
	if (c->foreign_ns || intern_find(j->pairs, &pair, sizeof(pair)) != INTERN_NONE)
		return;
	if (intern_count(j->pairs) == JIT_PAIRS_MAX)
		return; /* what is sampled from now on is not watched */
	st = prof_agg_stack(s->agg, c->ustack);
	if (st && tell(s, &c->proc, st))
		(void)intern_add(j->pairs, &pair, sizeof(pair), &id, NULL); /* else told again */
}

void ses_jit_copy(struct ses *s, struct ev_count *c)
{
	c->epoch = s->jit->epoch; /* which frames it has is not known yet */
}

void ses_jit_drained(struct ses *s, const struct smp_sink *sink)
{
	struct ses_jit *j = s->jit;
	uint64_t now, last = j->epoch_ns.p[j->epoch];

	if (!atomic_load_explicit(&j->end_epoch, memory_order_relaxed))
		return;
	now = now_ns();
	if (now - MAX_OF(last, s->start_ns) < (now - s->start_ns) / JIT_EPOCH_SHARE)
		return; /* later */
	atomic_store(&j->end_epoch, false);
	if (j->epoch == UINT16_MAX || vec_reserve(&j->epoch_ns, 1) < 0)
		return; /* all that follows is named by what is there at its beginning */
	(void)smp_take(s->smp, sink);      /* counted: read_errors */
	(void)vec_push(&j->epoch_ns, now); /* has its room */
	j->epoch++;
	load_control(smp_loader(s->smp))->jit_epoch = j->epoch;
	tally_count(&s->tally, TALLY_JIT_EPOCHS, 1);
}

/* ---- W: processes ---------------------------------------------------------------------------- */

/* Another process uses it. */
static uint32_t dir_use(struct jit_dir *d, struct ses_jit *j)
{
	d->users++;
	return (uint32_t)(d - j->dirs.p) + 1;
}

/* A process needs its directory no more. */
static void dir_give(struct ses_jit *j, struct jit_proc *p)
{
	struct jit_dir *d = p->dir ? &j->dirs.p[p->dir - 1] : NULL;

	if (d && --d->users == 0)
		closep(&d->fd);
	p->dir = 0;
}

/* Index + 1 of the /tmp of a process, for dir_give; 0 without. */
static uint32_t dir_take(struct ses *s, uint32_t pid)
{
	const struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
	                             .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	_cleanup_close_ int root = -EBADF, fd = -EBADF;
	struct jit_dir *unused = NULL;
	struct ses_jit *j = s->jit;
	char path[32];
	struct stat st;

	(void)snprintf(path, sizeof(path), "/proc/%u/root", pid);
	root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root >= 0)
		/* The directory and not the root is what is kept: with the last process of a mount
		 * namespace its mounts come apart, and /tmp may be one of them. */
		fd = (int)syscall(SYS_openat2, root, "tmp", &how, sizeof(how));
	if (fd < 0 || fstat(fd, &st) < 0)
		return 0;
	vec_each (d, &j->dirs) {
		if (d->fd < 0)
			unused = d;
		else if (d->dev == st.st_dev && d->ino == st.st_ino)
			return dir_use(d, j);
	}
	if (!unused && vec_push(&j->dirs, (struct jit_dir){.fd = -EBADF}) == 0)
		unused = &j->dirs.p[j->dirs.n - 1];
	if (!unused) {
		tally_count(&s->tally, TALLY_JIT_PROCS_OVER, 1);
		return 0;
	}
	*unused = (struct jit_dir){.dev = st.st_dev, .ino = st.st_ino, .fd = TAKE_FD(fd)};
	return dir_use(unused, j);
}

static bool is_memfd(const char *path)
{
	return str_starts(path, "/memfd:");
}

static bool is_dump(const char *path)
{
	const char *name = ses_base_name(path);
	size_t len = strlen(name);

	return str_starts(name, "jit-") && len > 9 && strcmp(name + len - 5, ".dump") == 0;
}

struct find_dump {
	struct ses *s;
	struct jit_proc *p;
};

static int on_mapping(void *arg, const struct ev_mapping *m)
{
	const struct find_dump *f = arg;
	int fd;

	if (!is_dump(m->path) || f->s->jit->n_dumps == f->s->jit->max_dumps)
		return 0;
	fd = proc_open_mapped(f->p->id.pid, m, NULL);
	if (fd < 0)
		return 0; /* it has no names from there */
	if (f->p->dump_fd < 0)
		f->s->jit->n_dumps++;
	closep(&f->p->dump_fd);
	f->p->dump_fd = fd; /* of several the last one */
	f->p->dump_size = 0;
	return 0;
}

static void find_dump(struct ses *s, struct jit_proc *p)
{
	struct find_dump f = {.s = s, .p = p};

	p->dump_due = false;
	(void)proc_maps_read(p->id.pid, on_mapping, &f, NULL, NULL); /* gone: it has none */
}

/* A process of which no names are known and that was never sampled, or has gone: containers begin
 * with programs in a memfd. NULL: none. */
static struct jit_proc *evict(struct ses *s)
{
	struct ses_jit *j = s->jit;
	uint64_t now = now_ns(), start;

	if (now < j->evict_ns)
		return NULL;
	vec_each (p, &j->procs) {
		uint32_t slot = (uint32_t)(p - j->procs.p) + 1;

		if (sym_jit_stats(p->code)->entries ||
		    (p->exact && proc_start_ns(p->id.pid, &start) == 0))
			continue;
		if (!p->complete)
			read_proc(s, p, now, true); /* it may have written its file at its end */
		if (sym_jit_stats(p->code)->entries)
			continue;
		vec_each (f, &j->found)
			if (*f == slot)
				*f = 0;
		return p;
	}
	j->evict_ns = now + NSEC_PER_SEC; /* to look costs a system call for each of them */
	return NULL;
}

/* A process that lives now: NULL when it does not, or there are too many. */
static struct jit_proc *add_proc(struct ses *s, const struct ev_proc_id *id, bool exact)
{
	struct ses_jit *j = s->jit;
	struct jit_proc p = {.id = *id, .exact = exact, .dump_fd = -EBADF};
	struct jit_proc *slot = NULL;
	struct proc_status st;
	bool full;

	if (proc_start_ns(id->pid, &p.start_ns) < 0 || proc_status_read(id->pid, &st, NULL) < 0)
		return NULL;
	/* Another process has its number by now? Ticks are of 10 ms. */
	if (exact && (id->start_ns < p.start_ns || id->start_ns - p.start_ns > 20 * NSEC_PER_MSEC))
		return NULL;
	p.euid = st.euid;
	p.nspid = st.nspid_cnt ? st.nspid[st.nspid_cnt - 1] : id->pid;
	p.codes.max = JIT_ADDRS_MAX;
	full = j->procs.n - j->n_complete >= JIT_PROCS_MAX || j->procs.n == JIT_PROCS_ALL;
	if (full)
		slot = evict(s);
	if (full && !slot) {
		tally_count(&s->tally, TALLY_JIT_PROCS_OVER, 1);
		return NULL;
	}
	p.dir = dir_take(s, id->pid);
	p.ppid = st.ppid;
	if (sym_jit_new(JIT_BYTES, &p.code) < 0 ||
	    intern_new(JIT_ADDRS_MAX, SIZE_MAX / 2, &p.addrs) < 0 ||
	    (!slot && vec_push(&j->procs, p) < 0)) {
		dir_give(j, &p);
		proc_done(&p);
		tally_count(&s->tally, TALLY_JIT_PROCS_OVER, 1);
		return NULL;
	}
	if (slot) {
		j->n_dumps -= slot->dump_fd >= 0;
		j->bytes -= slot->bytes;
		j->n_complete -= slot->complete;
		dir_give(j, slot);
		proc_done(slot);
		*slot = p;
	} else {
		slot = &j->procs.p[j->procs.n - 1];
	}
	find_dump(s, slot);
	return slot;
}

/* One that was known by its number alone, and is this one. */
static struct jit_proc *adopt(struct ses_jit *j, const struct ev_proc_id *id)
{
	vec_each (p, &j->procs) {
		if (p->exact || p->id.pid != id->pid || id->start_ns < p->start_ns ||
		    id->start_ns - p->start_ns > 20 * NSEC_PER_MSEC)
			continue;
		p->id = *id;
		p->exact = true;
		return p;
	}
	return NULL;
}

static struct jit_proc *proc_of(struct ses_jit *j, const struct ev_proc_id *id)
{
	uint32_t i = intern_find(j->ids, id, sizeof(*id));

	return i != INTERN_NONE && j->found.p[i] ? &j->procs.p[j->found.p[i] - 1] : NULL;
}

static struct jit_proc *get_proc(struct ses *s, const struct ev_proc_id *id)
{
	struct ses_jit *j = s->jit;
	struct jit_proc *p;
	uint32_t i;

	if (intern_find(j->ids, id, sizeof(*id)) != INTERN_NONE)
		return proc_of(j, id);
	p = adopt(j, id);
	if (!p)
		p = add_proc(s, id, true);
	if (vec_reserve(&j->found, 1) < 0 || intern_add(j->ids, id, sizeof(*id), &i, NULL) < 0)
		return NULL; /* looked for again, at the latest at the end */
	(void)vec_push(&j->found, p ? (uint32_t)(p - j->procs.p) + 1 : 0); /* has its room */
	return p;
}

/* ---- W: reading ------------------------------------------------------------------------------ */

static void refuse(struct ses *s, struct jit_proc *p, const char *name, const char *why)
{
	if (p->refused)
		return;
	p->refused = true;
	tally_count(&s->tally, TALLY_JIT_REFUSED, 1);
	/* One note for all, and it is C that writes notes. */
	if (!s->jit->refusal[0])
		(void)snprintf(s->jit->refusal, sizeof(s->jit->refusal), "%s of process %u: %s",
		               name, p->id.pid, why);
}

/* Is this a file that the target, or root, has made for itself? */
static bool owner_ok(struct ses *s, struct jit_proc *p, int fd, const char *name, struct stat *st)
{
	if (fstat(fd, st) < 0)
		return false;
	if (!S_ISREG(st->st_mode))
		refuse(s, p, name, "it is no regular file");
	else if (st->st_uid != p->euid && st->st_uid != 0)
		refuse(s, p, name, "it belongs to another user than the process");
	else if (st->st_nlink > 1)
		refuse(s, p, name, "it has another name as well");
	else
		return true;
	return false;
}

static void took(struct ses *s, struct jit_proc *p)
{
	if (!p->read)
		tally_count(&s->tally, TALLY_JIT_MAPS, 1);
	p->read = true;
}

static void give_budget(struct ses_jit *j, struct jit_proc *p)
{
	sym_jit_limit(p->code, p->bytes + JIT_BYTES - MIN_OF(j->bytes, JIT_BYTES));
}

static void count_bytes(struct ses_jit *j, struct jit_proc *p)
{
	size_t bytes = sym_jit_bytes(p->code);

	j->bytes = j->bytes - p->bytes + bytes;
	p->bytes = bytes;
}

static void read_dump(struct ses *s, struct jit_proc *p, uint64_t now, bool final)
{
	struct stat st;

	if (p->dump_due)
		find_dump(s, p);
	if (p->dump_fd < 0 || !owner_ok(s, p, p->dump_fd, "jitdump", &st) ||
	    (st.st_size == p->dump_size && !sym_jit_more(p->code)))
		return;
	give_budget(s->jit, p);
	for (int i = 0; i < (final ? JIT_FINAL_READS : 1); i++) {
		if (sym_jit_read_dump(p->code, p->dump_fd, now) < 0)
			break; /* and it has no names from there */
		took(s, p);
		p->dump_size = sym_jit_more(p->code) ? 0 : st.st_size;
		if (p->dump_size)
			break;
	}
	count_bytes(s->jit, p);
}

static void read_map(struct ses *s, struct jit_proc *p, uint64_t now, bool final)
{
	_cleanup_close_ int fd = -EBADF;
	struct stat st;
	char name[32];

	if (!p->dir)
		return;
	(void)snprintf(name, sizeof(name), "perf-%u.map", p->nspid);
	if (fstatat(s->jit->dirs.p[p->dir - 1].fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return; /* it has none, or none yet */
	if (!final && st.st_ino == p->map_ino && st.st_size == p->map_size &&
	    st.st_mtim.tv_sec == p->map_mtime.tv_sec && st.st_mtim.tv_nsec == p->map_mtime.tv_nsec)
		return;
	/* What is no file is never opened: that alone can have effects. */
	if (S_ISREG(st.st_mode))
		fd = openat(s->jit->dirs.p[p->dir - 1].fd, name,
		            O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0) {
		refuse(s, p, name,
		       S_ISLNK(st.st_mode)   ? "it is a symbolic link"
		       : S_ISREG(st.st_mode) ? "it may not be read"
		                             : "it is no regular file");
		return;
	}
	if (!owner_ok(s, p, fd, name, &st))
		return;
	give_budget(s->jit, p);
	if (sym_jit_read_map(p->code, fd, now, final) >= 0) {
		took(s, p);
		p->map_ino = st.st_ino;
		p->map_size = sym_jit_more(p->code) ? -1 : st.st_size;
		p->map_mtime = st.st_mtim;
	}
	count_bytes(s->jit, p);
}

/* Has a sampled address got other code? */
static bool look_for_reuse(struct jit_proc *p, bool possible)
{
	bool reused = false;
	size_t len;

	for (uint32_t i = 0; i < p->codes.n; i++) {
		if (p->codes.p[i] && !possible)
			continue; /* nothing took the place of anything */
		const uint64_t *addr = intern_get(p->addrs, i, &len);
		uint32_t code = sym_jit_code(p->code, *addr);

		reused |= p->codes.p[i] && p->codes.p[i] != code;
		p->codes.p[i] = code;
	}
	return reused;
}

static void read_proc(struct ses *s, struct jit_proc *p, uint64_t now, bool final)
{
	const struct sym_jit_stats *st = sym_jit_stats(p->code);
	const struct sym_jit_stats before = *st;

	/* The dump first: it has times, and what it says the map does not say again. */
	read_dump(s, p, now, final);
	read_map(s, p, now, final);
	if (st->entries != before.entries && look_for_reuse(p, st->reused != before.reused)) {
		p->reused = true;
		atomic_store(&s->jit->end_epoch, true);
	}
}

void ses_jit_seen(struct ses *s, const struct ev_proc_id *id, const uint64_t *addrs, uint32_t n)
{
	struct jit_proc *p = get_proc(s, id);

	for (uint32_t i = 0; p && !p->complete && i < n; i++) {
		uint32_t k;
		bool is_new;

		if (vec_reserve(&p->codes, 1) == 0 &&
		    intern_add(p->addrs, &addrs[i], sizeof(*addrs), &k, &is_new) == 0 && is_new)
			(void)vec_push(&p->codes, sym_jit_code(p->code, addrs[i])); /* has room */
	}
}

void ses_jit_walked(struct ses *s, struct ev_count *count, const struct ev_stack *st)
{
	uint64_t addrs[SES_JIT_ADDRS];
	uint32_t n = 0;

	if (!s->jit)
		return;
	for (uint32_t i = 0; i < st->n && n < SES_JIT_ADDRS; i++)
		if (st->frames[i].space == EV_SPACE_ANON)
			addrs[n++] = st->frames[i].addr - !st->frames[i].exact;
	if (n == 0)
		count->epoch = 0;
	else if (!count->foreign_ns)
		ses_jit_seen(s, &count->proc, addrs, n);
}

void ses_jit_event(struct ses *s, const struct ev_proc *ev)
{
	const struct ev_proc_id id = {.pid = ev->pid};
	struct ses_jit *j = s->jit;
	bool dump, known = false;

	if (!j || ev->type != EV_PROC_MMAP)
		return;
	dump = is_dump(ev->map.path);
	if ((!dump && !is_memfd(ev->map.path)) ||
	    trk_proc_reason(s->trk, &id) == EV_REASON_NO_MAPPING)
		return;
	vec_each (p, &j->procs) {
		if (p->complete || p->id.pid != ev->pid)
			continue;
		p->dump_due |= dump;
		known = true;
	}
	if (!known)
		(void)add_proc(s, &id, false); /* NULL: it has gone, or was counted */
}

/* Images that came since the last look. */
static bool has_proc(struct ses_jit *j, uint32_t pid)
{
	vec_each (p, &j->procs) {
		if (!p->complete && p->id.pid == pid)
			return true;
	}
	return false;
}

static void look_at_images(struct ses *s)
{
	uint32_t n = (uint32_t)trk_image_cnt(s->trk);
	bool any = false;

	for (uint32_t i = s->jit->n_images + 1; i <= n; i++) {
		const struct trk_image *img = trk_image(s->trk, i);

		any |= img && (is_memfd(img->path) || is_dump(img->path));
	}
	s->jit->n_images = n;
	/* What the target mapped before the capture has no event. Of all processes each is found
	 * when it is sampled, or at the end. */
	for (uint32_t i = 0; any && s->o.target == SES_TARGET_PID && i < s->targets.n; i++) {
		const struct ev_proc_id target = {.pid = s->targets.pids[i]};

		if (!has_proc(s->jit, target.pid))
			(void)add_proc(s, &target, false); /* NULL: it has gone, or was counted */
	}
}

bool ses_jit_maybe(const struct ses *s, const struct ev_frame *f)
{
	const struct trk_image *img;

	if (f->space != EV_SPACE_IMAGE)
		return f->space == EV_SPACE_ANON;
	img = s->jit ? trk_image(s->trk, f->image) : NULL;
	return img && is_memfd(img->path);
}

/* Of a process that has gone nothing is kept but its names, once they are read to their end.
 * Another one with its number keeps it as it is until the end. */
static void complete_gone(struct ses *s, struct jit_proc *p, uint64_t now)
{
	struct ses_jit *j = s->jit;

	if (kill((pid_t)p->id.pid, 0) == 0 || errno != ESRCH)
		return;
	read_proc(s, p, now, true); /* it may have written its file at its end */
	if (sym_jit_more(p->code))
		return;
	j->n_dumps -= p->dump_fd >= 0;
	closep(&p->dump_fd);
	p->dump_due = false;
	dir_give(j, p);
	p->addrs = intern_free(p->addrs);
	vec_done(&p->codes);
	p->complete = true;
	j->n_complete++;
}

void ses_jit_round(struct ses *s, uint64_t now)
{
	struct ses_jit *j = s->jit;
	uint64_t interval = s->o.drain_interval_ms * NSEC_PER_MSEC, slow;

	if (!j)
		return;
	look_at_images(s);
	slow = interval * (1 + (j->procs.n - j->n_complete) / JIT_READS_PER_INTERVAL);
	/* W has other work that must not wait: what is left is looked at first in the next round.
	 */
	for (size_t i = 0; i < j->procs.n; i++) {
		struct jit_proc *p = &j->procs.p[j->next++ % j->procs.n];

		if (p->complete || p->due_ns > now)
			continue;
		read_proc(s, p, now, false);
		complete_gone(s, p, now);
		p->due_ns = now + (p->reused ? interval : slow);
		if (now_ns() - now > JIT_ROUND_NS)
			break;
	}
}

/* ---- C --------------------------------------------------------------------------------------- */

void ses_jit_want(struct ses *s, const struct ev_count *c)
{
	if (s->jit && !c->foreign_ns)
		(void)get_proc(s, &c->proc); /* NULL: it has gone, its frames have no names */
}

/* Of a process that executed nothing since its fork. */
static uint32_t parent_of(const struct ses_jit *j, const struct jit_proc *child)
{
	for (size_t i = 0; child->exact && i < j->procs.n; i++) {
		const struct jit_proc *p = &j->procs.p[i];

		if (p->exact && p->id.pid == child->ppid && p->id.exec_id == child->id.exec_id &&
		    p->id.start_ns <= child->id.start_ns && p != child)
			return (uint32_t)i + 1;
	}
	return 0;
}

void ses_jit_finish(struct ses *s)
{
	uint64_t end_ns = now_ns() + JIT_FINISH_NS;

	if (!s->jit)
		return; /* tests build profiles without it */
	vec_each (p, &s->jit->procs) {
		const struct sym_jit_stats *st = sym_jit_stats(p->code);

		if (p->complete)
			; /* was read to its end */
		else if (now_ns() < end_ns)
			read_proc(s, p, now_ns(), true);
		else
			tally_count(&s->tally, TALLY_JIT_PROCS_OVER, 1);
		p->parent = parent_of(s->jit, p);
		tally_count(&s->tally, TALLY_JIT_BAD, st->bad);
		tally_count(&s->tally, TALLY_JIT_OVER, st->over_limit + sym_jit_more(p->code));
	}
	if (s->jit->refusal[0])
		tally_note(&s->tally, "names of code generated at run time were not read: %s",
		           s->jit->refusal);
}

uint32_t ses_jit_proc(const struct ses *s, const struct ev_proc_id *id)
{
	uint32_t i = s->jit ? intern_find(s->jit->ids, id, sizeof(*id)) : INTERN_NONE;

	return i == INTERN_NONE ? 0 : s->jit->found.p[i];
}

bool ses_jit_any(const struct ses *s)
{
	return s->jit && s->jit->procs.n > 0;
}

bool ses_jit_name(struct ses *s, uint32_t proc, uint16_t epoch, uint64_t addr,
                  struct sym_named *ret)
{
	struct ses_jit *j = s->jit;
	uint64_t time_ns = MAX_OF(s->start_ns, j->epoch_ns.p[MIN_OF(epoch, j->epoch)]);
	bool found = false;

	/* A fork has the code of its parent, and writes a file of its own for what is new. */
	for (int i = 0; i < JIT_PARENTS && !found && proc; i++) {
		const struct jit_proc *p = &j->procs.p[proc - 1];

		found = sym_jit_find(p->code, addr, time_ns, &j->frame) == 0;
		proc = p->parent;
	}
	if (!found)
		return false;
	*ret = (struct sym_named){.frames = &j->frame, .n = 1, .reason = EV_REASON_NAMED};
	return true;
}
