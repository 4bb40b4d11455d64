"""How many digits of a noisy number mean something: those down to the second digit of its standard error."""

import math

WITHOUT_ERROR = 6  # significant digits of a number whose error is unknown or none


def decimals(error: float) -> int | None:
    """Decimal places down to the second digit of a standard error (negative left of the point); None where there is none."""
    return 1 - math.floor(math.log10(error)) if math.isfinite(error) and error > 0 else None


def rounded(value: float, error: float) -> float:
    """A value with the digits that its standard error warrants: 12.3456 with 0.56 is 12.35, 30269.6 with 170 is 30270."""
    places = decimals(error)
    return (float(f"{value:.{WITHOUT_ERROR}g}") if places is None else round(float(value), places)) + 0.0  # never -0.0
