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

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"trireme.dev/sdk/go/triremev1"
)

// Resource is amounts of resources.
type Resource interface {
	GetMilliCPU() int64
	GetMemory() int64
	GetEphemeralStorage() int64
	GetAllowedPodNumber() int
	GetScalarResources() map[v1.ResourceName]int64
}

// PodInfo is a pod on a node.
type PodInfo interface {
	// GetPod has what all pods of its class share, and its own name, UID, node and start.
	GetPod() *v1.Pod
}

// NodeInfo is a node, and with Snapshot the pods on it.
type NodeInfo interface {
	// Node is the node; with Names only its name is set. Nil where it was deleted since the call was made. It is made from
	// the protocol's message when it is first asked for: a plugin that only reads labels saves time with Labels.
	Node() *v1.Node
	// GetPods is the pods on the node, bound and assumed; with Snapshot only. In a dry run without those treated as
	// removed, and with those treated as placed.
	GetPods() []PodInfo
	// GetRequested is what the pods request.
	GetRequested() Resource
	// GetNonZeroRequested counts 100m CPU and 200 MiB of memory for each container without such requests.
	GetNonZeroRequested() Resource
	// GetAllocatable is what the node has for pods.
	GetAllocatable() Resource
	// GetGeneration changes with the node and its pods; 0 without Snapshot.
	GetGeneration() int64
	// AddPodInfo adds a pod to this copy.
	AddPodInfo(podInfo PodInfo)
	// RemovePod removes a pod from this copy.
	RemovePod(logger klog.Logger, pod *v1.Pod) error
	// SetNode sets the node of this copy.
	SetNode(node *v1.Node)
	// Snapshot copies it.
	Snapshot() NodeInfo
	String() string

	// What follows is not in Kubernetes' framework.

	// Name is the node's name.
	Name() string
	// Labels is its labels, with Messages and Snapshot.
	Labels() map[string]string
	// Message is the protocol's message, with Messages and Snapshot; not to be modified.
	Message() *triremev1.Node
	// JSON is the node as the API server sent it, with JSON.
	JSON() []byte
	// RemovedPods and AddedPods are what a dry run treats as removed from the node and placed on it.
	RemovedPods() []PodInfo
	AddedPods() []PodInfo
}

// NodeInfoLister lists nodes, with Snapshot.
type NodeInfoLister interface {
	List() ([]NodeInfo, error)
	// Get fails where there is no such node.
	Get(nodeName string) (NodeInfo, error)
}

// SharedLister is the cluster, with Snapshot.
type SharedLister interface {
	NodeInfos() NodeInfoLister
}

// WaitingPod is a pod that this plugin lets wait on Permit.
type WaitingPod interface {
	GetPod() *v1.Pod
	GetPendingPlugins() []string
	// Allow ends this plugin's wait.
	Allow(pluginName string)
	// Reject refuses the pod; false if it does not wait.
	Reject(pluginName, msg string) bool
}

// Handle is what a plugin may ask of the scheduler. Requests go to the frontend that --scheduler names.
type Handle interface {
	// SnapshotSharedLister is the cluster at the generation of the call, with Snapshot; without it there are no nodes.
	SnapshotSharedLister() SharedLister
	// Objects is the other objects of a kind (`persistent_volume_claim`, `pod_group`, …), with Snapshot.
	Objects(kind string) []*triremev1.ClusterObject
	// IterateOverWaitingPods visits the pods that this plugin lets wait.
	IterateOverWaitingPods(callback func(WaitingPod))
	// GetWaitingPod returns nil where the pod does not wait for this plugin.
	GetWaitingPod(uid types.UID) WaitingPod
	// RejectWaitingPod says whether the pod waited.
	RejectWaitingPod(uid types.UID) bool
	// Activate moves pods to the active queue.
	Activate(logger klog.Logger, pods map[string]*v1.Pod)
	// ProfileName is the profile that the plugin was made for; empty without a configuration.
	ProfileName() string
}
