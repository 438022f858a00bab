"""The conformance suite: costhub's requirements for every cost model, also for your own models."""

from costhub.testing.made_programs import made_programs, made_replay
from costhub.testing.properties import Subject, check_cost_model, properties

__all__ = ["Subject", "check_cost_model", "made_programs", "made_replay", "properties"]
