"""The log is bounded, however long a program runs."""

import pullback
from pullback._watch import traps_of_calls, traps_of_operations, traps_of_steps
from pullback._watch.log import FORWARD


def test_the_log_is_bounded(monkeypatch):
    from pullback._watch import log

    monkeypatch.setattr(log, "KEPT", 50)
    kept = log.Log(pullback.Findings(), strict=False)
    for index in range(1, 500):
        event = log.Event(index, "mul", None, FORWARD)
        event.makes = event.writes = (index,)
        kept.of_number[index] = event
        kept.add(event)
        kept.memory(traps_of_operations.Updates).of[index] = event, "x"
        kept.memory(traps_of_calls.Means).samples[index] = event, 1
        kept.memory(traps_of_steps.Steps).clipped[index] = event
    memories = (
        kept.memory(traps_of_operations.Updates).of,
        kept.memory(traps_of_calls.Means).samples,
        kept.memory(traps_of_steps.Steps).clipped,
    )
    tables = (kept.of_number, kept.makers, kept.writers, *memories)
    assert {len(table) <= 101 for table in tables} == {True}
