"""gRPC between the processes: servers, channels, TLS, fencing, following the snapshot stream, ending with a parent."""
