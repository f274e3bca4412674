module trireme.dev/noop-extender

go 1.26.0
