"""Verbs that read and write what other tools wrote: MetaSchedule databases, and logs of Ansor."""
