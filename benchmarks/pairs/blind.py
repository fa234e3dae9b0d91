"""More programs before and after they were fixed, written and recorded before their predictions were looked at.

Each makes what its step needs and returns one step, faulty or fixed; ``recording`` says how they are run. Their
Nsight Systems traces were made with ``--bare``.
"""

from __future__ import annotations

import queue
import threading

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks.pairs.parts import captured, weight
from benchmarks.pairs.recording import Step, main


def image_validation(*, fixed: bool) -> Step:
    """A validation loop: numpy images from pageable memory, the right answers of each batch read with .item().

    Mended: pinned ahead of time, copied asynchronously, the counts read once.
    """
    generator = np.random.default_rng(0)
    images = [torch.from_numpy(generator.integers(0, 256, (192, 3, 224, 224), dtype=np.uint8)) for _ in range(6)]
    if fixed:
        images = [each.pin_memory() for each in images]
    labels = [torch.randint(0, 1000, (192,), device="cuda") for _ in images]
    model = nn.Sequential(
        nn.Conv2d(3, 64, 7, stride=2, padding=3),
        nn.ReLU(),
        nn.Conv2d(64, 128, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(128, 128, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(128, 1000),
    )
    model = model.cuda().eval().requires_grad_(False)
    counts = torch.zeros(len(images), dtype=torch.int64, device="cuda")

    def step() -> None:
        right: float = 0
        for index, (batch, label) in enumerate(zip(images, labels, strict=True)):
            logits = model(batch.to("cuda", non_blocking=fixed).float().div_(255))
            torch.sum(logits.argmax(1) == label, dim=0, out=counts[index])
            if not fixed:
                right += counts[index].item()
        if fixed:
            right = sum(counts.tolist())
        torch.cuda.synchronize()

    return step


def embedding_rows(*, fixed: bool) -> Step:
    """Rows of a table in host memory, gathered on the host into pageable memory and copied; fixed: pinned, async."""
    rows, width = 65536, 128
    table = torch.rand(1_000_000, width)
    wanted = [torch.randint(0, len(table), (rows,)) for _ in range(6)]
    gathered = [torch.zeros(rows, width, pin_memory=fixed) for _ in wanted]
    first, second = weight(1024, 2048), weight(2048, 1024)
    scores = torch.zeros(len(wanted), device="cuda")

    def step() -> None:
        for index, (ids, buffer) in enumerate(zip(wanted, gathered, strict=True)):
            torch.index_select(table, 0, ids, out=buffer)
            features = buffer.to("cuda", non_blocking=fixed).view(-1, 1024)
            torch.sum(torch.relu(features @ first) @ second, dim=(0, 1), out=scores[index])
        torch.cuda.synchronize()

    return step


def kv_round_trip(*, fixed: bool) -> Step:
    """Each layer's KV cache comes from pinned memory, is used and extended, and goes back, all on one stream.

    Mended: a stream for each direction, with events.
    """
    layers, requests, heads, length, chunk, depth = 10, 8, 16, 1024, 512, 128
    width = heads * depth
    shape = (2, requests, heads, length, depth)
    up, down, main = torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.current_stream()
    stored = [torch.full(shape, 0.01, dtype=torch.bfloat16, pin_memory=True) for _ in range(layers)]
    caches = [torch.zeros(shape, dtype=torch.bfloat16, device="cuda") for _ in range(layers)]
    half = torch.bfloat16
    project, merge = weight(width, 3 * width, dtype=half), weight(width, width, dtype=half)
    widen, narrow = weight(width, 4 * width, dtype=half), weight(4 * width, width, dtype=half)
    tokens = torch.randn(requests * chunk, width, device="cuda").to(half)

    def step() -> None:
        hidden = tokens
        for host, cache in zip(stored, caches, strict=True):
            with torch.cuda.stream(up if fixed else main):
                cache.copy_(host, non_blocking=True)
            if fixed:
                main.wait_stream(up)
            query, key, value = (hidden @ project).view(requests, chunk, 3, heads, depth).permute(2, 0, 3, 1, 4)
            cache[0, :, :, -chunk:] = key
            cache[1, :, :, -chunk:] = value
            seen = functional.scaled_dot_product_attention(query, cache[0], cache[1])
            hidden = hidden + seen.transpose(1, 2).reshape(requests * chunk, width) @ merge
            hidden = hidden + functional.gelu(hidden @ widen) @ narrow
            if fixed:
                down.wait_stream(main)
            with torch.cuda.stream(down if fixed else main):
                host.copy_(cache, non_blocking=True)
        torch.cuda.synchronize()

    return step


def kv_offload(*, fixed: bool) -> Step:
    """A prefill writes each layer's keys and values to pageable host memory and waits.

    Mended: pinned, asynchronous, on a stream of its own.
    """
    layers, tokens, width, half = 6, 8192, 2048, torch.bfloat16
    side, main = torch.cuda.Stream(), torch.cuda.current_stream()
    stored = [torch.zeros(tokens, width, dtype=half, pin_memory=fixed) for _ in range(layers)]
    caches = [torch.zeros(tokens, width, dtype=half, device="cuda") for _ in range(layers)]
    project, widen, narrow = (
        weight(*shape, dtype=half) for shape in ((width, width), (width, 4 * width), (4 * width, width))
    )
    prompt = torch.randn(tokens, width, device="cuda").to(half)

    def step() -> None:
        hidden = prompt
        for host, cache in zip(stored, caches, strict=True):
            torch.mm(hidden, project, out=cache)
            if fixed:
                side.wait_stream(main)
            with torch.cuda.stream(side if fixed else main):
                host.copy_(cache, non_blocking=fixed)
            hidden = hidden + functional.gelu(cache @ widen) @ narrow
        torch.cuda.synchronize()

    return step


def weights_streamed(*, fixed: bool) -> Step:
    """Weights from pinned memory, layer by layer, each copy issued right before what reads it; fixed: two ahead.

    The copies have a stream and three buffers; a copy waits for all compute issued before it.
    """
    layers, ahead = 10, 2 if fixed else 0
    side, main = torch.cuda.Stream(), torch.cuda.current_stream()
    sources = [torch.randn(4096, 4096).div_(45).pin_memory() for _ in range(layers)]
    buffers = [torch.empty(4096, 4096, device="cuda") for _ in range(3)]
    ready = [torch.cuda.Event() for _ in sources]
    inputs, result = torch.randn(2048, 4096, device="cuda"), torch.empty(2048, 4096, device="cuda")

    def fetch(index: int) -> None:
        side.wait_stream(main)
        with torch.cuda.stream(side):
            buffers[index % 3].copy_(sources[index], non_blocking=True)
            ready[index].record()

    def step() -> None:
        hidden = inputs
        for index in range(ahead):
            fetch(index)
        for index in range(layers):
            if index + ahead < layers:
                fetch(index + ahead)
            main.wait_event(ready[index])
            hidden = torch.relu(hidden @ buffers[index % 3])
        torch.mul(hidden, 2, out=result)
        torch.cuda.synchronize()

    return step


def producer_thread(*, fixed: bool) -> Step:
    """A thread copies pinned batches ahead, but on the legacy default stream; fixed: on its own, with events."""
    side, main = torch.cuda.Stream(), torch.cuda.current_stream()
    batches = [torch.ones(4096, 4096).mul_(index / 8).pin_memory() for index in range(8)]
    slots = [torch.empty(4096, 4096, device="cuda") for _ in batches]
    ready = [torch.cuda.Event() for _ in batches]
    requests: queue.SimpleQueue[int] = queue.SimpleQueue()
    issued: queue.SimpleQueue[int] = queue.SimpleQueue()
    matrix, scores = weight(4096, 2048), torch.zeros(len(batches), device="cuda")

    def produce() -> None:
        while True:
            index = requests.get()
            with torch.cuda.stream(side if fixed else main):
                slots[index].copy_(batches[index], non_blocking=True)
                if fixed:
                    ready[index].record()
            issued.put(index)

    threading.Thread(target=produce, daemon=True).start()

    def step() -> None:
        for index in range(len(batches)):
            requests.put(index)
        for _ in batches:
            index = issued.get()
            if fixed:
                main.wait_event(ready[index])
            torch.sum(slots[index] @ matrix, dim=(0, 1), out=scores[index])
        torch.cuda.synchronize()

    return step


def gradient_offload(*, fixed: bool) -> Step:
    """Gradients go to pageable host memory, an optimiser on the host steps, weights come back; fixed: pinned only.

    The copies stay blocking.
    """
    model = nn.Sequential(*(each for _ in range(4) for each in (nn.Linear(2048, 2048, bias=False), nn.ReLU()))).cuda()
    weights, batch = list(model.parameters()), torch.randn(2048, 2048, device="cuda")
    gradients = [torch.zeros(2048, 2048, pin_memory=fixed) for _ in weights]
    masters = [torch.zeros(2048, 2048, pin_memory=fixed) for _ in weights]
    for master, gradient, each in zip(masters, gradients, weights, strict=True):
        master.copy_(each.detach())
        master.requires_grad_()
        master.grad = gradient
    optimiser = torch.optim.SGD(masters, lr=1e-3, foreach=False)

    def step() -> None:
        model.zero_grad(set_to_none=True)
        model(batch).square().sum(1).mean().backward()
        for gradient, each in zip(gradients, weights, strict=True):
            gradient.copy_(each.grad)  # type: ignore[arg-type]
        optimiser.step()
        with torch.no_grad():
            for master, each in zip(masters, weights, strict=True):
                each.copy_(master)
        torch.cuda.synchronize()

    return step


def layer_metrics(*, fixed: bool) -> Step:
    """The size of each layer's activations and gradients is read as soon as it is known; fixed: all at the end."""
    layers = nn.ModuleList(nn.Linear(1024, 1024) for _ in range(24)).cuda()
    batches = [torch.randn(512, 1024, device="cuda") for _ in range(2)]
    sizes = torch.zeros(len(batches), 2, len(layers), device="cuda")

    def step() -> None:
        log = []
        for batch, size in zip(batches, sizes, strict=True):
            layers.zero_grad(set_to_none=True)
            hidden = batch
            for index, layer in enumerate(layers):
                hidden = functional.gelu(layer(hidden)) + hidden
                torch.linalg.vector_norm(hidden.detach(), out=size[0, index])
                if not fixed:
                    log.append(size[0, index].item())
            hidden.square().mean().backward()
            for index, layer in enumerate(layers):
                torch.linalg.vector_norm(layer.weight.grad, out=size[1, index])
                if not fixed:
                    log.append(size[1, index].item())
        if fixed:
            log.extend(sizes.tolist())
        torch.cuda.synchronize()

    return step


def evaluation_results(*, fixed: bool) -> Step:
    """The host scales each batch while the GPU has nothing to do, because copying results down to pinned memory waits.

    Mended: the copies down are asynchronous.
    """
    generator = np.random.default_rng(0)
    raw = [generator.integers(0, 256, (2048, 2048), dtype=np.uint8) for _ in range(6)]
    inputs = [torch.zeros(2048, 2048, pin_memory=True) for _ in raw]
    results = [torch.zeros(2048, 8192, pin_memory=True) for _ in raw]
    mean, deviation = (generator.uniform(0.4, 0.6, 2048).astype(np.float32) for _ in range(2))
    matrix = weight(2048, 8192)

    def step() -> None:
        for pixels, scaled, result in zip(raw, inputs, results, strict=True):
            view = scaled.numpy()
            np.multiply(pixels, np.float32(1 / 255), out=view, dtype=np.float32)
            np.subtract(view, mean, out=view)
            np.divide(view, deviation, out=view)
            result.copy_(scaled.to("cuda", non_blocking=True) @ matrix, non_blocking=fixed)
        torch.cuda.synchronize()

    return step


def rnn_cells(*, fixed: bool) -> Step:
    """Two recurrent layers, a cell and a time step after the other; fixed: one launch of a graph."""
    steps, batch, width = 160, 64, 512
    sequence = torch.randn(steps, batch, width).pin_memory()
    inputs, final = torch.zeros(steps, batch, width, device="cuda"), torch.zeros(batch, width, device="cuda")
    start = torch.zeros(batch, width, device="cuda")
    lower, upper = (nn.GRUCell(width, width).cuda().requires_grad_(False) for _ in range(2))

    def forward() -> None:
        below = above = start
        for at in range(steps):
            below = lower(inputs[at], below)
            above = upper(below, above)
        torch.tanh(above, out=final)

    graph = captured(forward) if fixed else None

    def step() -> None:
        inputs.copy_(sequence, non_blocking=True)
        forward() if graph is None else graph.replay()
        torch.cuda.synchronize()

    return step


def greedy_decoding(*, fixed: bool) -> Step:
    """Tiny kernels for each token, and after each the host asks whether all have ended (they never have).

    Mended: one graph for all tokens, and the host asks at the end.
    """
    tokens, layers, batch, width, end = 48, 6, 16, 512, -1
    embedding, head = torch.randn(8192, width, device="cuda"), weight(width, 8192)
    ups, downs = ([weight(width, width) for _ in range(layers)] for _ in range(2))
    prompt, start = torch.arange(batch, device="cuda"), torch.zeros(batch, width, device="cuda")
    history = torch.zeros(tokens, batch, dtype=torch.int64, device="cuda")
    ended = torch.zeros(tokens, dtype=torch.bool, device="cuda")

    def decode(*, ask: bool) -> None:
        token, states = prompt, [start] * layers
        for at in range(tokens):
            hidden = functional.embedding(token, embedding)
            for layer in range(layers):
                states[layer] = torch.lerp(states[layer], hidden, 0.1)
                inner = functional.gelu(functional.layer_norm(states[layer], (width,)) @ ups[layer])
                hidden = hidden + inner @ downs[layer]
            token = torch.argmax(hidden @ head, dim=-1, out=history[at])
            torch.all(token == end, dim=0, out=ended[at])
            if ask and ended[at].item():
                break

    graph = captured(lambda: decode(ask=False)) if fixed else None

    def step() -> None:
        if graph is None:
            decode(ask=True)
        else:
            graph.replay()
            ended.tolist()
        torch.cuda.synchronize()

    return step


def ragged_batches(*, fixed: bool) -> Step:
    """Batches of several lengths, and the cache emptied after each to save memory; fixed: kept by the allocator."""
    batches = [torch.randn(length, 2048).pin_memory() for length in (3072, 1024, 2560, 1536, 2048)]
    widen, narrow = weight(2048, 4096), weight(4096, 2048)
    scores = torch.zeros(len(batches), device="cuda")

    def forward(batch: torch.Tensor, score: torch.Tensor) -> None:
        hidden = batch.to("cuda", non_blocking=True) @ widen
        torch.sum(torch.relu(hidden) @ narrow, dim=(0, 1), out=score)

    def step() -> None:
        for batch, score in zip(batches, scores, strict=True):
            forward(batch, score)
            if not fixed:
                torch.cuda.empty_cache()
        torch.cuda.synchronize()

    return step


def loss_each_batch(*, fixed: bool) -> Step:
    """Two buffers and a stream for copies, but the next is only issued after the loss was read; fixed: one ahead."""
    ahead = 1 if fixed else 0
    side, main = torch.cuda.Stream(), torch.cuda.current_stream()
    batches = [torch.randn(1024, 16384).pin_memory() for _ in range(8)]
    buffers = [torch.empty(1024, 16384, device="cuda") for _ in range(2)]
    ready = [torch.cuda.Event() for _ in batches]
    model = nn.Sequential(nn.Linear(16384, 512), nn.ReLU(), nn.Linear(512, 512)).cuda()
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-4, foreach=True)

    def fetch(index: int) -> None:
        side.wait_stream(main)
        with torch.cuda.stream(side):
            buffers[index % 2].copy_(batches[index], non_blocking=True)
            ready[index].record()

    def step() -> None:
        losses = []
        for index in range(ahead):
            fetch(index)
        for index in range(len(batches)):
            if index + ahead < len(batches):
                fetch(index + ahead)
            main.wait_event(ready[index])
            loss = model(buffers[index % 2]).square().mean()
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
        torch.cuda.synchronize()

    return step


def ragged_tokens(*, fixed: bool) -> Step:
    """Five hundred sentences in pageable memory, one small copy each; fixed: gathered in a pinned buffer, one copy."""
    generator = np.random.default_rng(0)
    lengths = generator.integers(32, 992, 512).tolist()
    sentences = [torch.from_numpy(generator.integers(0, 32000, length, dtype=np.int64)) for length in lengths]
    staging = torch.zeros(sum(lengths), dtype=torch.int64, pin_memory=True)
    tokens = torch.zeros(sum(lengths), dtype=torch.int64, device="cuda")
    places = tokens.split(lengths)
    embedding, matrix = torch.randn(32000, 256, device="cuda"), weight(256, 1024)
    score = torch.zeros((), device="cuda")

    def step() -> None:
        if fixed:
            torch.cat(sentences, out=staging)
            tokens.copy_(staging, non_blocking=True)
        else:
            for place, sentence in zip(places, sentences, strict=True):
                place.copy_(sentence, non_blocking=True)
        torch.sum(functional.embedding(tokens, embedding) @ matrix, dim=(0, 1), out=score)
        torch.cuda.synchronize()

    return step


if __name__ == "__main__":
    main(
        (
            image_validation,
            embedding_rows,
            kv_round_trip,
            kv_offload,
            weights_streamed,
            producer_thread,
            gradient_offload,
            layer_metrics,
            evaluation_results,
            rnn_cells,
            greedy_decoding,
            ragged_batches,
            loss_each_batch,
            ragged_tokens,
        ),
        str(__doc__),
    )
