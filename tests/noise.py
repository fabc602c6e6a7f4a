"""Numbers in an output that are nothing but rounding, and differ from run to run."""

import re

NUMBER = re.compile(r"(?<![\w.])(\d+(?:\.\d*)?)(e[-+]?\d+)?(?![\w.]*\w)")
SMALLEST = 1e-8  # what pages compute is of size one, to seven or sixteen digits


def rounding_noise(output: str) -> list[str]:
    """Return the numbers in an output that are what rounding has left of a zero.

    These are below ``SMALLEST`` and have two or more digits that count, such as 1.3e-10.
    A number of one digit, such as 1e-12, is a bound or a step that somebody chose.
    """
    return [
        number[0]
        for number in NUMBER.finditer(output)
        if 0 < float(number[0]) < SMALLEST
        and len(number[1].replace(".", "").strip("0")) > 1
    ]
