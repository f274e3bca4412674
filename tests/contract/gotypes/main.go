// Command gotypes writes what the official Kubernetes Go types make of filled objects: their protobuf bytes and their
// JSON, and what resource.Quantity makes of a table of texts. tests/contract/test_kubernetes_wire.py reads the files and
// holds the messages of protos/trireme/v1 to them, so that a wrong field number, type or JSON name cannot hide.
//
// The files are committed. To write them anew, for instance after raising the version in go.mod:
//
//	cd tests/contract/gotypes && go run . ../data/gotypes
//
// Output depends on nothing but the versions in go.mod.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
)

// object is what all generated Kubernetes types have.
type object interface{ Marshal() ([]byte, error) }

// kinds are the objects written, by name of the message that stands for them.
var kinds = map[string]func() object{
	"Pod":                   func() object { return &corev1.Pod{} },
	"Node":                  func() object { return &corev1.Node{} },
	"Namespace":             func() object { return &corev1.Namespace{} },
	"Service":               func() object { return &corev1.Service{} },
	"ReplicationController": func() object { return &corev1.ReplicationController{} },
	"PersistentVolume":      func() object { return &corev1.PersistentVolume{} },
	"PersistentVolumeClaim": func() object { return &corev1.PersistentVolumeClaim{} },
	"Binding":               func() object { return &corev1.Binding{} },
	"ReplicaSet":            func() object { return &appsv1.ReplicaSet{} },
	"StatefulSet":           func() object { return &appsv1.StatefulSet{} },
	"PodDisruptionBudget":   func() object { return &policyv1.PodDisruptionBudget{} },
	"StorageClass":          func() object { return &storagev1.StorageClass{} },
	"CSINode":               func() object { return &storagev1.CSINode{} },
	"CSIDriver":             func() object { return &storagev1.CSIDriver{} },
	"CSIStorageCapacity":    func() object { return &storagev1.CSIStorageCapacity{} },
	"VolumeAttachment":      func() object { return &storagev1.VolumeAttachment{} },
	"Lease":                 func() object { return &coordinationv1.Lease{} },
	"PriorityClass":         func() object { return &schedulingv1.PriorityClass{} },
	"PodGroup":              func() object { return &schedulingv1beta1.PodGroup{} },
	"CompositePodGroup":     func() object { return &schedulingv1alpha3.CompositePodGroup{} },
	"ResourceSlice":         func() object { return &resourcev1.ResourceSlice{} },
	"ResourceClaim":         func() object { return &resourcev1.ResourceClaim{} },
	"ResourceClaimTemplate": func() object { return &resourcev1.ResourceClaimTemplate{} },
	"DeviceClass":           func() object { return &resourcev1.DeviceClass{} },
	"DeviceTaintRule":       func() object { return &resourcev1.DeviceTaintRule{} },
}

// sample is one filled object as both encodings.
type sample struct {
	Protobuf []byte          `json:"protobuf"`
	JSON     json.RawMessage `json:"json"`
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: gotypes DIRECTORY")
	}
	directory := os.Args[1]
	if err := os.MkdirAll(directory, 0o755); err != nil {
		log.Fatal(err)
	}
	for kind, empty := range kinds {
		samples := map[string]sample{}
		for name, variant := range variants {
			filled := empty()
			fill(filled, variant)
			protobuf, err := filled.Marshal()
			if err != nil {
				log.Fatalf("%s: %v", kind, err)
			}
			text, err := json.Marshal(filled)
			if err != nil {
				log.Fatalf("%s: %v", kind, err)
			}
			samples[name] = sample{protobuf, text}
		}
		write(filepath.Join(directory, kind+".json"), samples)
	}
	writeLines(filepath.Join(directory, "quantities.jsonl"), quantities())
}

func write(path string, value any) {
	text, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		log.Fatal(err)
	}
	writeFile(path, append(text, '\n'))
}

// writeLines writes one value a line.
func writeLines[T any](path string, values []T) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	for _, value := range values {
		if err := encoder.Encode(value); err != nil {
			log.Fatal(err)
		}
	}
	writeFile(path, text.Bytes())
}

func writeFile(path string, text []byte) {
	if err := os.WriteFile(path, text, 0o644); err != nil {
		log.Fatal(err)
	}
	fmt.Println(path)
}
