"""What the curves of the figures show, as data."""

from typing import NamedTuple

from jaxtyping import Float, Int

from jaxagent.types import Data


class Pulls(NamedTuple):
    """A run on the bandit, after each of its updates [N]."""

    best_arm: str
    probability: Float[Data, "N"]  # of the best arm
    expected: Float[Data, "N"]  # pay
    best_pay: float


class Surrogate(NamedTuple):
    """The clipped surrogate by advantage, at the same ratios [N]."""

    ratio: Float[Data, "N"]
    value: dict[float, Float[Data, "N"]]
    clip: float


class Training(NamedTuple):
    """One scorer: rates of the sampled rollouts by panel, over seeds and of the published run."""

    rate: dict[str, Float[Data, "seeds rounds"]]
    published: dict[str, Float[Data, "rounds"]]


class Rates(NamedTuple):
    """Completed valid transitions per second, by the number of environments [N]."""

    environments: Int[Data, "N"]
    rate: Float[Data, "N"]
    ceiling: float
