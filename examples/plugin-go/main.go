// Command plugin-go serves the scheduler plugin Maintenance: a filter and a score plugin for Trireme.
//
//	plugin-go --listen 127.0.0.1:9000
//	plugin-go --listen unix:/run/maintenance.sock
package main

import trireme "trireme.dev/sdk/go"

func main() {
	trireme.Main(definition)
}
