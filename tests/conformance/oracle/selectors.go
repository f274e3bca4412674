package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"

	resourcev1 "k8s.io/api/resource/v1"
	draapi "k8s.io/dynamic-resource-allocation/api"
	"k8s.io/dynamic-resource-allocation/cel"
)

// A selector is an expression and the device that it is asked about.
type selector struct {
	Expression string
	Device     struct {
		Driver                   string
		AllowMultipleAllocations *bool
		Attributes               map[resourcev1.QualifiedName]resourcev1.DeviceAttribute
		Capacity                 map[resourcev1.QualifiedName]resourcev1.DeviceCapacity
	}
}

// device is the device as it is in a ResourceSlice that the scheduler has read.
func (s *selector) device() (cel.Device, error) {
	stated := resourcev1.Device{
		AllowMultipleAllocations: s.Device.AllowMultipleAllocations, Attributes: s.Device.Attributes, Capacity: s.Device.Capacity,
	}
	slice := resourcev1.ResourceSlice{
		Spec: resourcev1.ResourceSliceSpec{Driver: s.Device.Driver, Devices: []resourcev1.Device{stated}},
	}
	var read draapi.ResourceSlice
	if err := draapi.Convert_v1_ResourceSlice_To_api_ResourceSlice(&slice, &read, nil); err != nil {
		return cel.Device{}, err
	}
	found := read.Spec.Devices[0]
	return cel.Device{
		Driver: s.Device.Driver, AllowMultipleAllocations: found.AllowMultipleAllocations,
		LookupUniqueString: read.LookupUniqueString, Attributes: found.Attributes, Capacity: found.Capacity,
	}, nil
}

// What kube-scheduler makes of a selector: a compiler's error, an evaluation's, or an answer.
type selected struct {
	Compile string `json:"compile,omitempty"`
	Runtime string `json:"runtime,omitempty"`
	Matches bool   `json:"matches"`
	Cost    uint64 `json:"cost"`
}

// readSelectors reads selectors as JSON, one a line, and prints what DynamicResources makes of each.
func readSelectors() error {
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	// The limits are those of the scheduler; the gates, the defaults.
	compiler := cel.NewCache(1, cel.Features{EnableConsumableCapacity: true})
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 1 {
			var asked selector
			if err := json.Unmarshal(line, &asked); err != nil {
				return err
			}
			if err := encoder.Encode(selectOne(compiler, asked)); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

func selectOne(compiler *cel.Cache, asked selector) (answer selected) {
	program := compiler.GetOrCompile(asked.Expression)
	if program.Error != nil {
		answer.Compile = program.Error.Error()
		return answer
	}
	device, err := asked.device()
	if err != nil {
		answer.Runtime = err.Error()
		return answer
	}
	matches, details, err := program.DeviceMatches(context.Background(), device)
	answer.Matches = matches
	if details != nil && details.ActualCost() != nil {
		answer.Cost = *details.ActualCost()
	}
	if err != nil {
		answer.Runtime = cel.EnhanceRuntimeError(err).Error()
	}
	return answer
}
