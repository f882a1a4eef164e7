/* SPDX-License-Identifier: Apache-2.0 */
/*
 * demo - the workload of `make demo`: a toy shop that serves pages, with three kinds of thread.
 *
 *     cashier-0, cashier-1  serve_customer → parse_order, price_order → apply_discounts,
 * print_receipt → write(2) stock-keeper          restock_shelves → read_delivery (read(2) of
 * /dev/zero), sort_shelves → compare_goods bookkeeper            close_the_books → hash_ledger,
 * then sleeps: mostly idle
 */
#include "workload.h"

#include <fcntl.h>
#include <pthread.h>

#define SHELF_CNT 4096

static uint64_t demo_until_ns;
static int null_fd, zero_fd;

struct order {
	char text[256];
	uint32_t items[32];
	uint64_t total;
};

WL_FUNC static void parse_order(struct order *o, uint64_t seed)
{
	WL_NEED_FRAME();
	for (size_t i = 0; i < sizeof(o->text); i++) {
		seed = wl_mix(seed);
		o->text[i] = (char)('a' + seed % 26);
	}
	for (size_t i = 0; i < 32; i++) {
		uint32_t v = 0;

		for (size_t k = 0; k < sizeof(o->text); k++)
			v = v * 31 + (uint32_t)o->text[k] + (uint32_t)i;
		o->items[i] = v;
	}
}

WL_FUNC static uint64_t apply_discounts(uint64_t price, int customer)
{
	WL_NEED_FRAME();
	for (int i = 0; i < 400; i++)
		price = wl_mix(price + (uint64_t)customer);
	return price;
}

WL_FUNC static void price_order(struct order *o, int customer)
{
	o->total = 0;
	for (size_t i = 0; i < 32; i++)
		o->total += apply_discounts(o->items[i] | 1, customer) % 10000;
}

WL_FUNC static void print_receipt(const struct order *o)
{
	if (write(null_fd, o->text, sizeof(o->text)) < 0)
		exit(1);
}

WL_FUNC static void serve_customer(int customer)
{
	struct order o;

	parse_order(&o, (uint64_t)customer + 1);
	price_order(&o, customer);
	print_receipt(&o);
	wl_sink += o.total;
}

WL_FUNC static void *cashier(void *arg)
{
	char name[16];

	snprintf(name, sizeof(name), "cashier-%d", (int)(intptr_t)arg);
	pthread_setname_np(pthread_self(), name);
	for (int customer = 0; wl_now_ns() < demo_until_ns; customer++)
		serve_customer(customer);
	return NULL;
}

/* Not qsort of libc: it has no frame pointer, and this program's stacks shall be complete. */
WL_FUNC static bool compare_goods(uint32_t a, uint32_t b)
{
	WL_NEED_FRAME();
	return wl_mix(a) < wl_mix(b);
}

WL_FUNC static void sort_shelves(uint32_t *shelf, size_t n)
{
	for (size_t gap = n / 2; gap > 0; gap /= 2) {
		for (size_t i = gap; i < n; i++) {
			uint32_t v = shelf[i];
			size_t k = i;

			for (; k >= gap && compare_goods(v, shelf[k - gap]); k -= gap)
				shelf[k] = shelf[k - gap];
			shelf[k] = v;
		}
	}
}

WL_FUNC static void read_delivery(void)
{
	static char pallet[1 << 20];

	if (read(zero_fd, pallet, sizeof(pallet)) < 0)
		exit(1);
}

WL_FUNC static void restock_shelves(uint32_t *shelf, uint64_t seed)
{
	for (int i = 0; i < 8; i++)
		read_delivery();
	for (size_t i = 0; i < SHELF_CNT; i++) {
		seed = wl_mix(seed);
		shelf[i] = (uint32_t)seed;
	}
	sort_shelves(shelf, SHELF_CNT);
}

WL_FUNC static void *stock_keeper(void *arg)
{
	static uint32_t shelf[SHELF_CNT];

	(void)arg;
	pthread_setname_np(pthread_self(), "stock-keeper");
	for (uint64_t turn = 1; wl_now_ns() < demo_until_ns; turn++)
		restock_shelves(shelf, turn);
	return NULL;
}

WL_FUNC static void hash_ledger(void)
{
	WL_NEED_FRAME();
	for (int i = 0; i < 100; i++)
		wl_batch();
}

WL_FUNC static void close_the_books(void)
{
	hash_ledger();
	usleep(20000);
}

WL_FUNC static void *bookkeeper(void *arg)
{
	(void)arg;
	pthread_setname_np(pthread_self(), "bookkeeper");
	while (wl_now_ns() < demo_until_ns)
		close_the_books();
	return NULL;
}

int main(int argc, char **argv)
{
	double seconds = 10;
	const struct wl_opt opts[] = {
	        WL_OPT_SECONDS(seconds),
	        WL_OPT_END,
	};
	void *(*const jobs[])(void *) = {cashier, cashier, stock_keeper, bookkeeper};
	pthread_t tids[sizeof(jobs) / sizeof(jobs[0])];
	const size_t n = sizeof(jobs) / sizeof(jobs[0]);

	wl_options(argc, argv, opts);
	null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	zero_fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	if (null_fd < 0 || zero_fd < 0) {
		perror("demo: open");
		return 1;
	}
	demo_until_ns = wl_now_ns() + wl_seconds_ns(seconds);
	wl_ready();
	for (size_t i = 0; i < n; i++) {
		int r = pthread_create(&tids[i], NULL, jobs[i], (void *)(intptr_t)i);

		if (r) {
			fprintf(stderr, "demo: pthread_create: %s\n", strerror(r));
			return 1;
		}
	}
	for (size_t i = 0; i < n; i++)
		pthread_join(tids[i], NULL);
	return 0;
}
