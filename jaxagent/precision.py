"""Scoped float64: exact and replayed numbers are made in it and leave as NumPy arrays."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import jax

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
