// SPDX-License-Identifier: Apache-2.0

// A Go program with C in it, whose stacks are known by construction. It prints "ready PID", warms up in main.warm, and works
// for some seconds:
//
//	cgo MODE SECONDS
//
//	toc       main.toC, c_work, c_spin
//	fromc     main.fromC, c_outer, c_back, main.goBack, main.spin
//	nested    … main.goBack, c_work, c_spin: C that was called from Go that was called from C
//	grow      as fromc, through a recursion that makes the goroutine's stack grow while C waits on the other one
package main

/*
#cgo CFLAGS: -O1 -g
extern void c_work(int rounds);
extern void c_outer(int depth);
*/
import "C"

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

var end time.Time
var sink uint64
var inner func()

//go:noinline
func spin() {
	x := sink | 1
	for i := 0; i < 200000; i++ {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	sink = x
}

// The first work, so that a profiler that reads the program's tables when it first meets it has them.
//
//go:noinline
func warm() {
	for until := time.Now().Add(3 * time.Second); time.Now().Before(until); {
		spin()
	}
}

//go:noinline
func late() bool {
	return !time.Now().Before(end)
}

//go:noinline
func toC() {
	C.c_work(300000)
	sink++
}

//go:noinline
func fromC() {
	C.c_outer(3)
	sink++
}

//go:noinline
func grow(n int) int {
	var room [128]int
	room[n] = n
	if n > 0 {
		return grow(n-1) + room[n]
	}
	spin()
	return room[0]
}

//export goBack
func goBack() {
	inner()
	sink++
}

func main() {
	modes := map[string]func(){"toc": toC, "fromc": fromC, "nested": fromC, "grow": fromC}
	inners := map[string]func(){"toc": spin, "fromc": spin, "nested": toC, "grow": func() { sink += uint64(grow(100)) }}
	if len(os.Args) != 3 || modes[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: cgo MODE SECONDS")
		os.Exit(2)
	}
	seconds, err := strconv.Atoi(os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	inner = inners[os.Args[1]]
	end = time.Now().Add(time.Duration(seconds) * time.Second)
	fmt.Printf("ready %d\n", os.Getpid())
	warm()
	for !late() {
		if os.Args[1] == "grow" {
			// A new goroutine has a small stack again.
			done := make(chan bool)
			go func() {
				fromC()
				done <- true
			}()
			<-done
			continue
		}
		modes[os.Args[1]]()
	}
}
