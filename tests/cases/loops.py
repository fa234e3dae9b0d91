"""Small loops, each with one known reason why its copies do or do not hide: what the case files beside this record.

    python tests/cases/loops.py CASE OUT.json.gz                              as a Kineto trace
    nsys profile -t cuda,nvtx -c cudaProfilerApi python tests/cases/loops.py CASE   with Nsight Systems
    python tests/cases/loops.py --list

A case is a function that makes what the loop needs and returns one pass over it. Its docstring says what is to
be found. The traces are scrubbed; ``blocking_launches`` runs with CUDA_LAUNCH_BLOCKING=1, ``full_queue`` and
``blocks_together`` with CUDA_SCALE_LAUNCH_QUEUES=0.25x, so that some hundred copies fill a queue. Of the traces without
an Nsight Systems export, but for ``pin_in_loop``, only frames of this file are kept.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable

import torch

from overlapscope import annotate, record

Pass = Callable[[], None]
MIB = 2**18  # float32 numbers


def device_matrix(width: int = 4096) -> torch.Tensor:
    return torch.randn(width, width, device="cuda")


def host(mib: int, *, pin: bool) -> torch.Tensor:
    return torch.ones(mib * MIB, pin_memory=pin)


def side_stream_wait() -> Pass:
    """The side stream waits for the kernels, they wait for its copy: no prefetch distance."""
    compute, side = torch.cuda.Stream(), torch.cuda.Stream()
    source = torch.ones(4, 2**20, pin_memory=True)
    target = torch.empty(4, 2**20, device="cuda")
    weight = device_matrix(2048)

    def one_pass() -> None:
        with torch.cuda.stream(compute):
            for index in range(3):
                with annotate("round"):
                    side.wait_stream(compute)
                    with torch.cuda.stream(side):
                        target[index].copy_(source[index], non_blocking=True)
                        ready = torch.cuda.Event()
                        ready.record(side)
                    compute.wait_event(ready)
                    _ = weight @ weight
                    _ = target[index].sum()
            torch.cuda.synchronize()

    return one_pass


def no_prefetch_distance() -> Pass:
    """Pinned, non-blocking, a stream of its own, but each copy is issued right before the kernels that wait for it."""
    side = torch.cuda.Stream()
    sources = [host(64, pin=True) for _ in range(4)]
    target = torch.empty(64 * MIB, device="cuda")
    weight = device_matrix()

    def one_pass() -> None:
        for source in sources:
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                target.copy_(source, non_blocking=True)
            torch.cuda.current_stream().wait_stream(side)
            torch.mm(weight, weight)
            target.sum()
        torch.cuda.synchronize()

    return one_pass


def prefetched() -> Pass:
    """The same with the next copy issued while this round computes, two buffers: healthy but for the first copy."""
    side = torch.cuda.Stream()
    sources = [host(64, pin=True) for _ in range(4)]
    targets = [torch.empty(64 * MIB, device="cuda") for _ in range(2)]
    arrived = [torch.cuda.Event() for _ in range(2)]
    used = [torch.cuda.Event() for _ in range(2)]
    weight = device_matrix()

    def fetch(index: int) -> None:
        with torch.cuda.stream(side):
            side.wait_event(used[index % 2])
            targets[index % 2].copy_(sources[index], non_blocking=True)
            arrived[index % 2].record(side)

    def one_pass() -> None:
        fetch(0)
        for index in range(4):
            if index + 1 < 4:
                fetch(index + 1)
            torch.cuda.current_stream().wait_event(arrived[index % 2])
            for _ in range(2):
                torch.mm(weight, weight)
            targets[index % 2].sum()
            used[index % 2].record()
        torch.cuda.synchronize()

    return one_pass


def pageable_nothing_waits() -> Pass:
    """A pageable copy issued after all kernels are queued: it holds the host, and nothing is late for it."""
    side = torch.cuda.Stream()
    source, weight = host(32, pin=False), device_matrix()

    def one_pass() -> None:
        for _ in range(6):
            torch.mm(weight, weight)
        with torch.cuda.stream(side):
            source.to("cuda", non_blocking=True)
        torch.cuda.synchronize()

    return one_pass


def pageable_own_thread() -> Pass:
    """Pageable copies on a thread of their own: the launches of the other thread are held under them."""
    side = torch.cuda.Stream()
    sources, weight = [host(64, pin=False) for _ in range(4)], device_matrix(2048)

    def upload() -> None:
        with torch.cuda.stream(side):
            for source in sources:
                source.to("cuda", non_blocking=True)

    def one_pass() -> None:
        uploader = threading.Thread(target=upload)
        uploader.start()
        for _ in range(40):
            torch.mm(weight, weight)
            time.sleep(0.0003)
        uploader.join()
        torch.cuda.synchronize()

    return one_pass


def strided_view() -> Pass:
    """A non-contiguous view of a pinned tensor, non-blocking: it is staged through pageable memory."""
    side = torch.cuda.Stream()
    source = torch.ones(4096, 8192, pin_memory=True)[:, ::2]
    weight = device_matrix()

    def one_pass() -> None:
        for _ in range(3):
            with torch.cuda.stream(side):
                source.to("cuda", non_blocking=True)
            torch.mm(weight, weight)
        torch.cuda.synchronize()

    return one_pass


def one_stream() -> Pass:
    """Pinned, non-blocking, on the kernels' own stream."""
    sources, weight = [host(64, pin=True) for _ in range(4)], device_matrix()
    target = torch.empty(64 * MIB, device="cuda")

    def one_pass() -> None:
        for source in sources:
            target.copy_(source, non_blocking=True)
            torch.mm(weight, weight)
        torch.cuda.synchronize()

    return one_pass


def runtime() -> ctypes.CDLL:
    """The CUDA runtime that torch has loaded."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        path = next(line.split()[-1] for line in maps if "libcudart" in line)
    return ctypes.CDLL(path)


def external_stream(*, blocking: bool) -> torch.cuda.ExternalStream:
    pointer = ctypes.c_void_p()
    runtime().cudaStreamCreateWithFlags(ctypes.byref(pointer), 0 if blocking else 1)
    return torch.cuda.ExternalStream(pointer.value)


def legacy_default_stream(*, blocking: bool) -> Pass:
    side = external_stream(blocking=blocking)
    sources, weight = [host(64, pin=True) for _ in range(4)], device_matrix()
    target = torch.empty(64 * MIB, device="cuda")

    def one_pass() -> None:
        for source in sources:
            with torch.cuda.stream(side):
                target.copy_(source, non_blocking=True)
            torch.mm(weight, weight)
        torch.cuda.synchronize()

    return one_pass


def blocking_external_stream() -> Pass:
    """Copies on a stream that another library made, blocking; kernels on the legacy default stream."""
    return legacy_default_stream(blocking=True)


def non_blocking_external_stream() -> Pass:
    """The same with a non-blocking stream: healthy."""
    return legacy_default_stream(blocking=False)


def explicit_stream_sync() -> Pass:
    """A side stream, pinned, and the host waits for each copy before it launches on."""
    side = torch.cuda.Stream()
    sources, weight = [host(64, pin=True) for _ in range(4)], device_matrix(2048)
    target = torch.empty(64 * MIB, device="cuda")

    def one_pass() -> None:
        for source in sources:
            with torch.cuda.stream(side):
                target.copy_(source, non_blocking=True)
            side.synchronize()
            torch.mm(weight, weight)
        torch.cuda.synchronize()

    return one_pass


def item_and_hidden_copies() -> Pass:
    """Prefetched copies that hide, and ``.item()`` each round: only the read costs."""
    side = torch.cuda.Stream()
    sources = [host(16, pin=True) for _ in range(5)]
    weight = device_matrix(2048)

    def one_pass() -> None:
        for source in sources:
            with torch.cuda.stream(side):
                source.to("cuda", non_blocking=True)
            for _ in range(3):
                product = torch.mm(weight, weight)
            product.sum().item()
            time.sleep(0.0005)  # what the program does with the value
        torch.cuda.synchronize()

    return one_pass


def large_read() -> Pass:
    """A large result to pageable memory each round: the call holds the host until all has arrived."""
    weight = device_matrix()

    def one_pass() -> None:
        for _ in range(4):
            torch.mm(weight, weight).cpu()
        torch.cuda.synchronize()

    return one_pass


def launch_bound() -> Pass:
    """Many small kernels, and a copy that would hide if the host were faster."""
    side = torch.cuda.Stream()
    source, small = host(4, pin=True), torch.ones(1024, device="cuda")

    def one_pass() -> None:
        for index in range(400):
            small.add_(1)
            if index % 100 == 50:
                with torch.cuda.stream(side):
                    source.to("cuda", non_blocking=True)
        torch.cuda.synchronize()

    return one_pass


def device_allocation() -> Pass:
    """The caching allocator is emptied each round, so that memory comes from cudaMalloc and goes to cudaFree."""
    source, weight = host(16, pin=True), device_matrix(2048)

    def one_pass() -> None:
        for _ in range(5):
            batch = source.to("cuda", non_blocking=True)
            torch.mm(weight, weight)
            batch.sum()
            del batch
            torch.cuda.empty_cache()
        torch.cuda.synchronize()

    return one_pass


def host_allocation() -> Pass:
    """``pin_memory()`` in the loop, and no cached block is free: page-locked memory from the driver each time."""
    weight = device_matrix(2048)
    source = host(16, pin=False)
    kept = []  # so that no cached block is free

    def one_pass() -> None:
        for _ in range(4):
            kept.append(source.pin_memory())
            kept[-1].to("cuda", non_blocking=True)
            torch.mm(weight, weight)
        torch.cuda.synchronize()

    return one_pass


def pin_in_loop() -> Pass:
    """``pin_memory()`` in the loop with blocks from the cache: no call, but a copy on the host each time."""
    source, weight = host(16, pin=False), device_matrix(2048)

    def one_pass() -> None:
        for _ in range(4):
            source.pin_memory().to("cuda", non_blocking=True)
            torch.mm(weight, weight)
            torch.cuda.synchronize()

    return one_pass


def results(*, kept: bool) -> Pass:
    side, weight = torch.cuda.Stream(), device_matrix()
    places = [torch.empty(4096, 4096, pin_memory=True) for _ in range(2)]
    arrived = [torch.cuda.Event() for _ in range(2)]
    every = []  # so that no cached block is free

    def one_pass() -> None:
        for index in range(4):
            product = torch.mm(weight, weight)
            side.wait_stream(torch.cuda.current_stream())
            if kept:
                every.append(torch.empty(4096, 4096, pin_memory=True))
            arrived[index % 2].synchronize()
            with torch.cuda.stream(side):
                (every[-1] if kept else places[index % 2]).copy_(product, non_blocking=True)
                product.record_stream(side)
                arrived[index % 2].record(side)
        for _ in range(2):
            torch.mm(weight, weight)
        torch.cuda.synchronize()

    return one_pass


def results_kept() -> Pass:
    """Each result goes to pinned memory of its own, made then and kept: page-locked in every round."""
    return results(kept=True)


def results_reused() -> Pass:
    """The same to two pinned buffers in turn, each when its last copy is complete: healthy."""
    return results(kept=False)


def small_copy_overtakes() -> Pass:
    """16 KiB on a stream of their own overtake large copies issued before; the host reads a value in each round."""
    bulk, side = torch.cuda.Stream(), torch.cuda.Stream()
    weights, ids = [host(64, pin=True) for _ in range(2)], torch.ones(4096, pin_memory=True)
    places, ids_there = [torch.empty(64 * MIB, device="cuda") for _ in weights], torch.empty(4096, device="cuda")
    matrix, read = device_matrix(), torch.zeros(1, pin_memory=True)

    def one_pass() -> None:
        for _ in range(4):
            with torch.cuda.stream(bulk):
                for place, weight in zip(places, weights, strict=True):
                    place.copy_(weight, non_blocking=True)
            with torch.cuda.stream(side):
                ids_there.copy_(ids, non_blocking=True)
            torch.cuda.current_stream().wait_stream(side)
            for _ in range(3):
                torch.mm(matrix, matrix)
            read.copy_(ids_there[:1], non_blocking=True)
            torch.cuda.current_stream().synchronize()
            ids.fill_(read.item() + 1)
        torch.cuda.synchronize()

    return one_pass


def blocks(*, together: bool) -> Pass:
    if os.environ.get("CUDA_SCALE_LAUNCH_QUEUES") != "0.25x":
        sys.exit("run this case with CUDA_SCALE_LAUNCH_QUEUES=0.25x")
    count, size, to_device = 380, 2**14, 1
    side, matrix, copy = torch.cuda.Stream(), device_matrix(), runtime().cudaMemcpyAsync
    source, place = torch.ones(count * size // 4, pin_memory=True), torch.empty(count * size // 4, device="cuda")
    stream = ctypes.c_void_p(side.cuda_stream)

    def send(first: int, blocks: int) -> None:
        target, begin = (ctypes.c_void_p(tensor.data_ptr() + first * size) for tensor in (place, source))
        copy(target, begin, ctypes.c_size_t(blocks * size), to_device, stream)

    def one_pass() -> None:
        for _ in range(2):
            torch.mm(matrix, matrix)
        side.wait_stream(torch.cuda.current_stream())
        if together:
            send(0, count)
        else:
            for number in range(count):
                send(number, 1)
        for _ in range(2):
            torch.mm(matrix, matrix)
        torch.cuda.synchronize()

    return one_pass


def full_queue() -> Pass:
    """Copies that wait for kernels, more than their queue has room for: the next kernels are launched late."""
    return blocks(together=False)


def blocks_together() -> Pass:
    """The same bytes as one copy: healthy."""
    return blocks(together=True)


def small_copies_hidden() -> Pass:
    """Many small pinned copies on a side stream, all of them under long kernels: healthy."""
    side = torch.cuda.Stream()
    sources = [torch.ones(4096, pin_memory=True) for _ in range(100)]
    weight = device_matrix(8192)

    def one_pass() -> None:
        for _ in range(2):
            torch.mm(weight, weight)
        with torch.cuda.stream(side):
            for source in sources:
                source.to("cuda", non_blocking=True)
        torch.cuda.synchronize()

    return one_pass


def read_after_synchronise() -> Pass:
    """A result to pinned memory, non-blocking, waited for, then read; the next round is queued before: healthy."""
    side = torch.cuda.Stream()
    places = [torch.zeros(1024, 1024, pin_memory=True) for _ in range(2)]
    weight = device_matrix()

    def one_pass() -> None:
        product = torch.mm(weight, weight)
        for index in range(4):
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                places[index % 2].copy_(product[:1024, :1024].contiguous(), non_blocking=True)
                product.record_stream(side)
            product = torch.mm(weight, weight)
            torch.mm(weight, weight)
            side.synchronize()
            float(places[index % 2].sum())
        torch.cuda.synchronize()

    return one_pass


def many_small_copies() -> Pass:
    """Pinned, non-blocking, 400 tensors of 16 KiB before each product."""
    sources = [torch.ones(4096, pin_memory=True) for _ in range(400)]
    weight = device_matrix(2048)

    def one_pass() -> None:
        for source in sources:
            source.to("cuda", non_blocking=True)
        torch.mm(weight, weight)
        torch.cuda.synchronize()

    return one_pass


def upload_phase() -> Pass:
    """Everything is uploaded first, pinned and fast; then comes a short computation."""
    sources, weight = [host(64, pin=True) for _ in range(6)], device_matrix(1024)

    def one_pass() -> None:
        with annotate("upload"):
            arrived = [source.to("cuda", non_blocking=True) for source in sources]
            torch.cuda.synchronize()
        with annotate("compute"):
            for tensor in arrived:
                torch.mm(weight, weight)
                tensor[:1024].sum()
        torch.cuda.synchronize()

    return one_pass


def two_copy_streams() -> Pass:
    """Two streams upload at once: one engine serves both, and the kernels' copy is behind the other."""
    one, other = torch.cuda.Stream(), torch.cuda.Stream()
    mine, theirs = [[host(64, pin=True) for _ in range(3)] for _ in range(2)]
    weight = device_matrix()

    def one_pass() -> None:
        for first, second in zip(theirs, mine, strict=True):
            with torch.cuda.stream(other):
                for _ in range(2):
                    first.to("cuda", non_blocking=True)
            with torch.cuda.stream(one):
                batch = second.to("cuda", non_blocking=True)
            torch.cuda.current_stream().wait_stream(one)
            torch.mm(weight, weight)
            batch.sum()
        torch.cuda.synchronize()

    return one_pass


def both_directions() -> Pass:
    """Uploads and downloads at once, pinned, each on a stream of its own, beside kernels: healthy."""
    up, down = torch.cuda.Stream(), torch.cuda.Stream()
    sources, places = [[host(32, pin=True) for _ in range(3)] for _ in range(2)]
    result, weight = torch.ones(32 * MIB, device="cuda"), device_matrix()

    def one_pass() -> None:
        for source, place in zip(sources, places, strict=True):
            with torch.cuda.stream(up):
                source.to("cuda", non_blocking=True)
            with torch.cuda.stream(down):
                place.copy_(result, non_blocking=True)
            torch.mm(weight, weight)
        torch.cuda.synchronize()

    return one_pass


def blocking_launches() -> Pass:
    """Pinned copies on a side stream, but CUDA_LAUNCH_BLOCKING=1 makes every launch wait."""
    if os.environ.get("CUDA_LAUNCH_BLOCKING") != "1":
        sys.exit("run this case with CUDA_LAUNCH_BLOCKING=1")
    return non_blocking_external_stream()


def graph(*, parallel: bool) -> Pass:
    side = torch.cuda.Stream()
    source, target, weight = host(64, pin=True), torch.empty(64 * MIB, device="cuda"), device_matrix()
    product = torch.empty_like(weight)
    torch.mm(weight, weight, out=product)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        current = torch.cuda.current_stream()
        where = side if parallel else current
        side.wait_stream(current)
        with torch.cuda.stream(where):
            target.copy_(source, non_blocking=True)
        for _ in range(2):
            torch.mm(weight, weight, out=product)
        current.wait_stream(side)

    def one_pass() -> None:
        for _ in range(3):
            captured.replay()
        torch.cuda.synchronize()

    return one_pass


def graph_parallel_branch() -> Pass:
    """A CUDA graph whose copy is in a branch beside the kernels: healthy."""
    return graph(parallel=True)


def graph_one_branch() -> Pass:
    """A CUDA graph with the copy before the kernels in one branch."""
    return graph(parallel=False)


def read_too_early() -> Pass:
    """A result to pinned memory, non-blocking, and read without a synchronise: wrong values."""
    place, weight = torch.zeros(4096, 4096, pin_memory=True), device_matrix()

    def one_pass() -> None:
        for _ in range(3):
            place.copy_(torch.mm(weight, weight), non_blocking=True)
            with annotate("read"):
                float(place[0, 0])
        torch.cuda.synchronize()

    return one_pass


def read_after_event() -> Pass:
    """The same with an event between, the next round's kernels queued before it is waited for: healthy."""
    side = torch.cuda.Stream()
    places = [torch.zeros(4096, 4096, pin_memory=True) for _ in range(3)]
    weight = device_matrix()

    def one_pass() -> None:
        done: list[torch.cuda.Event] = []
        for place in places:
            product = torch.mm(weight, weight)
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                place.copy_(product, non_blocking=True)
                product.record_stream(side)
                done.append(torch.cuda.Event())
                done[-1].record(side)
        for _ in range(3):
            torch.mm(weight, weight)
        for event, place in zip(done, places, strict=True):
            event.synchronize()
            float(place[0, 0])
        torch.cuda.synchronize()

    return one_pass


def full_device() -> Pass:
    """Two streams of kernels, each of which fills the device: they do not run at once, and cannot."""
    other, weight = torch.cuda.Stream(), device_matrix()

    def one_pass() -> None:
        for _ in range(4):
            torch.mm(weight, weight)
            with torch.cuda.stream(other):
                torch.mm(weight, weight)
        torch.cuda.synchronize()

    return one_pass


def compute_alone() -> Pass:
    """Kernels and nothing else: healthy."""
    weight = device_matrix()

    def one_pass() -> None:
        for _ in range(6):
            torch.mm(weight, weight)
        torch.cuda.synchronize()

    return one_pass


def small_copies_exposed() -> Pass:
    """Pinned copies of 4 MiB on the stream of kernels that take fifty times as long: hiding them would gain nothing."""
    sources, weight = [host(4, pin=True) for _ in range(4)], device_matrix()
    target = torch.empty(4 * MIB, device="cuda")

    def one_pass() -> None:
        for source in sources:
            target.copy_(source, non_blocking=True)
            for _ in range(2):
                torch.mm(weight, weight)
        torch.cuda.synchronize()

    return one_pass


CASES: dict[str, Callable[[], Pass]] = {
    case.__name__: case
    for case in (
        side_stream_wait,
        no_prefetch_distance,
        prefetched,
        pageable_nothing_waits,
        pageable_own_thread,
        strided_view,
        one_stream,
        blocking_external_stream,
        non_blocking_external_stream,
        explicit_stream_sync,
        item_and_hidden_copies,
        large_read,
        launch_bound,
        device_allocation,
        host_allocation,
        pin_in_loop,
        results_kept,
        results_reused,
        small_copy_overtakes,
        full_queue,
        blocks_together,
        small_copies_hidden,
        read_after_synchronise,
        many_small_copies,
        upload_phase,
        two_copy_streams,
        both_directions,
        blocking_launches,
        graph_parallel_branch,
        graph_one_branch,
        read_too_early,
        read_after_event,
        full_device,
        compute_alone,
        small_copies_exposed,
    )
}


def main() -> None:
    if sys.argv[1:] == ["--list"]:
        sys.stdout.write("\n".join(CASES) + "\n")
        return
    one_pass = CASES[sys.argv[1]]()
    torch.cuda.synchronize()

    def annotated() -> None:
        with annotate("pass"):
            one_pass()

    path = sys.argv[2] if len(sys.argv) > 2 else "unused.json.gz"
    with record(path, steps=1, warmup=2, unprofiled=0, calibrate=False, stacks=True) as recording:
        recording.run(annotated)


if __name__ == "__main__":
    main()
