"""Makes the pictures of the README and the guides from a real run over the example traces.

usage: make_pictures.py [FOLDER]    (needs Chromium, and playwright from the development dependencies)

Writes into FOLDER, by default beside itself: ``timeline.png`` (the page in Chromium), ``terminal.svg`` (a terminal).
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

HERE = Path(__file__).resolve().parent
TRACES = HERE.parents[1] / "traces"
SESSION = "telecom"
"""The example session in the page's picture: its contradiction fits one screen."""
DRAWN = "pension"
"""The one in the terminal's: it has a finding of each type."""
COLUMNS = 96
FONTS = "ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace"
CHROMIUM_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]


def main(target: Path) -> None:
    """Audit the examples and draw what came out."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        audit(TRACES, "--html", page, "--ledger", Path(folder) / "ledger.db")
        [shown] = [path for path in TRACES.iterdir() if path.name.startswith(DRAWN)]
        text = audit(shown, "--ledger", Path(folder) / "other.db")
        draw_page(page, target / "timeline.png")
    draw_terminal(text, target / "terminal.svg")


def audit(*arguments: object) -> str:
    """Run ``otel-drift audit`` as on a colour terminal and return what it wrote."""
    run = subprocess.run(  # noqa: S603 (this interpreter, our own module)
        [sys.executable, "-m", "otel_drift", "audit", *map(str, arguments)],
        env={**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(COLUMNS), "TERM": "xterm-256color"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return run.stdout


def draw_page(page: Path, target: Path) -> None:
    """Take a picture of the page with a contradiction's evidence open."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=CHROMIUM_FLAGS)
        tab = browser.new_page(viewport={"width": 1440, "height": 1240}, device_scale_factor=1.25, color_scheme="light")
        tab.goto(page.as_uri())
        tab.locator("#list .entry", has_text=SESSION).click()
        event = tab.locator(".event", has_text=re.compile("contradiction", re.IGNORECASE)).first
        event.get_by_role("button", name="Show evidence").click()
        tab.mouse.move(0, 0)
        tab.evaluate("scrollTo(0, document.querySelector('main').offsetTop - 8)")
        tab.wait_for_timeout(300)
        tab.screenshot(path=target)
        browser.close()


def draw_terminal(text: str, target: Path, lines: int = 60) -> None:
    """Turn coloured terminal text into an SVG that fetches no font."""
    console = Console(width=COLUMNS, record=True, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi("\n".join(text.splitlines()[:lines])))
    svg = console.export_svg(title="otel-drift audit", theme=DIMMED_MONOKAI)
    svg = re.sub(r"@font-face \{.*?\}\n", "", svg, flags=re.DOTALL)
    target.write_text(svg.replace("Fira Code, monospace", FONTS), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
