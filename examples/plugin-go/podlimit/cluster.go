package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"trireme.dev/examples/plugin-go/triremev1"
)

// How long before its deadline a call that waits for the cluster gives up, so that the answer still arrives.
const reply = 50 * time.Millisecond

// How long such a call waits that has no deadline.
const patience = 2 * time.Second

// cluster is what this plugin needs of the snapshot stream: the limit of each node, and how many pods it has. A plugin
// that needs more keeps more of each delta.
type cluster struct {
	triremev1.UnimplementedSnapshotFollowerServer
	mu         sync.Mutex
	changed    chan struct{} // closed, and another one made, with every change
	stream     int           // the stream that is followed: the last one that was accepted
	leader     *triremev1.Fence
	synced     bool
	generation uint64
	labels     map[uint32]map[string]string // by slot
	slots      map[uint32]uint32            // the slot of each row of the pod table
	pods       map[uint32]int               // by slot
	instance   string
}

func newCluster(instance string) *cluster {
	c := &cluster{changed: make(chan struct{}), leader: &triremev1.Fence{}, instance: instance}
	c.clear()
	return c
}

func (c *cluster) clear() {
	c.synced, c.generation = false, 0
	c.labels, c.slots, c.pods = map[uint32]map[string]string{}, map[uint32]uint32{}, map[uint32]int{}
}

// Sync follows one stream until it ends or another one is accepted.
func (c *cluster) Sync(server triremev1.SnapshotFollower_SyncServer) error {
	first, err := server.Recv()
	if err != nil {
		return err
	}
	hello := first.GetHello()
	if hello == nil {
		return status.Error(codes.InvalidArgument, "message: a stream begins with hello")
	}
	stream, err := c.accept(hello.GetFence())
	if err != nil {
		server.SetTrailer(metadata.Pairs("trireme-reason", "stale-epoch"))
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	for {
		request, err := server.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if request.GetDelta() == nil {
			continue // a newer frontend may send messages of a kind that is unknown here
		}
		generation, synced, err := c.take(stream, request.GetDelta())
		if err != nil {
			return err
		}
		// Nothing is acknowledged before the full sync is complete.
		if synced {
			answer := &triremev1.SyncResponse{AppliedGeneration: generation, Instance: c.instance}
			if err := server.Send(answer); err != nil {
				return err
			}
		}
	}
}

// accept makes this the stream that is followed. Epochs are compared among leaders of one scheduler; another scheduler
// replaces it, because its cluster is another one.
func (c *cluster) accept(caller *triremev1.Fence) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.checkEpoch(caller); err != nil {
		return 0, err
	}
	c.stream++
	c.leader, c.synced = caller, false
	return c.stream, nil
}

// admit fails where the caller has been deposed by the leader whose stream is followed.
func (c *cluster) admit(caller *triremev1.Fence) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.checkEpoch(caller)
}

func (c *cluster) checkEpoch(caller *triremev1.Fence) error {
	if caller.GetSchedulerId() == c.leader.GetSchedulerId() && caller.GetEpoch() < c.leader.GetEpoch() {
		return fmt.Errorf("epoch %d is over: a leader of epoch %d has been seen; "+
			"restart this process if the cluster was restored from a backup", caller.GetEpoch(), c.leader.GetEpoch())
	}
	return nil
}

// take applies a delta of the stream.
func (c *cluster) take(stream int, delta *triremev1.Delta) (uint64, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if stream != c.stream {
		return 0, false, status.Error(codes.Aborted, "another stream has replaced this one")
	}
	if delta.GetReset_() {
		c.clear()
	} else if delta.GetFromGeneration() != c.generation {
		text := fmt.Sprintf("delta: at generation %d, not %d", c.generation, delta.GetFromGeneration())
		return 0, false, status.Error(codes.FailedPrecondition, text)
	}
	c.apply(delta)
	c.generation, c.synced = delta.GetToGeneration(), !delta.GetPartial()
	close(c.changed)
	c.changed = make(chan struct{})
	return c.generation, c.synced, nil
}

// apply keeps the order of the contract: what is gone goes first, so that a slot or row can be given to another.
func (c *cluster) apply(delta *triremev1.Delta) {
	for _, row := range delta.GetRemovedPods() {
		c.remove(row)
	}
	for _, slot := range delta.GetRemovedSlots() {
		delete(c.labels, slot)
	}
	for _, entry := range delta.GetNodes() {
		c.labels[entry.GetSlot()] = entry.GetNode().GetMetadata().GetLabels()
	}
	for i, row := range delta.GetPods().GetRow() {
		c.remove(row)
		slot := delta.GetPods().GetSlot()[i]
		c.slots[row] = slot
		c.pods[slot]++
	}
}

func (c *cluster) remove(row uint32) {
	if slot, placed := c.slots[row]; placed {
		delete(c.slots, row)
		c.pods[slot]--
	}
}

// read calls look once the cluster is what the cycle needs: of its leader, and of its generation at least. Where it does
// not become so in time the caller, who calls again, gets FAILED_PRECONDITION.
func (c *cluster) read(ctx context.Context, cycle *triremev1.Cycle, look func()) error {
	if err := c.admit(cycle.GetFence()); err != nil {
		// Callers act on the reason, not on the text.
		_ = grpc.SetTrailer(ctx, metadata.Pairs("trireme-reason", "stale-epoch"))
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	limit := time.Now().Add(patience)
	if deadline, ok := ctx.Deadline(); ok && deadline.Add(-reply).Before(limit) {
		limit = deadline.Add(-reply)
	}
	timer := time.NewTimer(time.Until(limit))
	defer timer.Stop()
	for {
		c.mu.Lock()
		fence := cycle.GetFence()
		followed := fence.GetEpoch() == c.leader.GetEpoch() && fence.GetSchedulerId() == c.leader.GetSchedulerId()
		if c.synced && followed && c.generation >= cycle.GetGeneration() {
			look()
			c.mu.Unlock()
			return nil
		}
		generation, changed := c.generation, c.changed
		c.mu.Unlock()
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
