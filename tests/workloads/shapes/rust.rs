// SPDX-License-Identifier: Apache-2.0
// A Rust program that publishes its stack as shape.h says. --shape spin: a chain of calls; --shape panic (needs
// panic=unwind): panics that are caught, in a loop. The frames of Rust's own library are below rust_main.

use std::hint::black_box;
use std::io::Write;
use std::time::{Duration, Instant};

#[no_mangle]
#[inline(never)]
pub fn shape_spin(n: u64) -> u64 {
    let mut x = black_box(n) | 1;
    for _ in 0..20000 * n {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    black_box(x)
}

#[no_mangle]
#[inline(never)]
pub fn rust_c(n: u64) -> u64 {
    let room = black_box([n; 30]);
    shape_spin(n) + room[(n % 30) as usize]
}

#[no_mangle]
#[inline(never)]
pub fn rust_b(n: u64) -> u64 {
    let text = black_box(vec![n; 3]);
    rust_c(n) ^ text[0]
}

#[no_mangle]
#[inline(never)]
pub fn rust_a(n: u64) -> u64 {
    rust_b(black_box(n)) + 1
}

#[no_mangle]
#[inline(never)]
pub fn panic_now(n: u64) -> u64 {
    let room = black_box([n; 20]);
    if black_box(n) > 0 {
        std::panic::panic_any(n);
    }
    room[3]
}

#[no_mangle]
#[inline(never)]
pub fn panic_b(n: u64) -> u64 {
    let text = black_box(vec![n; 3]);
    panic_now(n) ^ text[0]
}

#[no_mangle]
#[inline(never)]
pub fn panic_a(n: u64) -> u64 {
    panic_b(black_box(n)) + 1
}

#[no_mangle]
#[inline(never)]
pub fn rust_main(shape: &str, until: Instant) {
    while Instant::now() < until {
        if shape == "spin" {
            black_box(rust_a(50));
            continue;
        }
        for _ in 0..100 {
            black_box(std::panic::catch_unwind(|| panic_a(7)).is_err());
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let after = |name: &str| {
        let at = args.iter().position(|a| a == name).expect(name);
        args[at + 1].clone()
    };
    let shape = after("--shape");
    let seconds: f64 = after("--seconds").parse().unwrap();
    let chain = match shape.as_str() {
        "spin" => "\"shape_spin\", \"rust_c\", \"rust_b\", \"rust_a\", \"rust_main\"",
        // catch_unwind has no frame where it is inlined.
        "panic" => "\"panic_now\", \"panic_b\", \"panic_a\", \"rust_main\"",
        _ => panic!("no shape of that name"),
    };
    std::panic::set_hook(Box::new(|_| {}));
    println!("ready {}", std::process::id());
    println!("{{\"shape\": \"{}\", \"pid\": {}, \"chains\": [[{}]]}}", shape, std::process::id(), chain);
    std::io::stdout().flush().unwrap();
    rust_main(&shape, Instant::now() + Duration::from_secs_f64(seconds));
}
