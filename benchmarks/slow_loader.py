"""What do the settings of a DataLoader save where its samples are slow to make? On a GPU, with torchvision.

    python benchmarks/slow_loader.py -o benchmarks/slow_loader.json

Steps of a ResNet-50 with batches of 64 photos; a sample decodes a JPEG of 504 x 376 pixels and makes it 224 x 224.
"""

from __future__ import annotations

import argparse
import io
import json
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_BATCH, _PHOTOS, _WARM_UP, _STEPS, _ROUNDS, _EPOCHS = 64, 32, 10, 40, 3, 4
_PIN = {"pin_memory": True}
SETTINGS: dict[str, dict[str, Any]] = {
    "0-pageable": {},
    "0-pinned": _PIN,
    **{f"{workers}-pinned": _PIN | {"num_workers": workers} for workers in (2, 4)},
    "8-pageable": {"num_workers": 8},
    **{f"{workers}-pinned": _PIN | {"num_workers": workers} for workers in (8, 16)},
    "8-pinned-prefetch-4": _PIN | {"num_workers": 8, "prefetch_factor": 4},
}


class Photos:
    """Photos of made squares, as JPEG in memory; a sample is a decoded and resized one."""

    def __init__(self, count: int) -> None:
        import numpy as np
        from PIL import Image

        numbers, self._count, self._files = np.random.default_rng(0), count, list[bytes]()
        for _ in range(_PHOTOS):
            squares = np.kron(numbers.integers(0, 255, (47, 63, 3)), np.ones((8, 8, 1)))
            Image.fromarray(squares.astype("uint8")).save(file := io.BytesIO(), "JPEG", quality=90)
            self._files.append(file.getvalue())

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        import numpy as np
        import torch
        from PIL import Image

        photo = Image.open(io.BytesIO(self._files[index % _PHOTOS])).convert("RGB").resize((224, 224))
        return torch.from_numpy(np.asarray(photo).transpose(2, 0, 1).copy()).float().div_(255), index % 10


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).with_suffix(".json"))
    output = parser.parse_args().output
    import torch
    import torchvision

    model = torchvision.models.resnet50().cuda()
    step = partial(_step, model, torch.optim.SGD(model.parameters(), 0.01))
    batch = torch.randn(_BATCH, 3, 224, 224).cuda(), torch.zeros(_BATCH, dtype=torch.long).cuda()
    alone = _step_ms(step, [batch] * (_WARM_UP + _STEPS), pinned=False)
    steps: dict[str, list[float]] = {name: [] for name in SETTINGS}
    for _ in range(_ROUNDS):
        for name, settings in SETTINGS.items():
            loader = _loader(_WARM_UP + _STEPS, **settings)
            steps[name].append(_step_ms(step, loader, pinned="pin_memory" in settings))
    first = {str(kept): _first_batches_ms(kept) for kept in (False, True)}
    machine = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
    result = {"machine": machine, "alone_ms": alone, "step_ms": steps, "first_batch_ms": first}
    output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def _loader(batches: int, **settings: Any) -> Any:
    from torch.utils.data import DataLoader

    return DataLoader(Photos(_BATCH * batches), _BATCH, **settings)  # type: ignore[arg-type]


def _step(model: Any, optimiser: Any, images: torch.Tensor, labels: torch.Tensor) -> None:
    import torch

    with torch.autocast("cuda", torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(images), labels)
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()


def _step_ms(step: Any, loader: Any, *, pinned: bool) -> float:
    """The time of a step, from the one after the warm-up on."""
    import torch

    begin = 0.0
    for number, (images, labels) in enumerate(loader):
        if number == _WARM_UP:
            torch.cuda.synchronize()
            begin = time.perf_counter()
        step(images.to("cuda", non_blocking=pinned), labels.to("cuda", non_blocking=pinned))
    torch.cuda.synchronize()
    return round((time.perf_counter() - begin) / _STEPS * 1e3, 1)


def _first_batches_ms(kept: bool) -> list[float]:
    """How long the first batch of each epoch takes, with workers that are kept or started anew."""
    loader = _loader(10, num_workers=8, pin_memory=True, persistent_workers=kept)
    waits = list[float]()
    for _ in range(_EPOCHS):
        begin = time.perf_counter()
        for number, _batch in enumerate(loader):
            if not number:
                waits.append(round((time.perf_counter() - begin) * 1e3))
    return waits


if __name__ == "__main__":
    main()
