"""What a site shows of a hub."""

from __future__ import annotations

import pytest

from costhub.cards.site.facts import SiteModel


@pytest.mark.parametrize("more", [(), ("acme-two", "acme-three")])
def test_a_model_is_for_its_own_device_first(more: tuple[str, ...]) -> None:
    model = SiteModel(name="acme/model", device_id="acme-one", arch="gbt", more_devices=more, bytes=1)

    assert model.devices == ("acme-one", *more)
