"""The bandit (Chapter sections 23.1 and 23.2): gradients, baselines and one REINFORCE run."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from jaxagent import estimators, imitate, learn, losses, noise, policies, scorers
from jaxagent.gyms import bandit
from jaxagent.noise import draw
from jaxagent.precision import exact
from jaxagent.replays import uniforms
from jaxagent.reproduce.rows import Figure
from jaxagent.rollout import collect_in_order
from jaxagent.types import Data, Decision

PROBLEM = bandit.problem()
POLICY = policies.tabular(PROBLEM.gym.spec)
ARMS, PAYS = tuple(bandit.PAYS), np.array(list(bandit.PAYS.values()))
CITE, GUESS = ARMS.index("cite"), ARMS.index("guess")
FRESH = np.zeros(len(PAYS))  # logits
TRIED = np.array([0.3, -0.2, 0.1, 0.0])  # the logits at which the chapter compares gradients
STEP = 1e-5  # of its finite differences
LR, UPDATES = 0.3, 400
MEAN_PAY = float(PAYS.mean())  # the chapter's baseline, 0.425
DRAWS = 4_000  # one-sample gradients for each baseline
NUM_RUNS = 1_000  # of REINFORCE, beside the published one

Logits = Float[np.ndarray, "A"]
Gradients = Float[np.ndarray, "A A"]


# Section 23.1


@exact
@jax.jit
def probabilities(logits):
    """pi (Chapter section 23.1)."""
    return policies.probabilities(logits)


def pay(logits: Float[Array, "A"], pays: Float[Data, "A"]) -> Float[Array, ""]:
    """J = sum_a pi(a) r(a) (Chapter eq. 23.1)."""
    return jnp.sum(policies.probabilities(logits) * pays)


expected_pay = exact(jax.jit(pay))


@exact
@jax.jit
def after_a_step():
    """The probabilities after one score step on cite, of size 0.3 times its pay."""
    as_one = lambda number: jnp.full(1, number)
    cite = Decision(
        obs=as_one(bandit.PROMPT),
        action=as_one(CITE),
        log_prob=as_one(0.0),
        advantage=as_one(PAYS[CITE]),
        weight=as_one(1.0),
        eligible=as_one(True),
    )
    params = imitate.clone(POLICY, POLICY.init(), cite, lr=LR, passes=1)
    return policies.probabilities(params[bandit.PROMPT])


def by_differences(logits: Logits) -> Logits:
    """The gradient of the expected pay by central differences."""
    along = STEP * np.eye(len(logits))
    rise = [expected_pay(logits + h, PAYS) - expected_pay(logits - h, PAYS) for h in along]
    return np.array(rise) / (2 * STEP)


@exact
@jax.jit
def gradients(logits, advantage):
    """A(a) grad log pi(a) for each arm that may be drawn, [A A] (Chapter eq. 23.3)."""

    def one(arm, advantage):
        row = Decision(jnp.int32(0), arm, jnp.zeros(()), advantage, jnp.ones(()), jnp.bool_(True))
        return -jax.grad(losses.score_function)(logits, row)

    return jax.vmap(one)(jnp.arange(len(logits)), advantage)


@exact
@jax.jit
def drawn(logits, stream):
    """The arm that each uniform draws, [M]."""
    return jax.vmap(lambda uniform: draw(policies.probabilities(logits), uniform))(stream)


def estimated() -> Logits:
    """The score-function estimate from 20,000 samples, Mersenne Twister seed 0."""
    return gradients(TRIED, PAYS)[drawn(TRIED, uniforms(0, 20_000))].mean(axis=0)


@exact
@jax.jit
def _reinforce(streams):
    """Single-sample REINFORCE, one uniform an update: the policy after each, [runs N A]."""
    collect = collect_in_order(PROBLEM.gym, POLICY, PROBLEM.train.task, group_size=1, horizon=1)
    descent = optax.sgd(LR)
    step = learn.on_policy(
        collect,
        scorers.payoff(bandit.payoff()),
        estimators.reward_to_go(),
        learn.descend(learn.objective(POLICY, losses.score_function), descent, passes=1),
    )

    def pull(learner, uniform):
        learner, _ = step(learner, uniform[None])
        return learner, policies.probabilities(learner.params[bandit.PROMPT])

    run = lambda stream: jax.lax.scan(pull, learn.start(POLICY.init(), descent), stream)[1]
    return jax.vmap(run)(streams)


@cache
def learned() -> Float[np.ndarray, "runs N A"]:
    """The policy after each update: the published run (seed 1) first, then NUM_RUNS more."""

    def stream(run):
        where = jax.tree.map(lambda field: field[0], noise.rounds(0, run, 1))
        return noise.uniforms(where, 0, 0, UPDATES, noise.ACTION)

    others = exact(jax.vmap(stream))(np.arange(NUM_RUNS, dtype=np.uint32))
    return _reinforce(np.vstack([uniforms(1, UPDATES), others]))


def p_cite(index: int) -> float:
    """p(cite) in the published run; index 0 is after update 1."""
    return learned()[0, index, CITE]


# Section 23.2


@cache
def sampled(baseline: float) -> Float[np.ndarray, "M A"]:
    """4,000 one-sample gradients: the first of seed 2 without a baseline, the next with one."""
    first = {0.0: 0, MEAN_PAY: DRAWS}[baseline]
    stream = uniforms(2, 2 * DRAWS)[first : first + DRAWS]
    return gradients(FRESH, PAYS - baseline)[drawn(FRESH, stream)]


def spread(baseline: float) -> Logits:
    """The standard deviation of a one-sample gradient at the uniform policy, exactly."""
    return gradients(FRESH, PAYS - baseline).std(axis=0)


def by_arm(values: Logits) -> dict[str, float]:
    """Numbers with the arms' names."""
    return dict(zip(ARMS, values.tolist(), strict=True))


FIGURES: dict[str, Figure] = {
    "bandit.uniform": lambda: probabilities(FRESH),
    "bandit.step.before": lambda: probabilities(FRESH),
    "bandit.step.after": after_a_step,
    "bandit.fd": lambda: by_differences(TRIED),
    "bandit.score": estimated,
    "bandit.reinforce.start": lambda: p_cite(0),
    "bandit.reinforce.200": lambda: p_cite(200),
    "bandit.reinforce.end": lambda: p_cite(-1),
    "bandit.reinforce.return": lambda: learned()[0, -1] @ PAYS,
    "bandit.best": PAYS.max,
    "baseline.none.mean": lambda: sampled(0.0).mean(axis=0),
    "baseline.none.std": lambda: sampled(0.0).std(axis=0),
    "baseline.mean.mean": lambda: sampled(MEAN_PAY).mean(axis=0),
    "baseline.mean.std": lambda: sampled(MEAN_PAY).std(axis=0),
}
