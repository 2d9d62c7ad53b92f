"""The bandit of the chapter: every published figure, from the library's own loops."""

import random
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxagent import estimators, learn, losses, policies, scorers
from jaxagent.gyms import bandit
from jaxagent.noise import draw
from jaxagent.precision import exact
from jaxagent.rollout import collect_in_order
from jaxagent.types import Decision

PROBLEM = bandit.problem()
POLICY = policies.tabular(PROBLEM.gym.spec)
PAYS = tuple(bandit.PAYS.values())


@pytest.fixture(scope="module")
def data(golden):
    return golden("bandit")


def uniforms(seed, count):
    """What Python's generator hands to `choices`, one number a choice."""
    generator = random.Random(seed)
    return np.array([generator.random() for _ in range(count)])


@exact
@jax.jit
def expected_pay(logits):
    """J (Chapter eq. 23.1) and its gradient."""
    return jax.value_and_grad(lambda x: jnp.sum(policies.probabilities(x) * jnp.array(PAYS)))(
        logits
    )


@exact
@jax.jit
def one_sample_gradients(logits, noise, baseline):
    """(pay - baseline) grad log pi of one draw for each uniform [M], by the library's loss."""

    def one(uniform):
        arm = draw(policies.probabilities(logits), uniform)
        advantage = jnp.array(PAYS)[arm] - baseline
        row = Decision(jnp.int32(0), arm, jnp.zeros(()), advantage, jnp.ones(()), jnp.bool_(True))
        return -jax.grad(losses.score_function)(logits, row)

    return jax.vmap(one)(noise)


@exact
@partial(jax.jit, static_argnames="lr")
def reinforce(noise, lr):
    """Single-sample REINFORCE, one uniform a step: the logits [N A] after each update."""
    collect = collect_in_order(PROBLEM.gym, POLICY, PROBLEM.train.task, group_size=1, horizon=1)
    objective, descent = learn.objective(POLICY, losses.score_function), optax.sgd(lr)
    step = learn.on_policy(
        collect,
        scorers.payoff(bandit.payoff()),
        estimators.reward_to_go(),
        learn.descend(objective, descent, passes=1, batch_size=1),
    )

    def pull(learner, uniform):
        learner, _ = step(learner, uniform[None])
        return learner, learner.params[bandit.PROMPT]

    return jax.lax.scan(pull, learn.start(POLICY.init(), descent), noise)[1]


def test_the_arms_and_pays_are_those_of_the_chapter(data):
    assert list(bandit.PAYS) == data["arms"] == list(PROBLEM.gym.spec.actions)
    assert list(PAYS) == data["rewards"]
    prob = jax.jit(policies.probabilities)(POLICY.init()[bandit.PROMPT])
    np.testing.assert_array_equal(prob, data["uniform"])


def test_the_gradient_is_the_published_finite_difference(data):
    """The published one has step 1e-5, so it is good to about its square."""
    logits = np.array(data["logits"])
    expected = data["finite_difference_gradient_h_1e-5"]
    np.testing.assert_allclose(expected_pay(logits)[1], expected, atol=1e-10)
    steps = 1e-5 * np.eye(4)
    ours = [(expected_pay(logits + h)[0] - expected_pay(logits - h)[0]) / 2e-5 for h in steps]
    np.testing.assert_allclose(ours, expected, atol=1e-11)


def test_the_score_function_estimate_of_20_000_samples(data):
    samples = one_sample_gradients(np.array(data["logits"]), uniforms(0, 20_000), 0.0)
    np.testing.assert_allclose(
        samples.mean(axis=0),
        data["score_function_estimate_20000_samples_mt19937_seed_0"],
        atol=1e-12,
    )


def test_a_baseline_leaves_the_mean_and_changes_the_spread(data):
    """4,000 draws without, then 4,000 with the mean pay as baseline, all from one stream."""
    published = data["one_sample_gradient_4000_draws_mt19937_seed_2_shared_by_both_baselines"]
    halves = uniforms(2, 8_000).reshape(2, 4_000)
    for noise, expected in zip(halves, published, strict=True):
        samples = one_sample_gradients(np.zeros(4), noise, expected["baseline"])
        np.testing.assert_allclose(samples.mean(axis=0), expected["mean"], atol=1e-13)
        np.testing.assert_allclose(samples.std(axis=0), expected["std"], atol=1e-13)


def test_the_published_run_of_reinforce(data):
    published = data["reinforce_400_steps_lr_0.3_mt19937_seed_1"]
    logits = reinforce(uniforms(1, 400), lr=0.3)
    weight = np.exp(logits)
    prob = weight / weight.sum(axis=1, keepdims=True)
    cite = data["arms"].index("cite")
    np.testing.assert_allclose(prob[:, cite], published["p_cite_after_each_update"], atol=1e-9)
    np.testing.assert_allclose(logits[-1], published["final_logits"], atol=1e-9)
    np.testing.assert_allclose(prob[-1] @ PAYS, published["final_expected_return"], atol=1e-9)
