// SPDX-License-Identifier: Apache-2.0

// Writes profiles of itself, as programs in Go do: cpu.pb.gz, heap.pb.gz, mutex.pb.gz, block.pb.gz,
// goroutine.pb.gz in a directory. The CPU profile has labels.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"sync"
	"time"
)

var sink uint64
var kept [][]byte

//go:noinline
func spin(until time.Time) {
	for time.Now().Before(until) {
		for i := uint64(0); i < 100000; i++ {
			sink += i * i
		}
	}
}

//go:noinline
func recurse(depth int, until time.Time) {
	if depth == 0 {
		spin(until)
		return
	}
	recurse(depth-1, until)
}

//go:noinline
func allocate() {
	for i := 0; i < 2000; i++ {
		kept = append(kept, make([]byte, 10000))
	}
	kept = kept[:len(kept)/2]
}

//go:noinline
func contend(mu *sync.Mutex, wg *sync.WaitGroup) {
	defer wg.Done()
	for i := 0; i < 20; i++ {
		mu.Lock()
		time.Sleep(time.Millisecond)
		mu.Unlock()
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	dir := os.Args[1]
	runtime.SetMutexProfileFraction(1)
	runtime.SetBlockProfileRate(1)
	runtime.MemProfileRate = 4096

	f, err := os.Create(filepath.Join(dir, "cpu.pb.gz"))
	check(err)
	check(pprof.StartCPUProfile(f))
	end := time.Now().Add(600 * time.Millisecond)
	pprof.Do(context.Background(), pprof.Labels("request", "slow", "shard", "7"), func(context.Context) {
		recurse(5, end)
	})
	spin(time.Now().Add(300 * time.Millisecond))
	pprof.StopCPUProfile()
	check(f.Close())

	allocate()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := 0; i < 4; i++ {
		wg.Add(1)
		go contend(&mu, &wg)
	}
	wg.Wait()
	runtime.GC()
	for _, name := range []string{"heap", "mutex", "block", "goroutine"} {
		f, err := os.Create(filepath.Join(dir, name+".pb.gz"))
		check(err)
		check(pprof.Lookup(name).WriteTo(f, 0))
		check(f.Close())
	}
}
