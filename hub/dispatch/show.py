"""Values of placement as they travel: field by field, sentences unchanged."""

from collections.abc import Collection, Iterable, Mapping

from hub.placement import model
from hub.placement.margin import Told
from hub.placement.placed import Comparison
from hub.placement.preview import Previewed
from hub.placement.waiting import RunnerLacks as LacksValue
from hub.placement.waiting import Waiting as WaitingValue
from hub.wire.base import to_json
from hub.wire.runs import Lack, PreviewJob, Remedy, RunnerLacks, Waiting


def lack_view(lack: model.Lack) -> Lack:
    """One lack with its remedy."""
    return Lack(
        code=lack.code,
        text=lack.text,
        lasting=lack.lasting,
        remedy=None if lack.remedy is None else _remedy_view(lack.remedy),
    )


def waiting_view(
    waiting: WaitingValue, *, since_ms: int | None = None, as_of_ms: int | None = None
) -> Waiting:
    """Why a job waits; `since_ms`: since when it does, `as_of_ms`: when this was worked out."""
    return Waiting(
        kind=waiting.kind,
        headline=waiting.headline,
        since=since_ms,
        as_of=as_of_ms,
        runners=_runners(waiting.runners),
        more=waiting.more,
        mend=[_remedy_view(remedy) for remedy in waiting.mend],
    )


def preview_view(name: str, previewed: Previewed) -> PreviewJob:
    """Where one job of a pipeline would go."""
    return PreviewJob(
        name=name,
        runner=previewed.runner,
        placed=previewed.placed,
        waiting=None if previewed.waiting is None else waiting_view(previewed.waiting),
        runners=_runners(previewed.runners),
        more=previewed.more,
    )


def comparison_json(comparison: Comparison) -> str:
    """The comparison as the store keeps it: JSON with `runners` (wire Considered), `more`, and what is told.

    Made by hand, for every claim makes one: the fields are those of wire Considered, and whoever
    reads it back holds it to them.
    """
    runners = [
        {
            "runner": one.runner,
            "rank": one.rank,
            "holds_images": one.holds_images,
            "speed_class": one.speed_class,
            "free_slots": one.free_slots,
            "load1": one.load1,
            "facts_age_s": one.facts_age_s,
            "waiting": one.waiting,
            "chosen": one.chosen,
            "lacks": [
                {
                    "code": lack.code,
                    "text": lack.text,
                    "lasting": lack.lasting,
                    "remedy": None
                    if lack.remedy is None
                    else {"text": lack.remedy.text, "change": dict(lack.remedy.change)},
                }
                for lack in one.lacks
            ],
            "margin": None if one.margin is None else one.margin.to(None),  # names the row's own runner alone
        }
        for one in comparison.runners
    ]
    told = {
        name: None if one is None else {"text": one.text, "runner": one.runner}
        for name, one in (("margin", comparison.margin), ("waited", comparison.waited))
    }
    return to_json({"runners": runners, "more": comparison.more, "paid": comparison.paid, **told})


def told_view(stored: Mapping[str, str | None] | None, visible: Collection[str] | None) -> str | None:
    """A sentence of a comparison as it was stored, for one reader. None: there is none."""
    if not stored or not stored.get("text"):
        return None
    return Told(text=stored["text"] or "", runner=stored.get("runner")).to(visible)


def _remedy_view(remedy: model.Remedy) -> Remedy:
    return Remedy(text=remedy.text, change=dict(remedy.change))


def _runners(found: Iterable[LacksValue]) -> list[RunnerLacks]:
    return [RunnerLacks(runner=one.runner, lacks=[lack_view(lack) for lack in one.lacks]) for one in found]
