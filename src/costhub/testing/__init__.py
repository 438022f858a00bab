"""The conformance suite: what costhub asks of every cost model, for models of your own too."""

from costhub.testing.conformance import check_cost_model, properties
from costhub.testing.made_programs import made_programs
from costhub.testing.properties import Subject

__all__ = ["Subject", "check_cost_model", "made_programs", "properties"]
