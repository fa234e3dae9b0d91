"""Why one thing on the host or on a GPU waits for another: every kind of dependency, with its fact and its source."""

from __future__ import annotations

from overlapscope.model.enums import Labelled


class DependencyKind(Labelled):
    """Why a node of the graph comes no earlier than another.

    The surer come first: of two that bound a node at the same time, the first one did. Above each kind stands what is
    known of it, and the source.
    """

    # A thread makes its calls one after the other; between two of them it does its own work (the trace).
    PROGRAM_ORDER = 0, "program order"
    # A kernel, copy or memset takes time by itself (the trace).
    EXECUTION = 1, "execution"
    # Device work starts after the call that launches it (CUDA C++ Programming Guide, Asynchronous Execution).
    LAUNCH = 2, "launch"
    # A stream runs its work in order (CUDA C++ Programming Guide, Streams).
    STREAM_ORDER = 3, "stream order"
    # A stream that waits for an event starts nothing before the work recorded in it is complete (CUDA Runtime API,
    # cudaStreamWaitEvent).
    EVENT = 4, "event"
    # An event of one GPU can hold back a stream of another one (CUDA C++ Programming Guide, Multi-Device System, Stream
    # and Event Behavior).
    OTHER_DEVICE = 5, "event of another GPU"
    # The legacy default stream and blocking streams wait for each other (CUDA Runtime API, Stream synchronization
    # behavior).
    LEGACY_DEFAULT_STREAM = 6, "legacy default stream"
    # Copies in one direction share a copy engine, one at a time (CUDA C++ Programming Guide, Concurrent Data
    # Transfers).
    COPY_ENGINE = 7, "copy engine"
    # Work that starts right after other work ended, and that nothing recorded explains, may have waited for it
    # (inferred from times).
    NOT_RECORDED = 8, "a wait that was not recorded"
    # A copy from or to pageable memory blocks its call until it is staged or complete (CUDA Runtime API, API
    # synchronization behavior).
    STAGING = 9, "staging of a copy"
    # A synchronising call returns when the stream, event or GPU is done (CUDA Runtime API, cudaStreamSynchronize,
    # cudaEventSynchronize, cudaDeviceSynchronize).
    SYNCHRONISATION = 10, "synchronisation"
    # A call takes time by itself (the trace).
    API_CALL = 11, "duration of the call"
    # Page-locked allocation, cudaMalloc and cudaFree may synchronise with the GPU (CUDA C++ Programming Guide, Implicit
    # Synchronization).
    ALLOCATION = 12, "duration of an allocation or a free"
    # While one thread is inside a blocking copy call, or page-locks host memory, launches of other threads wait
    # (measured on an H200, driver 580).
    DRIVER_LOCK = 13, "driver lock"
    # An idle thread goes on when another one has finished what it waits for (inferred from times; PyTorch, Autograd
    # mechanics for threads of the autograd engine).
    THREAD_HANDOFF = 14, "thread hand-off"


OWN_DURATION = (DependencyKind.API_CALL, DependencyKind.ALLOCATION)
"""Kinds of dependencies from the start of a call to its end."""
WAITS = (DependencyKind.SYNCHRONISATION, DependencyKind.STAGING, DependencyKind.DRIVER_LOCK)
"""Kinds of dependencies from what a call waits for to the end of the call."""
