"""What pytest loads: the options, the marker and the fixture ``overlap``.

It is loaded in every run of pytest where overlapscope is installed, and imports nothing heavy before a test asks for
it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from overlapscope.budget.limits import Limits
    from overlapscope.pytest_plugin.overlap import Overlap

_MARKER = "overlap"
_OVERLAP: pytest.StashKey[Overlap] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and the setting."""
    group = parser.getgroup("overlapscope")
    group.addoption(
        "--overlap-update-baseline", action="store_true", help="write the baselines of run.assert_baseline()"
    )
    group.addoption(
        "--overlap-require-gpu",
        action="store_true",
        help="fail tests that cannot record, do not skip them",
    )
    group.addoption("--overlap-figures", metavar="DIR", help="where timelines of failures go (default: tmp_path)")
    parser.addini("overlap_baselines", "folder of baselines, beside the tests", default="overlap_baselines")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line("markers", f"{_MARKER}(within=None, no=[...], syncs=..., hidden=...): limits on its runs")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse a marker that is malformed before its test runs."""
    _limits_of(item)


@pytest.fixture
def overlap(request: pytest.FixtureRequest, tmp_path: Path) -> Overlap:
    """Record what a test does on the GPU, or open a recorded trace, and assert what it may cost."""
    from overlapscope.pytest_plugin.overlap import Overlap, safe_name
    from overlapscope.pytest_plugin.run import Settings

    config, within_file = request.config, request.node.nodeid.split("::")[1:]
    name = safe_name(".".join([request.path.stem, *within_file]))
    figures = config.getoption("--overlap-figures")
    settings = Settings(
        folder=tmp_path,
        figure=(tmp_path if figures is None else config.invocation_params.dir / figures) / f"{name}.png",
        baseline=request.path.parent / config.getini("overlap_baselines") / f"{name}.json",
        update_baseline=config.getoption("--overlap-update-baseline"),
        require_gpu=config.getoption("--overlap-require-gpu"),
        root=config.rootpath,
    )
    request.node.stash[_OVERLAP] = made = Overlap(settings)
    return made


@pytest.hookimpl(trylast=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """After a test that passed, check its runs against its markers."""
    limits = _limits_of(item)
    if not limits:
        return
    used = item.stash.get(_OVERLAP, None)
    if used is None or not used.runs:
        pytest.fail(f"marked with {_MARKER}, but it has recorded and opened nothing", pytrace=False)
    broken = [text for run in used.runs for within, each in limits if (text := run.broken(each, within))]
    if broken:
        pytest.fail("\n".join(broken), pytrace=False)


def _limits_of(item: pytest.Item) -> list[tuple[str | None, Limits]]:
    """The limits in the markers of a test, each with its range."""
    markers = list(item.iter_markers(_MARKER))
    if not markers:
        return []
    from overlapscope.errors import BudgetNotUnderstood
    from overlapscope.pytest_plugin.run import limits_of

    try:
        return [limits_of(marker.args, marker.kwargs) for marker in markers]
    except BudgetNotUnderstood as error:
        path, line, _ = item.location
        pytest.fail(f"{path}:{(line or 0) + 1}: {error}", pytrace=False)
