/*
// Also change: sdk/go/queueing.go, internal/trireme/framework/cluster_event.py,
// docs/extension-points.md (names of events).

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

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// ActionType is what happened to an object; several are combined with |.
type ActionType int64

// The names are those of the protocol.
const (
	Add ActionType = 1 << iota
	Delete
	UpdateNodeAllocatable
	UpdateNodeLabel
	UpdateNodeTaint
	UpdateNodeCondition
	UpdateNodeAnnotation
	UpdateNodeDeclaredFeature
	UpdateNodePreemptionPolicy
	UpdatePodLabel
	UpdatePodScaleDown
	UpdatePodScaleUp
	UpdatePodToleration
	UpdatePodSchedulingGatesEliminated
	UpdatePodGeneratedResourceClaim

	// All is every action.
	All ActionType = 1<<iota - 1
	// Update is every update.
	Update = All &^ (Add | Delete)
)

var actionNames = []string{
	"Add", "Delete", "UpdateNodeAllocatable", "UpdateNodeLabel", "UpdateNodeTaint", "UpdateNodeCondition",
	"UpdateNodeAnnotation", "UpdateNodeDeclaredFeature", "UpdateNodePreemptionPolicy", "UpdatePodLabel", "UpdatePodScaleDown",
	"UpdatePodScaleUp", "UpdatePodToleration", "UpdatePodSchedulingGatesEliminated", "UpdatePodGeneratedResourceClaim",
}

// Names returns the actions as the protocol names them.
func (a ActionType) Names() []string {
	var names []string
	if a&Update == Update {
		names = append(names, "Update")
		a &^= Update
	}
	for i, name := range actionNames {
		if a&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// ParseAction returns the action of a name of the protocol; 0 for one that is unknown.
func ParseAction(name string) ActionType {
	if name == "Update" {
		return Update
	}
	for i, known := range actionNames {
		if known == name {
			return 1 << i
		}
	}
	return 0
}

// EventResource is what an event is about.
type EventResource string

// The resources, as the protocol names them.
const (
	Pod                   EventResource = "Pod"
	AssignedPod           EventResource = "AssignedPod"
	UnscheduledPod        EventResource = "UnscheduledPod"
	TargetPod             EventResource = "TargetPod"
	Node                  EventResource = "Node"
	PersistentVolume      EventResource = "PersistentVolume"
	PersistentVolumeClaim EventResource = "PersistentVolumeClaim"
	CSINode               EventResource = "storage.k8s.io/CSINode"
	CSIDriver             EventResource = "storage.k8s.io/CSIDriver"
	VolumeAttachment      EventResource = "storage.k8s.io/VolumeAttachment"
	CSIStorageCapacity    EventResource = "storage.k8s.io/CSIStorageCapacity"
	StorageClass          EventResource = "storage.k8s.io/StorageClass"
	ResourceClaim         EventResource = "resource.k8s.io/ResourceClaim"
	ResourceSlice         EventResource = "resource.k8s.io/ResourceSlice"
	DeviceClass           EventResource = "resource.k8s.io/DeviceClass"
	PodGroup              EventResource = "scheduling.k8s.io/PodGroup"
	CompositePodGroup     EventResource = "scheduling.k8s.io/CompositePodGroup"
	WildCard              EventResource = "*"
)

// ClusterEvent is a kind of change in the cluster.
type ClusterEvent struct {
	Resource   EventResource
	ActionType ActionType
}

// ClusterEventWithHint is an event that may help a pod that the plugin refused.
type ClusterEventWithHint struct {
	Event ClusterEvent
	// QueueingHintFn is called for each event; says whether it helps the pod. nil: every such event does.
	QueueingHintFn QueueingHintFn
}

// QueueingHintFn says whether an event may make the pod schedulable; an error counts as Queue. Nodes, pods, volumes and
// claims come as *v1.Node and so on, other objects as map[string]any of their JSON; oldObj is nil for what was added,
// newObj for what was deleted.
type QueueingHintFn func(logger klog.Logger, pod *v1.Pod, oldObj, newObj interface{}) (QueueingHint, error)

// QueueingHint is whether an event is worth another try.
type QueueingHint int

const (
	// QueueSkip: the event does not help the pod.
	QueueSkip QueueingHint = iota
	// Queue: try the pod again.
	Queue
)

func (s QueueingHint) String() string {
	if s == Queue {
		return "Queue"
	}
	return "QueueSkip"
}
