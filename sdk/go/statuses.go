// Also change: internal/trireme/sdk/results.py (which names the other languages' files).
// Also change: internal/trireme/sdk/result_checks.py (which names the other languages' files).

package trireme

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/proto"

	"trireme.dev/sdk/go/framework"
	"trireme.dev/sdk/go/triremev1"
)

var codeOf = map[framework.Code]triremev1.Code{
	framework.Success:                      triremev1.Code_CODE_SUCCESS,
	framework.Error:                        triremev1.Code_CODE_ERROR,
	framework.Unschedulable:                triremev1.Code_CODE_UNSCHEDULABLE,
	framework.UnschedulableAndUnresolvable: triremev1.Code_CODE_UNSCHEDULABLE_AND_UNRESOLVABLE,
	framework.Wait:                         triremev1.Code_CODE_WAIT,
	framework.Skip:                         triremev1.Code_CODE_SKIP,
	framework.Pending:                      triremev1.Code_CODE_PENDING,
}

// What a step may answer beside a success, an error and a refusal.
const (
	mayWait = 1 << iota
	maySkip
	mayNotRefuse
)

// status converts what a method returned; a code that the step does not have becomes an error.
func (s *service) status(method string, answer *framework.Status, allowed int) *triremev1.Status {
	code := answer.Code()
	wrong := code == framework.Wait && allowed&mayWait == 0 ||
		code == framework.Skip && allowed&maySkip == 0 ||
		answer.IsRejected() && allowed&mayNotRefuse != 0
	if wrong {
		answer = framework.AsStatus(fmt.Errorf("%s returned %s, which this step must not", method, code))
		code = framework.Error
	}
	out := &triremev1.Status{Code: codeOf[code]}
	if code == framework.Success || code == framework.Skip {
		return out
	}
	out.Plugin, out.Messages = s.name, answer.Reasons()
	if len(out.Messages) == 0 && code != framework.Wait {
		out.Messages = []string{fmt.Sprintf("refused by plugin %s", s.name)}
	}
	for _, reason := range answer.Details() {
		out.Reasons = append(out.Reasons, &triremev1.Reason{Code: reason.Code, Parameters: reason.Parameters})
	}
	return out
}

// columns is results about nodes under construction: each distinct status once, and one index and capacity a node.
type columns struct {
	service *service
	message *triremev1.NodeColumns
	known   map[*framework.Status]uint32
	same    map[string]uint32 // by the bytes of the status
}

func (c *call) newColumns(nodes int) *columns {
	return &columns{
		service: c.service,
		message: &triremev1.NodeColumns{
			Generation:  c.generation,
			StatusIndex: make([]uint32, 0, nodes),
			Capacity:    make([]int32, 0, nodes),
		},
		known: map[*framework.Status]uint32{},
		same:  map[string]uint32{},
	}
}

// add appends the result about a node: it passes and takes so many copies, or it is refused.
func (c *columns) add(answer *framework.Status, capacity int) {
	index := uint32(0)
	if answer.IsSuccess() && capacity < 1 {
		answer = framework.AsStatus(fmt.Errorf("FilterCapacity returned %d copies and a success", capacity))
	}
	if !answer.IsSuccess() {
		index, capacity = c.indexOf(answer), 0
	}
	c.message.StatusIndex = append(c.message.StatusIndex, index)
	c.message.Capacity = append(c.message.Capacity, int32(min(capacity, math.MaxInt32)))
	c.message.Size++
}

func (c *columns) indexOf(answer *framework.Status) uint32 {
	if index, ok := c.known[answer]; ok {
		return index
	}
	message := c.service.status("Filter", answer, 0)
	key, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	if err != nil {
		panic(fmt.Errorf("a status cannot be encoded: %w", err))
	}
	index, ok := c.same[string(key)]
	if !ok {
		c.message.Statuses = append(c.message.Statuses, message)
		index = uint32(len(c.message.Statuses))
		c.same[string(key)] = index
	}
	// The same status for many nodes; distinct ones would only fill the table.
	if len(c.known) < 64 {
		c.known[answer] = index
	}
	return index
}
