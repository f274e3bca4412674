"""What commands print with `-o json`, and insight over HTTP, is as the schemas of docs/reference/schemas say."""

import asyncio
import json
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import aiohttp
import jsonschema
import pytest
import yaml

from tests.e2e import clusters, installation
from tests.e2e.installation import pod
from tests.helpers import schemas_document
from tools.controlplane import ports

pytestmark = pytest.mark.timeout(240)

_TRIREME = pathlib.Path(sys.executable).with_name("trireme")
_YAML = {"Content-Type": "application/yaml"}
_CHANGE = """apiVersion: v1
kind: Pod
metadata: {name: asked, namespace: default}
spec:
  containers: [{name: c, image: i, resources: {requests: {cpu: "1000"}}}]
"""


_CLASS = "made-when-a-pod-needs-it"


def _every_kind() -> str:
    """A file with each kind that makes pods, a claim that one uses, and a group without pods."""
    spec = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "10m"}}}]}
    large = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1000"}}}]}

    def template(name: str, spec: Any, **more: Any) -> Any:
        return {"metadata": {"labels": {"app": name}}, "spec": {**spec, **more}}

    def workload(kind: str, name: str, **fields: Any) -> Any:
        selector = {"matchLabels": {"app": name}}
        return "apps/v1", kind, name, {"selector": selector, "template": template(name, spec), **fields}

    size = {"accessModes": ["ReadWriteOnce"], "storageClassName": _CLASS, "resources": {"requests": {"storage": "1Gi"}}}
    job = {"template": template("job", large, restartPolicy="Never")}
    run = {"template": template("cron", spec, restartPolicy="Never")}
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "claim"}}
    documents = (
        ("v1", "PersistentVolumeClaim", "claim", size),
        ("v1", "Pod", "single", {**spec, "volumes": [volume]}),
        workload("Deployment", "web", replicas=3),
        workload("StatefulSet", "db", replicas=2, serviceName="db", volumeClaimTemplates=[_named("data", spec=size)]),
        workload("DaemonSet", "agent"),
        ("batch/v1", "Job", "job", {"parallelism": 2, "completions": 4, **job}),
        ("batch/v1", "CronJob", "cron", {"schedule": "0 * * * *", "jobTemplate": {"spec": run}}),
        ("scheduling.k8s.io/v1beta1", "PodGroup", "gang", {"schedulingPolicy": {"gang": {"minCount": 1}}}),
    )
    return yaml.safe_dump_all(
        {"apiVersion": version, "kind": kind, **_named(name, spec=spec)} for version, kind, name, spec in documents
    )


def _named(name: str, **fields: Any) -> Any:
    return {"metadata": {"name": name}, **fields}


def check(schema: str, document: Any) -> None:
    """Check a document by the published schema; this release has no fields that it does not name.

    Raises: ValidationError.
    """
    published = json.loads((schemas_document.FOLDER / f"{schema}.schema.json").read_text())
    validator = jsonschema.Draft202012Validator(schemas_document.strict(published))
    validator.validate(document)


class _World:
    """The scheduler with a remote plugin and an insight that records and serves HTTP."""

    def __init__(self, here: installation.Installation) -> None:
        self.here = here
        self.socket, self.recordings = here.folder / "admin.sock", here.folder / "recordings"
        self.plugin = f"unix:{here.folder}/plugin.sock"
        (port,) = ports.free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        insight = f"unix:{here.folder}/insight.sock"
        script = str(pathlib.Path(__file__).parent / "forgetful.py")
        commands = {
            "plugin": [sys.executable, "-u", script, "--listen", self.plugin],
            "insight": [
                *installation.program("trireme.insight.process"),
                *("--listen", insight, "--record-dir", str(self.recordings), "--http-listen", f"127.0.0.1:{port}"),
            ],
        }
        self._processes = [
            installation.Process(name, command, here.folder / f"{name}.log") for name, command in commands.items()
        ]
        self.insight = insight
        self.own = {
            "admin": {"socket": str(self.socket)},
            "insight": {"endpoints": [insight]},
            "remotePlugins": [{"name": "Forgetful", "address": self.plugin, "extensionPoints": ["filter"]}],
        }

    async def start(self) -> None:
        for process in self._processes:
            process.start()
            await process.listening()
        profile = {"schedulerName": "default-scheduler", "plugins": {"filter": {"enabled": [{"name": "Forgetful"}]}}}
        await self.here.start(configuration={"profiles": [profile]}, own={**self.own, "conditionMessage": "JSON"})
        await self.here.logged(self.here.frontends[0], f"{self.insight}: in step")

    def stop(self) -> None:
        for process in self._processes:
            process.stop()

    async def run(self, *arguments: str, codes: Sequence[int] = (0,), text: str = "") -> str:
        """What the command prints."""
        process = await asyncio.create_subprocess_exec(
            _TRIREME,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate(text.encode())
        assert process.returncode in codes, f"{arguments}: {err.decode()}"
        assert out or "export" in arguments, f"{arguments}: {err.decode()}"
        return out.decode()

    async def asked(self, *arguments: str, **options: Any) -> Any:
        """What the command prints about the running scheduler."""
        command, *rest = arguments
        return json.loads(await self.run(command, "--socket", str(self.socket), "-o", "json", *rest, **options))


async def test_documents_are_as_their_schemas_say(cluster: clusters.OpenCluster) -> None:
    """If this fails, a program that was made from the schema reads what is not there."""
    async with cluster(nodes=2) as here:
        world = _World(here)
        try:
            await world.start()
            await here.create_pods([pod("small"), pod("large", cpu="1000")])
            await here.bound(1)
            condition = await here.condition("large", "Insufficient cpu")
            reason, of_preemption = json.loads(condition["message"])["reasons"]
            assert (of_preemption["plugin"], of_preemption["code"]) == ("DefaultPreemption", "notHelpful")
            assert (reason["plugin"], reason["code"], reason["nodes"]) == (
                "NodeResourcesFit",
                "insufficientResource",
                2,
            )
            await _check_scheduler(world)
            await _check_http(world.url)
            check("plugin-verify", json.loads(await world.run("plugin", "verify", world.plugin, "-o", "json")))
            shadow = ["shadow", "--kubeconfig", str(here.kubeconfig), "-o", "json", "--duration", "3"]
            lines = await world.run(*shadow, "--report", str(here.folder / "shadow.html"))
            for line in lines.splitlines():
                check("shadow", json.loads(line))
        finally:
            world.stop()
        await _check_recordings(world)


async def _check_scheduler(world: _World) -> None:
    # Not every cluster has a class by default.
    made = {"provisioner": "example.com/none", "volumeBindingMode": "WaitForFirstConsumer", **_named(_CLASS)}
    await world.here.request("POST", "/apis/storage.k8s.io/v1/storageclasses", made)
    status = await world.asked("status")
    check("status", status)
    (alike,) = status["pendingAlike"]
    refusal, of_preemption = alike["waitsFor"]["refusals"]
    assert of_preemption["status"]["reasons"] == [{"code": "notHelpful", "parameters": {}}]
    (reason,) = refusal["status"]["reasons"]
    assert (alike["example"]["name"], refusal["status"]["plugin"], refusal["nodeCount"], reason) == (
        "large",
        "NodeResourcesFit",
        2,
        {"code": "insufficientResource", "parameters": {"resource": "cpu", "asked": "1k"}},
    )
    check("version", await world.asked("version"))
    check("version", json.loads(await world.run("version", "--client", "-o", "json")))
    waiting = await world.asked("explain", "--proposals", "default/large")
    check("explain", waiting)
    assert waiting["refusals"][0]["status"]["reasons"]
    check("explain", await world.asked("explain", "default/small"))
    (node, *_) = [each["metadata"]["name"] for each in await world.here.nodes()]
    for flags in (["--drain", node], ["-f", "-"]):
        check("simulate", await world.asked("simulate", *flags, text=_CHANGE, codes=(0, 1)))
    # Seven beside the small pod, and eight.
    many = await world.asked("simulate", "--how-many", "-", text=_CHANGE.replace("1000", "1"))
    check("simulate", many)
    assert many["capacity"]["pods"] == "15"
    _check_every_kind(await world.asked("simulate", "-f", "-", text=_every_kind(), codes=(0, 1)))


def _check_every_kind(answer: Any) -> None:
    """Each document that makes pods has its verdict."""
    check("simulate", answer)
    verdicts = {each["kind"]: each["verdict"].removeprefix("VERDICT_") for each in answer["verdicts"]}
    fitting = dict.fromkeys(("Pod", "Deployment", "StatefulSet", "DaemonSet", "CronJob"), "FITS")
    assert verdicts == {**fitting, "Job": "DOES_NOT_FIT", "PodGroup": "NO_PODS"}


async def _check_http(url: str) -> None:
    pods = f"{url}/v1/namespaces/default/pods"
    async with aiohttp.ClientSession() as session:
        for schema, page in (
            ("explain", f"{pods}/large/explanation?preemption=true"),
            ("decision", f"{pods}/small/decision"),
        ):
            async with session.get(page) as response:
                assert response.status == 200, await response.text()
                check(schema, await response.json())
        async with session.post(f"{url}/v1/simulation/manifests", data=_CHANGE, headers=_YAML) as response:
            assert response.status == 200, await response.text()
            check("simulate", await response.json())


async def _check_recordings(world: _World) -> None:
    check("record-check", json.loads(await world.run("record", "check", str(world.recordings), "-o", "json")))
    file = str(world.here.folder / "all.trireme")
    await world.run("record", "export", "--dir", str(world.recordings), file)
    replayed = json.loads(await world.run("replay", "-o", "json", file))
    check("replay", replayed)
    assert replayed["same"] > 0
    check("explain", json.loads(await world.run("replay", "-o", "json", file, "explain", "default/large")))
