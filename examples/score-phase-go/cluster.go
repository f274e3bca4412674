// Also change: protos/trireme/v1/snapshot.proto (the messages).
// Also change: internal/trireme/framework/amounts.py (how pods' requests are counted).

package main

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	"trireme.dev/sdk/go/triremev1"
)

// The resources that can be scored, by their place in amounts.
var scorable = [...]v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage}

// amounts of the scorable resources: millicores, bytes, bytes.
type amounts [len(scorable)]int64

func amountsOf(list v1.ResourceList) amounts {
	cpu, memory, storage := list[v1.ResourceCPU], list[v1.ResourceMemory], list[v1.ResourceEphemeralStorage]
	return amounts{cpu.MilliValue(), memory.Value(), storage.Value()}
}

// add adds so many times others.
func (a *amounts) add(times int64, others amounts) {
	for i, other := range others {
		a[i] += times * other
	}
}

// What a container counts for that requests nothing. Source: pkg/scheduler/util/pod_resources.go of Kubernetes.
var nonZero = v1.ResourceList{
	v1.ResourceCPU:    *resource.NewMilliQuantity(100, resource.DecimalSI),
	v1.ResourceMemory: *resource.NewQuantity(200<<20, resource.BinarySI),
}

// rules are what feature gates decide of a pod's requests.
type rules struct{ podLevel, podLevelResizes, claims bool }

func rulesOf(gates map[string]bool) rules {
	return rules{
		gates["PodLevelResources"], gates["InPlacePodLevelResourcesVerticalScaling"], gates["DRANodeAllocatableResources"],
	}
}

// class is a class of pods: what one requests.
type class struct {
	pod *v1.Pod
	// placed is what a pod takes of its node, placedNonZero the same with defaults for containers without requests.
	placed, placedNonZero amounts
	// scored is what counts for the pod that is placed: without what its claims take of the node. scoredNonZero has
	// defaults for each container.
	scored, scoredNonZero amounts
}

func newClass(message *triremev1.Pod, by rules) (*class, error) {
	pod := &v1.Pod{}
	// Messages are subsets of the public protobuf types of the same names, so what one writes the other reads.
	data, err := proto.Marshal(message)
	if err == nil {
		err = pod.Unmarshal(data)
	}
	if err != nil {
		return nil, err
	}
	options := resourcehelper.PodResourcesOptions{
		UseStatusResources: true, SkipPodLevelResources: !by.podLevel,
		InPlacePodLevelResourcesVerticalScalingEnabled: by.podLevelResizes,
		UseDRANodeAllocatableResourceClaimStatus:       by.claims,
	}
	requests := resourcehelper.PodRequests(pod, options)
	out := &class{pod: pod, placed: amountsOf(requests)}
	options.NonMissingContainerRequests = v1.ResourceList{}
	for name, amount := range nonZero {
		_, has := requests[name]
		if !has || !by.podLevel || !resourcehelper.IsPodLevelResourcesSet(pod) {
			options.NonMissingContainerRequests[name] = amount
		}
	}
	out.placedNonZero = amountsOf(resourcehelper.PodRequests(pod, options))
	options.UseDRANodeAllocatableResourceClaimStatus, options.NonMissingContainerRequests = false, nil
	out.scored = amountsOf(resourcehelper.PodRequests(pod, options))
	options.NonMissingContainerRequests = nonZero
	out.scoredNonZero = amountsOf(resourcehelper.PodRequests(pod, options))
	return out, nil
}

// node is a slot: its node, nil where there is none (any more), and what the pods on it take.
type node struct {
	object                 *v1.Node
	allocatable            amounts
	requested, nonZeroUsed amounts
}

// placed is a row of the pod table.
type placed struct {
	slot uint32
	of   *class
}

// cluster is the state that the stream brings.
type cluster struct {
	rules      rules
	generation uint64
	synced     bool
	nodes      []node // by slot
	alive      int    // how many of them hold a node
	classes    map[uint32]*class
	rows       map[uint32]placed
	answers    *answers
}

func newCluster(by rules) *cluster {
	c := &cluster{rules: by}
	c.clear()
	return c
}

// clear empties the state, as a full sync begins.
func (c *cluster) clear() {
	c.synced, c.generation, c.alive, c.nodes = false, 0, 0, nil
	c.classes, c.rows, c.answers = map[uint32]*class{}, map[uint32]placed{}, newAnswers()
}

// apply advances to the delta's generation, in the order of the contract: what is gone goes first, so that a slot or row
// can be given to another. After an error the state is to be cleared.
func (c *cluster) apply(delta *triremev1.Delta) error {
	if delta.GetReset_() {
		c.clear()
	} else if delta.GetFromGeneration() != c.generation {
		return fmt.Errorf("at generation %d, not %d", c.generation, delta.GetFromGeneration())
	}
	for _, row := range delta.GetRemovedPods() {
		if err := c.removePod(row); err != nil {
			return err
		}
	}
	for _, slot := range delta.GetRemovedSlots() {
		c.setNode(slot, nil)
	}
	for _, entry := range delta.GetClasses() {
		made, err := newClass(entry.GetPod(), c.rules)
		if err != nil {
			return fmt.Errorf("classes: class %d: %w", entry.GetId(), err)
		}
		c.classes[entry.GetId()] = made
	}
	for _, entry := range delta.GetNodes() {
		object := &v1.Node{}
		data, err := proto.Marshal(entry.GetNode())
		if err == nil {
			err = object.Unmarshal(data)
		}
		if err != nil {
			return fmt.Errorf("nodes: slot %d: %w", entry.GetSlot(), err)
		}
		c.setNode(entry.GetSlot(), object)
	}
	if err := c.setPods(delta.GetPods()); err != nil {
		return err
	}
	for _, number := range delta.GetRemovedClasses() {
		delete(c.classes, number)
		c.answers.forget(number)
	}
	c.generation, c.synced = delta.GetToGeneration(), !delta.GetPartial()
	return nil
}

// at returns the slot, which is made if need be.
func (c *cluster) at(slot uint32) *node {
	for len(c.nodes) <= int(slot) {
		c.nodes = append(c.nodes, node{})
	}
	return &c.nodes[slot]
}

// setNode puts a node at the slot, or nil. Pods stay where they are.
func (c *cluster) setNode(slot uint32, object *v1.Node) {
	here := c.at(slot)
	if here.object != nil {
		c.alive--
	}
	here.object, here.allocatable = object, amounts{}
	if object != nil {
		c.alive++
		here.allocatable = amountsOf(object.Status.Allocatable)
	}
}

// setPods places the pods of these rows, in place of those before.
func (c *cluster) setPods(pods *triremev1.PodColumns) error {
	count := len(pods.GetRow())
	if len(pods.GetPodClass()) != count || len(pods.GetSlot()) != count {
		return fmt.Errorf("pods: pod_class and slot must have %d entries, as row", count)
	}
	for i, row := range pods.GetRow() {
		if _, ok := c.rows[row]; ok {
			if err := c.removePod(row); err != nil {
				return err
			}
		}
		of, ok := c.classes[pods.GetPodClass()[i]]
		if !ok {
			return fmt.Errorf("pods.pod_class[%d]: there is no class %d", i, pods.GetPodClass()[i])
		}
		c.rows[row] = placed{pods.GetSlot()[i], of}
		here := c.at(pods.GetSlot()[i])
		here.requested.add(1, of.placed)
		here.nonZeroUsed.add(1, of.placedNonZero)
	}
	return nil
}

func (c *cluster) removePod(row uint32) error {
	pod, ok := c.rows[row]
	if !ok {
		return fmt.Errorf("removed_pods: there is no row %d", row)
	}
	delete(c.rows, row)
	here := c.at(pod.slot)
	here.requested.add(-1, pod.of.placed)
	here.nonZeroUsed.add(-1, pod.of.placedNonZero)
	return nil
}
