"""The text of a question as a benchmark asks it: named jinja2 templates, rendered in a sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateError, TemplateSyntaxError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from datamodules.fields import SampleError


@dataclass(frozen=True, kw_only=True)
class PromptTemplate:
    r"""Several wordings of one benchmark's question, and which of them is used.

    A text may use ``question``, ``options`` (label -> text, empty where there are none) and
    ``meta`` (the sample's other fields, never its answer). Markers such as ``<image1>`` in the
    outcome are where the images go. Line breaks around ``{% ... %}`` are dropped.

    Args:
        texts: name -> jinja2 text, e.g. ``official`` and ``qwen3_vl``.
        use: name of the text that is used.
        systems: name -> system message that goes before the question in this wording, taken as it
            stands; the others have none.

    Example: ``PromptTemplate(texts={"official": "{{ question }}\nAnswer in one word."})``.

    Raises:
        ValueError: ``use`` or a system message names no text, or a text is no jinja2.
    """

    texts: dict[str, str]
    use: str = "official"
    systems: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.use not in self.texts:
            raise ValueError(
                f"template.use is {self.use!r}; there are {', '.join(self.texts) or 'no texts'}"
            )
        if strange := sorted(self.systems.keys() - self.texts.keys()):
            raise ValueError(
                f"template.systems has {', '.join(strange)}; there are {', '.join(self.texts)}"
            )
        for name, text in self.texts.items():
            try:
                _compiled(text)
            except TemplateSyntaxError as error:
                raise ValueError(
                    f"template.texts.{name}, line {error.lineno}: {error.message}"
                ) from None

    def __str__(self) -> str:
        before = f"(system: {self.system}) " if self.system else ""
        return f"{self.use}: {before}{self.text}"

    @property
    def text(self) -> str:
        """The text that is used."""
        return self.texts[self.use]

    @property
    def system(self) -> str:
        """The system message of the text that is used, empty where it has none."""
        return self.systems.get(self.use, "")

    def render(self, question: str, options: Mapping[str, str], meta: Mapping[str, Any]) -> str:
        """Fill the text that is used, without blanks around it.

        Raises:
            SampleError: the text needs a field that the sample doesn't have.
        """
        try:
            filled = _compiled(self.text).render(question=question, options=options, meta=meta)
        # A filter that doesn't suit a value raises what it likes (TypeError, ...).
        except (TemplateError, TypeError, ValueError, ArithmeticError) as error:
            raise SampleError(
                "missing_question",
                f"the template {self.use!r} can't be filled ({error}); it may use question, options"
                f" and meta, which holds {', '.join(sorted(meta)) or 'nothing'}",
            ) from None
        return filled.strip()


@lru_cache(maxsize=256)
def _compiled(text: str) -> Template:
    return _ENVIRONMENT.from_string(text)


# Sandboxed: a template comes with a config, and no config may run code.
_ENVIRONMENT = ImmutableSandboxedEnvironment(
    undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
)
