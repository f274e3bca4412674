package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

const defaultProfile = "default-scheduler"

// A cluster is a scheduler that has seen all objects of a situation, and has yet to decide anything.
type cluster struct {
	client    *fake.Clientset
	scheduler *scheduler.Scheduler
	snapshot  *cache.Snapshot
	factory   informers.SharedInformerFactory
	cancel    context.CancelFunc
}

// newCluster starts a scheduler with these profiles and waits until it knows the objects.
func newCluster(ctx context.Context, objects []runtime.Object, profiles []config.KubeSchedulerProfile) (*cluster, error) {
	ctx, cancel := context.WithCancel(ctx)
	copies := make([]runtime.Object, len(objects))
	for i, object := range objects {
		copies[i] = object.DeepCopyObject()
	}
	client := fake.NewSimpleClientset(copies...)
	client.PrependReactor("list", "*", func(action testing.Action) (bool, runtime.Object, error) {
		return inAnyOrder(client.Tracker(), action)
	})
	factory := scheduler.NewInformerFactory(client, 0, nil)
	made := &cluster{client: client, factory: factory, cancel: cancel}
	sched, err := scheduler.New(ctx, client, factory, nil,
		func(string) events.EventRecorderLogger { return &events.FakeRecorder{} },
		scheduler.WithProfiles(profiles...))
	if err != nil {
		made.stop()
		return nil, err
	}
	made.scheduler = sched
	made.snapshot = made.framework(profiles[0].SchedulerName).SnapshotSharedLister().(*cache.Snapshot)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := sched.WaitForHandlersSync(ctx); err != nil {
		made.stop()
		return nil, err
	}
	// The plugins' own caches have handlers too, which nobody can wait for.
	time.Sleep(20 * time.Millisecond)
	if err := sched.Cache.UpdateSnapshot(klog.FromContext(ctx), made.snapshot); err != nil {
		made.stop()
		return nil, err
	}
	return made, nil
}

// inAnyOrder lists what the tracker has, in another order each time: what is decided must not depend on it.
func inAnyOrder(tracker testing.ObjectTracker, action testing.Action) (bool, runtime.Object, error) {
	asked, ok := action.(testing.ListActionImpl)
	if !ok {
		return false, nil, nil
	}
	list, err := tracker.List(asked.GetResource(), asked.GetKind(), asked.GetNamespace())
	if err != nil {
		return true, nil, err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return true, nil, err
	}
	rand.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
	return true, list, meta.SetList(list, items)
}

func (c *cluster) stop() {
	c.cancel()
	c.factory.Shutdown()
	if c.scheduler != nil {
		c.scheduler.SchedulingQueue.Close()
	}
}

// profilesFor answers the default profile, and one for each filter plugin alone, named after it.
func profilesFor(about *situation) ([]config.KubeSchedulerProfile, error) {
	standard, err := standardProfile(about)
	if err != nil {
		return nil, err
	}
	order, err := defaultOrder()
	if err != nil {
		return nil, err
	}
	profiles := []config.KubeSchedulerProfile{*standard}
	for _, name := range order.filters {
		alone := standard.DeepCopy()
		alone.SchedulerName = name
		alone.Plugins = &config.Plugins{
			QueueSort: enabled("PrioritySort"),
			Filter:    enabled(name),
			Bind:      enabled("DefaultBinder"),
		}
		if order.preFilters.Has(name) {
			alone.Plugins.PreFilter = enabled(name)
		}
		profiles = append(profiles, *alone)
	}
	return profiles, nil
}

func enabled(name string) config.PluginSet {
	return config.PluginSet{Enabled: []config.Plugin{{Name: name}}}
}

// standardProfile is kube-scheduler's own, with the arguments that the situation names.
func standardProfile(about *situation) (*config.KubeSchedulerProfile, error) {
	profile := object{"schedulerName": defaultProfile}
	if about.PluginConfig != nil {
		profile["pluginConfig"] = about.PluginConfig
	}
	document, err := json.Marshal(object{
		"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": []object{profile},
	})
	if err != nil {
		return nil, err
	}
	decoded, _, err := scheme.Codecs.UniversalDecoder().Decode(document, nil, nil)
	if err != nil {
		return nil, err
	}
	loaded, ok := decoded.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("a configuration is decoded as %T", decoded)
	}
	for _, plugin := range loaded.Profiles[0].PluginConfig {
		if args, ok := plugin.Args.(*config.NodeResourcesFitArgs); ok && about.FitStrategy != "" {
			args.ScoringStrategy.Type = config.ScoringStrategyType(about.FitStrategy)
		}
	}
	return &loaded.Profiles[0], nil
}

type pluginOrder struct {
	filters    []string
	preFilters sets.Set[string]
}

// defaultOrder asks the framework itself which plugins the default profile has at Filter.
var defaultOrder = sync.OnceValues(func() (*pluginOrder, error) {
	standard, err := standardProfile(&situation{})
	if err != nil {
		return nil, err
	}
	empty, err := newCluster(context.Background(), nil, []config.KubeSchedulerProfile{*standard})
	if err != nil {
		return nil, err
	}
	defer empty.stop()
	plugins := empty.scheduler.Profiles[defaultProfile].ListPlugins()
	return &pluginOrder{namesOf(plugins.Filter), sets.New(namesOf(plugins.PreFilter)...)}, nil
})

func namesOf(set config.PluginSet) []string {
	names := make([]string, 0, len(set.Enabled))
	for _, plugin := range set.Enabled {
		names = append(names, plugin.Name)
	}
	return slices.Clip(names)
}

func (c *cluster) framework(profile string) framework.Framework {
	return c.scheduler.Profiles[profile]
}
