"""Which hub, and with which token: flags, then the environment, then what `shunter login` stored.

The invariant: a stored token goes only to the hub it was stored for, and the file that keeps it is
its owner's alone (0600), written whole or not at all.
"""

import json
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from hub.cli.errors import Usage

DEFAULT_URL = "http://127.0.0.1:8417"
MAX_FILE_BYTES = 2**20  # a login is under 300 bytes; nobody has thousands of hubs

_TOKEN = re.compile(r"[A-Za-z0-9._~-]{8,200}")  # hub.wire.base.Secret, without loading pydantic


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where requests go. `token` None: none was given or stored, and the hub will say so."""

    url: str
    token: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Logins:
    """What is stored: a token per hub, and the hub that is meant when none is named."""

    default: str | None
    tokens: Mapping[str, str]


def target(url: str | None, token: str | None, environ: Mapping[str, str]) -> Target:
    """The hub and token that a command means. Raises Usage where a word is no address or no token."""
    url = url or environ.get("SHUNTER_URL") or None
    token = token or environ.get("SHUNTER_TOKEN") or None
    if url is not None and token is not None:
        return Target(url=clean_url(url), token=clean_token(token))
    stored = load(path(environ))
    where = clean_url(url or stored.default or DEFAULT_URL)
    token = token or stored.tokens.get(where)
    return Target(url=where, token=clean_token(token) if token else None)


def clean_url(text: str) -> str:
    """A hub's address without a slash at its end; `host:port` alone means http. Raises Usage."""
    text = text.strip()
    parts = urlsplit(text if "://" in text else f"http://{text}")
    try:
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or parts.username or parts.query or parts.fragment or re.search(r"[\s\x00-\x1f]", text):
        raise Usage(f"{text!r} is not a hub's address, such as {DEFAULT_URL}")
    return f"{parts.scheme}://{parts.netloc.lower()}{parts.path}".rstrip("/")


def clean_token(text: str) -> str:
    """The token without the white space that files and copying add. Raises Usage, without showing it."""
    text = text.strip()
    if not _TOKEN.fullmatch(text):
        raise Usage("the token is not one: 8 to 200 letters, digits and . _ ~ - (is it cut off?)")
    return text


def path(environ: Mapping[str, str]) -> Path:
    """The file of logins: `$XDG_CONFIG_HOME/shunter/login.json`, `~/.config` where that is not set."""
    base = environ.get("XDG_CONFIG_HOME") or ""
    # The XDG standard: a relative path there is to be ignored.
    folder = Path(base) if base.startswith("/") else Path(environ.get("HOME") or Path.home()) / ".config"
    return folder / "shunter" / "login.json"


def load(file: Path) -> Logins:
    """What the file holds; nothing where it is not there. Raises Usage where it cannot be trusted or read."""
    try:
        with file.open("rb") as source:
            mode = os.fstat(source.fileno()).st_mode
            content = source.read(MAX_FILE_BYTES)
    except FileNotFoundError:
        return Logins(default=None, tokens={})
    except OSError as error:
        raise Usage(f"{file} cannot be read: {error.strerror}") from None
    if mode & 0o077:
        raise Usage(f"{file} holds tokens and others may read it: chmod 600 {file}")
    try:
        stored = json.loads(content)
        tokens = {str(url): str(token) for url, token in stored["hubs"].items()}
        default = stored.get("default")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Usage(f"{file} is damaged: remove it and run `shunter login` again") from None
    return Logins(default=default if default in tokens else None, tokens=tokens)


def remember(file: Path, url: str, token: str) -> None:
    """Store the token for the hub, which is meant from now on where none is named."""
    _save(file, Logins(default=url, tokens={**load(file).tokens, url: token}))


def forget(file: Path, url: str) -> bool:
    """Remove the hub's token; False: there was none."""
    stored = load(file)
    if url not in stored.tokens:
        return False
    left = {known: token for known, token in stored.tokens.items() if known != url}
    default = stored.default if stored.default in left else next(iter(left), None)
    _save(file, Logins(default=default, tokens=left))
    return True


def _save(file: Path, logins: Logins) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # mkstemp makes the file 0600 from the first moment; the rename makes it whole or absent.
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=".login-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as target_file:
            json.dump({"default": logins.default, "hubs": dict(logins.tokens)}, target_file, indent=2)
            target_file.write("\n")
            target_file.flush()
            os.fsync(target_file.fileno())
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
