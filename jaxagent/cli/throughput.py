"""`jaxagent throughput`: what more environments buy, under declared and measured latencies."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Int, PyTree

from jaxagent import learn, losses, policies, throughput
from jaxagent.gyms import refund
from jaxagent.noise import within
from jaxagent.report import files, tables
from jaxagent.throughput import Latency
from jaxagent.types import Decision

LANES, REPEATS = 2**14, 31
MAX_COUNT = 2**53  # beyond it a float skips integers
MIN_SECONDS, MAX_SECONDS = 1e-12, 1e12
READING = """\
seconds: B d_r / m + d_u, for B transitions of d_r seconds on m environments, and d_u for sampling
and updates. A bound: stragglers, timeouts, connection limits and policy lag come on top.
next: transitions per second that one environment more would add."""


@dataclass(frozen=True)
class Throughput:
    """Charge each phase of a run its latency, and add environments (Chapter section 23.8).

    First with declared latencies, then with those of this library's own parts,
    measured here: jitted, many lanes side by side, in one process.
    """

    environment_s: float = Latency().environment
    """Declared seconds of an environment step, > 0."""
    sample_s: float = Latency().sample
    """Declared seconds of a sampled action, > 0."""
    update_s: float = Latency().update
    """Declared seconds of a score step, > 0."""
    transitions: int = 3_444
    """Completed valid transitions; by default those of the guarded run, replay --seed 7."""
    updates: int = 6_556
    """Score steps; by default those of the same run."""
    environments: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128)
    """Environments that step side by side; a row of the table for each."""
    measure: Literal["true", "false"] = "true"
    """Whether to measure the library's own latencies too."""
    json: Path | None = None
    """Also write the numbers as JSON."""

    def run(self) -> int:
        """Check, model, measure, print, write; the exit status."""
        self.checked()
        if self.json is not None:
            files.require_writable(self.json)
        declared = Latency(self.environment_s, self.sample_s, self.update_s)
        said: dict[str, Any] = {"declared": modelled(self, declared), "measured": None}
        if self.measure == "true":
            said["measured"] = {"lanes": LANES, **modelled(self, measured())}
        if self.json is not None:  # before any print: a reader may go away
            files.write_json(self.json, said)
        print(told("Declared latencies", said["declared"]))
        if said["measured"] is not None:
            print(told(f"Latencies measured here, {LANES:,} lanes side by side", said["measured"]))
        print(READING)
        return 0

    def checked(self) -> None:
        """ValueError for the first number out of its range."""
        for name in ("environment_s", "sample_s", "update_s"):
            seconds = getattr(self, name)
            if not MIN_SECONDS <= seconds <= MAX_SECONDS:  # nan fails too
                option = f"--{name.replace('_', '-')}"
                raise ValueError(
                    f"{option} must be in {MIN_SECONDS:g}..{MAX_SECONDS:g} seconds, got {seconds}"
                )
        within("--transitions", self.transitions, MAX_COUNT)
        within("--updates", self.updates, MAX_COUNT)
        if not self.environments:
            raise ValueError("--environments must be one number or more, got none")
        for number in self.environments:
            within("--environments", number, MAX_COUNT)


def modelled(options: Throughput, latency: Latency) -> dict[str, Any]:
    """The model under `latency`, in the form and with the names of the published data."""
    transitions, numbers = options.transitions, np.array(options.environments)
    phases = throughput.phases(latency, transitions, options.updates)
    rate = throughput.rate(phases, transitions, numbers)
    ceiling = throughput.ceiling(phases, transitions)
    serial = phases.sampling + phases.update
    by_environments = {
        "transitions_per_second": rate,
        "share_of_ceiling": rate / ceiling,
        "marginal_gain": throughput.marginal_gain(phases, transitions, numbers),
        "cycle_seconds": throughput.cycle_time(transitions, latency.environment, serial, numbers),
    }
    return {
        "latency_s": dict(zip(("env_step", "sample", "update"), latency, strict=True)),
        "totals": {"transitions": transitions, "updates": options.updates},
        "phase_seconds": phases._asdict(),
        **{
            name: dict(zip(map(str, options.environments), column.tolist(), strict=True))
            for name, column in by_environments.items()
        },
        "ceiling": ceiling,
    }


def told(title: str, model: dict[str, Any]) -> str:
    """A modelled run as text: its phases, then its rate by the number of environments."""
    ceiling = f"Ceiling: {_short(model['ceiling'])} transitions per second"
    by_phase = ("phase", "calls", "microseconds each", "seconds", "share")
    by_environments = ("environments", "seconds", "transitions per second", "of ceiling", "next")
    return "\n".join(
        (
            tables.render(title, by_phase, _phases(model)),
            tables.render(ceiling, by_environments, _rates(model)),
        )
    )


def _phases(model: dict[str, Any]) -> list[tuple[str, ...]]:
    seconds, counts = model["phase_seconds"], model["totals"]
    total = sum(seconds.values())
    calls = (counts["transitions"], counts["transitions"], counts["updates"])
    each = model["latency_s"].values()
    return [
        (name, f"{count:,}", _short(latency * 1e6), _short(spent), f"{spent / total:.1%}")
        for (name, spent), count, latency in zip(seconds.items(), calls, each, strict=True)
    ]


def _rates(model: dict[str, Any]) -> list[tuple[str, ...]]:
    return [
        (
            f"{int(number):,}",
            _short(model["cycle_seconds"][number]),
            _short(rate),
            f"{model['share_of_ceiling'][number]:.1%}",
            f"+{_short(model['marginal_gain'][number])}",
        )
        for number, rate in model["transitions_per_second"].items()
    ]


def _short(value: float) -> str:
    """Four significant digits, or all those before the point."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:#.4g}"


# Measuring

Part = tuple[Callable[..., Any], tuple[Any, ...]]  # a function of one lane, arguments of all


def measured() -> Latency:
    """Seconds of one call of this library's own parts, among LANES calls side by side."""
    return Latency(*(seconds(*part()) for part in (reset_and_step, sample, update)))


def reset_and_step() -> Part:
    """The refund desk, reset to a task and moved by one action."""
    gym, which = refund.gym(), _below(len(refund.TRAIN.names))
    task = jax.tree.map(lambda leaf: leaf[which], refund.TRAIN.task)

    def program(task, action):
        return gym.step(task, gym.reset(task), action, jnp.int32(0))

    return program, (task, _below(len(refund.ACTIONS)))


def sample() -> Part:
    """An action drawn from one policy, and its log probability."""
    policy = policies.tabular(refund.gym().spec)
    params = _for_each_lane(policy.init())

    def program(params, uniform, obs):
        return policies.sample(policy, params)(uniform, obs)

    uniform = jnp.asarray(np.random.default_rng(0).random(LANES), float)
    return program, (params, uniform, _below(refund.TERMINAL))


def update() -> Part:
    """A clipped score step on one decision; each lane is a learner with a table of its own."""
    policy, descent = policies.tabular(refund.gym().spec), optax.sgd(0.04)
    objective = learn.objective(policy, losses.clipped_surrogate())
    fit = learn.descend(objective, descent, passes=1, batch_size=1)

    def program(params, row):
        return fit(learn.start(params, descent), row)[0].params

    params = _for_each_lane(policy.init())
    ones = jnp.ones((LANES, 1))
    obs, action = (_below(most)[:, None] for most in (refund.TERMINAL, len(refund.ACTIONS)))
    return program, (params, Decision(obs, action, np.log(0.25) * ones, ones, ones, ones > 0))


def _for_each_lane(record: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (LANES, *leaf.shape)), record)


def _below(most: int) -> Int[Array, "LANES"]:
    return jnp.asarray(np.random.default_rng(most).integers(most, size=LANES), jnp.int32)


def seconds(program: Callable[..., Any], arguments: tuple[Any, ...]) -> float:
    """Seconds of one lane: the median over REPEATS calls, compilation excluded."""
    compiled = jax.jit(jax.vmap(program)).lower(*arguments).compile()
    jax.block_until_ready(compiled(*arguments))
    spent = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        jax.block_until_ready(compiled(*arguments))
        spent.append(time.perf_counter() - began)
    return median(spent) / LANES
