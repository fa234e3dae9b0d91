"""Write the pages of docs/ that have a template: NAME.in.md becomes NAME.md, with figures and outputs filled in.

``@VARIANT@`` stands for the median time of a variant in ms, ``@VARIANT:KEY@`` for another figure of it, both from
sample_traces/truth.json. In the line after a command, ``@output@`` stands for what the command prints, and
``@output: A | B@`` for its paragraphs that begin with A and with B.

python docs/make_pages.py [--check]
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from commands import ROOT, printed, shortened

FOLDER = ROOT / "docs"
TRUTH = ROOT / "sample_traces" / "truth.json"
NOTE = "<!-- Made from {} by docs/make_pages.py; do not edit. -->\n\n"
_FIGURE = re.compile(r"@([\w-]+)(?::(\w+))?@")
_OUTPUT = re.compile(r"^\$ (overlapscope (?:.*\\\n)*.*)\n@output(?:: (.*))?@$", re.MULTILINE)


def filled(template: str, walls: dict[str, dict[str, Any]]) -> str:
    def figure(place: re.Match[str]) -> str:
        return f"{walls[place[1]][place[2] or 'median_ms']:.3g}"

    return _FIGURE.sub(figure, _OUTPUT.sub(output, template))


def output(place: re.Match[str]) -> str:
    lines = printed(place[1])
    shown = shortened(lines, place[2].split(" | ")) if place[2] else lines
    return "\n".join([f"$ {place[1]}", *shown]).rstrip()


def main() -> None:
    walls = json.loads(TRUTH.read_text(encoding="utf-8"))["unprofiled_wall"]
    for template in sorted(FOLDER.rglob("*.in.md")):
        target = template.with_name(template.name.replace(".in.md", ".md"))
        text = NOTE.format(template.name) + filled(template.read_text(encoding="utf-8"), walls)
        if "--check" not in sys.argv:
            target.write_text(text, encoding="utf-8")
        elif target.read_text(encoding="utf-8") != text:
            sys.exit(f"{target.relative_to(ROOT)} is out of date: run python docs/make_pages.py")


if __name__ == "__main__":
    main()
