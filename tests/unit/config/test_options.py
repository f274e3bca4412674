"""Settings that only flags have: metrics, logs, versions, serving. Messages are kube-scheduler's."""

from pathlib import Path

import pytest

from tests.helpers.config_starts import Desk

_METRIC = (
    "must have keys with format `metricName,labelName` where metricName matches "
    '"[a-zA-Z_:][a-zA-Z0-9_:]*" and labelName matches "[a-zA-Z_][a-zA-Z0-9_]*"'
)
_HIDDEN = "must be omitted or have the value '1.37'; only the previous minor version is allowed"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A folder with manifests of metric labels."""
    desk = Desk(tmp_path)
    desk.write("good.yaml", "'a_b,c': x,y\n'd,e': true\n'f,g': null\n")
    desk.write("key.yaml", "bad: 1\n")
    desk.write("value.yaml", "'a,b': [1]\n")
    desk.write("malformed.yaml", "[\n")
    return desk


def _error(desk: Desk, *flags: str) -> str:
    return desk.start("--kubeconfig=kubeconfig", "--secure-port=0", *flags).error


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (
            ["--allow-metric-labels-manifest=key.yaml"],
            'metrics.allowListMappingManifest: Invalid value: "key.yaml": invalid allow list mapping in manifest: '
            f'[metrics.allowListMappingManifest: Invalid value: {{"bad":"1"}}: {_METRIC}]',
        ),
        (
            ["--allow-metric-labels-manifest=value.yaml"],
            'metrics.allowListMappingManifest: Invalid value: "value.yaml": failed to parse allow list manifest: '
            "yaml: unmarshal errors:\n  line 1: cannot unmarshal !!seq into string",
        ),
        (
            ["--allow-metric-labels-manifest=malformed.yaml"],
            'metrics.allowListMappingManifest: Invalid value: "malformed.yaml": failed to parse allow list manifest: '
            "yaml: line 1: did not find expected node content",
        ),
        (
            ["--allow-metric-labels-manifest=none.yaml"],
            'metrics.allowListMappingManifest: Invalid value: "none.yaml": failed to read allow list manifest: '
            "open none.yaml: no such file or directory",
        ),
        (
            ["--allow-metric-labels-manifest=good.yaml", "--allow-metric-labels=a,b=c"],
            'metrics: Invalid value: {"allowListMapping":{"a,b":"c"},"allowListMappingManifest":"good.yaml"}: '
            "cannot specify both allowListMapping and allowListMappingManifest",
        ),
        (["--allow-metric-labels=a=b"], f'metrics.allowListMapping: Invalid value: {{"a":"b"}}: {_METRIC}'),
        (
            ["--show-hidden-metrics-for-version=1.30"],
            f'metrics.showHiddenMetricsForVersion: Invalid value: "1.30": {_HIDDEN}',
        ),
        (
            ["--disabled-metrics=a-b"],
            'metrics.disabledMetrics: Invalid value: ["a-b"]: must be fully qualified metric names matching '
            '"^[a-zA-Z_:][a-zA-Z0-9_:]*$", got "a-b"',
        ),
        (["--kube-api-qps=nan", "--write-config-to=out.yaml"], "json: unsupported value: NaN"),
        (["--emulated-version=kube=1.36,kube=1.35"], "duplicate version flag, kube=1.36 and kube=1.35"),
        (["--emulated-version=1.36.2"], "patch version not allowed, got: kube=1.36.2"),
        (
            ["--min-compatibility-version=1.30"],
            "minCompatibilityVersion version 1.30 is not between [1.35, 1.38]",
        ),
        (
            ["--feature-gates=kube:GenericWorkload=true,GenericWorkload=false"],
            "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use",
        ),
        (["--feature-gates=other:X=true"], "component not registered: other"),
        (
            ["--secure-port=70000"],
            "--secure-port 70000 must be between 1 and 65535, inclusive. It cannot be turned off with 0",
        ),
        (
            ["--allow-metric-labels=x"],
            'invalid argument "x" for "--allow-metric-labels" flag: x must be formatted as key=value',
        ),
        (
            ["--vmodule=a=x"],
            'invalid argument "a=x" for "--vmodule" flag: parsing verbosity in "a=x": strconv.ParseUint: parsing "x": '
            "invalid syntax",
        ),
        (
            ["-v=3000000000"],
            'invalid argument "3000000000" for "-v, --v" flag: strconv.ParseUint: parsing "3000000000": '
            "value out of range",
        ),
        (
            ["--kube-api-qps=1e39"],
            'invalid argument "1e39" for "--kube-api-qps" flag: strconv.ParseFloat: parsing "1e39": value out of range',
        ),
        (
            ["--tls-sni-cert-key=a,b,c"],
            'invalid argument "a,b,c" for "--tls-sni-cert-key" flag: expected comma separated certificate and key file '
            "paths",
        ),
        (
            ["--version=v1.2.3"],
            'invalid argument "v1.2.3" for "--version" flag: version "v1.2.3" must match major/minor/patch of default '
            'version "v1.38.0-beta.0"',
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_flag_that_cannot_be_used_is_refused(desk: Desk, flags: list[str], error: str) -> None:
    assert _error(desk, *flags) == error


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (["--logging-format=xml"], 'format: Invalid value: "xml": Unsupported log format'),
        (
            ["--logging-format=json", "--vmodule=a=1"],
            "vmodule: Forbidden: Only supported for text log format",
        ),
        (
            ["--logging-format=json", "--feature-gates=LoggingBetaOptions=false"],
            "format: Forbidden: Log format json is disabled, see LoggingBetaOptions feature",
        ),
        (["--log-flush-frequency=0"], 'flushFrequency: Invalid value: "0s": Must be greater than zero'),
        (
            ["--log-text-split-stream"],
            "options.text.splitStream: Forbidden: Feature LoggingAlphaOptions is disabled",
        ),
        (
            ["--log-json-info-buffer-size=1k"],
            "options.json.infoBufferSize: Forbidden: Feature LoggingAlphaOptions is disabled",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_logging_error_is_printed_to_stderr(desk: Desk, flags: list[str], error: str) -> None:
    ended = desk.start("--kubeconfig=kubeconfig", "--secure-port=0", *flags)
    assert (ended.outcome.code, ended.outcome.reported) == (1, "plain")
    assert (ended.error, ended.stderr) == (error, f"{error}\n")


def test_labels_of_metrics_come_from_flag_or_manifest(desk: Desk) -> None:
    flags = ("--kubeconfig=kubeconfig", "--secure-port=0")
    path = desk.folder / "good.yaml"
    manifest = desk.start(*flags, f"--allow-metric-labels-manifest={path}").completed.options.metrics
    assert manifest.labels() == {"a_b,c": "x,y", "d,e": "true", "f,g": ""}
    given = desk.start(*flags, '--allow-metric-labels="a,b=c,d"').completed.options.metrics
    assert given.labels() == {"a,b": "c,d"}


def test_everything_wrong_with_flags_is_reported_at_once(desk: Desk) -> None:
    error = _error(desk, "--show-hidden-metrics-for-version=x", "--disabled-metrics=a-b")
    assert error.startswith("[")
    assert ("showHiddenMetricsForVersion" in error, "disabledMetrics" in error) == (True, True)


def test_an_error_of_several_lines_is_a_block_in_the_log(desk: Desk) -> None:
    ended = desk.start("--kubeconfig=kubeconfig", "--secure-port=0", "--allow-metric-labels-manifest=value.yaml")
    first, *rest = ended.logs[-1].split("\n")
    assert first == 'E "command failed" err=<'
    assert (rest[1], rest[-1]) == ("\t  line 1: cannot unmarshal !!seq into string", " >")
