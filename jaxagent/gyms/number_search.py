"""Number search (Lecture section 0): find a hidden integer from higher, lower and correct.

The observation is the candidate interval, a sufficient statistic of the
history. `gym` knows the hidden number; `belief` does not, and lets chance
answer with the odds of a uniform prior: dynamic programming over it solves the
game over all policies.
"""

from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from jaxagent.types import Data, Gym, Problem, Spec, Tasks, Verdict
from jaxagent.wrappers import deterministic

NUM_NUMBERS, BUDGET = 16, 4
MAX_NUMBERS = 64
CORRECT, LOWER, HIGHER = range(3)  # the answers


class Task(NamedTuple):
    hidden: Int[Data, "*B"]  # in [0, N); people call it hidden + 1


class Interval(NamedTuple):
    """A task of `belief`: the hidden number is uniform in [low, high)."""

    low: Int[Data, "*B"]
    high: Int[Data, "*B"]


class State(NamedTuple):
    low: Int[Array, "*B"]  # the hidden number is in [low, high)
    high: Int[Array, "*B"]
    found: Bool[Array, "*B"]
    guesses: Int[Array, "*B"]


def spec(num_numbers: int) -> Spec:
    """Every interval, row by row, and the terminal observation; actions are the N guesses.

    ValueError unless 1 <= N <= 64: a tabular policy has a row for every interval.
    """
    N = num_numbers
    if not 1 <= N <= MAX_NUMBERS:
        rows = f"{N * (N + 1) // 2 + 1:,} rows of {N:,} logits" if N > 0 else "no rows"
        raise ValueError(
            f"number search needs 1 to {MAX_NUMBERS} numbers, since a tabular policy has a row "
            f"for every interval, got {N:,} ({rows})"
        )
    intervals = [f"{low + 1}-{high}" for low in range(N) for high in range(low + 1, N + 1)]
    return Spec((*intervals, "terminal"), tuple(str(n + 1) for n in range(N)))


def interval(num_numbers: int, low: Int[Array, "*B"], high: Int[Array, "*B"]):
    """The observation of [low, high): its position in `spec(N).observations`."""
    return low * num_numbers - low * (low - 1) // 2 + high - low - 1


def bounds(num_numbers: int) -> np.ndarray:
    """[S, 2]: low and high of every observation; the terminal one counts as the interval [0, 1)."""
    N = num_numbers
    rows = [(low, high) for low in range(N) for high in range(low + 1, N + 1)]
    return np.array([*rows, (0, 1)], np.int32)


def narrow(state: State, guess: Int[Array, ""], answer: Int[Array, ""]) -> State:
    """What is left after an answer. A guess outside the interval is wasted, not an error."""
    return State(
        low=jnp.where(answer == HIGHER, jnp.maximum(state.low, guess + 1), state.low),
        high=jnp.where(answer == LOWER, jnp.minimum(state.high, guess), state.high),
        found=state.found | (answer == CORRECT),
        guesses=state.guesses + 1,
    )


def observe(num_numbers: int, task: Task | Interval, state: State) -> Int[Array, ""]:
    """The interval, or the terminal observation once the number is found."""
    del task
    terminal = num_numbers * (num_numbers + 1) // 2
    return jnp.where(state.found, terminal, interval(num_numbers, state.low, state.high))


def judge(budget: int, task: Task | Interval, state: State) -> Verdict:
    """Done when found or when the budget is spent; success only when found."""
    del task
    return Verdict(
        done=state.found | (state.guesses >= budget),
        success=state.found,
        violations=jnp.zeros(0, bool),
        valid=jnp.bool_(True),
    )


def gym(num_numbers: int = NUM_NUMBERS, budget: int = BUDGET) -> Gym:
    """The game with a hidden number in the task: N numbers, at most `budget` guesses."""

    def reset(task: Task) -> State:
        del task
        return _everything(num_numbers)

    def step(task: Task, state: State, guess: Int[Array, ""]) -> State:
        missed = jnp.where(task.hidden < guess, LOWER, HIGHER)
        return narrow(state, guess, jnp.where(task.hidden == guess, CORRECT, missed))

    return deterministic(
        _checked(num_numbers, budget),
        reset,
        step,
        partial(observe, num_numbers),
        partial(judge, budget),
    )


def belief(num_numbers: int = NUM_NUMBERS, budget: int = BUDGET) -> Gym:
    """The same game over intervals: chance answers, C = 3, with the odds of a uniform prior."""

    def reset(task: Interval) -> State:
        return State(task.low, task.high, jnp.bool_(False), jnp.int32(0))

    def odds(task: Interval, state: State, guess: Int[Array, ""]):
        del task
        below = jnp.clip(guess, state.low, state.high) - state.low
        above = state.high - jnp.clip(guess + 1, state.low, state.high)
        size = jnp.maximum(state.high - state.low, 1)  # 0 after an answer that had no odds
        return jnp.stack([size - below - above, below, above]) / size.astype(float)

    def step(task: Interval, state: State, guess: Int[Array, ""], answer: Int[Array, ""]) -> State:
        del task
        return narrow(state, guess, answer)

    return Gym(
        _checked(num_numbers, budget),
        reset,
        odds,
        step,
        partial(observe, num_numbers),
        partial(judge, budget),
    )


def median(num_numbers: int, task: Task | Interval, obs: Int[Array, ""]) -> Int[Array, ""]:
    """The reference policy: halve the candidates. It reads the observation alone."""
    del task
    low, high = jnp.asarray(bounds(num_numbers))[obs]
    return (low + high - 1) // 2


def inside(num_numbers: int) -> np.ndarray:
    """[S, A]: the guesses that are not dominated, those inside the interval (a structured mask)."""
    low, high = bounds(num_numbers).T[:, :, None]
    guess = np.arange(num_numbers)[None, :]
    return (low <= guess) & (guess < high)


def problem(num_numbers: int = NUM_NUMBERS, budget: int = BUDGET) -> Problem:
    """All hidden numbers, equally likely; the held-out tasks are the same ones."""
    game = gym(num_numbers, budget)
    hidden = Task(np.arange(num_numbers, dtype=np.int32))
    tasks = Tasks(game.spec.actions, hidden, np.full(num_numbers, 1 / num_numbers))
    return Problem(
        game,
        budget,
        tasks,
        tasks,
        taught=tasks,
        expert=partial(median, num_numbers),
        payoff=None,
        penalty=np.zeros(0),
    )


def _everything(num_numbers: int) -> State:
    return State(jnp.int32(0), jnp.int32(num_numbers), jnp.bool_(False), jnp.int32(0))


def _checked(num_numbers: int, budget: int) -> Spec:
    if budget < 1:
        raise ValueError(f"budget must be at least 1 guess, got {budget}")
    return spec(num_numbers)
