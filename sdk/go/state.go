// Also change: internal/trireme/sdk/state.py (which names the other languages' files).

package trireme

import (
	"encoding"
	"encoding/json"
	"fmt"
	"maps"

	"trireme.dev/sdk/go/framework"
)

// cycleState is a framework.CycleState whose data comes as bytes, and goes as bytes.
type cycleState struct {
	types States
	raw   map[framework.StateKey]json.RawMessage
	data  map[framework.StateKey]framework.StateData
}

// decodeState reads what encode wrote; the data itself is read when it is asked for.
func decodeState(types States, data []byte) (*cycleState, error) {
	state := &cycleState{types: types, data: map[framework.StateKey]framework.StateData{}}
	if len(data) > 0 {
		if err := json.Unmarshal(data, &state.raw); err != nil {
			return nil, fmt.Errorf("is not what this plugin returned: %w", err)
		}
	}
	return state, nil
}

// Read implements framework.CycleState.
func (s *cycleState) Read(key framework.StateKey) (framework.StateData, error) {
	if value, ok := s.data[key]; ok {
		return value, nil
	}
	raw, ok := s.raw[key]
	make, known := s.types[key]
	if !ok || !known {
		return nil, framework.ErrNotFound
	}
	value := make()
	if err := unmarshalState(raw, value); err != nil {
		return nil, fmt.Errorf("cycle state %q: %w", key, err)
	}
	s.data[key] = value
	return value, nil
}

// Write implements framework.CycleState.
func (s *cycleState) Write(key framework.StateKey, value framework.StateData) {
	s.data[key] = value
}

// Delete implements framework.CycleState.
func (s *cycleState) Delete(key framework.StateKey) {
	delete(s.data, key)
	delete(s.raw, key)
}

// Clone implements framework.CycleState.
func (s *cycleState) Clone() framework.CycleState {
	if s == nil {
		return nil
	}
	out := &cycleState{types: s.types, raw: maps.Clone(s.raw), data: make(map[framework.StateKey]framework.StateData, len(s.data))}
	for key, value := range s.data {
		out.data[key] = value.Clone()
	}
	return out
}

// encode returns the data as bytes; nil where there is none. The same data gives the same bytes.
func (s *cycleState) encode() ([]byte, error) {
	out := maps.Clone(s.raw)
	if out == nil {
		out = map[framework.StateKey]json.RawMessage{}
	}
	for key, value := range s.data {
		if _, known := s.types[key]; !known {
			return nil, fmt.Errorf("cycle state %q: Definition.States does not name its type", key)
		}
		raw, err := marshalState(value)
		if err != nil {
			return nil, fmt.Errorf("cycle state %q: %w", key, err)
		}
		out[key] = raw
	}
	if len(out) == 0 {
		return nil, nil
	}
	return json.Marshal(out)
}

func marshalState(value framework.StateData) (json.RawMessage, error) {
	if binary, ok := value.(encoding.BinaryMarshaler); ok {
		data, err := binary.MarshalBinary()
		if err != nil {
			return nil, err
		}
		return json.Marshal(data)
	}
	return json.Marshal(value)
}

func unmarshalState(raw json.RawMessage, value framework.StateData) error {
	if binary, ok := value.(encoding.BinaryUnmarshaler); ok {
		var data []byte
		if err := json.Unmarshal(raw, &data); err != nil {
			return err
		}
		return binary.UnmarshalBinary(data)
	}
	return json.Unmarshal(raw, value)
}
