// Also change: internal/trireme_kube/client/events/event_recorder.py, internal/trireme/scheduling/attempt_reporter.py,
// internal/trireme/framework/pod_conditions.py (how the scheduler's writes look).

// The limit: a compiled scheduler that decides nothing. It binds each pod to the next node and posts the Scheduled event.
//
// What it reaches is what the two requests of a pod cost on this machine and this API server, whatever one decides: the
// yardstick that the benchmark holds the others against. It looks at no resource, taint or selector, only for an empty
// spec.nodeName, and parses no more of a pod than it needs.
//
// For a pod with a priority it evicts the first pods that it bound to the next node, with all that kube-scheduler writes
// for a preemptor: event and condition of the failed attempt, mark, deletion and event of each victim. Then it binds it.
package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	workers = 32
	queue   = 200_000
	// What the pods that are evicted request, in thousandths of a CPU.
	victimCPU = 900
)

type metadata struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	UID       string `json:"uid"`
}

// object is what is read of a node or a pod.
type object struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Priority   int32 `json:"priority"`
		Containers []struct {
			Resources struct {
				Requests struct {
					CPU string `json:"cpu"`
				} `json:"requests"`
			} `json:"resources"`
		} `json:"containers"`
	} `json:"spec"`
}

func (o *object) path() string {
	return "/api/v1/namespaces/" + o.Metadata.Namespace + "/pods/" + o.Metadata.Name
}

// milliCPU is what the pod requests: whole CPUs or thousandths, as the API server writes it.
func (o *object) milliCPU() int {
	text := o.Spec.Containers[0].Resources.Requests.CPU
	if amount, ok := strings.CutSuffix(text, "m"); ok {
		number, _ := strconv.Atoi(amount)
		return number
	}
	number, _ := strconv.Atoi(text)
	return 1000 * number
}

type watchEvent struct {
	Type   string `json:"type"`
	Object object `json:"object"`
}

type limit struct {
	server, token, hostname string
	client                  *http.Client
	serial                  atomic.Int64
	pods                    chan *object
	someNodes               chan struct{}

	lock  sync.Mutex
	nodes []string
	turn  int
	bound map[string][]*object
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "file with a server, a certificate-authority and a token")
	flag.Parse()
	l := connect(*kubeconfig)
	go l.follow("/api/v1/nodes", "", func(node *object) {
		l.lock.Lock()
		defer l.lock.Unlock()
		l.nodes = append(l.nodes, node.Metadata.Name)
		if len(l.nodes) == 1 {
			close(l.someNodes)
		}
	})
	<-l.someNodes
	for range workers {
		go func() {
			for pod := range l.pods {
				l.schedule(pod)
			}
		}()
	}
	l.follow("/api/v1/pods", "fieldSelector=spec.nodeName%3D&", func(pod *object) { l.pods <- pod })
}

func connect(kubeconfig string) *limit {
	text, err := os.ReadFile(kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	field := func(name string) string {
		found := regexp.MustCompile(`(?m)^[ -]*` + name + `:\s*"?([^"\s]+)"?\s*$`).FindSubmatch(text)
		if found == nil {
			log.Fatalf("%s: no %s", kubeconfig, name)
		}
		return string(found[1])
	}
	authority, err := os.ReadFile(field("certificate-authority"))
	if err != nil {
		log.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	hostname, _ := os.Hostname()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	l := &limit{
		server:    field("server"),
		token:     field("token"),
		hostname:  hostname,
		client:    &http.Client{Transport: transport},
		pods:      make(chan *object, queue),
		someNodes: make(chan struct{}),
		bound:     map[string][]*object{},
	}
	l.serial.Store(time.Now().UnixNano())
	return l
}

// follow passes on every object that is there or appears, each once; it begins again when a watch ends.
func (l *limit) follow(path, query string, take func(*object)) {
	known := map[string]bool{}
	for {
		response := l.request("GET", path+"?"+query+"watch=1", "", nil)
		reader := bufio.NewReaderSize(response.Body, 1<<16)
		for {
			line, err := reader.ReadBytes('\n')
			if err != nil {
				break
			}
			if !bytes.HasPrefix(line, []byte(`{"type":"ADDED"`)) {
				continue
			}
			var event watchEvent
			if err := json.Unmarshal(line, &event); err != nil {
				log.Fatal(err)
			}
			if !known[event.Object.Metadata.UID] {
				known[event.Object.Metadata.UID] = true
				take(&event.Object)
			}
		}
		response.Body.Close()
	}
}

func (l *limit) schedule(pod *object) {
	l.lock.Lock()
	node := l.nodes[l.turn%len(l.nodes)]
	l.turn++
	var victims []*object
	if pod.Spec.Priority > 0 {
		count := min(pod.milliCPU()/victimCPU, len(l.bound[node]))
		victims, l.bound[node] = l.bound[node][:count], l.bound[node][count:]
	} else {
		l.bound[node] = append(l.bound[node], pod)
	}
	l.lock.Unlock()
	if pod.Spec.Priority > 0 {
		l.makeRoom(pod, node, victims)
	}
	l.write("POST", pod.path()+"/binding", "application/json", map[string]any{
		"apiVersion": "v1",
		"kind":       "Binding",
		"metadata":   pod.Metadata,
		"target":     map[string]string{"kind": "Node", "name": node},
	})
	note := fmt.Sprintf("Successfully assigned %s/%s to %s", pod.Metadata.Namespace, pod.Metadata.Name, node)
	l.postEvent(pod, "Normal", "Scheduled", "Binding", note)
}

func (l *limit) makeRoom(pod *object, node string, victims []*object) {
	note := fmt.Sprintf("0/%d nodes are available: preempting %d victims on node %s", len(l.nodes), len(victims), node)
	l.postEvent(pod, "Warning", "FailedScheduling", "Scheduling", note)
	l.patchStatus(pod, "PodScheduled", "False", "Unschedulable", note, node)
	for _, victim := range victims {
		text := "default-scheduler: preempting to accommodate a higher priority pod"
		l.patchStatus(victim, "DisruptionTarget", "True", "PreemptionByScheduler", text, "")
		l.write("DELETE", victim.path(), "", nil)
		note := fmt.Sprintf("Preempted by pod %s on node %s", pod.Metadata.UID, node)
		l.postEvent(victim, "Normal", "Preempted", "Preempting", note)
	}
}

func (l *limit) patchStatus(pod *object, kind, status, reason, message, nominatedNode string) {
	condition := map[string]any{
		"type": kind, "status": status, "reason": reason, "message": message,
		"lastTransitionTime": time.Now().UTC().Format(time.RFC3339), "lastProbeTime": nil,
	}
	patch := map[string]any{"conditions": []any{condition}}
	if nominatedNode != "" {
		patch["nominatedNodeName"] = nominatedNode
	}
	l.write("PATCH", pod.path()+"/status", "application/strategic-merge-patch+json", map[string]any{"status": patch})
}

// postEvent posts an event, field for field what kube-scheduler posts.
func (l *limit) postEvent(pod *object, kind, reason, action, note string) {
	l.write("POST", "/apis/events.k8s.io/v1/namespaces/"+pod.Metadata.Namespace+"/events", "application/json", map[string]any{
		"apiVersion":          "events.k8s.io/v1",
		"kind":                "Event",
		"metadata":            map[string]string{"name": fmt.Sprintf("%s.%x", pod.Metadata.Name, l.serial.Add(1)), "namespace": pod.Metadata.Namespace},
		"eventTime":           time.Now().UTC().Format("2006-01-02T15:04:05.000000Z07:00"),
		"reportingController": "default-scheduler",
		"reportingInstance":   "default-scheduler-" + l.hostname,
		"action":              action,
		"reason":              reason,
		"regarding": map[string]string{
			"apiVersion": "v1", "kind": "Pod",
			"name": pod.Metadata.Name, "namespace": pod.Metadata.Namespace, "uid": pod.Metadata.UID,
		},
		"note": note,
		"type": kind,
	})
}

// write sends a request whose answer is of no interest; the object may be gone or bound meanwhile.
func (l *limit) write(method, path, contentType string, body any) {
	var encoded []byte
	if body != nil {
		var err error
		if encoded, err = json.Marshal(body); err != nil {
			log.Fatal(err)
		}
	}
	response := l.request(method, path, contentType, encoded)
	io.Copy(io.Discard, response.Body)
	response.Body.Close()
}

func (l *limit) request(method, path, contentType string, body []byte) *http.Response {
	request, err := http.NewRequest(method, l.server+path, bytes.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+l.token)
	request.Header.Set("Accept-Encoding", "identity")
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := l.client.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	if response.StatusCode >= 300 && response.StatusCode != 404 && response.StatusCode != 409 {
		answer, _ := io.ReadAll(response.Body)
		log.Fatalf("%s %s: %s %s", method, path, response.Status, answer)
	}
	return response
}
