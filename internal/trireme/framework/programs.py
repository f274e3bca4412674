"""Names that the programs of Trireme share without importing each other.

The lines by which a process says that it serves, for which its starter waits, and the frontend's pages, which
`trireme` reads.

Also change: docs/explain.md.
Also change: docs/simulate.md.
"""

from typing import Final

#: Before the address at which a process takes calls. `grpc_server` prints it, and so do plugins of all languages.
LISTENING: Final = "listening on "
#: Before the URL of insight's HTTP API.
SERVING_HTTP: Final = "serving HTTP on "

STATUS_PATH: Final = "/trireme/v1/status"
EXPLAIN_PATH: Final = "/trireme/v1/explain"
SIMULATE_PATH: Final = "/trireme/v1/simulate"
