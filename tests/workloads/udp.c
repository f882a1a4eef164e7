/* SPDX-License-Identifier: Apache-2.0 */
/*
 * udp - a storm of UDP datagrams on loopback.
 *
 * udp_send sends datagrams of --bytes as fast as it can, udp_receive reads them and sleeps whenever
 * it has read all of them. They are two threads, "udp-send" and "udp-receive"; with --processes the
 * receiver is a child. Each prints what it counted at the end.
 */
#include "workload.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define UDP_MAX_BYTES 1400
/* The receiver ends when nothing has come for so long and the time is over. */
#define UDP_TIMEOUT_US 100000

static uint64_t udp_until_ns;
static size_t udp_bytes;
static int udp_in = -1, udp_out = -1;

static void udp_fail(const char *what)
{
	fprintf(stderr, "udp: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* Opens both sockets and connects them through a port that the kernel chooses. */
static void udp_open(void)
{
	struct sockaddr_in addr = {.sin_family = AF_INET,
	                           .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct timeval timeout = {.tv_usec = UDP_TIMEOUT_US};
	socklen_t size = sizeof(addr);

	udp_in = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	udp_out = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (udp_in < 0 || udp_out < 0)
		udp_fail("socket");
	if (bind(udp_in, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		udp_fail("bind");
	if (getsockname(udp_in, (struct sockaddr *)&addr, &size) < 0)
		udp_fail("getsockname");
	if (connect(udp_out, (struct sockaddr *)&addr, size) < 0)
		udp_fail("connect");
	if (setsockopt(udp_in, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) < 0)
		udp_fail("setsockopt");
}

WL_FUNC static void udp_send(void)
{
	unsigned long long n = 0;
	char data[UDP_MAX_BYTES] = {0};

	do {
		if (send(udp_out, data, udp_bytes, 0) >= 0)
			n++;
		else if (errno != ENOBUFS && errno != ECONNREFUSED && errno != EINTR)
			udp_fail("send");
	} while (wl_now_ns() < udp_until_ns);
	printf("{\"sent\":%llu}\n", n);
	fflush(stdout);
}

WL_FUNC static void udp_receive(void)
{
	unsigned long long n = 0;
	char data[UDP_MAX_BYTES];

	for (;;) {
		if (recv(udp_in, data, sizeof(data), 0) >= 0)
			n++;
		else if (errno == EAGAIN && wl_now_ns() >= udp_until_ns)
			break;
		else if (errno != EAGAIN && errno != EINTR)
			udp_fail("recv");
	}
	printf("{\"received\":%llu}\n", n);
	fflush(stdout);
}

static void *udp_receiver(void *arg)
{
	(void)arg;
	pthread_setname_np(pthread_self(), "udp-receive");
	udp_receive();
	return NULL;
}

int main(int argc, char **argv)
{
	double seconds = 10, bytes = 64;
	bool processes = false;
	const struct wl_opt opts[] = {
	        WL_OPT_SECONDS(seconds),
	        {.name = "bytes", .num = &bytes, .min = 1, .max = UDP_MAX_BYTES},
	        {.name = "processes", .flag = &processes},
	        WL_OPT_END,
	};
	pthread_t thread;
	pid_t parent = getpid(), child = 0;

	wl_options(argc, argv, opts);
	udp_bytes = (size_t)bytes;
	udp_until_ns = wl_now_ns() + wl_seconds_ns(seconds);
	udp_open();
	if (processes) {
		child = fork();
		if (child < 0)
			udp_fail("fork");
		if (child == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (getppid() != parent)
				return 1;
			pthread_setname_np(pthread_self(), "udp-receive");
			udp_receive();
			return 0;
		}
	} else {
		errno = pthread_create(&thread, NULL, udp_receiver, NULL);
		if (errno)
			udp_fail("pthread_create");
	}
	pthread_setname_np(pthread_self(), "udp-send");
	wl_ready();
	udp_send();
	if (!processes)
		return pthread_join(thread, NULL) != 0;
	while (waitpid(child, NULL, 0) < 0)
		if (errno != EINTR)
			udp_fail("waitpid");
	return 0;
}
