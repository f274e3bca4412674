"""The flags of metrics and logs, and their rules.

Source: k8s.io/component-base/metrics, k8s.io/component-base/logs.

Also change: docs/deployment.md.
Also change: docs/versioning.md.

Tests: tests/unit/config/test_options.py.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from trireme.config.gates import FeatureGates
from trireme_kube.apimachinery import yaml_document
from trireme_kube.apimachinery.configuration_files import ConfigurationError, read_file
from trireme_kube.apimachinery.field_errors import child, forbidden, invalid
from trireme_kube.apimachinery.golang import SECOND, Duration, quote
from trireme_kube.apimachinery.quantity import Quantity
from trireme_kube.componentbase.cli import flag_values as kinds
from trireme_kube.componentbase.cli import versions
from trireme_kube.componentbase.cli.flag_declarations import Declared
from trireme_kube.componentbase.cli.flag_values import VModule

Log = Callable[[str], None]

_METRIC_NAME = "[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL_NAME = "[a-zA-Z_][a-zA-Z0-9_]*"


_HIDDEN_METRICS = {"scheduler_preemption_goroutines_duration_seconds": "SchedulerAsyncPreemption"}
"""Metrics that kube-scheduler v1.38 hides by default, and the gate that each needs."""


@dataclass(frozen=True, slots=True)
class MetricsOptions:
    """Which metrics are served, and the values that labels may have."""

    show_hidden_for_version: Annotated[
        str,
        Declared(
            "show-hidden-metrics-for-version",
            "Show what that version deprecated; only the previous minor version is taken, as in '1.37'.",
        ),
    ] = ""
    disabled: Annotated[tuple[str, ...], Declared("disabled-metrics", "Full names of metrics to switch off.")] = ()
    allowed_labels: Annotated[
        Mapping[str, str] | None,
        Declared(
            "allow-metric-labels", "Values that a label may have, others become 'unexpected'; as metric,label='a,b'."
        ),
    ] = None
    allowed_labels_manifest: Annotated[
        str,
        Declared(
            "allow-metric-labels-manifest",
            "File with the same under allowListMapping; not together with --allow-metric-labels.",
        ),
    ] = ""

    def problems(self) -> list[str]:
        """The problems of these flags."""
        path = "metrics"
        found: list[str] = []
        major, minor = versions.BINARY.minor
        previous = f"{major}.{minor - 1}"
        version = self.show_hidden_for_version
        if version and version != previous:
            rule = f"must be omitted or have the value '{previous}'; only the previous minor version is allowed"
            found.append(invalid(child(path, "showHiddenMetricsForVersion"), version, rule))
        for name in self.disabled:
            if not re.fullmatch(_METRIC_NAME, name):
                pattern = quote(f"^{_METRIC_NAME}$")
                rule = f"must be fully qualified metric names matching {pattern}, got {quote(name)}"
                found.append(invalid(child(path, "disabledMetrics"), list(self.disabled), rule))
                break
        if self.allowed_labels is not None:
            found.extend(_allow_list_problems(child(path, "allowListMapping"), self.allowed_labels))
        found.extend(self._manifest_problems(child(path, "allowListMappingManifest")))
        if self.allowed_labels is not None and self.allowed_labels_manifest:
            rule = "cannot specify both allowListMapping and allowListMappingManifest"
            found.append(invalid(path, self._as_component_config(), rule))
        return found

    @property
    def hidden(self) -> tuple[str, ...]:
        """The hidden metrics: deprecated, and not requested."""
        # The only valid version is the previous one, in which all of these were shown.
        return () if self.show_hidden_for_version else tuple(_HIDDEN_METRICS)

    def log_deprecated_metrics(self, gates: FeatureGates, log: Log) -> None:
        """Warn about deprecated metrics that are shown."""
        for name, gate in _HIDDEN_METRICS.items():
            if self.show_hidden_for_version and name not in self.disabled and gates.enabled(gate):
                log(f"W Hidden metrics ({name}) have been manually overridden, showing this very deprecated metric.")

    def warn_of_labels(self, log: Log) -> None:
        """Warn, as kube-scheduler does for most command lines, that labels are not restricted."""
        if self.allowed_labels is None and not self.allowed_labels_manifest:
            log("E The manifest file is empty, ignoring.")
        elif self.allowed_labels_manifest and not self.labels():
            log("E empty allow-list mapping supplied, ignoring.")

    def labels(self) -> dict[str, str]:
        """The values allowed for labels, by `metric,label`; from the flag or the manifest."""
        if self.allowed_labels is not None:
            return dict(self.allowed_labels)
        if not self.allowed_labels_manifest:
            return {}
        return yaml_document.parse_string_map(read_file(self.allowed_labels_manifest))

    def _as_component_config(self) -> dict[str, Any]:
        """The flags as a message shows them: those that are set, by the names of kube-scheduler's struct."""
        document: dict[str, Any] = {}
        if self.show_hidden_for_version:
            document["showHiddenMetricsForVersion"] = self.show_hidden_for_version
        if self.disabled:
            document["disabledMetrics"] = list(self.disabled)
        if self.allowed_labels:
            document["allowListMapping"] = dict(sorted(self.allowed_labels.items()))
        if self.allowed_labels_manifest:
            document["allowListMappingManifest"] = self.allowed_labels_manifest
        return document

    def _manifest_problems(self, path: str) -> list[str]:
        """Return what is wrong with the file of allowed labels; nothing if no file is named."""
        file = self.allowed_labels_manifest
        if not file:
            return []
        try:
            data = read_file(file)
        except ConfigurationError as error:
            return [invalid(path, file, f"failed to read allow list manifest: {error}")]
        try:
            mapping = yaml_document.parse_string_map(data)
        except ValueError as error:
            return [invalid(path, file, f"failed to parse allow list manifest: {error}")]
        problems = _allow_list_problems(path, mapping)
        if problems:
            return [invalid(path, file, f"invalid allow list mapping in manifest: [{' '.join(problems)}]")]
        return []


def _allow_list_problems(path: str, mapping: Mapping[str, str]) -> list[str]:
    """What is wrong with the names of an allow-list of label values."""
    for name in mapping:
        if not re.fullmatch(f"{_METRIC_NAME},{_LABEL_NAME}", name):
            rule = (
                f"must have keys with format `metricName,labelName` where metricName matches {quote(_METRIC_NAME)} "
                f"and labelName matches {quote(_LABEL_NAME)}"
            )
            return [invalid(path, dict(sorted(mapping.items())), rule)]
    return []


# Logs.

_BUFFER = "Bytes of info messages to hold back when streams are split; 0 holds none. Needs LoggingAlphaOptions."
_SPLIT = "Errors to stderr, the rest to stdout, instead of one stream. Needs LoggingAlphaOptions."
_NO_BYTES = Quantity(0)


@dataclass(frozen=True, slots=True)
class LoggingOptions:
    """The format, level and streams of the log."""

    format: Annotated[str, Declared("logging-format", 'Format of the log. Permitted formats: "json", "text".')] = "text"
    flush_frequency: Annotated[Duration, Declared("log-flush-frequency", "Longest time between two flushes.")] = (
        Duration(5 * SECOND)
    )
    verbosity: Annotated[int, Declared("v", "How much to log; 0 is least.", letter="v", type=kinds.LEVEL)] = 0
    vmodule: Annotated[
        tuple[VModule, ...],
        Declared("vmodule", "Levels for the files that match a pattern; text format only."),
    ] = ()
    text_split_stream: Annotated[bool, Declared("log-text-split-stream", f"[Alpha] Text format: {_SPLIT}")] = False
    text_info_buffer_size: Annotated[
        Quantity, Declared("log-text-info-buffer-size", f"[Alpha] Text format: {_BUFFER}")
    ] = _NO_BYTES
    json_split_stream: Annotated[bool, Declared("log-json-split-stream", f"[Alpha] JSON format: {_SPLIT}")] = False
    json_info_buffer_size: Annotated[
        Quantity, Declared("log-json-info-buffer-size", f"[Alpha] JSON format: {_BUFFER}")
    ] = _NO_BYTES

    def problems(self, gates: FeatureGates) -> list[str]:
        """The problems of these flags."""
        found: list[str] = []
        if self.flush_frequency.nanoseconds <= 0:
            found.append(invalid("flushFrequency", self.flush_frequency, "Must be greater than zero"))
        if self.format not in ("text", "json"):
            found.append(invalid("format", self.format, "Unsupported log format"))
        elif self.format == "json" and not gates.enabled("LoggingBetaOptions"):
            found.append(forbidden("format", "Log format json is disabled, see LoggingBetaOptions feature"))
        if self.vmodule and self.format not in ("", "text"):
            found.append(forbidden("vmodule", "Only supported for text log format"))
        if not gates.enabled("LoggingAlphaOptions"):
            disabled = "Feature LoggingAlphaOptions is disabled"
            for name, split, size in (
                ("text", self.text_split_stream, self.text_info_buffer_size),
                ("json", self.json_split_stream, self.json_info_buffer_size),
            ):
                if split:
                    found.append(forbidden(child("options", name, "splitStream"), disabled))
                if size.value() != 0:
                    found.append(forbidden(child("options", name, "infoBufferSize"), disabled))
        return found
