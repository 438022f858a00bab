"""Provides Result: what `costhub adapt` writes and prints."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from costhub.transfer.candidates import ADAPTED, CANDIDATES

if TYPE_CHECKING:
    from costhub.transfer.adapt import Adaptation


@dataclass(frozen=True)
class Result:
    """An adapted model, with its figures and its origin."""

    source: str
    """Name of the model that was adapted."""
    device_id: str
    done: Adaptation
    figures: Mapping[str, dict[str, Any] | None]
    """`before` and `after` -> figures on held-out workloads; None if nothing was held out."""
    held_out: Sequence[str]
    """Ids of these workloads."""
    data_credit: str | None = None
    """Who measured the programs that both models learned from."""

    def save(self, out: Path, *, licence: str, seed: int) -> None:
        """Writes the model folder, with card and `adaptation.json`."""
        from costhub.cli.model_documents import model_documents
        from costhub.models.folder import save_model
        from costhub.models.train import describe_model

        after = self.figures["after"]
        info = describe_model(
            self.done.model, self.done.learned, device_id=self.device_id, seed=seed, licence=licence,
            base=self.source, method=self.done.summary, metrics=after["totals"] if after else None,
            test_workloads=self.held_out, data_credit=self.data_credit,
        )  # fmt: skip
        told = {"source": self.source, **self.done.to_json()}
        documents = model_documents(self.done.model, info, after, out.name, transfer=told)
        save_model(self.done.model, out, info, documents=documents)

    def as_json(self, out: Path) -> str:
        """The result for machines."""
        return json.dumps({"folder": str(out), **self.figures, **self.done.to_json()}, indent=2)

    def report(self, out: Path, *, explain: bool) -> str:
        """The result for people."""
        from costhub.cards.adaptation import masks_table
        from costhub.cards.tables import Column, number, plain_table
        from costhub.models.evaluation.evaluate import METRICS

        done = self.done
        totals = [{"model": side, **found["totals"]} for side, found in self.figures.items() if found]
        asked = [{"trials": v.trials, **v.pairwise} for v in done.verdicts if v.pairwise]
        shares = [number("trials", "trials", "d"), *(number(name, name) for name in CANDIDATES)]
        parts = [
            "On held-out workloads:\n"
            + plain_table(totals, [Column("model", ""), *(number(name, name) for name in METRICS)])
            if totals
            else "No workload was held out, so the model was not evaluated.",
            f"Share of the pairs in each new batch that were ranked correctly before learning from it:\n"
            f"{plain_table(asked, shares)}",
        ]
        if done.chosen != ADAPTED:
            parts.append(
                f"Transfer by {done.method} made the model worse, so the {done.chosen} model was written."
            )
        if explain:
            parts.append(masks_table(done.to_json()))
        wrote = f"{done.model.arch} for {self.device_id}, from {self.source} and {done.trials} trials."
        return "\n\n".join(parts) + f"\nWrote {out}: {wrote}"
