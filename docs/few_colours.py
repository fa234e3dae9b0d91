"""Write a picture again with few colours: a small file, and no difference to see."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

COLOURS = 32  # enough for the colours of a figure and the edges of its letters


def reduce_colours(path: Path) -> None:
    """Replace the picture, on white."""
    with Image.open(path) as picture:
        drawn = picture.convert("RGBA")
    whole = Image.new("RGBA", drawn.size, "white")
    whole.alpha_composite(drawn)
    whole.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
