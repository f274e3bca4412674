// Also change: internal/trireme/sdk/handle.py (which names the other languages' files).

package trireme

import (
	"crypto/tls"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// connection leads to the scheduler. With TLS it shows the plugin's certificate, and expects one of the authority of the
// plugin's callers. Each request looks at the files: a connection that is open goes on, the next one uses what they have.
type connection struct {
	address string
	source  *certificates // nil without TLS

	mu      sync.Mutex
	channel *grpc.ClientConn
	config  *tls.Config // what the channel was made with
}

// dial returns the connection to the scheduler, or nil without an address.
func dial(options Options, source *certificates) (*connection, error) {
	if options.Scheduler == "" {
		return nil, nil
	}
	out := &connection{address: options.Scheduler}
	if options.TLS.ClientCA == "" || strings.HasPrefix(options.Scheduler, "unix:") {
		channel, err := grpc.NewClient(out.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		out.channel = channel
		return out, err
	}
	out.source = source
	_, err := out.current()
	return out, err
}

// current returns the channel for a request. One that is not connected, perhaps since the files before are refused, is
// replaced once they have changed: gRPC itself would try again with those before, after two minutes at worst.
func (c *connection) current() (*grpc.ClientConn, error) {
	if c.source == nil {
		return c.channel, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	config, err := c.source.current()
	if err != nil {
		return nil, err
	}
	if c.channel != nil && (config == c.config || c.channel.GetState() == connectivity.Ready) {
		return c.channel, nil
	}
	secure := credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: config.ClientCAs, Certificates: config.Certificates,
	})
	channel, err := grpc.NewClient(c.address, grpc.WithTransportCredentials(secure))
	if err != nil {
		return nil, err
	}
	if former := c.channel; former != nil {
		// By then its requests have ended.
		time.AfterFunc(handleTimeout, func() { _ = former.Close() })
	}
	c.channel, c.config = channel, config
	return channel, nil
}

func (c *connection) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.channel.Close()
}
