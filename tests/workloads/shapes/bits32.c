/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bits32 - a 32-bit program without a C library, so that it needs no more than a compiler with
 * -m32.
 *
 * Says "ready PID" and spins until it is ended, or for some minutes. It publishes no chain: there
 * is none without frame pointers.
 */
#define SYS_EXIT   1
#define SYS_WRITE  4
#define SYS_GETPID 20

static long call3(long nr, long a, const void *b, long c)
{
	long r;

	__asm__ volatile("int $0x80" : "=a"(r) : "0"(nr), "b"(a), "c"(b), "d"(c) : "memory");
	return r;
}

__attribute__((noinline)) static void bits32_spin(void)
{
	for (volatile unsigned i = 0; i < 4000000000u; i++)
		;
}

void _start(void);
void _start(void)
{
	char line[24] = "ready ", digits[12];
	long pid = call3(SYS_GETPID, 0, 0, 0);
	int n = 6, k = 0;

	do
		digits[k++] = (char)('0' + pid % 10);
	while (pid /= 10);
	while (k)
		line[n++] = digits[--k];
	line[n++] = '\n';
	call3(SYS_WRITE, 1, line, n);
	for (int i = 0; i < 20; i++)
		bits32_spin();
	call3(SYS_EXIT, 0, 0, 0);
}
