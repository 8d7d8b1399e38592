"""A page as a browser would take it: its elements, their attributes, its text.

Strict where a browser is lenient: an element that may not be on a page, a handler or a style in an
attribute, or an end tag that closes nothing fails at once.
"""

from dataclasses import dataclass, field
from html.parser import HTMLParser

ELEMENTS = frozenset(
    [
        "html",
        "head",
        "meta",
        "title",
        "link",
        "script",
        "body",
        "a",
        "header",
        "nav",
        "form",
        "span",
        "button",
        "main",
        "svg",
        "path",
        "circle",
        "rect",
        "g",
        "symbol",
        "use",
        "text",
        "div",
        "h1",
        "h2",
        "h3",
        "label",
        "input",
        "select",
        "option",
        "section",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "time",
        "p",
        "ul",
        "ol",
        "li",
        "dl",
        "dt",
        "dd",
        "details",
        "summary",
        "code",
        "b",
        "br",
        "i",
        "noscript",
        "pre",
        "textarea",
    ]
)
EMPTY = frozenset({"meta", "link", "input", "br"})


@dataclass
class Page(HTMLParser):
    """One page, read."""

    html: str
    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._open: list[str] = []
        self.feed(self.html)
        self.close()
        assert not self._open, f"not closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ELEMENTS, f"<{tag}> may not be on a page"
        for name, value in attrs:
            assert not name.startswith("on"), f"a handler in <{tag} {name}>"
            assert name != "style", f"a style in <{tag}>"
            if name in ("href", "src", "action"):
                assert value is not None
                assert value.startswith(("/", "#")), f"{name}={value!r} leads away"
                assert not value.startswith("//")
        self.elements.append((tag, dict(attrs)))
        if tag not in EMPTY:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in EMPTY:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        if self._open[-1:] == ["script"]:
            assert not data.strip(), "a script in the page"
        self.texts.append(data)

    @property
    def text(self) -> str:
        """All text, runs of blanks as one."""
        return " ".join("".join(self.texts).split())

    def all(self, tag: str, **attributes: str) -> list[dict[str, str | None]]:
        """The attributes of each `tag` that has `attributes` (`data_x` for data-x)."""
        wanted = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
        return [attrs for name, attrs in self.elements if name == tag and wanted.items() <= attrs.items()]
