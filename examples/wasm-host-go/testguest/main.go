//go:build wasip1

// Command testguest is a guest of kube-scheduler-wasm-extension, written against its ABI, for the tests.
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o testguest.wasm ./testguest
//
// Filter refuses the node that the configuration names, and Score prefers the nodes whose name is longer.
package main

import "unsafe"

//go:wasmimport k8s.io/scheduler get_config
func getConfig(buffer unsafe.Pointer, limit uint32) uint32

//go:wasmimport k8s.io/scheduler currentNodeName
func currentNodeName(buffer unsafe.Pointer, limit uint32) uint32

//go:wasmimport k8s.io/scheduler currentPod
func currentPod(buffer unsafe.Pointer, limit uint32) uint32

//go:wasmimport k8s.io/api node
func node(name unsafe.Pointer, nameLength uint32, buffer unsafe.Pointer, limit uint32) uint32

//go:wasmimport k8s.io/scheduler result.status_reason
func statusReason(buffer unsafe.Pointer, length uint32)

const unschedulable = 2

// read calls a host function with a buffer that is large enough.
func read(function func(unsafe.Pointer, uint32) uint32) string {
	buffer := make([]byte, 1)
	for {
		length := function(unsafe.Pointer(&buffer[0]), uint32(len(buffer)))
		if int(length) <= len(buffer) {
			return string(buffer[:length])
		}
		buffer = make([]byte, length)
	}
}

//go:wasmexport prefilter
func prefilter() uint32 {
	if read(currentPod) == "" {
		panic("there is no pod")
	}
	return 0
}

//go:wasmexport filter
func filter() uint32 {
	name := read(currentNodeName)
	object := read(func(buffer unsafe.Pointer, limit uint32) uint32 {
		bytes := []byte(name)
		return node(unsafe.Pointer(&bytes[0]), uint32(len(bytes)), buffer, limit)
	})
	if len(object) <= len(name) {
		panic("the node has no more than its name")
	}
	config := read(getConfig)
	if config == "panic" {
		panic("as it is configured")
	}
	if config != name {
		return 0
	}
	reason := []byte("node " + name + " is closed")
	statusReason(unsafe.Pointer(&reason[0]), uint32(len(reason)))
	return unschedulable
}

//go:wasmexport score
func score() uint64 {
	return uint64(len(read(currentNodeName))) << 32
}

func main() {}
