"""Run the notebooks, and store what they show; with --check compare it with what is stored.

python notebooks/run.py             # runs all, in place
python notebooks/run.py --check     # exit status 1 where text differs from what is stored; pictures are not compared
"""

from __future__ import annotations

import argparse
import base64
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))

from docs.few_colours import few_colours  # noqa: E402

_PICTURE = re.compile(r"(?<=data:image/png;base64,)[A-Za-z0-9+/=]+")
_CHANGING = re.compile(r"0x[0-9a-f]+|data:image/png;base64,[A-Za-z0-9+/=]+")


def run(path: Path) -> Any:
    """The notebook with fresh outputs; nothing in it says when or where it ran."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=120, record_timing=False, resources={"metadata": {"path": str(HERE)}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", ()):
            make_small(output.get("data", {}))
    notebook.metadata.get("language_info", {}).pop("version", None)
    return notebook


def make_small(data: dict[str, Any]) -> None:
    """Reduce the colours of pictures, also of those in HTML."""
    if "image/png" in data:
        data["image/png"] = _with_few_colours(data["image/png"])
    if "text/html" in data:
        data["text/html"] = _PICTURE.sub(lambda found: _with_few_colours(found[0]), data["text/html"])


def _with_few_colours(picture: str) -> str:
    return base64.b64encode(few_colours(base64.b64decode(picture))).decode()


def shown(notebook: Any) -> Iterator[str]:
    """What each cell shows, as text, without what changes from run to run.

    Printed text comes in as many pieces as it happens to be sent in; they are one here.
    """
    for number, cell in enumerate(notebook.cells):
        outputs = cell.get("outputs", ())
        printed = "".join(output.get("text", "") for output in outputs)
        results = [output["data"] for output in outputs if "data" in output]
        texts = [f"{sorted(data)} {data.get('text/plain')} {data.get('text/html')}" for data in results]
        yield f"cell {number}: " + _CHANGING.sub("*", "\n".join([printed, *texts]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    stale = []
    for path in sorted(HERE.glob("*.ipynb")):
        fresh = run(path)
        if not options.check:
            nbformat.write(fresh, path)
        elif list(shown(fresh)) != list(shown(nbformat.read(path, as_version=4))):
            stale.append(path.name)
    if stale:
        sys.exit(f"what is stored in {', '.join(stale)} is not what it shows now: run python notebooks/run.py")


if __name__ == "__main__":
    main()
