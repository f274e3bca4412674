package main

import (
	"bufio"
	"encoding/json"
	"os"

	"k8s.io/apimachinery/pkg/api/resource"
)

// What apimachinery reads in a text.
type quantity struct {
	Value int64  `json:"value"`
	Milli int64  `json:"milli"`
	Text  string `json:"text"`
	// Whether the amount is beyond 64 bits, so that the numbers above say nothing.
	Overflows bool   `json:"overflows,omitempty"`
	Error     string `json:"error,omitempty"`
}

// readQuantities reads JSON strings, one a line, and prints what each states.
func readQuantities() error {
	lines := bufio.NewScanner(os.Stdin)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	encoder := json.NewEncoder(out)
	largest := resource.MustParse("9223372036854775")
	smallest := resource.MustParse("-9223372036854775")
	for lines.Scan() {
		var text string
		if err := json.Unmarshal(lines.Bytes(), &text); err != nil {
			return err
		}
		var answer quantity
		if read, err := resource.ParseQuantity(text); err != nil {
			answer.Error = err.Error()
		} else {
			// Thousandths must fit too.
			answer.Overflows = read.Cmp(largest) > 0 || read.Cmp(smallest) < 0
			// It remembers how it was written until it is changed.
			read.Add(resource.Quantity{})
			answer.Value, answer.Milli, answer.Text = read.Value(), read.MilliValue(), read.String()
		}
		if err := encoder.Encode(answer); err != nil {
			return err
		}
	}
	return lines.Err()
}
