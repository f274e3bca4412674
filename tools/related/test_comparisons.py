"""The rules of what is compared with recordings are complete, as far as the messages in code and recordings tell."""

import ast
import fnmatch
import functools
import gzip
import pathlib
import re

import pytest

from tools.related import comparisons
from tools.related.repository import Repository

ROOT = pathlib.Path(__file__).parents[2]
#: The recordings, and for each a test that reads it.
RECORDINGS = {
    "tests/conformance/data/config.jsonl.gz": "tests/conformance/test_config_golden.py",
    "tests/conformance/data/config_refusals.jsonl.gz": "tests/conformance/test_config_golden.py",
    "tests/conformance/data/flags.jsonl.gz": "tests/conformance/test_config_golden.py",
    "tests/conformance/data/found_config.jsonl": "tests/conformance/test_config_golden.py",
    "tests/conformance/data/decisions.jsonl.gz": "tests/conformance/test_decisions.py",
    "tests/conformance/data/decisions-gates.jsonl.gz": "tests/conformance/test_decisions.py",
    "tests/conformance/data/found.jsonl": "tests/conformance/test_decisions.py",
    "tests/conformance/data/group_claims.jsonl.gz": "tests/conformance/test_group_claims.py",
    "tests/conformance/data/hints.jsonl.gz": "tests/conformance/test_hint_rows.py",
    "tests/conformance/data/selectors.jsonl": "tests/conformance/test_selectors.py",
    "tests/contract/data/surface_http.json.gz": "tests/contract/test_serving_http.py",
    "tests/contract/data/surface_metrics.json.gz": "tests/contract/test_serving_metrics.py",
}
#: Where a message that a recording has is one of another program, or of our own.
_OTHERS = re.compile(
    r"internal/(?:trireme/(?:v1|plugin_verification|bind|cli|insight|remote)/|trireme_kube/(?:embedded|client/rest)/)"
)
#: Texts that code and recordings have by chance.
_CHANCE = {"value out of range", " was not created for ", "scheduler_preemption_goroutines_duration_seconds"}
#: A message of four words or more, or the name of a metric.
_MESSAGE = re.compile(r"(?:\S+ ){3,}\S+|scheduler_\w+")


@functools.cache
def _texts_of(recording: str) -> str:
    """The different texts that a recording has, without the quotes in them."""
    content = (ROOT / recording).read_bytes()
    text = (gzip.decompress(content) if recording.endswith(".gz") else content).decode()
    return "\n".join({each.replace("\\", "") for each in re.findall(r'"((?:[^"\\]|\\.)*)"', text)})


def _messages(source: str) -> set[str]:
    """The messages in a module, but for documentation."""
    constants = (node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
    return {each for each in constants if isinstance(each, str) and "\n" not in each and _MESSAGE.search(each)}


def test_each_recording_has_a_test_that_the_rules_name() -> None:
    paths = Repository(ROOT).paths
    of_data = re.compile(r"tests/(?:conformance|contract)/data/[^/]+\.jsonl?(?:\.gz)?")
    found = filter(of_data.fullmatch, paths)
    readable = {"tests/contract/data/reason_codes.json"}
    assert {*found} - readable == RECORDINGS.keys()
    assert {*RECORDINGS.values()} <= {test for _, tests, _ in comparisons.RULES for test in tests}


def test_rules_name_files_that_there_are() -> None:
    paths = Repository(ROOT).paths
    assert [rule for rule, *_ in comparisons.RULES if not fnmatch.filter(paths, f"internal/{rule}")] == []
    assert {test for _, tests, _ in comparisons.RULES for test in tests} <= {*paths}


@pytest.mark.slow
def test_a_module_that_states_a_recorded_message_is_named_with_the_test_that_compares_it() -> None:
    """If this fails, who changes the message is not told: add a rule, or the file to an existing one."""
    texts = Repository(ROOT).texts
    missing = []
    for path in fnmatch.filter(texts, "internal/*.py"):
        messages = set() if _OTHERS.match(path) else _messages(texts[path]) - _CHANCE
        named = {test for test, _ in comparisons.comparing(path)}
        for recording, test in RECORDINGS.items():
            if test not in named:
                missing += [(path, recording, each) for each in messages if each in _texts_of(recording)]
    assert missing == []
