"""gRPC between the processes: servers, channels, TLS, fencing, and following the stream of deltas."""
