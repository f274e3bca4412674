"""`make audit` finds a vulnerability that is known, and says so where it can find nothing."""

import asyncio
import subprocess
import sys
from pathlib import Path

import aiohttp
from aiohttp import web

AUDIT = Path(__file__).with_name("dependency_audit.py")


async def _query(request: web.Request) -> web.Response:
    """A server of vulnerabilities that knows one, of the aiohttp that is installed."""
    package = (await request.json())["package"]["name"]
    affected = {"package": {"name": "aiohttp", "ecosystem": "PyPI"}, "ranges": []}
    known = {"id": "TEST-2026-1", "modified": "2026-01-01T00:00:00Z", "summary": "a test", "affected": [affected]}
    return web.json_response({"vulns": [known]} if package == "aiohttp" else {})


async def _audit(url: str) -> tuple[int, str]:
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, str(AUDIT), f"--osv-url={url}"], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


async def test_a_known_vulnerability_is_named() -> None:
    """A release with a vulnerable library would go out unnoticed."""
    application = web.Application()
    application.router.add_post("/v1/query", _query)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        code, output = await _audit(f"http://127.0.0.1:{port}/v1/query")
    finally:
        await runner.cleanup()
    assert code == 1, output
    assert f"aiohttp {aiohttp.__version__}: TEST-2026-1" in output
    assert "1 known vulnerabilities in " in output


async def test_without_network_it_says_that_it_was_skipped() -> None:
    """Silence would be taken for a clean result."""
    code, output = await _audit("http://127.0.0.1:9/v1/query")
    assert code == 0
    assert output.startswith("SKIPPED: ")
