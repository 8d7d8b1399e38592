"""Contents for images: made from a seed, partly compressible, and changed here and there."""

import random


def made(length: int, seed: int = 1) -> bytes:
    """`length` bytes, of which a zstd frame saves about half."""
    dice = random.Random(seed)
    return b"".join(dice.randbytes(2048) + bytes(2048) for _ in range(length // 4096 + 1))[:length]


def edited(content: bytes, seed: int = 2, edits: int = 3) -> bytes:
    """The same with a few small insertions, as a rebuilt image has them."""
    dice = random.Random(seed)
    for _ in range(edits):
        at = dice.randrange(len(content))
        content = content[:at] + dice.randbytes(100) + content[at:]
    return content
