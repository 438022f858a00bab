"""Whole networks beside the engines that users would take instead."""
