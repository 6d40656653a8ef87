"""Brings up a system, attacks it, and says what held; exit code 1 where anything did not."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import httpx

from services.cli.tokens import names_of
from tests.attack.attacks import Attack, all_attacks
from tests.attack.canaries import Canaries
from tests.attack.ground import GotThrough, Ground
from tests.attack.matrix import Matrix, Row, summary
from tests.attack.people import People
from tests.attack.rows import Rows
from tests.attack.stage import Stage
from tests.attack.system import AttackedSystem, attacked_system

#: until a revocation is in force everywhere
REVOKED_WITHIN_S = 10.0
LONGEST_TEXT = 600
#: what --only says to leave out all but the matrix
MATRIX = "matrix"


@dataclass(frozen=True)
class Result:
    """What became of one attack; `text` empty: it was repelled."""

    attack: Attack
    text: str
    seconds: float


def main(arguments: Sequence[str] | None = None) -> int:
    """The whole run; its exit code."""
    parser = argparse.ArgumentParser(prog="make attack", description=__doc__)
    parser.add_argument("--small", action="store_true", help="less of everything: under two minutes")
    parser.add_argument("--only", default="", metavar="TEXT", help="attacks whose topic or line holds it, or matrix")
    given = parser.parse_args(arguments)
    started = time.monotonic()
    with attacked_system(_say) as system:
        _say(f"the system is up at {system.address}")
        limits = httpx.Limits(max_connections=200)
        with httpx.Client(base_url=system.address, trust_env=False, timeout=60, limits=limits) as http:
            is_whole = _attack(system, http, small=given.small, only=given.only)
    _say(f"{time.monotonic() - started:.0f} s in all")
    return 0 if is_whole else 1


def _attack(system: AttackedSystem, http: httpx.Client, *, small: bool, only: str) -> bool:
    people, canaries, rows = People(system, http), Canaries(), Rows(system.database_url)
    try:
        revoked = _revoked_token(system, people)
        revoked_at = time.monotonic()
        ground = Ground(system, people, canaries, Stage(people, canaries), rows, small)
        ground.stage.set()
        _say("the stage is set")
        wanted = [one for one in all_attacks() if (not small or not one.full) and only in f"{one.topic} {one.says}"]
        begun = {one.says: one.begins(ground) for one in wanted if one.begins is not None}
        time.sleep(max(0.0, revoked_at + REVOKED_WITHIN_S - time.monotonic()))
        matrix = Matrix(ground, revoked)
        with_matrix = only in ("", MATRIX)
        if with_matrix:
            _timed("the matrix of what must not be", matrix.run)
            unread = matrix.seen_by_nobody()
            _say(f"planted, and read by nobody who may: {', '.join(unread) or 'nothing'}")
        results = [_run(ground, one, begun) for one in wanted]
        if with_matrix:
            _timed("the matrix of what may be", matrix.change)
        return _report(matrix.missing() + (matrix.blind() if with_matrix else []), matrix.rows(), results)
    finally:
        rows.close()


def _timed(what: str, run: Callable[[], None]) -> None:
    before = time.monotonic()
    run()
    _say(f"{what}: {time.monotonic() - before:.0f} s")


def _revoked_token(system: AttackedSystem, people: People) -> str:
    """A token of somebody that was revoked just now."""
    token = system.authority.issue("ada", ["operator"], ["atlas"])
    said = {"token_id": names_of(token)[0], "reason": "stolen"}
    people.operator.done(people.operator.post("/api/v1/token/revoke", said))
    return token


def _run(ground: Ground, one: Attack, begun: dict[str, object]) -> Result:
    before = time.monotonic()
    try:
        one.runs(ground, *([begun[one.says]] if one.begins is not None else []))
        text = ""
    except GotThrough as success:
        text = str(success) or "it got through"
    except Exception as error:  # an attack that cannot be carried out proves nothing
        text = f"could not be carried out: {type(error).__name__}: {error}"
    took = time.monotonic() - before
    _say(f"{'THROUGH' if text else 'held':8}{took:6.1f} s  {one.topic}: {one.says}")
    return Result(one, text, took)


def _report(missing: Sequence[str], cells: Sequence[Row], results: Sequence[Result]) -> bool:
    """Print what held and what did not; whether everything did."""
    n_cells, n_wrong = sum(row.n_cells for row in cells), sum(len(row.wrong) for row in cells)
    for line in missing:
        print(f"MISSING  {line}")
    for line in summary(cells):
        print(line if line.startswith(" ") else f"LEAKS    {line}")
    print(f"\n{'':9}{'topic':12}{'seconds':>7}  attack")
    for one in results:
        print(f"{'THROUGH' if one.text else 'held':9}{one.attack.topic:12}{one.seconds:7.1f}  {one.attack.says}")
        if one.text:
            print(f"{'':30}{one.text[:LONGEST_TEXT]}")
    n_through = sum(bool(one.text) for one in results)
    print(
        f"\nmatrix: {n_cells - n_wrong} of {n_cells} cells of {len(cells)} routes held; {len(missing)} routes missing"
    )
    print(f"attacks: {len(results) - n_through} of {len(results)} were repelled")
    is_whole = not missing and not n_wrong and not n_through
    print("everything held" if is_whole else "FAILED")
    return is_whole


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
