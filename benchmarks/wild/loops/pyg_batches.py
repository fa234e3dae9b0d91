"""torch-geometric: batches of small graphs."""

from __future__ import annotations

from copy import copy

import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GIN, global_add_pool

from benchmarks.wild.loop import Loop, Step, size
from benchmarks.wild.texts import FixKind, Text


def _graph(atoms: int, bonds: int, width: int) -> Data:
    edges = torch.randint(0, atoms, (2, bonds))
    return Data(torch.randn(atoms, width), edges, torch.randn(bonds, 8), torch.randn(1))


def _make(fixed: bool, device: str) -> Step:
    width, batch = size(device, 128, 8), size(device, 1024, 4)
    graphs = [_graph(30, 64, width) for _ in range(64)] * (batch // 8 + 1)
    batches = list(DataLoader(graphs[: 6 * batch], batch, pin_memory=fixed and device == "cuda"))
    model = GIN(width, size(device, 256, 16), 4, 1).to(device)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4)

    def step() -> torch.Tensor:
        losses = []
        for each in batches:
            moved = copy(each).to(device, non_blocking=fixed)  # a batch is moved in place: the next step has it again
            scores = global_add_pool(model(moved.x, moved.edge_index), moved.batch, batch)
            loss = nn.functional.mse_loss(scores.view(-1), moved.y)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.detach())
        return torch.stack(losses)

    return step


TEXT = Text(
    package="torch-geometric",
    title="batches of molecules",
    does="A graph network is trained on six batches of 1024 molecules, which the library's loader collated before.",
    fix="The loader pins its batches, and they are copied asynchronously.",
    kind=FixKind.SWITCH,
    before="batches = list(DataLoader(graphs, 1024))\nfor batch in batches:\n    batch = batch.to(gpu)",
    after="batches = list(DataLoader(graphs, 1024, pin_memory=True))\n"
    "for batch in batches:\n    batch = batch.to(gpu, non_blocking=True)",
    changes=("pin", "non-blocking"),
)
LOOP = Loop(TEXT, _make)
