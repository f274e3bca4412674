"""The bind process: the only writer of pods, bindings and claims.

It has no watch and no cache; what it knows it is told with each call or reads from the API server at that moment. It
obeys whoever reaches it, so it is fenced (`leadership`): it works for the holder of the Lease alone. The pieces:
`binding` decides, as a pure core, what follows an answer of the API server to a binding; `binder` carries that out for
many pods at once; `actions` does the other writes; `host` runs the plugins of Permit, PreBind, Bind and PostBind,
in-tree ones and remote ones; `service` is the gRPC edge, `process` the program.
"""
