"""What is served goes by feature gates."""

import io
from pathlib import Path

import pytest

from tests.contract import serving_frontend as support
from trireme.config import commandline
from trireme.frontend.serving import serving_site
from trireme_kube.componentbase.server import http_site


def _site(folder: Path, *flags: str) -> serving_site.FrontendSite:
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(support.kubeconfig_for("http://127.0.0.1:1"))
    arguments = [f"--kubeconfig={kubeconfig}", "--secure-port=0", *flags]
    start = commandline.Start(arguments, {}, io.StringIO(), io.StringIO(), lambda line: None)
    completed = start.run().completed
    assert completed is not None
    return serving_site.FrontendSite(completed, support.FakeFrontend().parts(), support.unchecked_server())


async def _text(site: serving_site.FrontendSite, path: str) -> str:
    page = site._pages()[path]
    reply = await page(http_site.Request("GET", path, {}, {"Accept": "text/plain"}, b""))
    assert reply is not None
    return reply.body.decode()


@pytest.mark.parametrize(("gate", "path"), [("ComponentFlagz", "/flagz"), ("ComponentStatusz", "/statusz")])
async def test_a_page_is_served_by_its_gate(tmp_path: Path, gate: str, path: str) -> None:
    """The gate of a page switches it off and on."""
    assert path in _site(tmp_path)._pages()
    assert path not in _site(tmp_path, f"--feature-gates={gate}=false")._pages()


async def test_statusz_names_flagz_only_where_it_is_served(tmp_path: Path) -> None:
    assert "/flagz" in await _text(_site(tmp_path), "/statusz")
    assert "/flagz" not in await _text(_site(tmp_path, "--feature-gates=ComponentFlagz=false"), "/statusz")


async def test_a_candidate_is_ready_once_its_informers_have_synced(tmp_path: Path) -> None:
    assert "informer-sync" not in await _text(_site(tmp_path), "/readyz")
    chosen = _site(tmp_path, "--feature-gates=CoordinatedLeaderElection=true")
    assert "[-]informer-sync failed" in await _text(chosen, "/readyz")
    alone = _site(tmp_path, "--feature-gates=CoordinatedLeaderElection=true", "--leader-elect=false")
    assert "informer-sync" not in await _text(alone, "/readyz")
