"""Question asked of persons: every row answers it for each of its shares.

A person has W shares. The answer is a sum over rows of w a(x), where a(x) is the integer vector
that the row x adds to the answer for records, and the w of a person's rows add up to at most W. So
it is the answer for a table with w copies of each row. The client multiplies, and of the question
only the sensitivity changes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from fastlloyd.base.arrays import IntArray
from fastlloyd.mechanisms.persons import Persons
from fastlloyd.mechanisms.queries.inequalities import Inequality
from fastlloyd.mechanisms.queries.parameters import Parameter
from fastlloyd.mechanisms.queries.query import Question
from fastlloyd.mechanisms.queries.sensitivity import Sensitivity


@dataclass(frozen=True, kw_only=True)
class InShares(Question):
    """`question`, asked of the rows of `persons`; `answer` is for rows of one share each."""

    question: Question
    persons: Persons

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Return the parts of the question."""
        return self.question.parameters

    @property
    def n_rows(self) -> int:
        """Return the number of rows of the question."""
        return self.question.n_rows

    @property
    def parts(self) -> tuple[int, ...]:
        """Return the parameters of the question."""
        return self.question.parts

    @property
    def digest_prefix(self) -> bytes:
        """Return the prefix of the question."""
        return self.question.digest_prefix

    @property
    def answer(self) -> Callable[..., IntArray]:
        """The exact answer for rows of one share each."""
        return self.question.answer

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """Return the largest change of the answer by one person (`Sensitivity.of_persons`)."""
        return self.question.sensitivity.of_persons(self.persons)

    def inequalities(self, answer: IntArray, n_records: int) -> tuple[Inequality, ...]:
        """Return the inequalities for as many records as `n_records` persons have shares."""
        return self.question.inequalities(answer, n_records * self.persons.shares)


def in_shares(question: Question, persons: Persons | None) -> Question:
    """The question as it is asked of persons; itself where each record stands for itself."""
    return question if persons is None else InShares(question=question, persons=persons)
