"""Another set of programs that were written and recorded before their predictions were looked at.

Each makes what its step needs and returns one step, faulty or fixed; ``recording`` says how they are run.
"""

from __future__ import annotations

import queue
import threading
from functools import partial

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from benchmarks.pairs.parts import captured, weight
from benchmarks.pairs.recording import Step, main


def video_upscaling(*, fixed: bool) -> Step:
    """Clips go up and come back twice as large, through pageable memory; fixed: pinned only, still waiting."""
    clips = [torch.randint(0, 256, (4, 3, 540, 960), dtype=torch.uint8) for _ in range(8)]
    if fixed:
        clips = [clip.pin_memory() for clip in clips]
    results = [torch.zeros(4, 3, 1080, 1920, dtype=torch.uint8, pin_memory=fixed) for _ in clips]
    model = nn.Sequential(
        nn.Conv2d(3, 32, 5, padding=2),
        nn.ReLU(),
        nn.Conv2d(32, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 12, 3, padding=1),
        nn.PixelShuffle(2),
        nn.Sigmoid(),
    )
    model = model.cuda().half().eval().requires_grad_(False)

    def step() -> None:
        for clip, result in zip(clips, results, strict=True):
            larger = model(clip.to("cuda").half().div_(255))
            result.copy_(larger.mul_(255).to(torch.uint8))
        torch.cuda.synchronize()

    return step


def audio_features(*, fixed: bool) -> Step:
    """The host scales recordings into pinned memory, but copying them up waits for them; fixed: asynchronous."""
    generator = np.random.default_rng(0)
    recordings = [generator.integers(-20000, 20000, (32, 80000), dtype=np.int16) for _ in range(8)]
    waves = [torch.zeros(32, 80000, pin_memory=True) for _ in recordings]
    window, filters = torch.hann_window(400, device="cuda"), torch.rand(80, 201, device="cuda").div_(201)
    encoder = nn.Sequential(
        nn.Conv1d(80, 512, 3, padding=1),
        nn.GELU(),
        nn.Conv1d(512, 512, 3, padding=1),
        nn.GELU(),
        nn.Conv1d(512, 512, 3, stride=2, padding=1),
    )
    encoder = encoder.cuda().eval().requires_grad_(False)
    scores = torch.zeros(len(waves), device="cuda")

    def step() -> None:
        for index, (samples, wave) in enumerate(zip(recordings, waves, strict=True)):
            np.multiply(samples, np.float32(1 / 32768), out=wave.numpy(), dtype=np.float32)
            signal = wave.to("cuda", non_blocking=fixed)
            spectrum = torch.stft(signal, 400, 160, window=window, return_complex=True).abs().square()
            features = encoder((filters @ spectrum).clamp_(min=1e-6).log10())
            torch.sum(features, dim=(0, 1, 2), out=scores[index])
        torch.cuda.synchronize()

    return step


def tabular_training(*, fixed: bool) -> Step:
    """A thread gathers rows into pageable batches; a small network is trained on them, one tensor at a time.

    Mended: pinned batches, copied asynchronously, and one graph for forward, backward and update.
    """
    rows, width, layers = 4096, 256, 12
    table = torch.rand(100_000, width)
    wanted = [torch.randint(0, len(table), (rows,)) for _ in range(12)]
    batches = [torch.zeros(rows, width, pin_memory=fixed) for _ in wanted]
    requests: queue.SimpleQueue[int] = queue.SimpleQueue()
    gathered: queue.SimpleQueue[int] = queue.SimpleQueue()
    inputs = torch.zeros(rows, width, device="cuda")
    matrices = [weight(width, width).requires_grad_() for _ in range(layers)]
    biases = [torch.zeros(width, device="cuda", requires_grad=True) for _ in range(layers)]
    parameters = [*matrices, *biases]
    means, squares = ([torch.zeros_like(each, requires_grad=False) for each in parameters] for _ in range(2))

    def gather() -> None:
        while True:
            index = requests.get()
            torch.index_select(table, 0, wanted[index], out=batches[index])
            gathered.put(index)

    def update() -> None:
        hidden = inputs
        for matrix, bias in zip(matrices, biases, strict=True):
            hidden = torch.tanh(torch.addmm(bias, hidden, matrix))
        gradients = torch.autograd.grad((hidden.mean(1) - inputs[:, 0]).square().mean(), parameters)
        with torch.no_grad():
            for each, gradient, mean, square in zip(parameters, gradients, means, squares, strict=True):
                mean.lerp_(gradient, 0.1)
                square.mul_(0.99).addcmul_(gradient, gradient, value=0.01)
                each.addcdiv_(mean, square.sqrt().add_(1e-4), value=-1e-4)

    graph = captured(update, [*parameters, *means, *squares]) if fixed else None
    threading.Thread(target=gather, daemon=True).start()

    def step() -> None:
        for index in range(len(batches)):
            requests.put(index)
        for _ in batches:
            inputs.copy_(batches[gathered.get()], non_blocking=fixed)
            update() if graph is None else graph.replay()
        torch.cuda.synchronize()

    return step


def activation_offload(*, fixed: bool) -> Step:
    """What each checkpointed block was given is kept in pinned memory for its backward pass, on the one stream.

    Mended: a stream for each direction, with events; three slots for what comes back.
    """
    layers, tokens, width, half = 8, 8192, 2048, torch.bfloat16
    up, down, main = torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.current_stream()
    stored = [torch.zeros(tokens, width, dtype=half, pin_memory=True) for _ in range(layers)]
    slots = [torch.zeros(tokens, width, dtype=half, device="cuda") for _ in range(3)]
    kept, free = [torch.cuda.Event() for _ in stored], [torch.cuda.Event() for _ in slots]
    ups = [weight(width, 4 * width, dtype=half).requires_grad_() for _ in range(layers)]
    downs = [weight(4 * width, width, dtype=half).requires_grad_() for _ in range(layers)]
    prompt = torch.randn(tokens, width, device="cuda").to(half).requires_grad_()
    packed: list[int] = []

    def pack(hidden: torch.Tensor) -> int:
        packed.append(len(packed))
        if fixed:
            down.wait_stream(main)
            hidden.record_stream(down)
        with torch.cuda.stream(down if fixed else main):
            stored[packed[-1]].copy_(hidden.detach(), non_blocking=True)
            kept[packed[-1]].record()
        return packed[-1]

    def unpack(index: int) -> torch.Tensor:
        if fixed:
            free[(index + 1) % 3].record(main)
            up.wait_event(kept[index])
            up.wait_event(free[index % 3])
        with torch.cuda.stream(up if fixed else main):
            slots[index % 3].copy_(stored[index], non_blocking=True)
        if fixed:
            main.wait_stream(up)
        return slots[index % 3]

    def block(hidden: torch.Tensor, widen: torch.Tensor, narrow: torch.Tensor) -> torch.Tensor:
        return hidden + functional.gelu(hidden @ widen) @ narrow

    def step() -> None:
        packed.clear()
        for each in (prompt, *ups, *downs):
            each.grad = None
        hidden: torch.Tensor = prompt
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            for widen, narrow in zip(ups, downs, strict=True):
                run = partial(block, widen=widen, narrow=narrow)
                hidden = checkpoint(run, hidden, use_reentrant=True, preserve_rng_state=False)
        hidden.float().square().mean().backward()
        torch.cuda.synchronize()

    return step


def optimizer_states(*, fixed: bool) -> Step:
    """Adam steps on each weight in the backward pass, with its states in pageable memory: up, used, and down again.

    Mended: pinned, asynchronous, a stream for each direction.
    """
    width, layers = 2048, 5
    up, down, main = torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.current_stream()
    weights = [weight(width, width).requires_grad_() for _ in range(layers)]
    stored = [torch.zeros(2, width, width, pin_memory=fixed) for _ in weights]
    states = [torch.zeros(2, width, width, device="cuda") for _ in weights]
    batch = torch.randn(8192, width, device="cuda")

    @torch.no_grad()
    def update(index: int, each: torch.Tensor) -> None:
        with torch.cuda.stream(up if fixed else main):
            states[index].copy_(stored[index], non_blocking=fixed)
        if fixed:
            main.wait_stream(up)
        (mean, square), gradient = states[index], each.grad
        if gradient is None:
            raise RuntimeError("no gradient to step with")
        mean.lerp_(gradient, 0.1)
        square.mul_(0.99).addcmul_(gradient, gradient, value=0.01)
        each.addcdiv_(mean, square.sqrt().add_(1e-6), value=-1e-5)
        each.grad = None
        if fixed:
            down.wait_stream(main)
        with torch.cuda.stream(down if fixed else main):
            stored[index].copy_(states[index], non_blocking=fixed)

    for index, each in enumerate(weights):
        each.register_post_accumulate_grad_hook(partial(update, index))

    def step() -> None:
        hidden = batch
        for each in weights:
            hidden = torch.relu(hidden @ each)
        hidden.square().mean().backward()
        torch.cuda.synchronize()

    return step


def expert_weights(*, fixed: bool) -> Step:
    """The experts of each layer come from pinned memory when the layer is due, on the one stream; fixed: one ahead."""
    layers, experts, tokens, width, half = 10, 8, 4096, 1024, torch.bfloat16
    side, main = torch.cuda.Stream(), torch.cuda.current_stream()
    shape = (2, experts, width, 2 * width)
    sources = [torch.zeros(shape, dtype=half, pin_memory=True) for _ in range(layers)]
    for source in sources:
        source.copy_(weight(*shape, dtype=half))
    buffers = [torch.zeros(shape, dtype=half, device="cuda") for _ in range(2)]
    ready, free = ([torch.cuda.Event() for _ in range(count)] for count in (layers, 2))
    prompt, project = torch.randn(experts * tokens, width, device="cuda").to(half), weight(width, width, dtype=half)
    route, score = torch.randperm(experts * tokens, device="cuda"), torch.zeros((), device="cuda")

    def fetch(index: int) -> None:
        if fixed:
            side.wait_event(free[index % 2])
        with torch.cuda.stream(side if fixed else main):
            buffers[index % 2].copy_(sources[index], non_blocking=True)
            ready[index].record()

    def step() -> None:
        hidden = prompt
        if fixed:
            fetch(0)
        for index in range(layers):
            if not fixed:
                fetch(index)
            elif index + 1 < layers:
                fetch(index + 1)
            routed = (hidden @ project)[route].view(experts, tokens, width)
            if fixed:
                main.wait_event(ready[index])
            widen, narrow = buffers[index % 2]
            routed = functional.gelu(routed @ widen) @ narrow.mT
            free[index % 2].record()
            hidden = functional.layer_norm(hidden + routed.view(-1, width), (width,))
        torch.sum(hidden, dim=(0, 1), dtype=torch.float32, out=score)
        torch.cuda.synchronize()

    return step


def gradient_accumulation(*, fixed: bool) -> Step:
    """Gradients of eight pageable batches are added up, with the loss read after each, and one update is made.

    Mended: pinned, asynchronous, two batches ahead, the losses read once.
    """
    count, ahead = 8, 2 if fixed else 0
    side, main = torch.cuda.Stream(), torch.cuda.current_stream()
    batches = [torch.randn(2048, 4096, pin_memory=fixed) for _ in range(count)]
    buffers = [torch.zeros(2048, 4096, device="cuda") for _ in range(3)]
    ready, free = ([torch.cuda.Event() for _ in range(number)] for number in (count, 3))
    losses = torch.zeros(count, device="cuda")
    model = nn.Sequential(nn.Linear(4096, 2048), nn.GELU(), nn.Linear(2048, 2048), nn.GELU(), nn.Linear(2048, 512))
    model = model.cuda()
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-4, foreach=True)

    def fetch(index: int) -> None:
        if fixed:
            side.wait_event(free[index % 3])
        with torch.cuda.stream(side if fixed else main):
            buffers[index % 3].copy_(batches[index], non_blocking=fixed)
            ready[index].record()

    def step() -> None:
        total = 0.0
        for index in range(ahead):
            fetch(index)
        for index in range(count):
            if index + ahead < count:
                fetch(index + ahead)
            main.wait_event(ready[index])
            loss = model(buffers[index % 3]).square().mean() / count
            loss.backward()
            free[index % 3].record()
            losses[index].copy_(loss.detach())
            if not fixed:
                total += losses[index].item()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        if fixed:
            total = sum(losses.tolist())
        torch.cuda.synchronize()

    return step


def diffusion_sampling(*, fixed: bool) -> Step:
    """In each step of a sampler the host reads the noise level and whether all numbers are finite.

    Mended: the host counts the steps instead, and asks about the numbers at the end.
    """
    count, channels, half = 30, 128, torch.float16
    sigmas = torch.cat([torch.linspace(10, 0.1, count), torch.zeros(1)]).cuda()
    finite, frequencies = torch.zeros(count, dtype=torch.bool, device="cuda"), torch.arange(64, device="cuda") / 8
    noise, result = torch.randn(8, 4, 64, 64, device="cuda"), torch.zeros(8, 4, 64, 64, device="cuda")
    embed = nn.Sequential(nn.Linear(channels, 512), nn.SiLU(), nn.Linear(512, channels)).cuda().requires_grad_(False)
    first, last = nn.Conv2d(4, channels, 3, padding=1), nn.Conv2d(channels, 4, 3, padding=1)
    blocks = [
        nn.Sequential(nn.GroupNorm(32, channels), nn.SiLU(), nn.Conv2d(channels, channels, 3, padding=1))
        for _ in range(6)
    ]
    for each in (first, last, *blocks):
        each.to("cuda", half, memory_format=torch.channels_last).requires_grad_(False)  # type: ignore[call-overload]

    def denoise(latents: torch.Tensor, sigma: torch.Tensor) -> torch.Tensor:
        angles = torch.log(sigma) * frequencies
        shift = embed(torch.cat([torch.sin(angles), torch.cos(angles)]))
        inverse = torch.rsqrt(sigma.square() + 1)
        hidden = first((latents * inverse).to(half, memory_format=torch.channels_last)) + shift.to(half).view(-1, 1, 1)
        for block in blocks:
            hidden = hidden + block(hidden)
        predicted: torch.Tensor = last(hidden).float()
        return latents * inverse.square() - predicted * (sigma * inverse * 0.01)

    def step() -> None:
        latents = noise * sigmas[0]
        for index in range(count):
            sigma, following = sigmas[index], sigmas[index + 1]
            denoised = denoise(latents, sigma)
            if index + 1 == count if fixed else following.item() == 0:
                latents = denoised
            else:
                latents = latents + (latents - denoised) / sigma * (following - sigma)
            torch.all(torch.isfinite(latents), out=finite[index])
            if not fixed and not finite[index].item():
                break
        result.copy_(latents)
        if fixed:
            finite.tolist()
        torch.cuda.synchronize()

    return step


def point_clouds(*, fixed: bool) -> Step:
    """Sweeps in pageable memory; the host reads how many points are in range, and the last voxel to size a grid.

    Mended: pinned, asynchronous; the grid has its full size, and the counts are read at the end.
    """
    points, extent, cells = 400_000, (64, 64, 8), 64 * 64 * 8
    sweeps = [torch.rand(points, 8).mul_(1.02) for _ in range(8)]
    if fixed:
        sweeps = [sweep.pin_memory() for sweep in sweeps]
    first, second, third = weight(8, 64), weight(64, 32), weight(32, 512)
    sizes, strides = torch.tensor(extent, device="cuda"), torch.tensor((512, 8, 1), device="cuda")
    counts = torch.zeros(len(sweeps), dtype=torch.int64, device="cuda")
    scores = torch.zeros(len(sweeps), device="cuda")

    def step() -> None:
        for index, sweep in enumerate(sweeps):
            cloud = sweep.to("cuda", non_blocking=fixed)
            inside = (cloud[:, :3] < 1).all(dim=1)
            torch.sum(inside, dim=0, out=counts[index])
            if not fixed and counts[index].item() == 0:
                continue
            voxels = ((cloud[:, :3].clamp(max=0.9999) * sizes).long() * strides).sum(dim=1)
            size = cells if fixed else int(voxels.max()) + 1
            features = torch.relu(cloud @ first) @ second * inside[:, None]
            grid = torch.zeros(size, 32, device="cuda").index_add_(0, voxels, features)
            torch.sum(torch.relu(grid @ third), dim=(0, 1), out=scores[index])
        if fixed:
            counts.tolist()
        torch.cuda.synchronize()

    return step


def rollout(*, fixed: bool) -> Step:
    """Environments on the host, a policy on the GPU: pageable frames go up, and actions come back in each step.

    Mended: the frames are pinned and copied asynchronously; the actions are still waited for.
    """
    count, side = 256, 84
    generator = np.random.default_rng(0)
    screens = generator.integers(0, 256, (64, side, side), dtype=np.uint8)
    frames = torch.zeros(count, 4, side, side, dtype=torch.uint8, pin_memory=fixed)
    stacked, places, rewards = frames.numpy(), np.zeros(count, dtype=np.int64), np.zeros((16, count))
    policy = nn.Sequential(
        nn.Conv2d(4, 32, 8, stride=4),
        nn.ReLU(),
        nn.Conv2d(32, 64, 4, stride=2),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(3136, 512),
        nn.ReLU(),
        nn.Linear(512, 6),
    )
    policy = policy.cuda().eval().requires_grad_(False)

    def step() -> None:
        stacked.fill(0)
        places[:] = np.arange(count)
        for at, reward in enumerate(rewards):
            stacked[:, at % 4] = screens[places % len(screens)]
            actions = policy(frames.to("cuda", non_blocking=fixed).float().div_(255)).argmax(dim=1)
            places[:] += actions.cpu().numpy()
            np.remainder(places, 7, out=reward)
        torch.cuda.synchronize()

    return step


def recommender_features(*, fixed: bool) -> Step:
    """Each batch has twenty-six pinned columns, copied one by one; fixed: gathered in a pinned buffer, one copy."""
    fields, rows, count, width, values = 26, 2048, 40, 64, 20_000
    batches = [
        [torch.randint(field * values, (field + 1) * values, (rows,)).pin_memory() for field in range(fields)]
        for _ in range(count)
    ]
    staging = [torch.zeros(fields, rows, dtype=torch.int64, pin_memory=True) for _ in batches]
    columns = torch.zeros(fields, rows, dtype=torch.int64, device="cuda")
    places, table = columns.unbind(), torch.randn(fields * values, width, device="cuda")
    first, second = weight(fields * width, 512), weight(512, 64)
    scores = torch.zeros(count, device="cuda")

    def step() -> None:
        for batch, buffer, score in zip(batches, staging, scores, strict=True):
            if fixed:
                torch.stack(batch, out=buffer)
                columns.copy_(buffer, non_blocking=True)
            else:
                for place, column in zip(places, batch, strict=True):
                    place.copy_(column, non_blocking=True)
            features = functional.embedding(columns, table).transpose(0, 1).reshape(rows, fields * width)
            torch.sum(torch.relu(features @ first) @ second, dim=(0, 1), out=score)
        torch.cuda.synchronize()

    return step


def lora_requests(*, fixed: bool) -> Step:
    """Each request has its own adapter, a hundred and twenty-eight small tensors in pageable memory, copied one by one.

    Mended: gathered in a pageable buffer that goes as one.
    """
    layers, tokens, width, rank, half = 32, 512, 1024, 8, torch.bfloat16
    adapters = [[torch.randn(rank * width).div_(32).to(half) for _ in range(4 * layers)] for _ in range(6)]
    staging = torch.zeros(4 * layers * rank * width, dtype=half)
    loaded = torch.zeros(4 * layers * rank * width, dtype=half, device="cuda")
    places = loaded.split(rank * width)
    ins, outs = ([each.view(shape) for each in places] for shape in ((width, rank), (rank, width)))
    firsts, seconds = ([weight(width, width, dtype=half) for _ in range(layers)] for _ in range(2))
    prompt, scores = torch.randn(tokens, width, device="cuda").to(half), torch.zeros(len(adapters), device="cuda")

    def forward(score: torch.Tensor) -> None:
        hidden = prompt
        for layer, (first, second) in enumerate(zip(firsts, seconds, strict=True)):
            at = 4 * layer
            inner = functional.gelu(torch.addmm(hidden @ first, hidden @ ins[at], outs[at + 1]))
            inner = torch.addmm(inner @ second, inner @ ins[at + 2], outs[at + 3])
            hidden = functional.layer_norm(hidden + inner, (width,))
        torch.sum(hidden, dim=(0, 1), dtype=torch.float32, out=score)

    def step() -> None:
        for adapter, score in zip(adapters, scores, strict=True):
            if fixed:
                torch.cat(adapter, out=staging)
                loaded.copy_(staging)
            else:
                for place, piece in zip(places, adapter, strict=True):
                    place.copy_(piece)
            forward(score)
        torch.cuda.synchronize()

    return step


def ode_solver(*, fixed: bool) -> Step:
    """Runge and Kutta's steps through a small network, four evaluations each; fixed: a graph for each solution."""
    steps, rows, width, size = 60, 256, 128, 0.05
    starts, ends = ([torch.randn(rows, width).pin_memory() for _ in range(3)] for _ in range(2))
    state, result = torch.zeros(rows, width, device="cuda"), torch.zeros(rows, width, device="cuda")
    first, second = weight(width, 2 * width), weight(2 * width, width)

    def slope(at: torch.Tensor) -> torch.Tensor:
        return torch.tanh(at @ first) @ second

    def solve() -> None:
        at = state
        for _ in range(steps):
            one = slope(at)
            two = slope(torch.add(at, one, alpha=size / 2))
            three = slope(torch.add(at, two, alpha=size / 2))
            four = slope(torch.add(at, three, alpha=size))
            at = torch.add(at, torch.add(one + four, two + three, alpha=2), alpha=size / 6)
        result.copy_(at)

    graph = captured(solve) if fixed else None

    def step() -> None:
        for start, end in zip(starts, ends, strict=True):
            state.copy_(start, non_blocking=True)
            solve() if graph is None else graph.replay()
            end.copy_(result, non_blocking=True)
        torch.cuda.synchronize()

    return step


def growing_history(*, fixed: bool) -> Step:
    """What was seen of a stream grows with each chunk into new memory, and the old goes back to the driver at once.

    Mended: it grows in one of two buffers made ahead, and the allocator keeps the rest.
    """
    length, heads, depth, half = 2048, 16, 128, torch.bfloat16
    width = heads * depth
    chunks = [torch.randn(length, width).to(half).pin_memory() for _ in range(12)]
    buffers = [torch.zeros(len(chunks) * length, 2 * width, dtype=half, device="cuda") for _ in range(2)]
    project, query = weight(width, 2 * width, dtype=half), weight(width, width, dtype=half)
    nothing, scores = torch.zeros(0, 2 * width, dtype=half, device="cuda"), torch.zeros(len(chunks), device="cuda")

    def attend(chunk: torch.Tensor, history: torch.Tensor, score: torch.Tensor) -> None:
        keys, values = history.view(1, -1, 2, heads, depth).permute(2, 0, 3, 1, 4)
        asked = (chunk @ query).view(1, length, heads, depth).transpose(1, 2)
        seen = functional.scaled_dot_product_attention(asked, keys, values)
        torch.sum(seen, dim=(0, 1, 2, 3), dtype=torch.float32, out=score)

    def step() -> None:
        history = nothing
        for index, (chunk, score) in enumerate(zip(chunks, scores, strict=True)):
            arrived = chunk.to("cuda", non_blocking=True)
            if fixed:
                longer = buffers[index % 2][: (index + 1) * length]
                history = torch.cat([history, arrived @ project], out=longer)
            else:
                history = torch.cat([history, arrived @ project])
                torch.cuda.empty_cache()
            attend(arrived, history, score)
        torch.cuda.synchronize()

    return step


if __name__ == "__main__":
    main(
        (
            video_upscaling,
            audio_features,
            tabular_training,
            activation_offload,
            optimizer_states,
            expert_weights,
            gradient_accumulation,
            diffusion_sampling,
            point_clouds,
            rollout,
            recommender_features,
            lora_requests,
            ode_solver,
            growing_history,
        ),
        str(__doc__),
    )
