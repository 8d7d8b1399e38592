"""Where the files stand that are not code: `templates/` and `migrations/`.

In the wheel they ride inside the package, as hub/templates and hub/migrations; in an editable
install and in a bare checkout they stand at the top. Nobody else works out a path from `__file__`.
"""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def templates() -> Path:
    """The folder of the pages and of `static/`. Raises FileNotFoundError where the installation lacks it."""
    return _folder("templates")


def migrations() -> Path:
    """The folder of the Alembic scripts. Raises FileNotFoundError where the installation lacks it."""
    return _folder("migrations")


def _folder(name: str) -> Path:
    for parent in (_PACKAGE, _PACKAGE.parent):
        if (parent / name).is_dir():
            return parent / name
    raise FileNotFoundError(
        f"{name}/ is neither in {_PACKAGE} nor beside it: the installation is incomplete, install it again"
    )
