"""A job of traces that are audited already, without a folder that stays."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from overlapscope.fleet.config import DEFAULT
from overlapscope.fleet.gather import found_traces, gather
from overlapscope.fleet.job import Job, job_of
from overlapscope.fleet.map import part_of
from overlapscope.fleet.ranks import ranks_of, unranked
from overlapscope.fleet.store import write_part
from overlapscope.fleet.task import Outcome
from overlapscope.report.data import Audit


def job_of_audits(audits: Sequence[Audit]) -> Job:
    """Compare the traces as ranks of a job; without ranks where several are of the same one, as before and after a fix.

    Raises:
        OutputError: there is no room for temporary files.
    """
    with tempfile.TemporaryDirectory(prefix="overlapscope-") as name:
        folder, outcomes = Path(name), []
        (folder / "parts").mkdir()
        for number, audited in enumerate(audits):
            key = f"{number:08}"
            write_part(folder, key, part_of(audited, ""))
            outcomes.append(Outcome(audited.trace.metadata.path, key))
        found = found_traces(folder, outcomes)
        ranks = ranks_of(found)
        ranks = unranked(found) if ranks.twice else ranks
        gather(folder, outcomes, [ranks.members])
        return job_of(folder, ranks, DEFAULT)
