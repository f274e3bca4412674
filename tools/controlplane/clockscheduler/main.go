// Also change: tools/chaos/clock_shift.c, tools/chaos/chaos_clock.py (the environment variable).

//go:build clockahead

// Command clockscheduler is kube-scheduler, unchanged, with a wall clock that can be moved while it runs: the file that
// CLOCK_SHIFT names holds by how many seconds (a double). Go reads the clock without libc, so nothing can be preloaded:
// tools/chaos/chaos_clock.py builds this with a time package that adds time.Ahead to what it reads.
package main

import (
	"encoding/binary"
	"math"
	"os"
	"time"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func follow(path string) {
	for {
		if content, err := os.ReadFile(path); err == nil && len(content) == 8 {
			time.Ahead = int64(math.Float64frombits(binary.LittleEndian.Uint64(content)))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func main() {
	if path := os.Getenv("CLOCK_SHIFT"); path != "" {
		go follow(path)
	}
	os.Args = os.Args[1:] // called as `controlplane kube-scheduler …` is
	os.Exit(cli.Run(app.NewSchedulerCommand()))
}
