"""The view of a long answer in a real browser."""

from __future__ import annotations

from report.test_longform import example
from servers.test_report_chromium import Open, browser, page_of, pytestmark  # noqa: F401 - fixtures of the page


def test_the_curve_the_sections_and_the_sentences_work(page_of: Open) -> None:  # noqa: F811
    page = page_of(example())
    assert page.locator(".curve .point").count() == 5
    assert page.locator(".sections li").count() == 5
    assert page.locator(".sentences .sentence").count() == 20
    assert page.locator(".here + .sentence .number").inner_text() == "10"

    page.locator(".curve .point").first.click()
    panel = page.locator("#evidence")
    assert "the source says “most likely”" in panel.inner_text()
    assert panel.locator("mark.quoted").inner_text().startswith("Surface rust was found on four")

    page.locator(".sentences .sentence").nth(3).press("Enter")
    assert "not inspected" in panel.locator("mark.quoted").inner_text()
    page.set_viewport_size({"width": 400, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
