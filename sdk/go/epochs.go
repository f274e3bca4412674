// Also change: internal/trireme/rpc/fencing.py (which names the other languages' files).

package trireme

import (
	"fmt"
	"log/slog"
	"sync"

	"trireme.dev/sdk/go/triremev1"
)

// A plugin that many test clusters call remembers so many schedulers at most.
const maxSchedulers = 64

// epochs refuses the calls of leaders that have been deposed. An epoch numbers the leaders of one scheduler; a plugin may be
// called by several, and outlives clusters, so epochs of different schedulers are not compared.
type epochs struct {
	mu      sync.Mutex
	highest map[string]uint64
	order   []string // the schedulers in the order in which they were first seen
}

func newEpochs() *epochs {
	return &epochs{highest: map[string]uint64{}}
}

// admit takes note of a caller's epoch; it fails where a higher one of the same scheduler has been seen. Epoch 0 is a call
// that names no leader.
func (e *epochs) admit(caller *triremev1.Fence) error {
	scheduler, epoch := caller.GetSchedulerId(), caller.GetEpoch()
	if epoch == 0 {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	highest, seen := e.highest[scheduler]
	if epoch < highest {
		return staleEpoch(epoch, highest)
	}
	if !seen {
		slog.Info("called by a scheduler", "scheduler", scheduler, "epoch", epoch)
		e.order = append(e.order, scheduler)
		if len(e.order) > maxSchedulers {
			delete(e.highest, e.order[0])
			e.order = e.order[1:]
		}
	}
	e.highest[scheduler] = epoch
	return nil
}

func staleEpoch(epoch, highest uint64) error {
	return fmt.Errorf("epoch %d is over: a leader of epoch %d has been seen; "+
		"restart this process if the cluster was restored from a backup", epoch, highest)
}
