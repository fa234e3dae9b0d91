"""torch: FSDP2 with its parameters on the host."""

from __future__ import annotations

import tempfile

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, OffloadPolicy, fully_shard

from benchmarks.wild.loop import Loop, Step, size
from benchmarks.wild.texts import FixKind, Text


def _make(fixed: bool, device: str) -> Step:
    if not distributed.is_initialized():
        backend, where = size(device, "cpu:gloo,cuda:nccl", "gloo"), f"file://{tempfile.mkdtemp()}/meeting"
        distributed.init_process_group(backend, where, rank=0, world_size=1)
    width, layers = size(device, 1536, 32), size(device, 4, 2)
    layer = nn.TransformerEncoderLayer(width, 16, 4 * width, 0.0, batch_first=True, norm_first=True)
    model = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    mesh = init_device_mesh(device, (1,))
    policy = CPUOffloadPolicy(pin_memory=fixed) if device == "cuda" else OffloadPolicy()
    for block in (*model.layers, model):
        fully_shard(block, mesh=mesh, offload_policy=policy)
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-4)
    data = torch.randn(4, size(device, 1024, 8), width, device=device)

    def step() -> torch.Tensor:
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = model(data).float().square().mean()
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        return loss.detach()

    return step


TEXT = Text(
    package="torch",
    title="FSDP2 with CPUOffloadPolicy",
    does="A transformer of 4 layers is trained by FSDP2 on one GPU, with parameters and gradients on the host.",
    fix="The parameters are pinned, which is the default. Switching it off is advised where memory is short.",
    kind=FixKind.SWITCH,
    before="fully_shard(block, offload_policy=CPUOffloadPolicy(pin_memory=False))",
    after="fully_shard(block, offload_policy=CPUOffloadPolicy())",
    changes=("pin", "non-blocking"),
)
LOOP = Loop(TEXT, _make)
