"""Names that the programs of Trireme share without importing each other.

The lines by which a process says that it serves, for which its starter waits, and the frontend's pages, which
`trireme` reads.

Also change: docs/explain.md.
Also change: docs/simulate.md.
Also change: sdk/go/main.go, sdk/java/src/main/java/dev/trireme/sdk/PluginMain.java, sdk/rust/src/serving.rs,
sdk/typescript/src/main.ts, internal/trireme/sdk/plugin_server.py,
internal/trireme/rpc/grpc_server.py (the line by which a process says that it serves).
Also change: tools/bench/bind_cost.py,
examples/score-phase-go/main.go (the line by which a process says that it serves).
"""

from typing import Final

#: Before the address at which a process takes calls. `grpc_server` prints it, and so do plugins of all languages.
LISTENING: Final = "listening on "
#: Before the URL of insight's HTTP API.
SERVING_HTTP: Final = "serving HTTP on "

STATUS_PATH: Final = "/trireme/v1/status"
EXPLAIN_PATH: Final = "/trireme/v1/explain"
SIMULATE_PATH: Final = "/trireme/v1/simulate"
