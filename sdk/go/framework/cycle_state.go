/*
Copyright 2025 The Kubernetes Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

// Changed for Trireme: from k8s.io/kube-scheduler/framework, without what a plugin outside the scheduler cannot have.

package framework

import "errors"

// ErrNotFound is what Read returns for a key without data.
var ErrNotFound = errors.New("not found")

// StateData is data of one plugin in a CycleState. The steps of a cycle may be calls to different replicas of a plugin,
// so the SDK serialises what PreFilter, PreScore, Reserve and PreBind write: with encoding.BinaryMarshaler where the type
// has it, else as JSON. Definition.States names the types.
type StateData interface {
	// Clone copies the data, as far as AddPod and RemovePod change it.
	Clone() StateData
}

// StateKey names data in a CycleState.
type StateKey string

// CycleState is what a plugin stores from one step of a cycle to the next. It is the plugin's own: data of other plugins
// is not in it.
type CycleState interface {
	// Read returns the data, or ErrNotFound; another error where its bytes cannot be read.
	Read(key StateKey) (StateData, error)
	// Write stores the data.
	Write(key StateKey, val StateData)
	// Delete removes the data.
	Delete(key StateKey)
	// Clone copies the state.
	Clone() CycleState
}
