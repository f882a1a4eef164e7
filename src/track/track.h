/* SPDX-License-Identifier: Apache-2.0 */
/*
 * track - which process maps which image; keeps images open and tells the kernel side.
 *
 * Thread: W owns it while a capture runs, C before and after. It is fed with side-band events in order of
 * time and with /proc; it publishes each process's executable mappings to the BPF process map, and keeps every
 * mapping that a process ever had, so that addresses of processes that have gone can still be placed.
 */
#ifndef PA_TRACK_H
#define PA_TRACK_H

#include "event/event.h"
#include "image/image.h"
#include "loader/loader.h"
#include "perfevent/perfevent.h"
#include "proc/proc.h"

struct trk;

/* A file that some process mapped executable; id 1 … in order of discovery. */
struct trk_image {
	uint32_t id;
	struct ev_file_id file;
	uint8_t kind;	  /* enum ev_map_kind: FILE, VDSO, OTHER */
	const char *path; /* as first seen, " (deleted)" stripped */
	int fd;		  /* kept open for reading, -EBADF when it could not be opened */
	enum ev_reason reason; /* NAMED when fd is usable, else why not */
	uint8_t build_id[EV_BUILD_ID_MAX];
	uint8_t build_id_len; /* 0: none */
	const void *mem;      /* VDSO: its bytes */
	size_t mem_len;
};

/* Where an address of a process lies. */
struct trk_place {
	const struct trk_image *image; /* NULL: anonymous or none */
	uint64_t off;		       /* file offset (image) or the address */
	bool anon;
	uint64_t map_start, map_end, map_pgoff; /* the mapping, when there is one */
};

struct trk_options {
	struct load_oncpu *loader; /* may be NULL (tests): nothing is published */
	uint32_t target_pid;	   /* != 0: processes other than this one are ignored (PID) */
	uint32_t max_procs, max_images, max_mappings; /* 0: 65,536 · 65,536 · 4 M */
};

struct trk_stats {
	uint64_t procs, images, mappings;	/* known, ever */
	uint64_t images_failed;		/* could not be opened */
	uint64_t procs_denied;		/* /proc/PID/maps not readable for lack of CAP_SYS_PTRACE */
	uint64_t bad_map_lines, damaged_notes;
	uint64_t dropped_procs, dropped_images, dropped_mappings; /* over a limit */
	uint64_t ranges_full;		/* processes that found no place in the BPF process map */
};

int trk_new(const struct trk_options *o, struct trk **ret, struct err *err);
struct trk *trk_free(struct trk *t);
void trk_freep(struct trk **t);

/* Learns every process (or the target) from the task iterator and /proc/PID/maps. Side-band rings must already be open.
 * -ESRCH: the target does not exist; a target whose maps may not be read is not an error (counted). */
int trk_scan(struct trk *t, struct err *err);
/* One side-band event. ev's pointers are borrowed. Bounded work: may read one /proc/PID/maps and open one file. */
void trk_event(struct trk *t, const struct ev_proc *ev);

/* Places an address of (process, exec); looks at what was mapped there last. *ret filled always. 0, -ENOENT. */
int trk_place(const struct trk *t, const struct ev_proc_id *id, uint64_t addr, struct trk_place *ret);
/* Mapping of image @image in this process that holds file offset @off (for the profile's addresses), else in any process. 0, -ENOENT. */
int trk_place_image(const struct trk *t, const struct ev_proc_id *id, uint32_t image, uint64_t off,
		    struct trk_place *ret);
size_t trk_image_cnt(const struct trk *t);
const struct trk_image *trk_image(const struct trk *t, uint32_t id); /* 1 … image_cnt; borrowed until trk_free */
/* Image of the main executable of a process (the newest program of a pid when exec_id is 0): id or 0. */
uint32_t trk_main_image(const struct trk *t, const struct ev_proc_id *id);
/* Was the process's memory map readable? NAMED, NOT_PERMITTED, NO_MAPPING (process unknown). */
enum ev_reason trk_proc_reason(const struct trk *t, const struct ev_proc_id *id);
const struct trk_stats *trk_stats(const struct trk *t);

#endif
