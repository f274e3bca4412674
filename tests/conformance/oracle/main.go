// Command oracle answers situations with Kubernetes' own scheduling framework.
//
// It reads rows of golden decisions and hints as JSON lines on stdin, `{"name", "case"}`, and prints each with what
// kube-scheduler says, `{"name", "case", "expect"}`, in the same order. A row that cannot be answered gets an `error`.
// `varies` names the fields of an answer that are left out because they are another each time; `either` has what was
// result of preemption then.
//
// `oracle kube-scheduler` is kube-scheduler itself, of the same version: one link has both.
//
// Each situation is a whole scheduler on a fake API server: its informers, cache, queue and plugins are kube-scheduler's,
// and the extension points are run as its scheduling cycle runs them, but over all nodes. Maps and lists come in
// random order there, so each situation is asked several times (-runs), and what is not the same in all is left out.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // the clients' own metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// A row is read, answered and printed.
type row struct {
	Name   string           `json:"name"`
	Case   json.RawMessage  `json:"case"`
	Expect any              `json:"expect,omitempty"`
	Varies []string         `json:"varies,omitempty"`
	Either map[string][]any `json:"either,omitempty"`
	Error  string           `json:"error,omitempty"`
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "kube-scheduler" {
		os.Args = os.Args[1:]
		os.Exit(cli.Run(app.NewSchedulerCommand()))
	}
	runs := flag.Int("runs", 4, "how often each situation is asked")
	parallel := flag.Int("parallel", 4*runtime.NumCPU(), "how many situations are asked at a time: most of the time is waiting")
	amounts := flag.Bool("quantities", false, "read quantities, as JSON strings, instead of situations")
	gates := flag.String("feature-gates", "", "as kube-scheduler's, by commas")
	expressions := flag.Bool("selectors", false, "read CEL selectors with devices, instead of situations")
	placements := flag.Bool("placements", false, "read answers of plugins about placements of groups, instead of situations")
	settings := flag.Bool("surface", false, "print what can be set of kube-scheduler, and measured of it")
	flag.Parse()
	klog.SetOutput(os.Stderr)
	klog.LogToStderr(false)
	klog.SetLogger(klog.Logger{}.V(0))
	if err := utilfeature.DefaultMutableFeatureGate.Set(*gates); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
	// Many pods may be deleted before an informer comes to look.
	watch.DefaultChanSize = 2000
	answer := func() error { return answerAll(*runs, *parallel) }
	if *amounts {
		answer = readQuantities
	}
	if *expressions {
		answer = readSelectors
	}
	if *placements {
		answer = runPlacementPlugins
	}
	if *settings {
		answer = printSurface
	}
	if err := answer(); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

// answerAll keeps the order: each line has a channel of its own, and those wait in line.
func answerAll(runs, parallel int) error {
	pending := make(chan chan row, parallel)
	go func() {
		defer close(pending)
		lines := bufio.NewReaderSize(os.Stdin, 1<<20)
		for {
			line, err := lines.ReadBytes('\n')
			if len(line) > 1 {
				answered := make(chan row, 1)
				pending <- answered
				go func() { answered <- answerLine(line, runs) }()
			}
			if err != nil {
				return
			}
		}
	}()
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for answered := range pending {
		if err := encoder.Encode(<-answered); err != nil {
			return err
		}
		// A caller that sends one row and waits for its answer must get it.
		if len(pending) == 0 {
			if err := out.Flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

func answerLine(line []byte, runs int) (answer row) {
	if err := json.Unmarshal(line, &answer); err != nil {
		return row{Error: err.Error()}
	}
	defer func() {
		if problem := recover(); problem != nil {
			answer.Expect, answer.Error = nil, fmt.Sprint(problem)
		}
	}()
	ask := func() (object, *varying, error) { return answerCase(answer.Case, runs) }
	if isGroup(answer.Case) {
		ask = func() (object, *varying, error) { return answerGroup(answer.Case, runs) }
	}
	if isHappening(answer.Case) {
		ask = func() (object, *varying, error) { return answerHint(answer.Case) }
	}
	expect, varies, err := ask()
	if err != nil {
		answer.Error = err.Error()
	} else {
		answer.Expect, answer.Varies, answer.Either = expect, sets.List(varies.names), varies.either
	}
	return answer
}
