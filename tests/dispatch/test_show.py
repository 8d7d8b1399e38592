"""What is made by hand for speed holds to the messages it is read back as."""

import json
from dataclasses import fields

from hub.dispatch.show import comparison_json
from hub.placement import placed
from hub.placement.placed import compare
from hub.wire.runs import Considered
from tests.fleets import NOW_MS, fleet, job, runner


def test_a_comparison_is_kept_with_every_field_and_read_back_whole() -> None:
    value = fleet(runner("a", waiting=True, speed_class=3), runner("b", labels=("x",), state="draining"))
    kept = json.loads(comparison_json(compare(job(1), "a", value, NOW_MS)))
    shown = [Considered.model_validate(one, strict=True) for one in kept["runners"]]
    assert set(kept["runners"][0]) == set(Considered.model_fields)
    assert set(kept["runners"][0]) == {field.name for field in fields(placed.Considered)}
    assert [(one.runner, one.chosen, one.waiting) for one in shown] == [
        ("a", True, True),
        ("b", False, False),
    ]
    assert shown[1].lacks[0].text == "is draining"
    assert shown[1].lacks[0].remedy is not None
