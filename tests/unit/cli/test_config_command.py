"""`trireme config`: what goes to which stream, and the exit code."""

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.helpers.config_starts import HEADER
from trireme.cli.main import main
from trireme_kube.componentbase.tls import self_signed

OWN = "apiVersion: trireme.dev/v1alpha1\nkind: TriremeConfiguration\n"
POLICY = json.dumps({"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "HostName"}], "priorities": []})
MINE = "profiles: [{plugins: {score: {enabled: [{name: Mine, weight: 4}]}}}]\n"

Run = tuple[int, str, str]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with files of every kind, to be in."""
    for name, text in {
        "good": HEADER,
        "bad": f"{HEADER}parallelism: 0\npercentageOfNodesToScore: 101\n",
        "strict": f"{HEADER}one: 1\ntwo: 2\n",
        "mine": HEADER + MINE,
        "own": OWN,
        "own-bad": f"{OWN}batch: {{maxPods: 0}}\ncolumnCacheClasses: 0\n",
        "own-mine": f"{OWN}remotePlugins: [{{name: Mine, address: 'unix:/p', extensionPoints: [score]}}]\n",
        "policy": POLICY,
        "never": f"{HEADER}leaderElection: {{retryPeriod: 9s}}\n",
        "key": f'{HEADER}extenders: [{{urlPrefix: "http://x", filterVerb: f, tlsConfig: {{insecure: true, '
        "keyData: aHVzaA==}}]\n",
    }.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> Run:
    code = main(["config", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize(
    ("arguments", "code", "out", "err"),
    [
        (["good"], 0, "good: valid\n", ""),
        (["good", "own"], 0, "good: valid\nown: valid\n", ""),
        (
            ["bad"],
            1,
            "",
            "bad:3:14: parallelism: Invalid value: 0: should be an integer value greater than zero\n"
            "bad:4:27: percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]\n",
        ),
        (["strict", "good"], 1, "good: valid\n", 'strict:3:1: unknown field "one"\nstrict:4:1: unknown field "two"\n'),
        (
            ["own-bad"],
            1,
            "",
            "own-bad:3:18: batch.maxPods: Invalid value: 0: must be greater than zero\n"
            "own-bad:4:21: columnCacheClasses: Invalid value: 0: must be greater than zero\n",
        ),
        (["none"], 1, "", "none: open none: no such file or directory\n"),
        (["mine", "--trireme-config=own-mine"], 0, "mine: valid\n", ""),
        (["mine", "own-mine"], 0, "mine: valid\nown-mine: valid\n", ""),
        (
            ["never"],
            1,
            "",
            "never: couldn't create leader elector: renewDeadline must be greater than retryPeriod*JitterFactor\n",
        ),
        (["good", "--feature-gates=Bogus=true"], 1, "", "good: unrecognized feature gate: Bogus\n"),
    ],
    ids=["valid", "several", "bad", "strict", "own", "missing", "remote-plugin", "both-files", "election", "gate"],
)
def test_files_are_checked(
    files: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, out: str, err: str
) -> None:
    assert _run(capsys, "validate", *arguments) == (code, out, err)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"{OWN}batch:\n   maxPods: 1\n  linger: 2s\n", id="yaml"),
        pytest.param('{"kind": "TriremeConfiguration", "apiVersion": "trireme.dev/v1alpha1"', id="json"),
    ],
)
def test_a_file_of_ours_is_recognised_even_if_it_cannot_be_parsed(
    files: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (files / "own-broken").write_text(text)
    code, out, err = _run(capsys, "validate", "mine", "own-broken")
    assert (code, out) == (1, "")
    unchecked, broken = err.splitlines()
    assert unchecked == "mine: not checked, because own-broken cannot be used"
    assert re.match(r"own-broken:\d+:\d+: .*(yaml: line|json parse error)", broken)


def test_each_unknown_or_duplicate_field_has_a_place_of_its_own(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = "{name: InterPodAffinity, args: {\n  one: 1,\n  two: 2}}"
    (files / "args").write_text(f"{HEADER}parallelism: 1\nparallelism: 2\nprofiles: [{{pluginConfig: [{args}]}}]\n")
    where = "decoding .profiles[0].pluginConfig[0]: strict decoding error: decoding args for plugin InterPodAffinity"
    assert _run(capsys, "validate", "args")[2].splitlines() == [
        'args:4:1: yaml: line 4: key "parallelism" already set in map',
        f'args:6:3: {where}: strict decoding error: unknown field "one"',
        f'args:7:3: {where}: strict decoding error: unknown field "two"',
    ]


def test_a_problem_is_reported_in_its_own_file_only(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    election = "leaderElection: {leaderElect: false}\n"
    (files / "scheduler").write_text(HEADER + election)
    (files / "own-strict").write_text(f"{OWN}\n{election}")
    problem = 'own-strict:4:1: unknown field "leaderElection"\n'
    unchecked = "scheduler: not checked, because own-strict cannot be used\n"
    assert _run(capsys, "validate", "scheduler", "own-strict") == (1, "", unchecked + problem)
    assert _run(capsys, "validate", "scheduler", "--trireme-config=own-strict") == (1, "", problem + unchecked)
    assert _run(capsys, "validate", "own-strict", "--trireme-config=own-strict") == (1, "", problem)
    assert _run(capsys, "validate", "own", "--trireme-config=own-strict") == (1, "own: valid\n", problem)
    missing = "none: open none: no such file or directory\nscheduler: not checked, because none cannot be used\n"
    assert _run(capsys, "validate", "scheduler", "--trireme-config=none") == (1, "", missing)
    wrong_kind = _run(capsys, "validate", "scheduler", "--trireme-config=scheduler")
    assert wrong_kind[:2] == (1, "")
    assert wrong_kind[2].startswith('scheduler: no kind "KubeSchedulerConfiguration" is registered')


def test_the_files_that_a_configuration_names_are_checked(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        certificate, key = self_signed.make_certificate(name, [])
        (files / f"{name}.crt").write_bytes(certificate)
        (files / f"{name}.key").write_bytes(key)

    def tls(certificate: str, key: str, authorities: str) -> str:
        return f"{{certFile: {certificate}, keyFile: {key}, caFile: {authorities}}}"

    (files / "fits").write_text(f"{OWN}tls: {tls('a.crt', 'a.key', 'b.crt')}\n")
    assert _run(capsys, "validate", "fits") == (0, "fits: valid\n", "")
    plugin = f"name: P, address: 'unix:/p', extensionPoints: [score], tls: {tls('a.crt', 'b.key', 'a.crt')}"
    (files / "wrong").write_text(f"{OWN}tls: {tls('a.crt', 'a.key', 'a.key')}\nremotePlugins:\n- {{{plugin}}}\n")
    code, out, err = _run(capsys, "validate", "wrong")
    assert (code, out) == (1, "")
    authorities, key = err.splitlines()
    assert authorities.startswith("wrong:3:")
    assert authorities.endswith(": tls.caFile: a.key: must have a certificate in PEM")
    assert key.startswith("wrong:5:")
    assert ": remotePlugins[0].tls.keyFile: b.key: not the key of a.crt: use the key that" in key
    extender = f"{{urlPrefix: 'https://x', filterVerb: f, tlsConfig: {tls('a.crt', 'b.key', 'b.crt')}}}"
    (files / "extenders").write_text(f"{HEADER}extenders: [{extender}]\n")
    code, _, err = _run(capsys, "validate", "extenders")
    assert code == 1
    assert "extenders[0].tlsConfig.keyFile: b.key: not the key of a.crt" in err
    extender = f"{{urlPrefix: 'https://x', filterVerb: f, tlsConfig: {tls('/no/x.crt', '/no/x.key', '/no/ca.crt')}}}"
    (files / "extenders").write_text(f"{HEADER}extenders: [{extender}]\n")
    code, out, err = _run(capsys, "validate", "extenders")
    assert (code, out) == (0, "extenders: valid\n")
    assert "extenders[0].tlsConfig.keyFile: /no/x.key is not on this machine, and not checked" in err
    (files / "elsewhere").write_text(f"{OWN}tls: {tls('/no/a.crt', '/no/a.key', 'a.key')}\n")
    code, _, err = _run(capsys, "validate", "elsewhere")
    assert code == 1
    assert err.splitlines()[0] == "elsewhere: tls.certFile: /no/a.crt is not on this machine, and not checked"
    assert err.splitlines()[-1].endswith("tls.caFile: a.key: must have a certificate in PEM")


def test_an_unknown_plugin_is_invalid(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = _run(capsys, "validate", "mine")
    assert (code, 'ScorePlugin "Mine" does not exist' in err) == (1, True)


def test_an_old_file_is_invalid_and_the_message_names_convert(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = _run(capsys, "validate", "policy")
    assert (code, "`trireme config convert policy`" in err) == (1, True)


def test_nothing_is_recommended_for_an_unknown_version(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Convert knows the old versions alone."""
    text = "apiVersion: kubescheduler.config.k8s.io/v9\nkind: KubeSchedulerConfiguration\n"
    (files / "new.yaml").write_text(text)
    assert "config convert" not in str(_run(capsys, "validate", "new.yaml"))


def test_a_configuration_is_printed_with_its_defaults(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = _run(capsys, "print", "key")
    shown = yaml.safe_load(out)
    assert (code, err, shown["parallelism"]) == (0, "", 16)
    assert shown["extenders"][0]["httpTimeout"] == "5s"
    assert "aHVzaA==" not in out


def test_the_plugins_of_profiles_are_printed(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _run(capsys, "print", "mine", "--plugins", "--trireme-config", "own-mine")
    lines = [line.split(maxsplit=1) for line in out.splitlines()]
    assert (code, lines[0]) == (0, ["default-scheduler:"])
    assert dict(lines[1:])["bind"] == "DefaultBinder"
    assert dict(lines[1:])["score"].endswith("Mine (4)")


def test_a_configuration_that_cannot_be_printed_is_an_error(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = _run(capsys, "print", "strict")
    assert (code, out) == (1, "")
    assert err == 'Error: unknown field "one"\nError: unknown field "two"\n'


@pytest.mark.parametrize(
    "arguments",
    [
        ["policy", "--port=0", "-v", "2"],
        ["--policy-config-file=policy"],
        ["--policy_config_file", "policy"],
        ["--", "policy"],
    ],
    ids=" ".join,
)
def test_an_old_configuration_is_converted(
    files: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    code, out, err = _run(capsys, "convert", *arguments)
    assert (code, err) == (0, "")
    (files / "new").write_text(out)
    assert _run(capsys, "validate", "new") == (0, "new: valid\n", "")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--bogus"], "unknown flag: --bogus"),
        (["none"], "open none: no such file or directory"),
        ([], "there is nothing to convert: name a file, or give the flags of an old scheduler"),
        (["--policy-configmap=p", "--kubeconfig=none"], "ConfigMap kube-system/p: kubeconfig none: "),
    ],
    ids=["flag", "file", "nothing", "cluster"],
)
def test_a_file_that_cannot_be_converted_is_an_error(
    files: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], error: str
) -> None:
    code, out, err = _run(capsys, "convert", *arguments)
    assert (code, out) == (1, "")
    assert err.startswith(f"Error: {error}")


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_of_convert_lists_the_old_flags(capsys: pytest.CaptureFixture[str], flag: str) -> None:
    code, out, _ = _run(capsys, "convert", flag)
    assert code == 0
    assert "--policy-config-file string" in out
