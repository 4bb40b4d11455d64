"""First guesses on the curve of Gaussian differential privacy, in float64.

The exact searches of `gdp.py` begin from these guesses. A poor guess makes a search longer and
never changes its result.
"""

import math
from collections.abc import Callable

from fastlloyd.base.precision import secant

_LOG_ROOT = math.log(2 * math.pi) / 2
_NEAR = 2.0**-20  # a difference of logarithms that is as good as none
# of a difference of numbers about 1: below it fewer than 32 of its bits mean anything
_LEAST = 2.0**-20


def near(mu_at: Callable[[float], float], delta: float) -> float:
    """Let a = mu/2 - epsilon/mu. Return an approximation of the value of `a` for which a mu-GDP
    release has exactly this delta, or NaN if float64 has too few digits.

    mu_at : function that returns mu for a given a.
    """
    target = math.log(delta) - math.log1p(-delta)

    def excess(a: float) -> float:
        return log_odds(a, mu_at(a)) - target

    a = secant(excess, *starts(delta))
    return a if abs(excess(a)) < _NEAR else math.nan


def starts(delta: float) -> tuple[float, float]:
    """Return two values of a = mu/2 - epsilon/mu, from which a search for `delta` begins.

    At a, delta is about Phi(a), and either tail of Phi is at most e^(-a^2/2).
    """
    tail = math.sqrt(-2 * math.log(min(delta, 1 - delta)))
    start = -tail if delta < 0.5 else tail
    return start - 0.1, start


def log_odds(a: float, mu: float) -> float:
    """Return log(delta / (1 - delta)) for the delta at a and mu, or NaN if too few digits remain.

    In either tail, the result is nearly a parabola of a. With phi(a) = e^epsilon phi(a - mu), delta
    is phi(a) (M(-a) - M(mu - a)), and 1 - delta is phi(a) (M(a) + M(mu - a)), where M(x) = Phi(-x)
    / phi(x). These expressions do not overflow if the exponential does.
    """
    own, other, log_density = _mills(abs(a)), _mills(mu - a), -a * a / 2 - _LOG_ROOT
    if a > 0:
        minus_log = -log_density - math.log(own + other)  # of 1 - delta
        return minus_log + math.log(-math.expm1(-minus_log)) if minus_log > _LEAST else math.nan
    if not own - other > _LEAST * own:
        return math.nan
    log_delta = log_density + math.log(own - other)
    return log_delta - math.log1p(-math.exp(log_delta))


def _mills(x: float) -> float:
    """Return Phi(-x) / phi(x) for x >= 0.

    For large x, the ratio is computed by the continued fraction 1/(x + 1/(x + 2/(x + ...))).
    """
    if x < 4:
        return math.sqrt(math.pi / 2) * math.exp(x * x / 2) * math.erfc(x / math.sqrt(2))
    rest = x
    for k in range(24, 0, -1):
        rest = x + k / rest
    return 1 / rest
