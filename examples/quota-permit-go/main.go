// Command quota-permit-go serves the scheduler plugin TeamQuota: a pod waits, with its node reserved, until a quota
// service grants what its team asks for.
//
//	quota-permit-go --listen 127.0.0.1:9000 --scheduler 127.0.0.1:10270
package main

import trireme "trireme.dev/sdk/go"

func main() {
	trireme.Main(definition)
}
