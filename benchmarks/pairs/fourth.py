"""A fourth set of programs that were written by someone who did not know how the replay predicts.

Each makes what its step needs and returns one step, faulty or fixed; ``recording`` says how they are run.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from itertools import accumulate, pairwise

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks.pairs.parts import captured, weight
from benchmarks.pairs.recording import Step, main
from overlapscope import annotate


def lora_finetuning(*, fixed: bool) -> Step:
    """Adapters of a frozen language model are trained on pageable sentences; each norm and each loss is read for a log.

    Mended: pinned, asynchronous, the log is read at the end.
    """
    layers, rows, length, width, heads, rank, words, half = 5, 2, 512, 2048, 16, 16, 32_000, torch.bfloat16
    sentences = [torch.randint(0, words, (rows, length + 1)) for _ in range(8)]
    if fixed:
        sentences = [each.pin_memory() for each in sentences]
    shapes = ((width, 3 * width), (width, width), (width, 4 * width), (4 * width, width))
    embedding, head = torch.randn(words, width, device="cuda").to(half), weight(width, words, dtype=half)
    frozen = [[weight(*shape, dtype=half) for shape in shapes] for _ in range(layers)]
    ins = [[weight(shape[0], rank, dtype=half) for shape in shapes] for _ in range(layers)]
    outs = [[torch.zeros(rank, shape[1], dtype=half, device="cuda") for shape in shapes] for _ in range(layers)]
    learnt = [each.requires_grad_() for layer in (*ins, *outs) for each in layer]
    optimiser = torch.optim.AdamW(learnt, lr=1e-4, foreach=True)
    norms, losses = torch.zeros(len(sentences), device="cuda"), torch.zeros(len(sentences), device="cuda")

    def adapted(hidden: torch.Tensor, layer: int, at: int) -> torch.Tensor:
        return hidden @ frozen[layer][at] + hidden @ ins[layer][at] @ outs[layer][at]

    def block(hidden: torch.Tensor, layer: int) -> torch.Tensor:
        states = adapted(functional.rms_norm(hidden, (width,)), layer, 0)
        query, key, value = states.view(rows, length, 3, heads, -1).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + adapted(seen.transpose(1, 2).reshape(rows, length, width), layer, 1)
        return hidden + adapted(functional.gelu(adapted(functional.rms_norm(hidden, (width,)), layer, 2)), layer, 3)

    def step() -> None:
        log = []
        for sentence, norm, loss in zip(sentences, norms, losses, strict=True):
            tokens = sentence.to("cuda", non_blocking=fixed)
            hidden = functional.embedding(tokens[:, :-1], embedding)
            for layer in range(layers):
                hidden = block(hidden, layer)
            logits = (functional.rms_norm(hidden, (width,)) @ head).float()
            error = functional.cross_entropy(logits.view(-1, words), tokens[:, 1:].reshape(-1))
            optimiser.zero_grad(set_to_none=True)
            error.backward()
            norm.copy_(nn.utils.clip_grad_norm_(learnt, 1.0))
            if not fixed:
                log.append(norm.item())
            optimiser.step()
            loss.copy_(error.detach())
            if not fixed:
                log.append(loss.item())
        if fixed:
            log = [*norms.tolist(), *losses.tolist()]
        torch.cuda.synchronize()

    return step


def vision_transformer(*, fixed: bool) -> Step:
    """A loader's thread crops pictures into pageable batches, and each is copied right before it is trained on.

    Mended: the batches are pinned, and copied one ahead on a stream of their own.
    """
    count, pictures, size, patch, width, ahead = 5, 256, 128, 16, 384, 1 if fixed else 0
    side, main = torch.cuda.Stream(), torch.cuda.current_stream()
    raw = torch.randint(0, 256, (32, 3, size + 16, size + 16), dtype=torch.uint8).repeat(pictures // 32, 1, 1, 1)
    loaded = [torch.zeros(pictures, 3, size, size, dtype=torch.uint8, pin_memory=fixed) for _ in range(count)]
    slots = [torch.zeros(pictures, 3, size, size, dtype=torch.uint8, device="cuda") for _ in range(2)]
    ready, free = ([torch.cuda.Event() for _ in range(number)] for number in (count, 2))
    requests: queue.SimpleQueue[int] = queue.SimpleQueue()
    collated: queue.SimpleQueue[int] = queue.SimpleQueue()
    labels = [torch.randint(0, 1000, (pictures,), device="cuda") for _ in range(count)]
    layer = nn.TransformerEncoderLayer(width, 6, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
    encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).cuda()
    embed, head = nn.Linear(3 * patch * patch, width).cuda(), nn.Linear(width, 1000).cuda()
    optimiser = torch.optim.AdamW([*encoder.parameters(), *embed.parameters(), *head.parameters()], foreach=True)
    losses = torch.zeros(count, device="cuda")

    def load() -> None:
        while True:
            index = requests.get()
            top, left = 3 * index, 2 * index
            loaded[index].copy_(raw[:, :, top : top + size, left : left + size])
            collated.put(index)

    threading.Thread(target=load, daemon=True).start()

    def fetch() -> None:
        index = collated.get()
        if fixed:
            side.wait_event(free[index % 2])
        with torch.cuda.stream(side if fixed else main):
            slots[index % 2].copy_(loaded[index], non_blocking=fixed)
            ready[index].record()

    def step() -> None:
        for index in range(count):
            requests.put(index)
        for _ in range(ahead):
            fetch()
        for index in range(count):
            if index + ahead < count:
                fetch()
            main.wait_event(ready[index])
            inputs = _patches(slots[index % 2], patch)
            free[index % 2].record()
            with torch.autocast("cuda", dtype=torch.bfloat16):
                logits = head(encoder(embed(inputs)).mean(1))
            loss = functional.cross_entropy(logits.float(), labels[index])
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            losses[index].copy_(loss.detach())
        torch.cuda.synchronize()

    return step


def _patches(pixels: torch.Tensor, patch: int) -> torch.Tensor:
    pictures, channels, height, width = pixels.shape
    cut = pixels.view(pictures, channels, height // patch, patch, width // patch, patch).permute(0, 2, 4, 1, 3, 5)
    return cut.reshape(pictures, -1, channels * patch * patch).float().div_(255)


def speculative_decoding(*, fixed: bool) -> Step:
    """A small model drafts four tokens, a large one looks at them, and the host reads how many it agrees with.

    Mended: the drafting is one graph; the rest is as it was.
    """
    rounds, drafts, requests, window, words, half = 12, 4, 8, 256, 16_000, torch.float16
    small, large, few, many, depth = 512, 2048, 4, 8, 64
    embeddings = [torch.randn(words, width, device="cuda").to(half) for width in (small, large)]
    heads = [weight(width, words, dtype=half) for width in (small, large)]
    drafter, judge = (
        [
            [weight(*shape, dtype=half) for shape in ((width, kinds * width), (width, width), (width, 4 * width))]
            + [weight(4 * width, width, dtype=half)]
            for _ in range(layers)
        ]
        for width, kinds, layers in ((small, 3, few), (large, 1, many))
    )
    recent = torch.zeros(few, 2, requests, window, small, dtype=half, device="cuda")
    known = torch.randn(many, 2, requests, large // depth, window, depth, dtype=half, device="cuda")
    prompt = torch.arange(requests, device="cuda")
    last, place = torch.zeros_like(prompt), torch.zeros(1, dtype=torch.int64, device="cuda")
    drafted = torch.zeros(drafts, requests, dtype=torch.int64, device="cuda")
    accepted = torch.zeros(rounds, dtype=torch.int64, device="cuda")
    result = torch.zeros(rounds, requests, dtype=torch.int64, device="cuda")

    def forward(hidden: torch.Tensor, weights: list[torch.Tensor], seen: torch.Tensor) -> torch.Tensor:
        hidden = hidden + seen @ weights[1]
        inner = functional.rms_norm(hidden, hidden.shape[-1:]) @ weights[2]
        return hidden + functional.gelu(inner) @ weights[3]

    def draft() -> None:
        token = last
        for at in range(drafts):
            hidden, slot = functional.embedding(token, embeddings[0]), (place + at) % window
            for layer, weights in enumerate(drafter):
                query, *new = (functional.rms_norm(hidden, (small,)) @ weights[0]).chunk(3, -1)
                recent[layer].index_copy_(2, slot, torch.stack(new)[:, :, None])
                keys, values = recent[layer].view(2, requests, window, -1, depth).transpose(2, 3)
                asked = query.view(requests, -1, 1, depth)
                seen = functional.scaled_dot_product_attention(asked, keys, values)
                hidden = forward(hidden, weights, seen.reshape(requests, small))
            token = torch.argmax(hidden @ heads[0], dim=-1, out=drafted[at])

    def judged() -> torch.Tensor:
        hidden = functional.embedding(torch.cat([last[None], drafted]).T, embeddings[1])
        for (keys, values), weights in zip(known, judge, strict=True):
            asked = (functional.rms_norm(hidden, (large,)) @ weights[0]).view(requests, drafts + 1, -1, depth)
            seen = functional.scaled_dot_product_attention(asked.transpose(1, 2), keys, values)
            hidden = forward(hidden, weights, seen.transpose(1, 2).reshape(requests, drafts + 1, large))
        return (hidden @ heads[1]).argmax(-1).T

    graph = captured(draft, [recent, drafted]) if fixed else None

    def step() -> None:
        last.copy_(prompt)
        place.zero_()
        for at in range(rounds):
            with annotate("draft"):
                draft() if graph is None else graph.replay()
            wanted = judged()
            agreed = (wanted[:-1] == drafted).all(1).long()
            torch.sum(agreed.cumprod(0), dim=0, out=accepted[at])
            taken = int(accepted[at].item())
            last.copy_(wanted[taken])
            place.add_(taken + 1)
            result[at].copy_(last)
        torch.cuda.synchronize()

    return step


def video_grading(*, fixed: bool) -> Step:
    """Frames of a film go up as luma and chroma, are cleaned with those before, and come back in colour; all waits.

    Mended: pinned, asynchronous, a stream for each direction and two sets of buffers.
    """
    count, height, width, half = 16, 1080, 1920, torch.float16
    up, down, main = torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.current_stream()
    lumas = [torch.full((1, height, width), 90 + index, dtype=torch.uint8) for index in range(count)]
    chromas = [torch.full((2, height // 2, width // 2), 80 + 3 * index, dtype=torch.uint8) for index in range(count)]
    if fixed:
        lumas, chromas = ([each.pin_memory() for each in planes] for planes in (lumas, chromas))
    graded = [torch.zeros(3, height, width, dtype=torch.uint8, pin_memory=fixed) for _ in range(count)]
    bright, tint = (
        [torch.zeros(shape, dtype=torch.uint8, device="cuda") for _ in range(2)]
        for shape in ((1, height, width), (2, height // 2, width // 2))
    )
    finished = [torch.zeros(3, height, width, dtype=torch.uint8, device="cuda") for _ in range(2)]
    arrived, used, done, stored = ([torch.cuda.Event() for _ in range(2)] for _ in range(4))
    first, last = weight(16, 3, 3, 3, dtype=half).mul_(0.5), weight(3, 16, 3, 3, dtype=half).mul_(0.1)
    colours, earlier = weight(3, 3), torch.zeros(3, height, width, device="cuda")

    def grade(luma: torch.Tensor, chroma: torch.Tensor) -> torch.Tensor:
        wide = functional.interpolate(chroma[None].float().sub_(128), size=(height, width), mode="bilinear")
        picture = torch.cat([luma.float(), wide[0]]).div_(255)
        earlier.lerp_(picture, 0.6)
        detail = functional.conv2d(torch.relu(functional.conv2d(earlier[None].to(half), first, padding=1)), last)
        sharp = earlier + functional.pad(detail[0].float(), (1, 1, 1, 1))
        rgb = (colours @ sharp.view(3, -1)).sigmoid_().pow_(0.8)
        return rgb.mul_(255).view(3, height, width)

    def fetch(index: int) -> None:
        if fixed:
            up.wait_event(used[index % 2])
        with torch.cuda.stream(up if fixed else main):
            bright[index % 2].copy_(lumas[index], non_blocking=fixed)
            tint[index % 2].copy_(chromas[index], non_blocking=fixed)
            arrived[index % 2].record()

    def step() -> None:
        earlier.zero_()
        for index in range(count):
            fetch(index)
            main.wait_event(arrived[index % 2])
            picture = grade(bright[index % 2], tint[index % 2])
            used[index % 2].record()
            main.wait_event(stored[index % 2])
            finished[index % 2].copy_(picture)
            done[index % 2].record()
            with torch.cuda.stream(down if fixed else main):
                torch.cuda.current_stream().wait_event(done[index % 2])
                graded[index].copy_(finished[index % 2], non_blocking=fixed)
                stored[index % 2].record()
        torch.cuda.synchronize()

    return step


def averaged_weights(*, fixed: bool) -> Step:
    """The average of the weights is kept in training, and a layer of it goes to pageable memory after each update.

    Mended: pinned, asynchronous, on a stream of its own.
    """
    width, rows, layers = 2048, 4096, 4
    side, main = torch.cuda.Stream(), torch.cuda.current_stream()
    model = nn.Sequential(*(each for _ in range(layers) for each in (nn.Linear(width, width, bias=False), nn.GELU())))
    learnt = list(model.cuda().parameters())
    averages = [each.detach().clone() for each in learnt]
    checkpoint = [torch.zeros(width, width, pin_memory=fixed) for _ in learnt]
    batches, wanted = ([torch.randn(rows, width, device="cuda") for _ in learnt] for _ in range(2))
    optimiser = torch.optim.AdamW(learnt, lr=1e-4, foreach=True)

    def average() -> None:
        with torch.no_grad():
            for each, now in zip(averages, learnt, strict=True):
                each.lerp_(now, 0.01)

    def step() -> None:
        for batch, target, each, host in zip(batches, wanted, averages, checkpoint, strict=True):
            optimiser.zero_grad(set_to_none=True)
            functional.mse_loss(model(batch), target).backward()
            optimiser.step()
            if fixed:
                main.wait_stream(side)
            average()
            if fixed:
                side.wait_stream(main)
            with torch.cuda.stream(side if fixed else main):
                host.copy_(each, non_blocking=fixed)
        torch.cuda.synchronize()

    return step


def molecule_batches(*, fixed: bool) -> Step:
    """A graph network learns energies; each molecule has three small tensors, copied one by one, and losses are read.

    Mended: those of a batch are gathered in a pinned buffer and copied as one, and the losses are read at the end.
    """
    count, molecules, width, bands = 6, 48, 128, 32
    batches = [_molecules(molecules) for _ in range(count)]
    octets = [[each.view(-1).view(torch.uint8) for each in batch] for batch in batches]
    staging = [torch.cat(each).pin_memory() for each in octets]
    loaded = [torch.zeros(len(each), dtype=torch.uint8, device="cuda") for each in staging]
    places = [
        [
            part.view(each.dtype).view(each.shape)
            for part, each in zip(whole.split([*map(len, raw)]), batch, strict=True)
        ]
        for whole, raw, batch in zip(loaded, octets, batches, strict=True)
    ]
    owners = [
        torch.arange(molecules).repeat_interleave(torch.tensor([len(each) for each in batch[:molecules]])).cuda()
        for batch in batches
    ]
    embed, readout = nn.Embedding(10, width).cuda(), nn.Linear(width, 1).cuda()
    filters, mixers = (
        nn.ModuleList(
            nn.Sequential(nn.Linear(size, width), nn.SiLU(), nn.Linear(width, width)) for _ in range(3)
        ).cuda()
        for size in (bands, width)
    )
    learnt = [parameter for each in (embed, readout, filters, mixers) for parameter in each.parameters()]
    optimiser = torch.optim.AdamW(learnt, lr=1e-4, foreach=True)
    centres, energies = torch.linspace(0, 5, bands, device="cuda"), torch.randn(count, molecules, device="cuda")
    losses = torch.zeros(count, device="cuda")

    def predicted(pieces: list[torch.Tensor], owner: torch.Tensor) -> torch.Tensor:
        kinds, bonds, where = (torch.cat(pieces[at * molecules :][:molecules], dim) for at, dim in enumerate((0, 1, 0)))
        source, target = bonds
        apart = (where[source] - where[target]).square().sum(1, keepdim=True).sqrt()
        spread = torch.exp(-(apart - centres).square())
        hidden = embed(kinds)
        for gate, mix in zip(filters, mixers, strict=True):
            messages = hidden.index_select(0, source) * gate(spread)
            hidden = hidden + mix(torch.zeros_like(hidden).index_add(0, target, messages))
        return torch.zeros(molecules, device="cuda").index_add(0, owner, readout(hidden)[:, 0])

    def step() -> None:
        total = 0.0
        for index in range(count):
            if fixed:
                torch.cat(octets[index], out=staging[index])
                loaded[index].copy_(staging[index], non_blocking=True)
            else:
                for place, piece in zip(places[index], batches[index], strict=True):
                    place.copy_(piece, non_blocking=True)
            loss = functional.mse_loss(predicted(places[index], owners[index]), energies[index])
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            losses[index].copy_(loss.detach())
            if not fixed:
                total += losses[index].item()
        if fixed:
            total = sum(losses.tolist())
        torch.cuda.synchronize()

    return step


def _molecules(number: int) -> list[torch.Tensor]:
    """The kinds of the atoms of each molecule, then the bonds of each, then the places of the atoms of each."""
    sizes = torch.randint(12, 36, (number,)).tolist()
    kinds = [torch.randint(0, 10, (size,)) for size in sizes]
    starts = accumulate(sizes[:-1], initial=0)
    bonds = [torch.randint(start, start + size, (2, 8 * size)) for start, size in zip(starts, sizes, strict=True)]
    return [*kinds, *bonds, *(torch.randn(size, 3) for size in sizes)]


def policy_epochs(*, fixed: bool) -> Step:
    """A policy is improved with what was collected, in small batches; after each, the host asks if it drifted too far.

    Mended: one graph for a batch, from its rows to the update, and the drifts are read at the end (they are small).
    """
    rows, observed, actions, width, size, epochs, limit = 4096, 48, 6, 256, 1024, 4, 1e3
    orders = [torch.randperm(rows).pin_memory() for _ in range(epochs)]
    batches = [batch for order in orders for batch in order.split(size)]
    states, taken = torch.randn(rows, observed, device="cuda"), torch.randint(0, actions, (rows, 1), device="cuda")
    gains, returns = torch.randn(rows, device="cuda"), torch.randn(rows, device="cuda")
    before = torch.randn(rows, actions, device="cuda").log_softmax(1).gather(1, taken)[:, 0]
    chosen = torch.zeros(size, dtype=torch.int64, device="cuda")
    drift, drifts = torch.zeros((), device="cuda"), torch.zeros(len(batches), device="cuda")
    actor, critic = (
        nn.Sequential(nn.Linear(observed, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, out))
        for out in (actions, 1)
    )
    learnt = [*actor.cuda().parameters(), *critic.cuda().parameters()]
    optimiser = torch.optim.Adam(learnt, lr=1e-5, foreach=True, capturable=True)

    def update() -> None:
        seen, gain, old = (each.index_select(0, chosen) for each in (states, gains, before))
        logs = functional.log_softmax(actor(seen), 1)
        log = logs.gather(1, taken.index_select(0, chosen))[:, 0]
        ratio = torch.exp(log - old)
        surrogate = torch.minimum(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
        entropy = -(logs.exp() * logs).sum(1).mean()
        error = functional.mse_loss(critic(seen)[:, 0], returns.index_select(0, chosen))
        gradients = torch.autograd.grad(error * 0.5 - surrogate - entropy * 0.01, learnt)
        for each, gradient in zip(learnt, gradients, strict=True):
            each.grad = gradient
        nn.utils.clip_grad_norm_(learnt, 0.5)
        optimiser.step()
        torch.mean((old - log).detach(), dim=0, out=drift)

    update()
    moments = [each for state in optimiser.state.values() for each in state.values()]
    graph = captured(update, [*learnt, *moments]) if fixed else None

    def step() -> None:
        furthest = 0.0
        for at, batch in enumerate(batches):
            chosen.copy_(batch, non_blocking=True)
            update() if graph is None else graph.replay()
            drifts[at].copy_(drift)
            if not fixed:
                furthest = max(furthest, drifts[at].item())
                if furthest > limit:
                    break
        if fixed:
            furthest = max(drifts.tolist())
        torch.cuda.synchronize()

    return step


def ranking_service(*, fixed: bool) -> Step:
    """Four threads, each with a stream, rank the candidates of their requests, and wait for both directions' copies.

    Mended: pinned and asynchronous; each thread waits once, for all its requests.
    """
    threads, requests, candidates, features, width = 4, 6, 4096, 256, 512
    asked, scored, embedded = (
        [torch.full((requests, candidates, size), 0.01, pin_memory=fixed) for _ in range(threads)]
        for size in (features, 1, width)
    )
    weights = [weight(features, 1024), weight(1024, 1024), weight(1024, width)]
    head = weight(width, 1)
    streams = [torch.cuda.Stream() for _ in range(threads)]
    inboxes: list[queue.SimpleQueue[int]] = [queue.SimpleQueue() for _ in range(threads)]
    answered: queue.SimpleQueue[int] = queue.SimpleQueue()

    def rank(thread: int, at: int) -> None:
        hidden = asked[thread][at].to("cuda", non_blocking=fixed)
        for each in weights:
            hidden = torch.relu(hidden @ each)
        scored[thread][at].copy_(torch.sigmoid(hidden @ head), non_blocking=fixed)
        embedded[thread][at].copy_(functional.normalize(hidden, dim=1), non_blocking=fixed)

    def serve(thread: int) -> None:
        with torch.cuda.stream(streams[thread]):
            for at in range(requests):
                rank(thread, at)
        if fixed:
            streams[thread].synchronize()

    for inbox, each in zip(inboxes, asked, strict=True):
        each.mul_(torch.rand(64, features).repeat(candidates // 64, 1))
        threading.Thread(target=_serve, args=(inbox, answered, serve), daemon=True).start()

    def step() -> None:
        for thread, inbox in enumerate(inboxes):
            inbox.put(thread)
        for _ in inboxes:
            answered.get()
        torch.cuda.synchronize()

    return step


def _serve(inbox: queue.SimpleQueue[int], answered: queue.SimpleQueue[int], serve: Callable[[int], None]) -> None:
    while True:
        number = inbox.get()
        serve(number)
        answered.put(number)


def streamed_vocoder(*, fixed: bool) -> Step:
    """Spoken chunks are made from spectra, copied to pageable memory, and each is faded into the track by the host.

    Mended: pinned and asynchronous; the host fades all of them in when the last has come.
    """
    count, voices, frames, hop, half = 12, 32, 64, 256, torch.float16
    length = frames * hop
    stride = length * 3 // 4
    spectra = [torch.randn(voices, 80, frames).to(half).pin_memory() for _ in range(count)]
    waves = [torch.zeros(voices, length, pin_memory=fixed) for _ in range(count)]
    track = np.zeros((voices, stride * (count - 1) + length), dtype=np.float32)
    fade = np.hanning(length).astype(np.float32)
    layers: list[nn.Module] = [nn.Conv1d(80, 512, 7, padding=3)]
    for inside, outside, factor in ((512, 256, 8), (256, 128, 8), (128, 64, 4)):
        layers += [
            nn.LeakyReLU(0.1),
            nn.ConvTranspose1d(inside, outside, 2 * factor, stride=factor, padding=factor // 2),
            nn.LeakyReLU(0.1),
            nn.Conv1d(outside, outside, 5, padding=2),
        ]
    model = nn.Sequential(*layers, nn.LeakyReLU(0.1), nn.Conv1d(64, 1, 7, padding=3), nn.Tanh())
    model = model.cuda().half().eval().requires_grad_(False)

    def mix(at: int) -> None:
        track[:, at * stride : at * stride + length] += waves[at].numpy() * fade

    def step() -> None:
        track.fill(0)
        for at, (spectrum, wave) in enumerate(zip(spectra, waves, strict=True)):
            wave.copy_(model(spectrum.to("cuda", non_blocking=True))[:, 0].float(), non_blocking=fixed)
            if not fixed:
                mix(at)
        torch.cuda.synchronize()
        if fixed:
            for at in range(count):
                mix(at)

    return step


def guided_diffusion(*, fixed: bool) -> Step:
    """A sampler sends the eight numbers of each of its steps one by one, from where its schedule has them.

    Mended: those of a step are gathered in a pinned buffer, and copied as one and asynchronously.
    """
    count, pictures, channels, half = 20, 4, 256, torch.float16
    sigmas = torch.linspace(8, 0.1, count + 1)
    schedule = [
        [now, following, (now**2 + 1).rsqrt(), now.log() / 4, following / now, 1 - following / now, now * 0 + 5, now**0]
        for now, following in pairwise(sigmas.unbind())
    ]
    staging = [torch.zeros(len(numbers), pin_memory=True) for numbers in schedule]
    frequencies = torch.arange(channels // 2, device="cuda") / 16
    noise, result = (torch.randn(pictures, 4, 64, 64, device="cuda") for _ in range(2))
    first, last = nn.Conv2d(4, channels, 3, padding=1), nn.Conv2d(channels, 4, 3, padding=1)
    blocks = [
        nn.Sequential(
            nn.GroupNorm(32, channels),
            nn.SiLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.GroupNorm(32, channels),
            nn.SiLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
        )
        for _ in range(4)
    ]
    for each in (first, last, *blocks):
        each.to("cuda", half, memory_format=torch.channels_last).requires_grad_(False)  # type: ignore[call-overload]
    prompts = [torch.randn(2 * pictures, channels, 1, 1, device="cuda").to(half) for _ in blocks]
    embed = weight(channels, channels)

    def predicted(latents: torch.Tensor, age: torch.Tensor) -> torch.Tensor:
        angles = age * frequencies
        shift = (torch.cat([torch.sin(angles), torch.cos(angles)])[None] @ embed).to(half).view(1, -1, 1, 1)
        hidden = first(torch.cat([latents, latents]).to(half, memory_format=torch.channels_last))
        for block, prompt in zip(blocks, prompts, strict=True):
            hidden = hidden + block(hidden + shift + prompt)
        out: torch.Tensor = last(hidden).float()
        return out

    def step() -> None:
        latents = noise * sigmas[0].item()
        for numbers, buffer in zip(schedule, staging, strict=True):
            if fixed:
                torch.stack(numbers, out=buffer)
                sent = buffer.to("cuda", non_blocking=True).unbind()
            else:
                sent = tuple(number.to("cuda") for number in numbers)
            now, following, scale, age, keep, change, guidance, eta = sent
            without, guided = predicted(latents * scale, age).chunk(2)
            direction = torch.lerp(without, guided, guidance) * eta
            clean = latents - direction * now * scale
            latents = latents * keep + clean * change + direction * (following * 0.01)
        result.copy_(latents)
        torch.cuda.synchronize()

    return step


def speech_training(*, fixed: bool) -> Step:
    """A recogniser is trained; the host reads the longest length for a mask, if the norm is finite, and the loss.

    Mended: the mask has the length of the batch, which is the same, and the rest is asked at the end.
    """
    count, rows, frames, width, heads, layers, sounds = 6, 16, 800, 384, 6, 4, 64
    length = frames // 4
    spectra = [torch.randn(rows, 80, frames, device="cuda") for _ in range(count)]
    lengths = [torch.linspace(length // 2, length, rows, device="cuda").long() for _ in range(count)]
    wanted = [torch.randint(0, sounds, (rows, length), device="cuda") for _ in range(count)]
    convolve = nn.Sequential(nn.Conv1d(80, width, 3, 2, 1), nn.GELU(), nn.Conv1d(width, width, 3, 2, 1), nn.GELU())
    blocks = nn.ModuleList(
        nn.ModuleList(
            (
                nn.LayerNorm(width),
                nn.Linear(width, 3 * width),
                nn.Linear(width, width),
                nn.LayerNorm(width),
                nn.Linear(width, 4 * width),
                nn.Linear(4 * width, width),
            )
        )
        for _ in range(layers)
    )
    model = nn.ModuleList((convolve, blocks, nn.Linear(width, sounds))).cuda()
    learnt = list(model.parameters())
    optimiser = torch.optim.AdamW(learnt, lr=1e-4, foreach=True)
    norms, losses = torch.zeros(count, device="cuda"), torch.zeros(count, device="cuda")

    def encode(hidden: torch.Tensor, mask: torch.Tensor, block: nn.Module) -> torch.Tensor:
        before, project, merge, after, widen, narrow = block.children()
        query, key, value = project(before(hidden)).view(rows, length, 3, heads, -1).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None, None])
        hidden = hidden + merge(seen.transpose(1, 2).reshape(rows, length, width))
        out: torch.Tensor = hidden + narrow(functional.gelu(widen(after(hidden))))
        return out

    def loss_of(index: int) -> torch.Tensor:
        longest = length if fixed else int(lengths[index].max().item())
        mask = torch.arange(longest, device="cuda") < lengths[index][:, None]
        hidden = convolve(spectra[index]).mT
        for block in blocks:
            hidden = encode(hidden, mask, block)
        each = functional.cross_entropy(model[2](hidden).flatten(0, 1), wanted[index].flatten(), reduction="none")
        return (each * mask.flatten()).sum() / mask.sum()

    def step() -> None:
        total = 0.0
        for index in range(count):
            loss = loss_of(index)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            norms[index].copy_(nn.utils.clip_grad_norm_(learnt, 5.0))
            if fixed or bool(torch.isfinite(norms[index])):
                optimiser.step()
            losses[index].copy_(loss.detach())
            if not fixed:
                total += losses[index].item()
        if fixed:
            torch.isfinite(norms).tolist()
            total = sum(losses.tolist())
        torch.cuda.synchronize()

    return step


def quantised_prefix(*, fixed: bool) -> Step:
    """What was kept of earlier prompts is in pinned memory, in eight bits with scales; each layer waits for its part.

    Mended: asynchronous on a stream of its own, two layers ahead in three sets of buffers.
    """
    layers, requests, groups, length, new, depth, width, half = 12, 8, 8, 2048, 128, 128, 2048, torch.bfloat16
    ahead, heads = 2 if fixed else 0, width // depth
    side, main = torch.cuda.Stream(), torch.cuda.current_stream()
    shapes = ((2, requests, groups, length, depth), (2, requests, groups, length, 1))
    stored = [
        (
            torch.full(shapes[0], 3 + index, dtype=torch.int8, pin_memory=True),
            torch.full(shapes[1], 0.01, dtype=half, pin_memory=True),
        )
        for index in range(layers)
    ]
    slots = [
        (torch.zeros(shapes[0], dtype=torch.int8, device="cuda"), torch.zeros(shapes[1], dtype=half, device="cuda"))
        for _ in range(3)
    ]
    ready, free = ([torch.cuda.Event() for _ in range(number)] for number in (layers, 3))
    projects, merges, ups, downs = (
        [weight(*shape, dtype=half) for _ in range(layers)]
        for shape in ((width, width), (width, width), (width, 4 * width), (4 * width, width))
    )
    prompt = torch.randn(requests, new, width, device="cuda").to(half)
    result = torch.zeros(requests, width, dtype=half, device="cuda")

    def fetch(index: int) -> None:
        if fixed:
            side.wait_event(free[index % 3])
        with torch.cuda.stream(side if fixed else main):
            for slot, host in zip(slots[index % 3], stored[index], strict=True):
                for place, part in zip(slot, host, strict=True):
                    place.copy_(part, non_blocking=fixed)
            ready[index].record()

    def attend(hidden: torch.Tensor, layer: int) -> torch.Tensor:
        numbers, scales = slots[layer % 3]
        keys, values = (numbers * scales).repeat_interleave(heads // groups, 2)
        asked = (functional.rms_norm(hidden, (width,)) @ projects[layer]).view(requests, new, heads, depth)
        seen = functional.scaled_dot_product_attention(asked.transpose(1, 2), keys, values)
        return seen.transpose(1, 2).reshape(requests, new, width) @ merges[layer]

    def step() -> None:
        hidden = prompt
        for index in range(ahead):
            fetch(index)
        for index in range(layers):
            if index + ahead < layers:
                fetch(index + ahead)
            main.wait_event(ready[index])
            hidden = hidden + attend(hidden, index)
            free[index % 3].record()
            inner = functional.gelu(functional.rms_norm(hidden, (width,)) @ ups[index])
            hidden = hidden + inner @ downs[index]
        result.copy_(hidden[:, -1])
        torch.cuda.synchronize()

    return step


def lattice_fluid(*, fixed: bool) -> Step:
    """A fluid flows past a wall on a small lattice, and now and then its speed goes to pageable memory, waiting for it.

    Mended: the steps between two pictures are one graph, and the pictures are pinned and copied asynchronously.
    """
    rows, columns, between = 96, 256, 25
    moves = torch.tensor([(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)])
    parts = torch.tensor([4 / 9, *[1 / 9] * 4, *[1 / 36] * 4], device="cuda")[:, None]
    opposite = torch.tensor([0, 3, 4, 1, 2, 7, 8, 5, 6], device="cuda")
    sites = torch.arange(rows * columns).view(rows, columns)
    origins = torch.stack([torch.roll(sites, move, (0, 1)).view(-1) for move in moves.tolist()]).cuda()
    directions = moves.float().cuda()
    wall = torch.zeros(rows, columns, dtype=torch.bool, device="cuda")
    wall[0], wall[-1], wall[32:64, 60:70] = True, True, True
    wall = wall.view(-1)
    push = parts * directions[:, 1:] * 1e-3
    start, pictures = parts.repeat(1, rows * columns), [torch.zeros(rows, columns, pin_memory=fixed) for _ in range(4)]
    populations, speed = start.clone(), torch.zeros(rows, columns, device="cuda")

    def advance() -> None:
        for _ in range(between):
            moved = torch.gather(populations, 1, origins)
            density = moved.sum(0)
            flow = directions.T @ moved / density
            along = directions @ flow
            shape = along.square().mul_(4.5).add_(along, alpha=3).add_(1) - flow.square().sum(0).mul_(1.5)
            relaxed = torch.lerp(moved, shape.mul_(density).mul_(parts), 1.2).add_(push)
            torch.where(wall, moved.index_select(0, opposite), relaxed, out=populations)
        torch.sqrt(flow.square().sum(0).view(rows, columns), out=speed)

    graph = captured(advance, [populations]) if fixed else None

    def step() -> None:
        populations.copy_(start)
        for picture in pictures:
            advance() if graph is None else graph.replay()
            picture.copy_(speed, non_blocking=fixed)
        torch.cuda.synchronize()

    return step


def tiled_decoder(*, fixed: bool) -> Step:
    """The tiles of large pictures are decoded into pageable memory, and between two the cache is emptied for the next.

    Mended: the allocator keeps the memory, and the tiles are pinned and copied asynchronously.
    """
    count, pictures, edge, half = 8, 2, 64, torch.float16
    latents = [torch.randn(pictures, 4, edge, edge, device="cuda").to(half) for _ in range(count)]
    tiles = [torch.zeros(pictures, 3, 8 * edge, 8 * edge, dtype=half, pin_memory=fixed) for _ in range(count)]
    layers: list[nn.Module] = [nn.Conv2d(4, 256, 3, padding=1)]
    for inside, outside in ((256, 256), (256, 128), (128, 64)):
        layers += [
            nn.GroupNorm(32, inside),
            nn.SiLU(),
            nn.Upsample(scale_factor=2, mode="nearest"),
            nn.Conv2d(inside, outside, 3, padding=1),
            nn.GroupNorm(32, outside),
            nn.SiLU(),
            nn.Conv2d(outside, outside, 3, padding=1),
        ]
    model = nn.Sequential(*layers, nn.GroupNorm(32, 64), nn.SiLU(), nn.Conv2d(64, 3, 3, padding=1), nn.Tanh())
    model = model.cuda().half().eval().requires_grad_(False)

    def step() -> None:
        for at, (latent, tile) in enumerate(zip(latents, tiles, strict=True)):
            if not fixed and at > 0:
                torch.cuda.empty_cache()
            tile.copy_(model(latent), non_blocking=fixed)
        torch.cuda.synchronize()

    return step


def radar_bursts(*, fixed: bool) -> Step:
    """Echoes go up on one stream, one burst ahead, targets are sought on another, and the maps come down on a third.

    The maps go to pageable memory and are waited for. Mended: pinned and asynchronous.
    """
    count, pulses, samples = 10, 512, 8192
    up, down, main = torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.current_stream()
    block = torch.randn(32, samples, dtype=torch.complex64)
    bursts = [block.mul(1 + index / 8).repeat(pulses // 32, 1).pin_memory() for index in range(count)]
    maps = [torch.zeros(pulses, samples, dtype=torch.uint8, pin_memory=fixed) for _ in bursts]
    slots = [torch.zeros(pulses, samples, dtype=torch.complex64, device="cuda") for _ in range(2)]
    found = [torch.zeros(pulses, samples, dtype=torch.uint8, device="cuda") for _ in range(2)]
    arrived, used, done, stored = ([torch.cuda.Event() for _ in range(2)] for _ in range(4))
    window = torch.hann_window(samples, device="cuda")
    chirp = torch.fft.fft(torch.randn(samples, dtype=torch.complex64, device="cuda"))

    def fetch(index: int) -> None:
        up.wait_event(used[index % 2])
        with torch.cuda.stream(up):
            slots[index % 2].copy_(bursts[index], non_blocking=True)
            arrived[index % 2].record()

    def seek(burst: torch.Tensor) -> torch.Tensor:
        ranges = torch.fft.ifft(torch.fft.fft(burst * window).mul_(chirp))
        power: torch.Tensor = torch.fft.fft(ranges, dim=0).abs().square()
        around = functional.avg_pool2d(power[None], 9, 1, 4)[0]
        return power.div_(around).mul_(16).clamp_(0, 255)

    def step() -> None:
        fetch(0)
        for index in range(count):
            if index + 1 < count:
                fetch(index + 1)
            main.wait_event(arrived[index % 2])
            targets = seek(slots[index % 2])
            used[index % 2].record()
            main.wait_event(stored[index % 2])
            found[index % 2].copy_(targets)
            done[index % 2].record()
            down.wait_event(done[index % 2])
            with torch.cuda.stream(down):
                maps[index].copy_(found[index % 2], non_blocking=fixed)
                stored[index % 2].record()
        torch.cuda.synchronize()

    return step


def beam_search(*, fixed: bool) -> Step:
    """A translator keeps the best four beams of each sentence; after each word the host reads them to see who ended.

    Mended: it reads them once, at the end (none ends early).
    """
    sentences, beams, layers, width, heads, words, tokens, half = 16, 4, 4, 1024, 16, 32_000, 24, torch.float16
    rows, length, end = sentences * beams, 512, -1
    caches = [torch.zeros(layers, 2, rows, length, width, dtype=half, device="cuda") for _ in range(2)]
    embedding, head = torch.randn(words, width, device="cuda").to(half), weight(width, words, dtype=half)
    projects, merges, ups, downs = (
        [weight(*shape, dtype=half) for _ in range(layers)]
        for shape in ((width, 3 * width), (width, width), (width, 4 * width), (4 * width, width))
    )
    offsets = torch.arange(sentences, device="cuda")[:, None] * beams
    prompt, nothing = torch.arange(rows, device="cuda"), torch.zeros(rows, 1, device="cuda")
    history = torch.zeros(tokens, rows, dtype=torch.int64, device="cuda")
    ended = torch.zeros(tokens, dtype=torch.bool, device="cuda")

    def attend(hidden: torch.Tensor, cache: torch.Tensor, layer: int, position: int) -> torch.Tensor:
        query, *new = (functional.rms_norm(hidden, (width,)) @ projects[layer]).chunk(3, -1)
        for kind, each in enumerate(new):
            cache[layer, kind, :, position] = each
        keys, values = cache[layer, :, :, : position + 1].view(2, rows, position + 1, heads, -1).transpose(2, 3)
        seen = functional.scaled_dot_product_attention(query.view(rows, heads, 1, -1), keys, values)
        return seen.reshape(rows, width) @ merges[layer]

    def decode(token: torch.Tensor, cache: torch.Tensor, position: int) -> torch.Tensor:
        hidden = functional.embedding(token, embedding)
        for layer in range(layers):
            hidden = hidden + attend(hidden, cache, layer, position)
            inner = functional.gelu(functional.rms_norm(hidden, (width,)) @ ups[layer])
            hidden = hidden + inner @ downs[layer]
        return functional.log_softmax((functional.rms_norm(hidden, (width,)) @ head).float(), -1)

    def step() -> None:
        (now, other), token, totals, known = caches, prompt, nothing, 0
        for at in range(tokens):
            scores = decode(token, now, length - tokens + at) + totals
            best, places = scores.view(sentences, -1).topk(beams)
            totals, token = best.view(rows, 1), torch.remainder(places, words).view(rows)
            parents = (torch.div(places, words, rounding_mode="floor") + offsets).view(rows)
            torch.index_select(now, 2, parents, out=other)
            now, other = other, now
            history[at].copy_(token)
            torch.all(token == end, dim=0, out=ended[at])
            if not fixed:
                known += len(history[at].cpu())
                if bool(ended[at]):
                    break
        if fixed:
            known = history.cpu().numel()
            ended.tolist()
        torch.cuda.synchronize()

    return step


PROGRAMS = (
    lora_finetuning,
    vision_transformer,
    speculative_decoding,
    video_grading,
    averaged_weights,
    molecule_batches,
    policy_epochs,
    ranking_service,
    streamed_vocoder,
    guided_diffusion,
    speech_training,
    quantised_prefix,
    lattice_fluid,
    tiled_decoder,
    radar_bursts,
    beam_search,
)


if __name__ == "__main__":
    main(PROGRAMS, str(__doc__))
