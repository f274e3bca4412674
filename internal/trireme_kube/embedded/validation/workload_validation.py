"""Validates workloads; all problems are reported at once, in the API server's words and order.

Source: k8s.io/kubernetes, pkg/apis/apps/validation and pkg/apis/batch/validation.

Tests: tests/unit/embedded/controllers/test_workloads.py, tests/unit/embedded/controllers/test_cron_jobs.py.
"""

import re
from collections.abc import Callable
from typing import Any

from trireme_kube.embedded.api import cron, field_errors, selectors
from trireme_kube.embedded.api.field_errors import Cause
from trireme_kube.embedded.api.resources import Object
from trireme_kube.embedded.validation import name_validation
from trireme_kube.embedded.validation.pod_validation import validate_pod_spec

_STRATEGIES = ("Recreate", "RollingUpdate")
_CONCURRENCY = ("Allow", "Forbid", "Replace")
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_PERCENT = re.compile(r"^[0-9]+%$")
_PERCENT_TEXT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)


def validate_not_negative(path: str, obj: Object, *parts: str) -> list[Cause]:
    """The negative ones of some numbers."""
    return [
        field_errors.invalid(f"{path}.{part}", obj[part], "must be greater than or equal to 0")
        for part in parts
        if isinstance(obj.get(part), int) and obj[part] < 0
    ]


def validate_number_or_percentage(path: str, value: Any) -> list[Cause]:
    """The problems of a number of pods or a percentage of them; none if it is missing."""
    if isinstance(value, str):
        if not _PERCENT.match(value):
            return [field_errors.invalid(path, value, _PERCENT_TEXT)]
        return [field_errors.invalid(path, value, "must not be greater than 100%")] if int(value[:-1]) > 100 else []
    if isinstance(value, int) and value < 0:
        return [field_errors.invalid(path, value, "must be greater than or equal to 0")]
    return []


def validate_label_selector(path: str, selector: Any) -> list[Cause]:
    """The problems of a label selector."""
    selector = selector or {}
    causes = name_validation.validate_labels(f"{path}.matchLabels", selector.get("matchLabels"))
    for index, one in enumerate(selector.get("matchExpressions") or ()):
        where, operator = f"{path}.matchExpressions[{index}]", one.get("operator", "")
        if operator not in _OPERATORS:
            causes.append(field_errors.invalid(f"{where}.operator", operator, "not a valid selector operator"))
        elif operator in ("In", "NotIn") and not one.get("values"):
            text = "must be specified when `operator` is 'In' or 'NotIn'"
            causes.append(field_errors.required(f"{where}.values", text))
        elif operator not in ("In", "NotIn") and one.get("values"):
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            causes.append(field_errors.forbidden(f"{where}.values", text))
        causes += name_validation.validate_qualified_name(f"{where}.key", one.get("key", ""))
    return causes


def _validate_template(template: Any, matches: Callable[[Object], bool]) -> list[Cause]:
    """The problems of a template of pods that keep running: labels that do not match, or pods that do not restart."""
    template = template or {}
    labels = (template.get("metadata") or {}).get("labels")
    causes: list[Cause] = []
    if not matches(labels or {}):
        detail = "`selector` does not match template `labels`"
        causes.append(field_errors.invalid("spec.template.metadata.labels", labels, detail))
    causes += name_validation.validate_labels("spec.template.metadata.labels", labels)
    causes += validate_pod_spec("spec.template.spec", template.get("spec"))
    policy = (template.get("spec") or {}).get("restartPolicy")
    if policy in ("OnFailure", "Never"):
        causes.append(field_errors.unsupported("spec.template.spec.restartPolicy", policy, ("Always",)))
    return causes


def validate_workload(obj: Object) -> list[Cause]:
    """The problems of a Deployment, ReplicaSet, StatefulSet or DaemonSet: of its selector and its template."""
    spec = obj.get("spec") or {}
    selector = spec.get("selector")
    causes = validate_not_negative("spec", spec, "replicas")
    if not selector:
        causes.append(field_errors.required("spec.selector"))
        return causes + _validate_template(spec.get("template"), lambda labels: False)
    wrong = validate_label_selector("spec.selector", selector)
    if any(cause.field.endswith(("operator", "values")) for cause in wrong):
        return [*causes, *wrong, field_errors.invalid("spec.selector", selector, "invalid label selector")]
    return causes + wrong + _validate_template(spec.get("template"), selectors.compile_label_selector(selector))


def _validate_strategy(path: str, strategy: Object, supported: tuple[str, ...]) -> list[Cause]:
    kind = strategy.get("type")
    if kind in supported:
        return []
    listed = ", ".join(f'"{one}"' for one in supported)
    text = f'{{"Type":"{kind}","RollingUpdate":null}}'
    return [Cause("FieldValueNotSupported", path, f"Unsupported value: {text}: supported values: {listed}")]


def validate_deployment(obj: Object) -> list[Cause]:
    """The problems of a Deployment."""
    spec, causes = obj.get("spec") or {}, validate_workload(obj)
    strategy = spec.get("strategy") or {}
    causes += _validate_strategy("spec.strategy", strategy, _STRATEGIES)
    if strategy.get("type") == "RollingUpdate":
        rolling, path = strategy.get("rollingUpdate") or {}, "spec.strategy.rollingUpdate"
        for part in ("maxUnavailable", "maxSurge"):
            causes += validate_number_or_percentage(f"{path}.{part}", rolling.get(part))
        if all(rolling.get(part) in (0, "0%") for part in ("maxUnavailable", "maxSurge")):
            text = "may not be 0 when `maxSurge` is 0"
            causes.append(field_errors.invalid(f"{path}.maxUnavailable", rolling["maxUnavailable"], text))
    return causes + validate_not_negative("spec", spec, "minReadySeconds", "revisionHistoryLimit")


def validate_stateful_set(obj: Object) -> list[Cause]:
    """The problems of a StatefulSet; its pods get volumes of the claim templates, too."""
    spec = obj.get("spec") or {}
    causes: list[Cause] = []
    policy, strategy = spec.get("podManagementPolicy"), spec.get("updateStrategy") or {}
    if policy not in ("OrderedReady", "Parallel"):
        text = "must be 'OrderedReady' or 'Parallel'"
        causes.append(field_errors.invalid("spec.podManagementPolicy", policy, text))
    if strategy.get("type") not in ("RollingUpdate", "OnDelete"):
        strategy_text = f'{{"Type":"{strategy.get("type")}","RollingUpdate":null}}'
        text = f"Invalid value: {strategy_text}: must be 'RollingUpdate' or 'OnDelete'"
        causes.append(Cause("FieldValueInvalid", "spec.updateStrategy", text))
    claims = [{"name": one["metadata"].get("name", "")} for one in spec.get("volumeClaimTemplates") or ()]
    template = spec.get("template") or {}
    if claims and template.get("spec"):
        pods = {**template["spec"], "volumes": [*claims, *(template["spec"].get("volumes") or ())]}
        claim_names = {one["name"] for one in claims}
        own = [one for one in pods["volumes"][len(claims) :] if one.get("name") not in claim_names]
        spec = {**spec, "template": {**template, "spec": {**pods, "volumes": [*claims, *own]}}}
    return causes + validate_workload({**obj, "spec": spec})


def validate_daemon_set(obj: Object) -> list[Cause]:
    """The problems of a DaemonSet."""
    strategy = (obj.get("spec") or {}).get("updateStrategy") or {}
    return validate_workload(obj) + _validate_strategy("spec.updateStrategy", strategy, ("RollingUpdate", "OnDelete"))


def validate_replication_controller(obj: Object) -> list[Cause]:
    """The problems of a ReplicationController, whose selector is a map of labels."""
    spec = obj.get("spec") or {}
    selector, template = spec.get("selector") or {}, spec.get("template")
    causes = [] if selector else [field_errors.required("spec.selector")]
    if template is None:
        causes.append(field_errors.required("spec.template"))
    else:
        causes += _validate_template(template, selectors.compile_label_selector({"matchLabels": selector}))
    return causes + validate_not_negative("spec", spec, "replicas")


def validate_job(obj: Object) -> list[Cause]:
    """The problems of a Job, or of a CronJob's template for one."""
    spec = obj.get("spec") or {}
    pods = (spec.get("template") or {}).get("spec") or {}
    causes = validate_not_negative("spec", spec, "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit")
    causes += validate_not_negative("spec", spec, "ttlSecondsAfterFinished")
    if spec.get("completionMode") == "Indexed" and spec.get("completions") is None:
        causes.append(field_errors.required("spec.completions", "when completion mode is Indexed"))
    causes += validate_pod_spec("spec.template.spec", pods)
    if pods.get("restartPolicy", "Always") == "Always":
        causes.append(field_errors.required("spec.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"'))
    return causes


def validate_cron_job(obj: Object) -> list[Cause]:
    """The problems of a CronJob."""
    spec = obj.get("spec") or {}
    causes: list[Cause] = []
    schedule, zone = spec.get("schedule"), spec.get("timeZone")
    if schedule:
        causes += _validate_parseable("spec.schedule", schedule, cron.parse)
    causes += validate_not_negative("spec", spec, "startingDeadlineSeconds")
    if zone is not None:
        causes += _validate_parseable("spec.timeZone", zone, cron.zone_of)
    if spec.get("concurrencyPolicy") not in _CONCURRENCY:
        causes.append(field_errors.unsupported("spec.concurrencyPolicy", spec["concurrencyPolicy"], _CONCURRENCY))
    for cause in validate_job({"spec": (spec.get("jobTemplate") or {}).get("spec") or {}}):
        causes.append(Cause(cause.kind, cause.field.replace("spec", "spec.jobTemplate.spec", 1), cause.body))
    causes += validate_not_negative("spec", spec, "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    return causes if schedule else [*causes, field_errors.required("spec.schedule")]


def _validate_parseable(path: str, text: str, read: Callable[[str], object]) -> list[Cause]:
    try:
        read(text)
    except cron.ScheduleError as error:
        return [field_errors.invalid(path, text, str(error))]
    return []


CREATE: dict[str, Callable[[Object], list[Cause]]] = {
    "replicationcontrollers": validate_replication_controller,
    "deployments.apps": validate_deployment,
    "replicasets.apps": validate_workload,
    "statefulsets.apps": validate_stateful_set,
    "daemonsets.apps": validate_daemon_set,
    "jobs.batch": validate_job,
    "cronjobs.batch": validate_cron_job,
}
