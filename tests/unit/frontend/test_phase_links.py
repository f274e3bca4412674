"""PhaseLinks: the replicas of all phases as one, with insight or without."""

from types import SimpleNamespace
from typing import Any

import pytest

from trireme.frontend.phase_clients import phase_links


class Replicas:
    """Those of one phase."""

    def __init__(self) -> None:
        self.available = True
        self.heard: list[str] = []
        self.supervisor = object()

    def restart(self) -> None:
        self.heard.append("restarted")

    def announce_again(self) -> None:
        self.heard.append("announced again")

    async def close(self) -> None:
        self.heard.append("closed")


@pytest.mark.parametrize("with_insight", [True, False])
async def test_the_replicas_of_all_phases_begin_anew_and_end_together(with_insight: bool) -> None:
    filters, scores, binders, insight = (Replicas() for _ in range(4))
    parts: Any = (filters, scores, binders, SimpleNamespace(replicas=insight) if with_insight else None)
    links = phase_links.PhaseLinks(*parts)
    followers = {"filter": filters, "score": scores} | ({"insight": insight} if with_insight else {})
    assert links.followers() == followers
    assert links.supervisors() == [each.supervisor for each in (binders, *followers.values())]
    links.restart()
    await links.close()
    assert [each.heard for each in followers.values()] == [["restarted", "closed"]] * len(followers)
    assert binders.heard == ["announced again", "closed"]
    assert insight.heard == (["restarted", "closed"] if with_insight else [])


@pytest.mark.parametrize("missing", [(), ("filter",), ("score",), ("bind",), ("filter", "bind")])
def test_every_phase_is_needed_and_insight_is_not(missing: tuple[str, ...]) -> None:
    phases = {name: Replicas() for name in ("filter", "score", "bind", "insight")}
    phases["insight"].available = False
    for name in missing:
        phases[name].available = False
    parts: Any = (phases["filter"], phases["score"], phases["bind"], SimpleNamespace(replicas=phases["insight"]))
    links = phase_links.PhaseLinks(*parts)
    assert (links.available(), links.missing()) == (not missing, list(missing))
