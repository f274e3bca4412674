// Program dashboardcheck reads dashboards by Grafana's published schema, and prints what it refuses.
package main

import (
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

func main() {
	plugins.RegisterDefaultPlugins()
	code := 0
	for _, path := range os.Args[1:] {
		if err := check(path); err != nil {
			fmt.Printf("%s: %v\n", path, err)
			code = 1
		}
	}
	os.Exit(code)
}

// check returns what the schema does not have, or has otherwise.
func check(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var read dashboard.Dashboard
	// An empty list of errors is no nil.
	if err := read.UnmarshalJSONStrict(raw); err != nil && err.Error() != "" {
		return err
	}
	if err := read.Validate(); err != nil && err.Error() != "" {
		return err
	}
	return nil
}
