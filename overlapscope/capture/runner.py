"""Run a script that knows nothing of us, as ``python`` would."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, TracebackType

_INTERRUPTED = 130  # what a shell sees of a program that Ctrl-C has ended


def run_script(argv: list[str], *, module: bool = False) -> int:
    """Run ``argv[0]``, a script or a module's name, as ``python`` would, with the rest as its arguments.

    Returns:
        The exit status that ``python`` would have. An error of the script is shown at once.
    """
    name = argv[0]
    try:
        with _as_main(argv, "" if module else str(Path(name).resolve().parent)):
            if module:
                runpy.run_module(name, run_name="__main__", alter_sys=True)
            else:
                _run_file(name)
    except SystemExit as wish:
        if wish.code is None or isinstance(wish.code, int):
            return wish.code or 0
        print(wish.code, file=sys.stderr)  # noqa: T201 - what python does with it
        return 1
    except BaseException as error:  # noqa: BLE001 - whatever ends the script
        show(error)
        return _INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _run_file(name: str) -> None:
    """Run a script as ``__main__``. Unlike `runpy.run_path`, this leaves ``sys.argv[0]`` as it was given."""
    main = ModuleType("__main__")
    main.__file__ = str(Path(name).absolute())
    code = compile(Path(name).read_bytes(), main.__file__, "exec")
    old, sys.modules["__main__"] = sys.modules["__main__"], main
    try:
        exec(code, main.__dict__)  # noqa: S102 - what the command is for
    finally:
        sys.modules["__main__"] = old


@contextmanager
def _as_main(argv: list[str], folder: str) -> Iterator[None]:
    old_argv, old_path = sys.argv, list(sys.path)
    sys.argv, sys.path[0] = list(argv), folder
    try:
        yield
    finally:
        sys.argv, sys.path[:] = old_argv, old_path


_OURS = tuple(str(Path(__file__).resolve().parent.parent / name) for name in ("capture", "cli"))
_RUNPY = frozenset({"<frozen runpy>", sys.modules["runpy"].__file__ if "runpy" in sys.modules else ""})


def show(error: BaseException) -> None:
    """Let ``sys.excepthook`` show an error that ended a script."""
    for each in _chain(error, set()):
        each.__traceback__ = _without_ours(each.__traceback__)
    sys.excepthook(type(error), error, error.__traceback__)


def _chain(error: BaseException | None, seen: set[int]) -> Iterator[BaseException]:
    """An error, those that it comes from, and those in it."""
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    yield error
    inside = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    for each in (error.__cause__, error.__context__, *inside):
        yield from _chain(each, seen)


def _without_ours(trace: TracebackType | None) -> TracebackType | None:
    """The frames that are not ours, linked to each other."""
    frames = []
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if not (name.startswith(_OURS) or name in _RUNPY):
            frames.append(trace)
        trace = trace.tb_next
    following = None
    for frame in reversed(frames):
        frame.tb_next = following
        following = frame
    return following
