// Also change: internal/trireme/rpc/follower.py (which names the other languages' files).

package trireme

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"trireme.dev/sdk/go/triremev1"
)

// How long before its deadline a call that waits for the cluster gives up, so that the answer still arrives.
const replyTime = 50 * time.Millisecond

// How long such a call waits that has no deadline.
const longestWait = 2 * time.Second

// follower serves the snapshot stream, and has calls wait for it.
type follower struct {
	triremev1.UnimplementedSnapshotFollowerServer
	*cluster
	changed  chan struct{} // closed, and another one made, with every change
	stream   int           // the stream that is followed: the last one that was accepted
	leader   *triremev1.Fence
	instance string
	stopping <-chan struct{}
}

func newFollower(instance string, stopping <-chan struct{}) *follower {
	return &follower{
		cluster: newCluster(), changed: make(chan struct{}), leader: &triremev1.Fence{}, instance: instance,
		stopping: stopping,
	}
}

// message is what a stream received.
type message struct {
	request *triremev1.SyncRequest
	err     error
}

// Sync follows one stream until it ends, the process stops, or another stream is accepted.
func (f *follower) Sync(server triremev1.SnapshotFollower_SyncServer) error {
	messages := make(chan message)
	go func() {
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
	}()
	first, err := f.next(messages)
	if err != nil {
		return err
	}
	hello := first.GetHello()
	if hello == nil {
		return status.Error(codes.InvalidArgument, "message: a stream begins with hello")
	}
	stream, err := f.accept(hello.GetFence())
	if err != nil {
		server.SetTrailer(metadata.Pairs(reasonMetadata, reasonStaleEpoch))
		return status.Error(codes.FailedPrecondition, err.Error())
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
			answer := &triremev1.SyncResponse{AppliedGeneration: generation, Instance: f.instance}
			if err := server.Send(answer); err != nil {
				return err
			}
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

// accept makes this the stream that is followed. Epochs are compared among leaders of one scheduler; another scheduler
// replaces it, because its cluster is another one.
func (f *follower) accept(caller *triremev1.Fence) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.checkEpoch(caller); err != nil {
		return 0, err
	}
	f.stream++
	f.leader, f.synced = caller, false
	return f.stream, nil
}

func (f *follower) checkEpoch(caller *triremev1.Fence) error {
	if caller.GetSchedulerId() == f.leader.GetSchedulerId() && caller.GetEpoch() < f.leader.GetEpoch() {
		return staleEpoch(caller.GetEpoch(), f.leader.GetEpoch())
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
	if err := f.apply(delta); err != nil {
		return 0, false, status.Error(codes.FailedPrecondition, "delta: "+err.Error())
	}
	close(f.changed)
	f.changed = make(chan struct{})
	return f.generation, f.synced, nil
}

// wait returns once the cluster is what the cycle needs: of its leader, and of its generation at least. Where it does not
// become so in time the caller, who calls again, gets FAILED_PRECONDITION.
func (f *follower) wait(ctx context.Context, cycle *triremev1.Cycle) error {
	limit := time.Now().Add(longestWait)
	if deadline, ok := ctx.Deadline(); ok && deadline.Add(-replyTime).Before(limit) {
		limit = deadline.Add(-replyTime)
	}
	timer := time.NewTimer(time.Until(limit))
	defer timer.Stop()
	for {
		generation, changed, err := f.reached(cycle)
		if err != nil {
			return refusal(ctx, reasonStaleEpoch, err.Error())
		}
		if changed == nil {
			return nil
		}
		select {
		case <-changed:
		case <-timer.C:
			text := fmt.Sprintf("cycle.generation: %d is not reached, the cluster is at %d", cycle.GetGeneration(), generation)
			return status.Error(codes.FailedPrecondition, text)
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}

// reached returns nil in place of the channel to wait for, where the cluster is what the cycle needs.
func (f *follower) reached(cycle *triremev1.Cycle) (uint64, chan struct{}, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fence := cycle.GetFence()
	if err := f.checkEpoch(fence); err != nil {
		return 0, nil, err
	}
	followed := fence.GetEpoch() == f.leader.GetEpoch() && fence.GetSchedulerId() == f.leader.GetSchedulerId()
	if f.synced && followed && f.generation >= cycle.GetGeneration() {
		return f.generation, nil, nil
	}
	return f.generation, f.changed, nil
}
