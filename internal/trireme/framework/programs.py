"""What the programs of Trireme know of each other without importing each other.

The lines by which a process says that it serves, for which those wait that started it, and the frontend's pages, which
`trireme` reads.
"""

from typing import Final

#: Before the address at which a process takes calls. `grpc_server` prints it, and so do plugins of all languages.
LISTENING: Final = "listening on "
#: Before the URL of insight's HTTP API.
SERVING_HTTP: Final = "serving HTTP on "

STATUS_PATH: Final = "/trireme/v1/status"
EXPLAIN_PATH: Final = "/trireme/v1/explain"
SIMULATE_PATH: Final = "/trireme/v1/simulate"
