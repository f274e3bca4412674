// Also change: internal/trireme/sdk/calls.py (which names the other languages' files).

package trireme

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/klog/v2"

	"trireme.dev/sdk/go/framework"
	"trireme.dev/sdk/go/triremev1"
)

// Messages are subsets of the public protobuf types of the same names, so what one writes the other reads.
func podFrom(message *triremev1.Pod) (*v1.Pod, error) {
	pod := &v1.Pod{}
	data, err := proto.Marshal(message)
	if err == nil {
		err = pod.Unmarshal(data)
	}
	return pod, err
}

func nodeFrom(message *triremev1.Node) (*v1.Node, error) {
	node := &v1.Node{}
	data, err := proto.Marshal(message)
	if err == nil {
		err = node.Unmarshal(data)
	}
	return node, err
}

// podInfo is a framework.PodInfo.
type podInfo struct{ pod *v1.Pod }

func (p podInfo) GetPod() *v1.Pod { return p.pod }

// nodeInfo is a framework.NodeInfo. What it has of the cluster is shared and not modified: AddPodInfo and RemovePod replace
// the list of pods.
type nodeInfo struct {
	name       string
	message    *triremev1.Node
	json       []byte
	generation int64
	pods       []framework.PodInfo
	removed    []framework.PodInfo
	added      []framework.PodInfo
	gone       bool // it was deleted since the call was made
	once       sync.Once
	node       *v1.Node
	// Sums that were made once; calls at the same time may both make them.
	allocatable, requested, nonZero atomic.Pointer[resources]
}

// NewNodeInfo makes a NodeInfo of a node and the pods on it, for tests.
func NewNodeInfo(node *v1.Node, pods ...*v1.Pod) framework.NodeInfo {
	info := &nodeInfo{}
	for _, pod := range pods {
		info.pods = append(info.pods, podInfo{pod})
	}
	if node != nil {
		info.SetNode(node)
	}
	return info
}

func (n *nodeInfo) Name() string                     { return n.name }
func (n *nodeInfo) Message() *triremev1.Node         { return n.message }
func (n *nodeInfo) JSON() []byte                     { return n.json }
func (n *nodeInfo) GetGeneration() int64             { return n.generation }
func (n *nodeInfo) String() string                   { return fmt.Sprintf("node %s with %d pods", n.name, len(n.pods)) }
func (n *nodeInfo) Labels() map[string]string        { return n.message.GetMetadata().GetLabels() }
func (n *nodeInfo) GetPods() []framework.PodInfo     { return n.pods }
func (n *nodeInfo) RemovedPods() []framework.PodInfo { return n.removed }
func (n *nodeInfo) AddedPods() []framework.PodInfo   { return n.added }

func (n *nodeInfo) Node() *v1.Node {
	n.once.Do(func() {
		if n.node != nil || n.gone {
			return
		}
		node, err := nodeFrom(n.message)
		if err != nil {
			panic(fmt.Errorf("node %s cannot be read: %w", n.name, err))
		}
		if node.Name == "" {
			node.Name = n.name
		}
		n.node = node
	})
	return n.node
}

func (n *nodeInfo) SetNode(node *v1.Node) {
	data, err := node.Marshal()
	message := &triremev1.Node{}
	if err == nil {
		err = proto.Unmarshal(data, message)
	}
	if err != nil {
		panic(fmt.Errorf("node %s cannot be converted: %w", node.Name, err))
	}
	n.once.Do(func() {})
	n.allocatable.Store(nil)
	n.name, n.message, n.node, n.gone = node.Name, message, node, false
}

func (n *nodeInfo) Snapshot() framework.NodeInfo {
	return &nodeInfo{
		name: n.name, message: n.message, json: n.json, generation: n.generation, pods: n.pods, removed: n.removed,
		added: n.added, gone: n.gone, node: n.Node(),
	}
}

func (n *nodeInfo) AddPodInfo(pod framework.PodInfo) {
	n.setPods(append(slices.Clone(n.pods), pod))
}

func (n *nodeInfo) RemovePod(_ klog.Logger, pod *v1.Pod) error {
	at := slices.IndexFunc(n.pods, func(p framework.PodInfo) bool { return p.GetPod().UID == pod.UID })
	if at < 0 {
		return fmt.Errorf("pod %s/%s is not on node %s", pod.Namespace, pod.Name, n.name)
	}
	n.setPods(slices.Delete(slices.Clone(n.pods), at, at+1))
	return nil
}

func (n *nodeInfo) setPods(pods []framework.PodInfo) {
	n.pods = pods
	n.requested.Store(nil)
	n.nonZero.Store(nil)
}

func (n *nodeInfo) GetAllocatable() framework.Resource {
	return once(&n.allocatable, func(out *resources) {
		if node := n.Node(); node != nil {
			out.add(node.Status.Allocatable)
		}
	})
}

func (n *nodeInfo) GetRequested() framework.Resource {
	return once(&n.requested, func(out *resources) { n.sum(out, resourcehelper.PodResourcesOptions{}) })
}

// What a container counts for that requests nothing.
// Source: pkg/scheduler/util/pod_resources.go of Kubernetes.
var nonZero = v1.ResourceList{
	v1.ResourceCPU:    *resource.NewMilliQuantity(100, resource.DecimalSI),
	v1.ResourceMemory: *resource.NewQuantity(200<<20, resource.BinarySI),
}

func (n *nodeInfo) GetNonZeroRequested() framework.Resource {
	return once(&n.nonZero, func(out *resources) {
		n.sum(out, resourcehelper.PodResourcesOptions{NonMissingContainerRequests: nonZero})
	})
}

func (n *nodeInfo) sum(out *resources, options resourcehelper.PodResourcesOptions) {
	for _, pod := range n.pods {
		out.add(resourcehelper.PodRequests(pod.GetPod(), options))
	}
}

// once returns what is there, or makes it.
func once(at *atomic.Pointer[resources], fill func(*resources)) *resources {
	if found := at.Load(); found != nil {
		return found
	}
	out := &resources{scalars: map[v1.ResourceName]int64{}}
	fill(out)
	at.Store(out)
	return out
}

// resources is a framework.Resource.
type resources struct {
	milliCPU, memory, ephemeralStorage int64
	pods                               int
	scalars                            map[v1.ResourceName]int64
}

func (r *resources) add(list v1.ResourceList) {
	for name, quantity := range list {
		switch name {
		case v1.ResourceCPU:
			r.milliCPU += quantity.MilliValue()
		case v1.ResourceMemory:
			r.memory += quantity.Value()
		case v1.ResourceEphemeralStorage:
			r.ephemeralStorage += quantity.Value()
		case v1.ResourcePods:
			r.pods += int(quantity.Value())
		default:
			r.scalars[name] += quantity.Value()
		}
	}
}

func (r *resources) GetMilliCPU() int64                            { return r.milliCPU }
func (r *resources) GetMemory() int64                              { return r.memory }
func (r *resources) GetEphemeralStorage() int64                    { return r.ephemeralStorage }
func (r *resources) GetAllowedPodNumber() int                      { return r.pods }
func (r *resources) GetScalarResources() map[v1.ResourceName]int64 { return r.scalars }
