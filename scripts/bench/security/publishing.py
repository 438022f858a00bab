"""What leaves the machine without a yes, and what it says of its owner (kinds 53 to 56)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from scripts.bench.security import shards
from scripts.bench.security.attempt import Attempt
from scripts.bench.security.place import Answer, Command, Place
from scripts.bench.security.scenarios.steps import reported

FAMILY = "publishing"
_CALLED = """
import sys
import costhub.hub.{module} as module
try:
    module.{function}({folder!r}, {hub!r}, name="a/x")
except TypeError as error:  # an argument that must be given
    sys.exit(f"TypeError: {{error}}")
"""


def called(module: str, function: str, *, model: bool) -> Callable[[Place], Command]:
    """Calls a function that sends, without a word on whether it may."""

    def make(place: Place) -> Command:
        folder = place.model() if model else place.data()
        hub = place.folder / "hub"
        hub.mkdir()
        if not model:  # contributions go to a dataset that is there
            shards.write(place.data(name="hub/datasets/a/x"), shards.read(folder)[:2])
        code = _CALLED.format(module=module, function=function, folder=str(folder), hub=str(hub))
        return place.python(code, shown=f"{function}(FOLDER, HUB)")

    return make


def unasked(*words: str) -> Callable[[Place], Command]:
    """A verb without a terminal and without --yes."""

    def make(place: Place) -> Command:
        place.model()
        (place.folder / "hub").mkdir()
        return place.costhub(*words)

    return make


def sent(place: Place, answer: Answer) -> str:
    """A harm: something is in the hub."""
    del answer
    hub = place.folder / "hub"
    files = [path for kind in ("models/*", "datasets/*/*/contributions") for path in hub.glob(f"{kind}/**/*.*")]
    return f"{len(files)} files were sent" if files else ""


def attempts() -> Iterator[Attempt]:
    """Kinds 53 to 56."""
    yield Attempt(
        "53", FAMILY, "publish() from Python without agree", called("publish", "publish", model=True), harm=sent
    )
    made = called("contribute", "contribute", model=False)
    yield Attempt("54", FAMILY, "contribute() from Python without agree", made, harm=sent, limit_s=60)
    made = unasked("publish", "m", "--to", "hub", "--as", "a/m")
    yield Attempt("55", FAMILY, "publish without a terminal and without --yes", made, harm=sent, quick=True)
    what = "collect and tune: who and where in rows, reports and databases"
    made = lambda place: place.scenario("personal_data")  # noqa: E731
    yield Attempt("56", FAMILY, what, made, "accepted", harm=reported, limit_s=150)
