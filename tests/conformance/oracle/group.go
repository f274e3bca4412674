package main

import (
	"context"
	"encoding/json"
	"sort"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

const devices = "DynamicResources"

func isGroup(content json.RawMessage) bool {
	var fields map[string]json.RawMessage
	return json.Unmarshal(content, &fields) == nil && fields["members"] != nil
}

// answerGroup tries the members of the one PodGroup of the situation in their order, by DynamicResources alone: each
// goes to the first node by name that will do, and the next one sees what was reserved for it. If one of them fits
// nowhere, PodGroupPostFilter is asked, else PreBind of each. It needs the gates of pod groups.
func answerGroup(content json.RawMessage, runs int) (object, *varying, error) {
	return repeated(content, runs, decideGroup)
}

func decideGroup(about *situation) (object, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	profile, err := standardProfile(about)
	if err != nil {
		return nil, err
	}
	alone := enabled(devices)
	profile.Plugins = &config.Plugins{
		QueueSort: enabled("PrioritySort"), PreFilter: alone, Filter: alone, Reserve: alone, PodGroupPostFilter: alone,
		PreBind: alone, Bind: enabled("DefaultBinder"),
	}
	made, err := newCluster(ctx, about.Objects, []config.KubeSchedulerProfile{*profile})
	if err != nil {
		return nil, err
	}
	defer made.stop()
	cycle := framework.NewCycleState()
	members, states := []object{}, []*framework.CycleState{}
	complete := true
	for _, pod := range about.Members {
		state := framework.NewCycleState()
		state.SetPodGroupCycleState(cycle)
		said := (&decision{ctx, made, about}).member(pod, state)
		complete = complete && said["node"] != nil
		members, states = append(members, said), append(states, state)
	}
	answer := object{"members": members}
	if !complete {
		answer["postFilter"] = made.groupPostFilter(ctx, about, cycle)
		return answer, nil
	}
	for i, pod := range about.Members {
		states[i].SetPodGroupCycleState(nil)
		made.reserves(ctx, pod, states[i], members[i])
	}
	return answer, nil
}

// reserves notes for whom PreBind reserves which claims.
func (c *cluster) reserves(ctx context.Context, pod *v1.Pod, state fwk.CycleState, answer object) {
	c.client.ClearActions()
	status := c.framework(defaultProfile).RunPreBindPlugins(ctx, state, pod, answer["node"].(string))
	if !status.IsSuccess() {
		answer["preBind"] = said(status)
	}
	users := object{}
	for _, action := range c.client.Actions() {
		update, ok := action.(testing.UpdateAction)
		if !ok || action.GetSubresource() != "status" {
			continue
		}
		if claim, ok := update.GetObject().(*resourcev1.ResourceClaim); ok && len(claim.Status.ReservedFor) > 0 {
			users[claim.Name] = claim.Status.ReservedFor[len(claim.Status.ReservedFor)-1]
		}
	}
	if len(users) > 0 {
		answer["reserves"] = users
	}
}

func (d *decision) member(pod *v1.Pod, state fwk.CycleState) object {
	one := &decision{d.ctx, d.cluster, &situation{Pod: pod}}
	profile := d.cluster.framework(defaultProfile)
	filtered := one.filterIn(profile, state)
	if filtered.refusal != nil {
		return object{"preFilter": said(filtered.refusal)}
	}
	refused := object{}
	for name, status := range filtered.statuses {
		refused[name] = said(status)
	}
	answer := some("filter", refused, len(refused))
	if len(filtered.feasible) == 0 {
		return answer
	}
	node := filtered.feasible[0].Node().Name
	if status := profile.RunReservePluginsReserve(d.ctx, state, pod, node); !status.IsSuccess() {
		answer["reserve"] = said(status)
		return answer
	}
	answer["node"] = node
	if kept := d.cluster.pending(profile); len(kept) > 0 {
		answer["allocations"] = kept
	}
	return answer
}

// pending answers what has been promised to claims, by their names.
func (c *cluster) pending(profile framework.Framework) object {
	manager := profile.SharedDRAManager().ResourceClaims()
	claims, err := manager.List()
	if err != nil {
		panic(err)
	}
	kept := object{}
	for _, claim := range claims {
		if allocation := manager.GetPendingAllocation(claim.UID); allocation != nil {
			kept[claim.Name] = withoutShareIDs(allocation)
		}
	}
	return kept
}

func (c *cluster) groupPostFilter(ctx context.Context, about *situation, cycle *framework.CycleState) object {
	var group *schedulingv1beta1.PodGroup
	for _, each := range about.Objects {
		if typed, ok := each.(*schedulingv1beta1.PodGroup); ok {
			group = typed
		}
	}
	info := framework.NewPodGroupInfo(fwk.NewGenericPodGroup(group))
	info.UnscheduledPods = about.Members
	had := map[string]bool{}
	for _, each := range about.Objects {
		if claim, ok := each.(*resourcev1.ResourceClaim); ok && claim.Status.Allocation != nil {
			had[claim.Name] = true
		}
	}
	c.client.ClearActions()
	_, status := c.framework(defaultProfile).RunPodGroupPostFilterPlugins(ctx, cycle, info, nil)
	freed, left := map[string]bool{}, map[string]bool{}
	for _, action := range c.client.Actions() {
		switch typed := action.(type) {
		case testing.UpdateAction:
			if claim, ok := typed.GetObject().(*resourcev1.ResourceClaim); ok && claim.Status.Allocation == nil && had[claim.Name] {
				freed[claim.Name] = true
			}
		case testing.PatchAction:
			if action.GetResource().Resource == "resourceclaims" {
				left[typed.GetName()] = true
			}
		}
	}
	answer := object{"status": said(status)}
	for field, found := range map[string]map[string]bool{"deallocated": freed, "left": left} {
		names := []string{}
		for name := range found {
			names = append(names, name)
		}
		if sort.Strings(names); len(names) > 0 {
			answer[field] = names
		}
	}
	return answer
}
