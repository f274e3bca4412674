package trireme

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"

	"trireme.dev/sdk/go/triremev1"
)

// frontend allows every pod.
type frontend struct {
	triremev1.UnimplementedHandleServiceServer
}

func (frontend) Allow(context.Context, *triremev1.AllowRequest) (*triremev1.AllowResponse, error) {
	return &triremev1.AllowResponse{}, nil
}

// frontendOf serves with the folder's certificate to callers with one of the folder's authority.
func frontendOf(t *testing.T, folder, address string) (string, *grpc.Server) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	pool, err := readPool(filepath.Join(folder, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	})))
	triremev1.RegisterHandleServiceServer(server, frontend{})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return strings.Replace(listener.Addr().String(), "127.0.0.1", "localhost", 1), server
}

// replaced are the files of a plugin, which others replace.
type replaced struct {
	folder string
	at     time.Time
}

// put copies files, with a time that no copy before has.
func (r *replaced) put(t *testing.T, from string, names ...string) {
	t.Helper()
	r.at = r.at.Add(time.Second)
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(from, name))
		to := filepath.Join(r.folder, name)
		if err := errors.Join(err, os.WriteFile(to, data, 0o600), os.Chtimes(to, r.at, r.at)); err != nil {
			t.Fatal(err)
		}
	}
}

// dial returns a connection with the files, which ends with the test.
func (r *replaced) dial(t *testing.T, address string) *connection {
	t.Helper()
	files := TLSFiles{
		Certificate: filepath.Join(r.folder, "tls.crt"), PrivateKey: filepath.Join(r.folder, "tls.key"),
		ClientCA: filepath.Join(r.folder, "ca.crt"),
	}
	connection, err := dial(Options{Scheduler: address, TLS: files}, &certificates{files: files})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(connection.close)
	return connection
}

// authorities returns two folders, each with an authority and a pair by it, and the files of a plugin.
func authorities(t *testing.T) (string, string, *replaced) {
	t.Helper()
	one, two := t.TempDir(), t.TempDir()
	for _, folder := range []string{one, two} {
		ca := &authority{}
		ca.sign(t, folder, "ca")
		ca.sign(t, folder, "tls")
	}
	return one, two, &replaced{folder: t.TempDir(), at: time.Now()}
}

// A plugin that runs for longer than its certificate must still let pods go.
func TestTheSchedulerIsCalledWithTheFilesAsTheyAreNow(t *testing.T) {
	before, after, used := authorities(t)
	used.put(t, before, "ca.crt", "tls.crt", "tls.key")
	address, server := frontendOf(t, before, "127.0.0.1:0")
	lines := logged(t)
	connection := used.dial(t, address)
	scheduler := newScheduler(context.Background(), connection)
	allow := func() bool {
		return scheduler.request("Allow", func(ctx context.Context, client triremev1.HandleServiceClient) error {
			_, err := client.Allow(ctx, &triremev1.AllowRequest{Plugin: "P"})
			return err
		})
	}
	expect := func(when string, allowed bool, channel *grpc.ClientConn) {
		t.Helper()
		if got := allow(); got != allowed {
			t.Errorf("%s: %t; logged: %s", when, got, lines)
		}
		if channel != nil && connection.channel != channel {
			t.Errorf("%s: another connection is used", when)
		}
	}
	expect("at first", true, nil)
	first := connection.channel
	used.put(t, after, "tls.crt")
	expect("with the key of another certificate", true, first)
	expect("and again", true, first)
	if got := strings.Count(lines.String(), "those before stay in use"); got != 1 {
		t.Errorf("logged %d times: %s", got, lines)
	}
	used.put(t, after, "ca.crt", "tls.key")
	expect("over the open connection", true, first)
	server.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if !first.WaitForStateChange(ctx, connectivity.Ready) {
		t.Fatal("the connection goes on without its server")
	}
	frontendOf(t, after, strings.Replace(address, "localhost", "127.0.0.1", 1))
	expect("with a new authority, certificate and key", true, nil)
	if connection.channel == first {
		t.Error("the connection before is used")
	}
}

// Also a connection that the scheduler refuses, for which gRPC waits before it tries again.
func TestChangedFilesAreUsedAtOnceAfterConnectionsThatWereRefused(t *testing.T) {
	right, other, used := authorities(t)
	address, _ := frontendOf(t, right, "127.0.0.1:0")
	used.put(t, other, "ca.crt", "tls.crt", "tls.key")
	connection := used.dial(t, address)
	allow := func() error {
		channel, err := connection.current()
		if err != nil {
			t.Fatal(err)
		}
		_, err = triremev1.NewHandleServiceClient(channel).Allow(context.Background(), &triremev1.AllowRequest{})
		return err
	}
	for range 3 {
		if allow() == nil {
			t.Fatal("a scheduler of another authority is trusted")
		}
	}
	used.put(t, right, "ca.crt", "tls.crt", "tls.key")
	if err := allow(); err != nil {
		t.Error(err)
	}
}
