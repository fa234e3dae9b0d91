"""Every kind of dependency says what is known of it, and from where."""

from __future__ import annotations

import pytest

from overlapscope.dependencies.kinds import FACTS, DependencyKind


@pytest.mark.parametrize("kind", DependencyKind, ids=lambda kind: kind.label)
def test_every_kind_has_a_fact_and_a_source(kind: DependencyKind) -> None:
    fact, source = FACTS[kind]
    assert fact
    assert source
    assert fact != source
    assert not fact.endswith("."), "it stands inside sentences"


def test_labels_are_told_apart() -> None:
    assert len({kind.label for kind in DependencyKind}) == len(DependencyKind) == len(FACTS)
