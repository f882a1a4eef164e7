/* SPDX-License-Identifier: Apache-2.0 */
#include "track/track.h"

void trk_image_open(const struct trk *t, uint32_t id, bool with_root, struct trk_open *ret)
{
	const struct trk_image *img = id <= trk_image_cnt(t) ? trk_image(t, id) : NULL;

	*ret = (struct trk_open){.fd = -EBADF,
	                         .root_fd = -EBADF,
	                         .path = img ? img->path : "",
	                         .reason = img ? img->reason : EV_REASON_NO_FILE,
	                         .no_file = img && img->kind == EV_MAP_OTHER};
	if (img && img->mem) {
		ret->mem = img->mem;
		ret->mem_len = img->mem_len;
		return;
	}
	if (!img || img->reason != EV_REASON_NAMED)
		return;
	ret->fd = trk_image_fd(t, id, &ret->close_fd);
	if (ret->fd < 0) {
		ret->reason = ret->fd == -ESTALE ? EV_REASON_FILE_REPLACED : EV_REASON_NO_FILE;
		ret->close_fd = false;
	}
	if (with_root && ret->reason == EV_REASON_NAMED)
		ret->root_fd = proc_other_root(img->pid);
	if (ret->root_fd >= 0)
		ret->path = proc_path_inside(img->pid, img->path);
}

void trk_open_done(struct trk_open *o)
{
	if (o->close_fd)
		closep(&o->fd);
	o->close_fd = false;
	closep(&o->root_fd);
}
