// Also change: internal/trireme/sdk/cluster_state.py (which names the other languages' files).

package trireme

import (
	"google.golang.org/protobuf/reflect/protoreflect"
	"k8s.io/apimachinery/pkg/types"

	"trireme.dev/sdk/go/triremev1"
)

// keyOf names an object of the cluster: the field of ClusterObject.object that is set, namespace and name.
func keyOf(object *triremev1.ClusterObject) (string, types.NamespacedName) {
	message := object.ProtoReflect()
	which := message.WhichOneof(message.Descriptor().Oneofs().ByName("object"))
	if which == nil {
		return "", types.NamespacedName{}
	}
	described, ok := message.Get(which).Message().Interface().(interface{ GetMetadata() *triremev1.ObjectMeta })
	if !ok {
		return "", types.NamespacedName{}
	}
	meta := described.GetMetadata()
	return string(protoreflect.Name(which.Name())), types.NamespacedName{Namespace: meta.GetNamespace(), Name: meta.GetName()}
}

// setObjects applies a delta's other objects. The caller holds the lock.
func (c *cluster) setObjects(delta *triremev1.Delta) {
	for _, object := range delta.GetObjects() {
		kind, key := keyOf(object)
		if kind == "" {
			continue // of a newer scheduler
		}
		if c.objects[kind] == nil {
			c.objects[kind] = map[types.NamespacedName]*triremev1.ClusterObject{}
		}
		c.objects[kind][key] = object
	}
	for _, gone := range delta.GetRemovedObjects() {
		delete(c.objects[gone.GetKind()], types.NamespacedName{Namespace: gone.GetNamespace(), Name: gone.GetName()})
	}
}

// ofKind returns the objects of a kind.
func (c *cluster) ofKind(kind string) []*triremev1.ClusterObject {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]*triremev1.ClusterObject, 0, len(c.objects[kind]))
	for _, object := range c.objects[kind] {
		out = append(out, object)
	}
	return out
}
