# SPDX-License-Identifier: Apache-2.0
"""Programs in C, C++, Rust, Fortran and assembly whose debug information test-dwarf-oracle.py compares."""
import os

PARTS = 16  # of the C program

INL_H = r'''
#define TWICE(x) ((x) + \
	(x))
struct pair { int a, b; };
static inline __attribute__((always_inline)) int leaf(int x)
{
	if (x & 1)
		return TWICE(x) * 3;
	return x ^ 0x55;
}
static inline __attribute__((always_inline)) int middle(struct pair *p, int n)
{
	int s = 0;
	for (int i = 0; i < n; i++) {
		s += leaf(p->a + i);
		{
			int local = leaf(s);
			p->b ^= local;
		}
	}
	return s;
}
int other(int n, struct pair *p);
extern volatile int sink;
void fatal(const char *why) __attribute__((cold, noreturn));
'''

# One of these for each k.
C_PART = r'''
static int small_K(int x) { return leaf(x + K) + leaf(x - K); }
static __attribute__((noinline)) int part_K(struct pair *p, int n, int mode)
{
	if (__builtin_expect(n < 0, 0)) {
		sink = n;
		fatal("negative K");
	}
	switch (mode) {
	case 0: return middle(p, n);
	case 1: return small_K(n) + other(n, p);
	case 2: return p->a / (n + K + 1);
	case 3: {
		int s = K;
		while (n-- > 0)
			s = small_K(s) + middle(p, 3);
		return s;
	}
	case 5: sink = leaf(small_K(p->b)); return sink;
	}
	for (int i = 0; i < n; i++)
		for (int k = i; k < n; k++)
			sink += middle(p, k) * leaf(mode);
	return small_K(mode);
}
int entry_K(struct pair *p) { return part_K(p, 10, 0) + part_K(p, sink, K % 7) + small_K(7); }
'''

C_OTHER = r'''
#include "inl.h"
#include <stdlib.h>
volatile int sink;
static int deep2(int n, struct pair *p) { return middle(p, n) + leaf(n); }
static int deep1(int n, struct pair *p) { return n > 3 ? deep2(n - 1, p) : deep2(n, p) * 2; }
int other(int n, struct pair *p) { return deep1(n, p) + p->a; }
int unused_big(int n, struct pair *p)
{
	BIG
	return n;
}
void fatal(const char *why) { if (why) abort(); exit(1); }
'''

CXX_A = r'''
#include "shared.hh"
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
namespace outer {
namespace {
template <typename T, int N> struct Ring {
	T items[N] {};
	unsigned at = 0;
	void put(const T &t) { items[at++ % N] = t; }
	template <typename F> T fold(T init, F f) const
	{
		for (const auto &i : items)
			init = f(init, i);
		return init;
	}
};
struct Base {
	virtual ~Base() = default;
	virtual int value(int) const = 0;
};
template <class T> struct Derived : Base {
	T t;
	explicit Derived(T v) : t(v) {}
	int value(int x) const override { return Widget<T>(t).twice(x) + int(t); }
};
}
int lambdas(std::vector<int> &v, int bias)
{
	Ring<int, 8> ring;
	auto add = [&](int x) {
		auto inner = [x, bias](int y) { return clamp_to(x * y + bias, -100, 100); };
		ring.put(inner(x) + inner(3));
	};
	std::for_each(v.begin(), v.end(), add);
	std::sort(v.begin(), v.end(), [bias](int a, int b) { return (a ^ bias) < (b ^ bias); });
	return ring.fold(0, [](int a, int b) { return a + b; });
}
int strings(const std::vector<int> &v)
{
	std::map<std::string, int> m;
	for (int x : v)
		m[std::to_string(x % 17)] += x;
	int s = 0;
	for (auto &[k, n] : m)
		s += n * int(k.size());
	return s;
}
struct Local {
	static int make(int n)
	{
		struct Inside {
			int n;
			int operator()(int k) const { return n * k + Widget<long>(k).twice(n); }
		};
		std::function<int(int)> f = Inside {n};
		return f(n) + f(2);
	}
};
}
int main(int argc, char **argv)
{
	std::vector<int> v;
	for (int i = 0; i < argc * 100; i++)
		v.push_back(i * 7919 % 1000);
	try {
		std::unique_ptr<outer::Base> b(new outer::Derived<double>(argc));
		int s = outer::lambdas(v, argc) + outer::strings(v) + outer::Local::make(argc) + b->value(argc) + second(v);
		if (s == 12345)
			throw s;
		return s & 1;
	} catch (int e) {
		return e;
	}
}
'''
SHARED_HH = r'''
#include <vector>
template <class T> struct Widget {
	T v;
	explicit Widget(T x) : v(x) {}
	int twice(int x) const;
	~Widget() { if (v == T(77)) v = T(1); }
};
template <class T> int Widget<T>::twice(int x) const
{
	int s = 0;
	for (int i = 0; i < x; i++)
		s += int(v) * 2 + i % 3;
	return s;
}
template <class T> inline T clamp_to(T x, T lo, T hi) { return x < lo ? lo : x > hi ? hi : x; }
int second(std::vector<int> &v);
'''
CXX_B = r'''
#include "shared.hh"
#include <numeric>
#include <algorithm>
static int helper(int x) { return clamp_to(x, 1, 50) + Widget<short>(short(x)).twice(x); }
int second(std::vector<int> &v)
{
	std::vector<int> w(v);
	std::transform(v.begin(), v.end(), w.begin(), [](int x) { return helper(x); });
	std::stable_sort(w.begin(), w.end());
	return std::accumulate(w.begin(), w.end(), 0, [](int a, int b) { return a + helper(b); }) + Widget<long>(3).twice(2);
}
'''
RUST = r'''
use std::collections::HashMap;
trait Shape { fn area(&self) -> f64; fn scaled(&self, k: f64) -> f64 { self.area() * k * k } }
struct Square(f64);
struct Circle { r: f64 }
impl Shape for Square { fn area(&self) -> f64 { self.0 * self.0 } }
impl Shape for Circle { #[inline(always)] fn area(&self) -> f64 { pi() * self.r.powi(2) } }
#[inline(always)] fn pi() -> f64 { 3.0 + 0.14159 }
mod inner {
    pub fn generic<T: Ord + Clone, const N: usize>(v: &[T]) -> Vec<T> {
        let mut w: Vec<T> = v.iter().cloned().take(N).collect();
        w.sort_by(|a, b| b.cmp(a));
        w
    }
    #[inline(never)] pub fn fold(v: &[i64]) -> i64 { v.iter().enumerate().filter(|(i, _)| i % 3 == 0).map(|(_, x)| x * 2).sum() }
}
#[inline(never)] fn words(text: &str) -> HashMap<String, usize> {
    let mut m = HashMap::new();
    for w in text.split_whitespace() { *m.entry(w.to_lowercase()).or_insert(0) += 1; }
    m
}
fn main() {
    let n = std::env::args().count() as i64;
    let shapes: Vec<Box<dyn Shape>> = vec![Box::new(Square(n as f64)), Box::new(Circle { r: n as f64 })];
    let total: f64 = shapes.iter().map(|s| s.scaled(2.0) + s.area()).sum();
    let v: Vec<i64> = (0..n * 100).map(|x| x * 7919 % 1000).collect();
    let w = inner::generic::<i64, 50>(&v);
    println!("{} {} {:?} {:?}", total, inner::fold(&w), words("a b A").len(), w.first());
    if total < 0.0 { panic!("negative {}", total); }
}
'''
FORTRAN = r'''
module shapes
  implicit none
  type :: box
    real(8) :: a, b
  contains
    procedure :: area => box_area
  end type
  interface total
    module procedure total_boxes, total_reals
  end interface
contains
  pure real(8) function box_area(self)
    class(box), intent(in) :: self
    box_area = self%a * self%b + square(self%a)
  end function
  pure elemental real(8) function square(x)
    real(8), intent(in) :: x
    square = x * x
  end function
  real(8) function total_boxes(v)
    type(box), intent(in) :: v(:)
    integer :: i
    total_boxes = 0
    do i = 1, size(v)
      total_boxes = total_boxes + v(i)%area() + nested(i)
    end do
  contains
    real(8) function nested(k)
      integer, intent(in) :: k
      nested = square(real(k, 8)) + v(k)%b
    end function
  end function
  real(8) function total_reals(v)
    real(8), intent(in) :: v(:)
    total_reals = sum(square(v))
  end function
end module
program main
  use shapes
  implicit none
  type(box) :: b(10)
  real(8) :: r(100)
  integer :: i
  do i = 1, 10
    b(i) = box(i, 2 * i)
  end do
  call random_number(r)
  print *, total(b), total(r), twice(3)
contains
  integer function twice(n)
    integer, intent(in) :: n
    twice = 2 * n
    if (n < 0) call fail("negative")
  end function
  subroutine fail(why)
    character(*), intent(in) :: why
    print *, why
    stop 1
  end subroutine
end program
'''
ASM = r'''
	.text
	.globl _start
	.type _start, @function
_start:
	xor %ebp, %ebp
	mov $60, %eax
	call helper
	syscall
	.size _start, . - _start
	.type helper, @function
helper:
	.rept 20
	nop
	lea 1(%rdi), %rdi
	.endr
	ret
	.size helper, . - helper
	.section .text.other, "ax", @progbits
tail:
	nop
	ret
'''


def write_sources(folder):
    big = '\n\t'.join(f'sink = leaf(p->b + {i});' for i in range(180))
    parts = ''.join(C_PART.replace('K', str(k)) for k in range(PARTS))
    calls = ' + '.join(f'entry_{k}(&p)' for k in range(PARTS))
    sources = {
        'sub/inl.h': INL_H,
        'a.c': '#include "inl.h"\n' + parts + '#ifdef MAIN\nint main(int c, char **v) { struct pair p = {c, c}; return ' +
               calls + '; }\n#endif\n',
        'sub/b.c': C_OTHER.replace('BIG', big),
        'a.cc': CXX_A, 'sub/shared.hh': SHARED_HH, 'sub/b.cc': CXX_B,
        'a.rs': RUST, 'a.f90': FORTRAN, 'a.s': ASM,
    }
    for name, text in sources.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w', encoding='ascii') as f:
            f.write(text)
