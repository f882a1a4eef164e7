// SPDX-License-Identifier: Apache-2.0
// cxx - names that need demangling: namespaces, templates, a member, a lambda's class, an operator.
//
// main → demo::run → demo::Engine<T>::work(…) for T = int and double → demo::detail::accumulate<T>,
// the leaf.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <unistd.h>

#if defined(__has_attribute)
#if __has_attribute(noipa)
#define WL_FUNC __attribute__((noipa))
#endif
#endif
#ifndef WL_FUNC
#define WL_FUNC __attribute__((noinline))
#endif

using Clock = std::chrono::steady_clock;

namespace demo
{
namespace detail
{
template <typename T> WL_FUNC T accumulate(const std::vector<T> &values, int rounds)
{
	T sum = 0;

	__asm__ volatile(""
	                 :
	                 : "r"(__builtin_frame_address(0))); // or gcc gives it no frame: workload.h
	for (int i = 0; i < rounds; i++)
		for (const T &v : values)
			sum += v * static_cast<T>(i & 3);
	return sum;
}
} // namespace detail

template <typename T> class Engine
{
      public:
	explicit Engine(size_t n) : values_(n, static_cast<T>(1))
	{
	}

	WL_FUNC T work(int rounds)
	{
		return detail::accumulate<T>(values_, rounds);
	}

	WL_FUNC T operator()(int rounds)
	{
		return work(rounds);
	}

      private:
	std::vector<T> values_;
};

WL_FUNC uint64_t run(Clock::time_point until)
{
	Engine<int> ints(4096);
	Engine<double> doubles(4096);
	volatile double sink = 0;
	uint64_t turns = 0;

	do {
		sink = sink + ints(200);
		sink = sink + doubles(200);
		turns++;
	} while (Clock::now() < until);
	return turns;
}
} // namespace demo

int main(int argc, char **argv)
{
	double seconds = 10;

	if (argc == 3 && strcmp(argv[1], "--seconds") == 0) {
		char *end;

		seconds = strtod(argv[2], &end);
		if (end == argv[2] || *end || !(seconds >= 0 && seconds <= 86400))
			argc = 0;
	}
	if (argc != 1 && argc != 3) {
		fprintf(stderr, "usage: cxx [--seconds N]\n");
		return 2;
	}
	printf("ready %d\n", static_cast<int>(getpid()));
	fflush(stdout);
	const auto span =
	        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
	printf("{\"turns\":%llu}\n",
	       static_cast<unsigned long long>(demo::run(Clock::now() + span)));
	return 0;
}
