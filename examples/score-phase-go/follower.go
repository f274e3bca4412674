// Also change: internal/trireme/rpc/follower.py (which names the other languages' files).

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"trireme.dev/sdk/go/triremev1"
)

const (
	// How long before its deadline a call that waits for the cluster gives up, so that the answer still arrives.
	replyTime = 50 * time.Millisecond

	// How long such a call waits at most.
	longestWait = 2 * time.Second

	// Where a refusal names its reason.
	reasonMetadata = "trireme-reason"
)

// follower serves the snapshot stream, and has calls wait for what it brings. A call is answered from a generation at
// least as new as the one that it names, under its configuration and leader, or refused.
type follower struct {
	triremev1.UnimplementedSnapshotFollowerServer
	stopping <-chan struct{}

	mu            sync.Mutex
	cluster       *cluster
	configuration *configuration
	configHash    uint64
	changed       chan struct{}    // closed, and another one made, with every change
	stream        int              // the stream that is followed: the last one that was accepted
	leader        *triremev1.Fence // whose stream that is
}

func newFollower(stopping <-chan struct{}) *follower {
	return &follower{
		stopping: stopping, cluster: newCluster(rules{}), changed: make(chan struct{}), leader: &triremev1.Fence{},
	}
}

// message is what a stream received.
type message struct {
	request *triremev1.SyncRequest
	err     error
}

// Sync follows one stream until it ends, the process stops, or another stream is accepted.
func (f *follower) Sync(server grpc.BidiStreamingServer[triremev1.SyncRequest, triremev1.SyncResponse]) error {
	messages := make(chan message)
	go receive(server, messages)
	first, err := f.next(messages)
	if err != nil {
		return err
	}
	if first.GetHello() == nil {
		return status.Error(codes.InvalidArgument, "message: a stream begins with hello")
	}
	stream, err := f.accept(first.GetHello(), server.SetTrailer)
	if err != nil {
		return err
	}
	for {
		request, err := f.next(messages)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if request.GetDelta() == nil {
			continue // a newer frontend may send messages of a kind that is unknown here
		}
		generation, synced, err := f.take(stream, request.GetDelta())
		if err != nil {
			return err
		}
		// Nothing is acknowledged before the full sync is complete.
		if synced {
			if err := server.Send(&triremev1.SyncResponse{AppliedGeneration: generation, Instance: instance}); err != nil {
				return err
			}
		}
	}
}

func receive(
	server grpc.BidiStreamingServer[triremev1.SyncRequest, triremev1.SyncResponse], messages chan<- message,
) {
	for {
		request, err := server.Recv()
		select {
		case messages <- message{request, err}:
		case <-server.Context().Done():
			return
		}
		if err != nil {
			return
		}
	}
}

func (f *follower) next(messages <-chan message) (*triremev1.SyncRequest, error) {
	select {
	case got := <-messages:
		return got.request, got.err
	case <-f.stopping:
		return nil, status.Error(codes.Unavailable, "the process ends")
	}
}

// accept makes this the stream that is followed. A refused one changes nothing.
func (f *follower) accept(hello *triremev1.Hello, setTrailer func(metadata.MD)) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.checkEpoch(hello.GetFence()); err != nil {
		setTrailer(metadata.Pairs(reasonMetadata, "stale-epoch"))
		return 0, err
	}
	if f.configuration == nil || hello.GetConfigHash() != f.configHash {
		made, err := configure(hello.GetConfiguration())
		if err != nil {
			return 0, status.Errorf(codes.InvalidArgument, "hello.configuration: %v", err)
		}
		f.configuration, f.configHash = made, hello.GetConfigHash()
	}
	f.stream++
	f.leader, f.cluster = hello.GetFence(), newCluster(f.configuration.rules)
	slog.Info("following a scheduler", "scheduler", f.leader.GetSchedulerId(), "epoch", f.leader.GetEpoch())
	return f.stream, nil
}

// checkEpoch refuses a leader that was deposed. Epochs of different schedulers are not compared.
func (f *follower) checkEpoch(caller *triremev1.Fence) error {
	if caller.GetSchedulerId() == f.leader.GetSchedulerId() && caller.GetEpoch() < f.leader.GetEpoch() {
		return status.Errorf(codes.FailedPrecondition,
			"fence.epoch: %d is over: a leader of epoch %d has been seen", caller.GetEpoch(), f.leader.GetEpoch())
	}
	return nil
}

// take applies a delta of the stream.
func (f *follower) take(stream int, delta *triremev1.Delta) (uint64, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if stream != f.stream {
		return 0, false, status.Error(codes.Aborted, "another stream has replaced this one")
	}
	if err := f.cluster.apply(delta); err != nil {
		f.cluster.clear()
		return 0, false, status.Error(codes.FailedPrecondition, "delta: "+err.Error())
	}
	close(f.changed)
	f.changed = make(chan struct{})
	return f.cluster.generation, f.cluster.synced, nil
}

// await returns with the lock held once the cluster and the configuration are what the cycle needs; the caller unlocks.
// With an error the lock is not held.
func (f *follower) await(ctx context.Context, cycle *triremev1.Cycle) error {
	limit := time.Now().Add(longestWait)
	if deadline, ok := ctx.Deadline(); ok && deadline.Add(-replyTime).Before(limit) {
		limit = deadline.Add(-replyTime)
	}
	timer := time.NewTimer(time.Until(limit))
	defer timer.Stop()
	for {
		f.mu.Lock()
		ready, err := f.reached(ctx, cycle)
		if ready {
			return nil
		}
		changed, generation := f.changed, f.cluster.generation
		f.mu.Unlock()
		if err != nil {
			return err
		}
		select {
		case <-changed:
		case <-timer.C:
			return status.Errorf(codes.FailedPrecondition,
				"cycle.generation: %d is not reached, the cluster is at %d", cycle.GetGeneration(), generation)
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}

// reached says whether the cluster is what the cycle needs; an error, if it never will be. The caller holds the lock.
func (f *follower) reached(ctx context.Context, cycle *triremev1.Cycle) (bool, error) {
	fence := cycle.GetFence()
	if err := f.checkEpoch(fence); err != nil {
		return false, refused(ctx, "stale-epoch", err)
	}
	followed := fence.GetEpoch() == f.leader.GetEpoch() && fence.GetSchedulerId() == f.leader.GetSchedulerId()
	if !followed || !f.cluster.synced || f.cluster.generation < cycle.GetGeneration() {
		return false, nil
	}
	if cycle.GetConfigHash() != f.configHash {
		return false, refused(ctx, "config-mismatch",
			status.Error(codes.FailedPrecondition, "cycle.config_hash: not this configuration"))
	}
	return true, nil
}

func refused(ctx context.Context, reason string, err error) error {
	if problem := grpc.SetTrailer(ctx, metadata.Pairs(reasonMetadata, reason)); problem != nil {
		return fmt.Errorf("%w (%v)", err, problem)
	}
	return err
}
