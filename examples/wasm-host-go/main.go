// Command wasm-host-go runs a guest of kube-scheduler-wasm-extension as a plugin: its Filter and Score.
//
//	wasm-host-go GUEST.wasm NAME [--pod-fields=PATH,...] --listen 127.0.0.1:9000
//
// NAME is the plugin's name in profiles, and the paths are fields of pods that the guest reads; without them it sees what
// the built-in plugins read. Further flags are the SDK's.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	trireme "trireme.dev/sdk/go"
	"trireme.dev/sdk/go/framework"
)

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(arguments []string) int {
	if len(arguments) < 2 || strings.HasPrefix(arguments[0], "-") || strings.HasPrefix(arguments[1], "-") {
		fmt.Fprintln(os.Stderr, "usage: wasm-host-go GUEST.wasm NAME [--pod-fields=PATH,...] [--listen ADDRESS ...]")
		return 2
	}
	binary, err := os.ReadFile(arguments[0])
	if err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		return 2
	}
	ctx := context.Background()
	host, err := newHost(ctx, binary)
	if err != nil {
		fmt.Fprintf(os.Stderr, "Error: %s: %v\n", arguments[0], err)
		return 1
	}
	defer host.Close(ctx)
	if others := host.others(); len(others) > 0 {
		fmt.Fprintf(os.Stderr, "Warning: the guest also exports %s, which are not called\n", strings.Join(others, ", "))
	}
	served, rest := definition(host, arguments[1], binary), arguments[2:]
	if len(rest) > 0 {
		if paths, ok := strings.CutPrefix(rest[0], "--pod-fields="); ok {
			served.PodFields, rest = strings.Split(paths, ","), rest[1:]
		}
	}
	return trireme.Run(served, rest, os.Stdout, os.Stderr)
}

// definition is the plugin of this name. A guest sees the pod and one node, so its answers depend on these alone.
func definition(host *host, name string, binary []byte) trireme.Definition {
	hash := sha256.Sum256(binary)
	return trireme.Definition{
		New: func(ctx context.Context, args []byte, _ framework.Handle) (framework.Plugin, error) {
			config, err := guestConfig(args)
			if err != nil {
				return nil, err
			}
			return newPlugin(ctx, name, host, config)
		},
		// Another guest answers otherwise: what was cached of the one before is dropped.
		Version:   hex.EncodeToString(hash[:6]),
		DependsOn: trireme.Node,
		NodeData:  trireme.Messages,
	}
}

// guestConfig is what the guest gets by get_config: `guestConfig` of the profile's args, a string, as in the extension.
func guestConfig(args []byte) (string, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(args, &fields); err != nil {
		return "", trireme.FieldErrors{{Message: "must be an object"}}
	}
	var config string
	for field, value := range fields {
		if field != "guestConfig" {
			return "", trireme.FieldErrors{{Field: field, Message: "unknown field; allowed: guestConfig"}}
		}
		if err := json.Unmarshal(value, &config); err != nil {
			return "", trireme.FieldErrors{{Field: field, Message: "must be a string"}}
		}
	}
	return config, nil
}
