// Package sige2e is Kubernetes' own end-to-end tests of scheduling, with nodes and kubelets played by the suite itself.
// Separate from test/e2e of Kubernetes because that links every special interest group's tests, and needs real nodes.
package sige2e

import (
	"context"
	"flag"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/testinit"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	"k8s.io/kubernetes/test/e2e/framework/testfiles"
	manifests "k8s.io/kubernetes/test/e2e/testing-manifests"

	_ "k8s.io/kubernetes/test/e2e/dra"
	_ "k8s.io/kubernetes/test/e2e/feature"
	_ "k8s.io/kubernetes/test/e2e/framework/debug/init"
	_ "k8s.io/kubernetes/test/e2e/framework/node/init"
	_ "k8s.io/kubernetes/test/e2e/scheduling"
)

var nodes = flag.Int("simulated-nodes", 4, "how many nodes to play the kubelets of")

func TestMain(m *testing.M) {
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse()
	testfiles.AddFileSource(manifests.GetE2ETestingManifestsFS())
	framework.AfterReadingAllFlags(&framework.TestContext)
	os.Exit(m.Run())
}

var client kubernetes.Interface

var _ = ginkgo.BeforeSuite(func(ctx context.Context) {
	var err error
	client, err = framework.LoadClientset()
	framework.ExpectNoError(err)
	// Who asks for at least two nodes asks this.
	framework.TestContext.CloudConfig.NumNodes = *nodes
	// The context given ends with this function; the kubelets end with the suite.
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ginkgo.DeferCleanup(cancel)
	framework.ExpectNoError(startKubelets(lasting, client, *nodes))
})

// The framework deletes a test's namespace without waiting, and what is left of it takes room on the nodes: on a slow
// machine the next test would find another cluster than it was written for.
var _ = ginkgo.BeforeEach(func(ctx context.Context) {
	err := wait.PollUntilContextTimeout(ctx, poll, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		namespaces, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		ending := func(namespace v1.Namespace) bool { return namespace.Status.Phase == v1.NamespaceTerminating }
		return !slices.ContainsFunc(namespaces.Items, ending), nil
	})
	framework.ExpectNoError(err, "waiting for the namespaces of earlier tests to be gone")
})

func TestE2E(t *testing.T) {
	logs.InitLogs()
	defer logs.FlushLogs()
	gomega.RegisterFailHandler(framework.Fail)
	suite, reporter := framework.CreateGinkgoConfig()
	ginkgo.RunSpecs(t, "Kubernetes' end-to-end tests of scheduling", suite, reporter)
}
