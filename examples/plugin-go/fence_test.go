package main

import (
	"fmt"
	"testing"

	"trireme.dev/examples/plugin-go/triremev1"
)

// A deposed leader that is answered places pods beside its successor; a new scheduler that is refused places none.
func TestFenceComparesEpochsOfOneSchedulerOnly(t *testing.T) {
	fence := newFence()
	calls := []struct {
		scheduler string
		epoch     uint64
		admitted  bool
	}{
		{"old", 1000, true}, {"old", 1000, true}, {"old", 999, false}, {"new", 5, true}, {"old", 999, false},
		{"old", 1000, true}, {"old", 1001, true}, {"new", 4, false}, {"old", 0, true}, {"", 1, true},
	}
	for i, call := range calls {
		err := fence.admit(&triremev1.Fence{SchedulerId: call.scheduler, Epoch: call.epoch})
		if (err == nil) != call.admitted {
			t.Errorf("call %d of %q with epoch %d: %v", i, call.scheduler, call.epoch, err)
		}
	}
}

// A plugin that test clusters call for weeks must not grow with each of them.
func TestFenceRemembersABoundedNumberOfSchedulers(t *testing.T) {
	fence := newFence()
	for i := range 10 * maxSchedulers {
		if err := fence.admit(&triremev1.Fence{SchedulerId: fmt.Sprint(i), Epoch: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if len(fence.highest) != maxSchedulers || len(fence.order) != maxSchedulers {
		t.Errorf("remembers %d and %d schedulers", len(fence.highest), len(fence.order))
	}
}
