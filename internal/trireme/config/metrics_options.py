"""The flags about metrics: which are served, and the values that labels may have.

Source: k8s.io/component-base/metrics.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trireme.config.gates import FeatureGates
from trireme_kube.apimachinery import yaml_document
from trireme_kube.apimachinery.configuration_files import ConfigurationError, read_file
from trireme_kube.apimachinery.field_errors import child, invalid
from trireme_kube.apimachinery.golang import quote
from trireme_kube.componentbase.cli import versions

Log = Callable[[str], None]

_METRIC_NAME = "[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL_NAME = "[a-zA-Z_][a-zA-Z0-9_]*"


_HIDDEN_METRICS = {"scheduler_preemption_goroutines_duration_seconds": "SchedulerAsyncPreemption"}
"""Metrics that kube-scheduler v1.37 hides by default, and the gate that each needs."""


@dataclass(frozen=True, slots=True)
class MetricsOptions:
    """Which metrics are served."""

    show_hidden_for_version: str
    disabled: tuple[str, ...]
    #: `None` where the flag was not given.
    allowed_labels: Mapping[str, str] | None
    allowed_labels_manifest: str

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
