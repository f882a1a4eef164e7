// SPDX-License-Identifier: Apache-2.0

// A Go program without C whose stacks are known by construction. It prints "ready PID", warms up in main.warm, and works
// for some seconds:
//
//	pure MODE SECONDS
//
//	deep        main.main … 40 times main.deep, main.spin
//	closure     a closure in a closure
//	goroutines  main.worker, main.step, main.spin in four goroutines, whose stacks have grown
//	system      main.dump asks the runtime for a trace, which it makes on the thread's stack
//	gc          main.allocate, with the collector alongside it
//	channels    two goroutines that hand a number to each other: parking and waking
//	signals     main.kick sends a signal to the process itself
//	grow        main.sprout … 12 times main.sprout in a new goroutine each time: their stacks are copied all the time
package main

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

var end time.Time
var sink uint64
var kept [256][]byte

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
func deep(n int) {
	if n == 0 {
		for !late() {
			spin()
		}
		return
	}
	deep(n - 1)
	sink++
}

//go:noinline
func call(f func()) {
	f()
	sink++
}

//go:noinline
func closure() {
	outer := 1
	call(func() {
		inner := outer + 1
		call(func() {
			for !late() {
				spin()
				outer += inner
			}
		})
		sink += uint64(inner)
	})
	sink += uint64(outer)
}

//go:noinline
func step(n int) int {
	var room [64]int // the stack of the goroutine grows, and is copied
	room[n] = n
	if n > 0 {
		return step(n-1) + room[n]
	}
	for !late() {
		spin()
	}
	return room[0]
}

//go:noinline
func worker(done chan<- int) {
	done <- step(30)
}

//go:noinline
func goroutines() {
	done := make(chan int)
	for i := 0; i < 4; i++ {
		go worker(done)
	}
	for i := 0; i < 4; i++ {
		<-done
	}
}

//go:noinline
func dump(n int, text []byte) int {
	if n > 0 {
		return dump(n-1, text) + 1
	}
	return runtime.Stack(text, false)
}

//go:noinline
func system() {
	text := make([]byte, 65536)
	for !late() {
		sink += uint64(dump(20, text))
	}
}

//go:noinline
func allocate(n int) {
	kept[n%len(kept)] = make([]byte, 16+n%4096)
}

//go:noinline
func gc() {
	for n := 0; !late(); n++ {
		for i := 0; i < 1000; i++ {
			allocate(n*1000 + i)
		}
	}
}

//go:noinline
func echo(in <-chan int, out chan<- int) {
	for v := range in {
		out <- v + 1
	}
	close(out)
}

//go:noinline
func channels() {
	in, out := make(chan int), make(chan int)
	go echo(in, out)
	for !late() {
		for i := 0; i < 1000; i++ {
			in <- i
			sink += uint64(<-out)
		}
	}
	close(in)
}

//go:noinline
func kick(pid int) {
	if err := syscall.Kill(pid, syscall.SIGUSR1); err != nil {
		panic(err)
	}
}

//go:noinline
func signals() {
	seen := make(chan os.Signal, 1)
	signal.Notify(seen, syscall.SIGUSR1)
	for !late() {
		for i := 0; i < 100; i++ {
			kick(os.Getpid())
		}
	}
}

//go:noinline
func sprout(n int) int {
	var room [1024]int
	room[n] = n
	if n > 0 {
		return sprout(n-1) + room[n]
	}
	return room[0]
}

//go:noinline
func seedling(done chan<- int) {
	done <- sprout(11)
}

//go:noinline
func grow() {
	done := make(chan int)
	for !late() {
		go seedling(done)
		sink += uint64(<-done)
	}
}

func main() {
	modes := map[string]func(){
		"deep": func() { deep(40) }, "closure": closure, "goroutines": goroutines, "system": system,
		"gc": gc, "channels": channels, "signals": signals, "grow": grow,
	}
	if len(os.Args) != 3 || modes[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: pure MODE SECONDS")
		os.Exit(2)
	}
	seconds, err := strconv.Atoi(os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	end = time.Now().Add(time.Duration(seconds) * time.Second)
	fmt.Printf("ready %d\n", os.Getpid())
	warm()
	modes[os.Args[1]]()
}
