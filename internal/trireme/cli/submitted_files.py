"""Files with manifests, as `kubectl apply` takes them: YAML of one document or several, or JSON.

Problems have line and column, the document's number and kind, the field, and what to do. The checks are those that
insight makes, before it is called.

Tests: tests/unit/cli/test_submitted_files.py.
"""

import copy
from typing import Any

from trireme.cli import scenario_file
from trireme.simulation.submission import documents
from trireme_kube.apimachinery import yaml_stream

_OUR_GROUP = "trireme.dev/"


def parse(data: bytes, name: str, namespace: str) -> dict[str, Any]:
    """The scenario of the file: as a Scenario says it, or submitting its manifests. Raises: ScenarioFileError."""
    scenario_file.check_size(data, name)
    try:
        found = yaml_stream.read_all(data)
    except yaml_stream.MalformedStreamError as error:
        raise scenario_file.ScenarioFileError(f"{name}:{error}") from error
    nodes, contents = [node for node, _ in found], [manifest for _, manifest in found]
    if any(str(each.get("apiVersion", "")).startswith(_OUR_GROUP) for each in contents):
        if len(nodes) > 1:
            raise scenario_file.ScenarioFileError(f"{name}: a Scenario must be the only document of its file")
        return scenario_file.parse(data, name)
    if not nodes:
        raise scenario_file.ScenarioFileError(f"{name}: has no manifest: give one as `kubectl apply` takes it")
    problems = scenario_file.Problems(name)
    try:
        documents.read(copy.deepcopy(contents), namespace)  # which fills in defaults
    except documents.DocumentError as error:
        for problem in error.problems:
            node = nodes[min(problem.number, len(nodes)) - 1]
            problems.add(scenario_file.node_at(node, problem.path), str(problem))
    problems.raise_if_any()
    return {"manifests": contents, "namespace": namespace}
