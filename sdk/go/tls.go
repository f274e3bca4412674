// Also change: internal/trireme/rpc/listen_flags.py (which names the other languages' files).

package trireme

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// TLSFiles are PEM files, which are read again when they change.
type TLSFiles struct {
	// Certificate and PrivateKey are the plugin's own.
	Certificate, PrivateKey string
	// ClientCA is the authority of callers' certificates. Empty: callers need none.
	ClientCA string
	// AllowedIdentities are names of callers' certificates (DNS name, URI, common name), one of which a caller must have.
	// Every caller with a certificate of the authority may check health. Empty: any caller with such a certificate.
	AllowedIdentities []string
}

func (f TLSFiles) check() error {
	switch {
	case (f.Certificate == "") != (f.PrivateKey == ""):
		return errors.New("--tls-cert-file and --tls-private-key-file: set both or none")
	case f.Certificate == "" && f.ClientCA != "":
		return errors.New("--client-ca-file: needs --tls-cert-file")
	case f.ClientCA == "" && len(f.AllowedIdentities) > 0:
		return errors.New("--allowed-identities: needs --client-ca-file")
	}
	return nil
}

// serverOptions returns the credentials of the server.
func (c *certificates) serverOptions(network string) ([]grpc.ServerOption, error) {
	if c.files.Certificate == "" || network == "unix" {
		return nil, nil
	}
	if _, err := c.current(); err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}}
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current() }
	return []grpc.ServerOption{grpc.Creds(credentials.NewTLS(config))}, nil
}

// certificates is the server's TLS as the files have it.
type certificates struct {
	files   TLSFiles
	mu      sync.Mutex
	changed [3]stamp
	config  *tls.Config
}

// stamp is what differs when a file has been replaced.
type stamp struct {
	modified time.Time
	size     int64
}

// current reads the files if one has changed. Files that cannot be used leave in force what was, and are logged once.
func (c *certificates) current() (*tls.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var changed [3]stamp
	for i, name := range []string{c.files.Certificate, c.files.PrivateKey, c.files.ClientCA} {
		if info, err := os.Stat(name); err == nil {
			changed[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	if c.config != nil && changed == c.changed {
		return c.config, nil
	}
	config, err := c.read()
	if err != nil {
		if c.config == nil {
			return nil, err
		}
		logger().Error("changed TLS files cannot be used: those before stay in use", "error", err)
	} else {
		if c.config != nil {
			logger().Info("TLS files were read again", "certificate", c.files.Certificate)
		}
		c.config = config
		warnUnlessValid(c.files.Certificate, config.Certificates[0].Certificate[0], time.Now())
	}
	c.changed = changed
	return c.config, nil
}

func (c *certificates) read() (*tls.Config, error) {
	pair, err := c.files.readPair()
	if err != nil {
		return nil, err
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}, Certificates: []tls.Certificate{pair},
	}
	if c.files.ClientCA != "" {
		config.ClientCAs, err = readPool(c.files.ClientCA)
		if err != nil {
			return nil, fmt.Errorf("--client-ca-file: %w", err)
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return config, nil
}

// readPair reads certificate and key, and checks that they belong together.
func (f TLSFiles) readPair() (tls.Certificate, error) {
	if _, err := readPool(f.Certificate); err != nil {
		return tls.Certificate{}, fmt.Errorf("--tls-cert-file: %w", err)
	}
	key, err := os.ReadFile(f.PrivateKey)
	if err == nil && !strings.Contains(string(key), "PRIVATE KEY-----") {
		err = fmt.Errorf("%s: has no PEM private key", f.PrivateKey)
	}
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("--tls-private-key-file: %w", err)
	}
	pair, err := tls.LoadX509KeyPair(f.Certificate, f.PrivateKey)
	if err != nil {
		return pair, fmt.Errorf(
			"--tls-cert-file %s and --tls-private-key-file %s do not belong together: %w; "+
				"use the key that the certificate was issued for, without a password",
			f.Certificate, f.PrivateKey, err)
	}
	return pair, nil
}

// warnUnlessValid logs that callers refuse the certificate, if its time has passed or has not come.
func warnUnlessValid(name string, der []byte, now time.Time) {
	certificate, err := x509.ParseCertificate(der)
	switch {
	case err != nil: // LoadX509KeyPair has parsed it
	case now.After(certificate.NotAfter):
		logger().Warn("the certificate has expired: callers refuse it until the file is replaced",
			"file", name, "ended", certificate.NotAfter)
	case now.Before(certificate.NotBefore):
		logger().Warn("the certificate is not valid yet: callers refuse it until then",
			"file", name, "begins", certificate.NotBefore)
	}
}

func readPool(name string) (*x509.CertPool, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("%s: has no PEM certificate", name)
	}
	return pool, nil
}

// allow refuses callers without an allowed identity; any caller may check health.
func allow(ctx context.Context, method string, identities []string) error {
	if len(identities) == 0 || strings.HasPrefix(method, "/grpc.health.") {
		return nil
	}
	caller, ok := peer.FromContext(ctx)
	if !ok {
		return status.Error(codes.PermissionDenied, "the caller is unknown")
	}
	if caller.Addr.Network() == "unix" {
		return nil
	}
	info, ok := caller.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.PeerCertificates) == 0 {
		return status.Error(codes.PermissionDenied, "the caller has no certificate")
	}
	certificate := info.State.PeerCertificates[0]
	names := append(slices.Clone(certificate.DNSNames), certificate.Subject.CommonName)
	for _, uri := range certificate.URIs {
		names = append(names, uri.String())
	}
	if !slices.ContainsFunc(names, func(name string) bool { return name != "" && slices.Contains(identities, name) }) {
		return status.Errorf(codes.PermissionDenied, "the caller's certificate names %s: none is allowed", strings.Join(names, ", "))
	}
	return nil
}

func allowUnary(identities []string) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		if err := allow(ctx, info.FullMethod, identities); err != nil {
			return nil, err
		}
		return handle(ctx, request)
	}
}

func allowStream(identities []string) grpc.StreamServerInterceptor {
	return func(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		if err := allow(stream.Context(), info.FullMethod, identities); err != nil {
			return err
		}
		return handle(server, stream)
	}
}
