"""Scoped float64: exact and replayed numbers are made in it and leave as NumPy arrays."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from jaxagent.types import Data

P = ParamSpec("P")
R = TypeVar("R")


def exact(function: Callable[P, R]) -> Callable[P, R]:
    """`function` run in float64 whatever the process default; its arrays come back as NumPy's.

    Arguments that are already JAX arrays keep their dtype: hand over NumPy
    arrays or Python numbers.
    """

    @wraps(function)
    def scoped(*args: P.args, **kwargs: P.kwargs) -> R:
        with jax.enable_x64(True):
            return jax.device_get(function(*args, **kwargs))

    return scoped


def real(number: Shaped[Data, "*B"] | int | float) -> Float[Array, "*B"]:
    """The number in the float type of the scope that is open.

    Say so for every NumPy constant that a compiled function closes over: JAX
    may otherwise hand it on in the float type of another scope.
    """
    return jnp.asarray(number, float)
