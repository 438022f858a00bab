"""The conformance suite: what costhub asks of every cost model, for models of your own too."""

from costhub.testing.made_programs import made_programs, made_replay
from costhub.testing.properties import Subject, check_cost_model, properties

__all__ = ["Subject", "check_cost_model", "made_programs", "made_replay", "properties"]
