"""Who is asking, and what they may do: one function decides, and denies by default.

A token is random and kept only as its hash. What a token may not see looks exactly like what is not
there. Runner tokens may work on their own attempts and nothing else.
"""

import hashlib
import secrets
from dataclasses import dataclass, field
from typing import Literal

from hub.errors import Forbidden, NotFound
from hub.wire.fleet import Scope

Kind = Literal["read", "submit", "images", "admin", "runner"]
Action = Literal["read", "submit", "images", "admin", "work"]

ALLOWS: dict[str, frozenset[str]] = {
    "read": frozenset({"read"}),
    "submit": frozenset({"read", "submit"}),
    "images": frozenset({"read", "images"}),
    "admin": frozenset({"read", "submit", "images", "admin"}),
    "runner": frozenset({"work"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """The holder of a token. `scope`: all projects where both its parts are None."""

    name: str
    kind: Kind
    scope: Scope = field(default_factory=Scope)
    token_id: int | None = None
    expires_ms: int | None = None

    @property
    def everywhere(self) -> bool:
        """Whether it reaches every project."""
        return self.scope.owner is None and self.scope.project is None


@dataclass(slots=True)
class Tokens:
    """Every valid token by the hash of its secret, so that a call costs no query. Kept up by `tokens`."""

    by_hash: dict[str, Principal] = field(default_factory=dict)
    used_ms: dict[int, int] = field(default_factory=dict)  # token id -> last use, not yet written


def new_secret(prefix: str) -> str:
    """A fresh secret: 256 random bits behind a prefix that says what it is for."""
    return f"{prefix}_{secrets.token_urlsafe(32)}"


def hash_secret(secret: str) -> str:
    """What is kept of a secret. A plain hash is enough: the secret has 256 random bits."""
    return hashlib.sha256(secret.encode()).hexdigest()


def find(tokens: Tokens, secret: str, now_ms: int) -> Principal | None:
    """The holder of `secret`; None: unknown, revoked or expired."""
    principal = tokens.by_hash.get(hash_secret(secret))
    if principal is None or (principal.expires_ms is not None and now_ms >= principal.expires_ms):
        return None
    if principal.token_id is not None:
        tokens.used_ms[principal.token_id] = now_ms
    return principal


def reaches(scope: Scope, project: str) -> bool:
    """Whether `project` ("owner/name") lies within `scope`."""
    if scope.project is not None:
        return project == scope.project
    return scope.owner is None or project.partition("/")[0] == scope.owner


def authorise(principal: Principal, action: Action, project: str | None = None) -> None:
    """Let `principal` do `action`, on `project` where one is concerned, or raise.

    NotFound for a project beyond its reach, as if it were not there; Forbidden where the project is
    known to it but the action is not allowed, or where the action is the whole hub's.
    """
    if project is not None and principal.kind != "runner" and not reaches(principal.scope, project):
        raise NotFound("there is no such thing here, or your token does not reach it")
    if action not in ALLOWS[principal.kind]:
        raise Forbidden(f"a {principal.kind} token may not do this: it takes one of kind {_kinds(action)}")
    if action == "admin" and not principal.everywhere:
        raise Forbidden("this concerns the whole hub: it takes an admin token for all projects")


def _kinds(action: Action) -> str:
    return " or ".join(kind for kind, actions in ALLOWS.items() if action in actions)
