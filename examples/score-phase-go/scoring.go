// Also change: internal/trireme/plugins/node_resources_balanced_allocation/score.py,
// internal/trireme/plugins/node_resources_fit/score.py,
// internal/trireme/plugins/taint_toleration/score.py (the same scores).

package main

import (
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

const maxScore = 100

// scorer scores nodes for pods of one class.
type scorer struct {
	*profile
	of    *class
	skips map[string]bool // the plugins that skip the class
	soft  []v1.Toleration // those that tolerate PreferNoSchedule
}

func newScorer(by *profile, of *class) *scorer {
	out := &scorer{profile: by, of: of, skips: map[string]bool{}}
	out.skips[fitName], out.skips[taintsName] = by.fit == 0, by.taints == 0
	asked := false
	for _, each := range by.balancedResources {
		asked = asked || of.scored[each.index] != 0
	}
	out.skips[balancedName] = by.balanced == 0 || !asked
	for _, toleration := range of.pod.Spec.Tolerations {
		if toleration.Effect == "" || toleration.Effect == v1.TaintEffectPreferNoSchedule {
			out.soft = append(out.soft, toleration)
		}
	}
	return out
}

// evaluated names the plugins that were not skipped.
func (s *scorer) evaluated() []string {
	var out []string
	for _, name := range hosted {
		if !s.skips[name] {
			out = append(out, name)
		}
	}
	return out
}

// own is the weighted sum of the scores that a placement changes on its own node: those of one more pod on the node,
// where so many copies have been placed in this call.
func (s *scorer) own(on *node, copies int64) int64 {
	total := int64(0)
	if !s.skips[fitName] {
		total += s.fit * s.allocation(on, copies)
	}
	if !s.skips[balancedName] {
		total += s.balanced * s.balance(on, copies)
	}
	return total
}

// allocation is NodeResourcesFit: how empty, or how full, the node is with the pod on it, 0 to 100. A resource that the
// node lacks does not count. Source: pkg/scheduler/framework/plugins/noderesources of Kubernetes.
func (s *scorer) allocation(on *node, copies int64) int64 {
	total, weights := int64(0), int64(0)
	used := on.nonZeroUsed
	used.add(copies, s.of.placedNonZero)
	used.add(1, s.of.scoredNonZero)
	for _, each := range s.fitResources {
		has, takes := on.allocatable[each.index], used[each.index]
		if has == 0 {
			continue
		}
		weights += each.weight
		if s.mostAllocated {
			total += each.weight * (min(takes, has) * maxScore / has)
		} else if takes <= has {
			total += each.weight * ((has - takes) * maxScore / has)
		}
	}
	if weights == 0 {
		return 0
	}
	return total / weights
}

// balance is NodeResourcesBalancedAllocation: 75 where the pod changes nothing, up to 100 where it evens the node out,
// down to 50 where it does the opposite.
func (s *scorer) balance(on *node, copies int64) int64 {
	before := on.requested
	before.add(copies, s.of.placed)
	after := before
	after.add(1, s.of.scored)
	gain := s.evenness(on, after) - s.evenness(on, before)
	// Half of it, rounded down, as 50 + gain is not negative.
	return 50 + (50+gain)/2
}

// evenness is 100 where all resources are used to the same share, less the further apart they are.
func (s *scorer) evenness(on *node, used amounts) int64 {
	var shares []float64
	for _, each := range s.balancedResources {
		if has := on.allocatable[each.index]; has > 0 {
			shares = append(shares, min(float64(used[each.index])/float64(has), 1))
		}
	}
	deviation := 0.0
	switch count := float64(len(shares)); {
	case count == 2:
		deviation = math.Abs(shares[0]-shares[1]) / 2
	case count > 2:
		mean, spread := 0.0, 0.0
		for _, share := range shares {
			mean += share
		}
		mean /= count
		for _, share := range shares {
			spread += (share - mean) * (share - mean)
		}
		deviation = math.Sqrt(spread / count)
	}
	return int64((1 - deviation) * maxScore)
}

// untolerated is TaintToleration's raw score: how many soft taints of the node the pod does not tolerate. Fewer is better.
func (s *scorer) untolerated(on *node) int64 {
	count := int64(0)
	for i := range on.object.Spec.Taints {
		taint := &on.object.Spec.Taints[i]
		if taint.Effect == v1.TaintEffectPreferNoSchedule && !s.tolerates(taint) {
			count++
		}
	}
	return count
}

func (s *scorer) tolerates(taint *v1.Taint) bool {
	for i := range s.soft {
		if s.soft[i].ToleratesTaint(klog.Background(), taint, s.comparesTolerances) {
			return true
		}
	}
	return false
}

// normalized is what a raw score of TaintToleration is worth, where this is the highest one.
func normalized(raw, highest int64) int64 {
	if highest == 0 {
		return maxScore
	}
	return maxScore - raw*maxScore/highest
}
