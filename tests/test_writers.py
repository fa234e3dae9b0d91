"""What is written is there as a whole or not at all, whatever happens meanwhile."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

import pytest
from typer.testing import CliRunner

from overlapscope.atomic_files import writing
from overlapscope.cli.main import app
from overlapscope.errors import OutputError
from overlapscope.read.opening import open_trace
from tests.conftest import ROOT, SAMPLES

SAMPLE = SAMPLES / "gemm_copy-pageable-copy-first-blocking-same.json.gz"
OUTPUTS = {
    "audit": ["audit", "{in}", "--format", "json", "-o", "{out}.json"],
    "check": ["check", "{in}", "--config", "{limits}", "--junit", "{out}.xml"],
    "scrub": ["scrub", "{in}", "{out}.json.gz"],
    "what-if": ["what-if", "{in}", "--change", "pin", "-o", "{out}.txt"],
    "compare": ["compare", "{in}", "{in}", "--html", "{out}.html"],
    "report": ["report", "{in}", "-o", "{out}.html"],
    "copies": ["copies", "{in}", "-o", "{out}.parquet"],
    "timeline": ["timeline", "{in}", "-o", "{out}.svg"],
    "perfetto": ["export", "{in}", "--format", "perfetto", "-o", "{out}.json"],
    "parquet": ["export", "{in}", "--format", "parquet", "-o", "{out}"],
}
WRITER = """
import sys
from pathlib import Path
from overlapscope.atomic_files import writing
print("ready", flush=True)
for number in range(10**9):
    with writing(Path(sys.argv[1])) as file:
        for _ in range(50):
            file.write(b"%06d" % (number % 10**6) * 1000)
"""


def arguments(name: str, source: Path, folder: Path) -> list[str]:
    limits = folder.parent / "limits.toml"
    limits.write_text("[check]\npageable_bytes = 1000\n")
    places = {"in": str(source), "out": str(folder / "out"), "limits": str(limits)}
    return [part.format(**places) for part in OUTPUTS[name]]


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_full_disk_is_said_and_leaves_nothing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files may grow to 64 bytes, as the last ones of a disk."""
    folder = tmp_path / "results"
    folder.mkdir()
    command = arguments(name, SAMPLE, folder)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # compiled modules would be cut short, and kept
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, limits[1]))
    try:
        result = CliRunner().invoke(app, command)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)
    assert "cannot be written" in result.output
    assert [path for path in folder.rglob("*") if path.is_file()] == []


def test_a_full_disk_for_temporary_files_is_said() -> None:
    """A packed database is unpacked there to be read."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, limits[1]))
    try:
        with pytest.raises(OutputError, match="cannot be unpacked"):
            open_trace(SAMPLE.with_name("gemm_copy-pageable-copy-first-blocking-side.sqlite.gz"), cache=False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("name", ["scrub", "timeline", "parquet"])
def test_a_folder_that_takes_nothing_is_said(name: str, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("a file where a folder is asked for")
    result = CliRunner().invoke(app, arguments(name, SAMPLE, taken))
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)


ONTO_ITS_INPUT = (
    "scrub IN ON", "audit IN -o ON", "audit IN --figure ON", "what-if IN --change pin -o ON", "doctor IN -o ON",
    "what-if IN --change pin --figure ON", "compare IN OTHER --html ON", "compare OTHER IN --figure ON",
    "compare OTHER IN -o ON", "timeline IN -o ON", "report IN -o ON", "export IN --format perfetto -o ON",
    "export IN --format parquet -o ON", "copies IN -o ON", "gaps IN -o ON", "findings IN -o ON", "ranges IN -o ON",
    "fleet IN --page ON", "check IN -o ON", "check IN --junit ON", "check IN --summary ON",
    "check IN --baseline ON --update-baseline", "check OTHER --config IN -o ON", "check OTHER --baseline IN -o ON",
    "transfers IN -o ON", "record -o ON IN",
)  # fmt: skip


@pytest.mark.parametrize("command", ONTO_ITS_INPUT)
def test_what_is_read_is_never_written_over(command: str, tmp_path: Path) -> None:
    """By its own name, through a symbolic link, and by the other name of a hard link."""
    source = Path(shutil.copy(SAMPLE, tmp_path / "trace.svg"))
    (tmp_path / "soft.svg").symlink_to(source)
    (tmp_path / "hard.svg").hardlink_to(source)
    for name in ("trace", "soft", "hard"):
        places = {"IN": source, "OTHER": SAMPLE, "ON": tmp_path / f"{name}.svg"}
        result = CliRunner().invoke(app, [str(places.get(word, word)) for word in command.split()])
        assert result.exit_code == 2
        assert "choose another name" in result.output, result.output
    assert source.read_bytes() == SAMPLE.read_bytes()
    assert (tmp_path / "soft.svg").is_symlink()


def test_a_writer_killed_at_any_moment_leaves_a_whole_file(tmp_path: Path) -> None:
    target = tmp_path / "out.bin"
    for number in range(4):
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(target)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        while not target.exists():
            assert process.poll() is None
        for _ in range(number * 3_000):
            pass  # another moment each time
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        whole = target.read_bytes()
        assert len(whole) == 6 * 1000 * 50
        assert len({whole[start : start + 6] for start in range(0, len(whole), 6)}) == 1
        target.unlink()


def test_sixteen_at_once_leave_the_file_of_one(tmp_path: Path) -> None:
    target = tmp_path / "out.bin"

    def write(number: int) -> None:
        with writing(target) as file:
            for _ in range(200):
                file.write(bytes([number]) * 1000)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(write, range(16)))
    whole = target.read_bytes()
    assert len(whole) == 200_000
    assert len(set(whole)) == 1
    assert list(tmp_path.iterdir()) == [target]


def test_an_error_while_writing_keeps_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "out.bin"
    target.write_bytes(b"before")
    with pytest.raises(OutputError, match="No space"), writing(target):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert target.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [target]


def test_a_pipe_is_written_into_and_stays(tmp_path: Path) -> None:
    """As are devices and standard output, which nothing may replace."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as other:
        read = other.submit(pipe.read_bytes)
        with writing(pipe) as file:
            file.write(b"whole")
        assert read.result(10) == b"whole"
    assert pipe.is_fifo()
    assert [*tmp_path.iterdir()] == [pipe]


@pytest.mark.parametrize("command", ["copies IN --format csv", "--help"])
def test_standard_output_that_takes_no_more_is_said(command: str) -> None:
    """A full disk is an error; a reader that has gone, as head does, is none, and the status is that of the result."""
    words = [sys.executable, "-m", "overlapscope", *command.replace("IN", str(SAMPLE)).split()]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}

    def run(out: IO[bytes] | int, error: IO[bytes] | int = subprocess.PIPE) -> tuple[int, bytes]:
        done = subprocess.run(words, stdout=out, stderr=error, env=environment, check=False)
        return done.returncode, done.stderr

    with Path("/dev/full").open("wb") as full:
        status, said = run(full)
        assert (status, said.count(b"\n"), said.startswith(b"overlapscope: ")) == (2, 1, True), said
        assert run(full, full)[0] == 2
    reading, writing_end = os.pipe()
    os.close(reading)
    status, said = run(writing_end)
    os.close(writing_end)
    assert (status, said) == (int(command == "--help"), b"")


def test_output_to_standard_output_reaches_it(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path; from overlapscope.atomic_files import writing\n"
        "with writing(Path('/dev/stdout')) as file: file.write(b'whole')"
    )
    out = tmp_path / "out"
    with out.open("wb") as file:
        subprocess.run([sys.executable, "-c", code], stdout=file, check=True)
    assert out.read_bytes() == b"whole"
    assert Path("/dev/stdout").is_symlink()
