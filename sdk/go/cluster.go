// Also change: internal/trireme/sdk/cluster_state.py (which names the other languages' files).

package trireme

import (
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"trireme.dev/sdk/go/framework"
	"trireme.dev/sdk/go/triremev1"
)

// Bits of PodColumns.flags: terminating, also because the scheduler preempted it.
const terminating = 3

// cluster is the state that a plugin with Snapshot follows. What calls get of it does not change afterwards.
type cluster struct {
	mu         sync.Mutex
	generation uint64
	synced     bool
	slots      map[uint32]*slot
	byName     map[string]uint32
	classes    map[uint32]*class
	rows       map[uint32]placed
	objects    map[string]map[types.NamespacedName]*triremev1.ClusterObject
}

// slot is one node with its pods.
type slot struct {
	message    *triremev1.Node
	json       []byte
	generation uint64
	pods       map[uint32]framework.PodInfo // by row
	info       *nodeInfo                    // made when it is first needed after a change
}

// class is a class of pods; its pod is converted when it is first needed.
type class struct {
	message *triremev1.Pod
	once    sync.Once
	pod     *v1.Pod
	err     error
}

// placed is a pod's row.
type placed struct {
	slot      uint32
	uid, name string
	info      framework.PodInfo
}

func (c *class) get() *v1.Pod {
	c.once.Do(func() { c.pod, c.err = podFrom(c.message) })
	if c.err != nil {
		panic(fmt.Errorf("a class of pods cannot be read: %w", c.err))
	}
	return c.pod
}

func newCluster() *cluster {
	c := &cluster{}
	c.clear()
	return c
}

// clear empties the state, as a full sync begins.
func (c *cluster) clear() {
	c.synced, c.generation = false, 0
	c.slots, c.byName, c.classes = map[uint32]*slot{}, map[string]uint32{}, map[uint32]*class{}
	c.rows = map[uint32]placed{}
	c.objects = map[string]map[types.NamespacedName]*triremev1.ClusterObject{}
}

// apply advances to the delta's generation, in the order of the contract: what is gone goes first, so that a slot or row
// can be given to another. The caller holds the lock.
func (c *cluster) apply(delta *triremev1.Delta) error {
	if delta.GetReset_() {
		c.clear()
	} else if delta.GetFromGeneration() != c.generation {
		return fmt.Errorf("at generation %d, not %d", c.generation, delta.GetFromGeneration())
	}
	for _, row := range delta.GetRemovedPods() {
		c.removePod(row)
	}
	for _, number := range delta.GetRemovedSlots() {
		if gone, ok := c.slots[number]; ok && gone.message != nil {
			delete(c.byName, gone.message.GetMetadata().GetName())
		}
		delete(c.slots, number)
	}
	for _, entry := range delta.GetClasses() {
		c.classes[entry.GetId()] = &class{message: entry.GetPod()}
	}
	for _, entry := range delta.GetNodes() {
		c.setNode(entry, delta.GetToGeneration())
	}
	if err := c.setPods(delta.GetPods(), delta.GetToGeneration()); err != nil {
		c.clear()
		return err
	}
	for _, number := range delta.GetRemovedClasses() {
		delete(c.classes, number)
	}
	c.setObjects(delta)
	c.generation, c.synced = delta.GetToGeneration(), !delta.GetPartial()
	return nil
}

func (c *cluster) setNode(entry *triremev1.NodeEntry, generation uint64) {
	here := c.at(entry.GetSlot(), generation)
	here.message, here.json = entry.GetNode(), entry.GetJson()
	c.byName[entry.GetNode().GetMetadata().GetName()] = entry.GetSlot()
}

// at returns the slot, about to be changed.
func (c *cluster) at(number uint32, generation uint64) *slot {
	here, ok := c.slots[number]
	if !ok {
		here = &slot{pods: map[uint32]framework.PodInfo{}}
		c.slots[number] = here
	}
	here.info, here.generation = nil, generation
	return here
}

// setPods places the pods of these rows in place of those before; known names may be left out.
func (c *cluster) setPods(pods *triremev1.PodColumns, generation uint64) error {
	for i, row := range pods.GetRow() {
		uid, name := pods.GetUid()[i], pods.GetName()[i]
		if before, ok := c.rows[row]; ok {
			if uid == "" {
				uid = before.uid
			}
			if name == "" {
				name = before.name
			}
			c.removePod(row)
		}
		of, ok := c.classes[pods.GetPodClass()[i]]
		if !ok {
			return fmt.Errorf("pods.pod_class[%d]: there is no class %d", i, pods.GetPodClass()[i])
		}
		number := pods.GetSlot()[i]
		here := c.at(number, generation)
		info := &classPod{
			of: of, uid: uid, name: name, node: here.message.GetMetadata().GetName(), start: pods.GetStartTimeS()[i],
			terminating: pods.GetFlags()[i]&terminating != 0,
		}
		here.pods[row] = info
		c.rows[row] = placed{slot: number, uid: uid, name: name, info: info}
	}
	return nil
}

func (c *cluster) removePod(row uint32) {
	pod, ok := c.rows[row]
	if !ok {
		return
	}
	delete(c.rows, row)
	if here, ok := c.slots[pod.slot]; ok {
		delete(here.pods, row)
		here.info = nil
	}
}

// classPod is a placed pod: what its class shares, and what is its own. It is made when it is first asked for.
type classPod struct {
	of              *class
	uid, name, node string
	start           int64
	terminating     bool
	once            sync.Once
	pod             *v1.Pod
}

func (p *classPod) GetPod() *v1.Pod {
	p.once.Do(func() {
		pod := *p.of.get()
		pod.Name, pod.UID, pod.Spec.NodeName = p.name, types.UID(p.uid), p.node
		if p.start != 0 {
			start := metav1.Unix(p.start, 0)
			pod.Status.StartTime = &start
		}
		if p.terminating && pod.DeletionTimestamp == nil {
			pod.DeletionTimestamp = &metav1.Time{}
		}
		p.pod = &pod
	})
	return p.pod
}

// infoAt returns the node at the slot, empty where there is none any more. The caller holds the lock.
func (c *cluster) infoAt(number uint32) *nodeInfo {
	here, ok := c.slots[number]
	if !ok || here.message == nil {
		return &nodeInfo{gone: true}
	}
	if here.info == nil {
		info := &nodeInfo{
			name: here.message.GetMetadata().GetName(), message: here.message, json: here.json,
			generation: int64(here.generation), pods: make([]framework.PodInfo, 0, len(here.pods)),
		}
		for _, pod := range here.pods {
			info.pods = append(info.pods, pod)
		}
		here.info = info
	}
	return here.info
}

// infos returns the nodes at the slots.
func (c *cluster) infos(numbers []uint32) []framework.NodeInfo {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]framework.NodeInfo, len(numbers))
	for i, number := range numbers {
		out[i] = c.infoAt(number)
	}
	return out
}

// dryRun returns the node of a dry run: without the pods of some rows, with some of other classes. Those that are gone by
// now are left out: the caller notices that the cluster has changed.
func (c *cluster) dryRun(run *triremev1.DryRun) *nodeInfo {
	c.mu.Lock()
	defer c.mu.Unlock()
	base := c.infoAt(run.GetSlot())
	info := &nodeInfo{
		name: base.name, message: base.message, json: base.json, generation: base.generation, gone: base.gone,
	}
	removed := map[framework.PodInfo]bool{}
	for _, row := range run.GetRemovedRows() {
		if pod, ok := c.rows[row]; ok && pod.slot == run.GetSlot() {
			removed[pod.info] = true
			info.removed = append(info.removed, pod.info)
		}
	}
	for _, pod := range base.pods {
		if !removed[pod] {
			info.pods = append(info.pods, pod)
		}
	}
	for _, number := range run.GetAddedClasses() {
		if of, ok := c.classes[number]; ok {
			pod := &classPod{of: of, node: base.name}
			info.pods, info.added = append(info.pods, pod), append(info.added, pod)
		}
	}
	return info
}

// withCopies returns the nodes at the slots, each with one pod more of the class of this number, with two, … with so many.
func (c *cluster) withCopies(numbers []uint32, class, copies uint32) []framework.NodeInfo {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]framework.NodeInfo, 0, len(numbers)*int(copies))
	for _, number := range numbers {
		base := c.infoAt(number)
		var added []framework.PodInfo
		for i := range copies {
			if of, ok := c.classes[class]; ok {
				name := fmt.Sprintf("copy-%d", i)
				added = append(added, &classPod{of: of, uid: name, name: name, node: base.name})
			}
			out = append(out, &nodeInfo{
				name: base.name, message: base.message, json: base.json, generation: base.generation, gone: base.gone,
				pods: slices.Concat(base.pods, added),
			})
		}
	}
	return out
}

// List implements framework.NodeInfoLister.
func (c *cluster) List() ([]framework.NodeInfo, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]framework.NodeInfo, 0, len(c.slots))
	for number, here := range c.slots {
		if here.message != nil {
			out = append(out, c.infoAt(number))
		}
	}
	return out, nil
}

// Get implements framework.NodeInfoLister.
func (c *cluster) Get(name string) (framework.NodeInfo, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	number, ok := c.byName[name]
	if !ok {
		return nil, fmt.Errorf("node %q is unknown", name)
	}
	return c.infoAt(number), nil
}

// NodeInfos implements framework.SharedLister.
func (c *cluster) NodeInfos() framework.NodeInfoLister {
	return c
}

// slotNames returns the names of all slots up to the last one; empty where there is no node.
func (c *cluster) slotNames() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for number, here := range c.slots {
		for len(out) <= int(number) {
			out = append(out, "")
		}
		out[number] = here.message.GetMetadata().GetName()
	}
	return out
}
