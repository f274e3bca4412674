package trireme

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"trireme.dev/sdk/go/framework"
	"trireme.dev/sdk/go/triremev1"
)

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	serial      int64
}

// sign writes NAME.crt and NAME.key into the folder; without an authority it makes one.
func (a *authority) sign(t *testing.T, folder, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a.serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name, "localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, signer := a.certificate, a.key
	if parent == nil {
		template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	if a.certificate == nil {
		a.certificate, _ = x509.ParseCertificate(der)
		a.key = key
	}
	private, _ := x509.MarshalECPrivateKey(key)
	for end, block := range map[string]*pem.Block{
		"crt": {Type: "CERTIFICATE", Bytes: der}, "key": {Type: "EC PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(filepath.Join(folder, name+"."+end), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// connect calls the address as the name's certificate says, and returns the server's certificate's serial number.
func connect(t *testing.T, folder, address, name string) (*grpc.ClientConn, func() int64) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(folder, name+".crt"), filepath.Join(folder, name+".key"))
	if err != nil {
		t.Fatal(err)
	}
	pool, err := readPool(filepath.Join(folder, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	var serial int64
	config := &tls.Config{
		Certificates: []tls.Certificate{pair}, RootCAs: pool, ServerName: "localhost",
		VerifyConnection: func(state tls.ConnectionState) error {
			serial = state.PeerCertificates[0].SerialNumber.Int64()
			return nil
		},
	}
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	return connection, func() int64 { return serial }
}

// Certificates are rotated while a plugin runs, and only the scheduler may call it.
func TestTLSFilesAreReadAgainAndCallersAreIdentified(t *testing.T) {
	folder, ca := t.TempDir(), &authority{}
	for _, name := range []string{"ca", "plugin", "filter", "stranger"} {
		ca.sign(t, folder, name)
	}
	plugin := filtering{filter: func(framework.NodeInfo, framework.CycleState) *framework.Status { return nil }}
	files := TLSFiles{
		Certificate: filepath.Join(folder, "plugin.crt"), PrivateKey: filepath.Join(folder, "plugin.key"),
		ClientCA: filepath.Join(folder, "ca.crt"), AllowedIdentities: []string{"filter"},
	}
	address := start(t, Definition{Plugin: plugin}, Options{Listen: "127.0.0.1:0", TLS: files})
	call := func(name string) (error, error, int64) {
		connection, serial := connect(t, folder, address, name)
		_, err := triremev1.NewFilterPluginClient(connection).Filter(context.Background(), request("a"))
		_, checked := healthpb.NewHealthClient(connection).Check(context.Background(), &healthpb.HealthCheckRequest{})
		return err, checked, serial()
	}
	err, checked, before := call("filter")
	if err != nil || checked != nil {
		t.Errorf("an allowed caller: %v, %v", err, checked)
	}
	if err, checked, _ := call("stranger"); status.Code(err) != codes.PermissionDenied || checked != nil {
		t.Errorf("another caller: %v, %v", err, checked)
	}
	ca.sign(t, folder, "plugin")
	later := time.Now().Add(time.Minute)
	for _, name := range []string{files.Certificate, files.PrivateKey} {
		if err := os.Chtimes(name, later, later); err != nil {
			t.Fatal(err)
		}
	}
	if err, _, after := call("filter"); err != nil || after == before {
		t.Errorf("after a rotation: %v, certificate %d, then %d", err, before, after)
	}
	if err := os.WriteFile(files.Certificate, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err, _, _ := call("filter"); err != nil {
		t.Errorf("with a file that cannot be read: %v", err)
	}
}
