"""Write the golden texts anew: ``python -m tests.golden``, with options of pytest such as ``-k audit`` for a part."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator

from tests.golden import FOLDER, WRITE


def tests() -> Iterator[str]:
    """The tests that compare a golden text."""
    for path in sorted(FOLDER.parent.rglob("test_*.py")):
        if "same_as_golden(" in (text := path.read_text()):
            for node in ast.parse(text).body:
                if isinstance(node, ast.FunctionDef) and "same_as_golden(" in ast.unparse(node):
                    yield f"{path}::{node.name}"


if __name__ == "__main__":
    command = [sys.executable, "-m", "pytest", "-q", *tests(), *sys.argv[1:]]
    sys.exit(subprocess.run(command, env=os.environ | {WRITE: "1"}, check=False).returncode)
