"""Which two data sets the guarantee compares."""

import enum


class NeighboringRelation(enum.Enum):
    """When two data sets are neighbours, so that their releases must be hard to tell apart.

    The unit of protection is one record; the plan may protect a group of records by calibrating for its size.

    ADD_OR_REMOVE_ONE
        One data set is the other plus one record. The number of records is itself protected.
    REPLACE_ONE
        Both hold the same number of records and differ in one of them. The number of records is public. A release that
        is mu-GDP under ADD_OR_REMOVE_ONE is 2 mu-GDP under this relation, and often less: see the query's sensitivity.
    """

    ADD_OR_REMOVE_ONE = "add_or_remove_one"
    REPLACE_ONE = "replace_one"
