"""The declared model of throughput, the bound behind it, and the command that fills it in."""

import heapq
import importlib.resources
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import plain_refund
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxagent import policies, throughput
from jaxagent.cli import main
from jaxagent.cli import throughput as command
from jaxagent.diagnostics import log_ratio
from jaxagent.gyms import refund
from jaxagent.precision import exact
from jaxagent.throughput import Latency
from jaxagent.types import Decision

seconds = st.floats(1e-3, 10)
latencies = st.builds(Latency, seconds, seconds, seconds)
counts = st.integers(1, 100_000)
law = settings(max_examples=200, deadline=None, derandomize=True)


# The published numbers


def test_the_model_is_the_published_one(golden):
    data = golden("throughput")
    transitions, updates = data["totals"]["transitions"], data["totals"]["updates"]
    assert Latency() == tuple(data["latency_s"].values())
    phases = throughput.phases(Latency(), transitions, updates)
    assert phases._asdict() == pytest.approx(data["phase_seconds"], rel=1e-14)
    numbers = np.array(list(map(int, data["transitions_per_second"])))
    rates = list(data["transitions_per_second"].values())
    np.testing.assert_allclose(throughput.rate(phases, transitions, numbers), rates, rtol=1e-14)
    assert throughput.ceiling(phases, transitions) == pytest.approx(data["ceiling"], rel=1e-14)


def test_the_printed_numbers_come_out():
    file = importlib.resources.files("jaxagent.reproduce") / "published.json"
    printed = {entry["id"].removeprefix("throughput."): entry
               for entry in json.loads(file.read_text())
               if entry["id"].startswith("throughput.")}  # fmt: skip
    phases = throughput.phases(Latency(), printed["transitions"]["printed"],
                               printed["updates"]["printed"])  # fmt: skip
    assert [round(each) for each in phases] == printed["phases"]["printed"]
    rates = {name: entry for name, entry in printed.items() if name.startswith("rate.")}
    assert len(rates) == 4
    for name, entry in rates.items():
        rate = throughput.rate(phases, 3_444, int(name.removeprefix("rate.")))
        assert round(rate, entry["decimals"]) == entry["printed"], name
    assert round(throughput.ceiling(phases, 3_444)) == printed["ceiling"]["printed"]


def test_the_trainer_is_one_percent_of_the_wall_clock():
    phases = throughput.phases(Latency(), 3_444, 6_556)
    assert round(100 * phases.update / sum(phases)) == 1


def test_the_weights_of_trajectories_are_the_published_products(golden):
    """The product of 20 equal ratios, in log space."""
    policy = policies.tabular(refund.gym().spec)

    @exact
    @jax.jit
    def weight(ratio):
        zeros, ones = jnp.zeros(20, jnp.int32), jnp.ones(20)
        recorded = jnp.full(20, -jnp.log(4.0)) - jnp.log(ratio)
        rows = Decision(zeros, zeros, recorded, ones, ones, ones > 0)
        return jnp.exp(jnp.sum(log_ratio(policy, policy.init(), rows)))

    for name, product in golden("throughput")["importance_products"].items():
        ratio, power = name.split("**")
        assert power == "20"
        assert weight(float(ratio)) == pytest.approx(product, rel=1e-12)


# Laws


@given(latencies, counts, counts)
@law
def test_more_environments_help_less_and_less_and_never_past_the_ceiling(
    latency, transitions, updates
):
    phases = throughput.phases(latency, transitions, updates)
    numbers = np.arange(1, 40)
    rate = throughput.rate(phases, transitions, numbers)
    gain = throughput.marginal_gain(phases, transitions, numbers)
    assert (np.diff(rate) > 0).all()
    assert (rate < throughput.ceiling(phases, transitions)).all()
    np.testing.assert_allclose(gain[:-1], np.diff(rate), rtol=1e-12)
    assert (gain > 0).all() and (np.diff(gain) < 0).all()


@given(latencies, counts, counts)
@law
def test_the_ceiling_is_the_rate_of_environments_without_end(latency, transitions, updates):
    phases = throughput.phases(latency, transitions, updates)
    rate = throughput.rate(phases, transitions, 1e15)
    assert rate == pytest.approx(throughput.ceiling(phases, transitions), rel=1e-9)


@given(latencies, counts, counts, st.integers(1, 1000))
@law
def test_the_rate_is_that_of_one_batch_that_meets_its_bound(
    latency, transitions, updates, environments
):
    phases = throughput.phases(latency, transitions, updates)
    rest = phases.sampling + phases.update
    spent = throughput.cycle_time(transitions, latency.environment, rest, environments)
    rate = throughput.rate(phases, transitions, environments)
    assert rate == pytest.approx(transitions / spent, rel=1e-12)


@given(latencies, counts, counts, st.floats(0.1, 10))
@law
def test_a_machine_that_is_slower_throughout_is_slower_by_as_much(
    latency, transitions, updates, factor
):
    slower = Latency(*(factor * each for each in latency))
    rates = [
        throughput.rate(throughput.phases(each, transitions, updates), transitions, 8)
        for each in (latency, slower)
    ]
    assert rates[0] == pytest.approx(factor * rates[1], rel=1e-12)


@given(latencies, counts, counts, st.integers(1, 1000))
@law
def test_a_step_that_was_lost_costs_its_seconds_and_is_not_counted(
    latency, transitions, updates, lost
):
    whole = throughput.phases(latency, transitions, updates)
    some_lost = throughput.phases(latency, transitions + lost, updates)
    now, before = (throughput.rate(each, transitions, 8) for each in (some_lost, whole))
    assert now < before
    longer = lost * (latency.environment / 8 + latency.sample)
    assert transitions / now == pytest.approx(transitions / before + longer, rel=1e-12)


def simulated(rollouts: list[float], update: float, environments: int) -> float:
    """Seconds until every rollout is done, each begun by the first environment free, and updated.

    What `cycle_time` bounds, event by event.
    """
    free_at = [0.0] * environments
    for rollout in rollouts:
        heapq.heappush(free_at, heapq.heappop(free_at) + rollout)
    return max(free_at) + update


@given(st.integers(1, 12), st.integers(1, 12), seconds, seconds)
@law
def test_equal_rollouts_that_divide_evenly_take_the_bound(each, environments, rollout, update):
    spent = simulated([rollout] * (each * environments), update, environments)
    bound = throughput.cycle_time(each * environments, rollout, update, environments)
    assert spent == pytest.approx(bound, rel=1e-12)


@given(st.integers(1, 60), st.integers(1, 12), seconds, seconds)
@law
def test_equal_rollouts_exceed_the_bound_by_less_than_one_of_them(
    batch, environments, rollout, update
):
    spent = simulated([rollout] * batch, update, environments)
    bound = throughput.cycle_time(batch, rollout, update, environments)
    assert bound * (1 - 1e-12) <= spent < bound + rollout


@given(st.lists(seconds, min_size=1, max_size=40), st.integers(1, 12), seconds)
@law
def test_stragglers_come_on_top_of_the_bound(rollouts, environments, update):
    spent = simulated(rollouts, update, environments)
    mean = sum(rollouts) / len(rollouts)
    bound = throughput.cycle_time(len(rollouts), mean, update, environments)
    assert spent >= bound * (1 - 1e-12)


PHASES = throughput.Phases(3.0, 2.0, 1.0)
CALLS = {
    "phases": (throughput.phases, dict(latency=Latency(), steps=3, updates=2)),
    "rate": (throughput.rate, dict(phases=PHASES, transitions=3, environments=2)),
    "ceiling": (throughput.ceiling, dict(phases=PHASES, transitions=3)),
    "marginal_gain": (throughput.marginal_gain, dict(phases=PHASES, transitions=3,
                                                     environments=2)),
    "cycle_time": (throughput.cycle_time, dict(batch=3, rollout=1.0, update=1.0, environments=2)),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("bad", [0, -1.0, math.nan, math.inf])
def test_numbers_that_are_not_above_zero_are_refused_by_name(name, bad):
    function, arguments = CALLS[name]
    for argument, value in arguments.items():
        fields = getattr(value, "_fields", ())
        spoiled = {field: value._replace(**{field: bad}) for field in fields} or {argument: bad}
        for field, given_value in spoiled.items():
            with pytest.raises(
                ValueError, match=f"^{field} must be a finite .* above 0, got {bad}"
            ):
                function(**{**arguments, argument: given_value})


def test_one_bad_number_of_environments_among_good_ones_is_refused():
    with pytest.raises(ValueError, match="environments"):
        throughput.rate(PHASES, 3, np.array([1, 0, 2]))


# The command


def call(capsys, line):
    with pytest.raises(SystemExit) as stop:
        main(line.split())
    said = capsys.readouterr()
    return stop.value.code or 0, said.out, said.err


@pytest.fixture
def few_lanes(monkeypatch):
    monkeypatch.setattr(command, "LANES", 64)
    monkeypatch.setattr(command, "REPEATS", 3)


def test_the_command_tells_the_published_table(capsys, tmp_path, golden, few_lanes):
    file = tmp_path / "deep" / "throughput.json"
    code, said, _ = call(capsys, f"throughput --json {file}")
    assert code == 0
    assert "1,033  89.9%" in said and "19.03       64.3%" in said and "measured here" in said
    declared, measured = json.loads(file.read_text()).values()
    data = golden("throughput")
    for name in data.keys() - {"importance_products"}:
        assert declared[name] == pytest.approx(data[name], rel=1e-14), name

    latency = Latency(*measured["latency_s"].values())
    assert all(0 < each < 1e-2 for each in latency)
    phases = throughput.phases(latency, 3_444, 6_556)
    assert measured["phase_seconds"] == pytest.approx(phases._asdict())
    rate = throughput.rate(phases, 3_444, 128)
    assert measured["transitions_per_second"]["128"] == pytest.approx(rate)


def test_options_replace_the_declared_numbers(capsys, tmp_path):
    file = tmp_path / "throughput.json"
    options = "--environment-s 2 --sample-s 0.5 --update-s 0.25 --transitions 10 --updates 20"
    line = f"throughput {options} --environments 5 1 --measure false --json {file}"
    code, said, _ = call(capsys, line)
    declared, measured = json.loads(file.read_text()).values()
    assert code == 0 and measured is None and "measured here" not in said
    assert declared["phase_seconds"] == {"environment": 20, "sampling": 5, "update": 5}
    assert declared["cycle_seconds"] == {"5": 14, "1": 30}
    assert declared["transitions_per_second"] == {"5": 10 / 14, "1": 10 / 30}
    assert declared["share_of_ceiling"]["1"] == pytest.approx(1 / 3)
    assert declared["marginal_gain"]["1"] == pytest.approx(10 / 20 - 10 / 30)


BAD = {
    "free environment": ("--environment-s 0", "--environment-s must"),
    "negative sample": ("--sample-s -1", "--sample-s must"),
    "update without end": ("--update-s inf", "--update-s must"),
    "no transitions": ("--transitions 0", "--transitions must"),
    "no updates": ("--updates 0", "--updates must"),
    "no environments": ("--environments", "--environments must"),
    "environments below 1": ("--environments 4 0", "--environments must"),
    "half an environment": ("--environments 0.5", "0.5"),
    "measured perhaps": ("--measure maybe", "maybe"),
}


@pytest.mark.parametrize(("options", "told"), BAD.values(), ids=BAD)
def test_bad_input_is_refused_before_anything_is_written(capsys, tmp_path, options, told):
    code, out, err = call(capsys, f"throughput --json {tmp_path / 'a.json'} {options}")
    last = err.splitlines()[-1]
    assert code == 2 and out == "" and list(tmp_path.iterdir()) == []
    assert last.startswith("jaxagent: error: ") and told in last


def test_a_file_that_cannot_be_written_is_refused_before_any_work(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    code, out, err = call(capsys, f"throughput --json {tmp_path / 'file' / 'a.json'}")
    assert code == 2 and out == "" and "is not a folder" in err.splitlines()[-1]


# What is measured


def results(part):
    program, arguments = part()
    return arguments, jax.jit(jax.vmap(program))(*arguments)


def test_the_measured_environment_moves_as_the_desk_does(few_lanes):
    (task, action), state = results(command.reset_and_step)
    phases, actions = plain_refund.PHASES, plain_refund.ACTIONS
    for amount, start, taken, phase in zip(*map(np.asarray, (*task, action, state.phase)),
                                           strict=True):  # fmt: skip
        desk = plain_refund.act(plain_refund.Desk(amount, phases[start]), actions[taken])
        assert phases[phase] == desk.phase


def test_the_measured_sample_is_drawn_from_the_uniform_policy(few_lanes):
    (_, uniform, _), (action, log_prob) = results(command.sample)
    np.testing.assert_array_equal(action, np.floor(4 * np.asarray(uniform)))
    np.testing.assert_allclose(log_prob, -np.log(4), rtol=1e-6)


def test_the_measured_update_is_one_score_step_of_each_learner(few_lanes):
    (params, row), moved = results(command.update)
    expected = np.zeros(params.shape)
    lane = np.arange(len(params))
    expected[lane, row.obs[:, 0]] = 0.04 * (np.eye(4)[row.action[:, 0]] - 0.25)
    np.testing.assert_allclose(moved, expected, atol=1e-7)
