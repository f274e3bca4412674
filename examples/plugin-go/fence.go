package main

import (
	"context"
	"fmt"
	"log"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"trireme.dev/examples/plugin-go/triremev1"
)

// A plugin that many test clusters call remembers so many schedulers at most.
const maxSchedulers = 64

// fence refuses the calls of leaders that have been deposed. An epoch numbers the leaders of one scheduler; a plugin
// may be called by several, and outlives clusters, so epochs of different schedulers are not compared.
type fence struct {
	mu      sync.Mutex
	highest map[string]uint64
	order   []string // the schedulers in the order in which they were first seen
}

func newFence() *fence {
	return &fence{highest: map[string]uint64{}}
}

// intercept checks the cycle of each call that has one.
func (f *fence) intercept(
	ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
) (any, error) {
	if call, ok := request.(interface{ GetCycle() *triremev1.Cycle }); ok {
		if err := f.admit(call.GetCycle().GetFence()); err != nil {
			// Callers act on the reason, not on the text.
			_ = grpc.SetTrailer(ctx, metadata.Pairs("trireme-reason", "stale-epoch"))
			return nil, status.Error(codes.FailedPrecondition, err.Error())
		}
	}
	return handle(ctx, request)
}

// admit takes note of a caller's epoch; it fails where a higher one of the same scheduler has been seen. Epoch 0 is a
// call that names no leader.
func (f *fence) admit(caller *triremev1.Fence) error {
	scheduler, epoch := caller.GetSchedulerId(), caller.GetEpoch()
	if epoch == 0 {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	highest, seen := f.highest[scheduler]
	if epoch < highest {
		return fmt.Errorf("epoch %d is over: a leader of epoch %d has been seen; "+
			"restart this process if the cluster was restored from a backup", epoch, highest)
	}
	if !seen {
		log.Printf("called by scheduler %q with epoch %d", scheduler, epoch)
		f.order = append(f.order, scheduler)
		if len(f.order) > maxSchedulers {
			delete(f.highest, f.order[0])
			f.order = f.order[1:]
		}
	}
	f.highest[scheduler] = epoch
	return nil
}
