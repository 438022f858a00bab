"""Where a search measures: a device of this machine, or boards of a tracker; both time what is built."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from costhub.collector.device import identify
from costhub.collector.place import Place, board_place, local_place
from costhub.collector.suite import find_workload
from costhub.dataset.workload import argument_shapes, module_to_json
from costhub.errors import DeviceError, MeasureError


def _here() -> AbstractContextManager[Place]:
    return local_place(identify(threads=1)["device_id"])


@pytest.fixture(params=["here", "boards"])
def opened(
    request: pytest.FixtureRequest, two_boards: tuple[str, str]
) -> Callable[[], AbstractContextManager[Place]]:
    return _here if request.param == "here" else lambda: board_place(*two_boards)


def test_programs_are_built_for_a_place_and_timed_there(
    opened: Callable[[], AbstractContextManager[Place]],
) -> None:
    small, large = (find_workload(f"matmul.{size}x{size}x{size}").module() for size in (128, 256))
    with opened() as place:
        place.timer.launch()
        built = place.builder.build([module_to_json(mod) for mod in (small, large, small)])
        programs = [
            (str(each.artifact), argument_shapes(mod))
            for each, mod in zip(built, (small, large, small), strict=True)
        ]
        ran = dict(place.timer.run_each(programs))

    assert {number: each.status for number, each in ran.items()} == dict.fromkeys(range(3), "ok")
    first, second, third = (min(ran[number].run_s) for number in range(3))
    assert second > 2 * max(first, third)
    assert place.target["num-cores"] == place.row["cores"]


def test_boards_are_elsewhere_and_a_device_of_this_machine_is_here(two_boards: tuple[str, str]) -> None:
    with _here() as here, board_place(*two_boards) as boards:
        assert here.boards is None
        assert boards.boards is not None
        assert f"{boards.boards.tracker.host}:{boards.boards.tracker.port}" == two_boards[0]
        assert boards.row["device_id"] == identify()["device_id"]


def test_what_is_not_there_is_a_sentence() -> None:
    with pytest.raises(DeviceError, match="no device named 'amd-epyc-zen9'"), local_place("amd-epyc-zen9"):
        pass
    with pytest.raises(MeasureError, match="HOST:PORT"), board_place("here", "pair"):
        pass
