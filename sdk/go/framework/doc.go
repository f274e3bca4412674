// Also change: docs/moving-a-go-plugin.md.

// Package framework has the interfaces of scheduler plugins as k8s.io/kube-scheduler/framework has them, so that the logic
// of an in-tree plugin moves here by changing its imports. What is different is in the comments, and in the README:
// CycleState is serialised between steps, nodes come in the form that the plugin's Definition asks for, and a plugin
// without a client of the API server returns its writes as actions.
package framework
