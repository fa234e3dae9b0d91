"""Make pictures small for the repository: figures have few colours.

Median cut would merge the small colours of a legend with others; the most frequent colours have all of them.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

COLOURS = 64  # all of a legend, and the edges of letters
_PARTS = (1 << 16, 1 << 8, 1)  # red, green and blue in one number


def reduce_colours(path: Path) -> None:
    """Replace the picture, on white."""
    path.write_bytes(few_colours(path.read_bytes()))


def few_colours(png: bytes) -> bytes:
    """The picture as a PNG of its most frequent colours, on white."""
    with Image.open(BytesIO(png)) as picture:
        drawn = picture.convert("RGBA")
    whole = Image.new("RGBA", drawn.size, "white")
    whole.alpha_composite(drawn)
    numbers = np.asarray(whole.convert("RGB"), np.int64) @ _PARTS
    used, which, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    colours = used[:, None] // _PARTS % 256
    palette = colours[np.argsort(-counts, kind="stable")[:COLOURS]]
    nearest = ((colours[:, None] - palette) ** 2).sum(axis=2).argmin(axis=1)
    small, written = Image.fromarray(nearest[which].reshape(numbers.shape).astype(np.uint8)), BytesIO()
    small.putpalette(palette.ravel().tolist())
    small.save(written, "PNG", optimize=True)
    return written.getvalue()
