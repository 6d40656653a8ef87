"""What differs between the outputs of a task and the catalogue, in words."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Differences:
    """Numbers of files, each with the name of one of them.

    `n_missing`: finished, and still not in the catalogue; `n_unlike`: of another size or checksum there;
    `n_unexpected`: in the catalogue, and written by no task.
    """

    n_missing: int = 0
    one_missing: str | None = None
    n_unlike: int = 0
    one_unlike: str | None = None
    n_unexpected: int = 0
    one_unexpected: str | None = None
    n_registered_again: int = 0
    n_logs_without_copies: int = 0

    def in_words(self) -> str | None:
        """One sentence for people; None if contents and catalogue agree.

        Example: "2 of its outputs are not in the catalogue (hist.7.root)".
        """
        told = [
            f"{number} of its outputs {words} ({example})"
            for number, words, example in (
                (self.n_missing, "are not in the catalogue", self.one_missing),
                (self.n_unlike, "have another size or checksum in the catalogue", self.one_unlike),
            )
            if number
        ]
        if self.n_unexpected:
            told.append(f"{self.n_unexpected} files in its datasets were written by no task ({self.one_unexpected})")
        if self.n_logs_without_copies:
            told.append(f"{self.n_logs_without_copies} logs without any copy were taken out of their datasets")
        return "; ".join(told) or None
