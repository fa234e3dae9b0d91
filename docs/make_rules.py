"""Write docs/rules.md and docs/rules/*.md from the rules' own docstrings.

python docs/make_rules.py [--check]
"""

from __future__ import annotations

import sys
from pathlib import Path

from overlapscope.diagnosis.catalogue import RULES
from overlapscope.diagnosis.rule import Rule

INDEX = Path(__file__).with_name("rules.md")
FOLDER = Path(__file__).with_name("rules")
HEAD = """# Findings

Made from the docstrings in `overlapscope/diagnosis/rules/` by `docs/make_rules.py`; do not edit. `overlapscope explain
CODE` prints the same pages.

| code | name | pattern |
|---|---|---|
"""
TAIL = """
```{toctree}
:hidden:
:glob:

rules/*
```
"""


def pages() -> dict[Path, str]:
    rows = "".join(f"| [{rule.code}](rules/{rule.code}.md) | `{rule.name}` | {rule.title} |\n" for rule in RULES)
    return {INDEX: HEAD + rows + TAIL} | {FOLDER / f"{rule.code}.md": page(rule) for rule in RULES}


def page(rule: Rule) -> str:
    body = "\n\n".join(f"## {heading}\n\n{text}" for heading, text in rule.sections.items())
    return f"# {rule.code} {rule.title}\n\n`{rule.name}`\n\n{body}\n"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for path, text in pages().items():
        if "--check" not in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            sys.exit(f"{path.name} is out of date: run python docs/make_rules.py")


if __name__ == "__main__":
    main()
