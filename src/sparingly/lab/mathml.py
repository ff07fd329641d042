"""Typeset formulas: LaTeX becomes MathML, which browsers draw by themselves, without a script or the network."""

from __future__ import annotations

import functools
import re

from latex2mathml.converter import convert


@functools.cache
def mathml(formula: str, block: bool = False) -> str:
    r"""Turn a formula in LaTeX into a <math> element; `block` puts it on a line of its own.

    >>> mathml(r"\sqrt{T}")
    '<math display="inline"><mrow><msqrt><mrow><mi>T</mi></mrow></msqrt></mrow></math>'
    """
    made = str(convert(formula, display="block" if block else "inline"))
    return re.sub(r' xmlns="[^"]*"', "", made, count=1)
