"""The Kubernetes edge: the only code that talks HTTP to an API server.

Here alone the API's form is turned into the program's: credentials that need a program or an identity provider come
from `kubernetes.aio`; requests and watches are bytes, as its models cost milliseconds for a pod; JSON becomes messages
in `apimachinery.decode` and protobuf in `protobuf`; errors become one of three kinds, by what the caller does next.

Source: k8s.io/client-go.
"""
