"""A worker process: tasks come as lines of JSON on its standard input, outcomes go out on its standard output.

python -m overlapscope.fleet.worker
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import asdict

from overlapscope.fleet.task import Task
from overlapscope.fleet.work import work


def main() -> None:
    """Work until the standard input ends, or whoever started it ends it: an interrupt is for that one to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever a library prints is no answer
    for line in sys.stdin:
        print(json.dumps(asdict(work(Task(**json.loads(line))))), file=answers)


if __name__ == "__main__":
    main()
