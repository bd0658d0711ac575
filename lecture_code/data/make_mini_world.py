"""Write mini_world.txt, the text that the small GPT is trained on: `python make_mini_world.py`.

Each line is a sentence or two of a small world. Some words can be told only from words far back in
the same line: who did it, what colour it had, which animal it was. Lines do not depend on each
other.
"""

from __future__ import annotations

import random
from pathlib import Path

SEED = 2022
LINES = 2400

NAMES = ("anna", "ben", "clara", "david", "emma", "felix", "greta", "hugo")
COLOURS = ("red", "blue", "green", "white", "black", "yellow")
THINGS = ("kite", "drum", "lamp", "cup", "hat", "ring", "boat", "coat")
PLACES = ("by the lake", "near the old mill", "in the garden", "under the bridge", "at the market")
SOUNDS = {
    "cat": "meow",
    "cow": "moo",
    "dog": "woof",
    "duck": "quack",
    "frog": "ribbit",
    "owl": "hoot",
    "pig": "oink",
    "sheep": "baa",
}
DEEDS = ("slept", "sat", "ran", "stood", "hid", "waited")
TIMES = ("all day", "until noon", "for an hour", "in the rain")


def mini_world(lines: int = LINES, seed: int = SEED) -> str:
    """Return ``lines`` sentences of the mini world, each ended by a newline.

    The same arguments give the same text on every version of Python.

    >>> print(mini_world(2), end="")
    david found a red lamp under the bridge. the lamp of david is red.
    felix found a yellow boat. the boat of felix is yellow.
    """
    # random() alone is promised to stay the same between versions of Python.
    draw = random.Random(seed).random

    def one(words):
        return words[int(draw() * len(words))]

    def two(words):
        first = one(words)
        return first, one([word for word in words if word != first])

    def animal():
        name = one(tuple(SOUNDS))
        deeds = " and ".join(f"{one(DEEDS)} {one(PLACES)}" for _ in range(one((1, 1, 2))))
        time = one(("", f" {one(TIMES)}"))
        return f"the {name} {deeds}{time} and said {SOUNDS[name]}."

    def owner():
        name, thing, colour = one(NAMES), one(THINGS), one(COLOURS)
        place = one(("", f" {one(PLACES)}"))
        return f"{name} found a {colour} {thing}{place}. the {thing} of {name} is {colour}."

    def gift():
        (giver, taker), thing = two(NAMES), one(THINGS)
        time = one(("", f" {one(PLACES)}"))
        return f"{giver} gave {taker} a {thing}{time}. {taker} thanked {giver} for the {thing}."

    return "".join(one((animal, owner, gift))() + "\n" for _ in range(lines))


if __name__ == "__main__":
    target = Path(__file__).with_name("mini_world.txt")
    target.write_text(mini_world(), encoding="ascii", newline="\n")
    print(f"wrote {target.name}, {target.stat().st_size:,} bytes")
