"""What users import, and what importing it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import overlapscope
from overlapscope import errors


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


def test_importing_is_light() -> None:
    heavy = ("torch", "matplotlib", "pandas", "pyarrow", "numpy", "typer", "rich", "nvtx")
    code = f"import sys, overlapscope; print([name for name in {heavy!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_analysis_needs_neither_torch_nor_pandas_nor_matplotlib() -> None:
    code = (
        "import sys\n"
        "for name in ('torch', 'nvtx', 'matplotlib', 'pandas', 'pyarrow'): sys.modules[name] = None\n"
        "import overlapscope\n"
        "print(overlapscope.audit(overlapscope.open_trace(sys.argv[1])).verdict)"
    )
    from tests.conftest import SAMPLES

    sample = SAMPLES / "gemm_copy-pageable-copy-first-non-blocking-side.json.gz"
    result = subprocess.run([sys.executable, "-c", code, str(sample)], capture_output=True, text=True, check=True)
    assert "6 copies" in result.stdout


def test_errors_are_one_tree_with_stable_codes() -> None:
    found = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    assert all(issubclass(error, overlapscope.OverlapscopeError) for error in found)
    codes = [error.code for error in found]
    assert len(set(codes)) == len(codes)
    assert errors.__doc__ is not None
    for error in found:
        assert error.__name__ in errors.__doc__
