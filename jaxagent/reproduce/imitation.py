"""Imitation (Chapter section 23.5): cloning, DAgger, and weights of behaviour that is not ours."""

from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from jaxagent import imitate, policies, replays
from jaxagent.diagnostics import log_ratio
from jaxagent.gyms import refund
from jaxagent.precision import exact
from jaxagent.reproduce.refund import GYM, HORIZON, POLICY, PROBLEM, without
from jaxagent.reproduce.rows import Claim, Figure, Finding
from jaxagent.rollout import evaluate, silence
from jaxagent.types import Data, Decision, Trajectory

VISIBLE = refund.PHASES[:-1]
MORE = 20  # passes of the expert over its two tasks: forty more demonstrations


class Imitated(NamedTuple):
    """The section as a whole, and the control that it lacks."""

    shown: Decision  # the expert's pairs
    labels: Decision  # of one round of DAgger on the two recover tasks
    params: dict[str, Float[Data, "S A"]]
    cloned: Float[Data, "S A"]  # probabilities
    held_out: dict[str, Trajectory]  # greedy, [K T]


@cache
@exact
@jax.jit
def imitated() -> Imitated:
    """Clone; label and refit; and, beside it, refit on forty more demonstrations."""
    expert, task = refund.expert, PROBLEM.train.task
    recover = jax.tree.map(lambda leaf: leaf[2:], task)
    shown = imitate.examples(imitate.demonstrations(GYM, expert, refund.TAUGHT.task, HORIZON))
    cloned = imitate.clone(POLICY, POLICY.init(), shown)
    labels = imitate.dagger(GYM, POLICY, cloned, expert, recover, HORIZON)
    refit = lambda *more: imitate.clone(POLICY, cloned, imitate.together(shown, *more))
    params = {"cloned": cloned, "labelled": refit(labels), "drilled": refit(*[shown] * MORE)}
    held_out = PROBLEM.held_out.task
    quiet = silence(GYM, held_out, HORIZON)
    played = {name: evaluate(GYM, POLICY, each, held_out, quiet) for name, each in params.items()}
    return Imitated(shown, labels, params, jax.vmap(policies.probabilities)(cloned), played)


def pairs(rows: Decision) -> list[list[str]]:
    """(observation, action) as words."""
    as_numbers = imitate.pairs(jax.tree.map(jnp.asarray, rows))
    return [[refund.PHASES[obs], refund.ACTIONS[action]] for obs, action in as_numbers]


def at(phase: str) -> Float[np.ndarray, "A"]:
    """The cloned policy at one observation."""
    return imitated().cloned[refund.PHASES.index(phase)]


def on(task: str) -> dict[str, Any]:
    """What the cloned policy does on a held-out task."""
    names, played = PROBLEM.held_out.names, imitated().held_out["cloned"]
    rows = replays.evaluations(names, refund.ACTIONS, played)
    return without(rows[names.index(task)], "task", "violation")


def solved(name: str) -> int:
    """Held-out tasks that a policy solves, of 4."""
    return int(imitated().held_out[name].verdict.success[:, -1].sum())


def two_labels() -> Finding:
    """Two labels fixed what forty more demonstrations could not: here with that control."""
    drilled = imitated().params["drilled"][refund.RECOVER]
    computed = {
        "before": solved("cloned"),
        "two labels": solved("labelled"),
        "forty demonstrations": solved("drilled"),
        "their logits at recover": drilled,
    }
    untouched = not drilled.any() and solved("drilled") == solved("cloned")
    reason = (
        f"held-out {solved('cloned')} of 4 before, {solved('labelled')} with the labels, "
        f"{solved('drilled')} with the control, whose row at recover is zeros: it stays uniform"
    )
    return Finding(computed, untouched and solved("labelled") == 4, reason)


@exact
@jax.jit
def weight(ratio):
    """The product of 20 steps' ratios (Chapter eq. 23.8), in log space."""
    behaviour = 1 / len(refund.ACTIONS) / ratio  # of a step that a fresh policy takes
    number, one = jnp.zeros(20, jnp.int32), jnp.ones(20)
    rows = Decision(number, number, jnp.log(behaviour) * one, one, one, one > 0)
    return jnp.exp(log_ratio(POLICY, POLICY.init(), rows).sum())


FIGURES: dict[str, Figure] = {
    "imitation.examples": lambda: pairs(imitated().shown),
    **{f"imitation.cloned.{phase}": partial(at, phase) for phase in VISIBLE},
    **{f"imitation.eval.{task}": partial(on, task) for task in PROBLEM.held_out.names},
    "dagger.labels": lambda: pairs(imitated().labels),
    "dagger.success": lambda: solved("labelled"),
    "offline.1.3": lambda: weight(1.3),
    "offline.0.8": lambda: weight(0.8),
}

CLAIMS: dict[str, Claim] = {"prose.two_labels": two_labels}
