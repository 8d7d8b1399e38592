"""The one style sheet: its colours can be read in both themes, and it loads nothing from elsewhere."""

import re

import pytest

from hub import assets

SHEET = (assets.templates() / "static" / "css" / "shunter.css").read_text()
BLOCKS = re.findall(r":root \{(.*?)\n\s*\}", SHEET, re.DOTALL)
COLOURS = [dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6});", block)) for block in BLOCKS]
THEMES = {"light": COLOURS[0], "dark": {**COLOURS[0], **COLOURS[1]}}
READABLE = 4.5  # WCAG 2.2, 1.4.3: contrast of text
SEEN = 3.0  # WCAG 2.2, 1.4.11: contrast of what is not text

TEXT_ON = [
    *((ink, ground) for ink in ("ink", "soft", "accent") for ground in ("ground", "card", "sunk")),
    *((tone, "card") for tone in ("good", "bad", "warn", "busy", "idle")),
    *((tone, "accent-soft") for tone in ("good", "bad", "warn", "busy", "idle", "ink", "soft")),
    *(("ink", soft) for soft in ("bad-soft", "warn-soft")),
    *(("soft", soft) for soft in ("bad-soft", "warn-soft")),
    ("on-accent", "accent"),
    *((f"c{index}", "sunk") for index in range(16)),
    *(("card", f"c{index}") for index in range(16)),  # the letters on a coloured ground
]


def luminance(colour: str) -> float:
    """Relative luminance, as WCAG 2.2 defines it."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, two: str) -> float:
    light, dark = sorted((luminance(one), luminance(two)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize(("letters", "ground"), TEXT_ON)
def test_text_can_be_read_on_its_ground(theme: str, letters: str, ground: str) -> None:
    colours = THEMES[theme]
    assert contrast(colours[letters], colours[ground]) >= READABLE


@pytest.mark.parametrize("theme", THEMES)
def test_a_bar_can_be_seen(theme: str) -> None:
    assert contrast(THEMES[theme]["accent"], THEMES[theme]["edge"]) >= SEEN


def test_both_themes_set_every_colour() -> None:
    assert len(BLOCKS) == 2
    assert set(COLOURS[0]) == set(COLOURS[1])


def test_the_sheet_loads_nothing() -> None:
    assert "url(" not in SHEET
    assert "@import" not in SHEET
