"""Randomness as data: one uniform is a pure function of its address.

The cipher is Threefry-2x32 with 20 rounds (Salmon et al. 2011). Its key is
(seed, run), its counter packs where in training the draw is consumed:

    word 0   round 20 bits | purpose 2 | step // 2, 10 bits
    word 1   task 16 bits  | rollout 16

and the low bit of `step` selects one of the two words that come out. The
packing is injective, so no two draws share an address (fault F41), and a value
depends on nothing else: not on batch, chunk, device, process or JAX version.
Runs that share (seed, run) share their draws whatever their settings:
common random numbers.
"""

from itertools import accumulate
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Integer, UInt32

from jaxagent.types import Data, Noise

MAX_ROUNDS, MAX_STEPS, MAX_TASKS, MAX_ROLLOUTS = 2**20, 2**11, 2**16, 2**16
MAX_WORD, MAX_PURPOSES = 2**32, 2**2
ACTION, CHANCE, HELD_OUT = range(3)  # purposes; the last is chance where a policy is judged
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA

Word = UInt32[Array, "*#B"]
Number = Integer[Data, "*#B"] | int


class Stream(NamedTuple):
    """Where the draws of one training round stand."""

    seed: UInt32[Array, "*B"]
    run: UInt32[Array, "*B"]  # its number among the runs that share a seed
    round: UInt32[Array, "*B"]


def rounds(seed: Number, run: Number, num_rounds: int) -> Stream:
    """The streams of a whole run, [num_rounds]: what `lax.scan` feeds to a training step."""
    within("num_rounds", num_rounds, MAX_ROUNDS)
    number = jnp.arange(num_rounds, dtype=jnp.uint32)
    seed, run = field("seed", seed, MAX_WORD), field("run", run, MAX_WORD)
    return Stream(jnp.full_like(number, seed), jnp.full_like(number, run), number)


def episode(stream: Stream, task: Number, rollout: Number, num_steps: int) -> Noise:
    """The noise of one rollout, [num_steps], drawn for the numbers of its task and itself."""
    return Noise(
        action=uniforms(stream, task, rollout, num_steps, ACTION),
        chance=uniforms(stream, task, rollout, num_steps, CHANCE),
    )


def judged(stream: Stream, task: Number, num_steps: int) -> Noise:
    """The noise of a greedy rollout on a held-out task, whose chance no training rollout shares."""
    chance = uniforms(stream, task, 0, num_steps, HELD_OUT)
    return Noise(action=jnp.zeros_like(chance), chance=chance)


def uniforms(
    stream: Stream, task: Number, rollout: Number, num_steps: int, purpose: int
) -> Float[Array, "{num_steps}"]:
    """Uniforms in [0, 1), one a step, multiples of 2^-24: float32 and float64 draw alike."""
    within("num_steps", num_steps, MAX_STEPS)
    pair = jnp.arange((num_steps + 1) // 2, dtype=jnp.uint32)
    high, low = counter(stream.round, purpose, pair, task, rollout)
    both = threefry2x32(stream.seed, stream.run, high, low)
    return unit(jnp.stack(both, axis=1).reshape(-1)[:num_steps])


def counter(
    round: Word, purpose: Number, pair: Word, task: Number, rollout: Number
) -> tuple[Word, Word]:
    """The two counter words of an address."""
    purpose = field("purpose", purpose, MAX_PURPOSES)
    task, rollout = field("task", task, MAX_TASKS), field("rollout", rollout, MAX_ROLLOUTS)
    return (round << 12) | (purpose << 10) | pair, (task << 16) | rollout


def threefry2x32(key0: Word, key1: Word, high: Word, low: Word) -> tuple[Word, Word]:
    """Threefry-2x32, 20 rounds: the block of counter (high, low) under key (key0, key1)."""
    keys = (key0, key1, key0 ^ key1 ^ jnp.uint32(PARITY))
    x, y = high + keys[0], low + keys[1]
    for group in range(5):
        for rotation in ROTATIONS[group % 2]:
            x = x + y
            y = x ^ ((y << rotation) | (y >> (32 - rotation)))
        x = x + keys[(group + 1) % 3]
        y = y + keys[(group + 2) % 3] + jnp.uint32(group + 1)
    return x, y


def unit(bits: Word) -> Float[Array, "*#B"]:
    """The top 24 bits, as a multiple of 2^-24 in [0, 1)."""
    return (bits >> 8).astype(float) * 2.0**-24


def draw(weight: Float[Array, "C"], uniform: Float[Array, ""]) -> Int[Array, ""]:
    """The inverse CDF: how many cumulative weights, without the last, are <= uniform * total.

    As `random.Random.choices` draws, and like it summed in order. A weight of
    zero is never drawn: the sums before it and at it are equal, and a sum that
    has reached the total is not passed, whatever the product rounds to.
    """
    *cumulative, total = accumulate(weight)
    passed = ((part <= uniform * total) & (part < total) for part in cumulative)
    return sum((is_passed.astype(jnp.int32) for is_passed in passed), start=jnp.int32(0))


def field(name: str, given: Number, size: int) -> Word:
    """A field of an address. ValueError for a concrete number outside 0..size-1.

    A traced one cannot be looked into: a collector counts what it numbers.
    """
    if not isinstance(given, jax.core.Tracer):
        for number in (np.min(given), np.max(given)):
            within(name, int(number), size - 1, least=0)
    return jnp.asarray(given, jnp.uint32)


def within(name: str, given: int, most: int, least: int = 1) -> None:
    """ValueError unless least <= given <= most."""
    if not least <= given <= most:
        raise ValueError(f"{name} must be in {least}..{most:,}, got {given}")
