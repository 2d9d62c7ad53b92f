"""One jitted collector call over many tasks, and anchor advantages on what it brings.

    python -m experiments.bench.collect --num-tasks 1000 --group-size 64

Prints live transitions per second of acting alone and of acting, scoring and
comparing, with the temporary memory that the compiled programs ask for and the
process's own peak.
"""

import resource
import time
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import tyro

from jaxagent import choices, estimators, noise, policies, runs
from jaxagent.gyms import refund
from jaxagent.report import tables
from jaxagent.rollout import collector
from jaxagent.scorers import score

MEBIBYTE = 2**20


def generated(num_tasks: int, seed: int = 0) -> refund.Task:
    """Refund tasks with amounts in 1..100, half of them starting in recover."""
    generator = np.random.default_rng(seed)
    amount = generator.integers(1, 101, num_tasks, dtype=np.int32)
    start = generator.choice(np.array([refund.START, refund.RECOVER], np.int32), num_tasks)
    return refund.Task(amount, start)


def measured(program: Callable, *arguments, repeats: int = 7) -> tuple[list[float], int]:
    """Seconds of each call after the first, and bytes of temporary memory."""
    compiled = jax.jit(program).lower(*arguments).compile()
    jax.block_until_ready(compiled(*arguments))
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        jax.block_until_ready(compiled(*arguments))
        seconds.append(time.perf_counter() - began)
    return sorted(seconds), compiled.memory_analysis().temp_size_in_bytes


def main(num_tasks: int = 1000, group_size: int = 64) -> None:
    """Measure and print."""
    problem = refund.problem()
    policy = policies.tabular(problem.gym.spec)
    collect = collector(
        problem.gym,
        policy,
        generated(num_tasks),
        group_size=group_size,
        horizon=problem.horizon,
    )
    scorer = choices.scorers_of(problem)["guarded"]
    estimator = estimators.anchor(problem.gym.spec)

    def act(stream, params):
        return collect(stream, params)

    def act_and_compare(stream, params):
        batch = collect(stream, params)
        scores = jax.vmap(jax.vmap(partial(score, scorer)))(batch)
        return jax.vmap(partial(estimator, params))(batch, scores), batch.live.sum()

    params = runs.cloned(problem, policy)
    stream = jax.tree.map(lambda leaf: leaf[0], noise.rounds(0, 0, 1))
    live = int(jnp.sum(collect(stream, params).live))
    rows = []
    for name, program in {"act": act, "act, score, compare": act_and_compare}.items():
        seconds, memory = measured(program, stream, params)
        median = seconds[len(seconds) // 2]
        rows.append((name, f"{live / median:,.0f}", f"{live / seconds[-1]:,.0f}",
                     f"{live / seconds[0]:,.0f}", f"{memory / MEBIBYTE:,.1f}"))  # fmt: skip
    title = f"{num_tasks:,} tasks x {group_size} rollouts, {live:,} live transitions"
    header = ("live transitions per second", "median", "min", "max", "temporary MiB")
    print(tables.render(title, header, rows))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak resident memory of the process {peak:,.0f} MiB, on {jax.devices()[0].device_kind}")


if __name__ == "__main__":
    tyro.cli(main)
