"""Write a picture again with few colours: a small file, and no difference to see."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

from PIL import Image

COLOURS = 32  # enough for the colours of a figure and the edges of its letters


def reduce_colours(path: Path) -> None:
    """Replace the picture, on white."""
    path.write_bytes(few_colours(path.read_bytes()))


def few_colours(png: bytes) -> bytes:
    """The picture as a PNG of few colours, on white."""
    with Image.open(BytesIO(png)) as picture:
        drawn = picture.convert("RGBA")
    whole = Image.new("RGBA", drawn.size, "white")
    whole.alpha_composite(drawn)
    written = BytesIO()
    whole.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(written, "PNG", optimize=True)
    return written.getvalue()
