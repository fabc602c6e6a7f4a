"""Doctests of README, Markdown pages and docstrings, collected by Sybil.

Sybil parses the ``>>>`` of every fence itself, whatever language the fence names: a
wrong answer in a plain ``python`` fence fails, too (see tests/test_doctests.py).
"""

from doctest import ELLIPSIS, NORMALIZE_WHITESPACE

from sybil import Sybil
from sybil.parsers.myst import DocTestDirectiveParser, PythonCodeBlockParser
from sybil.parsers.rest import DocTestParser

OPTIONS = ELLIPSIS | NORMALIZE_WHITESPACE

markdown = Sybil(
    parsers=[
        PythonCodeBlockParser(doctest_optionflags=OPTIONS),
        DocTestDirectiveParser(optionflags=OPTIONS),
    ],
    patterns=["README.md", "docs/*.md", "docs/*/*.md", "doctests/*.md"],
    excludes=["docs/errors/*.md"],  # generated, and half of their code is to fail
)
docstrings = Sybil(
    parsers=[DocTestParser(optionflags=OPTIONS)],
    patterns=["src/pullback/*.py", "src/pullback/*/*.py"],
)

pytest_collect_file = (markdown + docstrings).pytest()
