"""A log that no peer can fill: the first lines of each kind about each, then a count."""

import logging

import pytest

from fastlloyd.federation.transport.grpc.log import FIRST_LINES, SECONDS_PER_LINE, SparingLog

LOGGER = logging.getLogger("fastlloyd.test_log")
REFUSED, GONE = "client %s is refused: %s", "client %s is gone"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = list(caplog.messages)
    caplog.clear()
    return found


@pytest.fixture
def sparing(caplog: pytest.LogCaptureFixture) -> SparingLog:
    caplog.set_level(logging.INFO, LOGGER.name)
    return SparingLog(LOGGER, Clock())


def test_of_a_flood_the_first_lines_are_written_and_the_others_counted(
    sparing: SparingLog, caplog: pytest.LogCaptureFixture
) -> None:
    for n in range(1361):
        sparing.warning("c1", REFUSED, "c1", f"reason {n}")
    sparing.close()
    *first, count = lines(caplog)
    assert first == [f"client c1 is refused: reason {n}" for n in range(FIRST_LINES)]
    assert (
        count == f'c1: {1361 - FIRST_LINES} more lines like "client ... is refused: ..."'
        " were left out"
    )
    sparing.close()
    assert lines(caplog) == []


def test_a_flood_about_one_hides_no_other_line_about_it_and_none_about_others(
    sparing: SparingLog, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(1000):
        sparing.warning("c1", REFUSED, "c1", "a reason")
    lines(caplog)
    sparing.info("c1", GONE, "c1")
    sparing.warning("c2", REFUSED, "c2", "a reason")
    assert lines(caplog) == ["client c1 is gone", "client c2 is refused: a reason"]


def test_after_a_flood_lines_come_back_slowly_each_with_the_count_of_those_before_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, LOGGER.name)
    clock = Clock()
    sparing = SparingLog(LOGGER, clock)
    for _ in range(FIRST_LINES + 7):
        sparing.info("c1", GONE, "c1")
    lines(caplog)
    clock.now = SECONDS_PER_LINE / 2
    sparing.info("c1", GONE, "c1")
    assert lines(caplog) == []
    clock.now = SECONDS_PER_LINE
    sparing.info("c1", GONE, "c1")
    assert lines(caplog) == [
        'c1: 8 more lines like "client ... is gone" were left out',
        "client c1 is gone",
    ]
    clock.now *= 1e6
    for _ in range(FIRST_LINES + 1):
        sparing.info("c1", GONE, "c1")
    assert len(lines(caplog)) == FIRST_LINES
