package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	trireme "trireme.dev/sdk/go"
	"trireme.dev/sdk/go/triremev1"
)

// service is a quota service: each team has so many claims.
type service struct {
	mu     sync.Mutex
	quota  map[string]int
	claims map[string]string // team by pod
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method == http.MethodDelete {
		uid := strings.TrimPrefix(r.URL.Path, "/claims/")
		if team, ok := s.claims[uid]; ok {
			delete(s.claims, uid)
			s.quota[team]++
		}
		return
	}
	var claim request
	if err := json.NewDecoder(r.Body).Decode(&claim); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if _, ok := s.claims[claim.Pod]; ok {
		return // asked before
	}
	if s.quota[claim.Team] == 0 {
		w.WriteHeader(http.StatusConflict)
		return
	}
	s.quota[claim.Team]--
	s.claims[claim.Pod] = claim.Team
}

// frontend allows pods, but not on the first request about each: it may not know yet that the pod waits.
type frontend struct {
	triremev1.UnimplementedHandleServiceServer
	mu      sync.Mutex
	early   map[string]bool
	allowed chan string
}

func (f *frontend) Allow(_ context.Context, request *triremev1.AllowRequest) (*triremev1.AllowResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	uid := request.GetPod().GetUid()
	if !f.early[uid] {
		f.early[uid] = true
		return nil, status.Error(codes.NotFound, "the pod does not wait")
	}
	f.allowed <- uid
	return &triremev1.AllowResponse{}, nil
}

// run serves the plugin beside a frontend, configured with a quota service.
func run(t *testing.T, quota map[string]int) (*service, *grpc.ClientConn, chan string) {
	t.Helper()
	folder := t.TempDir()
	listener, err := net.Listen("unix", filepath.Join(folder, "frontend.sock"))
	if err != nil {
		t.Fatal(err)
	}
	scheduler := &frontend{early: map[string]bool{}, allowed: make(chan string, 9)}
	server := grpc.NewServer()
	triremev1.RegisterHandleServiceServer(server, scheduler)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	quotas := &service{quota: quota, claims: map[string]string{}}
	http := httptest.NewServer(quotas)
	t.Cleanup(http.Close)
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan string, 1), make(chan error, 1)
	options := trireme.Options{
		Listen: "unix:" + filepath.Join(folder, "plugin.sock"), Scheduler: "unix:" + listener.Addr().String(),
		Listening: func(address string) { ready <- address },
	}
	go func() { ended <- trireme.Serve(ctx, definition, options) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	connection, err := grpc.NewClient(<-ready, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	args := []byte(`{"url": "` + http.URL + `", "pollMilliseconds": 10}`)
	answer, err := triremev1.NewPluginServiceClient(connection).Configure(ctx, &triremev1.ConfigureRequest{ArgsJson: args})
	if err != nil || len(answer.GetErrors()) > 0 {
		t.Fatal(answer, err)
	}
	return quotas, connection, scheduler.allowed
}

func cycle(team string) *triremev1.Cycle {
	labels := map[string]string{}
	if team != "" {
		labels[teamLabel] = team
	}
	return &triremev1.Cycle{Pod: &triremev1.Pod{Metadata: &triremev1.ObjectMeta{Namespace: "shop", Labels: labels}}}
}

func permit(t *testing.T, connection *grpc.ClientConn, team string, uids ...string) []triremev1.Code {
	t.Helper()
	asked := &triremev1.PermitRequest{Cycle: cycle(team)}
	for _, uid := range uids {
		asked.Items = append(asked.Items, &triremev1.BindItem{Pod: &triremev1.PodIdentity{Name: uid, Uid: uid}, NodeName: "n"})
	}
	response, err := triremev1.NewBindPluginClient(connection).Permit(context.Background(), asked)
	if err != nil {
		t.Fatal(err)
	}
	var out []triremev1.Code
	for _, result := range response.GetResults() {
		out = append(out, result.GetStatus().GetCode())
	}
	return out
}

const (
	success = triremev1.Code_CODE_SUCCESS
	wait    = triremev1.Code_CODE_WAIT
)

// A pod that is bound without quota, or never bound though quota came, makes the quota useless.
func TestAPodWaitsUntilThereIsQuota(t *testing.T) {
	_, connection, allowed := run(t, map[string]int{"a": 1})
	if got := permit(t, connection, "a", "first", "second"); !slices.Equal(got, []triremev1.Code{success, wait}) {
		t.Fatalf("permits: %v", got)
	}
	// The same call again: the quota is claimed once.
	if got := permit(t, connection, "a", "first", "second"); !slices.Equal(got, []triremev1.Code{success, wait}) {
		t.Fatalf("permits, again: %v", got)
	}
	unreserve := &triremev1.UnreserveRequest{
		Cycle: cycle("a"), Placements: []*triremev1.Placement{{Pod: &triremev1.PodIdentity{Name: "first", Uid: "first"}}},
	}
	if _, err := triremev1.NewFilterPluginClient(connection).Unreserve(context.Background(), unreserve); err != nil {
		t.Fatal(err)
	}
	if uid := <-allowed; uid != "second" {
		t.Errorf("allowed %q", uid)
	}
}

// Quota is of teams: pods of none need none.
func TestAPodWithoutATeamNeedsNoQuota(t *testing.T) {
	quotas, connection, _ := run(t, nil)
	if got := permit(t, connection, "", "any"); !slices.Equal(got, []triremev1.Code{success}) || len(quotas.claims) != 0 {
		t.Errorf("permits: %v, claims: %v", got, quotas.claims)
	}
}

// A quota service that is down must hold pods back, not let them through.
func TestPodsWaitWhileTheServiceDoesNotAnswer(t *testing.T) {
	plugin := &teamQuota{args: arguments{WaitSeconds: 1}, quotas: newQuotas("http://127.0.0.1:1")}
	granted, err := plugin.quotas.claim(context.Background(), request{})
	if granted || err == nil || !strings.Contains(err.Error(), "the quota service does not answer") {
		t.Errorf("granted %v, %v", granted, err)
	}
}

// Wrong arguments must be seen at the start, all at once.
func TestArgumentsAreChecked(t *testing.T) {
	_, err := definition.New(context.Background(), []byte(`{"url": "x", "waitSeconds": 0, "pollMilliseconds": 1}`), nil)
	var found trireme.FieldErrors
	if !errors.As(err, &found) || len(found) != 3 {
		t.Errorf("errors: %v", err)
	}
}
