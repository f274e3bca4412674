"""deploy/components/insight: the base's configuration with insight in it, and a process without any credentials."""

import pathlib
from typing import Any

import yaml

from trireme.config import trireme_configuration
from trireme.insight import flags
from trireme.phases import phase_process, process_flags
from trireme_kube.apimachinery import quantity
from trireme_kube.componentbase.cli import arguments

DEPLOY = pathlib.Path(__file__).parents[3] / "deploy"


def _objects(path: str) -> dict[str, Any]:
    return {entry["kind"]: entry for entry in yaml.safe_load_all((DEPLOY / path).read_text())}


def test_its_configuration_is_the_bases_with_insight() -> None:
    """A setting of the base that is missing here would be lost where insight is added."""
    base = yaml.safe_load((DEPLOY / "base/config/trireme.yaml").read_text())
    document = (DEPLOY / "components/insight/trireme.yaml").read_bytes()
    own = yaml.safe_load(document)
    assert {name: value for name, value in own.items() if name != "insight"} == base
    insight = trireme_configuration.parse(document).insight
    assert insight.endpoints == ("endpointslice:///trireme-system/trireme-insight:grpc",)
    assert insight.allowed_identities == ("trireme-insight.trireme-system.svc",)


def test_it_runs_as_score_does_and_without_a_token() -> None:
    """Insight reads pods of everybody: who takes it over must not be able to write."""
    insight, score = _objects("components/insight/insight.yaml"), _objects("base/score.yaml")
    assert insight["ServiceAccount"]["automountServiceAccountToken"] is False
    pods = [found["Deployment"]["spec"]["template"]["spec"] for found in (insight, score)]
    commands = [pod["containers"][0].pop("command") for pod in pods]
    assert commands[0][0] == "trireme-insight"
    assert commands[0][2:] == commands[1][2:]
    assert pods[0]["securityContext"] == pods[1]["securityContext"]
    assert pods[0]["containers"][0]["securityContext"] == pods[1]["containers"][0]["securityContext"]
    ports = [found["Service"]["spec"]["ports"][0]["port"] for found in (insight, score)]
    assert ports == [7004, 7002]
    assert "--listen=0.0.0.0:7004" in commands[0]


def test_over_http_its_account_may_have_callers_reviewed_and_nothing_else() -> None:
    """Insight must stay unable to write, and its flags must be ones that it starts with."""
    component = yaml.safe_load((DEPLOY / "components/insight-http/kustomization.yaml").read_text())
    bindings = list(yaml.safe_load_all((DEPLOY / "components/insight-http/reviews.yaml").read_text()))
    assert [(entry["kind"], entry["roleRef"]["name"]) for entry in bindings] == [
        ("ClusterRoleBinding", "system:auth-delegator")
    ]
    assert bindings[0]["subjects"] == [
        {"kind": "ServiceAccount", "name": "trireme-insight", "namespace": "trireme-system"}
    ]
    patches = {entry["target"]["kind"]: yaml.safe_load(entry["patch"]) for entry in component["patches"]}
    added = [entry["value"] for entry in patches["Deployment"] if entry["path"].endswith("/command/-")]
    pod = _objects("components/insight/insight.yaml")["Deployment"]["spec"]["template"]["spec"]
    parser = phase_process.flag_parser("insight")
    arguments.add(parser, flags.InsightFlags)
    values = parser.parse_args([*pod["containers"][0]["command"][1:], *added])
    checked = arguments.read(flags.InsightFlags, values).http(arguments.read(process_flags.ProcessFlags, values))
    assert checked is not None
    assert checked.reviews
    assert checked.address.text == "0.0.0.0:7005"
    (mount,) = [entry["value"]["mountPath"] for entry in patches["Deployment"] if "volumeMounts" in entry["path"]]
    assert checked.authentication_kubeconfig == checked.authorization_kubeconfig == f"{mount}/kubeconfig.yaml"
    kubeconfig = yaml.safe_load((DEPLOY / "components/insight-http/kubeconfig.yaml").read_text())
    assert kubeconfig["users"][0]["user"] == {"tokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token"}


def test_it_records_where_its_container_may_write() -> None:
    """Its file system is read-only: without the volumes nothing would be recorded, or be looked back in."""
    component = yaml.safe_load((DEPLOY / "components/insight-recording/kustomization.yaml").read_text())
    patches = {entry["target"]["kind"]: yaml.safe_load(entry["patch"]) for entry in component["patches"]}
    assert set(patches) == {"Deployment"}
    values: dict[str, list[Any]] = {}
    for entry in patches["Deployment"]:
        values.setdefault(entry["path"].removesuffix("/-").rpartition("/")[2], []).append(entry["value"])
    parser = phase_process.flag_parser("insight")
    arguments.add(parser, flags.InsightFlags)
    pod = _objects("components/insight/insight.yaml")["Deployment"]["spec"]["template"]["spec"]
    options = parser.parse_args([*pod["containers"][0]["command"][1:], *values["command"]])
    mounts = {mount["name"]: mount["mountPath"] for mount in values["volumeMounts"]}
    assert mounts == {"recordings": options.record_dir, "tmp": "/tmp"}
    limits = {volume["name"]: volume["emptyDir"]["sizeLimit"] for volume in values["volumes"]}
    assert limits.keys() == mounts.keys()
    # The kubelet evicts the pod beyond it.
    assert quantity.parse_quantity(limits["recordings"]).value() > options.record_max_bytes
