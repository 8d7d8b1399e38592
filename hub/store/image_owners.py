"""Whose an image, a name or a claim is, and the one condition by which a reader's reach is asked.

The empty text stands for all: Holder("", "") is everybody or reads everything, Holder("andy", "") is
all of andy's projects, Holder("andy", "andy/demo") that one project.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Holder:
    """All projects, one owner's, or one. A value of the store: no None, so that it can be a key."""

    owner: str = ""
    project: str = ""

    def serves(self, project: str) -> bool:
        """Whether what is this holder's may be used by jobs of `project` ("owner/name")."""
        return self.owner in ("", project.partition("/")[0]) and self.project in ("", project)

    def reads(self, other: "Holder") -> bool:
        """Whether this holder may read what is `other`'s. The same rule as `may_read`."""
        if not self.owner or not other.owner:
            return True
        return self.owner == other.owner and (not self.project or other.project in ("", self.project))

    def rules(self, other: "Holder") -> bool:
        """Whether this holder may take away what is `other`'s: nobody but those whose it is, or above."""
        return self.owner in ("", other.owner) and self.project in ("", other.project)

    @property
    def parameters(self) -> dict[str, str]:
        """What `may_read` and the like refer to."""
        return {"owner": self.owner, "project": self.project}


def may_read(reader: Holder, alias: str) -> str:
    """SQL: whether rows of `alias` (with `owner`, `project`) are within `reader`'s reach.

    Refers to the parameters `owner` and `project`, those of `reader`. The same rule as `Holder.reads`.
    """
    if not reader.owner:
        return "1 = 1"
    if not reader.project:
        return f"{alias}.owner IN ('', :owner)"
    return f"({alias}.owner = '' OR ({alias}.owner = :owner AND {alias}.project IN ('', :project)))"
