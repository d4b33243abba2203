"""Counts a build's money before it is spent, and says how long to wait after a limit or a failure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

_SLACK = timedelta(seconds=5)  # clocks differ
_LONGEST_PAUSE = timedelta(hours=24)
_FIRST_PAUSE_S, _LAST_PAUSE_S = 60.0, 30 * 60.0
_FIRST_BACK_OFF_S, _LAST_BACK_OFF_S = 10.0, 10 * 60.0


@dataclass(frozen=True)
class Budget:
    """What a build may spend. While every attempt keeps to its cap and one turn, spent and reserved stay in the limit."""

    limit_usd: float | None
    spent_usd: float = 0.0
    reserved: Mapping[str, float] = field(default_factory=dict)  # attempt -> its worst-case cost in USD

    @property
    def left_usd(self) -> float:
        """Neither spent nor reserved: infinite without a limit, negative when an attempt cost more than it was granted."""
        if self.limit_usd is None:
            return math.inf
        return self.limit_usd - math.fsum((self.spent_usd, *self.reserved.values()))


@dataclass(frozen=True)
class Pause:
    """The whole build starts nothing before `until`."""

    until: datetime
    reason: str


def reserve(
    budget: Budget, key: str, *, cap_usd: float, turn_usd: float, minimum_usd: float
) -> tuple[Budget, float] | None:
    """Set aside the worst case of an attempt, a cap plus one turn, and answer the cap.

    The cap is checked after a turn, hence the turn. It shrinks to what is left, but not below the minimum or nothing:
    then None, and the build must start nothing more. Raises ValueError when the key has a reservation.
    """
    if key in budget.reserved:
        raise ValueError(f"{key} has a reservation already")
    grant_usd = min(budget.left_usd - turn_usd, cap_usd)  # in this order NaN is kept, and refused below
    if not (grant_usd > 0 and grant_usd >= min(minimum_usd, cap_usd)):
        return None
    return replace(budget, reserved={**budget.reserved, key: grant_usd + turn_usd}), grant_usd


def settle(budget: Budget, key: str, cost_usd: float | None) -> Budget:
    """Turn a reservation into what was spent. A cost that is not known, or no amount, counts as the whole reservation.

    Raises KeyError when the key has no reservation, so that no cost is counted twice.
    """
    reserved = dict(budget.reserved)
    worst_usd = reserved.pop(key)
    known = cost_usd is not None and math.isfinite(cost_usd) and cost_usd >= 0
    spent_usd = cost_usd if known and cost_usd is not None else worst_usd
    return replace(budget, spent_usd=budget.spent_usd + spent_usd, reserved=reserved)


def pause_until(now: datetime, *, resets_at: datetime | None, tries: int) -> Pause:
    """How long a limit pauses the build; `tries` counts the pauses in a row with this one, from 1.

    A reset that is over already is no reason to try at once again: it counts as not known.
    """
    if resets_at is not None and resets_at > now:
        until = min(resets_at, now + _LONGEST_PAUSE - _SLACK) + _SLACK
        return Pause(until, f"the usage limit resets at {resets_at:%Y-%m-%d %H:%M %Z}")
    wait_s = _doubling_s(tries, first_s=_FIRST_PAUSE_S, last_s=_LAST_PAUSE_S)
    return Pause(
        now + timedelta(seconds=wait_s),
        f"the model is limited or overloaded (pause {max(tries, 1)} in a row)",
    )


def back_off_s(attempts: int) -> float:
    """How long a feature waits after so many failed attempts, in seconds; without jitter."""
    if attempts < 1:
        return 0.0
    return _doubling_s(attempts, first_s=_FIRST_BACK_OFF_S, last_s=_LAST_BACK_OFF_S)


def _doubling_s(count: int, *, first_s: float, last_s: float) -> float:
    return min(last_s, first_s * 2.0 ** min(max(count - 1, 0), 30))
