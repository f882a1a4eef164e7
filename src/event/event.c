/* SPDX-License-Identifier: Apache-2.0 */
#include "event/event.h"

#define X(id, val, name, help) [val] = name,
static const char *const walk_names[] = {EV_WALKS(X) EV_WALKS_USER(X)};
#undef X

#define X(id, name) name,
static const char *const reason_names[] = {EV_REASONS(X)};
#undef X

#define X(id, val, name) [val] = name,
static const char *const offcpu_names[] = {EV_OFFCPUS(X)};
#undef X

const char *ev_offcpu_name(enum ev_offcpu o)
{
	return (size_t)o < ARRAY_SIZE(offcpu_names) ? offcpu_names[o] : "unknown";
}

const char *ev_walk_name(enum ev_walk w)
{
	return (size_t)w < ARRAY_SIZE(walk_names) ? walk_names[w] : "unknown";
}

const char *ev_reason_name(enum ev_reason r)
{
	return (size_t)r < ARRAY_SIZE(reason_names) ? reason_names[r] : "unknown";
}

/* The end of a name, bare or with what the kernel adds to the names of unlinked files. */
static bool is_end(const char *s)
{
	return *s == '\0' || strcmp(s, " (deleted)") == 0;
}

/* Files in name only: shared anonymous memory, anonymous huge pages, SysV segments. */
static bool is_nameless_memory(const char *path)
{
	static const char *const names[] = {"/dev/zero", "/anon_hugepage"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (str_starts(path, names[i]) && is_end(path + strlen(names[i])))
			return true;
	}
	return str_starts(path, "/SYSV") && strspn(path + 5, "0123456789abcdef") == 8 &&
	       is_end(path + 13);
}

enum ev_map_kind ev_map_kind_of(const char *path, const struct ev_file_id *file)
{
	if (path[0] == '\0' || strcmp(path, "//anon") == 0)
		return EV_MAP_ANON;
	if (path[0] == '[') {
		if (strcmp(path, "[vdso]") == 0)
			return EV_MAP_VDSO;
		if (strcmp(path, "[heap]") == 0 || str_starts(path, "[stack") ||
		    str_starts(path, "[anon:") || str_starts(path, "[anon_shmem:"))
			return EV_MAP_ANON;
		return EV_MAP_OTHER;
	}
	if (str_starts(path, "anon_inode:") || str_starts(path, "/anon_inode:"))
		return EV_MAP_ANON;
	if (path[0] != '/')
		return EV_MAP_OTHER;
	if (is_nameless_memory(path))
		return EV_MAP_ANON;
	if (file->ino == 0 && file->dev_major == 0 && file->dev_minor == 0)
		return EV_MAP_OTHER;
	return EV_MAP_FILE;
}

int ev_deferred_word(const struct ev_deferred *c, uint64_t addr, uint64_t *ret)
{
	const uint64_t at = addr - c->addr;

	if (addr < c->addr || c->len < sizeof(*ret) || at > c->len - sizeof(*ret))
		return -EFAULT;
	if (c->holes >> at / EV_DEFERRED_STEP & 1 ||
	    c->holes >> (at + sizeof(*ret) - 1) / EV_DEFERRED_STEP & 1)
		return -EFAULT;
	memcpy(ret, c->bytes + at, sizeof(*ret));
	return 0;
}
