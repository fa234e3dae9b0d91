"""A third set of programs that were written and recorded before their predictions were looked at.

Each makes what its step needs and returns one step, faulty or fixed; ``recording`` says how they are run.
"""

from __future__ import annotations

import queue
import threading
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks.pairs.parts import captured, weight
from benchmarks.pairs.recording import Step, main


def graph_sampling(*, fixed: bool) -> Step:
    """A thread gathers the features of sampled nodes, and the main one copies them and their neighbours, and waits.

    Mended: what is copied is pinned; the copies still wait.
    """
    width, fanout, half = 512, 8, torch.float16
    table = torch.rand(200_000, width).to(half)
    sizes = (8192, 30000, 15000, 24000, 4096, 32768, 20000, 10000, 28000, 16384)
    wanted = [torch.randint(0, len(table), (size,)) for size in sizes]
    gathered = [torch.zeros(size, width, dtype=half, pin_memory=fixed) for size in sizes]
    neighbours = [torch.randint(0, size, (size, fanout)) for size in sizes]
    if fixed:
        neighbours = [each.pin_memory() for each in neighbours]
    requests: queue.SimpleQueue[int] = queue.SimpleQueue()
    ready: queue.SimpleQueue[int] = queue.SimpleQueue()
    first, second = weight(2 * width, 1024, dtype=half), weight(2048, 256, dtype=half)
    scores = torch.zeros(len(sizes), device="cuda")

    def gather() -> None:
        while True:
            index = requests.get()
            torch.index_select(table, 0, wanted[index], out=gathered[index])
            ready.put(index)

    def with_neighbours(nodes: torch.Tensor, near: torch.Tensor) -> torch.Tensor:
        return torch.cat([nodes, nodes[near].view(len(nodes), fanout, -1).mean(1)], 1)

    threading.Thread(target=gather, daemon=True).start()

    def step() -> None:
        for index in range(len(sizes)):
            requests.put(index)
        for _ in sizes:
            index = ready.get()
            nodes = gathered[index].to("cuda")
            near = neighbours[index].to("cuda").view(-1)
            hidden = torch.relu(with_neighbours(nodes, near) @ first)
            hidden = with_neighbours(hidden, near) @ second
            torch.sum(hidden, dim=(0, 1), dtype=torch.float32, out=scores[index])
        torch.cuda.synchronize()

    return step


def offloaded_blocks(*, fixed: bool) -> Step:
    """A long prompt through decoder blocks whose weights stay in pinned memory; copying them up waits, block by block.

    Mended: asynchronous on a stream of their own, one block ahead in two sets of buffers.
    """
    layers, tokens, width, inner, heads, half = 8, 8192, 2048, 5632, 16, torch.bfloat16
    ahead = 1 if fixed else 0
    side, main = torch.cuda.Stream(), torch.cuda.current_stream()
    shapes = ((width, 3 * width), (width, width), (width, 2 * inner), (inner, width))
    stored = [[weight(*shape, dtype=half).cpu().pin_memory() for shape in shapes] for _ in range(layers)]
    slots = [[torch.zeros(shape, dtype=half, device="cuda") for shape in shapes] for _ in range(2)]
    ready, free = ([torch.cuda.Event() for _ in range(number)] for number in (layers, 2))
    prompt = torch.randn(tokens, width, device="cuda").to(half)
    result = torch.zeros(width, dtype=half, device="cuda")

    def fetch(index: int) -> None:
        if fixed:
            side.wait_event(free[index % 2])
        with torch.cuda.stream(side if fixed else main):
            for slot, host in zip(slots[index % 2], stored[index], strict=True):
                slot.copy_(host, non_blocking=fixed)
            ready[index].record()

    def block(hidden: torch.Tensor, weights: list[torch.Tensor]) -> torch.Tensor:
        project, merge, widen, narrow = weights
        states = functional.rms_norm(hidden, (width,)) @ project
        query, key, value = states.view(1, tokens, 3, heads, -1).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + seen.transpose(1, 2).reshape(tokens, width) @ merge
        gate, up = (functional.rms_norm(hidden, (width,)) @ widen).chunk(2, -1)
        return hidden + (functional.silu(gate) * up) @ narrow

    def step() -> None:
        hidden = prompt
        for index in range(ahead):
            fetch(index)
        for index in range(layers):
            if index + ahead < layers:
                fetch(index + ahead)
            main.wait_event(ready[index])
            hidden = block(hidden, slots[index % 2])
            free[index % 2].record()
        result.copy_(hidden[-1])
        torch.cuda.synchronize()

    return step


def scan_denoising(*, fixed: bool) -> Step:
    """Slabs of a scan, of 32 to 256 MiB, go up, are smoothed along their edges, and come back, all on one stream.

    Mended: a stream for each direction, with events.
    """
    depths, rows, sweeps = (8, 16, 64, 32, 8), 1024, 2
    up, down, main = torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.current_stream()
    scans = [torch.rand(depth, rows, rows).pin_memory() for depth in depths]
    results = [torch.zeros(depth, rows, rows, pin_memory=True) for depth in depths]
    slabs = [torch.zeros(depth, rows, rows, device="cuda") for depth in depths]
    smoothed = [torch.zeros(depth, rows, rows, device="cuda") for depth in depths]
    arrived, done = ([torch.cuda.Event() for _ in depths] for _ in range(2))

    def smooth(slab: torch.Tensor, out: torch.Tensor) -> None:
        volume = slab
        for _ in range(sweeps):
            change = torch.zeros_like(volume)
            for axis in range(3):
                slope = torch.roll(volume, -1, axis) - volume
                flux = slope / slope.square().mul_(100).add_(1)
                change += flux - torch.roll(flux, 1, axis)
            volume = torch.add(volume, change, alpha=0.1)
        out.copy_(volume)

    def step() -> None:
        for index, (scan, slab) in enumerate(zip(scans, slabs, strict=True)):
            with torch.cuda.stream(up if fixed else main):
                slab.copy_(scan, non_blocking=True)
                if fixed:
                    arrived[index].record()
            if fixed:
                main.wait_event(arrived[index])
            smooth(slab, smoothed[index])
            if fixed:
                done[index].record()
                down.wait_event(done[index])
            with torch.cuda.stream(down if fixed else main):
                results[index].copy_(smoothed[index], non_blocking=True)
        torch.cuda.synchronize()

    return step


def wave_snapshots(*, fixed: bool) -> Step:
    """Seismic waves in small time steps, and after every twelve a snapshot to pageable memory, waiting for it.

    Mended: pinned, asynchronous, on a stream of its own.
    """
    size, count, between = 2048, 8, 12
    side, main = torch.cuda.Stream(), torch.cuda.current_stream()
    snapshots = [torch.zeros(size, size, pin_memory=fixed) for _ in range(count)]
    slots = [torch.zeros(size, size, device="cuda") for _ in range(2)]
    taken, copied = ([torch.cuda.Event() for _ in slots] for _ in range(2))
    start, speed = torch.randn(size, size, device="cuda"), torch.rand(size - 2, size - 2, device="cuda").mul_(0.2)
    fields = [torch.zeros(size, size, device="cuda") for _ in range(2)]

    def advance(before: torch.Tensor, now: torch.Tensor) -> None:
        inner, target = now[1:-1, 1:-1], before[1:-1, 1:-1]
        bent = now[:-2, 1:-1] + now[2:, 1:-1]
        bent.add_(now[1:-1, :-2]).add_(now[1:-1, 2:]).sub_(inner, alpha=4)
        target.neg_().add_(inner, alpha=2).addcmul_(speed, bent)

    def step() -> None:
        before, now = fields
        for field in fields:
            field.copy_(start)
        for index, snapshot in enumerate(snapshots):
            for _ in range(between):
                advance(before, now)
                before, now = now, before
            if fixed:
                main.wait_event(copied[index % 2])
            torch.abs(now, out=slots[index % 2])
            if fixed:
                taken[index % 2].record()
                side.wait_event(taken[index % 2])
            with torch.cuda.stream(side if fixed else main):
                snapshot.copy_(slots[index % 2], non_blocking=fixed)
                if fixed:
                    copied[index % 2].record()
        torch.cuda.synchronize()

    return step


def pressure_solver(*, fixed: bool) -> Step:
    """Conjugate gradients for the pressure of a fluid; the residual is read in each iteration (it is never small).

    Mended: one graph for the iterations of a frame, and the residuals are read at the end.
    """
    size, iterations = 384, 80
    frames, pressures = ([torch.randn(size, size).pin_memory() for _ in range(2)] for _ in range(2))
    divergence, pressure = (torch.zeros(size, size, device="cuda") for _ in range(2))
    residuals = torch.zeros(iterations, device="cuda")
    history = torch.zeros(len(frames), iterations, device="cuda")

    def laplacian(field: torch.Tensor) -> torch.Tensor:
        wide = functional.pad(field, (1, 1, 1, 1))
        around = wide[:-2, 1:-1] + wide[2:, 1:-1]
        return torch.sub(field * 4.01, around.add_(wide[1:-1, :-2]).add_(wide[1:-1, 2:]))

    def solve(*, ask: bool) -> None:
        rest = divergence.clone()
        direction, size_of_rest = rest.clone(), rest.square().sum()
        pressure.zero_()
        for at in range(iterations):
            turned = laplacian(direction)
            length = size_of_rest / (direction * turned).sum()
            pressure.add_(direction * length)
            rest.sub_(turned * length)
            smaller = rest.square().sum()
            direction.mul_(smaller / size_of_rest).add_(rest)
            size_of_rest = smaller
            torch.sqrt(smaller, out=residuals[at])
            if ask and residuals[at].item() < 0:
                break

    graph = captured(lambda: solve(ask=False)) if fixed else None

    def step() -> None:
        for index, (frame, solved) in enumerate(zip(frames, pressures, strict=True)):
            divergence.copy_(frame, non_blocking=True)
            solve(ask=True) if graph is None else graph.replay()
            history[index].copy_(residuals)
            solved.copy_(pressure, non_blocking=True)
        if fixed:
            history.tolist()
        torch.cuda.synchronize()

    return step


def molecular_dynamics(*, fixed: bool) -> Step:
    """A few atoms move in very many short time steps, and now and then their places are kept in pinned memory.

    Mended: the time steps between two frames are one graph.
    """
    side, between, box, size = 5, 30, 6.0, 0.002
    grid = torch.arange(side, device="cuda") * (box / side)
    start = torch.cartesian_prod(grid, grid, grid)
    start += torch.randn(start.shape, device="cuda").mul_(0.02)
    frames = [torch.zeros(side**3, 3, pin_memory=True) for _ in range(4)]
    places, speeds = torch.zeros_like(start), torch.zeros_like(start)
    oneself = torch.eye(side**3, device="cuda")

    def advance() -> None:
        for _ in range(between):
            apart = places[:, None] - places
            apart -= torch.round(apart / box) * box
            inverse = (apart.square().sum(-1) + oneself * 1e6).reciprocal()
            cubed = inverse**3
            strength = (cubed.square() * 2 - cubed) * inverse * 24
            speeds.add_((apart * strength[..., None]).sum(1), alpha=size)
            places.add_(speeds, alpha=size)

    graph = captured(advance, [places, speeds]) if fixed else None

    def step() -> None:
        places.copy_(start)
        speeds.zero_()
        for frame in frames:
            advance() if graph is None else graph.replay()
            frame.copy_(places, non_blocking=True)
        torch.cuda.synchronize()

    return step


def multi_agent_replay(*, fixed: bool) -> Step:
    """Actors and a critic learn from a replay buffer on the host: forty small columns a batch, copied one by one.

    Mended: gathered in a pinned buffer and copied as one, and the update is a graph.
    """
    agents, rows, seen, acts, stored, count = 8, 256, 24, 4, 50_000, 12
    widths = (seen, acts, 1, seen, 1)
    store = [torch.rand(stored, width) for _ in range(agents) for width in widths]
    sampled = [torch.randint(0, stored, (rows,)) for _ in range(count)]
    total = agents * rows * sum(widths)
    staging = [torch.zeros(total, pin_memory=True) for _ in sampled]
    loaded = torch.zeros(total, device="cuda")
    places = [each.view(rows, -1) for each in loaded.split([rows * width for _ in range(agents) for width in widths])]
    actor = [weight(agents, seen, 64), weight(agents, 64, acts)]
    critic = [weight(agents * (seen + acts), 256), weight(256, 256), weight(256, agents)]
    learnt = [each.requires_grad_() for each in (*actor, *critic)]
    slow = [each.detach().clone() for each in learnt]

    def act(observed: torch.Tensor, weights: list[torch.Tensor]) -> torch.Tensor:
        return torch.tanh(torch.relu(observed @ weights[0]) @ weights[1])

    def value(observed: torch.Tensor, acted: torch.Tensor, weights: list[torch.Tensor]) -> torch.Tensor:
        joint = torch.cat([observed, acted], -1).transpose(0, 1).reshape(rows, -1)
        return torch.relu(torch.relu(joint @ weights[0]) @ weights[1]) @ weights[2]

    def update() -> None:
        observed, acted, reward, following, ended = (torch.stack(places[kind::5]) for kind in range(5))
        with torch.no_grad():
            later = value(following, act(following, slow[:2]), slow[2:])
            wanted = reward.squeeze(-1).T + (1 - ended.squeeze(-1).T) * later * 0.95
        error = (value(observed, acted, critic) - wanted).square().mean()
        worth = -value(observed, act(observed, actor), critic).mean()
        gradients = [*torch.autograd.grad(worth, actor), *torch.autograd.grad(error, critic)]
        with torch.no_grad():
            for each, gradient, follower in zip(learnt, gradients, slow, strict=True):
                each.add_(gradient, alpha=-1e-3)
                follower.lerp_(each, 0.01)

    graph = captured(update, [*learnt, *slow]) if fixed else None

    def step() -> None:
        for ids, buffer in zip(sampled, staging, strict=True):
            columns = [torch.index_select(column, 0, ids) for column in store]
            if fixed:
                torch.cat([column.view(-1) for column in columns], out=buffer)
                loaded.copy_(buffer, non_blocking=True)
            else:
                for place, column in zip(places, columns, strict=True):
                    place.copy_(column, non_blocking=True)
            update() if graph is None else graph.replay()
        torch.cuda.synchronize()

    return step


def detected_crops(*, fixed: bool) -> Step:
    """What a detector cut out of each picture goes up crop by crop from pageable memory, to be looked up in a gallery.

    Mended: the crops of a picture are gathered in a pinned buffer and copied as one.
    """
    counts, edge, half = (96, 240, 160, 48, 320, 128, 200, 64), 96, torch.float16
    generator = np.random.default_rng(0)
    pictures = [
        [torch.from_numpy(generator.integers(0, 256, (3, edge, edge), dtype=np.uint8)) for _ in range(count)]
        for count in counts
    ]
    staging = [torch.zeros(count, 3, edge, edge, dtype=torch.uint8, pin_memory=True) for count in counts]
    crops = torch.zeros(max(counts), 3, edge, edge, dtype=torch.uint8, device="cuda")
    model = nn.Sequential(
        nn.Conv2d(3, 64, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(64, 128, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(128, 256, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(256, 256),
    )
    model = model.cuda().half().eval().requires_grad_(False)
    gallery = torch.randn(256, 20_000, device="cuda").to(half)
    found = [torch.zeros(count, dtype=torch.int64, device="cuda") for count in counts]

    def step() -> None:
        for picture, buffer, best in zip(pictures, staging, found, strict=True):
            batch = crops[: len(picture)]
            if fixed:
                torch.stack(picture, out=buffer)
                batch.copy_(buffer, non_blocking=True)
            else:
                for place, crop in zip(batch.unbind(), picture, strict=True):
                    place.copy_(crop, non_blocking=True)
            features = functional.normalize(model(batch.to(half).div_(255)), dim=1)
            torch.argmax(features @ gallery, dim=1, out=best)
        torch.cuda.synchronize()

    return step


def scene_tiles(*, fixed: bool) -> Step:
    """Each tile of a satellite's scene gets pinned memory of its own, which goes back to the system after the scene.

    Mended: the buffers are made ahead.
    """
    shape, count = (4, 512, 1024), 8
    generator = np.random.default_rng(0)
    scene = [generator.integers(0, 10_000, shape, dtype=np.uint16) for _ in range(count)]
    maps = [torch.zeros(shape[1:], dtype=torch.uint8) for _ in scene]
    ahead = [_tile_buffers(shape) for _ in scene] if fixed else []
    model = nn.Sequential(nn.Conv2d(5, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 6, 3, padding=1))
    model = model.cuda().eval().requires_grad_(False)

    def classify(bands: torch.Tensor) -> torch.Tensor:
        red, infrared = bands[2], bands[3]
        greenness = (infrared - red) / (infrared + red + 1e-3)
        classes: torch.Tensor = model(torch.cat([bands, greenness[None]])[None]).argmax(dim=1)
        return classes[0].to(torch.uint8)

    def step() -> None:
        buffers = []
        for index, raw in enumerate(scene):
            buffers.append(ahead[index] if fixed else _tile_buffers(shape))
            staging, label = buffers[index]
            np.multiply(raw, np.float32(1e-4), out=staging.numpy(), dtype=np.float32)
            label.copy_(classify(staging.to("cuda", non_blocking=True)), non_blocking=True)
        torch.cuda.synchronize()
        for index, kept in enumerate(maps):
            kept.copy_(buffers[index][1])
        if not fixed:
            del staging, label
            buffers.clear()
            _empty_host_cache()

    return step


def _tile_buffers(shape: tuple[int, int, int]) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty(shape, pin_memory=True), torch.empty(shape[1:], dtype=torch.uint8, pin_memory=True)


def _empty_host_cache() -> None:
    """What ``torch.cuda.empty_cache`` is to the GPU's memory; older versions of torch keep it private."""
    empty = getattr(torch.accelerator, "empty_host_cache", None)
    if empty is None:
        empty = torch._C._host_emptyCache  # noqa: SLF001
    empty()


def speech_chunks(*, fixed: bool) -> Step:
    """A streaming recogniser gets five small pinned tensors with each chunk of speech, and copying each one up waits.

    Mended: asynchronous.
    """
    callers, length, width, layers, count = 16, 32, 256, 2, 120
    chunks = [
        [
            each.pin_memory()
            for each in (
                torch.randn(callers, length, 80),
                torch.rand(callers, length, 1).round(),
                torch.randn(callers, 192),
                torch.randn(callers, 512),
                torch.randint(0, 40, (callers,)),
            )
        ]
        for _ in range(count)
    ]
    tails = [torch.zeros(callers, width, 4, device="cuda") for _ in range(layers)]
    kernels = [torch.randn(width, 1, 5, device="cuda").div_(5) for _ in range(layers)]
    ups, downs = [weight(width, 512) for _ in range(layers)], [weight(512, width) for _ in range(layers)]
    inward, voices, contexts, head = weight(80, width), weight(192, width), weight(512, width), weight(width, 1024)
    languages = torch.randn(40, width, device="cuda")
    history = torch.zeros(count, callers, length, dtype=torch.int64, device="cuda")

    def recognise(chunk: list[torch.Tensor], out: torch.Tensor) -> None:
        features, mask, voice, context, language = chunk
        about = voice @ voices + context @ contexts + functional.embedding(language, languages)
        hidden = features @ inward * mask + about[:, None]
        for tail, kernel, widen, narrow in zip(tails, kernels, ups, downs, strict=True):
            joined = torch.cat([tail, hidden.mT], 2)
            tail.copy_(joined[..., -4:])
            mixed = functional.conv1d(joined, kernel, groups=width).mT
            hidden = hidden + functional.gelu(mixed @ widen) @ narrow
        torch.argmax(hidden @ head, dim=-1, out=out)

    def step() -> None:
        for tail in tails:
            tail.zero_()
        for chunk, tokens in zip(chunks, history, strict=True):
            recognise([each.to("cuda", non_blocking=fixed) for each in chunk], tokens)
        torch.cuda.synchronize()

    return step


def distillation(*, fixed: bool) -> Step:
    """A thread sends shuffled pictures through a teacher on its own stream and keeps its features on the host.

    The student is trained in the main thread. Pageable memory and waiting in both directions; fixed: pinned and
    asynchronous.
    """
    count, pictures, half = 6, 256, torch.float16
    side, main = torch.cuda.Stream(), torch.cuda.current_stream()
    generator = np.random.default_rng(0)
    raw = [generator.integers(0, 256, (pictures, 3, 128, 128), dtype=np.uint8) for _ in range(count)]
    orders = [generator.permutation(pictures) for _ in raw]
    shuffled = [torch.zeros(pictures, 3, 128, 128, dtype=torch.uint8, pin_memory=fixed) for _ in raw]
    kept = [torch.zeros(pictures, 64, 256, pin_memory=fixed) for _ in raw]
    inputs = [torch.zeros(pictures, 3, 128, 128, dtype=torch.uint8, device="cuda") for _ in raw]
    features = [torch.zeros(pictures, 64, 256, device="cuda") for _ in raw]
    ready = [torch.cuda.Event() for _ in raw]
    requests: queue.SimpleQueue[int] = queue.SimpleQueue()
    taught: queue.SimpleQueue[int] = queue.SimpleQueue()
    stored: queue.SimpleQueue[int] = queue.SimpleQueue()
    channels = (3, 64, 128, 256, 256)
    teacher = nn.Sequential(
        *(each for i, o in pairwise(channels) for each in (nn.Conv2d(i, o, 3, stride=2, padding=1), nn.ReLU()))
    )
    teacher = teacher.cuda().half().eval().requires_grad_(False)
    student = nn.Sequential(nn.Linear(768, 512), nn.GELU(), nn.Linear(512, 256)).cuda()
    optimiser = torch.optim.SGD(student.parameters(), lr=1e-3, foreach=True)

    def teach() -> None:
        while True:
            index = requests.get()
            np.take(raw[index], orders[index], axis=0, out=shuffled[index].numpy(), mode="clip")
            with torch.cuda.stream(side):
                inputs[index].copy_(shuffled[index], non_blocking=fixed)
                maps = teacher(inputs[index].to(half).div_(255))
                features[index].copy_(maps.flatten(2).mT)
                ready[index].record()
                taught.put(index)
                kept[index].copy_(features[index], non_blocking=fixed)
            stored.put(index)

    threading.Thread(target=teach, daemon=True).start()

    def step() -> None:
        for index in range(count):
            requests.put(index)
        for _ in range(count):
            index = taught.get()
            main.wait_event(ready[index])
            patches = inputs[index].view(pictures, 3, 8, 16, 8, 16).permute(0, 2, 4, 1, 3, 5).reshape(pictures, 64, 768)
            loss = functional.mse_loss(student(patches.float().div_(255)), features[index])
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
        for _ in range(count):
            stored.get()
        torch.cuda.synchronize()

    return step


def parameter_server(*, fixed: bool) -> Step:
    """Embeddings from a table on the host go up, and their gradients down, in the backward pass; both copies wait.

    Both are pinned. Mended: asynchronous, a stream for each direction.
    """
    count, rows, fields, width = 6, 2048, 16, 128
    up, down, main = torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.current_stream()
    table = torch.rand(500_000, width).sub_(0.5)
    wanted = [torch.randint(0, len(table), (rows * fields,)) for _ in range(count)]
    gathered = [torch.zeros(rows * fields, width, pin_memory=True) for _ in wanted]
    gradients = [torch.zeros(rows * fields, width, pin_memory=True) for _ in wanted]
    looked_up = [torch.zeros(rows * fields, width, device="cuda", requires_grad=True) for _ in wanted]
    clicks = [torch.rand(rows, device="cuda") for _ in wanted]
    weights = [weight(fields * (width + fields), 1024), weight(1024, 512), weight(512, 1)]
    optimiser = torch.optim.SGD([each.requires_grad_() for each in weights], lr=1e-3, foreach=True)

    def send(index: int, each: torch.Tensor) -> None:
        gradient = each.grad
        if gradient is None:
            raise RuntimeError("no gradient to send")
        if fixed:
            down.wait_stream(main)
            gradient.record_stream(down)
        with torch.cuda.stream(down if fixed else main):
            gradients[index].copy_(gradient, non_blocking=fixed)
        each.grad = None

    for index, each in enumerate(looked_up):
        each.register_post_accumulate_grad_hook(partial(send, index))

    def step() -> None:
        for ids, host, embedded, click in zip(wanted, gathered, looked_up, clicks, strict=True):
            torch.index_select(table, 0, ids, out=host)
            with torch.cuda.stream(up if fixed else main):
                embedded.detach().copy_(host, non_blocking=fixed)
            if fixed:
                main.wait_stream(up)
            vectors = embedded.view(rows, fields, width)
            pairs = torch.bmm(vectors, vectors.mT)
            hidden = torch.cat([vectors.flatten(1), pairs.flatten(1)], 1)
            for each in weights[:-1]:
                hidden = torch.relu(hidden @ each)
            loss = functional.binary_cross_entropy_with_logits((hidden @ weights[-1])[:, 0], click)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
        torch.cuda.synchronize()

    return step


def clustering(*, fixed: bool) -> Step:
    """Batches of points move the centres of clusters; the host asks each time if they moved and how many are empty.

    Mended: it asks once, at the end (they always move).
    """
    iterations, size, width, clusters = 250, 4096, 64, 256
    batches = torch.randn(16, size, width, device="cuda").unbind()
    names, start = torch.arange(clusters, device="cuda"), torch.randn(clusters, width, device="cuda")
    moved = torch.zeros(iterations, dtype=torch.bool, device="cuda")
    empty = torch.zeros(iterations, dtype=torch.int64, device="cuda")
    result = torch.zeros(clusters, width, device="cuda")

    def step() -> None:
        centres, without = start, 0
        for at in range(iterations):
            points = batches[at % len(batches)]
            distances = torch.addmm(centres.square().sum(1), points, centres.T, alpha=-2)
            members = (distances.argmin(1)[:, None] == names).float()
            counts = members.sum(0)
            means = (members.T @ points) / counts.clamp(min=1)[:, None]
            following = torch.where(counts[:, None] > 0, torch.lerp(centres, means, 0.1), centres)
            torch.any((following != centres).view(-1), dim=0, out=moved[at])
            torch.sum(counts == 0, dim=0, out=empty[at])
            centres = following
            if not fixed:
                without += int(empty[at].cpu())
                if not bool(moved[at]):
                    break
        result.copy_(centres)
        if fixed:
            moved.tolist()
            without = sum(empty.tolist())
        torch.cuda.synchronize()

    return step


def paged_serving(*, fixed: bool) -> Step:
    """Each decoding step sends the page table of each request by itself, and reads the tokens to see which have ended.

    Mended: the tables are gathered in a pinned buffer and copied as one, and the tokens are read at the end.
    """
    requests, pages, page, tokens, layers, heads, half = 48, 64, 16, 24, 3, 8, torch.float16
    width, start, end = heads * 64, pages * page - tokens, -1
    owned = torch.randperm(requests * pages).view(requests, pages)
    tables = [[row.clone() for row in owned] for _ in range(tokens)]
    staging = [torch.zeros(requests, pages, dtype=torch.int64, pin_memory=True) for _ in tables]
    table = torch.zeros(requests, pages, dtype=torch.int64, device="cuda")
    places = table.unbind()
    cache = torch.randn(layers, 2, requests * pages, page, width, device="cuda", dtype=half)
    embedding, head = torch.randn(8192, width, device="cuda").to(half), weight(width, 8192, dtype=half)
    projects, merges, ups, downs = (
        [weight(*shape, dtype=half) for _ in range(layers)]
        for shape in ((width, 3 * width), (width, width), (width, 4 * width), (4 * width, width))
    )
    prompt = torch.arange(requests, device="cuda")
    history = torch.zeros(tokens, requests, dtype=torch.int64, device="cuda")

    def attend(layer: int, hidden: torch.Tensor, position: int) -> torch.Tensor:
        query, key, value = (functional.rms_norm(hidden, (width,)) @ projects[layer]).chunk(3, -1)
        used, (at, slot) = table[:, : position // page + 1], divmod(position, page)
        past: list[torch.Tensor] = []
        for kind, new in enumerate((key, value)):
            cache[layer, kind, :, slot].index_copy_(0, table[:, at], new)
            known = cache[layer, kind][used].flatten(1, 2)[:, : position + 1]
            past.append(known.view(requests, -1, heads, 64).transpose(1, 2))
        seen = functional.scaled_dot_product_attention(query.view(requests, heads, 1, 64), past[0], past[1])
        return seen.reshape(requests, width) @ merges[layer]

    def step() -> None:
        token, ended = prompt, 0
        for at in range(tokens):
            if fixed:
                torch.stack(tables[at], out=staging[at])
                table.copy_(staging[at], non_blocking=True)
            else:
                for place, row in zip(places, tables[at], strict=True):
                    place.copy_(row, non_blocking=True)
            hidden = functional.embedding(token, embedding)
            for layer in range(layers):
                hidden = hidden + attend(layer, hidden, start + at)
                inner = functional.gelu(functional.rms_norm(hidden, (width,)) @ ups[layer])
                hidden = hidden + inner @ downs[layer]
            token = torch.argmax(hidden @ head, dim=-1, out=history[at])
            if not fixed:
                ended += token.tolist().count(end)
        if fixed:
            ended = sum(row.count(end) for row in history.tolist())
        torch.cuda.synchronize()

    return step


def weather_forcing(*, fixed: bool) -> Step:
    """What drives a model of the air comes from pageable memory, and the host reads the wind to choose the time steps.

    Mended: pinned, asynchronous on a stream of its own, two ahead; the wind is still read.
    """
    shape, count, ahead = (8, 1024, 1024), 8, 2 if fixed else 0
    side, main = torch.cuda.Stream(), torch.cuda.current_stream()
    forcings = [torch.randn(shape).mul_(1 + index % 3) for index in range(count)]
    if fixed:
        forcings = [each.pin_memory() for each in forcings]
    slots = [torch.zeros(shape, device="cuda") for _ in range(3)]
    ready, free = ([torch.cuda.Event() for _ in range(number)] for number in (count, 3))
    start, wind = torch.randn(shape, device="cuda"), torch.zeros(count, device="cuda")
    result = torch.zeros(shape[0], device="cuda")

    def fetch(index: int) -> None:
        if fixed:
            side.wait_event(free[index % 3])
        with torch.cuda.stream(side if fixed else main):
            slots[index % 3].copy_(forcings[index], non_blocking=fixed)
            ready[index].record()

    def advance(field: torch.Tensor, forcing: torch.Tensor) -> torch.Tensor:
        east, north = torch.roll(field, 1, 2) - field, torch.roll(field, 1, 1) - field
        return (field + torch.tanh(field) * (east + north) * 0.1).lerp_(forcing, 0.02)

    def step() -> None:
        field = start
        for index in range(ahead):
            fetch(index)
        for index in range(count):
            if index + ahead < count:
                fetch(index + ahead)
            main.wait_event(ready[index])
            field = torch.lerp(field, slots[index % 3], 0.5)
            torch.amax(field.abs(), dim=(0, 1, 2), out=wind[index])
            for _ in range(min(8, 2 + int(wind[index].item()))):
                field = advance(field, slots[index % 3])
            free[index % 3].record()
        torch.mean(field, dim=(1, 2), out=result)
        torch.cuda.synchronize()

    return step


def template_matching(*, fixed: bool) -> Step:
    """Templates are sought in a large picture; each best place is read at once, and the cache emptied for the next.

    Mended: the allocator keeps the memory, and the places are read at the end.
    """
    size, half_height = 4096, 7
    sides = ((64, 96), (256, 256), (128, 48), (512, 320), (96, 96), (200, 400), (32, 64), (384, 384), (160, 160))
    templates = [torch.randn(side).pin_memory() for side in sides]
    picture = torch.randn(size, size, device="cuda")
    spectrum = torch.fft.rfft2(picture)
    best = torch.zeros(len(sides), dtype=torch.int64, device="cuda")

    def seek(template: torch.Tensor, out: torch.Tensor) -> None:
        height, width = template.shape
        padded = torch.zeros(size, size, device="cuda")
        padded[:height, :width].copy_(template, non_blocking=True)
        response = torch.fft.irfft2(spectrum * torch.fft.rfft2(padded).conj(), s=(size, size))
        around = functional.avg_pool2d(response.square()[None], half_height, 1, half_height // 2)[0]
        torch.argmax((response / (around.sqrt() + 1)).view(-1), dim=0, out=out)

    def step() -> None:
        places = []
        for template, at in zip(templates, best, strict=True):
            seek(template, at)
            if not fixed:
                places.append(divmod(int(at.item()), size))
                torch.cuda.empty_cache()
        if fixed:
            places = [divmod(at, size) for at in best.tolist()]
        torch.cuda.synchronize()

    return step


PROGRAMS = (
    graph_sampling,
    offloaded_blocks,
    scan_denoising,
    wave_snapshots,
    pressure_solver,
    molecular_dynamics,
    multi_agent_replay,
    detected_crops,
    scene_tiles,
    speech_chunks,
    distillation,
    parameter_server,
    clustering,
    paged_serving,
    weather_forcing,
    template_matching,
)


if __name__ == "__main__":
    main(PROGRAMS, str(__doc__))
