"""The Kubernetes edge: the only code that talks HTTP to an API server.

Everything that crosses it is turned into the program's own terms here and nowhere else: credentials that somebody must
be asked for come from `kubernetes.aio`, requests and watches are bytes (its models cost milliseconds a pod), JSON
becomes messages in `apimachinery.decode` and protobuf in `protobuf`, and errors become one of three kinds that say what
the caller does next.

Source: k8s.io/client-go.
"""
