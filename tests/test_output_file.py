"""Output files: private, whole or not there, and never in place of a device or a link."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from disk_quota import files_at_most
from otel_drift.calibration.plot import check_plot
from otel_drift.errors import ConfigError, SinkError
from otel_drift.output_file import OutputFile, regular_target
from otel_drift.report.html import HtmlReport
from report import samples

RUN = {"judge": "rules", "judge_note": "", "paths": ["a.json"]}


def test_a_report_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "r.html"
    path.write_text("an earlier one that all could read")
    path.chmod(0o644)
    with HtmlReport(path, title="t", run=RUN) as page:
        page.add(samples.unit())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("size", [1_000, 70_000, 200_000])
def test_a_full_disk_is_one_clear_error_and_leaves_nothing(tmp_path: Path, size: int) -> None:
    """Whether it fills while the head, a session or the end is written."""
    path = tmp_path / "r.html"
    path.write_text("earlier")
    report = HtmlReport(path, title="t", run=RUN)
    with files_at_most(size), pytest.raises(SinkError, match=r"r\.html: cannot be written \(.+\)"), report as page:  # noqa: PT012
        for _ in range(40):
            page.add(samples.unit())
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("r.html", "earlier")]


def test_a_disk_that_fills_with_the_last_bytes_leaves_nothing(tmp_path: Path) -> None:
    """Small content waits in memory until the file is closed."""
    with files_at_most(10), pytest.raises(SinkError), OutputFile(tmp_path / "f") as file:
        file.write("twenty characters at least")
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    link, real = tmp_path / "latest.html", tmp_path / "deep" / "real.html"
    real.parent.mkdir()
    link.symlink_to(real)
    for text in ("first", "second"):
        with OutputFile(link) as file:
            file.write(text)
        assert link.is_symlink()
        assert real.read_text() == text


def test_devices_pipes_and_folders_are_refused(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo.html"
    os.mkfifo(fifo)
    (tmp_path / "to-null.html").symlink_to("/dev/null")
    for path in (fifo, tmp_path, Path("/dev/null"), tmp_path / "to-null.html"):
        with pytest.raises(ConfigError, match=r"is a (folder|device)"):
            HtmlReport(path, title="t", run=RUN).__enter__()
        with pytest.raises(ConfigError, match=r"is a (folder|device)"):
            regular_target(path)
    with pytest.raises(ConfigError, match="is a device"):
        check_plot(fifo)
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_something_in_the_way_of_the_partial_file_is_a_clear_error(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    (tmp_path / "r.html.partial").symlink_to(target)
    with pytest.raises(ConfigError, match=r"r\.html"):
        OutputFile(tmp_path / "r.html").__enter__()
    assert not target.exists()
