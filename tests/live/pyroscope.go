// SPDX-License-Identifier: Apache-2.0

// pyroscope decodes a profile with the type that Pyroscope's server decodes into, and prints sums of the last kind of value.
// tools/fetch-readers builds it.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"log"
	"os"

	profilev1 "github.com/grafana/pyroscope/api/gen/proto/go/google/v1"
)

type sums struct {
	Types    [][2]string
	Period   int64
	Duration int64
	Comments int
	Samples  int
	Totals   []int64
	Self     map[string]int64
	Total    map[string]int64
	Tids     map[int64]int64
	// Bytes of the message that the type writes again, without fields that it does not know.
	Bytes, BytesAgain int
}

func read(path string) []byte {
	file, err := os.ReadFile(path)
	if err != nil {
		log.Fatal(err)
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		log.Fatal(err)
	}
	data, err := io.ReadAll(unpacked)
	if err != nil {
		log.Fatal(err)
	}
	return data
}

func main() {
	data := read(os.Args[1])
	p := &profilev1.Profile{}
	if err := p.UnmarshalVT(data); err != nil {
		log.Fatal(err)
	}
	again, err := p.MarshalVT()
	if err != nil {
		log.Fatal(err)
	}
	s := sums{Period: p.Period, Duration: p.DurationNanos, Comments: len(p.Comment), Samples: len(p.Sample),
		Totals: make([]int64, len(p.SampleType)), Self: map[string]int64{}, Total: map[string]int64{}, Tids: map[int64]int64{},
		Bytes: len(data), BytesAgain: len(again)}
	for _, t := range p.SampleType {
		s.Types = append(s.Types, [2]string{p.StringTable[t.Type], p.StringTable[t.Unit]})
	}
	functions := map[uint64]string{}
	for _, f := range p.Function {
		functions[f.Id] = p.StringTable[f.Name]
	}
	lines := map[uint64][]string{}
	for _, l := range p.Location {
		for _, line := range l.Line {
			lines[l.Id] = append(lines[l.Id], functions[line.FunctionId])
		}
	}
	for _, sample := range p.Sample {
		for i, v := range sample.Value {
			s.Totals[i] += v
		}
		value := sample.Value[len(sample.Value)-1]
		seen := map[string]bool{}
		for _, id := range sample.LocationId {
			for _, name := range lines[id] {
				if len(seen) == 0 {
					s.Self[name] += value
				}
				if !seen[name] {
					s.Total[name] += value
				}
				seen[name] = true
			}
		}
		for _, l := range sample.Label {
			if p.StringTable[l.Key] == "tid" {
				s.Tids[l.Num] += value
			}
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(s); err != nil {
		log.Fatal(err)
	}
}
