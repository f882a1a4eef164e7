/* SPDX-License-Identifier: Apache-2.0 */
/* Side-band records: the bytes are walked like a ring, each record in memory of exactly its size.
 */
#include "perfevent/perfevent.h"

#include <linux/perf_event.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void one(const uint8_t *bytes, size_t len)
{
	uint8_t *rec = malloc(len ? len : 1);
	struct ev_proc e;
	int r;

	if (!rec)
		return;
	if (len > 0)
		memcpy(rec, bytes, len);
	r = pev_record_parse(rec, len, &e);
	assert(r == 1 || r == 0 || r == -EINVAL);
	if (r == 1) {
		assert(e.type >= EV_PROC_MMAP && e.type <= EV_PROC_KSYMBOL);
		assert(strnlen(e.comm, sizeof(e.comm)) < sizeof(e.comm));
		assert(strlen(e.map.path) < len);
		if (e.type == EV_PROC_KSYMBOL)
			assert(e.ksym.start && e.ksym.len && *e.ksym.name);
		if (e.type == EV_PROC_MMAP) {
			assert(e.map.start < e.map.end && e.map.kind != 0);
			/* The path is the record's, perhaps without its end. */
			assert(!*e.map.path || memmem(bytes, len, e.map.path, strlen(e.map.path)));
		}
	}
	free(rec);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cursor c = cursor_of(data, size);

	one(data, size);
	while (cursor_left(&c) >= sizeof(struct perf_event_header)) {
		struct perf_event_header h;
		size_t len;

		memcpy(&h, c.p, sizeof(h));
		len = MIN_OF(MAX_OF((size_t)h.size, sizeof(h)), cursor_left(&c));
		one(c.p, len);
		(void)cursor_skip(&c, len); /* cannot fail: so many are left */
	}
	return 0;
}
