"""The console where the API server reviews its readers: the login, and what a reader with few rights sees."""

import re
from pathlib import Path

import pytest
from playwright import async_api

from tests.helpers import chromium
from tests.helpers import insight_http as support
from tests.helpers.recorded_decisions import record_folder
from tests.helpers.recordings import BEGIN

pytestmark = [
    pytest.mark.timeout(200),
    pytest.mark.skipif(chromium.PATH is None, reason=chromium.MISSING),
]

async_api.expect.set_options(timeout=chromium.PATIENCE_SECONDS * 1000)


async def _log_in(page: async_api.Page, token: str) -> None:
    await page.get_by_label("Bearer token").fill(token)
    await page.get_by_role("button", name="Log in").click()


async def test_the_token_is_forgotten_when_the_page_is_loaded_again(tmp_path: Path) -> None:
    """The next one at the machine would read the cluster by a token that nobody remembers to have left there."""
    async with support.served(tmp_path) as served, async_api.async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium.PATH, args=list(chromium.FLAGS))
        page = await browser.new_page(ignore_https_errors=True)
        await page.goto(served.url)
        await _log_in(page, "wrong")
        await async_api.expect(page.get_by_role("alert")).to_contain_text("Unauthorized")
        await _log_in(page, "operator-token")
        await async_api.expect(page.locator(".figures")).to_contain_text("3 nodes")
        assert await page.evaluate("() => [localStorage.length, sessionStorage.length, document.cookie]") == [0, 0, ""]
        await page.reload()
        await async_api.expect(page.get_by_label("Bearer token")).to_be_visible()
        assert await page.get_by_label("Bearer token").input_value() == ""
        await browser.close()


async def test_a_reader_with_few_rights_sees_what_is_missing(tmp_path: Path) -> None:
    """An empty page would look like an empty cluster."""
    async with support.served(tmp_path) as served, async_api.async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium.PATH, args=list(chromium.FLAGS))
        page = await browser.new_page(ignore_https_errors=True)
        await page.goto(f"{served.url}/#/nodes")
        await _log_in(page, "developer-token")
        await async_api.expect(page.get_by_text("may not list nodes in the whole cluster")).to_be_visible()
        await page.get_by_role("link", name=re.compile("Pending")).click()
        await async_api.expect(page.get_by_role("heading", name="Pending pods")).to_be_visible()
        await page.goto(f"{served.url}/#/pods/default/large")
        await async_api.expect(page.get_by_role("region", name="What nodes say")).to_contain_text("Insufficient cpu")
        assert not re.search(r"\bn[012]\b", await page.locator("main").inner_text())
        await browser.close()


async def test_a_link_to_a_moment_asks_for_a_token_first_and_for_the_right_to_see_all(tmp_path: Path) -> None:
    """A user who gets the link of an incident would see an empty page, or more than their rights allow."""
    await record_folder(tmp_path / "recordings")
    async with (
        support.served(tmp_path, recordings=tmp_path / "recordings") as served,
        async_api.async_playwright() as playwright,
    ):
        browser = await playwright.chromium.launch(executable_path=chromium.PATH, args=list(chromium.FLAGS))
        page = await browser.new_page(ignore_https_errors=True)
        await page.goto(f"{served.url}/?at={BEGIN // 1_000_000 + 1000}#/")
        await _log_in(page, "developer-token")
        await async_api.expect(page.get_by_text("may see what was recorded").first).to_be_visible()
        await page.get_by_role("button", name="Log out").click()
        await _log_in(page, "operator-token")
        await async_api.expect(page.get_by_role("slider", name="Moment")).to_be_visible()
        await async_api.expect(page.locator(".figures")).to_contain_text("2 nodes")
        await page.get_by_role("button", name="Back to now").click()
        await async_api.expect(page.locator(".figures")).to_contain_text("3 nodes")
        await browser.close()
