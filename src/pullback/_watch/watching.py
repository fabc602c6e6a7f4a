"""Name the line: what edited, what became NaN, what got no gradient, what says nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from types import TracebackType

from torch.autograd.graph import Node

from pullback._graph import LINES
from pullback._torch import number_of, out_of_sight
from pullback._watch import custom, edits, gradients, nonfinite, refused, rules
from pullback._watch import traps_of_calls as traps_of_calls
from pullback._watch import traps_of_operations as traps_of_operations
from pullback._watch import traps_of_parameters as traps_of_parameters
from pullback._watch import traps_of_rules as traps_of_rules
from pullback._watch import traps_of_shapes as traps_of_shapes
from pullback._watch import traps_of_steps as traps_of_steps
from pullback._watch import traps_of_turns as traps_of_turns
from pullback._watch.findings import Finding, Findings, Site
from pullback._watch.log import Lines, Log
from pullback._watch.recorder import Recorder

Looks = dict[str, Callable[[Log, BaseException], Iterable[Finding]]]
#: What looks at an error of backward that leaves the block, by the name of its rule.
REFUSED: Looks = {"in-place": edits.edited, refused.USED_UP: refused.again}
#: The same for what other rules may explain, which look before.
LAST: Looks = {refused.NO_GRAPH: refused.without_graph}
#: The rules by name: those for what people ask, and one for each silent trap.
OTHERS = {refused.NO_GRAPH, gradients.RULE, nonfinite.RULE, custom.RULE}
RULES = (*sorted({*REFUSED, *OTHERS, *rules.names()}),)


class watch:  # noqa: N801 - it is called like a function
    """Watch a block: say which line edited, made the first NaN, or cut a gradient off.

    Every operation is seen, forward and backward, and small rules look at what happened:

    - *Which line edited my tensor in place?* When ``modified by an inplace operation``
      leaves the block: the line that wrote and the line that had saved, or the
      optimizer's step and the parameter that it changed.
    - *Why has my loss no graph, and why is it used up?* When either error leaves the
      block: the line that cut the graph off, or that leads back into an old one. Of such
      errors that the program catches the same is printed, and is no finding.
    - *Where did the first NaN or infinity come from?* The operation, the line, and the
      ranges of its inputs. An infinity that becomes NaN is reported where it began.
    - *Why did this parameter get no gradient?* By its name in the module: the line that
      cut it off, or the lines where its numbers left for Python or NumPy, of which it does
      not know whether they come back.
    - The traps that raise nothing, each a rule with the name of its page.

    No result is changed, and when the block ends, also by an exception, nothing stays. It
    looks at every number once, which takes some times the plain program's time, and on a
    GPU waits for it. It does not see other processes, threads that the program starts
    itself, what NumPy writes, and CUDA graphs. ``torch.compile`` runs plain inside, and
    what insists on it (``fullgraph=True``, ``torch.export.export(..., strict=True)``,
    ``torch.cond`` under ``vmap``) raises, as ``torch.jit.trace`` of some functions does.
    The modules, optimizers and parameters that it saw, with their gradients, are kept alive
    until the block ends, and so are a hundred other leaves: memory that a program frees in
    between comes back only then, and a weak reference to them stays. The same object may be
    entered again, and knows the lines of its earlier blocks then, as from one cell of a
    notebook to the next.

    Args:
        check_functions: Compare the backward of each custom Function that ran with
            differences, on copies of what it took the first three times, in float64, when
            the block ends. It calls forward and backward of the Function again.
        strict: Report also what correct programs do on purpose, such as a ``clamp`` that
            stops gradients, gradients that add up, or several outputs in one ``grad``.
        without: Names of rules to leave out, of those in ``watch.RULES``.

    Raises:
        ValueError: A name in ``without`` is no rule's.
        RuntimeError: The same object is entered again while its block is open.

    Examples:
        >>> import torch, pullback
        >>> x = torch.zeros(2, requires_grad=True)
        >>> with pullback.watch() as seen:
        ...     x.pow(2).sum().sqrt().backward()
        >>> print(seen[0].message)
        An infinity first appeared in backward of Sqrt, and reached a gradient.
        >>> seen[0].page
        'norm-at-zero'
    """

    RULES = RULES

    def __init__(
        self,
        *,
        strict: bool = False,
        without: Collection[str] = (),
        check_functions: bool = False,
    ) -> None:
        unknown = sorted({*without} - {*RULES})
        if unknown:
            raise ValueError(
                f"without names {unknown[0]!r}, which is no rule; they are "
                f"{', '.join(RULES)}"
            )
        self._strict, self._check_functions = strict, check_functions
        self._without = frozenset(without)
        self._lines: Lines | None = None

    def __enter__(self) -> Findings:
        if hasattr(self, "_log"):
            raise RuntimeError(
                "this watch() is open already; a block inside it needs a watch() of its own"
            )
        log = Log(Findings(), self._strict, self._without, compares=self._check_functions)
        recorder = Recorder(log)
        recorder.__enter__()
        self._log, self._recorder = log, recorder
        self._raised: set[Site] = set()
        self._hearing = refused.errors_heard(self._heard)
        self._hearing.__enter__()
        if self._lines is not None:
            log.go_on(self._lines)
        LINES.append(self._line_of)
        return log.findings

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        LINES.remove(self._line_of)
        self._hearing.__exit__(None, None, None)
        self._recorder.__exit__(kind, error, traceback)
        if isinstance(error, RuntimeError):
            self._refused(error, REFUSED)
        self._recorder.finish()
        self._compare()
        self._lines = self._log.lines
        if isinstance(error, RuntimeError):
            self._refused(error, LAST)
        del self._log, self._recorder, self._hearing, self._raised

    def _compare(self) -> None:
        """Compare the custom Functions that ran, or say that they were not."""
        findings = self._log.findings
        seen = {
            kind: calls
            for kind, calls in self._log.functions.items()
            if not custom.told_of_v(findings, kind)
        }
        if self._check_functions and custom.RULE not in self._without:
            custom.compare(findings, seen)
            return
        for kind in seen:
            findings.not_compared(kind.__name__, custom.site_of(kind))

    def _refused(self, error: RuntimeError, looks: Looks) -> None:
        """Report what rules say of an error of backward that leaves the block."""
        findings = self._log.findings
        for finding in self._look(error, looks):
            known = [f for f in findings if f.site == finding.site]
            if not known:  # or else it is told already what is wrong with this line
                findings.add(finding)
            error.add_note(f"pullback.watch: {known[0] if known else finding}")

    def _heard(self, error: RuntimeError) -> None:
        """Keep what rules say of an error of backward, which the program may catch."""
        site = self._recorder.line_asked()
        if site is not None and site not in self._raised:
            self._raised.add(site)
            with out_of_sight():
                for finding in self._look(error, REFUSED | LAST):
                    self._log.findings.raised(finding, site)

    def _look(self, error: RuntimeError, looks: Looks) -> Iterator[Finding]:
        """Yield what rules say of an error of backward; none of them may raise another."""
        for name in looks.keys() - self._without:
            try:
                yield from [*looks[name](self._log, error)]
            except Exception as failure:
                why = f"{type(failure).__name__}: {failure}"
                self._log.findings.missed(f"the rule {name} failed: {why}")

    def _line_of(self, node: Node) -> str:
        """Return the line of the operation that a node was made for (:mod:`_graph`)."""
        made_for = self._log.made_for(number_of(node))
        return str(made_for.site) if made_for is not None and made_for.site else ""
