"""`trireme plugin verify`: its output, its exit codes and wrong usage. tests/contract verifies plugins with it."""

import argparse
import socket
from pathlib import Path
from typing import Any

import pytest

from trireme.cli import main, plugin_command
from trireme.config import remote_plugin_settings
from trireme.plugin_verification import catalogue, exchanges, latency, reports, rpcs, verification
from trireme.v1 import plugin_pb2, score_pb2


def _report(violated: str = "P093") -> dict[str, Any]:
    """The report of a plugin that violates one specification."""
    request = score_pb2.ScoreRequest(nodes={"nodes": [{"name": f"node-{at}"} for at in range(200)]})
    each = exchanges.Exchange(rpcs.SCORE, request, score_pb2.ScoreResponse(scores=[1000, 7]), None)
    results = [
        verification.Result(one, verification.Outcome.VIOLATED, "scores[0] is 1000; expected 0 to 100", each)
        if one.number == violated
        else verification.Result(one, verification.Outcome.MET)
        for one in catalogue.SPECIFICATIONS
    ]
    info = plugin_pb2.PluginInfo(name="Scorer", version="2", extension_points=[rpcs.SCORE_POINT])
    return reports.document(verification.Verification("127.0.0.1:9000", info, results))


def test_a_violation_shows_the_sentence_the_request_and_the_answer() -> None:
    """If this fails, an author sees that something is wrong, and not what."""
    lines = list(plugin_command.lines(_report()))
    text = " ".join(" ".join(lines).split())
    assert lines[0] == "Plugin Scorer 2 at 127.0.0.1:9000"
    assert "FAIL P093 Scores that are not normalised are from 0 to 100" in text
    assert 'contract: "Raw scores are from 0 to 100 with `NORMALIZATION_NONE`" (docs/protocol.md)' in text
    assert "answer: ScoreResponse{scores: 1000 scores: 7}" in text
    assert max(map(len, lines)) <= 80
    assert lines[-1] == f"{len(catalogue.SPECIFICATIONS) - 1} met, 1 violated, 0 not applicable, 0 not checked"


def test_wide_output_lists_every_specification() -> None:
    """If this fails, nobody sees what was checked."""
    text = "\n".join(plugin_command.lines(_report(), wide=True))
    assert [each.number for each in catalogue.SPECIFICATIONS if f" {each.number} " not in text] == []


def test_an_answer_that_xml_cannot_have_is_replaced() -> None:
    """If this fails, a plugin's text makes the report one that no CI system reads."""
    report = _report()
    report["specifications"][0] |= {"outcome": "violated", "text": "a\x00b"}
    assert "a\N{REPLACEMENT CHARACTER}b".encode() in reports.junit(report)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["nowhere"], "ADDRESS: 'nowhere' is neither host:port, dns:///name:port nor unix:/path"),
        (["127.0.0.1:1", "--args", "{"], "--args: must be YAML or JSON, for example {label: disktype}: "),
        (["127.0.0.1:1", "--objects", "{folder}/none.yaml"], "No such file"),
        (["127.0.0.1:1", "--objects", "{folder}/service.yaml"], "--objects: object 1: kind: 'Service' is neither"),
        (["127.0.0.1:1", "--objects", "{folder}/wrong.yaml"], "--objects: "),
        (["127.0.0.1:1", "--ca-file", "{folder}/none.pem"], "none.pem"),
    ],
    ids=["address", "args", "no-file", "another-kind", "wrong-node", "no-authority"],
)
def test_wrong_usage_is_one_line(
    flags: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If this fails, a mistake in a flag is taken for one of the plugin, or ends in a traceback."""
    (tmp_path / "service.yaml").write_text("kind: Service")
    (tmp_path / "wrong.yaml").write_text("{kind: Node, metadata: 7}")
    given = [flag.replace("{folder}", str(tmp_path)) for flag in flags]
    assert main.main(["plugin", "verify", *given]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("Error: ")
    assert message in printed.err
    assert printed.err.count("\n") == 1


def test_arguments_are_written_as_in_the_file_of_a_project() -> None:
    """If this fails, an author writes the same arguments in two ways."""
    parser = argparse.ArgumentParser()
    plugin_command.add_parser(parser.add_subparsers())
    options = parser.parse_args(["plugin", "verify", "127.0.0.1:1", "--args", "{label: disktype}"])
    assert plugin_command.make_settings(options).args_json == b'{"label":"disktype"}'


def test_each_reason_has_the_numbers_that_were_not_checked_for_it() -> None:
    """If this fails, an author reads of violations where there are none, or of one reason for all."""
    reasons = {"P092": "Score answered CODE_ERROR: no", "P095": "Score answered CODE_ERROR: no", "P110": "it fails"}
    report = _report("")
    for each in report["specifications"]:
        if each["number"] in reasons:
            each |= {"outcome": "notChecked", "text": reasons[each["number"]]}
    lines = list(plugin_command.lines(report))
    assert "Not checked: P092, P095, because Score answered CODE_ERROR: no" in lines
    assert "Not checked: P110, because it fails" in lines


@pytest.mark.parametrize("address", ["unix:{folder}/none.sock", "127.0.0.1:1"])
def test_a_plugin_that_has_not_started_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, address: str
) -> None:
    """If this fails, the author reads numbers that were not checked, or a wrong address in CI passes."""
    address = address.replace("{folder}", str(tmp_path))
    assert main.main(["plugin", "verify", address, "--latency-calls", "0"]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", f"Error: nothing listens at {address}: has the plugin started?\n")


def test_a_server_that_is_no_plugin_violates_the_handshake(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """If this fails, a wrong address in CI passes."""
    flags = ["--deadline-ms", "300", "--latency-calls", "0"]
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(f"{tmp_path}/silent.sock")
        silent.listen()
        assert main.main(["plugin", "verify", f"unix:{tmp_path}/silent.sock", *flags]) == 1
    assert "FAIL P001 GetPluginInfo is served" in capsys.readouterr().out


def test_the_latency_profile_names_the_settings_that_follow() -> None:
    """If this fails, nobody knows where the recommended deadline goes, or what holds without it."""
    slow = latency.Measurement("Score", 6, 1, 0.2, 0.3, 5.0)
    results = [verification.Result(one, verification.Outcome.MET) for one in catalogue.SPECIFICATIONS]
    profile = latency.LatencyProfile((slow,), 1500, 1)
    done = verification.Verification("127.0.0.1:9000", plugin_pb2.PluginInfo(), results, profile)
    text = " ".join(" ".join(plugin_command.lines(reports.document(done))).split())
    default = remote_plugin_settings.RemotePlugin("Any", "127.0.0.1:1", ()).deadline
    assert f"Recommended: deadline 1500ms (remotePlugins[].deadline; default {default})," in text
