"""Write the pages of docs/ that have a template: NAME.in.md becomes NAME.md, with figures and outputs filled in.

``@VARIANT@`` stands for the median time of a variant in ms, ``@VARIANT:KEY@`` for another figure of it, both from
sample_traces/truth.json. ``@sweep-WAY-SIZE@`` is one tensor of pinning_sweep.json, ``@pin-SIZE:cold_ms@`` and
``@pin-SIZE:warm_ms@`` are ``pin_memory()`` in benchmarks/host_time.json. ``@loader-SETTINGS@`` is a step in
benchmarks/slow_loader.json.

In the line after a command, ``@output@`` stands for what the command prints, and
``@output: A | B@`` for its paragraphs that begin with A and with B.

python docs/make_pages.py [--check]
"""

from __future__ import annotations

import json
import re
import sys
from statistics import median
from typing import Any

from commands import ROOT, printed, shortened

from overlapscope.formatting import size

FOLDER = ROOT / "docs"
SAMPLES = ROOT / "sample_traces"
NOTE = "<!-- Made from {} by docs/make_pages.py; do not edit. -->\n\n"
_FIGURE = re.compile(r"@([\w-]+)(?::(\w+))?@")
_OUTPUT = re.compile(r"^\$ (overlapscope (?:.*\\\n)*.*)\n@output(?:: (.*))?@$", re.MULTILINE)


def figures() -> dict[str, dict[str, Any]]:
    """Every measured figure that a template may name, by the name before its colon; times in ms."""
    truth, sweep = (json.loads((SAMPLES / name).read_text("utf-8")) for name in ("truth.json", "pinning_sweep.json"))
    benchmarks = ROOT / "benchmarks"
    pinning = json.loads((benchmarks / "host_time.json").read_text("utf-8"))["pinning"]
    loader = json.loads((benchmarks / "slow_loader.json").read_text("utf-8"))
    steps = loader["step_ms"] | {"alone": [loader["alone_ms"]]}
    steps |= {f"first-{kept.lower()}": waits[1:] for kept, waits in loader["first_batch_ms"].items()}
    loading = {f"loader-{name}": _spread(times) for name, times in steps.items()}
    swept = {f"sweep-{row['way']}-{_place(row)}": _in_ms(row) for row in sweep["transfers"]}
    walls: dict[str, dict[str, Any]] = truth["unprofiled_wall"]
    return walls | swept | loading | {f"pin-{_place(row)}": _in_ms(row) for row in pinning}


def _place(row: dict[str, Any]) -> str:
    return size(row["size_bytes"]).replace(" ", "-")


def _spread(times: list[float]) -> dict[str, float]:
    return {"median_ms": median(times), "min_ms": min(times), "max_ms": max(times)}


def _in_ms(row: dict[str, Any]) -> dict[str, float]:
    return {key.replace("_us", "_ms"): value / 1e3 for key, value in row.items() if key.endswith("_us")}


def filled(template: str, walls: dict[str, dict[str, Any]]) -> str:
    def figure(place: re.Match[str]) -> str:
        return f"{walls[place[1]][place[2] or 'median_ms']:.3g}"

    return _FIGURE.sub(figure, _OUTPUT.sub(output, template))


def output(place: re.Match[str]) -> str:
    lines = printed(place[1])
    shown = shortened(lines, place[2].split(" | ")) if place[2] else lines
    return "\n".join([f"$ {place[1]}", *shown]).rstrip()


def main() -> None:
    measured = figures()
    for template in sorted(FOLDER.rglob("*.in.md")):
        target = template.with_name(template.name.replace(".in.md", ".md"))
        text = NOTE.format(template.name) + filled(template.read_text(encoding="utf-8"), measured)
        if "--check" not in sys.argv:
            target.write_text(text, encoding="utf-8")
        elif target.read_text(encoding="utf-8") != text:
            sys.exit(f"{target.relative_to(ROOT)} is out of date: run python docs/make_pages.py")


if __name__ == "__main__":
    main()
