"""``overlapscope explain``, ``demo`` and ``workloads``: pages, a sample and programs to learn from."""

from __future__ import annotations

import difflib
import tempfile
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from overlapscope.cli.command import command
from overlapscope.cli.output import ExitCode, note_old_code, print_lines, render_to, say
from overlapscope.cli.what_if import complete_change

if TYPE_CHECKING:
    from rich.console import Console

_DEMO_RANGE = "gemm_copy"
_DEMO = (
    "Six rounds of two matrix products and a 64 MiB copy from pageable memory, on an H200. Most of the copy time "
    "overlaps kernels. Is that good?\n"
)


def complete_page(begun: str) -> list[str]:
    """Codes and names of rules, and names of changes, that begin like this, for shell completion."""
    from overlapscope.diagnosis.catalogue import RULES

    words = [*(entry.code for entry in RULES), *(entry.name for entry in RULES)]
    return [word for word in words if word.startswith(begun)] + complete_change(begun)


@command("explain")
def explain_command(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="A rule (OVL001, pageable-copy) or a change (pin); without it, all are listed.",
            autocompletion=complete_page,
        ),
    ] = None,
) -> ExitCode:
    """Explain a finding (what happens, how it shows in a trace, how to fix it) or a change that what-if simulates."""
    page = None if name is None else _page(name)
    note_old_code(name)
    if name is not None and page is None:
        say(_unknown(name))
        return ExitCode.UNUSABLE
    render_to(None, lambda console: print_lines(_listing(), console) if page is None else _print(page, console))
    return ExitCode.CLEAN


def _page(name: str) -> str | None:
    """The page of a rule by its code or name, or of a change."""
    from overlapscope.diagnosis.catalogue import rule
    from overlapscope.whatif.catalogue import change_of

    if (change := change_of(name.lower())) is not None:
        return f"# {change.name}: {change.page()}"
    try:
        entry = rule(name)
    except KeyError:
        return None
    return f"# {entry.code} {entry.title}\n" + entry.page.split("\n", 1)[1]


def _listing() -> list[str]:
    from overlapscope.diagnosis.catalogue import RULES
    from overlapscope.whatif.catalogue import CHANGES

    entries = [(f"{entry.code} {entry.name}", entry.title) for entry in RULES]
    entries += [(kind.name, kind.page().splitlines()[0]) for kind in CHANGES]
    width = max(len(name) for name, _ in entries)
    return [f"{name:{width}}  {title}" for name, title in entries]


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name.lower(), [word.lower() for word in complete_page("")], n=3)
    hint = f"; did you mean {' or '.join(near)}?" if near else "; overlapscope explain lists all"
    return f"no rule or change {name!r}{hint}"


def _print(text: str, console: Console) -> None:
    from rich.markdown import Markdown

    console.print(Markdown(text) if console.is_terminal else text, soft_wrap=not console.is_terminal, markup=False)


@command("demo")
def demo_command(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The folder for the figure; a temporary one without it.")
    ] = None,
) -> None:
    """Audit a small trace from the package, and draw its timeline."""
    from overlapscope.document.text import show
    from overlapscope.plot.timeline import save_timeline
    from overlapscope.read.opening import open_trace
    from overlapscope.report.content import audit
    from overlapscope.report.screen import first_screen

    def show_all(console: Console) -> None:
        console.print(_DEMO)
        show(first_screen(result, console.width, f" --within {_DEMO_RANGE}"), console)

    with as_file(files("overlapscope.cli") / "demo.json.gz") as path:
        trace = open_trace(path)
    result = audit(trace, _DEMO_RANGE)
    render_to(None, show_all)
    figure = _folder(output) / "timeline.png"
    save_timeline(result.analysis, figure)
    say(f"the timeline is in {figure}; for your own trace: overlapscope audit TRACE --figure FILE")


def _folder(path: Path | None) -> Path:
    from overlapscope.atomic_files import output_errors

    with output_errors(path or Path(tempfile.gettempdir())):
        if path is None:
            return Path(tempfile.mkdtemp(prefix="overlapscope-demo-"))
        path.mkdir(parents=True, exist_ok=True)
        return path


@command("workloads")
def workloads_command() -> None:
    """List the example programs with overlap problems, their variants, and which variant fixes which."""
    from overlapscope.workloads.harness import workloads

    lines = []
    for workload in workloads():
        lines += [f"python -m {workload.module} --variant NAME", f"  {workload.question}"]
        width = max(len(variant.name) for variant in workload.variants)
        for variant in workload.variants:
            fixed_by = f" -> {variant.fixed_by}" if variant.fixed_by else ""
            lines.append(f"    {variant.name:{width}}  {variant.summary}{fixed_by}")
        lines.append("")
    lines.append("All of them take --trace FILE to record, --device cpu to run without a GPU, and --help.")
    render_to(None, lambda console: print_lines(lines, console))
