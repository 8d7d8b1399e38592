"""Fleets, runners and jobs for tests: plain defaults, so that a test states only what it is about.

A runner is active, offers the microvm tier on x86_64, takes one job, fetches images, polled 2 s ago
and has nothing on it. A job asks for the microvm tier and was queued in the order of its id.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from hub.placement.model import (
    Demand,
    Fleet,
    HubImage,
    Offer,
    Placed,
    QueuedJob,
    Runner,
    Settings,
    Standing,
)

NOW_MS = 1_800_000_000_000

_OFFER = {field.name for field in fields(Offer)}
_STANDING = {field.name for field in fields(Standing)}
_DEMAND = {field.name for field in fields(Demand)}


def runner(name: str = "r", **said: Any) -> Runner:
    """A runner; `said` are fields of its offer and its standing.

    `polled_s_ago` sets both when it polled and when it was heard; None: it never polled. `placed` may
    be a number: that many jobs that hold nothing but a slot.
    """
    polled_s_ago = said.pop("polled_s_ago", 2)
    if isinstance(said.get("placed"), int):
        said["placed"] = tuple(Placed(job=9000 + number) for number in range(said["placed"]))
    said = {
        key: frozenset(value) if key in ("labels", "images", "fetching") else value
        for key, value in said.items()
    }
    offer: dict[str, Any] = {"tiers": ("microvm",), "arch": "x86_64", "fetches_images": True}
    offer |= {key: value for key, value in said.items() if key in _OFFER}
    standing = {key: value for key, value in said.items() if key in _STANDING}
    if unknown := said.keys() - _OFFER - _STANDING:
        raise TypeError(f"neither offer nor standing has {sorted(unknown)}")
    if polled_s_ago is None:
        return Runner(name=name, offer=None, standing=Standing(**standing))
    polled_ms = NOW_MS - round(polled_s_ago * 1000)
    standing = {"heard_ms": polled_ms, "polled_ms": polled_ms} | standing
    return Runner(name=name, offer=Offer(**offer), standing=Standing(**standing))


def job(number: int = 1, **asked: Any) -> QueuedJob:
    """A queued job; `asked` are fields of its demand and of the queued job itself."""
    asked = {key: frozenset(value) if key in ("labels", "images") else value for key, value in asked.items()}
    demand: dict[str, Any] = {"project": "andy/demo", "tier": "microvm"}
    demand |= {key: asked.pop(key) for key in list(asked) if key in _DEMAND}
    queued: dict[str, Any] = {
        "id": number,
        "demand": Demand(**demand),
        "order": (0, NOW_MS - 1000, number),
    } | asked
    return QueuedJob(**queued)


def fleet(
    *runners: Runner,
    images: Iterable[str] | Mapping[str, HubImage] = (),
    settings: Settings | None = None,
) -> Fleet:
    """A fleet of `runners`; `images` are those the hub holds, by name or with what is known of them."""
    held = dict(images) if isinstance(images, Mapping) else {image: HubImage() for image in images}
    return Fleet(runners={one.name: one for one in runners}, images=held, settings=settings or Settings())
