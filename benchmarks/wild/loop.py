"""What a loop of a library is: how it is made, as it is and fixed, and what is said about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch

from benchmarks.wild.texts import Text

Step = Callable[[], torch.Tensor]
T = TypeVar("T")


@dataclass(frozen=True)
class Loop:
    """One loop of a library.

    Attributes:
        text: what is said about it.
        make: builds the loop, as it is or fixed, and returns one step, which returns its answer.
        reference: builds a loop that has the answer in another way; None where the loop as it is will do.
    """

    text: Text
    make: Callable[[bool, str], Step]
    reference: Callable[[str], Step] | None = None


def size(device: str, on_gpu: T, on_cpu: T) -> T:
    """A size of the loop; on a CPU it is only tried out."""
    return on_gpu if device == "cuda" else on_cpu


def pinned(tensor: torch.Tensor, device: str) -> torch.Tensor:
    """The tensor in pinned memory, where there is a GPU to pin it for."""
    return tensor.pin_memory() if device == "cuda" else tensor
