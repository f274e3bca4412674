// Also change: internal/trireme/sdk/watched_cluster.py (which names the other languages' files).

package trireme

import (
	"sync"
	"sync/atomic"

	"trireme.dev/sdk/go/framework"
)

// reads takes note of what plugins read of the cluster by their handles. They may keep a lister for as long as they live, so
// a read is not known to be of one call: of calls at the same time each may be the one that reads.
type reads struct {
	count  atomic.Uint64
	latest atomic.Pointer[string]
	logged sync.Once
}

func (r *reads) note(what string) {
	r.latest.Store(&what)
	r.count.Add(1)
}

// watchedLister is what a plugin gets of the cluster.
type watchedLister struct {
	*cluster
	reads *reads
}

// NodeInfos implements framework.SharedLister.
func (l watchedLister) NodeInfos() framework.NodeInfoLister { return l }

// List implements framework.NodeInfoLister.
func (l watchedLister) List() ([]framework.NodeInfo, error) {
	l.reads.note("SnapshotSharedLister().NodeInfos().List")
	return l.cluster.List()
}

// Get implements framework.NodeInfoLister.
func (l watchedLister) Get(name string) (framework.NodeInfo, error) {
	l.reads.note("SnapshotSharedLister().NodeInfos().Get")
	return l.cluster.Get(name)
}
