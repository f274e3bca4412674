// Command node is what runs on a node of a Kubernetes cluster, in one binary: kubelet and kube-proxy, unchanged. The
// first argument picks the program, the rest are its own flags. Apart from controlplane, which most users of it need
// without a node; both are built from the same versions.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // the clients' own metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// Constructors, not commands: each one registers flags and feature gates, and only the chosen program's should.
var programs = map[string]func() *cobra.Command{
	"kubelet":    func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
	"kube-proxy": proxy.NewProxyCommand,
}

func main() {
	if len(os.Args) < 2 || programs[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: node kubelet|kube-proxy [flags]")
		os.Exit(2)
	}
	os.Args = os.Args[1:] // each program reads os.Args as if it had been started under its own name
	os.Exit(cli.Run(programs[os.Args[0]]()))
}
