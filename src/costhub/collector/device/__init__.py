"""Identifies devices and describes their targets."""

from costhub.collector.device.identity import identify as identify
