"""Writes one self-contained page a run, session by session, so that memory does not grow with the run.

The page is a fixed skeleton, a fixed script and JSON. Trace text is only ever JSON in data blocks, which browsers do
not run, and the script puts it on screen as text nodes: no markup is made from it. The content security policy admits
nothing but that script and style (by hash), no request of any kind, and with Trusted Types no markup from strings.
"""

from __future__ import annotations

import base64
import hashlib
import html
import os
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import cache
from importlib import metadata, resources
from string import Template
from types import TracebackType
from typing import Any

import orjson

from otel_drift.links import Links
from otel_drift.model import Unit
from otel_drift.output_file import OutputFile
from otel_drift.report.escape import terminal_safe
from otel_drift.report.page_data import detail, index_entry

_SCRIPTS = ("dom.js", "store.js", "list.js", "evidence.js", "session.js", "longform.js", "arcs.js", "main.js")
_STYLES = ("base.css", "layout.css", "session.css", "longform.css")
_POLICY = (
    "default-src 'none'; script-src {script}; style-src {style}; img-src data:; base-uri 'none'; form-action 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)


class HtmlReport:
    """The page of one run, as a context manager: `add` units, and the file appears whole at the end.

    Until then a file of the same name with ``.partial`` grows beside it; after an exception that is removed and an
    earlier page stays as it was. Only its owner may read it: it holds trace text.

    Args:
        path: The file to write.
        title: Shown at the top and in the browser's tab.
        run: What is known of the run: ``judge``, ``judge_note``, ``paths`` (list) and further text values.
        links: Where spans and sessions are seen on the platform.

    Raises:
        ConfigError: on entering, when the file cannot be written.
        SinkError: later, when the disk does not take it.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, title: str, run: Mapping[str, Any], links: Links | None = None
    ) -> None:
        self._file = OutputFile(path)
        self._title = title
        self._run = dict(run)
        self._links = links

    def __enter__(self) -> HtmlReport:
        """Open the file and write everything above the first session."""
        run = {
            **self._run,
            "title": self._title,
            "version": metadata.version("otel-drift"),
            "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        }
        head = _head(self._title) + data_block(run, 'id="run"')
        with ExitStack() as stack:  # a head that cannot be written leaves nothing behind
            stack.enter_context(self._file).write(head)
            stack.pop_all()
        return self

    def add(self, unit: Unit) -> None:
        """Append one unit."""
        self._file.write(data_block(index_entry(unit), 'class="unit-index"'))
        self._file.write(data_block(detail(unit, self._links), 'class="unit"'))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Finish the page and put it in place, or remove what was begun if the run failed."""
        if kind is not None:
            self._file.__exit__(kind, error, traceback)
            return
        with ExitStack() as stack:
            stack.push(self._file)
            self._file.write(_tail())


def data_block(value: Mapping[str, Any], attribute: str) -> str:
    """A JSON data block that no text in it can end: ``<``, ``>`` and ``&`` are escaped, invisible text made visible."""
    text = orjson.dumps(_visible(value)).decode()
    text = text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    return f'<script type="application/json" {attribute}>{text}</script>\n'


def _visible(value: Any) -> Any:
    if isinstance(value, str):
        return terminal_safe(value, multiline=True)
    if isinstance(value, Mapping):
        return {terminal_safe(str(key)): _visible(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_visible(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float) else terminal_safe(str(value))


def _head(title: str) -> str:
    style, script = _style(), _script()
    return Template(_asset("page.html")).substitute(
        title=html.escape(terminal_safe(title)),
        policy=html.escape(_POLICY.format(script=_hash(script), style=_hash(style))),
        style=style,
    )


def _tail() -> str:
    return f"<script>{_script()}</script>\n</body>\n</html>\n"


@cache
def _script() -> str:
    return '"use strict";\n(() => {\n' + "\n".join(_asset(name) for name in _SCRIPTS) + "})();\n"


@cache
def _style() -> str:
    return "\n".join(_asset(name) for name in _STYLES)


def _asset(name: str) -> str:
    return (resources.files("otel_drift.report") / "page" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
