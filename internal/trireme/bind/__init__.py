"""The bind process: the only writer of pods, bindings and claims.

It has no watch and no cache: what it needs comes with each call, or it reads it from the API server at that moment. It
executes the requests of any caller, so it is fenced (`leadership`): it works for the holder of the Lease alone. The
parts: `binding_retries` decides, as a pure core, what follows each response of the API server to a binding;
`binding_writer` executes that for many pods concurrently; `action_executor` does the other writes; `profile_plugins`
calls the in-tree and remote plugins of Permit, PreBind, Bind and PostBind; `service` is the gRPC edge, `process` the
program.
"""
