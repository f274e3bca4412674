package sige2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

const poll = 100 * time.Millisecond

// kubelets plays the kubelets of all nodes: what is bound runs at once, and ends when it is deleted, after its preStop
// hook. No container exists, so nothing can be executed in one, and no kubelet plugin is called.
type kubelets struct {
	client   kubernetes.Interface
	pods     corelisters.PodLister
	nodes    corelisters.NodeLister
	podKeys  workqueue.TypedRateLimitingInterface[string]
	nodeKeys workqueue.TypedRateLimitingInterface[string]
	address  atomic.Int32
}

// startKubelets registers the nodes and runs pods that are bound to them until ctx ends. What runs on every node does when
// it returns: some specs look at all pods that there are.
func startKubelets(ctx context.Context, client kubernetes.Interface, nodes int) error {
	for i := range nodes {
		if err := register(ctx, client, i); err != nil {
			return err
		}
	}
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](10*time.Millisecond, time.Second)
	factory := informers.NewSharedInformerFactory(client, 0)
	k := &kubelets{
		client:   client,
		pods:     factory.Core().V1().Pods().Lister(),
		nodes:    factory.Core().V1().Nodes().Lister(),
		podKeys:  workqueue.NewTypedRateLimitingQueue[string](limiter),
		nodeKeys: workqueue.NewTypedRateLimitingQueue[string](limiter),
	}
	for informer, queue := range map[cache.SharedIndexInformer]workqueue.TypedRateLimitingInterface[string]{
		factory.Core().V1().Pods().Informer():  k.podKeys,
		factory.Core().V1().Nodes().Informer(): k.nodeKeys,
	} {
		add := func(object any) {
			if key, err := cache.MetaNamespaceKeyFunc(object); err == nil {
				queue.Add(key)
			}
		}
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: add, UpdateFunc: func(_, object any) { add(object) },
		})
		if err != nil {
			return err
		}
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	for range 4 {
		go work(ctx, k.podKeys, k.syncPod)
	}
	go work(ctx, k.nodeKeys, k.syncNode)
	go func() {
		<-ctx.Done()
		k.podKeys.ShutDown()
		k.nodeKeys.ShutDown()
	}()
	return wait.PollUntilContextTimeout(ctx, poll, time.Minute, true, func(context.Context) (bool, error) {
		running := 0
		there, err := k.pods.Pods(metav1.NamespaceSystem).List(labels.Everything())
		for _, pod := range there {
			if pod.Status.Phase == v1.PodRunning {
				running++
			}
		}
		return running == nodes, err
	})
}

// register makes a node and what runs on every node.
func register(ctx context.Context, client kubernetes.Interface, i int) error {
	if _, err := client.CoreV1().Nodes().Create(ctx, newNode(i), metav1.CreateOptions{}); err != nil {
		return err
	}
	// The controller that makes the namespace's service account may be slower than we are.
	return wait.PollUntilContextTimeout(ctx, poll, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().Pods(metav1.NamespaceSystem).Create(ctx, newSystemPod(i), metav1.CreateOptions{})
		if apierrors.IsForbidden(err) {
			return false, nil
		}
		return err == nil, err
	})
}

// newNode is one of two zones' nodes.
func newNode(i int) *v1.Node {
	name := fmt.Sprintf("node-%d", i)
	resources := v1.ResourceList{
		v1.ResourceCPU:              resource.MustParse("8"),
		v1.ResourceMemory:           resource.MustParse("32Gi"),
		v1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
		v1.ResourcePods:             resource.MustParse("110"),
	}
	now := metav1.Now()
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			v1.LabelHostname:       name,
			v1.LabelTopologyZone:   fmt.Sprintf("zone-%d", i%2),
			v1.LabelTopologyRegion: "region",
			v1.LabelOSStable:       "linux",
			v1.LabelArchStable:     "amd64",
		}},
		Status: v1.NodeStatus{
			Capacity:    resources,
			Allocatable: resources.DeepCopy(),
			Conditions: []v1.NodeCondition{{
				Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady",
				LastHeartbeatTime: now, LastTransitionTime: now,
			}},
			Addresses: []v1.NodeAddress{
				{Type: v1.NodeInternalIP, Address: fmt.Sprintf("192.168.0.%d", i+1)},
				{Type: v1.NodeHostName, Address: name},
			},
			NodeInfo: v1.NodeSystemInfo{KubeletVersion: "v1.37.2", OperatingSystem: "linux", Architecture: "amd64"},
		},
	}
}

// newSystemPod has a name that matches whatever the framework waits a minute for on each node.
func newSystemPod(i int) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("kube-proxy-fluentd-elasticsearch-node-problem-detector-%d", i)},
		Spec: v1.PodSpec{
			NodeName:   fmt.Sprintf("node-%d", i),
			Containers: []v1.Container{{Name: "kube-proxy", Image: "kube-proxy"}},
		},
	}
}

// work syncs keys until the queue is shut down; one that says after what time is synced again then.
func work(
	ctx context.Context,
	keys workqueue.TypedRateLimitingInterface[string],
	sync func(context.Context, string) (time.Duration, error),
) {
	for {
		key, shutdown := keys.Get()
		if shutdown {
			return
		}
		again, err := sync(ctx, key)
		switch {
		case err != nil && !apierrors.IsNotFound(err):
			klog.FromContext(ctx).Info("kubelet: tries again", "key", key, "err", err)
			keys.AddRateLimited(key)
		case again > 0:
			keys.AddAfter(key, again)
		default:
			keys.Forget(key)
		}
		keys.Done(key)
	}
}

// syncNode makes of extended resources allocatable what the node's capacity says, as tests change only that.
func (k *kubelets) syncNode(ctx context.Context, key string) (time.Duration, error) {
	node, err := k.nodes.Get(key)
	if err != nil {
		return 0, err
	}
	changed := map[v1.ResourceName]any{}
	for name, quantity := range node.Status.Capacity {
		if old, found := node.Status.Allocatable[name]; strings.Contains(string(name), "/") && (!found || !old.Equal(quantity)) {
			changed[name] = quantity.String()
		}
	}
	for name := range node.Status.Allocatable {
		if _, found := node.Status.Capacity[name]; !found {
			changed[name] = nil
		}
	}
	if len(changed) == 0 {
		return 0, nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": node.ResourceVersion},
		"status":   map[string]any{"allocatable": changed},
	})
	if err != nil {
		return 0, err
	}
	_, err = k.client.CoreV1().Nodes().Patch(ctx, key, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return 0, err
}

// syncPod runs the pod, or ends it.
func (k *kubelets) syncPod(ctx context.Context, key string) (time.Duration, error) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return 0, err
	}
	pod, err := k.pods.Pods(namespace).Get(name)
	if err != nil || pod.Spec.NodeName == "" {
		return 0, err
	}
	if pod.DeletionTimestamp != nil {
		return k.endPod(ctx, pod)
	}
	if pod.Status.Phase == v1.PodPending {
		return 0, k.patchPod(ctx, pod, k.running(pod))
	}
	return 0, nil
}

// endPod lets the pod's preStop hook and grace period pass, and says that its containers have ended.
func (k *kubelets) endPod(ctx context.Context, pod *v1.Pod) (time.Duration, error) {
	if pod.DeletionGracePeriodSeconds == nil || *pod.DeletionGracePeriodSeconds == 0 {
		return 0, nil // gone but for its finalizers
	}
	var hook int64
	for _, container := range pod.Spec.Containers {
		if l := container.Lifecycle; l != nil && l.PreStop != nil && l.PreStop.Sleep != nil {
			hook = max(hook, l.PreStop.Sleep.Seconds)
		}
	}
	begun := pod.DeletionTimestamp.Add(-time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
	hook = min(hook, *pod.DeletionGracePeriodSeconds)
	if left := time.Until(begun.Add(time.Duration(hook) * time.Second)); hook > 0 && left > 0 {
		return left, nil
	}
	if pod.Status.Phase != v1.PodSucceeded && pod.Status.Phase != v1.PodFailed {
		if err := k.patchPod(ctx, pod, v1.PodStatus{Phase: v1.PodSucceeded, Conditions: conditions(v1.ConditionFalse)}); err != nil {
			return 0, err
		}
	}
	return 0, k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
	})
}

// running is the status of a pod all of whose containers run.
func (k *kubelets) running(pod *v1.Pod) v1.PodStatus {
	now := metav1.Now()
	number := k.address.Add(1)
	address := fmt.Sprintf("10.244.%d.%d", number/250, number%250+1)
	status := v1.PodStatus{
		Phase: v1.PodRunning, StartTime: &now, Conditions: conditions(v1.ConditionTrue),
		PodIP: address, PodIPs: []v1.PodIP{{IP: address}},
	}
	started := true
	for _, container := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, v1.ContainerStatus{
			Name: container.Name, Image: container.Image, Ready: true, Started: &started,
			State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: now}},
		})
	}
	return status
}

func conditions(value v1.ConditionStatus) []v1.PodCondition {
	now := metav1.Now()
	return []v1.PodCondition{
		{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: now},
		{Type: v1.PodReadyToStartContainers, Status: value, LastTransitionTime: now},
		{Type: v1.PodInitialized, Status: v1.ConditionTrue, LastTransitionTime: now},
		{Type: v1.ContainersReady, Status: value, LastTransitionTime: now},
		{Type: v1.PodReady, Status: value, LastTransitionTime: now},
	}
}

// patchPod merges a status into that of the pod with this uid.
func (k *kubelets) patchPod(ctx context.Context, pod *v1.Pod, status v1.PodStatus) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err != nil {
		return err
	}
	_, err = k.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}
