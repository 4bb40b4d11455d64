"""What measures are called where people read them, and which way is better."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A measure by its column in the results; better is -1 where less is better, 1 where more is, 0 where nobody has said."""

    column: str
    title: str
    unit: str = ""
    better: int = 0

    @property
    def axis(self) -> str:
        """The label of an axis."""
        return f"{self.title}, {self.unit}" if self.unit else self.title


_KNOWN = (
    Quantity(column="nicv", title="NICV", unit="scaled units", better=-1),
    Quantity(column="silhouette", title="Silhouette score", better=1),
    Quantity(column="davies_bouldin", title="Davies-Bouldin index", better=-1),
    Quantity(column="centroid_mse", title="Centroid MSE", unit="scaled units", better=-1),
    Quantity(column="wcss", title="WCSS", unit="scaled units", better=-1),
    Quantity(column="n_empty", title="Empty clusters", better=-1),
)
LABELS = {"lloyd": "Lloyd", "sulloyd": "SuLloyd", "glloyd": "GLloyd", "fastlloyd": "FastLloyd"}
"""The methods of the paper, in the order in which it lists them."""


def quantity(column: str) -> Quantity:
    """The quantity of a column; a measure of the user's own is called by its column."""
    return next((known for known in _KNOWN if known.column == column), Quantity(column=column, title=column.replace("_", " ")))


def in_order(columns: set[str]) -> list[str]:
    """The measures of the paper first, as it lists them, then all others by name."""
    known = [each.column for each in _KNOWN]
    return [column for column in known if column in columns] + sorted(columns.difference(known))
