// Also change: internal/trireme/plugins/node_resources_fit/args.py (strategies of scores).

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"trireme.dev/sdk/go/triremev1"
)

const (
	fitName      = "NodeResourcesFit"
	balancedName = "NodeResourcesBalancedAllocation"
	taintsName   = "TaintToleration"

	least = "LeastAllocated"
	most  = "MostAllocated"
)

// hosted are the score plugins of this phase.
var hosted = []string{fitName, balancedName, taintsName}

// scoredResource is one resource that counts, and its weight.
type scoredResource struct {
	index  int // in amounts
	weight int64
}

// profile is how pods of a profile are scored. The weight of a plugin that it does not have is 0.
type profile struct {
	fit, balanced, taints             int64
	fitResources, balancedResources   []scoredResource
	mostAllocated, comparesTolerances bool
	// percentage of the nodes to score; 0: all.
	percentage int
}

// configuration is the scheduler's, as far as it concerns scores.
type configuration struct {
	rules    rules
	profiles map[string]*profile
}

// configure reads a configuration. Everything that this phase does not do is an error, so that no pod is placed by
// scores that somebody only believes to be in force.
func configure(message *triremev1.Configuration) (*configuration, error) {
	gates := message.GetFeatureGates()
	if gates["TopologyAwareWorkloadScheduling"] {
		return nil, errors.New("feature_gates: TopologyAwareWorkloadScheduling is not supported by this score phase: " +
			"it does not score placements of pod groups")
	}
	out := &configuration{rules: rulesOf(gates), profiles: map[string]*profile{}}
	for _, each := range message.GetProfiles() {
		made, err := newProfile(each)
		if err != nil {
			return nil, fmt.Errorf("profile %s: %w", each.GetSchedulerName(), err)
		}
		made.comparesTolerances = gates["TaintTolerationComparisonOperators"]
		out.profiles[each.GetSchedulerName()] = made
	}
	return out, nil
}

func newProfile(message *triremev1.Profile) (*profile, error) {
	out := &profile{percentage: int(message.GetPercentageOfNodesToScore())}
	for _, set := range message.GetPluginSets() {
		if set.GetExtensionPoint() != triremev1.ExtensionPoint_EXTENSION_POINT_SCORE {
			continue
		}
		for _, plugin := range set.GetPlugins() {
			if err := out.enable(plugin); err != nil {
				return nil, err
			}
		}
	}
	for _, args := range message.GetPluginArgs() {
		if err := out.read(args.GetName(), args.GetArgsJson()); err != nil {
			return nil, fmt.Errorf("arguments of %s: %w", args.GetName(), err)
		}
	}
	defaults := []scoredResource{{0, 1}, {1, 1}}
	if out.fitResources == nil {
		out.fitResources = defaults
	}
	if out.balancedResources == nil {
		out.balancedResources = defaults
	}
	return out, nil
}

func (p *profile) enable(plugin *triremev1.WeightedPlugin) error {
	weight := int64(plugin.GetWeight())
	if weight < 1 {
		return fmt.Errorf("score plugin %s: the weight must be at least 1", plugin.GetName())
	}
	switch plugin.GetName() {
	case fitName:
		p.fit = weight
	case balancedName:
		p.balanced = weight
	case taintsName:
		p.taints = weight
	default:
		return fmt.Errorf("score plugin %s is not part of this score phase, which has %s; disable it at score",
			plugin.GetName(), strings.Join(hosted, ", "))
	}
	return nil
}

// resourceSpec is a resource in arguments.
type resourceSpec struct {
	Name   string `json:"name"`
	Weight int64  `json:"weight"`
}

// read reads a plugin's arguments, which the frontend has checked and completed. Those of plugins that do not score are
// none of our business.
func (p *profile) read(plugin string, data []byte) (err error) {
	var args struct {
		ScoringStrategy struct {
			Type      string         `json:"type"`
			Resources []resourceSpec `json:"resources"`
		} `json:"scoringStrategy"`
		Resources []resourceSpec `json:"resources"`
	}
	scores := plugin == fitName && p.fit > 0 || plugin == balancedName && p.balanced > 0
	if !scores || len(data) == 0 {
		return nil
	}
	if err := json.Unmarshal(data, &args); err != nil {
		return err
	}
	if plugin == balancedName {
		p.balancedResources, err = scoredResources("resources", args.Resources)
		return err
	}
	switch args.ScoringStrategy.Type {
	case most:
		p.mostAllocated = true
	case least, "":
	default:
		return fmt.Errorf("scoringStrategy.type: %s is not supported by this score phase: must be %s or %s",
			args.ScoringStrategy.Type, least, most)
	}
	p.fitResources, err = scoredResources("scoringStrategy.resources", args.ScoringStrategy.Resources)
	return err
}

func scoredResources(field string, specs []resourceSpec) ([]scoredResource, error) {
	var out []scoredResource
	for i, spec := range specs {
		index := slices.Index(scorable[:], v1.ResourceName(spec.Name))
		if index < 0 {
			return nil, fmt.Errorf("%s[%d].name: %s is not supported by this score phase: must be one of %v",
				field, i, spec.Name, scorable)
		}
		out = append(out, scoredResource{index, max(spec.Weight, 1)})
	}
	return out, nil
}
