"""The rule as an HTTP extender of kube-scheduler: `python extender.py PORT`, with filterVerb and prioritizeVerb.

extenders:
  - {urlPrefix: "http://127.0.0.1:PORT", filterVerb: filter, prioritizeVerb: prioritize, weight: 2}

Also change: docs/extenders.md.
Also change: docs/moving-to-plugins.md.
"""

import json
import sys
from http import server
from typing import Any

import racks


class Extender(server.BaseHTTPRequestHandler):
    """Answers one request about all nodes."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Filter or prioritize, by the path."""
        args = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        nodes = args["nodes"]["items"]
        body = json.dumps(_filter(nodes) if self.path.endswith("filter") else _prioritize(nodes)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Nothing is logged."""


def _filter(nodes: list[Any]) -> dict[str, Any]:
    """ExtenderFilterResult: the nodes that pass, and why the others do not."""
    refusals = {node["metadata"]["name"]: racks.refusal(node["metadata"].get("labels", {})) for node in nodes}
    return {
        "nodes": {"items": [node for node in nodes if not refusals[node["metadata"]["name"]]]},
        "failedAndUnresolvableNodes": {name: text for name, text in refusals.items() if text},
    }


def _prioritize(nodes: list[Any]) -> list[dict[str, Any]]:
    """HostPriorityList: 0 to 10 for each node."""
    metadata = [node["metadata"] for node in nodes]
    return [{"host": each["name"], "score": racks.free_kilowatts(each.get("labels", {}))} for each in metadata]


if __name__ == "__main__":
    with server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Extender) as serving:
        print(f"listening on 127.0.0.1:{serving.server_address[1]}", flush=True)
        serving.serve_forever()
