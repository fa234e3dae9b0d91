"""What users import, and what importing it costs."""

from __future__ import annotations

import dataclasses
import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import overlapscope
from overlapscope import errors
from overlapscope.diagnosis.finding import Share
from overlapscope.measure.definitions import their_overlap
from overlapscope.measure.windows import whole
from tests.conftest import SAMPLES

SAMPLE = SAMPLES / "gemm_copy-pageable-copy-first-non-blocking-side.json.gz"


def test_all_names_exist_and_nothing_else_is_public() -> None:
    for name in overlapscope.__all__:
        assert getattr(overlapscope, name) is not None
    assert set(dir(overlapscope)) == {*overlapscope.__all__, "__version__"}
    with pytest.raises(AttributeError):
        _ = overlapscope.nothing_of_this_name  # type: ignore[attr-defined]


def test_a_package_and_a_function_never_share_a_name() -> None:
    import pkgutil

    packages = {module.name for module in pkgutil.iter_modules(overlapscope.__path__)}
    assert not packages & set(overlapscope.__all__)


def loaded(statement: str) -> set[str]:
    """The modules that a statement imports beyond those of an interpreter that starts."""
    code = f"import sys; before = set(sys.modules); {statement}\nprint(*(set(sys.modules) - before))"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_importing_is_light() -> None:
    """Nothing but a few modules of the standard library: milliseconds, whatever is installed."""
    modules = loaded("import overlapscope")
    assert {name.partition(".")[0] for name in modules} <= sys.stdlib_module_names | {"overlapscope"}
    assert {name for name in modules if name.startswith("overlapscope")} == {"overlapscope"}


def test_the_command_line_loads_commands_and_nothing_of_what_they_do() -> None:
    """Most of the time until a help text appears is that of imports."""
    modules = loaded(
        "from contextlib import redirect_stdout, suppress; import io, overlapscope.cli.main as cli\n"
        "with redirect_stdout(io.StringIO()), suppress(SystemExit): cli.app(['--help'])\n"
    )
    own = {name.removeprefix("overlapscope.") for name in modules if name.startswith("overlapscope.")}
    light = ("cli", "errors", "formatting", "calibration", "budget", "capture")
    names_of_changes = {"whatif", "whatif.changes"}
    assert {name for name in own if not name.startswith(light)} == names_of_changes
    assert {"rich", "pygments", "numpy"} & modules == set()


def test_analysis_needs_neither_torch_nor_pandas_nor_matplotlib() -> None:
    code = (
        "import sys\n"
        "for name in ('torch', 'nvtx', 'matplotlib', 'pandas', 'pyarrow'): sys.modules[name] = None\n"
        "import overlapscope\n"
        "print(overlapscope.audit(overlapscope.open_trace(sys.argv[1])).verdict)"
    )
    result = subprocess.run([sys.executable, "-c", code, str(SAMPLE)], capture_output=True, text=True, check=True)
    assert "6 copies" in result.stdout


def test_errors_are_one_tree_with_stable_codes() -> None:
    found = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    assert all(issubclass(error, overlapscope.OverlapscopeError) for error in found)
    codes = [error.code for error in found]
    assert len(set(codes)) == len(codes)
    assert errors.__doc__ is not None
    for error in found:
        assert error.__name__ in errors.__doc__


BUILT_IN = {
    errors.TraceNotFound: FileNotFoundError,
    errors.UnknownTraceFormat: ValueError,
    errors.UnusableTrace: ValueError,
    errors.RangeNotFound: KeyError,
    errors.WindowEmpty: ValueError,
    errors.ChangeNotUnderstood: ValueError,
    errors.BudgetNotUnderstood: ValueError,
    errors.OutputError: OSError,
    errors.CaptureError: RuntimeError,
}


@pytest.mark.parametrize("error", BUILT_IN, ids=lambda error: error.__name__)
def test_errors_are_the_built_in_ones_too_and_their_text_is_the_plain_sentence(error: type[Exception]) -> None:
    assert issubclass(error, BUILT_IN[error])
    sentence = "no range 'step': it's not there"
    assert str(error(sentence)) == sentence
    with pytest.raises(BUILT_IN[error]) as caught:
        raise error(sentence)
    assert str(caught.value) == sentence


def test_errors_keep_their_class_and_sentence_on_the_way_out(tmp_path: Path) -> None:
    """What is an OSError or a ValueError itself is not wrapped again by what catches these."""
    for path, words in ((tmp_path, "is a directory"), (tmp_path / "nowhere.json", "no such file")):
        with pytest.raises(FileNotFoundError, match=words) as missing:
            overlapscope.open_trace(path)
        assert type(missing.value) is errors.TraceNotFound
        assert str(missing.value).count(str(path)) == 1
    trace = overlapscope.open_trace(SAMPLE)
    with pytest.raises(OSError, match="cannot be written") as refused:
        overlapscope.save_timeline(trace, tmp_path / "no" / "where.png")
    assert str(refused.value).count("cannot be written") == 1
    with pytest.raises(KeyError) as unknown:
        overlapscope.audit(trace, "nowhere")
    assert str(unknown.value).startswith("no range 'nowhere'")


def test_the_public_surface_is_small() -> None:
    """Verbs, changes, errors, and the types that people annotate; parts of results live in their modules."""
    assert len(overlapscope.__all__) <= 60


def test_every_verb_takes_a_path_a_trace_and_an_analysis() -> None:
    trace = overlapscope.open_trace(SAMPLE)
    analysis = overlapscope.analyse(trace)
    for source in (str(SAMPLE), SAMPLE, trace, analysis):
        assert overlapscope.audit(source, plan=False).window.wall_ns == analysis.window.wall_ns
        assert overlapscope.what_if(source, "pin").predicted_ns == analysis.what_if("pin").predicted_ns
        assert len(overlapscope.copy_table(source)) == len(analysis.copies) == 6
    with pytest.raises(TypeError, match="expected an Analysis, an opened trace or its path, not int"):
        overlapscope.audit(7)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="by one of within=, step= and window="):
        overlapscope.analyse(trace, "gemm_copy", step=1)
    with pytest.raises(ValueError, match="by one of within=, step= and window="):
        overlapscope.analyse(trace, "gemm_copy", window=analysis.window)


def test_a_name_or_a_window_says_what_is_analysed() -> None:
    trace = overlapscope.open_trace(SAMPLE)
    named = overlapscope.audit(trace, "gemm_copy")
    again = overlapscope.audit(trace, within=named.window)
    assert again.to_dict() == named.to_dict()
    assert overlapscope.analyse(trace, within=named.window).diagnosis.to_dict() == named.diagnosis.to_dict()
    first = named.window.first_ns
    part = overlapscope.audit(trace, overlapscope.Window.between(first, first + 20_000_000))
    assert part.window.wall_ns == 20_000_000
    assert part.devices[0].activity.span_ns <= 20_000_000
    assert part.counts["copies"] == 3 < named.counts["copies"] == 6
    assert part.diagnosis.plan is not None
    everything = overlapscope.audit(trace, whole(trace))
    assert everything.to_dict() == overlapscope.audit(trace).to_dict()


def test_results_are_json_and_frames() -> None:
    trace = overlapscope.open_trace(SAMPLE)
    result = overlapscope.audit(trace, "gemm_copy")
    found = result.diagnosis
    assert result.to_pandas()["copy_busy_ns"].tolist() == [result.devices[0].activity.copies.total_ns]
    groups = result.devices[0].to_pandas()
    assert groups[["direction", "memory", "count"]].to_numpy().tolist() == [["HtoD", "pageable", 6]]
    frame = found.to_pandas()
    assert frame["code"].tolist() == [finding.code for finding in found.findings]
    assert frame["no_kernel_ns"].tolist() == [finding.idle_ns for finding in found.findings]
    assert set(frame.columns) >= {"message", "saving_ns", "source", "stream"}
    top = found.findings[0]
    assert top.to_pandas()["no_kernel_ns"].sum() == sum(entry.idle_ns for entry in top.places)
    assert found.plan is not None
    assert found.plan.to_pandas()["predicted_ns"].tolist() == [step.predicted_ns for step in found.plan.steps]
    assert found.plan.to_dict()["steps"] == found.to_dict()["plan"]
    assert len(overlapscope.analyse(trace, overlapscope.Window.between(0, 1)).diagnosis.to_pandas()) == 0
    columns = trace.copies.to_dict()
    assert set(columns) == set(trace.copies.to_pandas().columns)
    assert (columns["direction"][0], columns["graph_node"][0]) == ("HtoD", None)
    assert columns["start_ns"] == trace.copies.start_ns.tolist()
    (theirs,) = their_overlap(trace, "hta")
    assert theirs.to_pandas().iloc[0].to_dict() == theirs.to_dict()


def results_of(value: Any) -> Iterator[Any]:
    """The result, and every dataclass inside it that has a dictionary of its own."""
    if isinstance(value, tuple):
        for entry in value:
            yield from results_of(entry)
    elif dataclasses.is_dataclass(value) and hasattr(value, "to_dict"):
        yield value
        for entry in dataclasses.fields(value):
            yield from results_of(getattr(value, entry.name))


def test_every_result_of_an_audit_is_a_dictionary_and_a_frame() -> None:
    trace = overlapscope.open_trace(SAMPLE)
    results = [*results_of(overlapscope.audit(trace)), trace.health, *trace.health]
    assert len({type(result) for result in results}) > 12
    for result in results:
        assert json.loads(json.dumps(result.to_dict())) == result.to_dict()
        assert isinstance(result.to_pandas(), pd.DataFrame)
    (place,) = {type(result): result for result in results if isinstance(result, Share)}.values()
    assert place.to_pandas()["device"].tolist() == [place.where.device]
    assert place.to_pandas()["no_kernel_ns"].tolist() == [place.idle_ns]


@pytest.mark.parametrize("name", overlapscope.__all__)
def test_signatures_can_be_read(name: str) -> None:
    function = getattr(overlapscope, name)
    if inspect.isfunction(function):
        defaults = [entry.default for entry in inspect.signature(function).parameters.values()]
        assert all(len(repr(default)) < 60 and " at 0x" not in repr(default) for default in defaults)
