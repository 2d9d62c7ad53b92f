"""Throughput: what the phases of a run cost, and what more environments buy (Chapter 23.8)."""

from typing import Any, NamedTuple

import numpy as np

Number = float | int
Numbers = Any  # a number, or an array of them: the result has its shape


class Latency(NamedTuple):
    """Seconds of one call: declared, with the chapter's values, or measured."""

    environment: Number = 0.300  # one environment step
    sample: Number = 0.030  # one sampled action
    update: Number = 0.002  # one score step


class Phases(NamedTuple):
    """Seconds that a run spends in each phase when no two things happen at once."""

    environment: Number
    sampling: Number
    update: Number


def phases(latency: Latency, steps: Number, updates: Number) -> Phases:
    """Counts x latencies, in seconds (Chapter section 23.8): each step costs a sample as well.

    `steps` are all that were taken, those that the infrastructure lost included.
    ValueError for a count or a latency that is not above 0.
    """
    _positive(**latency._asdict(), steps=steps, updates=updates)
    return Phases(steps * latency.environment, steps * latency.sample, updates * latency.update)


def rate(phases: Phases, transitions: Number, environments: Numbers) -> Numbers:
    """transitions / (environment / n + sampling + update), per second (Chapter section 23.8).

    The unit is completed VALID transitions: a step that the infrastructure lost
    costs its seconds and is not counted. n environments step side by side, while
    one policy samples and one trainer updates. ValueError unless all are above 0.
    """
    _positive(**phases._asdict(), transitions=transitions, environments=environments)
    return transitions / (phases.environment / environments + phases.sampling + phases.update)


def ceiling(phases: Phases, transitions: Number) -> Number:
    """transitions / (sampling + update), per second: the rate that no number of environments has.

    Lecture section 7. ValueError unless all are above 0.
    """
    _positive(**phases._asdict(), transitions=transitions)
    return transitions / (phases.sampling + phases.update)


def marginal_gain(phases: Phases, transitions: Number, environments: Numbers) -> Numbers:
    """rate(n + 1) - rate(n): what the next environment adds, in transitions per second.

    It falls with every environment (Chapter section 23.8). ValueError unless all are above 0.
    """
    now = rate(phases, transitions, environments)
    return rate(phases, transitions, np.add(environments, 1)) - now


def cycle_time(batch: Number, rollout: Number, update: Number, environments: Numbers) -> Numbers:
    """B d_r / m + d_u, in seconds: the least that a batch takes (Lecture section 7).

    B rollouts of `rollout` seconds each on m environments, then one update of
    `update` seconds. Stragglers, timeouts, connection limits and policy lag come
    on top. ValueError unless all are above 0.
    """
    _positive(batch=batch, rollout=rollout, update=update, environments=environments)
    return batch * rollout / environments + update


def _positive(**given: Numbers) -> None:
    """ValueError for the first number that is not finite or not above 0."""
    for name, value in given.items():
        if not (np.isfinite(value) & np.greater(value, 0)).all():
            raise ValueError(f"{name} must be a finite number above 0, got {value}")
