// Also change: internal/trireme/sdk/filtering.py (which names the other languages' files).

package trireme

import (
	"trireme.dev/sdk/go/framework"
	"trireme.dev/sdk/go/triremev1"
)

// nodeStatuses is a framework.NodeToStatusReader of the answer that comes with PostFilter.
type nodeStatuses struct {
	columns  *triremev1.NodeColumns
	all      *framework.Status // PreFilter's refusal, which holds for all nodes
	statuses []*framework.Status
	slots    map[string]int
}

func newNodeStatuses(s *service, request *triremev1.PostFilterRequest) *nodeStatuses {
	out := &nodeStatuses{columns: request.GetColumns(), slots: map[string]int{}}
	if request.GetPreFilter() != nil {
		out.all = statusFrom(request.GetPreFilter())
	}
	for _, message := range request.GetColumns().GetStatuses() {
		out.statuses = append(out.statuses, statusFrom(message))
	}
	if s.follower != nil {
		for number, name := range s.follower.slotNames() {
			out.slots[name] = number
		}
	}
	return out
}

func statusFrom(message *triremev1.Status) *framework.Status {
	for code, other := range codeOf {
		if other == message.GetCode() {
			return framework.NewStatus(code, message.GetMessages()...).WithPlugin(message.GetPlugin())
		}
	}
	return framework.NewStatus(framework.Error, message.GetMessages()...).WithPlugin(message.GetPlugin())
}

// Get implements framework.NodeToStatusReader.
func (n *nodeStatuses) Get(name string) *framework.Status {
	if n.all != nil {
		return n.all
	}
	number, ok := n.slots[name]
	if !ok || number >= len(n.columns.GetStatusIndex()) {
		return framework.NewStatus(framework.UnschedulableAndUnresolvable)
	}
	index := int(n.columns.GetStatusIndex()[number])
	if index == 0 || index > len(n.statuses) {
		return nil
	}
	return n.statuses[index-1]
}

// NodesForStatusCode implements framework.NodeToStatusReader.
func (n *nodeStatuses) NodesForStatusCode(lister framework.NodeInfoLister, code framework.Code) ([]framework.NodeInfo, error) {
	all, err := lister.List()
	if err != nil {
		return nil, err
	}
	var out []framework.NodeInfo
	for _, node := range all {
		if n.Get(node.Name()).Code() == code {
			out = append(out, node)
		}
	}
	return out, nil
}
