package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	trireme "trireme.dev/sdk/go"
	"trireme.dev/sdk/go/framework"
)

var pod = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"}}

func node(name string) framework.NodeInfo {
	labels := map[string]string{"zone": "a"}
	return trireme.NewNodeInfo(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
}

// testGuest is the host of testguest, which is built once.
var testGuest = sync.OnceValues(func() (*host, error) {
	folder, err := os.MkdirTemp("", "testguest")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "testguest.wasm")
	build := exec.Command("go", "build", "-buildmode=c-shared", "-o", file, "./testguest")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return nil, err
	}
	binary, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return newHost(context.Background(), binary)
})

// made is the plugin with these arguments.
func made(t *testing.T, args string) framework.Plugin {
	t.Helper()
	host, err := testGuest()
	if err != nil {
		t.Fatal(err)
	}
	plugin, err := definition(host, "Guest", []byte("guest")).New(context.Background(), []byte(args), nil)
	if err != nil {
		t.Fatal(err)
	}
	return plugin
}

// The guest's decisions arrive, with the words that a user sees.
func TestFilterAndScoreAreTheGuests(t *testing.T) {
	ctx, plugin := context.Background(), made(t, `{"guestConfig": "closed"}`)
	filter, score := plugin.(framework.FilterPlugin), plugin.(framework.ScorePlugin)
	if status := filter.Filter(ctx, nil, pod, node("open")); !status.IsSuccess() {
		t.Errorf("an open node: %v", status)
	}
	status := filter.Filter(ctx, nil, pod, node("closed"))
	if status.Code() != framework.Unschedulable || status.Message() != "node closed is closed" {
		t.Errorf("a closed node: %v %q", status.Code(), status.Message())
	}
	for name, expected := range map[string]int64{"n": 1, "node-10": 7} {
		if found, status := score.Score(ctx, nil, pod, node(name)); found != expected || !status.IsSuccess() {
			t.Errorf("%s has the score %d, %v", name, found, status)
		}
	}
}

// Concurrent calls share no memory, and answer about their own nodes.
func TestCallsAtOnceHaveGuestsOfTheirOwn(t *testing.T) {
	score := made(t, `{}`).(framework.ScorePlugin)
	var calls sync.WaitGroup
	for number := range 64 {
		calls.Go(func() {
			name := strings.Repeat("n", number+1)
			if found, _ := score.Score(context.Background(), nil, pod, node(name)); found != int64(number+1) {
				t.Errorf("%s has the score %d", name, found)
			}
		})
	}
	calls.Wait()
}

// A guest that fails is replaced: the plugin lives on, and no call uses the failed guest's memory.
func TestAGuestThatFailsIsAnErrorAndIsReplaced(t *testing.T) {
	ctx, plugin := context.Background(), made(t, `{"guestConfig": "panic"}`)
	status := plugin.(framework.FilterPlugin).Filter(ctx, nil, pod, node("n"))
	if status.Code() != framework.Error || !strings.Contains(status.Message(), "the guest's filter") {
		t.Errorf("%v %q", status.Code(), status.Message())
	}
	if found, status := plugin.(framework.ScorePlugin).Score(ctx, nil, pod, node("n")); found != 1 {
		t.Errorf("after it: %d, %v", found, status)
	}
}

// A mistake is an error, not pods that are scheduled as if there were no guest.
func TestWhatCannotRunIsRefused(t *testing.T) {
	ctx := context.Background()
	if _, err := newHost(ctx, []byte("no module")); err == nil {
		t.Error("bytes that are no module are taken")
	}
	empty := []byte{0, 'a', 's', 'm', 1, 0, 0, 0}
	if _, err := newHost(ctx, empty); err == nil || !strings.Contains(err.Error(), "neither filter nor score") {
		t.Errorf("a module without functions: %v", err)
	}
	host, err := testGuest()
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{`[]`, `{"guestConfig": 1}`, `{"guest": "x"}`} {
		if _, err := definition(host, "Guest", nil).New(ctx, []byte(args), nil); err == nil {
			t.Errorf("arguments %s are taken", args)
		}
	}
}
