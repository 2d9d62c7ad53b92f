"""One setting, many seeds: a run, compiled once over seed indices, called block by block."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, PyTree, Shaped

from jaxagent import noise
from jaxagent.runs import Method, Run, train
from jaxagent.types import Data, Params, Problem

LANES = 128  # seeds in one call: wide enough to vectorise, narrow enough to stay in cache


class Outcome(NamedTuple):
    """What is kept of a run, or of many with the seed as first axis."""

    history: dict[str, Shaped[Data, "..."]]  # counters, [*B rounds], and further axes
    params: PyTree[Float[Data, "..."]]
    held_out_success: Bool[Data, "*B K"]
    held_out_violation: Bool[Data, "*B K V"]
    diverged: Bool[Data, "*B"]  # a parameter is no longer finite


Block = Callable[[np.ndarray], Outcome]  # seed indices [lanes] -> leaves [lanes ...]


def compiled(
    problem: Problem,
    method: Method,
    params: Params,
    *,
    seed: int,
    rounds: int,
    group_size: int,
    lanes: int = LANES,
) -> Block:
    """The whole run over `lanes` seed indices as one compiled program."""

    def one(index) -> Outcome:
        stream = noise.rounds(seed, index, rounds)
        return kept(train(problem, method, params, stream, group_size))

    return jax.jit(jax.vmap(one)).lower(jnp.zeros(lanes, jnp.uint32)).compile()


def kept(run: Run) -> Outcome:
    """The counters, the parameters and the held-out verdict of a run."""
    history = run.history._asdict()
    audit = history.pop("update")
    verdict = run.held_out.verdict
    finite = jnp.array([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(run.params)])
    return Outcome(
        {**history, **audit.counts._asdict(), "vetoed_updates": audit.vetoed},
        run.params,
        verdict.success[:, -1],
        verdict.violations[:, -1],
        ~finite.all(),
    )


def blocks(num_seeds: int, lanes: int = LANES) -> list[np.ndarray]:
    """Seed indices 0..num_seeds in blocks of one width; the last one runs over."""
    starts = range(0, num_seeds, lanes)
    return [np.arange(first, first + lanes, dtype=np.uint32) for first in starts]


def collected(program: Block, todo: Iterable[np.ndarray], num_seeds: int) -> Outcome:
    """The outcomes of all blocks on the host, leaves [num_seeds ...]; what ran over is cut off."""
    done = [jax.device_get(program(block)) for block in todo]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[:num_seeds], *done)
