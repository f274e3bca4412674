"""The configuration of the simulated frontends: files of their own for each, which are replaced while they run.

What a valid configuration may be is drawn: weights, arguments, a second profile, a second remote plugin with its
policy, batches and delays. An invalid one is such a one with one mistake, which every program has to find before it
uses any of the rest.
"""

from __future__ import annotations

import copy
import pathlib
import random
from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from tests.simulation import simulated_plugin
from tests.simulation.simulated_certificates import write_file
from trireme_kube.embedded.api.resources import Object

DEFAULT_PROFILE, SECOND_PROFILE = "default-scheduler", "second-scheduler"
OWN, SCHEDULER = "trireme.yaml", "scheduler.yaml"
# In-tree plugins that score, with the weights that they have if nothing is said.
DEFAULT_WEIGHTS: Mapping[str, int] = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "NodeResourcesFit": 1,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}
# Nobody listens there.
_NOBODY = "127.5.0.9:7000"


@dataclass(frozen=True)
class Documents:
    """Both files, as far as they are the same for all frontends. `own` lacks `tls`."""

    own: Object
    scheduler: Object
    #: The bytes of the second file in place of the document, where it is not one.
    broken: bytes = b""
    #: Whether a frontend that has been started with it takes no other configuration any more.
    is_final: bool = False


def base(phases: Object, remote_plugin: Object | None, scheduler: Object | None = None) -> Documents:
    """The configuration outside of storms.

    `phases`: where the phases are and how they are reached. `remote_plugin`: the one that is always there; without it
    there is no other one either. `scheduler`: in place of the second file, if it is given.
    """
    own = {
        "apiVersion": "trireme.dev/v1alpha1",
        "kind": "TriremeConfiguration",
        "phases": phases,
        "fallback": {"mode": "none"},
        "remotePlugins": [remote_plugin] if remote_plugin else [],
    }
    remote = (simulated_plugin.NAME,) if remote_plugin else ()
    profiles = [_profile(name, remote) for name in (DEFAULT_PROFILE, SECOND_PROFILE)]
    header = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return Documents(own, scheduler or {**header, "profiles": profiles})


def _profile(name: str, remote: tuple[str, ...]) -> Object:
    return {"schedulerName": name, "plugins": {"filter": {"enabled": [{"name": each} for each in remote]}}}


class Draw:
    """Draws configurations from one random source."""

    def __init__(self, pick: random.Random, start: Documents, second_plugin: Object) -> None:
        """`second_plugin`: how the plugin is reached that is there or not."""
        self._pick = pick
        self._start = start
        self._second_plugin = second_plugin

    def valid(self) -> Documents:
        """A configuration that is to be put in force."""
        pick = self._pick
        own, scheduler = copy.deepcopy(self._start.own), copy.deepcopy(self._start.scheduler)
        remote = tuple(plugin["name"] for plugin in own["remotePlugins"])
        for closed in own["remotePlugins"]:
            closed["deadline"] = pick.choice(("1s", "2s", "4s"))
            closed["circuitBreaker"] = {"failures": pick.choice((2, 5)), "openFor": pick.choice(("2s", "5s"))}
        if remote and pick.random() < 0.6:
            remote = (*remote, simulated_plugin.SECOND_NAME)
            policy = {"deadline": pick.choice(("1s", "3s")), "failurePolicy": pick.choice(("Fail", "Fail", "Ignore"))}
            own["remotePlugins"].append({**self._second_plugin, **policy})
        own["batch"] = {"maxPods": pick.choice((1, 3, 100)), "linger": pick.choice(("0s", "5ms", "100ms"))}
        names = (DEFAULT_PROFILE, SECOND_PROFILE) if pick.random() < 0.7 else (DEFAULT_PROFILE,)
        scheduler["profiles"] = [self._with_draws(_profile(name, remote)) for name in names]
        scheduler["podMaxBackoffSeconds"] = pick.choice((5, 10, 20))
        return Documents(own, scheduler)

    def _with_draws(self, profile: Object) -> Object:
        """The profile with other weights and arguments."""
        pick = self._pick
        weighted = pick.sample(list(DEFAULT_WEIGHTS), pick.randint(0, 4))
        enabled = [{"name": name, "weight": pick.randint(1, 9)} for name in weighted]
        if enabled:
            profile["plugins"]["score"] = {"enabled": enabled}
        if pick.random() < 0.5:
            resources = [{"name": "cpu", "weight": pick.randint(1, 5)}, {"name": "memory", "weight": 1}]
            strategy = {"type": pick.choice(("LeastAllocated", "MostAllocated")), "resources": resources}
            profile["pluginConfig"] = [{"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}]
        return profile

    def invalid(self) -> tuple[Documents, str]:
        """A configuration that has to be refused as a whole, and in few words why."""
        found = self.valid()
        own, scheduler = found.own, found.scheduler
        mistakes = ["cut off", "unknown field", "zero weight", "unknown plugin", "fixed field", "nobody answers"]
        if own["remotePlugins"]:
            mistakes.append("refused")
        mistake = self._pick.choice(mistakes)
        match mistake:
            case "cut off":
                text = orjson.dumps(scheduler)
                return Documents(own, scheduler, text[: len(text) * 2 // 3]), mistake
            case "unknown field":
                own["batches"] = {}
            case "zero weight":
                scheduler["profiles"][0]["plugins"]["score"] = {"enabled": [{"name": "ImageLocality", "weight": -1}]}
            case "unknown plugin":
                scheduler["profiles"][-1]["plugins"]["filter"]["enabled"].append({"name": "Nowhere"})
            case "fixed field":
                own["fallback"] = {"mode": "none", "after": "45s"}
                return Documents(own, scheduler, is_final=True), mistake
            case "nobody answers":
                plugin = {**self._second_plugin, "name": "Nobody", "address": _NOBODY}
                own["remotePlugins"].append(plugin)
                scheduler["profiles"][0]["plugins"]["filter"]["enabled"].append({"name": "Nobody"})
            case _:
                arguments = {"name": simulated_plugin.NAME, "args": {"refuse": "these"}}
                scheduler["profiles"][0].setdefault("pluginConfig", []).append(arguments)
        return found, mistake


class ConfigurationFiles:
    """The files of one frontend."""

    def __init__(self, folder: pathlib.Path, tls: Mapping[str, str]) -> None:
        """`tls`: the frontend's own certificate files."""
        self._tls = tls
        self.own, self.scheduler = folder / OWN, folder / SCHEDULER
        #: Whether the frontend that is started now takes no other configuration any more.
        self.is_final = False
        #: The weights that the second file has said so far, each with the name of the profile.
        self.weights: list[tuple[str, Mapping[str, int]]] = []
        folder.mkdir(parents=True)

    def write_own(self, documents: Documents, seconds: float) -> None:
        """Replace the first file, as of a time of the simulation."""
        self.is_final = documents.is_final
        write_file(self.own, orjson.dumps({**documents.own, "tls": dict(self._tls)}), seconds)

    def write_scheduler(self, documents: Documents, seconds: float) -> None:
        """Replace the second file."""
        for profile in documents.scheduler.get("profiles", ()):
            enabled = profile.get("plugins", {}).get("score", {}).get("enabled", ())
            said = profile["schedulerName"], {each["name"]: each["weight"] for each in enabled}
            if said not in self.weights:
                self.weights.append(said)
        write_file(self.scheduler, documents.broken or orjson.dumps(documents.scheduler), seconds)
