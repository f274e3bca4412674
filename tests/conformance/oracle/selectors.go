package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
)

// A selector is an expression and the device that it is asked about.
type selector struct {
	Expression string
	Device     cel.Device
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
	if asked.Device.Attributes == nil {
		asked.Device.Attributes = map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{}
	}
	matches, details, err := program.DeviceMatches(context.Background(), asked.Device)
	answer.Matches = matches
	if details != nil && details.ActualCost() != nil {
		answer.Cost = *details.ActualCost()
	}
	if err != nil {
		answer.Runtime = cel.EnhanceRuntimeError(err).Error()
	}
	return answer
}
