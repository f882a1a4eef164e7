// SPDX-License-Identifier: Apache-2.0
// Exceptions that are thrown and caught in a loop, through frames with and without something to
// clean up.

extern "C" {
extern volatile unsigned long throw_sink;
volatile unsigned long throw_sink;
void throw_catch(void);
void throw_now(int n);
void throw_a(int n);
void throw_b(int n);
void throw_c(int n);
void throw_d(int n);
}

// As WL_FUNC of workload.h, which is C.
#if __has_attribute(noipa)
#define FRAME __attribute__((noipa))
#else
#define FRAME __attribute__((noinline))
#endif

namespace
{
struct guard {
	volatile char room[40];
	explicit guard(int n)
	{
		room[0] = static_cast<char>(n);
	}
	~guard()
	{
		throw_sink = throw_sink + static_cast<unsigned long>(room[0]);
	}
};
} // namespace

FRAME void throw_now(int n)
{
	if (n)
		throw n;
	throw_sink = throw_sink + 1;
}
FRAME void throw_d(int n)
{
	throw_now(n + 1);
	throw_sink = throw_sink + 1;
}
FRAME void throw_c(int n)
{
	guard g(n);

	throw_d(n + 1);
}
FRAME void throw_b(int n)
{
	throw_c(n + 1);
	throw_sink = throw_sink + 1;
}
FRAME void throw_a(int n)
{
	guard g(n);

	throw_b(n + 1);
}
FRAME void throw_catch(void)
{
	for (int i = 0; i < 200; i++) {
		try {
			throw_a(i);
		} catch (int n) {
			throw_sink = throw_sink + static_cast<unsigned long>(n);
		}
	}
}
