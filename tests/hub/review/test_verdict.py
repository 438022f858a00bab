from __future__ import annotations

import json

from costhub.hub.review.verdict import Reason, Verdict


def test_only_a_refusal_refuses() -> None:
    assert Verdict("x", "dataset", [Reason("look", "Look.")]).is_accepted
    assert not Verdict("x", "dataset", [Reason("look", "Look."), Reason("refuse", "No.")]).is_accepted


def test_it_is_json() -> None:
    told = json.loads(json.dumps(Verdict("x", "model", [Reason("refuse", "No.")]).to_json()))

    assert (told["accepted"], told["reasons"]) == (False, [{"weight": "refuse", "what": "No."}])
