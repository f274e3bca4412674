package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
)

// How long a preemption may take; it is some calls of a fake API server.
const preemptionDeadline = 10 * time.Second

type object = map[string]any

type decision struct {
	ctx     context.Context
	cluster *cluster
	about   *situation
}

// For these fields the varying texts are reported.
var choices = []string{"preemption", "message"}

// A varying is what is not the same each time: the names of fields, and of some of them what was said.
type varying struct {
	names  sets.Set[string]
	either map[string][]any
}

// answerCase asks several times, and leaves out what is not the same each time; it answers that apart.
func answerCase(content json.RawMessage, runs int) (object, *varying, error) {
	return repeated(content, runs, decideOnce)
}

func repeated(content json.RawMessage, runs int, decide func(*situation) (object, error)) (object, *varying, error) {
	about, err := parse(content)
	if err != nil {
		return nil, nil, err
	}
	var answer object
	varies := &varying{sets.New[string](), map[string][]any{}}
	for range runs {
		once, err := decide(about)
		if err != nil {
			return nil, nil, err
		}
		for _, field := range choices {
			varies.add(field, once[field])
		}
		if answer == nil {
			answer = once
		} else {
			keepCommon(answer, once, "", varies.names)
		}
	}
	for _, field := range choices {
		if !varies.names.Has(field) {
			delete(varies.either, field)
		}
	}
	return answer, varies, nil
}

func (v *varying) add(field string, value any) {
	if !slices.ContainsFunc(v.either[field], func(known any) bool { return same(known, value) }) {
		v.either[field] = append(v.either[field], value)
	}
}

// By their inner fields are told: allocations node by node, what plugins say alone plugin by plugin.
var toldApart = sets.New("allocations", "byPlugin")

// keepCommon removes from a what b does not say in the same words. Fields of a part have its name before their own.
func keepCommon(a, b object, within string, varies sets.Set[string]) {
	for field := range sets.KeySet(a).Union(sets.KeySet(b)) {
		if same(a[field], b[field]) {
			continue
		}
		inner, ok := a[field].(object)
		other, also := b[field].(object)
		if toldApart.Has(field) && ok && also {
			keepCommon(inner, other, field+".", varies)
			continue
		}
		delete(a, field)
		varies.Insert(within + field)
	}
}

func same(a, b any) bool {
	left, leftErr := json.Marshal(a)
	right, rightErr := json.Marshal(b)
	return leftErr == nil && rightErr == nil && string(left) == string(right)
}

func decideOnce(about *situation) (object, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	profiles, err := profilesFor(about)
	if err != nil {
		return nil, err
	}
	made, err := newCluster(ctx, about.Objects, profiles)
	if err != nil {
		return nil, err
	}
	defer made.stop()
	one := &decision{ctx, made, about}
	alone := object{}
	for _, profile := range profiles[1:] {
		if said := one.alone(profile.SchedulerName); len(said) > 0 {
			alone[profile.SchedulerName] = said
		}
	}
	answer, err := one.cycle()
	if err != nil {
		return nil, err
	}
	if len(alone) > 0 {
		answer["byPlugin"] = alone
	}
	return answer, nil
}

// A filtering is what PreFilter and Filter of one profile say.
type filtering struct {
	state     fwk.CycleState
	refusal   *fwk.Status
	narrowed  sets.Set[string]
	isNarrow  bool
	statuses  map[string]*fwk.Status
	feasible  []fwk.NodeInfo
	diagnosis framework.Diagnosis
}

func (d *decision) nodes() []fwk.NodeInfo {
	nodes, err := d.cluster.snapshot.NodeInfos().List()
	if err != nil {
		panic(err)
	}
	sorted := slices.Clone(nodes)
	sort.Slice(sorted, func(i, j int) bool { return sorted[i].Node().Name < sorted[j].Node().Name })
	return sorted
}

func (d *decision) filter(profile framework.Framework) *filtering {
	return d.filterIn(profile, framework.NewCycleState())
}

func (d *decision) filterIn(profile framework.Framework, state fwk.CycleState) *filtering {
	out := &filtering{state: state, statuses: map[string]*fwk.Status{}}
	out.diagnosis.NodeToStatus = framework.NewDefaultNodeToStatus()
	result, status, rejectors := profile.RunPreFilterPlugins(d.ctx, out.state, d.about.Pod)
	if !status.IsSuccess() {
		out.refusal = status
		out.diagnosis.NodeToStatus.SetAbsentNodesStatus(status)
		out.diagnosis.PreFilterMsg = status.Message()
		return out
	}
	nodes := d.nodes()
	if !result.AllNodes() {
		out.isNarrow, out.narrowed = true, sets.New[string]()
		some := []fwk.NodeInfo{}
		for _, node := range nodes {
			if result.NodeNames.Has(node.Node().Name) {
				some = append(some, node)
				out.narrowed.Insert(node.Node().Name)
			}
		}
		nodes = some
		absent := fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(rejectors))
		out.diagnosis.NodeToStatus.SetAbsentNodesStatus(fwk.NewStatus(fwk.UnschedulableAndUnresolvable, absent))
	}
	for _, node := range nodes {
		status := profile.RunFilterPluginsWithNominatedPods(d.ctx, out.state, d.about.Pod, node)
		if status.IsSuccess() {
			out.feasible = append(out.feasible, node)
			continue
		}
		out.statuses[node.Node().Name] = status
		out.diagnosis.NodeToStatus.Set(node.Node().Name, status)
	}
	return out
}

func (d *decision) alone(plugin string) object {
	filtered := d.filter(d.cluster.framework(plugin))
	if filtered.refusal != nil {
		return object{"preFilter": said(filtered.refusal)}
	}
	filter := object{}
	for _, node := range d.nodes() {
		name := node.Node().Name
		if status, refused := filtered.statuses[name]; refused {
			filter[name] = said(status)
		} else if filtered.isNarrow && !filtered.narrowed.Has(name) {
			filter[name] = object{"code": "NotInPreFilterNodes", "plugin": plugin}
		}
	}
	return some("filter", filter, len(filter))
}

func (d *decision) cycle() (object, error) {
	profile := d.cluster.framework(defaultProfile)
	filtered := d.filter(profile)
	answer := object{"feasible": []string{}}
	texts := sets.New[string]()
	failed := false
	if filtered.refusal != nil {
		answer["preFilter"] = said(filtered.refusal)
		failed = filtered.refusal.Code() == fwk.Error
	} else {
		if filtered.isNarrow {
			answer["preFilterNodes"] = sets.List(filtered.narrowed)
		}
		filter := object{}
		for name, status := range filtered.statuses {
			filter[name] = said(status)
			if status.Code() == fwk.Error {
				failed = true
				texts.Insert(status.AsError().Error())
			}
		}
		if len(filter) > 0 {
			answer["filter"] = filter
		}
		answer["feasible"] = names(filtered.feasible)
	}
	switch {
	case failed:
		if texts.Len() == 1 {
			answer["message"] = sets.List(texts)[0]
		}
		return answer, nil
	case len(filtered.feasible) > 0:
		if err := d.score(answer, profile, filtered); err != nil {
			return nil, err
		}
		if _, scored := answer["scores"]; scored {
			d.reserve(answer, profile, filtered)
		}
		return answer, nil
	default:
		return answer, d.postFilter(answer, profile, filtered)
	}
}

func (d *decision) score(answer object, profile framework.Framework, filtered *filtering) error {
	status := profile.RunPreScorePlugins(d.ctx, filtered.state, d.about.Pod, filtered.feasible)
	if !status.IsSuccess() {
		answer["message"] = status.AsError().Error()
		return nil
	}
	all, status := profile.RunScorePlugins(d.ctx, filtered.state, d.about.Pod, filtered.feasible)
	if !status.IsSuccess() {
		return fmt.Errorf("Score: %w", status.AsError())
	}
	scores, totals := object{}, object{}
	for _, node := range all {
		plugins := object{}
		for _, one := range node.Scores {
			plugins[one.Name] = one.Score
		}
		scores[node.Name], totals[node.Name] = plugins, node.TotalScore
	}
	answer["scores"], answer["total"] = scores, totals
	return nil
}

// reserve asks node by node what Reserve keeps for the claims that have no allocation, and what the pod's claims come
// to in resources of the node.
func (d *decision) reserve(answer object, profile framework.Framework, filtered *filtering) {
	if len(d.about.Pod.Spec.ResourceClaims) == 0 {
		return
	}
	manager := profile.SharedDRAManager().ResourceClaims()
	claims, err := manager.List()
	if err != nil {
		panic(err)
	}
	kept, statuses := object{}, object{}
	for _, node := range filtered.feasible {
		name := node.Node().Name
		state := filtered.state.Clone()
		logger := klog.FromContext(d.ctx)
		if found := dynamicresources.ExtractPodNodeAllocatableResourceClaimStatus(logger, state, name); len(found) > 0 {
			statuses[name] = found
		}
		if status := profile.RunReservePluginsReserve(d.ctx, state, d.about.Pod, name); status.IsSuccess() {
			allocations := object{}
			for _, claim := range claims {
				allocation := manager.GetPendingAllocation(claim.UID)
				if allocation != nil && claim.Status.Allocation == nil {
					allocations[claim.Name] = withoutShareIDs(allocation)
				}
			}
			if len(allocations) > 0 {
				kept[name] = allocations
			}
		}
		profile.RunReservePluginsUnreserve(d.ctx, state, d.about.Pod, name)
	}
	if len(kept) > 0 {
		answer["allocations"] = kept
	}
	if len(statuses) > 0 {
		answer["claimStatuses"] = statuses
	}
}

func withoutShareIDs(allocation *resourcev1.AllocationResult) *resourcev1.AllocationResult {
	out := allocation.DeepCopy()
	for i := range out.Devices.Results {
		out.Devices.Results[i].ShareID = nil
	}
	return out
}

func (d *decision) postFilter(answer object, profile framework.Framework, filtered *filtering) error {
	d.cluster.client.ClearActions()
	result, status := profile.RunPostFilterPlugins(d.ctx, filtered.state, d.about.Pod, filtered.diagnosis.NodeToStatus)
	if err := d.waitForPreemption(profile); err != nil {
		return err
	}
	filtered.diagnosis.PostFilterMsg = status.Message()
	fit := &framework.FitError{Pod: d.about.Pod, NumAllNodes: len(d.nodes()), Diagnosis: filtered.diagnosis}
	answer["message"] = fit.Error()
	preemption := object{"status": said(status)}
	if result != nil && result.NominatingInfo != nil && result.NominatingInfo.NominatedNodeName != "" {
		preemption["nominatedNode"] = result.NominatingInfo.NominatedNodeName
	}
	victims, freed := []string{}, []string{}
	for _, action := range d.cluster.client.Actions() {
		switch typed := action.(type) {
		case testing.DeleteAction:
			if action.GetResource().Resource == "pods" {
				victims = append(victims, typed.GetName())
			}
		case testing.UpdateAction:
			if claim, ok := typed.GetObject().(*resourcev1.ResourceClaim); ok && claim.Status.Allocation == nil {
				freed = append(freed, claim.Name)
			}
		}
	}
	for field, found := range map[string][]string{"victims": victims, "deallocated": freed} {
		if len(found) > 0 {
			sort.Strings(found)
			preemption[field] = found
		}
	}
	answer["preemption"] = preemption
	return nil
}

// waitForPreemption returns when the victims have been deleted: until then, the pod may not enter the queue.
func (d *decision) waitForPreemption(profile framework.Framework) error {
	deadline := time.Now().Add(preemptionDeadline)
	for _, plugin := range profile.PreEnqueuePlugins() {
		if plugin.Name() != "DefaultPreemption" {
			continue
		}
		for !plugin.PreEnqueue(d.ctx, d.about.Pod).IsSuccess() {
			if time.Now().After(deadline) {
				return fmt.Errorf("the preemption does not end")
			}
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

func said(status *fwk.Status) object {
	out := object{"code": status.Code().String()}
	if status.Plugin() != "" {
		out["plugin"] = status.Plugin()
	}
	if len(status.Reasons()) > 0 {
		reasons := slices.Clone(status.Reasons())
		sort.Strings(reasons)
		out["reasons"] = reasons
	}
	return out
}

func some(field string, value any, size int) object {
	if size == 0 {
		return object{}
	}
	return object{field: value}
}

func names(nodes []fwk.NodeInfo) []string {
	out := make([]string, 0, len(nodes))
	for _, node := range nodes {
		out = append(out, node.Node().Name)
	}
	return out
}
