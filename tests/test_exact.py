"""Exact expectations: dynamic programming, enumeration, finite differences and sampling agree."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_tables import small_table, tabled

from experiments import number_search as number_games
from jaxagent import choices, exact, noise, policies, precision, rollout, runs, scorers, tables
from jaxagent.gyms import bandit, number_search, refund
from jaxagent.types import Tasks

PROBLEM = refund.problem()
POLICY = policies.tabular(PROBLEM.gym.spec)
HORIZON = PROBLEM.horizon
SCORERS = choices.scorers_of(PROBLEM)
STARTS = ("uniform", "cloned")


@cache
def table():
    return tables.tabulate(PROBLEM.gym, PROBLEM.train, HORIZON)


@cache
def start(name):
    made = {"uniform": POLICY.init, "cloned": lambda: runs.cloned(PROBLEM, POLICY)}
    return precision.exact(made[name])()


def one_task(number):
    return table()._replace(start=table().start[number : number + 1], weight=np.ones(1))


@cache
def episodes(number):
    return exact.episodes(table(), number, HORIZON)


# Four ways to the gradient


@partial(jax.jit, static_argnames="scorer")
def by_programming(task, params, scorer):
    total = lambda params: exact.objective(task, POLICY, params, SCORERS[scorer], HORIZON)
    return jax.value_and_grad(total)(params)


@partial(jax.jit, static_argnames="scorer")
def by_enumeration(every, params, scorer):
    total = jax.vmap(partial(scorers.score, SCORERS[scorer]))(every.trajectory).total
    return jax.value_and_grad(lambda params: exact.expectation(POLICY, params, every, total))(
        params
    )


@partial(jax.jit, static_argnames="scorer")
def by_occupancy(task, params, scorer):
    """The policy-gradient theorem: sum over t, s, a of d_t(s) pi(a|s) Q_t(s, a) grad log pi."""
    pi = exact.chosen(POLICY, params, task)
    q = exact.values(task, pi, exact.rewards(task, SCORERS[scorer]), HORIZON).q
    visits = exact.occupancy(task, pi, exact.starts(task)[0], HORIZON)[:-1]
    weight = jnp.einsum("tn,na,tna->na", visits, pi, q)
    return jnp.zeros_like(params).at[task.obs].add(weight - pi * weight.sum(1, keepdims=True))


def slopes(function, at, h=1e-5):
    """Central differences."""
    steps = h * np.eye(at.size).reshape(-1, *at.shape)
    return np.array([(function(at + s) - function(at - s)) / (2 * h) for s in steps]).reshape(
        at.shape
    )


@pytest.mark.parametrize("scorer", ["outcome", "guarded"])
@pytest.mark.parametrize("policy", STARTS)
@pytest.mark.parametrize("number", range(4), ids=PROBLEM.train.names)
def test_the_gradient_is_the_same_four_ways(number, policy, scorer):
    params, task = start(policy), one_task(number)
    with jax.enable_x64(True):
        value, programmed = by_programming(task, params, scorer)
        same_value, enumerated = by_enumeration(episodes(number), params, scorer)
        occupied = by_occupancy(task, params, scorer)
        differenced = slopes(lambda at: float(by_programming(task, at, scorer)[0]), params)
    assert programmed.dtype == np.float64
    np.testing.assert_allclose(value, same_value, atol=1e-12)
    np.testing.assert_allclose(enumerated, programmed, atol=1e-12)
    np.testing.assert_allclose(occupied, programmed, atol=1e-12)
    np.testing.assert_allclose(differenced, programmed, atol=1e-9)


@cache
def evaluation(policy, scorer="outcome"):
    return exact.evaluate(table(), POLICY, start(policy), SCORERS[scorer], HORIZON)


def test_values_calculated_independently_come_out():
    """Six decimals of a calculation made outside this library."""
    assert round(evaluation("cloned").success[3], 6) == 0.403774
    assert round(evaluation("uniform", "guarded").reward[1], 6) == -0.402307


@pytest.mark.parametrize("policy", STARTS)
def test_every_probability_agrees_with_enumeration(policy):
    found = evaluation(policy, "guarded")
    for number in range(4):
        every = episodes(number)
        with jax.enable_x64(True):
            mean = partial(exact.expectation, POLICY, start(policy), every)
            verdict = every.trajectory.verdict
            score = jax.vmap(partial(scorers.score, SCORERS["guarded"]))(every.trajectory)
            over = verdict.done[:, -1]
            expected = {
                "reward": mean(score.total),
                "steps": mean(every.trajectory.live.sum(1)),
                "success": mean(verdict.success[:, -1]),
                "violation": mean(verdict.violations[:, -1]),
                "truncated": mean(~over),
                "eligible": mean(score.eligible),
            }
        for name, value in expected.items():
            np.testing.assert_allclose(getattr(found, name)[number], value, atol=1e-12)


def test_sampled_rates_are_the_exact_ones():
    """100,000 rollouts of each task under the cloned policy: |z| < 4 for 16 rates and means."""
    num_rollouts = 100_000
    found = evaluation("cloned")
    params = jnp.asarray(start("cloned"), jnp.float32)
    size = 2**16 - 1
    collect = rollout.collector(
        PROBLEM.gym, POLICY, PROBLEM.train.task, group_size=size, horizon=HORIZON
    )

    @jax.jit
    def sampled(stream):
        batch = collect(stream, params)
        last = jax.tree.map(lambda leaf: leaf[:, :, -1], batch.verdict)
        return batch.live.sum(2), last.success, last.violations

    parts = [
        sampled(jax.tree.map(lambda leaf, n=n: leaf[n], noise.rounds(1, 0, 2))) for n in (0, 1)
    ]
    steps, success, violations = (
        np.concatenate(part, axis=1)[:, :num_rollouts] for part in zip(*parts, strict=True)
    )
    expected = {
        "success": (success, found.success),
        "approval bypassed": (violations[:, :, 0], found.violation[:, 0]),
        "duplicate": (violations[:, :, 1], found.violation[:, 1]),
        "steps": (steps, found.steps),
    }
    for name, (sample, mean) in expected.items():
        error = sample.std(axis=1) / np.sqrt(num_rollouts)
        gap = np.abs(sample.mean(axis=1) - mean)
        assert (gap <= 4 * error).all(), (name, gap, error)
        assert (error[mean > 0] > 0).all()


# Values and prices


def test_advantages_average_to_zero_and_probability_is_conserved():
    for policy in STARTS:
        found = evaluation(policy, "guarded")
        with jax.enable_x64(True):
            pi = np.asarray(exact.chosen(POLICY, start(policy), table()))
        np.testing.assert_allclose((pi * found.advantage).sum(2) * live(), 0, atol=1e-12)
        np.testing.assert_allclose(found.occupancy.sum(2), 1, atol=1e-12)


def live():
    """[1 N]: where a decision is still made."""
    return ~(table().verdict.done | ~table().verdict.valid)[None]


def test_the_objective_weighs_tasks_and_is_linear_in_the_prices():
    weight = np.array([0.1, 0.2, 0.3, 0.4])
    weighed = table()._replace(weight=weight)
    found = evaluation("cloned", "guarded")
    prices = SCORERS["guarded"].prices

    @precision.exact
    def total(step, fine):
        scorer = SCORERS["guarded"]._replace(
            prices=prices._replace(step=step, violation=jnp.stack([fine, 1.0 + 0 * fine]))
        )
        return exact.objective(weighed, POLICY, jnp.asarray(start("cloned")), scorer, HORIZON)

    with jax.enable_x64(True):
        by_step, by_fine = jax.device_get(jax.grad(total.__wrapped__, (0, 1))(0.05, 2.0))
    assert total(0.05, 2.0) == pytest.approx(weight @ found.reward, abs=1e-12)
    assert by_step == pytest.approx(-weight @ found.steps, abs=1e-12)
    assert by_fine == pytest.approx(-weight @ found.violation[:, 0], abs=1e-12)


def test_the_environments_own_payoff_is_expected_too():
    """The bandit at logits (0.3, -0.2, 0.1, 0): sum_a pi(a) r(a) (Chapter eq. 23.1)."""
    problem = bandit.problem()
    policy = policies.tabular(problem.gym.spec)
    arms = tables.tabulate(problem.gym, problem.train, 1, problem.payoff)
    logits = np.array([[0.3, -0.2, 0.1, 0.0], [0, 0, 0, 0]])
    scorer = scorers.payoff(tables.payoff_of(arms))
    found = exact.evaluate(arms, policy, logits, scorer, 1)
    weight = np.exp(logits[0])
    expected = weight @ list(bandit.PAYS.values()) / weight.sum()
    np.testing.assert_allclose(found.reward, [expected], atol=1e-12)
    np.testing.assert_allclose(exact.optimum(arms, scorer, 1).reward, [0.9], atol=1e-12)


# Every table


some = settings(max_examples=4, deadline=None, derandomize=True)


@some
@given(st.integers(0, 10**6))
def test_programming_and_enumeration_agree_on_random_tables_with_chance(seed):
    small = tabled(small_table(seed), 3)
    policy = policies.tabular(small.spec)
    shape = len(small.spec.observations), len(small.spec.actions)
    params = np.random.default_rng(seed).standard_normal(shape)
    scorer = scorers.guarded(scorers.outcome(0.3), np.array([0.7]))
    scorer = scorer._replace(payoff=tables.payoff_of(small))
    found = exact.evaluate(small, policy, params, scorer, 3)
    best = exact.optimum(small, scorer, 3)
    for number in range(len(small.start)):
        every = exact.episodes(small, number, 3)
        with jax.enable_x64(True):
            score = jax.vmap(partial(scorers.score, scorer))(every.trajectory)
            mean = exact.expectation(policy, params, every, score.total)
            mass = exact.expectation(policy, params, every, np.ones(len(every.log_odds)))
            eligible = exact.expectation(policy, params, every, score.eligible)
        np.testing.assert_allclose(mass, 1, atol=1e-12)
        np.testing.assert_allclose(mean, found.reward[number], atol=1e-12)
        np.testing.assert_allclose(eligible, found.eligible[number], atol=1e-12)
    assert (best.reward >= found.reward - 1e-12).all()


def test_too_many_episodes_are_refused_with_their_number(monkeypatch):
    monkeypatch.setattr(exact, "MAX_EPISODES", 1000)
    with pytest.raises(ValueError, match="at most 1,000 episodes, got"):
        exact.episodes(table(), 0, HORIZON)


@pytest.mark.parametrize(
    ("task", "horizon", "what"), [(4, 7, "task"), (-1, 7, "task"), (0, 0, "horizon")]
)
def test_a_task_or_a_horizon_that_cannot_be_is_refused(task, horizon, what):
    with pytest.raises(ValueError, match=f"{what} must be in"):
        exact.episodes(table(), task, horizon)


# Number search


def belief(num_numbers, budget):
    everything = number_search.Interval(np.zeros(1, np.int32), np.full(1, num_numbers, np.int32))
    tasks = Tasks(("all",), everything, np.ones(1))
    return tables.tabulate(number_search.belief(num_numbers, budget), tasks, budget)


@pytest.mark.parametrize("num_numbers", [1, 7, 16, 33])
def test_the_best_search_reaches_two_to_the_budget_less_one(num_numbers):
    """min(N, 2^budget - 1) / N over all policies, for budgets 1..6 in one backward pass."""
    found, expected = (of(num_numbers, 6) for of in (number_games.run, number_games.formula))
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_the_reference_policy_is_an_optimum_and_four_guesses_fail_once_in_sixteen():
    everything = number_search.Interval(np.int32(0), np.int32(16))
    median = jax.vmap(partial(number_search.median, 16, everything))(jnp.arange(137))
    certain = np.where(np.arange(16)[None] == np.asarray(median)[:, None], 0.0, -np.inf)
    policy = policies.tabular(number_search.spec(16))
    for budget, success in ((4, 15 / 16), (5, 1.0)):
        found = exact.evaluate(belief(16, budget), policy, certain, scorers.outcome(0.0), budget)
        assert found.success[0] == pytest.approx(success, abs=1e-12)
