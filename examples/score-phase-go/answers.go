// Also change: protos/trireme/v1/score_phase.proto, protos/trireme/v1/filter.proto (the messages).
// Also change: internal/trireme/wire/phase_answers.py (answers about placing).

package main

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"trireme.dev/sdk/go/triremev1"
)

// Of how many classes answers of filter are kept; of another one the frontend sends it complete again.
const maxAnswers = 1024

// answerKey is what an answer of filter is about.
type answerKey struct {
	profile string
	class   uint32
}

// answer is what filter said last about a class: by slot how many copies fit, 0 where the node refuses it.
type answer struct {
	generation uint64
	open       []int32
}

// answers keeps filter's answers, since the next one may be a patch.
type answers struct {
	kept  map[answerKey]*answer
	order []answerKey // the oldest first
}

func newAnswers() *answers {
	return &answers{kept: map[answerKey]*answer{}}
}

// store takes filter's answer, complete or a patch to the one before, and returns all of it.
func (a *answers) store(key answerKey, columns *triremev1.NodeColumns) (*answer, error) {
	if err := checkColumns(columns); err != nil {
		return nil, err
	}
	known, ok := a.kept[key]
	patch := columns.GetBaseGeneration() != 0
	if patch && (!ok || known.generation != columns.GetBaseGeneration()) {
		return nil, status.Errorf(codes.FailedPrecondition,
			"capacities.base_generation: %d is not here; send them complete", columns.GetBaseGeneration())
	}
	if !ok {
		known = a.add(key)
	}
	open := make([]int32, columns.GetSize())
	if patch {
		copy(open, known.open)
	}
	for i, index := range columns.GetStatusIndex() {
		slot := uint32(i)
		if patch {
			slot = columns.GetSlots()[i]
		}
		open[slot] = 0
		if index == 0 {
			open[slot] = columns.GetCapacity()[i]
		}
	}
	known.generation, known.open = columns.GetGeneration(), open
	return known, nil
}

func (a *answers) add(key answerKey) *answer {
	if len(a.order) >= maxAnswers {
		delete(a.kept, a.order[0])
		a.order = a.order[1:]
	}
	made := &answer{}
	a.kept[key], a.order = made, append(a.order, key)
	return made
}

// forget drops what was said about a class.
func (a *answers) forget(class uint32) {
	left := a.order[:0]
	for _, key := range a.order {
		if key.class == class {
			delete(a.kept, key)
		} else {
			left = append(left, key)
		}
	}
	a.order = left
}

// checkColumns refuses columns that do not fit together, naming the field.
func checkColumns(columns *triremev1.NodeColumns) error {
	wrong := func(text string, values ...any) error {
		return status.Errorf(codes.InvalidArgument, "capacities.columns."+text, values...)
	}
	expected := int(columns.GetSize())
	if columns.GetBaseGeneration() != 0 {
		expected = len(columns.GetSlots())
		for _, slot := range columns.GetSlots() {
			if slot >= columns.GetSize() {
				return wrong("slots: %d is beyond the size %d", slot, columns.GetSize())
			}
		}
	}
	if found := len(columns.GetStatusIndex()); found != expected {
		return wrong("status_index: has %d entries, must have %d", found, expected)
	}
	if found := len(columns.GetCapacity()); found != expected {
		return wrong("capacity: has %d entries, must have %d", found, expected)
	}
	for _, index := range columns.GetStatusIndex() {
		if int(index) > len(columns.GetStatuses()) {
			return wrong("status_index: %d is beyond the %d statuses", index, len(columns.GetStatuses()))
		}
	}
	return nil
}
