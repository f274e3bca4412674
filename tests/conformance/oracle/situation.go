package main

import (
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/component-base/featuregate"
)

// A situation is a case of the golden decisions: a cluster and a pod to place.
type situation struct {
	FitStrategy string
	// Arguments of plugins, as in a configuration file.
	PluginConfig json.RawMessage
	Nodes        []*v1.Node
	Pod          *v1.Pod
	// The pods of a group that is tried, in their order; then there is no pod alone.
	Members []*v1.Pod
	// All objects, the pods and nodes among them.
	Objects []runtime.Object
}

func parse(content json.RawMessage) (*situation, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(content, &fields); err != nil {
		return nil, err
	}
	parsed := &situation{}
	for name, value := range fields {
		var err error
		switch name {
		case "name", "focus":
		case "featureGates":
			err = checkGates(value)
		case "fitStrategy":
			err = json.Unmarshal(value, &parsed.FitStrategy)
		case "pluginConfig":
			parsed.PluginConfig = value
		case "pod":
			err = parsed.add(name, value)
		default:
			var entries []json.RawMessage
			if err = json.Unmarshal(value, &entries); err != nil {
				break
			}
			for _, entry := range entries {
				if err = parsed.add(name, entry); err != nil {
					break
				}
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if parsed.Pod == nil && parsed.Members == nil {
		return nil, fmt.Errorf("there is no pod")
	}
	return parsed, nil
}

// checkGates fails where the situation is about other feature gates than those that this process was started with.
func checkGates(content json.RawMessage) error {
	var flipped map[string]bool
	if err := json.Unmarshal(content, &flipped); err != nil {
		return err
	}
	for name, on := range flipped {
		if utilfeature.DefaultFeatureGate.Enabled(featuregate.Feature(name)) != on {
			return fmt.Errorf("%s must be %t: it is a flag of this program", name, on)
		}
	}
	return nil
}

func (s *situation) add(field string, content json.RawMessage) error {
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(content, nil, nil)
	if err != nil {
		return err
	}
	switch typed := object.(type) {
	case *v1.Node:
		s.Nodes = append(s.Nodes, typed)
	case *v1.Pod:
		switch field {
		case "pod":
			s.Pod = typed
		case "members":
			s.Members = append(s.Members, typed)
		}
	}
	s.Objects = append(s.Objects, object)
	return nil
}
