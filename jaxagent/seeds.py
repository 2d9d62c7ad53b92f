"""One setting, many seeds: a run, compiled once over its number, called block by block."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree, Shaped, UInt32

from jaxagent.runs import Run
from jaxagent.trajectories import final
from jaxagent.types import Data

LANES = 128  # seeds in one call: wide enough to vectorise, narrow enough to stay in cache


class Outcome(NamedTuple):
    """What is kept of a run, or of many with the seed as first axis."""

    history: dict[str, Shaped[Data, "..."]]  # counters, [*B rounds], and further axes
    params: PyTree[Float[Data, "..."]]
    held_out_success: Bool[Data, "*B K"]  # never where the run diverged
    held_out_violation: Bool[Data, "*B K V"]
    diverged: Bool[Data, "*B"]  # a parameter is no longer finite


Block = Callable[[np.ndarray], Outcome]  # run numbers [lanes] -> leaves [lanes ...]


def compiled(one: Callable[[UInt32[Array, ""]], Outcome], lanes: int = LANES) -> Block:
    """A run of its number, `one(run)`, over `lanes` numbers as one compiled program."""
    return jax.jit(jax.vmap(one)).lower(jnp.zeros(lanes, jnp.uint32)).compile()


def kept(run: Run) -> Outcome:
    """The counters, the parameters and the held-out verdict of a run."""
    history = run.history._asdict()
    audit = history.pop("update")
    named = audit.counts._asdict() if audit.counts else {}
    params = run.learner.params
    last = jax.vmap(final)(run.held_out)
    finite = jnp.array([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(params)]).all()
    return Outcome(
        {**history, **named, "vetoed_updates": audit.vetoed},
        params,
        last.success & last.valid & finite,
        last.violations,
        ~finite,
    )


def blocks(num_seeds: int, lanes: int = LANES) -> list[np.ndarray]:
    """Run numbers 0..num_seeds in blocks of one width; the last one runs over."""
    starts = range(0, num_seeds, lanes)
    return [np.arange(first, first + lanes, dtype=np.uint32) for first in starts]


def collected(program: Block, todo: Iterable[np.ndarray], num_seeds: int) -> Outcome:
    """The outcomes of all blocks on the host, leaves [num_seeds ...]; what ran over is cut off."""
    done = [jax.device_get(program(block)) for block in todo]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[:num_seeds], *done)
