"""Public traces of several ranks, and their known stragglers."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlapscope import open_fleet
from tests.conftest import CORPUS
from tests.test_fleet import fleet

pytestmark = [
    pytest.mark.corpus,
    pytest.mark.skipif(not (CORPUS / "multirank").exists(), reason="no public traces here"),
]


@pytest.mark.parametrize(
    ("name", "ranks", "straggler", "code", "kind"),
    [
        ("torchrec-sleep", 4, 2, "OVL008", "host-work"),
        ("torchrec-opt5-qcomm", 4, 2, "OVL008", "host-work"),
        ("torchrec-resnet18", 2, 1, "OVL008", "host-work"),
        ("param-dlrm", 8, 7, "OVL008", "launch-bound"),
    ],
)
def test_the_straggler_and_its_cause(
    tmp_path: Path, name: str, ranks: int, straggler: int, code: str, kind: str
) -> None:
    found = open_fleet(fleet(CORPUS / "multirank" / name, tmp_path))
    assert found.to_pandas("ranks")["aligned"].tolist() == [True] * ranks
    first = found.to_pandas("stragglers").iloc[0]
    assert (first["rank"], first["code"], first["kind"]) == (straggler, code, kind)


def test_who_comes_last_is_who_starts_last_where_ranks_share_a_clock(tmp_path: Path) -> None:
    """The eight ranks of DLRM ran on one host: their kernels' recorded begins show the last rank by themselves."""
    found = open_fleet(fleet(CORPUS / "multirank" / "param-dlrm", tmp_path))
    collectives = found.to_pandas("collectives").sort_values("start_ns")
    last = collectives.drop_duplicates("match", keep="last").set_index(["op", "position"])["rank"].to_dict()
    matched = found.to_pandas("matched").set_index(["op", "position"])["last_rank"].to_dict()
    assert matched == last
    assert set(last.values()) == {4, 5, 7}
    assert found.to_pandas("ranks")["offset_ns"].abs().max() < 10_000
