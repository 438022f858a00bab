"""Reads logs of TVM's auto-scheduler (Ansor) into the tables of a data folder."""
