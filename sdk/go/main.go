// Also change: internal/trireme/framework/programs.py (the line by which a process says that it serves).
// Also change: internal/trireme/sdk/plugin_server.py (which names the other languages' files).
// Also change: internal/trireme/sdk/logs.py (which names the other languages' files).

package trireme

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"k8s.io/klog/v2"
)

// Main serves the plugin as the flags say, until SIGTERM or SIGINT, and ends the process; --help lists the flags. An error
// is one line on stderr.
func Main(definition Definition) {
	os.Exit(Run(definition, os.Args[1:], os.Stdout, os.Stderr))
}

// Run is Main with its arguments and outputs; it returns the exit code.
func Run(definition Definition, arguments []string, stdout, stderr io.Writer) int {
	options, format, verbosity, err := parse(arguments, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return 2 // flag has printed it
	}
	if err := setLogger(format, verbosity, stderr); err != nil {
		fmt.Fprintf(stderr, "Error: %v\n", err)
		return 2
	}
	options.Listening = func(address string) { fmt.Fprintf(stdout, "listening on %s\n", address) }
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := Serve(ctx, definition, options); err != nil {
		fmt.Fprintf(stderr, "Error: %v\n", err)
		return 1
	}
	return 0
}

func parse(arguments []string, stderr io.Writer) (Options, string, int, error) {
	var options Options
	flags := flag.NewFlagSet(os.Args[0], flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&options.Listen, "listen", "127.0.0.1:0", "host:port or unix:/path to serve on")
	flags.StringVar(&options.TLS.Certificate, "tls-cert-file", "", "certificate to serve with; read again when it changes")
	flags.StringVar(&options.TLS.PrivateKey, "tls-private-key-file", "", "its private key")
	flags.StringVar(&options.TLS.ClientCA, "client-ca-file", "", "authority that callers' certificates must come from")
	identities := flags.String("allowed-identities", "", "names of callers' certificates, comma-separated")
	flags.StringVar(&options.Scheduler, "scheduler", "", "host:port of the frontend, for requests about waiting pods")
	flags.StringVar(&options.MetricsListen, "metrics-listen", "", "host:port for metrics in Prometheus' text format")
	format := flags.String("log-format", "text", "text or json")
	verbosity := flags.Int("v", 0, "log verbosity, as klog's")
	if err := flags.Parse(arguments); err != nil {
		return options, "", 0, err
	}
	if flags.NArg() > 0 {
		err := fmt.Errorf("unknown argument %q", flags.Arg(0))
		fmt.Fprintf(stderr, "Error: %v\n", err)
		return options, "", 0, err
	}
	for _, name := range strings.Split(*identities, ",") {
		if name != "" {
			options.TLS.AllowedIdentities = append(options.TLS.AllowedIdentities, name)
		}
	}
	return options, *format, *verbosity, nil
}

// setLogger has slog and klog write structured logs to stderr.
func setLogger(format string, verbosity int, stderr io.Writer) error {
	// klog's levels count upwards, slog's downwards.
	options := &slog.HandlerOptions{Level: slog.Level(-verbosity)}
	var handler slog.Handler
	switch format {
	case "text":
		handler = slog.NewTextHandler(stderr, options)
	case "json":
		handler = slog.NewJSONHandler(stderr, options)
	default:
		return fmt.Errorf("--log-format: must be text or json, not %q", format)
	}
	slog.SetDefault(slog.New(handler))
	klog.SetSlogLogger(slog.New(handler))
	return nil
}
