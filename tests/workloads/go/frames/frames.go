// SPDX-License-Identifier: Apache-2.0

// Frames of addresses of this program by Go's own runtime: an oracle for inlined calls.
//
//	frames SEED COUNT
//
// One line a frame, innermost first: file offset of the address, name, file, line, line of the function (0: not reported).
// Of an address that is in no Go function there is nothing, of one whose frames are all left out only the offset.
// Some packages are here for the size and the variety of their code alone.
package main

import (
	"bufio"
	"bytes"
	"compress/flate"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"reflect"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"text/template"
	_ "unsafe"
)

// Calls the runtime: all frames of the last of these addresses, which is that of a call.
//
//go:linkname expand runtime/pprof.runtime_expandFinalInlineFrame
func expand(stack []uintptr) []uintptr

type number interface{ ~int | ~int64 | ~float64 }

// Generic, and inlined into others.
func largest[T number](a, b T) T {
	if a > b {
		return a
	}
	return b
}

type pair[K comparable, V any] struct {
	key   K
	value V
}

//go:noinline
func (p *pair[K, V]) describe() string {
	return fmt.Sprint(p.key, p.value)
}

func (p pair[K, V]) short() string { return fmt.Sprint(p.key) }

// The compiler makes wrappers for methods of embedded types that are called by interfaces.
type base struct{ n int }

func (b base) twice() int    { return 2*b.n + 1 }
func (b *base) thrice() int  { return 3 * b.n }
func (b base) print() string { return strings.Repeat("x", b.twice()) }

type outer struct{ base }
type printer interface {
	print() string
	twice() int
}

//go:noinline
func use(p printer) int { return len(p.print()) + p.twice() }

//go:noinline
func work() int {
	p := &pair[string, int]{"a", 1}
	q := pair[int, []byte]{1, nil}
	n := largest(len(p.describe()), len(q.short())) + int(largest(1.5, float64(len(q.describe()))))
	o := outer{base{n}}
	n += use(o) + use(&o) + use(base{1}) + o.thrice()
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, 1)
	j, _ := json.Marshal(map[string]any{"n": n})
	w.Write(j)
	template.Must(template.New("t").Parse("{{.}}")).Execute(&b, n)
	return n + b.Len()
}

func frames(out *bufio.Writer, pc, off uintptr) {
	// Call-backs are reported addresses after calls.
	stack := []uintptr{pc + 1}
	f, _ := runtime.CallersFrames(stack).Next()
	if f.PC == 0 || f.Entry == pc+1 {
		return // a return address that begins a function is not taken back
	}
	stack = expand(stack)
	if len(stack) == 0 {
		fmt.Fprintf(out, "%x\n", off)
	}
	for i := range stack {
		f, _ := runtime.CallersFrames(stack[i : i+1]).Next()
		start := int64(0)
		if v := reflect.ValueOf(f).FieldByName("startLine"); v.IsValid() {
			start = v.Int()
		}
		fmt.Fprintf(out, "%x\t%s\t%s\t%d\t%d\n", off, f.Function, f.File, f.Line, start)
	}
}

func main() {
	seed, _ := strconv.ParseInt(os.Args[1], 10, 64)
	count, _ := strconv.Atoi(os.Args[2])
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	maps, _ := os.ReadFile("/proc/self/maps")
	self, _ := os.Readlink("/proc/self/exe")
	if work() == 0 {
		return
	}
	for _, line := range strings.Split(string(maps), "\n") {
		var start, end, off uintptr
		var rights string
		if !strings.HasSuffix(line, self) {
			continue
		}
		fmt.Sscanf(line, "%x-%x %s %x", &start, &end, &rights, &off)
		if rights != "r-xp" {
			continue
		}
		r := rand.New(rand.NewSource(seed))
		at := make([]int, count)
		for i := range at {
			at[i] = r.Intn(int(end - start))
		}
		sort.Ints(at)
		for n, i := range at {
			if n > 0 && at[n-1] == i {
				continue
			}
			frames(out, start+uintptr(i), off+uintptr(i))
		}
	}
}
