"""Every name of the command line means something, and nothing else is offered."""

from typing import get_args

import pytest

from jaxagent import choices
from jaxagent.gyms import bandit, refund


def test_names_and_parts_are_the_same_sets():
    assert set(get_args(choices.GymName)) == set(choices.GYMS)
    assert set(get_args(choices.EstimatorName)) == set(choices.ESTIMATORS)
    assert set(get_args(choices.OptimizerName)) == set(choices.OPTIMIZERS)
    offered = {name for make in choices.GYMS.values() for name in choices.scorers_of(make())}
    assert offered == set(get_args(choices.ScorerName))


def test_defaults_are_the_documented_ones():
    for gym, scorer in {"refund": "guarded", "bandit": "payoff", "search": "payoff"}.items():
        assert choices.scorer_name(choices.GYMS[gym](), gym, None) == scorer
    starts = {"refund": "cloned", "bandit": "uniform", "search": "cloned"}
    for gym, start in starts.items():
        assert choices.start_name(choices.GYMS[gym](), gym, None) == start


def test_what_a_gym_lacks_is_refused_with_what_it_has():
    with pytest.raises(ValueError, match="payoff or outcome, got guarded"):
        choices.scorer_name(bandit.problem(), "bandit", "guarded")
    with pytest.raises(ValueError, match="must be uniform, got cloned"):
        choices.start_name(bandit.problem(), "bandit", "cloned")
    with pytest.raises(ValueError, match="got payoff"):
        choices.scorer_name(refund.problem(), "refund", "payoff")


def test_penalised_is_guarded_without_the_veto():
    has = choices.scorers_of(refund.problem())
    outcome, penalised, guarded = (has[name] for name in ("outcome", "penalised", "guarded"))
    assert penalised.prices is not None and guarded.prices.violation is penalised.prices.violation
    assert penalised.permit is outcome.permit and guarded.permit is not penalised.permit
