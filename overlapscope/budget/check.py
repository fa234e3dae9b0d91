"""`check`: compare the figures of a trace with limits, and with a stored baseline."""

from __future__ import annotations

from collections.abc import Iterator

from overlapscope.analysis.analysis import Analysis, Source, analyse
from overlapscope.budget.baseline import Baseline, Figures, limits_of
from overlapscope.budget.configuration import validated
from overlapscope.budget.figures import Figure, measured, missing, stored
from overlapscope.budget.limits import Budget, Limit, Limits
from overlapscope.budget.result import Against, CheckResult, Outcome, Status
from overlapscope.budget.scope import Scope, scope_of
from overlapscope.diagnosis.catalogue import rule
from overlapscope.diagnosis.finding import Finding
from overlapscope.errors import RangeNotFound


def check(source: Source, budget: Budget, baseline: Baseline | None = None) -> CheckResult:
    """Check a trace against limits, and against a baseline where there is one.

    A limit that the trace cannot show to be kept is *not measured*: on a range that it does not have, or on calls that
    were not recorded. It fails unless the budget says that it passes.

    Args:
        source: an opened trace, its path, or an analysis.
        budget: the limits; `read_budget` reads them from a file.
        baseline: figures of an earlier trace, which may not become worse than the budget's tolerances allow.

    Raises:
        BudgetNotUnderstood: a limit is malformed, or the baseline has no figures of a range that is in the budget.
    """
    analysis = analyse(source)
    outcomes: list[Outcome] = []
    for name, given in budget.scopes.items():
        limits = validated(given, () if name is None else ("ranges", name))
        before = None if baseline is None else baseline.of(name)
        if before is not None or list(limits):
            scope = _scope(analysis, name, plan=before is not None or limits.saving_share is not None)
            outcomes += _outcomes(scope, name, limits, before, budget)
    return CheckResult(analysis, tuple(outcomes), budget.pass_unmeasured)


def baseline_of(source: Source, budget: Budget) -> Baseline:
    """The figures of a trace and of each range of a budget, to compare later traces with.

    Raises:
        RangeNotFound: the trace does not have one of the ranges.
    """
    analysis = analyse(source)
    return Baseline({name: stored(scope_of(analysis, name)) for name in budget.scopes})


def _scope(analysis: Analysis, name: str | None, *, plan: bool) -> Scope | str:
    """The scope, or why the trace does not have it."""
    try:
        return scope_of(analysis, name, plan=plan)
    except RangeNotFound as error:
        return str(error)


def _outcomes(
    scope: Scope | str, name: str | None, limits: Limits, before: Figures | None, budget: Budget
) -> Iterator[Outcome]:
    yield from (_outcome(scope, name, limit, Against.LIMIT) for limit in limits)
    if before is not None:
        now = [] if isinstance(scope, str) else [finding.code for finding in scope.diagnosis.findings]
        stricter = limits_of(before, budget.tolerances, now)
        outcomes = (_outcome(scope, name, limit, Against.BASELINE) for limit in stricter)
        yield from (outcome for outcome in outcomes if not _of_absent_cause(outcome))


def _of_absent_cause(outcome: Outcome) -> bool:
    """Whether an outcome is of a cause that the trace has no idle time of: there are many."""
    return outcome.status is Status.PASSED and not outcome.value and outcome.limit.startswith("idle_share.")


def _outcome(scope: Scope | str, name: str | None, limit: Limit, against: Against) -> Outcome:
    figure = missing(scope) if isinstance(scope, str) else measured(scope, limit.name, limit.part)
    status = _status(limit, figure)
    passed = status is Status.PASSED
    findings = [] if isinstance(scope, str) or passed else scope.diagnosis.findings
    finding = next((finding for finding in findings if finding.code == figure.rule), None)
    return Outcome(
        range=name,
        limit=limit.key,
        against=against,
        status=status,
        value=figure.value,
        allowed=limit.allowed,
        unit=limit.kind.unit,
        message=_message(limit, figure, status),
        rule=None if passed else figure.rule,
        finding=None if finding is None else finding.message,
        places=() if passed else figure.places,
        fix=None if passed else _fix(figure, finding),
    )


def _fix(figure: Figure, finding: Finding | None) -> str | None:
    """The fix of the finding, the same under every limit; without a finding, the fix that fits the first place."""
    if not figure.places or figure.rule is None:
        return None
    return rule(figure.rule).fix_for(figure.places[0].where) if finding is None else finding.fix


def _status(limit: Limit, figure: Figure) -> Status:
    if figure.value is None:
        return Status.NOT_MEASURED
    if not limit.allows(figure.value):
        return Status.FAILED
    return Status.NOT_MEASURED if figure.doubt else Status.PASSED


def _message(limit: Limit, figure: Figure, status: Status) -> str:
    if figure.value is None:
        return figure.missing
    shown = limit.kind.unit.shown
    at = f" ({figure.worst})" if figure.worst else ""
    bound = f"at {'least' if limit.kind.at_least else 'most'} {shown(limit.allowed)} allowed"
    text = f"{limit.words}: {shown(figure.value)}{at}, {bound}"
    return f"{text}, but {figure.doubt}" if status is Status.NOT_MEASURED else text
