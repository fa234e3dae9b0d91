"""Why one thing on the host or on a GPU waits for another: every kind of dependency, with its fact and its source."""

from __future__ import annotations

from overlapscope.model.enums import Labelled

_GUIDE = "CUDA C++ Programming Guide"


class DependencyKind(Labelled):
    """Why a node of the graph comes no earlier than another.

    The surer come first: of two that bound a node at the same time, the first one did.
    """

    PROGRAM_ORDER = 0, "program order"
    EXECUTION = 1, "execution"
    LAUNCH = 2, "launch"
    STREAM_ORDER = 3, "stream order"
    EVENT = 4, "event"
    OTHER_DEVICE = 5, "event of another GPU"
    LEGACY_DEFAULT_STREAM = 6, "legacy default stream"
    COPY_ENGINE = 7, "copy engine"
    NOT_RECORDED = 8, "a wait that was not recorded"
    STAGING = 9, "staging of a copy"
    SYNCHRONISATION = 10, "synchronisation"
    API_CALL = 11, "duration of the call"
    ALLOCATION = 12, "duration of an allocation or a free"
    DRIVER_LOCK = 13, "driver lock"
    THREAD_HANDOFF = 14, "thread hand-off"


OWN_DURATION = (DependencyKind.API_CALL, DependencyKind.ALLOCATION)
"""From the start of a call to its end."""
WAITS = (DependencyKind.SYNCHRONISATION, DependencyKind.STAGING, DependencyKind.DRIVER_LOCK)
"""From what a call waits for to its end."""

FACTS: dict[DependencyKind, tuple[str, str]] = {
    DependencyKind.PROGRAM_ORDER: (
        "a thread makes its calls one after the other; between two of them it does its own work",
        "the trace",
    ),
    DependencyKind.EXECUTION: ("a kernel, copy or memset takes time by itself", "the trace"),
    DependencyKind.LAUNCH: ("device work starts after the call that launches it", f"{_GUIDE}, Asynchronous Execution"),
    DependencyKind.STREAM_ORDER: ("a stream runs its work in order", f"{_GUIDE}, Streams"),
    DependencyKind.EVENT: (
        "a stream that waits for an event starts nothing before the work recorded in it is complete",
        "CUDA Runtime API, cudaStreamWaitEvent",
    ),
    DependencyKind.OTHER_DEVICE: (
        "an event of one GPU can hold back a stream of another one",
        f"{_GUIDE}, Multi-Device System, Stream and Event Behavior",
    ),
    DependencyKind.LEGACY_DEFAULT_STREAM: (
        "the legacy default stream and blocking streams wait for each other",
        "CUDA Runtime API, Stream synchronization behavior",
    ),
    DependencyKind.COPY_ENGINE: (
        "copies in one direction share a copy engine, one at a time",
        f"{_GUIDE}, Concurrent Data Transfers",
    ),
    DependencyKind.NOT_RECORDED: (
        "work that starts right after other work ended, and that nothing recorded explains, may have waited for it",
        "inferred from times",
    ),
    DependencyKind.STAGING: (
        "a copy from or to pageable memory blocks its call until it is staged or complete",
        "CUDA Runtime API, API synchronization behavior",
    ),
    DependencyKind.SYNCHRONISATION: (
        "a synchronising call returns when the stream, event or GPU is done",
        "CUDA Runtime API, cudaStreamSynchronize, cudaEventSynchronize, cudaDeviceSynchronize",
    ),
    DependencyKind.API_CALL: ("a call takes time by itself", "the trace"),
    DependencyKind.ALLOCATION: (
        "page-locked allocation, cudaMalloc and cudaFree may synchronise with the GPU",
        f"{_GUIDE}, Implicit Synchronization",
    ),
    DependencyKind.DRIVER_LOCK: (
        "while one thread is inside a blocking copy call, or page-locks host memory, launches of other threads wait",
        "measured on an H200, driver 580",
    ),
    DependencyKind.THREAD_HANDOFF: (
        "an idle thread goes on when another one has finished what it waits for",
        "inferred from times; PyTorch, Autograd mechanics for threads of the autograd engine",
    ),
}
"""What is known of each kind, and where from."""
