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
	"errors"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
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
	a.signUntil(t, folder, name, time.Now().Add(time.Hour))
}

// signUntil is sign for a certificate that ends then.
func (a *authority) signUntil(t *testing.T, folder, name string, ends time.Time) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a.serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name, "localhost"},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: ends,
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

// logged collects the log until the test ends.
func logged(t *testing.T) *strings.Builder {
	t.Helper()
	before, lines := slog.Default(), &strings.Builder{}
	slog.SetDefault(slog.New(slog.NewTextHandler(lines, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return lines
}

// A plugin that starts with such files would fail every handshake, and nobody would know why.
func TestAPluginDoesNotStartWithFilesThatCannotBeUsed(t *testing.T) {
	folder, ca := t.TempDir(), &authority{}
	for _, name := range []string{"ca", "one", "two"} {
		ca.sign(t, folder, name)
	}
	for name, text := range map[string]string{"empty": "", "text": "no PEM\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, each := range []struct{ certificate, key, ca, problem string }{
		{"ca.crt", "one.key", "", "--tls-cert-file DIR/ca.crt and --tls-private-key-file DIR/one.key do not belong together"},
		{"empty", "one.key", "", "--tls-cert-file: DIR/empty: has no PEM certificate"},
		{"text", "one.key", "", "--tls-cert-file: DIR/text: has no PEM certificate"},
		{"none", "one.key", "", "--tls-cert-file: open DIR/none: no such file"},
		{"one.crt", "empty", "", "--tls-private-key-file: DIR/empty: has no PEM private key"},
		{"one.crt", "one.crt", "", "--tls-private-key-file: DIR/one.crt: has no PEM private key"},
		{"one.crt", "none", "", "--tls-private-key-file: open DIR/none: no such file"},
		{"one.crt", "one.key", "empty", "--client-ca-file: DIR/empty: has no PEM certificate"},
		{"one.crt", "one.key", "text", "--client-ca-file: DIR/text: has no PEM certificate"},
		{"one.crt", "one.key", "none", "--client-ca-file: open DIR/none: no such file"},
	} {
		t.Run(each.certificate+" "+each.key+" "+each.ca, func(t *testing.T) {
			arguments := []string{
				"--tls-cert-file", filepath.Join(folder, each.certificate),
				"--tls-private-key-file", filepath.Join(folder, each.key),
			}
			if each.ca != "" {
				arguments = append(arguments, "--client-ca-file", filepath.Join(folder, each.ca))
			}
			before, stdout, stderr := slog.Default(), &strings.Builder{}, &strings.Builder{}
			code := Run(Definition{Plugin: filtering{}}, arguments, stdout, stderr)
			slog.SetDefault(before)
			problem := "Error: " + strings.ReplaceAll(each.problem, "DIR", folder)
			if code != 1 || !strings.HasPrefix(stderr.String(), problem) || stdout.Len() > 0 {
				t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
			}
		})
	}
}

// A certificate and its key are replaced one after the other.
func TestAPairThatDoesNotMatchLeavesThePairBeforeInUseUntilItMatches(t *testing.T) {
	folder, ca := t.TempDir(), &authority{}
	for _, name := range []string{"ca", "one", "two"} {
		ca.sign(t, folder, name)
	}
	files := TLSFiles{Certificate: filepath.Join(folder, "tls.crt"), PrivateKey: filepath.Join(folder, "tls.key")}
	at := time.Now()
	put := func(from, to string) {
		data, err := os.ReadFile(filepath.Join(folder, from))
		if err != nil {
			t.Fatal(err)
		}
		at = at.Add(time.Second)
		if err := errors.Join(os.WriteFile(to, data, 0o600), os.Chtimes(to, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	put("one.crt", files.Certificate)
	put("one.key", files.PrivateKey)
	lines, source := logged(t), &certificates{files: files}
	inUse := func() string {
		config, err := source.current()
		if err != nil {
			t.Fatal(err)
		}
		certificate, err := x509.ParseCertificate(config.Certificates[0].Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return certificate.Subject.CommonName
	}
	expect := func(name string, count int, text string) {
		t.Helper()
		if got := inUse(); got != name {
			t.Errorf("%s is in use, not %s", got, name)
		}
		if got := lines.String(); strings.Count(got, "\n") != count || !strings.Contains(got, text) {
			t.Errorf("logged: %s", got)
		}
	}
	expect("one", 0, "")
	put("two.crt", files.Certificate)
	expect("one", 1, files.PrivateKey+" do not belong together")
	expect("one", 1, "those before stay in use")
	put("two.key", files.PrivateKey)
	expect("two", 2, "TLS files were read again")
	if err := os.Remove(files.Certificate); err != nil {
		t.Fatal(err)
	}
	expect("two", 3, "no such file")
}

// It still serves: the certificate may be replaced, and callers say what they refuse.
func TestAnExpiredCertificateIsLogged(t *testing.T) {
	folder, ca, lines := t.TempDir(), &authority{}, logged(t)
	ca.sign(t, folder, "ca")
	ca.sign(t, folder, "valid")
	ca.signUntil(t, folder, "expired", time.Now().Add(-time.Hour))
	for name, expired := range map[string]bool{"valid": false, "expired": true} {
		lines.Reset()
		source := &certificates{files: TLSFiles{
			Certificate: filepath.Join(folder, name+".crt"), PrivateKey: filepath.Join(folder, name+".key"),
		}}
		if _, err := source.current(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if strings.Contains(lines.String(), "has expired") != expired {
			t.Errorf("%s: logged %q", name, lines)
		}
	}
}
