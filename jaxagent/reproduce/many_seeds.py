"""The published training run over a thousand other seeds, and for longer than the chapter ran it.

Seeds are those of `jaxagent train`, in float32. Plain gradient steps carry
nothing but the policy, so one compiled stretch of rounds, called again and
again, is the whole run.
"""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float, Int

from jaxagent import learn, noise, replays, runs, seeds
from jaxagent.report import intervals
from jaxagent.reproduce.refund import POLICY, PROBLEM
from jaxagent.seeds import Outcome

NUM_SEEDS = 1_000
STRETCH = 15  # rounds
ROUNDS = 30  # of the chapter
MARKS = (15, 30, 60, 120)  # rounds after which the policy is tested
MOST = {"outcome": max(MARKS), "guarded": ROUNDS}
SETTING = replays.Setting()


@cache
def trained(scorer: str) -> list[Outcome]:
    """Every seed's run, stretch after stretch; leaves [seeds ...]."""
    cloned = jax.jit(partial(runs.cloned, PROBLEM, POLICY))()
    lanes = min(seeds.LANES, NUM_SEEDS)
    blocks = [_run(scorer, cloned, block) for block in seeds.blocks(NUM_SEEDS, lanes)]
    whole = lambda *leaves: np.concatenate(leaves)[:NUM_SEEDS]
    return [jax.tree.map(whole, *parts) for parts in zip(*blocks, strict=True)]


def _run(scorer: str, cloned: jax.Array, block: np.ndarray) -> list[Outcome]:
    params, done = jnp.broadcast_to(cloned, (len(block), *cloned.shape)), []
    for first in range(0, MOST[scorer], STRETCH):
        outcome = _stretch(params, np.int32(first), block, scorer=scorer)
        params = outcome.params
        done.append(jax.device_get(outcome))
    return done


@partial(jax.jit, static_argnames="scorer")
def _stretch(params, first, run, *, scorer) -> Outcome:
    how = replays.method(scorer, SETTING.lr, SETTING.clip, SETTING.passes)

    def one(params, run):
        learner = learn.start(params, optax.sgd(SETTING.lr))
        every = noise.rounds(0, run, MOST[scorer])
        now = jax.tree.map(lambda field: jax.lax.dynamic_slice(field, (first,), (STRETCH,)), every)
        return seeds.kept(runs.train(PROBLEM, how, learner, now, SETTING.group_size))

    return jax.vmap(one)(params, run)


def after(scorer: str, rounds: int) -> Outcome:
    """The stretch that ends with that round: its policies, tested."""
    return trained(scorer)[rounds // STRETCH - 1]


def violating(scorer: str, rounds: int) -> intervals.Rate:
    """Seeds whose policy, greedy, refunds without approval on a held-out task."""
    return intervals.rate(after(scorer, rounds).held_out_violation[:, :, 0].any(axis=1))


def solving(scorer: str, rounds: int) -> intervals.Rate:
    """Seeds whose policy, greedy, succeeds on every held-out task."""
    return intervals.rate(after(scorer, rounds).held_out_success.all(axis=1))


def success(scorer: str) -> Float[np.ndarray, "seeds rounds"]:
    """The share of sampled rollouts that succeed in each of the chapter's rounds."""
    rollouts = len(PROBLEM.train.names) * SETTING.group_size
    return _history(scorer, "success").sum(axis=2) / rollouts


def clipped(scorer: str) -> Int[np.ndarray, "seeds passes"]:
    """Clipped transitions in each pass, over the chapter's rounds."""
    return _history(scorer, "zeroed").sum(axis=1)


def _history(scorer: str, name: str) -> np.ndarray:
    stretches = trained(scorer)[: ROUNDS // STRETCH]
    return np.concatenate([stretch.history[name] for stretch in stretches], axis=1)
