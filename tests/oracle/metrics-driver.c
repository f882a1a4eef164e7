/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: metrics-driver                     prints the names of its snapshots, one a line
 *        metrics-driver SNAPSHOT text|json  prints it; so are tests/golden/metrics made
 *        metrics-driver point               prints the decimal point of the locale
 */
#include <locale.h>

#include "../unit/metrics_samples.h"
#include "encode/encode.h"

int main(int argc, char **argv)
{
	struct sbuf out;

	/* The agent has no locale of its own; a program that uses its library may. */
	(void)setlocale(LC_ALL, "");
	if (argc == 2) {
		puts(localeconv()->decimal_point);
		return 0;
	}
	sbuf_init(&out, 1 << 24);
	for (size_t i = 0; i < ARRAY_SIZE(metrics_samples); i++) {
		struct met_snapshot *s;

		if (argc != 3) {
			puts(metrics_samples[i].name);
			continue;
		}
		if (strcmp(metrics_samples[i].name, argv[1]) != 0)
			continue;
		s = metrics_sample(&metrics_samples[i]);
		if (strcmp(argv[2], "json") == 0)
			SAMPLE_MUST(enc_metrics_json(s, &out));
		else
			SAMPLE_MUST(enc_metrics_text(s, &out));
		fwrite(out.p, 1, out.len, stdout);
		met_snapshot_free(s);
	}
	sbuf_done(&out);
	return 0;
}
