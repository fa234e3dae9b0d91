"""Fixes fit the place that a finding names."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from importlib import import_module

import pytest

from overlapscope.diagnosis import rules
from overlapscope.diagnosis.catalogue import RULES
from overlapscope.diagnosis.rule import D2H_CUDA_FIX, D2H_FIX, Report, Rule
from tests.rules import place


def test_a_rule_has_a_fix_for_any_place() -> None:
    assert all(entry.fix_for(place()) for entry in RULES)


@pytest.mark.parametrize("entry", [each for each in RULES if each.code < "OVL100"], ids=lambda each: each.code)
def test_a_program_without_pytorch_gets_no_pytorch(entry: Rule) -> None:
    """For any place, and whatever a report says for PyTorch."""
    report = Report("found", {}, fix="loss.item()")
    for where in (place(), place("aten::copy_", "cudaMemcpyAsync", "load weight")):
        fix = entry.fix_of(report, where, pytorch=False)
        assert not re.search(r"torch|\.py\b|item\(\)|non_blocking|DataLoader|with_stack|batch", fix)
    assert entry.fix_of(report, place(), pytorch=True) == "loss.item()"


def _texts(entry: Rule) -> Iterator[str]:
    """What a rule can print as a fix: every text of its module; and the code after the change on its page."""
    module = ast.parse(inspect.getsource(import_module(f"{rules.__name__}.{entry.code.lower()}_{_words(entry)}")))
    documentation = ast.get_docstring(module, clean=False)
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value != documentation:
            yield node.value
    for block in re.findall(r"```python\n(.*?)```", entry.page, re.DOTALL):
        yield block.rpartition("# after")[2]


def _words(entry: Rule) -> str:
    return entry.name.replace("-", "_")


@pytest.mark.parametrize("text", [*(text for each in RULES for text in _texts(each)), D2H_FIX])
def test_a_fix_with_another_stream_does_not_race(text: str) -> None:
    """New memory is told of the stream that uses it, memory that stays is waited for, and both before they are used."""
    if "with torch.cuda.stream(" in text and "non_blocking" in text:
        assert re.search(r"\.wait_(stream|event)\(", text)
        assert "record_stream(" in text or not re.search(r"\.to\(", text)
        for stream in re.findall(r"with torch\.cuda\.stream\((\w+)\):\n(?: .*\n)* +\S*\.copy_\(", text):
            assert f"{stream}.wait_" in text


@pytest.mark.parametrize("entry", RULES, ids=lambda each: each.code)
def test_a_printed_fix_with_another_stream_has_both_calls(entry: Rule) -> None:
    """So does the fix for copies to the host, which several rules print."""
    for text in (entry.fix, *(each.fix for each in entry.fixes), D2H_FIX):
        if "torch.cuda.stream(" in text:
            assert "wait_stream(" in text
            assert "record_stream(" in text
    for text in (entry.cuda_fix, D2H_CUDA_FIX):
        if re.search(r"cudaMemcpyAsync\(.*, side\)", text):
            before, _, after = text.partition("cudaMemcpyAsync")
            assert "cudaStreamWaitEvent(side" in before
            assert "cudaStreamWaitEvent(stream" in after
