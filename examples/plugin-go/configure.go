package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"trireme.dev/examples/plugin-go/triremev1"
)

// Several schedulers may use one plugin, and each has its own configuration; the oldest is forgotten first.
const maxConfigurations = 32

// A label's key.
var labelKey = regexp.MustCompile(`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)

// configurations holds the label of nodes under maintenance for each configuration and profile.
type configurations struct {
	mutex  sync.RWMutex
	hashes []uint64
	labels map[uint64]map[string]string
}

func (c *configurations) set(hash uint64, profile, label string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.labels == nil {
		c.labels = map[uint64]map[string]string{}
	}
	if c.labels[hash] == nil {
		c.labels[hash] = map[string]string{}
		c.hashes = append(c.hashes, hash)
		if len(c.hashes) > maxConfigurations {
			delete(c.labels, c.hashes[0])
			c.hashes = c.hashes[1:]
		}
	}
	c.labels[hash][profile] = label
}

// get returns the label for the call's configuration and profile. Where that did not come yet, the caller is told so by
// the reason, and brings it.
func (c *configurations) get(ctx context.Context, cycle *triremev1.Cycle) (string, error) {
	c.mutex.RLock()
	label, found := c.labels[cycle.GetConfigHash()][cycle.GetProfile()]
	c.mutex.RUnlock()
	if found {
		return label, nil
	}
	// An error means that this is no gRPC call; then there is nobody to tell.
	_ = grpc.SetTrailer(ctx, metadata.Pairs("trireme-reason", "config-mismatch"))
	return "", status.Error(codes.FailedPrecondition, "cycle.config_hash: this configuration did not come")
}

// parseArguments returns the label of nodes under maintenance, or everything that is wrong with the arguments.
func parseArguments(data []byte) (string, []*triremev1.FieldError) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return "", []*triremev1.FieldError{{Field: "args", Message: fmt.Sprintf("must be an object: %v", err)}}
	}
	var errors []*triremev1.FieldError
	label := maintenanceLabel
	for name, value := range fields {
		if name != "maintenanceLabel" {
			errors = append(errors, &triremev1.FieldError{Field: "args." + name, Message: "unknown field"})
			continue
		}
		decoder := json.NewDecoder(bytes.NewReader(value))
		if err := decoder.Decode(&label); err != nil || !labelKey.MatchString(label) {
			errors = append(errors, &triremev1.FieldError{
				Field: "args.maintenanceLabel", Message: "must be the key of a label",
			})
		}
	}
	return label, errors
}
